from __future__ import annotations

import pytest

from turngate.dialects.gemini_interactions_json import raw_step, raw_steps, text_index

TEXT = b'{"index":2,"delta":{"text":"hi","type":"text"},"event_type":"step.delta"}'


def test_a_piece_of_text_says_where_it_belongs() -> None:
    assert text_index(TEXT) == 2


@pytest.mark.parametrize(
    "data",
    [
        TEXT.replace(b'"type":"text"', b'"type":"arguments_delta"'),
        TEXT.replace(b'"text":"hi"', b'"text":"hi","arguments":"{}"'),
        TEXT.replace(b"step.delta", b"step.start"),
        TEXT.replace(b'"index":2', b'"index":2,"metadata":{}'),
        b"{" * 5000,
        b"",
    ],
)
def test_anything_else_takes_the_careful_way(data: bytes) -> None:
    assert text_index(data) is None


def test_arguments_keep_their_very_text() -> None:
    assert raw_step(b'{"step":{"arguments":{ "n":1.0 }}}') == b'{ "n":1.0 }'
    assert raw_step(b'{"step":{}}') == b"null"
    assert raw_steps(b'{"steps":[{"arguments":{"a" :1}},{}]}') == [b'{"a" :1}', b"null"]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"step":3,"steps":3}', b"{}"])
def test_what_is_no_step_has_no_arguments(data: bytes) -> None:
    assert raw_step(data) is None
    assert raw_steps(data) == []
