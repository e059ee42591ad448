"""The situations that every dialect's fixtures cover: one file each, or several with a variant in their name.

`fixtures/DIALECT/POINT.json` or `fixtures/DIALECT/POINT.VARIANT.json`; a dialect whose format cannot have a situation says why in
`fixtures/DIALECT/absent.toml`.
"""

from __future__ import annotations

POINTS: dict[str, str] = {
    "text-only": "a turn without any call",
    "fragmented-json": "arguments in pieces that are no JSON by themselves",
    "interleaved-calls": "two calls whose pieces alternate",
    "delayed-identity": "the id or the name comes after the first piece",
    "empty-deltas": "pieces without text, deltas without anything",
    "unicode-split": "characters outside ASCII, escaped and not, at the borders of pieces",
    "reused-index": "a second call at the key of the first",
    "malformed-json": "arguments that are no JSON, or not JSON alone",
    "schema-invalid": "arguments that the tool's schema refuses",
    "duplicate-terminal": "a terminal that comes twice",
    "delta-after-terminal": "a piece after the terminal",
    "truncation": "the end at the worst places: inside a call, after a whole object, before the last event",
    "wrong-terminal-reason": "calls behind a reason that does not promise them whole",
    "cancellation": "the client leaves before the terminal",
    "reconnect-replay": "a relay reconnects and sends again what was sent",
    "renamed-tool": "the name changes, or is none that was declared",
    "new-turn": "another response begins while old pieces still arrive",
    "no-argument-tool": "a tool without arguments, in each form that the format has",
    "text-after-tool": "text behind a call",
    "provider-run-tool": "a call that the provider itself runs",
    "unknown-event": "something that the format does not define",
    "keep-alives": "comments, blank lines, pings between the pieces",
    "non-streamed": "the same turn as one JSON body",
}
"""Each point and what its fixtures show."""


def point_of(stem: str) -> str:
    """The point that a file of this name, without `.json`, belongs to."""
    return stem.partition(".")[0]
