"""The JSON array framer: elements as soon as they are whole, every byte kept, however the array was read."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turngate.core.frame import Frame, FrameFault
from turngate.core.json_array import END, JsonArrayFramer

LIMIT = 1 << 20
PLAIN = b'[{"a":1},\r\n{"b":[{},"]"]}\n,\n{"c":"\\"}\\\\"}\n]\n'


def frames_of(*reads: bytes, limit: int = LIMIT) -> list[Frame]:
    framer = JsonArrayFramer(limit)
    return [frame for read in reads for frame in framer.receive_data(read)] + framer.receive_eof()


def said(frames: list[Frame]) -> list[tuple[bytes | None, FrameFault | None]]:
    """What the frames say; white space apart, which depends on how it was read."""
    return [
        (frame.data, frame.fault) for frame in frames if frame.data is not None or frame.fault is not None
    ]


def test_an_array_is_cut_into_its_elements_and_its_end() -> None:
    frames = frames_of(PLAIN)
    assert [frame.data for frame in frames if frame.data is not None] == [
        b'{"a":1}',
        b'{"b":[{},"]"]}',
        b'{"c":"\\"}\\\\"}',
        END,
    ]
    assert [frame.raw for frame in frames] == [
        b'[{"a":1}',
        b',\r\n{"b":[{},"]"]}',
        b"\n",
        b',\n{"c":"\\"}\\\\"}',
        b"\n",
        b"]",
        b"\n",
    ]
    assert {frame.fault for frame in frames} == {None}


def test_an_element_comes_with_its_last_byte_and_not_before() -> None:
    framer = JsonArrayFramer(LIMIT)
    given = [framer.receive_data(PLAIN[at : at + 1]) for at in range(len(PLAIN))]
    ends = [at for at, frames in enumerate(given) if any(frame.data for frame in frames)]
    assert [PLAIN[at : at + 1] for at in ends] == [b"}", b"}", b"}", b"]"]
    assert framer.receive_eof() == []


@pytest.mark.parametrize("at", range(len(PLAIN) + 1))
def test_no_split_changes_what_the_frames_say(at: int) -> None:
    assert said(frames_of(PLAIN[:at], PLAIN[at:])) == said(frames_of(PLAIN))


@pytest.mark.parametrize("body", [b"", b" \n", b"[]", b" [ ]", b"[\n]"])
def test_an_array_without_elements_says_only_that_it_is_over(body: bytes) -> None:
    assert [frame.data for frame in frames_of(body) if frame.data is not None] == [END] * body.count(b"]")


@pytest.mark.parametrize("body", [b'{"error":{"code":400}}\n', b" null", b"\xef\xbb\xbf[]", b"x"])
def test_what_is_no_array_is_one_document_given_at_its_end(body: bytes) -> None:
    framer = JsonArrayFramer(LIMIT)
    assert [frame for at in range(len(body)) for frame in framer.receive_data(body[at : at + 1])] == []
    assert framer.receive_eof() == [Frame(body, body)]


@pytest.mark.parametrize(
    "rest", [b"1,{}]", b',,{"a":1}]', b',]{"a":1}', b'{"b":1}]', b':{"b":1}]', b']x{"b":1}', b"]]"]
)
def test_after_a_byte_that_no_array_has_there_the_rest_is_one_faulty_frame(rest: bytes) -> None:
    body = b'[{"a":1}' + rest
    last = frames_of(body)[-1]
    assert last.fault is FrameFault.GRAMMAR
    assert last.raw == last.data
    assert said(frames_of(*(body[at : at + 1] for at in range(len(body))))) == said(frames_of(body))


@pytest.mark.parametrize(
    ("cut", "left"),
    [
        (b'[{"a":"}', b'{"a":"}'),
        (b'[{"a":1},\n{"b', b'{"b'),
        (b'[{"a":1},', None),
        (b"[", None),
        (b'[{"a":"\\', b'{"a":"\\'),
    ],
)
def test_the_end_of_the_stream_is_no_end_of_an_element(cut: bytes, left: bytes | None) -> None:
    last = frames_of(cut)[-1]
    assert (last.data, last.fault) == (left, FrameFault.UNTERMINATED)


def test_an_array_without_its_bracket_never_says_that_it_is_over() -> None:
    assert END not in {frame.data for frame in frames_of(b'[{"a":1}\n')}


def test_bytes_that_are_no_utf8_are_a_fault_of_their_element() -> None:
    faults = [frame.fault for frame in frames_of(b'[{"a":"\xff"},{"b":1}]')]
    assert faults == [FrameFault.ENCODING, None, None]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_an_element_over_the_limit_and_all_behind_it_is_oversized(step: int) -> None:
    body = b'[{"a":1},{"b":"' + b"x" * 40 + b'"},{"c":1}]'
    frames = frames_of(*(body[at : at + step] for at in range(0, len(body), step)), limit=30)
    assert b"".join(frame.raw for frame in frames) == body
    assert frames[0].fault is None
    assert {frame.fault for frame in frames[1:]} == {FrameFault.OVERSIZED}


def test_the_limit_is_one_element_and_not_the_array() -> None:
    body = b"[" + b",".join([b'{"a":1}'] * 100) + b"]"
    assert len([frame for frame in frames_of(body, limit=8) if frame.data is not None]) == 101


@given(st.lists(st.binary(max_size=12), max_size=12))
@example([PLAIN[:20], PLAIN[20:]])
def test_the_raw_of_all_frames_is_the_input_whatever_it_is(reads: list[bytes]) -> None:
    assert b"".join(frame.raw for frame in frames_of(*reads, limit=40)) == b"".join(reads)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4), max_size=5),
    st.sampled_from([None, 1, 4]),
    st.data(),
)
def test_the_elements_are_those_of_the_array_however_it_is_read(
    elements: list[Any], indent: int | None, data: st.DataObject
) -> None:
    body = json.dumps(elements, indent=indent, ensure_ascii=data.draw(st.booleans())).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    frames = frames_of(*(body[a:b] for a, b in itertools.pairwise([0, *cuts, len(body)])))
    found = [frame.data for frame in frames if frame.data is not None]
    assert [json.loads(each) for each in found[:-1]] == elements
    assert found[-1] == END
