"""Templates, and the reads that a session takes by them: promise 1 is that nothing fits which a client reads otherwise."""

from __future__ import annotations

import copy
import json
import os
import re
import tracemalloc
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.catalogue import enveloped
from tests.playbook import Playbook, call, chunk
from turngate.core import template as template_module
from turngate.core.action import Decide, Forward
from turngate.core.finding import Code, Finding
from turngate.core.gate import GateState, Move
from turngate.core.policy import Limits, Mode, TurnPolicy
from turngate.core.session import HeldBudget, Session
from turngate.core.sse import SSEFramer
from turngate.core.template import LESSONS, Likeness, Strings, Template, template_of
from turngate.core.verdict import Outcome, Reason
from turngate.dialects.openai_chat_json import CHUNK
from turngate.judging import open_session
from turngate.schema import Vocabulary

KINDS = 100 if os.environ.get("TURNGATE_SOAK") == "1" else 3
"""How many kinds of frames of each dialect are changed."""


def frame(content: str, stamp: str = "1", tail: str = "") -> bytes:
    return f'data: {{"stamp":"{stamp}","delta":{{"content":"{content}"}}{tail}}}\n\n'.encode()


def strings(raw: bytes) -> Strings:
    """The strings of a frame that may say anything, as a decoder would name them."""
    found = re.findall(rb'"(content|stamp|arguments)" ?: ?("(?:[^"\\]|\\.)+")', raw)
    return [(key.decode(), json.loads(value)) for key, value in found]


def compare(first: bytes, second: bytes, *, piece: bool = False) -> Template | None:
    """What is learned from two frames in a row."""
    likeness = Likeness()
    for number, raw in enumerate((first, second)):
        likeness.learn(raw, strings(raw), number, (0, 0) if piece else None)
    return likeness.template


def template(first: bytes, second: bytes, *, piece: bool = False) -> Template:
    learned = compare(first, second, piece=piece)
    assert learned is not None
    return learned


def fits(learned: Template, raw: bytes) -> bool:
    return learned.read(raw) is not None


@pytest.mark.parametrize(
    "content",
    ["b", "b c", " ", "{}[],:", "data: x", "\x7f", "ü\u2028\U0001f600", "x" * 5000, "\\n", '\\"', "a\\\\"],
)
def test_a_frame_fits_whose_text_alone_differs(content: str) -> None:
    assert fits(template(frame("a"), frame("b")), frame(content))
    assert fits(template(frame("a", "1"), frame("b", "2")), frame(content, "3"))


@pytest.mark.parametrize(
    "content",
    [
        "", "\\", "\\\\\\", "\\x", "\\u0061", "\\ud800", '"', 'b","x":"c', "\n", "\r", "\t", "\0", "\x1f",
        '"}}\n\ndata: {"a":{"b":"', 'a\\","x":"',
    ],
)  # fmt: skip
def test_a_frame_does_not_fit_whose_text_is_empty_or_could_end_its_string(content: str) -> None:
    assert not fits(template(frame("a"), frame("b")), frame(content))
    assert not fits(template(frame("a", "1"), frame("b", "2")), frame(content, "3"))
    assert not fits(template(frame("a", "1"), frame("b", "2")), frame("c", content))


def test_a_frame_does_not_fit_that_is_no_utf8() -> None:
    assert not fits(template(frame("a"), frame("b")), frame("?").replace(b"?", b"\xff"))


def test_a_frame_does_not_fit_that_differs_elsewhere_or_is_a_part() -> None:
    learned = template(frame("a", "1"), frame("b", "2"))
    whole = frame("c", "3")
    assert fits(learned, whole)
    assert not any(fits(learned, whole[:end]) for end in range(len(whole)))
    assert not any(fits(learned, whole[start:]) for start in range(1, len(whole)))
    assert not fits(learned, whole + whole)
    assert not fits(learned, frame("c", "3", ',"x":1'))
    assert not fits(learned, whole.replace(b"content", b"contents"))


def test_a_value_that_stays_the_same_has_to_stay_so() -> None:
    learned = template(frame("a", "1"), frame("b", "1"))
    assert fits(learned, frame("c", "1"))
    assert not fits(learned, frame("c", "2"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (frame("a"), frame("a")),
        (frame("a"), frame("\\u0061")),
        (frame("a"), frame("b").replace(b"content", b"text")),
        (frame("a"), b""),
    ],
)
def test_frames_with_nothing_to_tell_make_no_template(first: bytes, second: bytes) -> None:
    assert compare(first, second) is None


def test_keys_may_be_set_apart_from_their_values() -> None:
    assert fits(template(b'{"content": "a"}', b'{"content": "b"}'), b'{"content": "c"}')


INSIDES = st.binary(max_size=20) | st.text(
    st.sampled_from('ab\\"\n{}:,/ nü') | st.characters(max_codepoint=0x2100), max_size=12
).map(lambda text: text.encode("utf-8", "surrogatepass"))


@given(INSIDES, INSIDES)
def test_what_fits_is_one_frame_with_the_same_tokens(content: bytes, stamp: bytes) -> None:
    raw = frame("C", "S").replace(b"C", content).replace(b"S", stamp)
    if fits(template(frame("a", "1"), frame("b", "2")), raw):
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
    assert all(fits(learned, padded("c", blanks)) for blanks in (0, 1, 5, 50))
    assert not fits(learned, padded("c", 2).replace(b"  ", b" \t"))
    assert not fits(learned, padded("c", 2).replace(b"  ", b"\n "))
    assert not fits(learned, padded("c", 9).replace(b" " * 9, b',"x":123 '))
    assert not fits(learned, padded("", 2))


def test_of_a_frame_with_more_strings_than_a_text_has_only_the_last_are_free() -> None:
    first, second = (
        b"[" + b",".join(b'{"content":"%b%d"}' % (word, number) for number in range(5000)) + b"]"
        for word in (b"a", b"b")
    )
    learned = template(first, second)
    assert fits(learned, second.replace(b"b4999", b"x"))
    assert not fits(learned, second.replace(b"b1000", b"x"))


# Pieces of arguments.


def piece_of(arguments: str, stamp: str = "1", more: str = "") -> bytes:
    return f'data: {{"stamp":"{stamp}","f":{{"arguments":"{arguments}"}}{more}}}\n\n'.encode()


@pytest.mark.parametrize("stamp", ["1", "2"])
@pytest.mark.parametrize("said", ["x", '\\"', "{", "\\n", "ü", "a" * 5000])
def test_a_piece_is_what_stands_in_its_place(said: str, stamp: str) -> None:
    learned = template(piece_of("a", "1"), piece_of("b", stamp), piece=True)
    assert learned.read(piece_of(said, stamp)) == said.encode()


def test_pieces_may_be_escaped_as_far_as_they_must() -> None:
    learned = template(piece_of('{\\"a\\":'), piece_of("\\n\\\\"), piece=True)
    assert learned.read(piece_of('\\"')) == b'\\"'
    assert learned.read(piece_of("\\u0061")) is None


def test_a_piece_may_stand_before_other_strings() -> None:
    second, third = (b'{"arguments":"%b","stamp":"%b"}' % pair for pair in ((b"b", b"2"), (b"c", b"3")))
    learned = template_of(second, [("stamp", "2"), ("arguments", "b")], piece=True)
    assert learned is not None
    assert learned.read(third) == b"c"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (piece_of("a", "1"), piece_of("a", "2")),
        (piece_of("a"), piece_of("\\u0062")),
        (piece_of("a").replace(b'":"', b'"  :"'), piece_of("b").replace(b'":"', b'"  :"')),
        (piece_of("a", more=',"arguments":"a"'), piece_of("b", more=',"arguments":"b"')),
    ],
)
def test_pieces_that_do_not_differ_in_their_arguments_alone_make_no_template(
    first: bytes, second: bytes
) -> None:
    assert compare(first, second, piece=True) is None


@pytest.mark.parametrize("blanks", [0, 3])
def test_a_padded_frame_does_not_fit_that_lacks_a_quote_or_a_brace(blanks: int) -> None:
    spoken, silent = template(padded("a", 3), padded("b", 5)), template(padded("a", 3), padded("a", 5))
    whole = padded("a", blanks)
    assert fits(spoken, whole)
    assert fits(silent, whole)
    for at in range(len(whole)):
        if whole[at] == ord(" ") and whole[at + 1 :].strip() == b"}":
            continue  # one blank less
        assert not fits(spoken, whole[:at] + whole[at + 1 :])
        assert not fits(silent, whole[:at] + whole[at + 1 :])
    assert not fits(spoken, whole.replace(b'"}' + b" " * blanks + b"}", b"}"))


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
    assert session.receive_alike(text("c"), 5.0)
    assert other.receive_data(text("c"), 5.0) == [Forward(text("c"))]
    assert session.tally == other.tally
    assert session.gate.state is other.gate.state


def test_it_is_not_taken_before_two_of_its_kind_were_read() -> None:
    play = Playbook().read(said({"role": "assistant", "content": ""}), text("a"))
    assert not play.session.receive_alike(text("b"), 1.0)


@pytest.mark.parametrize("frames", [2, 3, 50])
def test_a_read_of_several_like_those_before_is_taken_as_if_they_came_apart(frames: int) -> None:
    for move in (Move.FORWARD, Move.HOLD):
        make = text if move is Move.FORWARD else piece
        data = b"".join(make(f"x{number}") for number in range(frames))
        session, other = (in_text() if make is text else in_arguments().session for _ in range(2))
        assert session.receive_alike(data, 5.0) is move
        assert other.receive_data(data, 5.0) == ([Forward(data)] if move is Move.FORWARD else [])
        assert (session.tally, session.turn) == (other.tally, other.turn)
        assert session.gate.held_frames == other.gate.held_frames
        assert session.gate.digest() == other.gate.digest()


@pytest.mark.parametrize(
    "among",
    [
        text(""),
        text("x")[:-1],
        text("x")[:-2],
        b"\n",
        b": x\n\n",
        b"data: [DONE]\n\n",
        said({}, "stop"),
        text("x") + b"\n",
    ],
)
def test_a_read_with_anything_else_among_them_is_read_with_care(among: bytes) -> None:
    for data in (text("a") + among, among + text("a"), text("a") + among + text("b")):
        session = in_text()
        before = copy.deepcopy(session.tally)
        assert session.receive_alike(data, 1.0) is None
        assert session.tally == before


@pytest.mark.parametrize(
    "between",
    [
        text("b") + text(""),
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
    assert not session.receive_alike(text("c"), 1.0)


def test_chunks_that_do_not_say_what_they_are_are_read_one_by_one() -> None:
    play = Playbook().read(*(chunk({"content": word}) for word in "abcd"))
    assert not play.session.receive_alike(chunk({"content": "e"}), 1.0)


@pytest.mark.parametrize("cut", [0, 1000])
def test_what_a_long_chunk_is_made_of_is_not_kept(cut: int) -> None:
    session = in_text()
    data = said({"content": "a", "reasoning_details": [[]] * 20_000})
    tracemalloc.start()
    for read in (data[:cut], data[cut:]):
        session.receive_data(read, 1.0)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2 * len(data)


def test_text_behind_the_beginning_of_a_call_is_not_taken() -> None:
    session = in_text()
    session.receive_data(call("get_weather", "{"), 1.0)
    for word in ("x", "y", "z"):
        assert not session.receive_alike(text(word), 1.0)
        session.receive_data(text(word), 1.0)
    assert session.gate.state is GateState.HOLDING


def test_nothing_is_taken_for_a_turn_that_was_stopped_or_is_over() -> None:
    session = in_text()
    session.stop(Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, Finding(Code.TURN_CANCELLED, "x"), 1.0)
    assert not session.receive_alike(text("c"), 1.0)
    session = in_text()
    session.receive_eof(1.0, clean=True)
    assert not session.receive_alike(text("c"), 1.0)


def test_nothing_is_taken_that_exceeds_the_limit_of_a_frame() -> None:
    session = in_text(TurnPolicy(limits=Limits(frame_bytes=len(text("x" * 30)))))
    assert session.receive_alike(text("x" * 30), 1.0)
    assert not session.receive_alike(text("x" * 31), 1.0)


def test_a_turn_that_is_only_watched_is_read_likewise() -> None:
    assert in_text(TurnPolicy(mode=Mode.OBSERVE)).receive_alike(text("c"), 1.0)


def test_a_stream_whose_frames_have_nothing_in_common_is_soon_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(
        "turngate.core.template.template_of", lambda first, *_rest, **_named: asked.append(first)
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
            if not session.receive_alike(data, 1.0):
                session.receive_data(data, 1.0)
        assert session.receive_alike(said({"content": "x"}, created=second), 1.0)


# Pieces of arguments in a session.


def piece(arguments: str, index: int = 0, **fields: Any) -> bytes:
    return said({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}, **fields)


def head(index: int = 0) -> bytes:
    function = {"name": "get_weather", "arguments": ""}
    return said(
        {"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]}
    )


def in_arguments(policy: TurnPolicy | None = None, **named: Any) -> Playbook:
    """A turn in the middle of a call's arguments, of which it has seen enough to know them again."""
    play = Playbook(policy=policy, **named).read(said({"role": "assistant", "content": ""}), head())
    for text in ('{"', "city"):
        play.read(piece(text))
    return play


@pytest.mark.parametrize("arguments", ["x", '":"', "\\", "\n", "ü", "tool_calls", "x" * 3000])
def test_a_piece_like_those_before_it_is_held_and_counted_as_any_other(arguments: str) -> None:
    data = json_chunk(arguments)
    session, other = in_arguments().session, in_arguments().session
    assert session.receive_alike(data, 5.0) is Move.HOLD
    assert other.receive_data(data, 5.0) == []
    assert session.tally == other.tally
    assert session.turn == other.turn
    assert session.gate.held_bytes == other.gate.held_bytes
    assert session.gate.digest() == other.gate.digest()


def json_chunk(arguments: str) -> bytes:
    """A piece as servers write it that leave characters beyond ASCII as they are."""
    marker = "MARKER"
    return piece(marker).replace(marker.encode(), json.dumps(arguments, ensure_ascii=False)[1:-1].encode())


@pytest.mark.parametrize(
    "data",
    [
        piece(""),
        piece("ü"),
        piece("x", index=1),
        piece("x") + piece("y", 1),
        piece("x") + piece(""),
        piece("x")[:-1],
        text("x"),
        said({}, "tool_calls"),
    ],
)
def test_what_is_not_one_more_piece_of_the_call_is_read_with_care(data: bytes) -> None:
    session = in_arguments().session
    before = copy.deepcopy(session.turn), copy.deepcopy(session.tally)
    assert session.receive_alike(data, 5.0) is None
    assert (session.turn, session.tally) == before


@pytest.mark.parametrize("behind", [b"\n\n", b"\n: }  }\n\n"])
def test_of_pieces_without_arguments_nothing_is_learned(behind: bytes) -> None:
    play = in_arguments()
    for name in ("a", "b"):
        play.read(piece("", id=name).removesuffix(b"\n\n") + behind)
        play.read(piece("").replace(b'"id": "chatcmpl-1", ', b"").removesuffix(b"\n\n") + behind)
    for name in ("a", "b"):
        play.read(piece("", id=name))
    assert play.session.receive_alike(piece("", id="x"), 1.0) is None
    assert [slot.arguments for slot in play.session.turn.slots.values()] == ['{"city']


@pytest.mark.parametrize("key", ["arguments", "argument\\u0073"])
@pytest.mark.parametrize("lines", [": %b\n%b\n\n", "id: %b\n%b\n\n", "%b\n: %b\n\n", ": %b\r%b\r\n\n"])
def test_what_stands_beside_the_data_is_no_piece(lines: str, key: str) -> None:
    play = in_arguments()
    for text in ("a", "b"):
        play.read(noted(text, text, lines, key))
    assert play.session.receive_alike(noted("b", "x", lines, key), 1.0) is None
    play.read(noted("b", "x", lines, key))
    assert [slot.arguments for slot in play.session.turn.slots.values()] == ['{"cityabb']


def noted(arguments: str, note: str, lines: str, key: str) -> bytes:
    """A piece beside a line, of a comment or of an id, that looks like one."""
    data = piece(arguments).replace(b'"arguments": ', b'"%b":' % key.encode()).strip()
    pair = [f'"arguments":"{note}"'.encode(), data]
    return lines.encode() % tuple(reversed(pair) if lines.startswith("%b") else pair)


def test_a_piece_of_another_call_is_that_calls() -> None:
    play = in_arguments()
    play.read(head(1), piece("a", 1), piece("b", 1))
    assert play.session.receive_alike(piece("c", 1), 1.0) is Move.HOLD
    assert play.session.receive_alike(piece("x", 0), 1.0) is None
    assert [slot.arguments for slot in play.session.turn.slots.values()] == ['{"city', "abc"]


def test_a_piece_that_exceeds_a_limit_is_told_with_care() -> None:
    size = len(piece("x" * 50))
    for limits in (
        Limits(argument_bytes=40),
        Limits(held_bytes=len(head()) + 2 * size),
        Limits(frame_bytes=size - 1),
    ):
        session = in_arguments(TurnPolicy(limits=limits)).session
        assert session.receive_alike(piece("x" * 50), 1.0) is None
        session.receive_data(piece("x" * 50), 1.0)
        assert session.turn.overran
    budget = HeldBudget(len(head()) + 2 * size)
    session = in_arguments(budget=budget).session
    used = budget.used
    assert session.receive_alike(piece("x" * 50), 1.0) is None
    assert budget.used == used


def test_a_piece_that_its_call_has_no_room_for_takes_no_room_of_the_process() -> None:
    budget = HeldBudget(1 << 20)
    session = in_arguments(TurnPolicy(limits=Limits(argument_bytes=10)), budget=budget).session
    used = budget.used
    assert session.receive_alike(piece("x" * 11), 1.0) is None
    assert budget.used == used == session.gate.held_bytes


def test_no_piece_is_taken_for_a_turn_that_is_decided_or_stopped() -> None:
    session = in_arguments().session
    session.stop(Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, Finding(Code.TURN_CANCELLED, "x"), 1.0)
    assert session.receive_alike(piece("x"), 1.0) is None
    session = in_arguments().session
    session.receive_eof(1.0, clean=True)
    assert session.receive_alike(piece("x"), 1.0) is None


def test_no_piece_is_taken_while_a_verdict_waits_for_its_record() -> None:
    play = in_arguments()
    session = play.session
    likeness = copy.deepcopy(session._likeness)
    (decide,) = session.receive_data(piece('":"Paris"}') + said({}, "tool_calls") + b"data: [DONE]\n\n", 1.0)
    assert isinstance(decide, Decide)
    session._likeness = likeness
    assert session.gate.state is GateState.HOLDING
    assert session.receive_alike(piece("x"), 1.0) is None


def test_pieces_of_a_turn_that_is_only_watched_are_read_with_care() -> None:
    assert in_arguments(TurnPolicy(mode=Mode.OBSERVE)).session.receive_alike(piece("x"), 1.0) is None


def test_a_framer_that_must_see_everything_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watching(SSEFramer):
        may_miss_repeats = False

    assert in_text().receive_alike(text("c"), 1.0)
    monkeypatch.setattr("tests.playbook.SSEFramer", Watching)
    assert not in_text().receive_alike(text("c"), 1.0)


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
    for arguments in ("a", "ü"):
        play = in_arguments().read(json_chunk("b"), json_chunk(arguments))
        found["openai_chat", arguments.encode()] = ("openai_chat", play.session, json_chunk("c"))
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
    """The first read that is taken for what it is not, and how many others were taken."""
    taken = 0
    for variant in variants(raw):
        quick = copy.deepcopy(session)
        move = quick.receive_alike(variant, 1.0)
        if move is None:
            continue
        taken += 1
        careful = copy.deepcopy(session)
        careful._likeness = Likeness(0)
        done = careful.receive_data(variant, 1.0)
        if done != ([Forward(variant)] if move is Move.FORWARD else []):
            return variant, taken
        if (careful.turn, careful.tally, careful.gate.digest()) != (
            quick.turn,
            quick.tally,
            quick.gate.digest(),
        ):
            return variant, taken
    return None, taken


DIALECTS = ("openai_chat", "anthropic_messages", "mistral_chat")


def of_kinds(dialect: str) -> Iterator[tuple[Session, bytes]]:
    """A few kinds of frames of text, and of pieces of arguments."""
    for state in (GateState.PASSING, GateState.HOLDING):
        found = [
            (session, raw)
            for name, session, raw in knowing()
            if name == dialect and session.gate.state is state
        ]
        yield from found[:KINDS]


def test_templates_are_learned_in_the_dialects_that_say_so() -> None:
    assert {dialect for dialect, _, _ in knowing()} == set(DIALECTS)
    for dialect in ("openai_chat", "anthropic_messages"):
        assert any(session.gate.state is GateState.HOLDING for session, _ in of_kinds(dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_taken_is_what_the_careful_way_takes(dialect: str) -> None:
    for session, raw in of_kinds(dialect):
        wrong, taken = misread(session, raw)
        assert wrong is None
        assert taken


def test_a_template_that_fits_too_much_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "_is_inside", lambda _said: True)
    known = {
        state: [each for each in of_kinds("openai_chat") if each[0].gate.state is state]
        for state in GateState
    }
    assert any(misread(session, raw)[0] is not None for session, raw in known[GateState.PASSING])
    with pytest.raises(msgspec.DecodeError):  # a piece that is no text at all
        misread(*known[GateState.HOLDING][0])
