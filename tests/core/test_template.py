"""Templates, and the reads that a session takes by them: promise 1 is that nothing fits which a client reads otherwise."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.catalogue import enveloped
from tests.playbook import Playbook, call, chunk
from turngate.core import template as template_module
from turngate.core.action import Forward
from turngate.core.finding import Code, Finding
from turngate.core.gate import GateState
from turngate.core.policy import Limits, Mode, TurnPolicy
from turngate.core.session import Session
from turngate.core.sse import SSEFramer
from turngate.core.template import LESSONS, Likeness, Template, template_of, values_of
from turngate.core.verdict import Outcome, Reason
from turngate.dialects.openai_chat_json import CHUNK
from turngate.judging import open_session
from turngate.schema import Vocabulary

VALUES = values_of("content", "stamp")

KINDS = 100 if os.environ.get("TURNGATE_SOAK") == "1" else 3
"""How many kinds of frames of each dialect are changed."""


def frame(content: str, stamp: str = "1", tail: str = "") -> bytes:
    return f'data: {{"stamp":"{stamp}","delta":{{"content":"{content}"}}{tail}}}\n\n'.encode()


def template(first: bytes, second: bytes) -> Template:
    learned = template_of(first, second, VALUES)
    assert learned is not None
    return learned


@pytest.mark.parametrize(
    "content",
    ["b", "b c", " ", "{}[],:", "data: x", "\x7f", "ü\u2028\U0001f600", "x" * 5000, "\\n", '\\"', "a\\\\"],
)
def test_a_frame_fits_whose_text_alone_differs(content: str) -> None:
    assert template(frame("a"), frame("b")).fits(frame(content))
    assert template(frame("a", "1"), frame("b", "2")).fits(frame(content, "3"))


@pytest.mark.parametrize(
    "content",
    [
        "", "\\", "\\\\\\", "\\x", "\\u0061", "\\ud800", '"', 'b","x":"c', "\n", "\r", "\t", "\0", "\x1f",
        '"}}\n\ndata: {"a":{"b":"', 'a\\","x":"',
    ],
)  # fmt: skip
def test_a_frame_does_not_fit_whose_text_is_empty_or_could_end_its_string(content: str) -> None:
    assert not template(frame("a"), frame("b")).fits(frame(content))
    assert not template(frame("a", "1"), frame("b", "2")).fits(frame(content, "3"))
    assert not template(frame("a", "1"), frame("b", "2")).fits(frame("c", content))


def test_a_frame_does_not_fit_that_is_no_utf8() -> None:
    assert not template(frame("a"), frame("b")).fits(frame("?").replace(b"?", b"\xff"))


def test_a_frame_does_not_fit_that_differs_elsewhere_or_is_a_part() -> None:
    learned = template(frame("a", "1"), frame("b", "2"))
    whole = frame("c", "3")
    assert learned.fits(whole)
    assert not any(learned.fits(whole[:end]) for end in range(len(whole)))
    assert not any(learned.fits(whole[start:]) for start in range(1, len(whole)))
    assert not learned.fits(whole + whole)
    assert not learned.fits(frame("c", "3", ',"x":1'))
    assert not learned.fits(whole.replace(b"content", b"contents"))


def test_a_value_that_stays_the_same_has_to_stay_so() -> None:
    learned = template(frame("a", "1"), frame("b", "1"))
    assert learned.fits(frame("c", "1"))
    assert not learned.fits(frame("c", "2"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (frame("a"), frame("a")),
        (frame("a"), frame("\\u0061")),
        (frame("a"), frame("b", tail=',"x":1')),
        (frame("a"), frame("b").replace(b"content", b"text")),
        (frame("a"), b""),
        (b"", frame("b")),
    ],
)
def test_frames_with_nothing_to_tell_make_no_template(first: bytes, second: bytes) -> None:
    assert template_of(first, second, VALUES) is None


def test_keys_may_be_set_apart_from_their_values() -> None:
    learned = template_of(b'{"content": "a"}', b'{"content": "b"}', VALUES)
    assert learned is not None
    assert learned.fits(b'{"content": "c"}')


INSIDES = st.binary(max_size=20) | st.text(
    st.sampled_from('ab\\"\n{}:,/ nü') | st.characters(max_codepoint=0x2100), max_size=12
).map(lambda text: text.encode("utf-8", "surrogatepass"))


@given(INSIDES, INSIDES)
def test_what_fits_is_one_frame_with_the_same_tokens(content: bytes, stamp: bytes) -> None:
    raw = frame("C", "S").replace(b"C", content).replace(b"S", stamp)
    if template(frame("a", "1"), frame("b", "2")).fits(raw):
        assert (
            raw.splitlines(keepends=True)[0].rstrip(b"\n") + b"\n\n" == raw
            or b"\x85" in raw
            or not raw.isascii()
        )
        value = json.loads(raw.removeprefix(b"data: "), object_pairs_hook=list)
        assert [key for key, _ in value] == ["stamp", "delta"]
        assert [key for key, _ in value[1][1]] == ["content"]
        assert value[0][1]
        assert value[1][1][0][1]


def padded(content: str, blanks: int) -> bytes:
    return f'data: {{"delta":{{"content":"{content}"}}{" " * blanks}}}\n\n'.encode()


def test_blanks_before_the_last_brace_may_be_any_number() -> None:
    learned = template(padded("a", 3), padded("b", 5))
    assert all(learned.fits(padded("c", blanks)) for blanks in (0, 1, 5, 50))
    assert not learned.fits(padded("c", 2).replace(b"  ", b" \t"))
    assert not learned.fits(padded("c", 2).replace(b"  ", b"\n "))
    assert not learned.fits(padded("c", 9).replace(b" " * 9, b',"x":123 '))
    assert not learned.fits(padded("", 2))


@pytest.mark.parametrize(("values", "learned"), [(template_module.PLACES, True), (5000, False)])
def test_a_frame_of_more_values_than_a_text_has_is_not_compared(values: int, *, learned: bool) -> None:
    first, second = (
        b"[" + b",".join(b'{"content":"%b%d"}' % (word, number) for number in range(values)) + b"]"
        for word in (b"a", b"b")
    )
    assert (template_of(first, second, VALUES) is not None) is learned


@pytest.mark.parametrize("blanks", [0, 3])
def test_a_padded_frame_does_not_fit_that_lacks_a_quote_or_a_brace(blanks: int) -> None:
    spoken, silent = template(padded("a", 3), padded("b", 5)), template(padded("a", 3), padded("a", 5))
    whole = padded("a", blanks)
    assert spoken.fits(whole)
    assert silent.fits(whole)
    for at in range(len(whole)):
        if whole[at] == ord(" ") and whole[at + 1 :].strip() == b"}":
            continue  # one blank less
        assert not spoken.fits(whole[:at] + whole[at + 1 :])
        assert not silent.fits(whole[:at] + whole[at + 1 :])
    assert not spoken.fits(whole.replace(b'"}' + b" " * blanks + b"}", b"}"))


# Sessions.


def said(delta: dict[str, Any], finish_reason: str | None = None, **fields: Any) -> bytes:
    return chunk(delta, finish_reason, object=CHUNK, **fields)


def text(content: str) -> bytes:
    return said({"content": content})


def in_text(policy: TurnPolicy | None = None) -> Session:
    """A turn in the middle of its text, of which it has seen enough to know it again."""
    play = Playbook(policy=policy).read(said({"role": "assistant", "content": ""}))
    for word in ("a", "b"):
        play.read(text(word))
    return play.session


def test_a_read_like_those_before_it_is_taken_and_counted_as_any_other() -> None:
    session, other = in_text(), in_text()
    assert session.receive_text(text("c"), 5.0)
    assert other.receive_data(text("c"), 5.0) == [Forward(text("c"))]
    assert session.tally == other.tally
    assert session.gate.state is other.gate.state


def test_it_is_not_taken_before_two_of_its_kind_were_read() -> None:
    play = Playbook().read(said({"role": "assistant", "content": ""}), text("a"))
    assert not play.session.receive_text(text("b"), 1.0)


@pytest.mark.parametrize(
    "between",
    [
        text("b") + text("c"),
        text("b")[:-1],
        b": hello\n\n",
        said({"content": None, "x": 1}),
        said({"content": ""}),
        said({}, "stop"),
        chunk({"content": "b"}),
    ],
)
def test_after_anything_else_it_has_to_be_read_again(between: bytes) -> None:
    session = in_text()
    session.receive_data(between, 1.0)
    assert not session.receive_text(text("c"), 1.0)


def test_chunks_that_do_not_say_what_they_are_are_read_one_by_one() -> None:
    play = Playbook().read(*(chunk({"content": word}) for word in "abcd"))
    assert not play.session.receive_text(chunk({"content": "e"}), 1.0)


def test_text_behind_the_beginning_of_a_call_is_not_taken() -> None:
    session = in_text()
    session.receive_data(call("get_weather", "{"), 1.0)
    for word in ("x", "y", "z"):
        assert not session.receive_text(text(word), 1.0)
        session.receive_data(text(word), 1.0)
    assert session.gate.state is GateState.HOLDING


def test_nothing_is_taken_for_a_turn_that_was_stopped_or_is_over() -> None:
    session = in_text()
    session.stop(Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, Finding(Code.TURN_CANCELLED, "x"), 1.0)
    assert not session.receive_text(text("c"), 1.0)
    session = in_text()
    session.receive_eof(1.0, clean=True)
    assert not session.receive_text(text("c"), 1.0)


def test_nothing_is_taken_that_exceeds_the_limit_of_a_frame() -> None:
    session = in_text(TurnPolicy(limits=Limits(frame_bytes=len(text("x" * 30)))))
    assert session.receive_text(text("x" * 30), 1.0)
    assert not session.receive_text(text("x" * 31), 1.0)


def test_a_turn_that_is_only_watched_is_read_likewise() -> None:
    assert in_text(TurnPolicy(mode=Mode.OBSERVE)).receive_text(text("c"), 1.0)


def test_a_stream_whose_frames_have_nothing_in_common_is_soon_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(
        "turngate.core.template.template_of", lambda first, _second, _values: asked.append(first)
    )
    session = in_text()
    for number in range(50):
        session.receive_data(text(f"word {number}"), 1.0)
    assert len(asked) == LESSONS


def test_a_lesson_that_paid_is_followed_by_more() -> None:
    session = in_text()
    for second in range(3 * LESSONS):
        for word in "abcdefghijklmnop":
            data = said({"content": f"{word} {second}"}, created=second)
            if not session.receive_text(data, 1.0):
                session.receive_data(data, 1.0)
        assert session.receive_text(said({"content": "x"}, created=second), 1.0)


def test_a_framer_that_must_see_everything_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watching(SSEFramer):
        may_miss_repeats = False

    assert in_text().receive_text(text("c"), 1.0)
    monkeypatch.setattr("tests.playbook.SSEFramer", Watching)
    assert not in_text().receive_text(text("c"), 1.0)


# Every dialect's own frames.

INSIDE = [
    "x", " ", "", "\\n", '\\"', "\\\\", "\\", "\\\\\\", "\\x", '"', "\\u0022", "\\ud800", "\n", "\r", "\t", "\0", "\x7f", "ü", "\u2028", "\x85", "null", "tool_calls",
    CHUNK, '","tool_calls":[{"index":0,"id":"c","function":{"name":"rm","arguments":"{}"}}],"x":"',
    '"},"finish_reason":"stop","x":{"content":"', '"}}]}\n\ndata: [DONE]\n\ndata: {"a":[{"b":{"c":"', "data: [DONE]", "x" * 3000,
]  # fmt: skip


@cache
def knowing() -> list[tuple[str, Session, bytes]]:
    """Sessions that know their text again, one of each kind of frame, each with the read that it learned from last."""
    found: dict[tuple[str, bytes], tuple[str, Session, bytes]] = {}
    for _, envelope in enveloped():
        if not envelope.streamed:
            continue
        policy = envelope.upstream.policy if envelope.upstream else TurnPolicy()
        session = open_session(
            envelope.dialect,
            envelope.tools,
            policy,
            framing=envelope.framing,
            pinned={},
            vocabulary=Vocabulary.FULL,
        )
        for each in envelope.framing.framer(1 << 20).receive_data(b"".join(envelope.pieces)):
            session.receive_data(each.raw, 1.0)
            key = (envelope.dialect.name, re.sub(rb'"[^"]*"(?!:)|\d+', b"", each.raw))
            if session._likeness.template is not None and key not in found:
                found[key] = (envelope.dialect.name, copy.deepcopy(session), each.raw)
    return list(found.values())


def variants(raw: bytes) -> Iterator[bytes]:
    """The read with something else in each string value of it, and with each byte of it changed."""
    for found in re.finditer(rb'"([^"]*)"', raw):
        for inside in INSIDE:
            yield raw[: found.start(1)] + inside.encode() + raw[found.end(1) :]
        yield raw[: found.start(1)] + b"\xff" + raw[found.end(1) :]
    for at in range(len(raw)):
        for byte in b'"\\\n\r{} x\xff':
            yield raw[:at] + bytes([byte]) + raw[at + 1 :]
        yield raw[:at] + raw[at + 1 :]
        yield raw[:at]


def misread(session: Session, raw: bytes) -> tuple[bytes | None, int]:
    """The first read that is taken for text and is none, and how many others were taken."""
    taken = 0
    for variant in variants(raw):
        if not copy.deepcopy(session).receive_text(variant, 1.0):
            continue
        taken += 1
        careful = copy.deepcopy(session)
        careful._likeness = Likeness(0)
        if careful.receive_data(variant, 1.0) != [Forward(variant)] or careful.turn != session.turn:
            return variant, taken
    return None, taken


DIALECTS = ("openai_chat", "anthropic_messages", "mistral_chat")


def test_templates_are_learned_in_the_dialects_that_say_so() -> None:
    assert {dialect for dialect, _, _ in knowing()} == set(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_taken_is_what_the_careful_way_takes(dialect: str) -> None:
    for _, session, raw in [each for each in knowing() if each[0] == dialect][:KINDS]:
        wrong, taken = misread(session, raw)
        assert wrong is None
        assert taken


def test_a_template_that_fits_too_much_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "_is_inside", lambda _said: True)
    assert any(misread(session, raw)[0] is not None for _, session, raw in knowing()[:3])
