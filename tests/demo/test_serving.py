"""A provider in this process over real sockets: it ends, breaks off, and sees a client leave."""

from __future__ import annotations

import asyncio
import socket

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from turngate.demo.serving import Exchange, read_body, send_json, serving


def asked(path: str, body: bytes = b"") -> httpx2.Response:
    """One request to an application that does what its path says."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        got = await read_body(receive)
        exchange = Exchange(scope, receive, send, pace=0.0)
        if scope["path"] == "/json":
            await send_json(send, 201, {"got": got.decode()})
            return
        await exchange.start(b"text/plain", (b"x-more", b"1"))
        await exchange.write(b"some")
        assert not await exchange.client_left_within(1.0)
        if scope["path"] == "/broken":
            await exchange.break_off()
        else:
            await exchange.end()

    async def main() -> httpx2.Response:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serving(application, listener), httpx2.AsyncClient(trust_env=False) as client:
            return await client.post(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", content=body)

    return asyncio.run(main())


def test_a_body_ends_as_it_was_written() -> None:
    reply = asked("/whole")

    assert (reply.status_code, reply.content, reply.headers["x-more"]) == (200, b"some", "1")


def test_a_broken_off_body_is_no_clean_end() -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        asked("/broken")


def test_a_document_is_answered_with_its_length() -> None:
    reply = asked("/json", b"question")

    assert (reply.status_code, reply.json()) == (201, {"got": "question"})
