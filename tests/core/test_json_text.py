"""The strict reader refuses whatever two clients could read differently, and never raises."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turngate.core.json_text import (
    LENIENT_DEPTH,
    MAX_DEPTH,
    FaultKind,
    JsonFault,
    LenientReading,
    read_every,
    read_json,
    read_lenient,
    read_object,
    says_once,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
JSON_LIKE = st.text(alphabet='{}[]",:\\u0019dDeE+-.tfn \t\n\ud83d\ude00\ud800é\ufeff', max_size=40)


def fault(text: str | bytes) -> JsonFault:
    found = read_json(text)
    assert isinstance(found, JsonFault), found
    return found


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("", FaultKind.SYNTAX, id="empty"),
        pytest.param("{} {}", FaultKind.SYNTAX, id="two documents"),
        pytest.param("{'a': 1}", FaultKind.SYNTAX, id="python literal"),
        pytest.param('{"a": 1', FaultKind.SYNTAX, id="cut off"),
        pytest.param('{"a": 1,}', FaultKind.SYNTAX, id="trailing comma"),
        pytest.param('"\x01"', FaultKind.SYNTAX, id="raw control character"),
        pytest.param("\u00a0{}", FaultKind.SYNTAX, id="no-break space"),
        pytest.param("NaN", FaultKind.NUMBER, id="NaN"),
        pytest.param('{"a": -Infinity}', FaultKind.NUMBER, id="-Infinity"),
        pytest.param("[1e400]", FaultKind.NUMBER, id="overflow"),
        pytest.param("1" * 4301, FaultKind.NUMBER, id="4301 digits"),
        pytest.param('{"a": 1, "a": 1}', FaultKind.DUPLICATE_KEY, id="equal pair twice"),
        pytest.param('{"a": 1, "\\u0061": 2}', FaultKind.DUPLICATE_KEY, id="one key escaped"),
        pytest.param('[{"x": {"a": 1, "b": 2, "a": 3}}]', FaultKind.DUPLICATE_KEY, id="deep inside"),
        pytest.param('"\\ud800"', FaultKind.SURROGATE, id="escaped lone surrogate"),
        pytest.param('{"\\udc00": 1}', FaultKind.SURROGATE, id="lone surrogate in a key"),
        pytest.param('"\ud800"', FaultKind.SURROGATE, id="raw lone surrogate"),
        pytest.param("\ufeff{}", FaultKind.ENCODING, id="BOM in text"),
        pytest.param(b"\xef\xbb\xbf{}", FaultKind.ENCODING, id="BOM in bytes"),
        pytest.param(b'"\xff"', FaultKind.ENCODING, id="invalid UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', FaultKind.ENCODING, id="surrogate as UTF-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), FaultKind.ENCODING, id="UTF-16 with BOM"),
        pytest.param('{"a": 1}'.encode("utf-16-le"), FaultKind.SYNTAX, id="UTF-16 without BOM"),
        pytest.param("[" * 65 + "]" * 65, FaultKind.DEPTH, id="65 lists"),
        pytest.param('{"a":' * 65 + "1" + "}" * 65, FaultKind.DEPTH, id="65 objects"),
        pytest.param("[" * 1_000_000, FaultKind.DEPTH, id="depth bomb"),
    ],
)
def test_refuses(text: str | bytes, kind: FaultKind) -> None:
    assert fault(text).kind is kind


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(" \t\r\n{}\n", {}, id="whitespace around"),
        pytest.param('"\\ud83d\\ude00"', "\U0001f600", id="whole surrogate pair"),
        pytest.param('{"a": {"a": [{"a": 1}]}}', {"a": {"a": [{"a": 1}]}}, id="one key on several levels"),
        pytest.param('{"a": 1, "A": 2}', {"a": 1, "A": 2}, id="keys that differ in case"),
        pytest.param("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64), id="64 lists"),
        pytest.param('["' + "[" * 500 + '\\"{"]', ["[" * 500 + '"{'], id="brackets inside a string"),
        pytest.param("[" + ",".join(["[]"] * 500) + "]", [[]] * 500, id="many brackets, not deep"),
        pytest.param("1e-400", 0.0, id="underflow"),
        pytest.param("1" * 4300, int("1" * 4300), id="4300 digits"),
    ],
)
def test_accepts(text: str, value: object) -> None:
    assert read_json(text) == value
    assert read_json(text.encode()) == value


def test_integers_stay_exact_and_apart_from_floats() -> None:
    value = read_json("[18446744073709551616, 9007199254740993, 1, 1.0, 1e2, -0]")
    assert value == [2**64, 2**53 + 1, 1, 1.0, 100.0, 0]
    assert isinstance(value, list)
    assert [type(item) for item in value] == [int, int, int, float, float, int]


def test_a_fault_says_where_and_never_what() -> None:
    found = fault('{"secret": hunter2}')
    assert found.offset == 11
    assert "hunter2" not in found.message
    assert "secret" not in found.message
    assert fault(b'{"secret": "\xff"}').offset == 12


def test_the_depth_limit_is_the_callers() -> None:
    assert read_json("[[1]]", max_depth=2) == [[1]]
    assert isinstance(read_json("[[1]]", max_depth=1), JsonFault)


def test_a_caller_deep_in_its_own_stack_gets_a_fault_not_a_recursion_error() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH

    def descend(frames: int) -> object:
        return descend(frames - 1) if frames else read_json(text)

    room = sys.getrecursionlimit()
    results = set()
    for frames in range(room - 200, room):
        try:
            results.add(type(descend(frames)))
        except RecursionError:  # the descent itself found no room
            break
    assert results <= {list, JsonFault}
    assert list in results


def test_an_object_is_told_from_other_json() -> None:
    assert read_object('{"a": [1]}') == {"a": [1]}
    for text in ("[]", "1", "null", '"{}"'):
        found = read_object(text)
        assert isinstance(found, JsonFault)
        assert found.kind is FaultKind.NOT_OBJECT
    broken = read_object("{")
    assert isinstance(broken, JsonFault)
    assert broken.kind is FaultKind.SYNTAX


@given(st.text(max_size=60) | JSON_LIKE | st.binary(max_size=60))
@example("9" * 5000)
@example('{"a":[' * 40)
def test_reading_is_total(text: str | bytes) -> None:
    read_json(text)
    read_lenient(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))


@given(JSON_VALUES, st.booleans())
def test_what_a_strict_writer_writes_is_read_back(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_json(text) == value
    assert read_json(text.encode()) == value


@given(JSON_LIKE | JSON_VALUES.map(json.dumps))
def test_whatever_is_accepted_means_the_same_to_the_standard_library(text: str) -> None:
    value = read_json(text)
    if not isinstance(value, JsonFault):
        assert json.loads(text) == value
        assert json.loads(json.dumps(value)) == value


@given(JSON_LIKE | JSON_VALUES.map(json.dumps))
def test_a_lenient_reader_reads_everything_that_a_strict_one_reads(text: str) -> None:
    value = read_json(text)
    if not isinstance(value, JsonFault):
        assert read_lenient(text.encode()) == LenientReading(value)


@pytest.mark.parametrize(
    ("data", "reading"),
    [
        pytest.param(b'{"a": 1, "a": 2}', LenientReading({"a": 2}, repeated_key=True), id="last key wins"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', LenientReading({"a": 1}, disputed=True), id="BOM"),
        pytest.param('{"a": 1}'.encode("utf-16"), LenientReading({"a": 1}, disputed=True), id="UTF-16"),
        pytest.param(b"[Infinity]", LenientReading([float("inf")], disputed=True), id="Infinity"),
        pytest.param(b"[" + b"9" * 4301 + b"]", LenientReading([float("inf")]), id="endless integer"),
        pytest.param(b'"\\ud800"', LenientReading("\ud800"), id="lone surrogate"),
        pytest.param(b'"\xff"', LenientReading("\ufffd", disputed=True), id="invalid UTF-8"),
        pytest.param(b'"a\nb"', LenientReading("a\nb", disputed=True), id="raw line break"),
        pytest.param(b"{'a': 1}", None, id="no JSON at all"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"[" * 100_000, LenientReading(None, too_deep=True), id="depth bomb"),
        pytest.param(b"[" * (LENIENT_DEPTH + 1), LenientReading(None, too_deep=True), id="just too deep"),
    ],
)
def test_a_lenient_reader_sees_what_careless_clients_see(data: bytes, reading: LenientReading | None) -> None:
    assert read_lenient(data) == reading


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        pytest.param('{"a": 1, "A": 2, "a": {"b": []}}', LenientReading({"a": [1, 2, {"b": [[]]}]}), id="every value"),
        pytest.param('{"\u017f": 1, "\\u212a": 2}', LenientReading({"s": [1], "k": [2]}), id="letters that Go folds"),
        pytest.param('\ufeff["a\nb", Infinity]', LenientReading(["a\nb", float("inf")]), id="careless"),
        pytest.param("plain text", None, id="no JSON"),
        pytest.param('{"a": 1} {}', None, id="two documents"),
        pytest.param("[" * 100_000, LenientReading(None, too_deep=True), id="depth bomb"),
    ],
)  # fmt: skip
def test_what_any_reader_finds_is_there(text: str, reading: LenientReading | None) -> None:
    assert read_every(text) == reading


# Keys and strings chosen for what they do to a reader that looks for keys by their quote and colon.
_KEYS = st.sampled_from(["a", "b", "x\\", "y\\\\", 'q"', ":", " :", '": '])
_TEXTS = st.sampled_from(['":', '\\":', " : ", '" : ', '\\" :', "x\\", '{"a" : 1}', '{"a":1,"a":2}'])


@pytest.mark.parametrize(
    ("data", "once"),
    [
        (b'{"a":1,"b":[{"a":2}]}', True),
        (b' {"b" : [ {"\\u0061":"x:y"} ], "a":1e3}', True),
        (b'{"a":1,"a":1}', False),
        (b'{"a":1,"\\u0061":2}', False),
        (b'{"a" :1,"a":1}', False),
        (b'{"a\\\\":1,"b":{"c":1,"c":"\\u003a"}}', False),
        (b'{"a":{"b":":"},"a":"::"}', False),
    ],
)
def test_a_value_is_all_that_its_text_says_or_a_key_came_twice(data: bytes, once: bool) -> None:
    assert says_once(data, msgspec.json.decode(data)) is once


def _spelt(text: str, escaped: bool) -> str:
    return '"' + "".join(f"\\u{ord(each):04x}" for each in text) + '"' if escaped else json.dumps(text)


@st.composite
def oddly_written(draw: st.DrawFn, depth: int = 2) -> tuple[str, bool]:
    """A JSON object in an odd spelling, and whether one of its objects repeats a key."""
    keys, members, repeats = set[str](), list[str](), False
    for _ in range(draw(st.integers(0, 3))):
        key = draw(_KEYS)
        repeats |= key in keys
        keys.add(key)
        if depth and draw(st.booleans()):
            value, inside = draw(oddly_written(depth - 1))
            repeats |= inside
        else:
            value = _spelt(draw(_TEXTS), draw(st.booleans()))
        gap = draw(st.sampled_from(["", "", " ", "  ", "\n", "\t\r"]))
        members.append(f"{_spelt(key, draw(st.booleans()))}{gap}:{value}")
    return "{" + ",".join(members) + "}", repeats


@given(oddly_written())
@example(('{"a" :1,"b":2,"b":3}', True))
@example(('{"x\\\\":1,"b":2,"b":3}', True))
@example(('{"t":"x \\u003a","b":2,"b":3}', True))
@example(('{"t":"\\u003A","b" : 2,"b":3}', True))
def test_a_repeated_key_is_seen_however_it_is_spelt(written: tuple[str, bool]) -> None:
    text, repeats = written
    assert read_lenient(text.encode()) == LenientReading(json.loads(text), repeated_key=repeats)
