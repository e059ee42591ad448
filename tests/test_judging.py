"""The library's verdict is the gate's: the same recorded bytes through `judge` and through a session driven by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.corpus.recordings import recordings, reports
from tests.corpus.replay import framing_of as recorded_framing
from tests.corpus.replay import judge as by_hand
from tests.dialects.wire import DONE, call, chunk
from turngate.core.verdict import Outcome, Reason
from turngate.errors import ConfigError
from turngate.judging import find_dialect, framing_of, is_streamed, judge

REQUEST = {"stream": True, "tools": [{"type": "function", "function": {"name": "ls"}}]}
SOUND = call('{"p":', index=0, id="c1", name="ls") + call("1}", index=0) + chunk({}, "tool_calls") + DONE


def test_a_sound_turn_is_executable_with_its_exact_arguments() -> None:
    judged = judge(REQUEST, SOUND, dialect="openai_chat")
    assert judged.executable
    (only,) = judged.calls
    assert (only.id, only.name, only.arguments_text, only.arguments) == ("c1", "ls", '{"p":1}', {"p": 1})


def test_the_pieces_do_not_matter() -> None:
    bytewise = [SOUND[at : at + 1] for at in range(len(SOUND))]
    assert judge(REQUEST, bytewise, dialect="openai_chat") == judge(REQUEST, SOUND, dialect="openai_chat")


def test_a_cut_turn_shows_its_calls_and_is_not_executable() -> None:
    judged = judge(json.dumps(REQUEST).encode(), SOUND[:200], dialect="openai_chat", complete=False)
    assert (judged.outcome, judged.reason) == (Outcome.BLOCKED, Reason.TRUNCATED_BY_TRANSPORT)
    assert not judged.executable
    assert [each.terminal for each in judged.calls] == [False]


def test_nothing_at_all_is_a_text_turn_without_a_call() -> None:
    assert judge(REQUEST, b"", dialect="openai_chat").outcome is Outcome.PASSED
    assert judge(REQUEST, [], dialect="openai_chat").calls == ()


@pytest.mark.parametrize("wrong", [{"dialect": "telepathy"}, {"dialect": "openai_chat", "preset": "none"}])
def test_an_unknown_word_is_our_own_fault_and_names_the_known_ones(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="there are"):
        judge(REQUEST, SOUND, dialect=wrong["dialect"], preset=wrong.get("preset", "strict"))


@pytest.mark.parametrize(
    ("pieces", "streamed"),
    [
        ([b"", b" \n", b'{"a"'], False),
        ([b"\xef\xbb\xbf{"], False),
        ([b"data: {}"], True),
        ([b": comment"], True),
        ([], True),
    ],
)
def test_a_body_is_told_from_a_stream_by_its_first_byte(pieces: list[bytes], streamed: bool) -> None:
    assert is_streamed(pieces) is streamed


@pytest.mark.parametrize(
    ("dialect", "start", "framing"),
    [
        ("openai_chat", b"data: {}", "sse"),
        ("openai_chat", b" {}", "json"),
        ("openai_chat", b"[]", "json"),
        ("ollama_chat", b"{}", "ndjson"),
        ("gemini_generate", b"[{", "json_array"),
        ("gemini_generate", b"{", "json"),
        ("bedrock_converse", b"\0\0\0\x10", "event_stream"),
    ],
)
def test_the_first_byte_and_the_request_tell_the_framing(dialect: str, start: bytes, framing: str) -> None:
    chosen = find_dialect(dialect)
    assert framing_of(chosen, chosen.toolset(b"{}"), [b"", start]).name == framing


def test_a_framing_that_the_dialect_has_not_is_our_own_fault() -> None:
    with pytest.raises(ConfigError, match="it has sse, json"):
        judge(REQUEST, SOUND, dialect="openai_chat", framing="ndjson")


def test_every_recorded_reply_gets_the_verdict_of_a_session(shared: Path) -> None:
    assert shared.is_dir()
    rng = random.Random(0)
    for recording in recordings():
        body = recording.body
        cut = rng.randrange(len(body)) if rng.random() < 0.5 else len(body)
        dialect = find_dialect(recording.dialect)
        framing = recorded_framing(dialect, recording.framing, streamed=recording.streamed)
        given = {
            "framing": framing.name,
            "preset": recording.provider,
            "streamed": recording.streamed,
            "clean": cut == len(body),
        }
        theirs = by_hand(recording.dialect, recording.request, [body[:cut]], **given)  # type: ignore[arg-type]
        ours = judge(
            recording.request,
            [body[:cut][:7], body[:cut][7:]],
            dialect=recording.dialect,
            preset=recording.provider,
            complete=cut == len(body),
            framing=framing,
        )
        assert ours.verdict == theirs.verdict, recording.slug
        assert [(each.id, each.name, each.arguments_text) for each in ours.calls] == theirs.calls
        assert framing_of(dialect, dialect.toolset(recording.request), [body]) == framing, recording.slug


def test_every_public_report_gets_the_verdict_of_a_session(shared: Path) -> None:
    assert shared.is_dir()
    for case in reports():
        theirs = by_hand(case.dialect, case.request, [case.body], clean=not case.aborted)
        framing = find_dialect(case.dialect).framings[0]
        ours = judge(
            case.request, case.body, dialect=case.dialect, complete=not case.aborted, framing=framing
        )
        assert ours.verdict == theirs.verdict, case.id
