from __future__ import annotations

import pytest

from turngate.dialects.bedrock_json import raw_inputs, text_index


@pytest.mark.parametrize(
    "data",
    [
        b'{"contentBlockIndex":3,"delta":{"text":"hi"},"p":"abc"}',
        b'{"contentBlockIndex":3,"delta":{"reasoningContent":{"text":"hm"}}}',
        b'{"contentBlockIndex":3,"delta":{"reasoningContent":{"signature":"s"}}}',
    ],
)
def test_a_delta_of_nothing_but_text_is_recognised(data: bytes) -> None:
    assert text_index(data) == 3


@pytest.mark.parametrize(
    "data",
    [
        b'{"contentBlockIndex":3,"delta":{"toolUse":{"input":""}}}',
        b'{"contentBlockIndex":3,"delta":{"text":"hi","toolUse":{"input":""}}}',
        b'{"contentBlockIndex":3,"delta":{"toolUse":{}},"delta":{"text":"hi"}}',
        b'{"contentBlockIndex":3,"delta":{"text":"hi"},"toolUse":{}}',
        b'{"contentBlockIndex":"3","delta":{"text":"hi"}}',
        b'{"delta":{"text":"hi"}}',
        b"[" * 5000,
        b"",
    ],
)
def test_anything_else_takes_the_careful_way(data: bytes) -> None:
    assert text_index(data) is None


def test_an_input_is_its_exact_text() -> None:
    content = b'[{"text":"hi"},{"toolUse":{"input":{ "a": 1.0,"a":2 }}},{"toolUse":{}}]'
    body = b'{"output":{"message":{"content":%b}}}' % content
    assert raw_inputs(body) == [b"", b'{ "a": 1.0,"a":2 }', b""]
    assert raw_inputs(b'{"output":{"message":{}}}') == []
