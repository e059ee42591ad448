from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.redact.lexeme import lexemes, read_string, respell, write_string

BROKEN = st.text(alphabet='{}[],:"\\ \t\n0123456789.-+eEtrufalsn\ud800\x00é', max_size=60)


@given(st.one_of(BROKEN, st.text()))
def test_every_character_belongs_to_one_lexeme(text: str) -> None:
    assert "".join(lexeme.text for lexeme in lexemes(text)) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_sound_json_has_no_cut_string_and_only_words_that_are_values(value: object) -> None:
    found = list(lexemes(json.dumps(value)))
    assert all(lexeme.kind != "cut" for lexeme in found)
    assert all(lexeme.is_number or lexeme.is_literal for lexeme in found if lexeme.kind == "word")


def test_a_lexeme_knows_the_member_that_it_belongs_to() -> None:
    found = [
        (each.text, each.key, each.is_key)
        for each in lexemes('{"a":{"b":1,"c":["x",2]},"d":"e"}')
        if each.kind in ("string", "word")
    ]
    assert found == [
        ('"a"', None, True), ('"b"', None, True), ("1", "b", False), ('"c"', "b", True), ('"x"', "c", False),
        ("2", "c", False), ('"d"', "a", True), ('"e"', "d", False),
    ]  # fmt: skip


def test_brackets_that_do_not_match_still_give_keys() -> None:
    assert [each.key for each in lexemes(']]{"type":"x"') if each.text == '"x"'] == ["type"]


@given(st.text())
def test_a_strings_body_is_read_as_json_reads_it(value: str) -> None:
    for body in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        assert read_string(body) == json.loads(f'"{body}"')


@pytest.mark.parametrize(
    ("body", "spelled"),
    [
        ("plain", "ggggg"),
        ("a\\u0041b", "g\\u0067g"),
        ("\\ud83d\\ude00", "g"),
        ("a\\ud83d", "g\\ud800"),
        ("\\ude00b", "\\udcffg"),
        ("a\\u12", "g\\ugg"),
        ("a\\xb", "g\\qg"),
        ("a\\", "g\\"),
        ("a\nb", "g\ng"),
        ("a\tb", "g\tg"),
        ("a\x07b", "g\tg"),
        ("a\x00b", "g\x00g"),
        ("a\udcc3b", "g\udcffg"),
        ("a\\n\\\\b", "gggg"),
    ],
)  # fmt: skip
def test_a_placeholder_keeps_the_faults_of_what_it_replaces(body: str, spelled: str) -> None:
    assert respell(body, "g" * len(read_string(body))) == spelled


def test_a_placeholder_that_is_longer_than_what_it_replaces_is_not_cut() -> None:
    assert respell("a\\u0041", "ghij") == "g\\u0068ij"


@given(st.text(alphabet=string.printable + "é\ud83d\ude00"), st.sampled_from(["", "a", "\\u0041"]))
def test_a_written_string_is_read_back(value: str, like: str) -> None:
    body = write_string(value, like)
    assert json.loads(f'"{body}"') == json.loads(json.dumps(value))
    body.encode()
    assert ("\\u00" in body) >= ("\\u00" in like and value[:1].isascii() and bool(value))
