"""A judged turn with a reply to itself: when its head goes out, and an array, whose ending is a piece of it, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proxy.gated import LAST_CHUNK, SSE_HEAD, Run, Script, answering, chunked, gated, plain, request
from tests.proxy.test_relay import Standing


@pytest.mark.parametrize(
    "script",
    [Standing(SSE_HEAD), Standing(SSE_HEAD + chunked(b"data: {"))],
    ids=["silent", "silent in the middle of its first frame"],
)
def test_the_head_of_a_silent_stream_does_not_wait_for_its_first_byte(
    run: Run, tmp_path: Path, script: Script
) -> None:
    async def main() -> None:
        async with gated(tmp_path, script) as world, world.connect() as client:
            client.writer.write(request())
            status, headers = await client.head()
            assert status == 200
            assert ("x-accel-buffering", "no") in headers

    run(main())


# A streamed array: JSON that is read piece by piece, so its ending is a piece, too.

ARRAY = "/provider/v1beta/models/m:streamGenerateContent"
ARRAY_REQUEST = {"tools": [{"functionDeclarations": [{"name": "now"}]}]}
SAID_ELEMENT = b'[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}\n'
CALL_ELEMENT = b',\r\n{"candidates":[{"content":{"parts":[{"functionCall":{"name":"now"}}]}}]}\n'
JSON_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=UTF-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def test_an_array_with_a_length_is_ended_by_an_error_and_not_by_its_length(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        body = SAID_ELEMENT + CALL_ELEMENT + b"]"
        async with gated(tmp_path, answering(plain(body))) as world:
            answer = await world.ask(request(ARRAY, ARRAY_REQUEST))
        assert (answer.status, answer.clean) == (200, True)
        assert answer.header("content-length") is None
        said, error = json.loads(answer.body)
        assert said["candidates"][0]["content"]["parts"] == [{"text": "hi"}]
        assert error["error"]["turngate"]["codes"] == ["missing_terminal"]

    run(main())


def test_an_array_stays_an_array_through_keep_alives(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        upstream = Standing(JSON_HEAD + chunked(SAID_ELEMENT) + chunked(CALL_ELEMENT))
        async with (
            gated(tmp_path, upstream, provider={"keepalive_s": 0.05}) as world,
            world.connect() as client,
        ):
            client.writer.write(request(ARRAY, ARRAY_REQUEST))
            early = await client.read_until(b"\r\n1\r\n\n\r\n1\r\n\n\r\n")
            assert b"functionCall" not in early
            end = b',{"candidates":[{"finishReason":"STOP"}]}]'
            upstream.go_on.put_nowait(chunked(end) + LAST_CHUNK)
            rest = await client.read_until(b"0\r\n\r\n")
            assert chunked(CALL_ELEMENT + end) in rest

    run(main())


@pytest.mark.parametrize("body", [b'[{"error":{"code":429}}\n]', b'{"error":{"code":429}}\n'])
def test_an_error_in_place_of_an_array_passes_as_it_came(run: Run, tmp_path: Path, body: bytes) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(plain(body, status="429 Too Many Requests"))) as world:
            answer = await world.ask(request(ARRAY, ARRAY_REQUEST))
        assert (answer.status, answer.body, answer.clean) == (429, body, True)

    run(main())


def test_a_stop_before_the_first_element_is_told_as_a_document(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, Standing(JSON_HEAD)) as world, world.connect() as client:
            client.writer.write(request(ARRAY, ARRAY_REQUEST))
            await client.head()
            world.gate.stop_all()
            raw = await client.read_until(b"0\r\n\r\n")
            size, _, rest = raw.partition(b"\r\n")
            error = json.loads(rest[: int(size, 16)])
            assert error["error"]["turngate"]["reason"] == "shutdown"

    run(main())
