"""What the application may see and do beyond ASGI, on real sockets."""

from __future__ import annotations

import asyncio
import gc
import queue
import socket
import threading
import time
import weakref
from typing import Any

import pytest

from tests.proxy.served import (
    GET,
    PATIENCE_S,
    Driven,
    Served,
    await_reset,
    next_response,
    post,
    read_to_end,
    reset,
    serve,
)
from turngate.proxy.front import front_protocol
from turngate.proxy.front_connection import EXTENSION, front_of, request_target
from turngate.proxy.front_limits import FrontLimits
from turngate.proxy.reply import Reply


class Watching(Driven):
    """Has the front tell of its client, and says so with the request's target."""

    def watch(self, _receive: Any) -> None:
        front = front_of(self.scope)
        front.watch(lambda: self.events.put(f"{front.target.decode()} left"))


@pytest.fixture
def driven() -> Driven:
    return Watching()


def test_a_client_that_leaves_is_told_of_although_its_large_body_had_paused_the_reading(
    streaming: Served, driven: Driven
) -> None:
    with streaming.connect() as client:
        driven.begin(client, post(300_000) + b"a" * 300_000)
    assert driven.event() == "/x left"
    driven.put(b"")


def test_a_client_that_leaves_is_told_of_to_the_request_being_answered_and_no_other(
    streaming: Served, driven: Driven
) -> None:
    with streaming.connect() as client:
        driven.begin(client)
        driven.put(b"")
        assert next_response(client).status == 200
        driven.begin(client, GET.replace(b"/x", b"/y") + GET)
        reset(client)
    for _ in range(100):
        driven.put(b"a" * 65536)
    assert driven.event() == "/y left"
    driven.put(b"")
    while streaming.server.server_state.tasks:
        time.sleep(0.01)
    assert driven.events.empty()


def test_a_client_that_is_dropped_is_told_of_once_and_not_at_once(streaming: Served, driven: Driven) -> None:
    with streaming.connect() as client:
        driven.begin(client)
        driven.put(None)
        read_to_end(client)
    assert [driven.event() for _ in range(2)] == ["aborted", "/x left"]
    while streaming.server.server_state.tasks or streaming.server.server_state.connections:
        time.sleep(0.01)
    assert driven.events.empty()


def test_a_client_that_had_left_before_is_told_of_and_one_that_was_answered_is_not() -> None:
    events: queue.Queue[str] = queue.Queue()

    async def late(scope: Any, receive: Any, send: Any) -> None:
        if front_of(scope).target == b"/x":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body"})
        while (await receive())["type"] != "http.disconnect":
            pass
        front_of(scope).watch(lambda: events.put(scope["path"]))

    with serve(late) as served, served.connect() as client:
        client.sendall(GET)
        assert next_response(client).status == 200
        client.sendall(GET.replace(b"/x", b"/y"))
        client.shutdown(socket.SHUT_RDWR)
        assert events.get(timeout=PATIENCE_S) == "/y"
    assert events.empty()


@pytest.mark.parametrize("fields", [[], [(b"content-length", b"1000")]], ids=["chunked", "counted"])
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_whoever_goes_on_writing_to_a_client_that_is_gone_is_quiet_in_the_log(
    loop: str, fields: list[tuple[bytes, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    """A loop tells of the loss in its next step; asyncio warns of those who write on until then."""
    told: queue.Queue[bool] = queue.Queue()
    asked = threading.Event()

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        front = front_of(scope)
        reply = Reply(send, front.abort, front.write, front.buffered)
        reply.prepare(200, fields)
        await reply.write(b"begun")
        asked.set()
        await_reset(descriptors[0])
        for _ in range(20):
            await reply.write(b"more")
        told.put(front.buffered() == 0)
        reply.cut()

    descriptors: list[int] = []

    class Observed(front_protocol(FrontLimits())):  # type: ignore[misc]
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            descriptors.append(transport.get_extra_info("socket").fileno())

    with serve(application, loop=loop, http=Observed) as served:
        client = served.connect()
        client.sendall(GET)
        assert asked.wait(PATIENCE_S)
        reset(client)
        assert told.get(timeout=PATIENCE_S)
    assert [each.getMessage() for each in caplog.records if each.levelname in ("WARNING", "ERROR")] == []


def test_neither_a_request_nor_a_connection_that_is_over_is_left_to_the_collector() -> None:
    """At the gate's thresholds it looks seldom."""
    scopes: list[weakref.ref[Any]] = []
    fronts: list[weakref.ref[Any]] = []

    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        scopes.append(weakref.ref(scope["held"]))
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    class Held:
        """Something that a weak reference can follow, which a dict is not."""

    class Holding(front_protocol(FrontLimits())):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            fronts.append(weakref.ref(self))

        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            self.scope["held"] = Held()

    gc.disable()
    try:
        with serve(answer, http=Holding) as served:
            with served.connect() as client:
                for _ in range(3):
                    client.sendall(GET)
                    assert next_response(client).status == 200
                while served.server.server_state.tasks:
                    time.sleep(0.01)
                # The newest one is still the connection's own.
                assert [held() is None for held in scopes] == [True, True, False]
            until = time.monotonic() + PATIENCE_S
            while any(each() is not None for each in (*scopes, *fronts)) and time.monotonic() < until:
                time.sleep(0.01)
            assert [each() for each in (*scopes, *fronts)] == [None] * 4
    finally:
        gc.enable()


def test_the_extension_is_where_the_application_looks_for_it() -> None:
    with pytest.raises(KeyError, match="extensions"):
        request_target({"type": "http"})
    assert EXTENSION == "turngate.front"
