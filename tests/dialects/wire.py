"""Frames as providers send them, and one turn judged from them by the whole core."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from turngate.core.action import Action, Block, Decide, Forward, Release
from turngate.core.event import CallKind, RunsOn
from turngate.core.policy import TurnPolicy
from turngate.core.session import Session
from turngate.core.toolset import Tool, Toolset
from turngate.core.turn import Turn
from turngate.core.verdict import Verdict
from turngate.dialects import dialect_named
from turngate.rules import Judgement, Traits

TOOLS = Toolset(
    {
        "ls": Tool("ls"),
        "rm": Tool("rm"),
        "run": Tool("run", CallKind.CUSTOM),
        "web_search": Tool("web_search", runs_on=RunsOn.PROVIDER),
    },
    toolsets=frozenset({"browser"}),
    model="m",
)
DONE = b"data: [DONE]\n\n"


def sse(payload: Any, event: str | None = None) -> bytes:
    """One SSE block."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(payload, separators=(',', ':'))}\n\n".encode()


# Chat.


def chunk(delta: Any, finish: Any = None, *, index: Any = 0, **more: Any) -> bytes:
    """One chunk with one choice."""
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return sse({"id": "r1", "model": "m", "choices": [choice], **more})


def call(arguments: Any = None, **entry: Any) -> bytes:
    """One chunk with one entry of `tool_calls`; `name` goes where it belongs."""
    function = {key: entry.pop(key) for key in ("name",) if key in entry}
    if arguments is not None:
        function["arguments"] = arguments
    return chunk({"tool_calls": [{"function": function, **entry}]})


# Messages.

USAGE = {"input_tokens": 1, "output_tokens": 1}


def typed(kind: str, **fields: Any) -> bytes:
    """One Anthropic event, its name and its type alike."""
    return sse({"type": kind, **fields}, kind)


def message_start(*content: Any, **fields: Any) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content)}
    return typed("message_start", message={**message, "stop_reason": None, "usage": USAGE, **fields})


def start(index: Any, block: Any) -> bytes:
    return typed("content_block_start", index=index, content_block=block)


def tool_use(name: Any = "ls", *, kind: str = "tool_use", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": f"toolu_{name}", "name": name, "input": {}, **fields}


def delta(index: Any, **fields: Any) -> bytes:
    return typed("content_block_delta", index=index, delta=fields)


def words(index: int, text: str = "hi") -> bytes:
    return delta(index, type="text_delta", text=text)


def part(index: int, text: Any) -> bytes:
    return delta(index, type="input_json_delta", partial_json=text)


def stop(index: Any) -> bytes:
    return typed("content_block_stop", index=index)


def message_end(reason: Any) -> bytes:
    return typed("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=USAGE) + typed(
        "message_stop"
    )


def block(index: int, content: Any, *pieces: bytes) -> bytes:
    """A whole block in events."""
    return start(index, content) + b"".join(pieces) + stop(index)


TEXT = {"type": "text", "text": ""}


# Judging.


@dataclass(frozen=True)
class Judged:
    """What became of a turn."""

    verdict: Verdict
    turn: Turn
    passed: bytes
    """What the client got before the verdict."""
    released: bytes
    told: bytes
    """What the client got instead of a release."""

    @property
    def outcome(self) -> str:
        return self.verdict.outcome.value

    @property
    def codes(self) -> set[str]:
        return {code.value for code in self.verdict.codes}

    @property
    def calls(self) -> list[tuple[str | None, str | None, str]]:
        return [(slot.call_id, slot.name, slot.arguments) for slot in self.turn.agent_calls]


@dataclass(frozen=True)
class _Receipt:
    turn_id: str


def judge(
    dialect: str,
    data: bytes,
    *,
    tools: Toolset = TOOLS,
    policy: TurnPolicy | None = None,
    streamed: bool = True,
    framing: str | None = None,
    clean: bool = True,
    reads: Iterable[bytes] | None = None,
) -> Judged:
    """The whole turn, read at once, or in the given reads; in the framing of that name, or the first that fits `streamed`."""
    policy = policy or TurnPolicy()
    wire = dialect_named(dialect)
    assert wire is not None
    cut = next(
        each
        for each in wire.framings
        if (each.streamed is streamed if framing is None else each.name == framing)
    )
    decoder = wire.decoder(tools, policy, streamed=cut.streamed)
    traits = Traits(decoder.sentinel_optional, wire.named_choice_ends_naturally, wire.ids_optional)
    framer = cut.framer(1 << 20)
    session = Session("t1", framer=framer, decoder=decoder, judge=Judgement(tools, traits), policy=policy)
    sent = {Forward: b"", Release: b"", Block: b""}

    def carry_out(actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Decide():
                    carry_out(session.release(_Receipt("t1")))
                case Forward(data=raw) | Release(data=raw):
                    sent[type(action)] += raw
                case Block():
                    sent[Block] += action.stream

    for read in [data] if reads is None else reads:
        carry_out(session.receive_data(read, 1.0))
    carry_out(session.receive_eof(2.0, clean=clean))
    assert session.verdict is not None
    return Judged(session.verdict, session.turn, sent[Forward], sent[Release], sent[Block])


def judge_however_read(dialect: str, data: bytes, **options: Any) -> Judged:
    """The turn, and that it is the same one byte at a time and split at random."""
    whole = judge(dialect, data, **options)
    rng = random.Random(len(data))
    cuts = sorted(rng.sample(range(1, len(data)), min(7, len(data) - 1)))
    split = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]
    for reads in ([bytes([byte]) for byte in data], split):
        other = judge(dialect, data, reads=reads, **options)
        assert (other.verdict, other.passed, other.released, other.told) == (
            whole.verdict,
            whole.passed,
            whole.released,
            whole.told,
        )
    return whole


def judge_cut(dialect: str, frames: Sequence[bytes], **options: Any) -> Iterator[tuple[int, Judged]]:
    """The turn, cut after every number of its frames, by a clean end and by a broken connection."""
    for count in range(1, len(frames)):
        for clean in (True, False):
            yield count, judge(dialect, b"".join(frames[:count]), clean=clean, **options)
