"""Sessions driven at random, against a model that knows only which bytes may be where."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.playbook import DONE, Playbook, block, call, chunk, finish, text
from turngate.core.action import Block, Decide, Finish, Forward, Inject, Release
from turngate.core.policy import Limits, TurnPolicy
from turngate.core.session import HeldBudget
from turngate.core.verdict import Outcome
from turngate.errors import MisuseError

SECRET = b"get_weather"
FRAMES = [
    text("hello"),
    chunk({}),
    call("get_weather"),
    call(None, '{"city": 1}', call_id=None),
    call("get_weather", "{}", call_id="call_2", index=1),
    finish("tool_calls"),
    finish("stop"),
    DONE,
    b": keep-alive\n\n",
    b"\n",
    b"data: nonsense\n\n",
    block({"error": {"message": "overloaded"}}),
    b"tool_calls: get_weather\n\n",
]


class OneTurn(RuleBasedStateMachine):
    """Held bytes leave by one door, and a turn that is over stays over."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = HeldBudget(100_000)
        policy = TurnPolicy(limits=Limits(held_bytes=2000, frame_bytes=1000))
        self.play = Playbook(policy=policy, budget=self.budget)
        self.ended = False
        self.released = False
        self.over_at: int | None = None
        self.seen = 0

    @precondition(lambda self: not self.ended)
    @rule(frames=st.lists(st.sampled_from(FRAMES), min_size=1, max_size=4), cut=st.integers(0, 300))
    def data(self, frames: list[bytes], cut: int) -> None:
        stream = b"".join(frames)
        self.play.read(*(part for part in (stream[:cut], stream[cut:]) if part))

    @precondition(lambda self: not self.ended)
    @rule(clean=st.booleans())
    def eof(self, clean: bool) -> None:
        self.ended = True
        self.play.end(clean=clean)

    @rule(seconds=st.sampled_from([0.5, 2.5, 9.0, 700.0]))
    def tick(self, seconds: float) -> None:
        self.play.wait(seconds)

    @rule(outcome=st.sampled_from([Outcome.BLOCKED, Outcome.CANCELLED]))
    def stop(self, outcome: Outcome) -> None:
        self.play.stop(outcome)

    @rule()
    def refuse(self) -> None:
        self.play.refuse()

    @rule(turn=st.sampled_from(["turn-1", "turn-2"]))
    def release(self, turn: str) -> None:
        verdict = self.play.session.verdict
        if turn == "turn-1" and verdict is not None:
            self.released = verdict.outcome is Outcome.RELEASED
            self.play.release(turn)
            return
        before = len(self.play.actions)
        try:
            self.play.release(turn)
        except MisuseError:
            assert len(self.play.actions) == before
        else:
            raise AssertionError("released without a verdict or with another turn's receipt")

    @invariant()
    def calls_leave_only_through_release(self) -> None:
        for action in self.play.actions:
            if isinstance(action, Forward | Inject):
                assert SECRET not in action.data
            if isinstance(action, Release):
                assert self.released

    @invariant()
    def a_decision_comes_before_a_release_and_both_at_most_once(self) -> None:
        kinds = [type(action) for action in self.play.actions]
        assert kinds.count(Decide) <= 1
        assert kinds.count(Release) <= 1
        assert sum(kinds.count(kind) for kind in (Release, Block, Finish)) <= 1
        if Release in kinds:
            assert kinds.index(Decide) < kinds.index(Release)

    @invariant()
    def nothing_leaves_a_turn_that_is_over(self) -> None:
        kinds = [type(action) for action in self.play.actions]
        last = [at for at, kind in enumerate(kinds) if kind in (Block, Release, Finish)]
        assert not last or last == [len(kinds) - 1]

    @invariant()
    def what_is_held_is_budgeted_bounded_and_given_back(self) -> None:
        session = self.play.session
        over = any(isinstance(action, Block | Release | Finish) for action in self.play.actions)
        assert self.budget.used == (0 if over else session.gate.held_bytes)
        assert session.gate.held_bytes <= 2000

    @invariant()
    def a_release_is_what_was_held_in_order(self) -> None:
        for action in self.play.actions:
            if isinstance(action, Release):
                at = 0
                for frame in action.data.split(b"\n\n")[:-1]:
                    at = self.play.received.find(frame, at)
                    assert at >= 0
                    at += len(frame)


OneTurn.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestOneTurn = OneTurn.TestCase
