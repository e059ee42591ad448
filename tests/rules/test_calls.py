from __future__ import annotations

import pytest

from tests.playbook import DONE, Playbook, call, chunk, finish, text, tools
from turngate.core.event import CallKind, RunsOn, SlotIdentified, SlotOpened
from turngate.core.finding import Code
from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.toolset import Toolset
from turngate.core.turn import Turn
from turngate.rules import calls

CALL = call("get_weather", "{}")
LEGACY = chunk({"function_call": {"name": "get_weather", "arguments": "{}"}})


def codes(
    *stream: bytes, accept: frozenset[Quirk] = frozenset(), toolset: Toolset | None = None
) -> set[Code]:
    play = Playbook(toolset, TurnPolicy(accept=accept)).read(*stream)
    if play.session.verdict is None:
        play.end()
    return set(play.codes)


@pytest.mark.parametrize(
    ("stream", "found", "quirk"),
    [
        pytest.param([CALL, finish("tool_calls"), DONE], set(), None, id="valid"),
        pytest.param([LEGACY, finish("function_call"), DONE], set(), None, id="legacy calls have no id"),
        pytest.param(
            [call("get_weather", "{}", call_id=None), finish("tool_calls"), DONE],
            {Code.MISSING_CALL_ID}, Quirk.MISSING_IDS, id="no id",
        ),
        pytest.param([call(None, "{}"), finish("tool_calls"), DONE], {Code.MISSING_TOOL_NAME}, None, id="no name"),
        pytest.param(
            [CALL, call("get_weather", "{}", index=1), finish("tool_calls"), DONE],
            {Code.IDENTITY_COLLISION, Code.DUPLICATE_CALL_ID}, None, id="one id, two calls",
        ),
        pytest.param([CALL, call("get_weather", "{}", index=1, call_id="call_2"), finish("tool_calls"), DONE], set(), None, id="two ids, two calls"),
        pytest.param([CALL, DONE], {Code.MISSING_TERMINAL}, None, id="no reason"),
        pytest.param([CALL, text("x", 1), finish("tool_calls"), DONE], {Code.MISSING_TERMINAL}, None, id="no reason for one choice"),
        pytest.param([CALL, finish("stop"), DONE], {Code.WRONG_TERMINAL_REASON}, Quirk.STOP_WITH_CALLS, id="natural end"),
        pytest.param([CALL, finish("whatever"), DONE], {Code.WRONG_TERMINAL_REASON}, None, id="unknown end"),
        pytest.param([CALL, text("x", 1), finish("tool_calls"), finish("stop", 1), DONE], set(), None, id="another choice ends naturally"),
        pytest.param(
            [text("x"), finish("tool_calls"), DONE],
            {Code.TERMINAL_WITHOUT_CALL, Code.WRONG_TERMINAL_REASON}, Quirk.FINISH_WITHOUT_CALL, id="a promise without calls",
        ),
    ],
)  # fmt: skip
def test_identity_and_terminal_of_calls(stream: list[bytes], found: set[Code], quirk: Quirk | None) -> None:
    assert codes(*stream) == found
    if quirk is not None:
        assert codes(*stream, accept=frozenset({quirk})) == set()
    others = frozenset(Quirk) - ({quirk} if quirk is not None else set())
    assert codes(*stream, accept=others) == found


def test_a_forced_named_tool_ends_naturally() -> None:
    forced = Toolset(tools("get_weather").tools, named_choice=True)
    assert codes(CALL, finish("stop"), DONE, toolset=forced) == set()
    assert codes(CALL, finish("length"), DONE, toolset=forced) == {Code.WRONG_TERMINAL_REASON}


def test_a_closed_connection_counts_as_an_end_only_where_the_sentinel_is_known_to_be_left_out() -> None:
    for accept, words in (
        (frozenset[Quirk](), "block truncated_by_transport"),
        (frozenset({Quirk.MISSING_DONE}), "decide valid"),
    ):
        play = Playbook(policy=TurnPolicy(accept=accept)).read(CALL, finish("tool_calls"))
        play.end(clean=False, how="closed").expect(words)
        play = Playbook(policy=TurnPolicy(accept=accept)).read(CALL, finish("tool_calls"))
        play.end(clean=False, how="reset").expect("block truncated_by_transport")


def test_only_a_forbidden_tool_that_the_provider_ran_is_denied() -> None:
    turn = Turn(TurnPolicy(forbidden_provider_tools=frozenset({"web_search"})))
    for key, name, runs_on in (
        (1, "web_search", RunsOn.PROVIDER),
        (2, "fetch", RunsOn.PROVIDER),
        (3, "web_search", RunsOn.AGENT),
    ):
        turn.apply(SlotOpened((key,), 0, f"item[{key}]", CallKind.FUNCTION, runs_on), 1.0)
        turn.apply(SlotIdentified((key,), f"id{key}", name), 1.0)
    found = list(calls.forbidden_provider_tools(turn))
    assert [(finding.code, finding.path) for finding in found] == [(Code.POLICY_DENIED, "item[1]")]
