"""Gemini turns in each form: released as they came, or blocked for what they lack; told in the form that they came in."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.dialects.gemini import (
    FORMS,
    HEAD,
    TEXT,
    Json,
    array,
    call,
    candidate,
    compact,
    every_reading,
    growing,
    judged,
    partial,
    places,
    response,
    sse,
    whole,
)
from turngate.core.action import Decide
from turngate.core.policy import KeepAliveForm, OnBlock, Timing, TurnPolicy
from turngate.core.session import Session
from turngate.core.sse import SSEFramer
from turngate.core.toolset import Tool, Toolset
from turngate.dialects.gemini_generate import GeminiGenerate
from turngate.rules import Judgement, Traits

CALL = response(call("ls", {"p": "/"}))
STOP = response({"text": ""}, finish="STOP")
SIGNED = {**call("ls", {"p": "/"}), "thoughtSignature": "c2ln"}

RELEASED: dict[str, tuple[list[Json], list[tuple[str | None, str, Json]]]] = {
    "a call without an id, its reason behind it": (
        [response(TEXT), CALL, STOP],
        [(None, "ls", {"p": "/"})],
    ),
    "a call with an id, its reason beside it": (
        [response(call("ls", {"p": "/"}, id="c1"), finish="STOP")],
        [("c1", "ls", {"p": "/"})],
    ),
    "two calls of one tool in one response": (
        [response(call("ls", {"p": "/"}), call("ls", {"p": "/"}), finish="STOP")],
        [(None, "ls", {"p": "/"}), (None, "ls", {"p": "/"})],
    ),
    "a signature beside the call, and text behind it": (
        [response({"text": "hm", "thought": True}), response(SIGNED, TEXT), STOP],
        [(None, "ls", {"p": "/"})],
    ),
    "a candidate without index is the first": (
        [{"candidates": [{"content": {"parts": [call("now")]}, "finishReason": "STOP"}]}],
        [(None, "now", {})],
    ),
    "two candidates": (
        [
            {"candidates": [candidate(call("ls", {})), candidate(call("rm", {}), index=1, finish="STOP")]},
            STOP,
        ],
        [(None, "ls", {}), (None, "rm", {})],
    ),
    "a STOP that is not the last": (
        [response({"executableCode": {"code": "1"}}, finish="STOP"), response(TEXT), CALL, STOP],
        [(None, "ls", {"p": "/"})],
    ),
    "a STOP twice": ([response(call("ls", {}), finish="STOP"), STOP], [(None, "ls", {})]),
    "beside what the provider ran": (
        [
            response({"toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "x"}}}),
            response({"toolResponse": {"id": "s1", "response": {}}}, call("ls", {})),
            STOP,
        ],
        [(None, "ls", {})],
    ),
    "a reason that is numbered": ([response(call("ls", {}), finish=1)], [(None, "ls", {})]),
    "a reason that says nothing before the one that does": (
        [response(call("ls", {}), finish="FINISH_REASON_UNSPECIFIED"), STOP],
        [(None, "ls", {})],
    ),
    "arguments in pieces, closed by an empty call": (
        [
            response(call("ls", willContinue=True)),
            response(growing(partial("$.p", stringValue="/u", willContinue=True))),
            response(growing()),
            response(growing(partial("$.p", stringValue="sr"))),
            response(growing(more=False), finish="STOP"),
        ],
        [(None, "ls", {"p": "/usr"})],
    ),
    "arguments in pieces, closed by the last of them": (
        [
            response(call("ls", willContinue=True)),
            response(growing(partial("$.a[0].n", numberValue=1), partial("$.b", boolValue=True), more=False)),
            STOP,
        ],
        [(None, "ls", {"a": [{"n": 1}], "b": True})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RELEASED)
def test_a_proven_turn_is_released_as_it_came_however_it_is_read(name: str, form: str) -> None:
    responses, calls = RELEASED[name]
    sent = FORMS[form](*responses)

    for reads in every_reading(sent):
        turn = judged(sent, form, reads=reads)

        assert (turn.outcome, turn.codes) == ("released", set())
        assert turn.passed + turn.released == sent
        assert [(call_id, name, json.loads(text or "{}")) for call_id, name, text in turn.calls] == calls


@pytest.mark.parametrize("name", RELEASED)
def test_the_same_turn_as_one_body_is_released_too(name: str) -> None:
    responses, calls = RELEASED[name]
    sent = whole(*responses)

    turn = judged(sent, "whole")

    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.released == sent
    assert len(turn.calls) == len(calls)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RELEASED)
def test_a_turn_that_is_cut_anywhere_shows_no_call(name: str, form: str) -> None:
    sent = FORMS[form](*RELEASED[name][0])
    for at in places(sent):
        turn = judged(sent[:at], form, clean=False)

        assert turn.outcome != "released"
        assert not turn.released
        assert judged(turn.passed, form, clean=False).calls == []


@pytest.mark.parametrize("name", RELEASED)
def test_an_array_without_its_bracket_is_cut_even_where_the_stream_ends_cleanly(name: str) -> None:
    turn = judged(array(*RELEASED[name][0], end=b"\n"), "array")
    assert (turn.outcome, turn.verdict.reason) == ("blocked", "truncated_by_transport")


def test_text_flows_up_to_the_first_call_and_the_tail_waits_in_order() -> None:
    for form, spell in FORMS.items():
        text = spell(response(TEXT), response(TEXT), **({"end": b""} if form == "array" else {}))
        turn = judged(spell(response(TEXT), response(TEXT), CALL, response(TEXT), STOP), form)
        assert turn.passed.strip() == text.strip()


BLOCKED: dict[str, tuple[list[Any], set[str], str]] = {
    "no reason at all": ([CALL], {"missing_terminal"}, "truncated_by_transport"),
    "a call behind the last STOP": ([STOP, CALL], {"missing_terminal"}, "truncated_by_transport"),
    "a call behind a STOP that ended a call": (
        [response(call("ls", {}), finish="STOP"), response(call("rm", {})), STOP],
        {"delta_after_terminal"},
        "invalid",
    ),
    "text behind a STOP that ended a call": (
        [response(call("ls", {}), finish="STOP"), response(TEXT), STOP],
        {"delta_after_terminal"},
        "invalid",
    ),
    "another response": ([CALL, {**STOP, "responseId": "r2"}], {"duplicate_start"}, "invalid"),
    "a token limit": ([CALL, response(finish="MAX_TOKENS")], {"wrong_terminal_reason"}, "truncated_by_limit"),
    "a filter": ([CALL, response(finish="SAFETY")], {"wrong_terminal_reason"}, "refused_by_provider"),
    "a filter behind a STOP": (
        [CALL, STOP, response(finish="RECITATION")],
        {"wrong_terminal_reason"},
        "refused_by_provider",
    ),
    "a STOP behind a filter": (
        [CALL, response(finish="SAFETY"), STOP],
        {"duplicate_terminal", "wrong_terminal_reason"},
        "refused_by_provider",
    ),
    "a malformed call": (
        [CALL, response(finish="MALFORMED_FUNCTION_CALL")],
        {"wrong_terminal_reason"},
        "upstream_error",
    ),
    "an unknown reason": ([CALL, response(finish="stop")], {"wrong_terminal_reason"}, "invalid"),
    "an unknown number": ([CALL, response(finish=99)], {"wrong_terminal_reason"}, "invalid"),
    "to be continued": ([CALL, response(finish="CONTINUATION")], {"wrong_terminal_reason"}, "invalid"),
    "a blocked prompt": (
        [CALL, {"promptFeedback": {"blockReason": "OTHER"}, **HEAD}],
        {"wrong_terminal_reason"},
        "refused_by_provider",
    ),
    "an error": ([CALL, {"error": {"code": 500, "status": "INTERNAL"}}], {"missing_terminal", "upstream_error"}, "upstream_error"),
    "one candidate that has not ended": (
        [{"candidates": [candidate(call("ls", {})), candidate(TEXT, index=1)]}, STOP],
        {"missing_terminal"},
        "truncated_by_transport",
    ),
    "two candidates of one index": (
        [{"candidates": [candidate(call("ls", {})), candidate(call("rm", {}))]}, STOP],
        {"identity_collision"},
        "invalid",
    ),
    "an invented tool": ([response(call("mkfs", {}), finish="STOP")], {"unknown_tool"}, "invalid"),
    "no name": ([response(call(None, {"p": 1}), finish="STOP")], {"missing_tool_name"}, "invalid"),
    "one id for two calls": (
        [response(call("ls", {}, id="c"), call("rm", {}, id="c"), finish="STOP")],
        {"duplicate_call_id", "identity_collision"},
        "invalid",
    ),
    "arguments that are no object": (
        [response(call("ls", ["/"]), finish="STOP")],
        {"arguments_not_object"},
        "invalid",
    ),
    "a key twice in the arguments": (
        [compact(CALL).replace(b'"p":"/"', b'"p":"/","p":"~"'), STOP],
        {"duplicate_argument_key", "invalid_event"},
        "invalid",
    ),
    "two lists of candidates": (
        [b'{"candidates":[],"candidates":' + compact(CALL["candidates"]) + b"}", STOP],
        {"invalid_event"},
        "invalid",
    ),
    "a number that is none": (
        [compact(CALL).replace(b'"/"', b"NaN"), STOP],
        {"invalid_event", "invalid_arguments_delta", "invalid_arguments_json"},
        "invalid",
    ),
    "an unknown kind of part": ([response({"shellCall": {"cmd": "x"}}), STOP], {"unsupported_event"}, "invalid"),
    "a call in snake case": (
        [response({"function_call": {"name": "ls", "args": {}}}), STOP],
        {"unsupported_event"},
        "invalid",
    ),
    "a call where none belongs": (
        [{**STOP, "history": [{"parts": [call("ls", {})]}]}],
        {"unsupported_event"},
        "invalid",
    ),
    "no JSON, but a call in it": ([b'{"functionCall":', STOP], {"invalid_event"}, "invalid"),
    "pieces for no call": (
        [response(growing(partial("$.p", stringValue="/"))), response(growing(more=False)), STOP],
        {"missing_tool_name"},
        "invalid",
    ),
    "a call that never stops growing": (
        [response(call("ls", willContinue=True)), STOP],
        {"missing_terminal"},
        "invalid",
    ),
    "a call that begins while another grows": (
        [response(call("ls", willContinue=True)), response(call("rm", {})), STOP],
        {"missing_terminal"},
        "invalid",
    ),
    "whole arguments and pieces": (
        [response(call("ls", {"p": 1}, willContinue=True)), response(growing(more=False)), STOP],
        {"invalid_arguments_delta"},
        "invalid",
    ),
    "a piece of text without its last": (
        [
            response(call("ls", willContinue=True)),
            response(growing(partial("$.p", stringValue="/", willContinue=True), more=False)),
            STOP,
        ],
        {"invalid_arguments_delta"},
        "invalid",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_what_is_not_proven_is_blocked_for_what_it_lacks_in_every_form(name: str) -> None:
    responses, codes, reason = BLOCKED[name]
    for form, spell in FORMS.items():
        if form == "array" and name == "no JSON, but a call in it":
            continue  # it would swallow the bracket: see the framer's own tests
        sent = spell(response(TEXT), *responses)
        results = {
            (turn.outcome, turn.verdict.reason.value, frozenset(turn.codes), turn.passed, turn.told)
            for turn in (
                judged(sent, form, reads=reads) for reads in itertools.islice(every_reading(sent), 40)
            )
        }
        assert len(results) == 1
        outcome, found, found_codes, passed, told = results.pop()
        assert (outcome, found, set(found_codes)) == ("blocked", reason, codes)
        assert b"functionCall" not in passed
        assert b'"turngate"' in told


PASSED: dict[str, tuple[list[Any], str]] = {
    "text": ([response(TEXT), STOP], "valid"),
    "text cut by a limit": ([response(TEXT, finish="MAX_TOKENS")], "truncated_by_limit"),
    "a filtered text": ([response(TEXT), response(finish="SAFETY")], "refused_by_provider"),
    "a blocked prompt": ([{"promptFeedback": {"blockReason": "SAFETY"}}], "refused_by_provider"),
    "a failed call of which nothing came": (
        [response(finish="MALFORMED_FUNCTION_CALL", finishMessage="x")],
        "upstream_error",
    ),
    "an error": ([response(TEXT), {"error": {"code": 503, "status": "UNAVAILABLE"}}], "upstream_error"),
    "code that the provider ran, with a STOP in between": (
        [
            response({"executableCode": {"language": "PYTHON", "code": "print(1)"}}, finish="STOP"),
            response({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
            response(TEXT, finish="STOP"),
        ],
        "valid",
    ),
    "an unknown field that brings no call": ([response(TEXT, newMetadata={"a": 1}), STOP], "valid"),
    "a text about calls": ([response({"text": '{"functionCall": {"name": "rm"}}'}), STOP], "valid"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PASSED)
def test_what_has_no_call_passes_untouched(name: str, form: str) -> None:
    responses, reason = PASSED[name]
    sent = FORMS[form](*responses)
    for reads in every_reading(sent):
        turn = judged(sent, form, reads=reads)
        assert (turn.outcome, turn.verdict.reason) == ("passed", reason)
        assert turn.passed == sent


def test_the_arguments_are_the_very_text_of_the_wire() -> None:
    text = '{ "n": 1.0, "s": "\\u00e9\u00e9", "big": 12345678901234567890 }'
    sent = compact(response(call("ls", {"x": 0}), finish="STOP")).replace(b'{"x":0}', text.encode())
    for form, spell in FORMS.items():
        assert judged(spell(sent), form).calls == [(None, "ls", text)]
    assert judged(sent, "whole").calls == [(None, "ls", text)]


def test_one_response_where_a_stream_was_asked_for_is_judged_when_it_is_whole() -> None:
    sent = whole(CALL, STOP)
    assert judged(sent, "array").released == sent
    assert judged(sent[:-1], "array").outcome == "blocked"


def test_a_tool_of_the_provider_can_be_forbidden() -> None:
    policy = TurnPolicy(forbidden_provider_tools=frozenset({"code_execution"}))
    turn = judged(sse(response({"executableCode": {"code": "1"}}), STOP), policy=policy)
    assert (turn.outcome, turn.codes) == ("blocked", {"policy_denied"})


def test_a_known_harmless_kind_of_part_passes() -> None:
    policy = TurnPolicy(harmless=frozenset({"hologram"}))
    assert judged(sse(response({"hologram": {"x": 1}}), STOP), policy=policy).outcome == "passed"
    assert judged(sse(response({"hologram": {"x": 1}}), STOP)).outcome == "blocked"


@pytest.mark.parametrize("line", [b"event: message\r\n", b"data: [DONE]\r\n\r\n"])
def test_what_the_official_client_raises_at_is_no_sound_turn(line: bytes) -> None:
    turn = judged(sse(CALL) + line + sse(STOP))
    assert (turn.outcome, turn.codes) == ("blocked", {"invalid_event"})


def test_no_silence_stands_for_the_end_of_the_stream() -> None:
    """A STOP may not be the last: code that the provider runs takes longer than any grace."""
    policy = TurnPolicy(timing=Timing(keepalive_s=0, terminal_grace_s=2, hold_timeout_s=100))
    decoder = GeminiGenerate().decoder(Toolset(), policy, streamed=True)
    traits = Traits(decoder.sentinel_optional, ids_optional=True)
    judgement = Judgement(Toolset({"ls": Tool("ls")}), traits)
    session = Session("t", framer=SSEFramer(1 << 20), decoder=decoder, judge=judgement, policy=policy)
    assert session.receive_data(sse(CALL, STOP), 0.0) == []
    assert session.deadline == 100.0
    assert session.tick(50.0) == []
    (decided,) = session.receive_eof(60.0, clean=True)
    assert isinstance(decided, Decide)


# What the client is told.


def test_a_block_in_sse_is_an_error_and_a_whole_answer_for_whoever_overlooks_it() -> None:
    told, rest = judged(sse(response(TEXT), CALL)).told.split(b"\n\n")
    assert rest == b""
    block = json.loads(told.removeprefix(b"data: "))
    assert (block["error"]["code"], block["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert block["error"]["turngate"]["reason"] == "truncated_by_transport"
    (candidate,) = block["candidates"]
    assert candidate["content"]["parts"] == [{"text": block["error"]["message"]}]
    assert (candidate["index"], candidate["finishReason"]) == (0, "OTHER")


@pytest.mark.parametrize("before", [[], [response(TEXT)], [response(TEXT), response(TEXT)]])
def test_a_block_in_an_array_is_its_last_element(before: list[Json]) -> None:
    turn = judged(array(*before, CALL), "array")
    elements = json.loads(turn.passed + turn.told)
    assert elements[:-1] == before
    assert elements[-1]["error"]["turngate"]["codes"] == ["missing_terminal"]


@pytest.mark.parametrize("form", FORMS)
def test_a_notice_ends_every_candidate_with_a_text(form: str) -> None:
    policy = TurnPolicy(on_block=OnBlock.NOTICE)
    two = {"candidates": [candidate(TEXT), candidate(call("ls", {}), index=1)]}
    turn = judged(FORMS[form](response(TEXT), two), form, policy=policy)
    told = turn.passed + turn.told
    responses = (
        json.loads(told)
        if form == "array"
        else [json.loads(block.removeprefix(b"data: ")) for block in told.splitlines() if block]
    )
    ended = responses[-1]["candidates"]
    assert [(each["index"], each["finishReason"]) for each in ended] == [(0, "STOP"), (1, "STOP")]
    assert all("did not release" in each["content"]["parts"][0]["text"] for each in ended)


def test_before_the_first_byte_it_is_googles_error_envelope() -> None:
    body = json.loads(GeminiGenerate().error_body("no", {"reason": "x"}))
    assert body == {
        "error": {"code": 400, "message": "no", "status": "FAILED_PRECONDITION", "turngate": {"reason": "x"}}
    }


def test_a_blank_line_keeps_alive_and_an_array_takes_nothing_else() -> None:
    for form, spell in FORMS.items():
        for keepalive in KeepAliveForm:
            policy = TurnPolicy(keepalive_form=keepalive)
            decoder = GeminiGenerate().decoder(read(), policy, streamed=True)
            feed(decoder, form, spell(response(TEXT), CALL))
            comment = keepalive is KeepAliveForm.COMMENT and form == "sse"
            assert decoder.keep_alive() == (b": keep-alive\n\n" if comment else b"\n")


def read() -> Any:
    return GeminiGenerate().toolset(b"{}")


def feed(decoder: Any, form: str, data: bytes) -> None:
    framing = next(each for each in GeminiGenerate.framings if each.name.endswith(form))
    for frame in framing.framer(1 << 20).receive_data(data):
        decoder.decode(frame)


@pytest.mark.parametrize(
    ("path", "claimed"),
    [
        ("/v1/models/gemini-3:generateContent", True),
        ("/v1beta/models/gemini-3:streamGenerateContent", True),
        ("/v1beta1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", True),
        ("/v1/projects/p/locations/l/endpoints/7:generateContent", True),
        ("/v1beta/models/gemini-3:batchGenerateContent", False),
        ("/v1beta/models/gemini-3:countTokens", False),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", False),
    ],
)
def test_claims(path: str, claimed: bool) -> None:
    assert GeminiGenerate().claims("POST", path) is claimed
    assert not GeminiGenerate().claims("GET", path)
