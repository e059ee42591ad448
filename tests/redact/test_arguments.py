from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.core.json_text import JsonFault, read_json
from turngate.redact.arguments import numbers_of, redact_fragments, redact_free_text, strings_of
from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.vocabulary import vocabulary


def redacted(text: str) -> str:
    return redact_fragments([text], Texts(vocabulary()), Numbers(numbers_of(text)))[0]


def test_names_and_values_are_replaced_and_the_skeleton_stays() -> None:
    assert redacted('{"city": "Paris", "days":[3,true,null], "type":"function"}') == (
        '{"gggg": "ggggg", "gggh":[1,true,null], "gggi":"gggggggg"}'
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1', '{"a":"x', '{"a":1}}', '{"a":1}{"a":2}', '{"a":1,"a":2}', "{'a': 1}", '{"a": True}', '{"a":NaN}',
        '{"a":1e400}', '{"a":007}', '{"a":"\\ud800"}', '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":"\n"}', "[1]", "3", '"x"',
        "\ufeff{}", '{"a":\xa01}', "I call it", "", " ", '{"a":"\ud800"}', "[" * 70 + "]" * 70, '{"a":' + "1" * 5000 + "}",
        '{"a":1,}', "null", "true",
    ],
)  # fmt: skip
def test_broken_arguments_keep_their_fault(text: str) -> None:
    before, after = read_json(text), read_json(redacted(text))
    if isinstance(before, JsonFault):
        assert isinstance(after, JsonFault)
        assert after.kind is before.kind
    else:
        assert type(after) is type(before)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def shape(value: object) -> object:
    match value:
        case dict():
            return [shape(each) for each in value.values()]
        case list():
            return ["list", *(shape(each) for each in value)]
        case bool() | None:
            return value
        case _:
            return type(value)


@given(JSON, st.booleans())
def test_sound_arguments_keep_their_shape(value: object, escape: bool) -> None:
    text = json.dumps(value, ensure_ascii=escape)
    before, after = read_json(text), read_json(redacted(text))
    assert isinstance(before, JsonFault) == isinstance(after, JsonFault)
    if not isinstance(after, JsonFault):
        assert shape(after) == shape(before)


@given(st.lists(st.text(alphabet='{}[]:,"\\ab 0189.', max_size=8)))
def test_it_does_not_matter_where_a_text_was_cut(fragments: list[str]) -> None:
    texts, numbers = Texts(vocabulary()), Numbers(numbers_of("".join(fragments)))
    pieces = redact_fragments(fragments, texts, numbers)
    assert len(pieces) == len(fragments)
    assert "".join(pieces) == redact_fragments(["".join(fragments)], texts, numbers)[0]


def test_a_piece_without_text_stays_without() -> None:
    assert redact_fragments(["", '{"ab":', "", "12}", ""], Texts(vocabulary()), Numbers([12])) == [
        "",
        '{"gg":',
        "",
        "1}",
        "",
    ]


def test_free_text_is_one_placeholder_in_pieces() -> None:
    texts = Texts(vocabulary())
    pieces = redact_free_text(["SELECT ", "secret"], texts)
    assert list(map(len, pieces)) == [7, 6]
    assert "".join(pieces) == texts("SELECT secret")


def test_every_string_is_found_also_names_and_cut_ones() -> None:
    assert list(strings_of('{"a":"b\\u0041","c')) == ["a", "bA", "c"]
