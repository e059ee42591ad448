"""Drive one `Session` and read what it did as a conversation.

    play = Playbook(tools("get_weather"))
    play.read(call("get_weather", "{}"), finish("tool_calls"), DONE).expect("decide valid")
    play.release().expect("release valid")
    assert play.sent == play.received

Each step appends the actions that came back, in words; `expect` compares those since the last `expect` and, when they
differ, shows the whole conversation as a diff. A playbook also acts as the client: `sent` is every byte that it got.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from turngate.core.action import Action, Block, Decide, Finish, Forward, Inject, Release
from turngate.core.body import BodyFramer
from turngate.core.finding import Code, Finding
from turngate.core.policy import TurnPolicy
from turngate.core.session import HeldBudget, Session
from turngate.core.sse import SSEFramer
from turngate.core.toolset import Tool, Toolset
from turngate.core.verdict import Outcome, Reason
from turngate.dialects.openai_chat import OpenAIChat
from turngate.rules import Judgement, Traits

DONE = b"data: [DONE]\n\n"
STOP = Finding(Code.GATE_STOPPED, "an operator stopped everything")


@dataclass(frozen=True)
class Proof:
    """A receipt, as a ledger would give it."""

    turn_id: str


def tools(*names: str) -> Toolset:
    """Tools that take any object."""
    return Toolset({name: Tool(name) for name in names})


def block(payload: Any) -> bytes:
    """One SSE block."""
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0, **fields: Any) -> bytes:
    """One chat chunk with one choice."""
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return block({"id": "chatcmpl-1", "model": "m", "choices": [choice], **fields})


def text(content: str, index: int = 0) -> bytes:
    """One chunk of prose."""
    return chunk({"content": content}, index=index)


def call(
    name: str | None, arguments: str = "", *, call_id: str | None = "call_1", index: int = 0, choice: int = 0
) -> bytes:
    """One chunk of one tool call; without a name and an id, a further fragment."""
    entry: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if call_id is not None:
        entry |= {"id": call_id, "type": "function"}
    if name is not None:
        entry["function"]["name"] = name
    return chunk({"tool_calls": [entry]}, index=choice)


def finish(reason: str, index: int = 0) -> bytes:
    """The chunk that ends a choice."""
    return chunk({}, reason, index)


WHOLE_TURN = b"".join(
    [
        chunk({"role": "assistant", "content": ""}),
        text("Let me look."),
        call("get_weather"),
        call(None, '{"city": ', call_id=None),
        call(None, '"Paris"}', call_id=None),
        finish("tool_calls"),
        DONE,
    ]
)
"""A tool turn that proves valid."""


class Playbook:
    """One turn, its provider, its clock, its ledger and its client."""

    def __init__(
        self,
        toolset: Toolset | None = None,
        policy: TurnPolicy | None = None,
        *,
        streamed: bool = True,
        budget: HeldBudget | None = None,
        turn_id: str = "turn-1",
    ) -> None:
        toolset, policy = toolset or tools("get_weather"), policy or TurnPolicy()
        decoder = OpenAIChat().decoder(toolset, policy, streamed=streamed)
        framer = SSEFramer(policy.limits.frame_bytes) if streamed else BodyFramer(policy.limits.frame_bytes)
        traits = Traits(decoder.sentinel_optional, OpenAIChat.named_choice_ends_naturally)
        self.judgement = Judgement(toolset, traits, policy.limits)
        self.budget = budget or HeldBudget()
        self.session = Session(
            turn_id, framer=framer, decoder=decoder, judge=self.judgement, policy=policy, budget=self.budget
        )
        self.now = 100.0
        self.received = b""
        self.sent = b""
        self.injected = b""
        self.actions: list[Action] = []
        self._said: list[str] = []
        self._expected: list[str] = []

    # Steps.

    def read(self, *chunks: bytes) -> Playbook:
        """The upstream sent these reads."""
        for data in chunks:
            self.received += data
            self._carry_out(f"read {len(data)}", self.session.receive_data(data, self.now))
        return self

    def end(self, *, clean: bool = True, how: str = "") -> Playbook:
        """The upstream is over."""
        return self._carry_out("end", self.session.receive_eof(self.now, clean=clean, how=how))

    def wait(self, seconds: float) -> Playbook:
        """Time passes, and the deadline is served."""
        self.now += seconds
        return self._carry_out(f"wait {seconds}", self.session.tick(self.now))

    def stop(
        self, outcome: Outcome = Outcome.BLOCKED, reason: Reason = Reason.STOPPED_BY_OPERATOR
    ) -> Playbook:
        """An operator, a client or a shutdown ends the turn."""
        return self._carry_out("stop", self.session.stop(outcome, reason, STOP, self.now))

    def refuse(self, reason: Reason = Reason.LEDGER_UNAVAILABLE) -> Playbook:
        """The ledger could not record the release."""
        finding = Finding(Code.LEDGER_UNAVAILABLE, "no space left")
        return self._carry_out("refuse", self.session.refuse(reason, finding, self.now))

    def release(self, turn_id: str = "turn-1") -> Playbook:
        """The ledger has recorded the release."""
        return self._carry_out("release", self.session.release(Proof(turn_id)))

    # What came of it.

    @property
    def codes(self) -> tuple[Code, ...]:
        """The codes of the verdict."""
        assert self.session.verdict is not None
        return self.session.verdict.codes

    def expect(self, *words: str) -> Playbook:
        """The actions since the last `expect`, in words: `forward`, `decide valid`, `block invalid`, ..."""
        self._expected += words
        said = [line for line in self._said if not line.startswith("    ")]
        if said != self._expected:
            told = "\n".join(difflib.ndiff(self._expected, said))
            raise AssertionError(
                f"expected (-) and actual (+) actions\n{told}\nconversation\n" + "\n".join(self._said)
            )
        return self

    def _carry_out(self, step: str, actions: Iterable[Action]) -> Playbook:
        self._said.append(f"    {step}")
        for action in actions:
            self.actions.append(action)
            self._said.append(_in_words(action))
            match action:
                case Forward(data) | Release(data):
                    self.sent += data
                case Inject(data):
                    self.injected += data
                case _:
                    pass
        return self


def _in_words(action: Action) -> str:
    match action:
        case Forward() | Inject():
            return type(action).__name__.lower()
        case Finish(verdict, clean=clean):
            return f"finish {verdict.reason.value}{'' if clean else ' unclean'}"
        case Decide(verdict) | Release(verdict=verdict) | Block(verdict):
            return f"{type(action).__name__.lower()} {verdict.reason.value}"
