"""172 event streams with the events that the standard demands, and the official clients that read them otherwise.

Two promises are counted. What is well-formed is read as the standard says. And where clients differ, a tool call in the
disputed place never gets past the gate unjudged, and never past it at all if any line of the stream is disputed.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.playbook import DONE, Playbook, finish, text, tools
from tests.suites.counters import report
from turngate.core.frame import Frame, FrameFault
from turngate.core.policy import MIB
from turngate.core.sse import SSEFramer
from turngate.core.verdict import Outcome

Case = dict[str, Any]

CALL = {
    "id": "call_1",
    "index": 0,
    "type": "function",
    "function": {"name": "rm_everything", "arguments": "{}"},
}
TOOL = json.dumps(
    {"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}, "finish_reason": None}]}
).encode()
NAME = b"rm_everything"
LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|$)")
# Lines that no client takes for a payload: comments, and the fields beside data.
NO_PAYLOAD = re.compile(rb"(?::|(?:id|event|retry)(?::|$))")


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[Case]:
    found: list[Case] = json.loads((shared / "suites" / "sse_cases.json").read_text())
    return found


def given(case: Case) -> bytes:
    if "input" in case:
        return base64.b64decode(case["input"])
    made = case["generate"]
    return bytes((made["prefix"] + made["repeat"] * made["count"] + made["suffix"]).encode())


def frames(reads: list[bytes]) -> list[Frame]:
    framer = SSEFramer(4 * MIB)
    return [frame for read in reads for frame in framer.receive_data(read)] + framer.receive_eof()


def splits(case: Case, stream: bytes) -> Iterator[list[bytes]]:
    yield [stream]
    if "chunks" in case:
        yield [base64.b64decode(chunk) for chunk in case["chunks"]]
    if len(stream) <= 4096:
        yield [bytes([byte]) for byte in stream]
        yield from ([stream[:at], stream[at:]] for at in range(1, min(len(stream), 200)))
    else:
        yield [stream[at : at + 65521] for at in range(0, len(stream), 65521)]


def test_every_byte_of_every_stream_comes_out_again_however_it_is_split(cases: list[Case]) -> None:
    kept = 0
    for case in cases:
        stream = given(case)
        whole = frames([stream])
        for reads in splits(case, stream):
            found = frames(reads)
            assert b"".join(frame.raw for frame in found) == stream, case["name"]
            if not any(frame.fault is FrameFault.OVERSIZED for frame in whole):
                assert found == whole, case["name"]
        kept += 1
    report("sse_cases_kept_whole", kept)


def test_what_is_well_formed_is_read_as_the_standard_says(cases: list[Case]) -> None:
    read = faulty = 0
    for case in cases:
        found = frames([given(case)])
        if any(frame.fault is not None for frame in found):
            faulty += 1
            continue
        expected = [(event["event"], event["data"]) for event in case["expected_events"]]
        said = [(f.event or "message", f.data.decode()) for f in found if f.data is not None]
        assert said == expected, case["name"]
        read += 1
    report("sse_cases_read_alike", read)
    assert read + faulty == len(cases)


def variants(stream: bytes) -> Iterator[bytes]:
    """The stream with a tool call in the place of each line's payload, and as each whole line."""
    lines = [(match[1], match[2]) for match in LINE.finditer(stream)]
    for at, (line, _) in enumerate(lines):
        if not line or NO_PAYLOAD.match(line):
            continue
        name, colon, value = line.partition(b":")
        space = b" " if value.startswith(b" ") else b""
        for replacement in (name + colon + space + TOOL if colon else TOOL, name + b": " + TOOL):
            changed = [*lines[:at], (replacement, lines[at][1]), *lines[at + 1 :]]
            yield b"".join(line + end for line, end in changed)


def test_a_call_in_a_disputed_place_is_never_let_through(cases: list[Case]) -> None:
    tried = 0
    for case in cases:
        if not case.get("readers_that_differ") or "input" not in case or len(given(case)) > 4096:
            continue
        for stream in variants(given(case)):
            for tail in (b"", b"\n\n" + finish("tool_calls") + DONE):
                # A BOM and the like only mean something at the start; elsewhere the turn has begun with text.
                for head in (b"", text("hi")):
                    play = Playbook(tools("rm_everything")).read(head + stream + tail)
                    if play.session.verdict is None:
                        play.end()
                    assert NAME not in play.sent, (case["name"], stream)
                    verdict = play.session.verdict
                    assert verdict is not None
                    if verdict.outcome is Outcome.RELEASED:
                        assert all(frame.fault is None for frame in frames([head + stream + tail])), case[
                            "name"
                        ]
                    tried += 1
    report("sse_disputed_calls_held", tried)
