"""The content blocks of one Anthropic message: which are calls, who runs them, and what a block's own events say of it.

All blocks are kept, whichever is a call: only a block that is known to be none makes its deltas harmless. The table from the wire
to these events, with its source, stands in `anthropic_messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from turngate.core.event import (
    Defect,
    Event,
    Fragment,
    Prose,
    RunsOn,
    SlotClosed,
    SlotCopied,
    SlotIdentified,
    SlotOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.dialects.anthropic_json import raw_input
from turngate.dialects.base import exact_text, identified, is_index, text_or_none, twins, wire_word

KNOWN: Final = frozenset(
    {
        "type", "index", "message", "content", "content_block", "delta", "partial_json", "input", "name", "id",
        "stop_reason", "toolset_name", "error",
    }
)  # fmt: skip
"""The keys that mean something, in an event and at any depth of it."""

HARMLESS_BLOCKS: Final = frozenset(
    {
        "text", "thinking", "redacted_thinking", "container_upload", "compaction", "fallback", "mcp_tool_listing",
        "search_result", "image", "document",
    }
)  # fmt: skip
_CALL_BLOCKS: Final = {
    "tool_use": RunsOn.AGENT,
    "server_tool_use": RunsOn.PROVIDER,
    "mcp_tool_use": RunsOn.PROVIDER,
}
_TEXT_DELTAS: Final = frozenset(
    {"text_delta", "thinking_delta", "signature_delta", "citations_delta", "compaction_delta"}
)


@dataclass(slots=True)
class _Block:
    """A content block that has started. `runs_on` is None where it is no call."""

    kind: str
    runs_on: RunsOn | None
    harmless: bool = True
    open: bool = True
    whole: bool = False
    """Whether its start already brought its whole input."""


class Content:
    """The blocks so far. `harmless` are kinds that the deployment knows to carry no call."""

    def __init__(self, harmless: frozenset[str]) -> None:
        self._harmless = harmless
        self._blocks: dict[int, _Block] = {}
        self._last: _Block | None = None
        self.open_text: set[int] = set()
        """The indexes of open blocks of text, the state that nearly every frame meets."""
        self.open_calls: set[int] = set()
        """The indexes of open blocks with a call that the agent would run, the state that most others meet."""

    @property
    def open(self) -> frozenset[int]:
        """The indexes of all open blocks."""
        return frozenset(index for index, block in self._blocks.items() if block.open)

    @property
    def next_index(self) -> int:
        """The first index behind all blocks."""
        return max(self._blocks, default=-1) + 1

    def start(self, value: Mapping[str, Any], data: bytes) -> list[Event]:
        """A block starts."""
        block = value.get("content_block")
        events = self._open(value.get("index"), block, raw_input(data))
        if isinstance(block, dict) and block.get("type") == "text" and not isinstance(block.get("text"), str):
            message = "a block of text without text"
            events = [*events, Defect(Code.INVALID_CONTENT_BLOCK, message, may_carry_call=False)]
        return events

    def whole(self, index: int, block: Any, raw: bytes | None, *, finished: bool) -> list[Event]:
        """A block that stands in a message whole. `raw` is the exact JSON of its input."""
        return [
            *self._open(index, block, raw, complete=True),
            *self._close(index, "message", finished=finished),
        ]

    def delta(self, value: Mapping[str, Any]) -> list[Event]:
        """A piece of a block."""
        index: Any = value.get("index")
        delta = value.get("delta")
        block = self._blocks.get(index) if is_index(index) else None
        path = f"content[{index}]" if is_index(index) else "content"
        # Only a block that is known to be no call of the agent makes its deltas harmless.
        suspect = block is None or not block.harmless
        if not isinstance(delta, dict):
            return [Defect(Code.INVALID_DELTA, "a delta that is no object", path, may_carry_call=suspect)]
        kind = text_or_none(delta.get("type"))
        events = twins(path, delta, KNOWN)
        if kind == "input_json_delta" or "partial_json" in delta:
            return [*events, *self._input(index, path, block, delta)]
        if kind not in _TEXT_DELTAS and kind not in self._harmless:
            what = f"delta of type {wire_word(kind)!r}"
            return [*events, Unrecognised(what, may_carry_call=suspect), Prose()]
        if block is None:
            message = "a delta for a block that never started"
            return [*events, Defect(Code.DELTA_BEFORE_START, message, path, may_carry_call=False), Prose()]
        if block.runs_on is RunsOn.AGENT and kind in _TEXT_DELTAS:
            return [*events, Defect(Code.INVALID_DELTA, "a delta of text for a call", path)]
        if kind == "text_delta" and not isinstance(delta.get("text"), str):
            message = "a delta of text without text"
            events.append(Defect(Code.INVALID_DELTA, message, path, may_carry_call=False))
        if not block.open:
            message = "a delta for a block that has stopped"
            events.append(Defect(Code.DELTA_AFTER_TERMINAL, message, path, may_carry_call=False))
        return [*events, Prose()]

    def stop(self, value: Mapping[str, Any], *, finished: bool) -> list[Event]:
        """A block stops. `finished` says whether the message had its reason before."""
        index: Any = value.get("index")
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a stop without a valid index", "content")]
        return self._close(index, "content_block_stop", finished=finished)

    def _open(self, index: Any, block: Any, raw: bytes | None, *, complete: bool = False) -> list[Event]:
        path = f"content[{index}]" if is_index(index) else "content"
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return [Defect(Code.INVALID_CONTENT_BLOCK, "a content block without a type", path)]
        kind = block["type"]
        runs_on = _CALL_BLOCKS.get(kind)
        harmless = runs_on is None and (
            kind in HARMLESS_BLOCKS or kind.endswith("_tool_result") or kind in self._harmless
        )
        passes = harmless or runs_on is RunsOn.PROVIDER
        events = twins(path, block, KNOWN)
        if not is_index(index):
            return [
                *events,
                Defect(Code.INVALID_SLOT, "a block without a valid index", path, may_carry_call=not passes),
            ]
        seen = self._blocks.get(index)
        if seen is not None and (seen.runs_on is None or runs_on is None):
            message = "a second block uses the index of another one"
            events.append(Defect(Code.IDENTITY_COLLISION, message, path, may_carry_call=not passes))
        if kind == "fallback" and self._last is not None and self._last.runs_on is RunsOn.AGENT:
            message = "another model took over right after this call: a refusal may have cut it"
            events.append(Defect(Code.WRONG_TERMINAL_REASON, message, path))
        self.open_text.discard(index)
        self.open_calls.discard(index)
        self._blocks[index] = self._last = _Block(kind, runs_on, passes)
        if runs_on is not None:
            return [*events, *self._call(index, path, block, raw, complete=complete)]
        if not harmless:
            return [*events, Unrecognised(f"content block of type {wire_word(kind)!r}", may_carry_call=True)]
        self.open_text.add(index)
        return [*events, Prose()]

    def _call(
        self, index: int, path: str, block: Mapping[str, Any], raw: bytes | None, *, complete: bool
    ) -> list[Event]:
        started = self._blocks[index]
        key, runs_on = (index,), _CALL_BLOCKS[started.kind]
        family = text_or_none(block.get("toolset_name"))
        events: list[Event] = [SlotOpened(key, 0, path, runs_on=runs_on, member_of=family)]
        suspect = runs_on is RunsOn.AGENT
        if suspect:
            self.open_calls.add(index)
        events += identified(key, path, block.get("id"), block.get("name"), held=suspect)
        given = block.get("input")
        if given is None or (given == {} and not complete):
            # The placeholder of a start; only in a whole message is an empty input the input.
            return events
        text = exact_text(raw)
        if text is None:
            message = "an input whose exact text cannot be told"
            return [*events, Defect(Code.INVALID_ARGUMENTS_DELTA, message, path, may_carry_call=suspect)]
        started.whole = True
        return [*events, SlotCopied(key, text)]

    def _input(self, index: Any, path: str, block: _Block | None, delta: Mapping[str, Any]) -> list[Event]:
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a delta without a valid index", path)]
        if block is None or block.runs_on is None:
            return [Defect(Code.DELTA_BEFORE_START, "input for a call that was never opened", path)]
        suspect = block.runs_on is RunsOn.AGENT
        text = delta.get("partial_json")
        if not isinstance(text, str) or delta.get("type") != "input_json_delta":
            message = "input that is no text, or under another type"
            return [Defect(Code.INVALID_ARGUMENTS_DELTA, message, path, may_carry_call=suspect)]
        if not text and block.whole:
            # The customary empty first delta takes nothing from an input that was there from the start.
            return [SlotIdentified((index,))]
        return [Fragment((index,), text)]

    def _close(self, index: int, terminal: str, *, finished: bool) -> list[Event]:
        block = self._blocks.get(index)
        path = f"content[{index}]"
        if block is None:
            message = "a stop for a block that never started"
            return [Defect(Code.DELTA_BEFORE_START, message, path, may_carry_call=False)]
        self.open_text.discard(index)
        self.open_calls.discard(index)
        was_open, block.open = block.open, False
        if block.runs_on is None:
            if was_open:
                return [Prose()]
            return [Defect(Code.DUPLICATE_TERMINAL, "a block stops twice", path, may_carry_call=False)]
        events: list[Event] = [SlotClosed((index,), terminal)]
        if finished:
            # The reason came while this call was still open: it cannot speak for it.
            suspect = block.runs_on is RunsOn.AGENT
            message = "a call that ends after the turn's terminal reason"
            events.append(Defect(Code.DELTA_AFTER_TERMINAL, message, path, may_carry_call=suspect))
        return events
