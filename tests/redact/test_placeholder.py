from __future__ import annotations

import itertools
import json
import math
import string

from hypothesis import given
from hypothesis import strategies as st

from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.vocabulary import vocabulary


@given(st.lists(st.text(min_size=1), unique=True))
def test_equal_texts_stay_equal_and_different_ones_different(values: list[str]) -> None:
    texts = Texts(vocabulary())
    made = [texts(value) for value in values]
    assert len(set(made)) == len(made)
    assert made == [texts(value) for value in values]


@given(st.text(min_size=3))
def test_a_text_keeps_its_length(value: str) -> None:
    assert len(Texts(vocabulary())(value)) == len(value)


def test_there_are_placeholders_for_every_letter() -> None:
    texts = Texts(vocabulary())
    made = [texts(char) for char in string.printable if char.strip()]
    assert len(set(made)) == len(made)
    assert all(new != old for new, old in zip(made, (c for c in string.printable if c.strip()), strict=True))


def test_a_blank_text_stays_blank() -> None:
    texts = Texts(vocabulary())
    made = [texts(value) for value in (" \t", "\t ", "\u3000", "\n", "\xa0")]
    assert not any(each.strip() for each in made)
    assert len(set(made)) == len(made)
    assert texts("") == ""


def test_no_placeholder_is_a_word_of_a_format_or_a_literal() -> None:
    texts = Texts(vocabulary())
    made = {texts("".join(letters)) for letters in itertools.product("abcd", repeat=4)}
    assert made.isdisjoint({*vocabulary().words, "null"})


def test_a_word_that_decoders_look_for_inside_others_stays_in_its_place() -> None:
    made = Texts(vocabulary())("secret_call_secret")
    assert made[6:11] == "_call"
    assert "secret" not in made


NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(st.one_of(st.integers(-(2**62), 2**62), st.floats(-1e9, 1e9)), min_size=2))
def test_numbers_keep_order_sign_and_kind(values: list[float]) -> None:
    numbers = Numbers(values)
    for one, other in itertools.pairwise(values):
        assert (one < other) == (numbers(one) < numbers(other))
        assert (one == other) == (numbers(one) == numbers(other))
    for value in values:
        assert type(numbers(value)) is type(value)
        assert (float(value).is_integer()) == float(numbers(value)).is_integer()


@given(NUMBERS)
def test_a_number_in_json_becomes_a_number_in_json(value: float) -> None:
    written = json.dumps(value)
    made = Numbers([value]).literal(written)
    assert type(json.loads(made)) is type(json.loads(written))


def test_zero_stays_zero_because_some_formats_ask_only_for_that() -> None:
    assert [Numbers([7]).literal(text) for text in ("0", "0.0", "-0.0")] == ["0", "0.0", "-0.0"]


def test_integers_beyond_64_bits_stay_beyond() -> None:
    small, large, huge = 5, 2**63 + 7, 2**70
    numbers = Numbers([small, large, huge])
    assert numbers(small) < 2**63 <= numbers(large) < 2**64 <= numbers(huge)
    assert numbers(-huge) == -numbers(huge)


def test_numbers_that_no_reader_takes_stay_such_numbers() -> None:
    numbers = Numbers([])
    assert math.isinf(float(numbers.literal("1e400")))
    assert numbers.literal("1" * 5000) == "9" * 5000
    assert numbers.literal("-1e400") == "-1e999"
