"""The front on real sockets. Time limits are short here, but no outcome depends on which of two things is faster."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import queue
import socket
import time
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tests.proxy.served import (
    CHUNKED,
    GET,
    PATIENCE_S,
    SMALL,
    Driven,
    Recorder,
    Served,
    next_response,
    post,
    read_to_end,
    reset,
    responses,
    serve,
)
from turngate.proxy.front import FrontProtocol, front_protocol
from turngate.proxy.front_connection import front_of
from turngate.proxy.front_limits import FrontLimits

# What this relies on in uvicorn


def test_every_uvicorn_name_that_is_relied_on_is_there_and_unchanged() -> None:
    signatures = {
        "connection_made": ["self", "transport"],
        "connection_lost": ["self", "exc"],
        "data_received": ["self", "data"],
        "on_message_begin": ["self"],
        "on_url": ["self", "url"],
        "on_header": ["self", "name", "value"],
        "on_headers_complete": ["self"],
        "on_body": ["self", "body"],
        "on_message_complete": ["self"],
        "on_response_complete": ["self"],
        "_start_asgi_task": ["self", "cycle", "app"],
        "_unset_keepalive_if_required": ["self"],
    }
    found = {
        name: list(inspect.signature(getattr(HttpToolsProtocol, name)).parameters) for name in signatures
    }
    assert found == signatures
    assert not hasattr(HttpToolsProtocol, "on_chunk_header"), "call it from FrontProtocol.on_chunk_header"


def test_every_uvicorn_attribute_that_is_relied_on_is_there() -> None:
    async def protocol() -> FrontProtocol:
        return FrontProtocol(Config(Recorder(), lifespan="off", log_config=None), ServerState(), {})

    front = asyncio.run(protocol())
    for name in (
        "parser",
        "loop",
        "transport",
        "flow",
        "cycle",
        "pipeline",
        "headers",
        "scope",
        "server_state",
    ):
        assert hasattr(front, name), name
    assert front.server_state.default_headers == []
    flow = FlowControl(None)  # type: ignore[arg-type]
    assert flow.read_paused is False
    assert callable(flow.resume_reading)
    source = inspect.getsource(RequestResponseCycle)
    for name in (
        "chunked_encoding",
        "disconnected",
        "keep_alive",
        "message_event",
        "response_started",
        "response_complete",
        "scope",
    ):
        assert f"self.{name} = " in source, name
    assert "elif not self.response_complete and not self.disconnected:" in source, "abort() is quiet by this"


@pytest.mark.parametrize(
    ("name", "expected"), [("data_received", "010a7ae59a5d3b1a"), ("on_header", "65d62c044f61fdbd")]
)
def test_the_methods_that_are_replaced_are_the_ones_that_were_read(name: str, expected: str) -> None:
    source = inspect.getsource(getattr(HttpToolsProtocol, name))
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    assert digest == expected, f"uvicorn changed {name}: compare it with FrontProtocol's"


# The head


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c", b"TLS/1.0", b"anything"])
def test_no_upgrade_reaches_the_application(served: Served, recorder: Recorder, upgrade: bytes) -> None:
    # llhttp takes what follows the head of an upgrade for another protocol: here, that would hide the body.
    raw = post(5, b"Connection: Upgrade\r\nUpgrade: %b\r\nSec-WebSocket-Key: a\r\n" % upgrade) + b"hello"
    assert served.refused(raw) == (400, "upgrade_not_supported")
    assert recorder.seen.empty()


def test_a_realtime_session_is_refused_and_told_why(served: Served, recorder: Recorder) -> None:
    """As the official SDKs open one: a WebSocket, in which nobody would judge the calls."""
    raw = (
        b"GET /openai/v1/realtime?model=gpt-realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    reply = served.refusal(raw)
    assert reply.status == 400
    assert "passes no other WebSocket, so no realtime session" in json.loads(reply.body)["error"]["message"]
    assert recorder.seen.empty()


def test_no_refusal_and_no_reply_names_the_server_software(served: Served) -> None:
    for reply in (
        served.refusal(b"x\r\n\r\n"),
        responses(served.talk(GET.replace(b"x H", b"? H") + b"x\r\n\r\n"))[0],
    ):
        assert "server" not in dict(reply.headers)
        assert b"uvicorn" not in reply.body


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * 500), (414, "target_too_long")),
        (b"GET / HTTP/1.1\r\nHost: a\r\n%b\r\n" % (b"X-A: b\r\n" * 20), (431, "headers_too_large")),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX-A: %b\r\n\r\n" % (b"b" * 2000), (431, "headers_too_large")),
    ],
)
def test_a_head_that_is_too_large_is_refused(served: Served, raw: bytes, expected: tuple[int, str]) -> None:
    assert served.refused(raw) == expected


def test_a_head_at_the_limits_is_served(served: Served) -> None:
    raw = b"GET /%b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (b"a" * 499, b"X-A: b\r\n" * 19)
    with served.connect() as client:
        client.sendall(raw)
        assert next_response(client).status == 200


def test_a_field_that_never_ends_is_refused_before_it_is_complete(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: ")
        for _ in range(30):
            client.sendall(b"b" * 100)
        (reply,) = responses(read_to_end(client))
    assert reply.status == 431


def test_line_ends_before_a_request_are_bounded_too(served: Served) -> None:
    assert served.refused(b"\r\n" * 2000) == (431, "headers_too_large")


@pytest.mark.parametrize(
    "target", [b"/x?", b"/a%2Fb/%2e%2e/c?q=%2B+%20&&=&k", b"//evil.test/x", b"/v1/../admin"]
)
def test_the_target_reaches_the_application_byte_for_byte(
    served: Served, recorder: Recorder, target: bytes
) -> None:
    with served.connect() as client:
        client.sendall(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
        assert next_response(client).status == 200
    assert recorder.seen.get(timeout=PATIENCE_S)[1]["target"] == target


# The body


def test_a_body_that_is_too_large_is_refused_before_the_client_sends_it(served: Served) -> None:
    data = served.talk(post(101, b"Expect: 100-continue\r\n"))
    assert data.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in data


def test_a_client_that_expects_it_is_told_to_continue(served: Served, recorder: Recorder) -> None:
    with served.connect() as client:
        client.sendall(post(100, b"Expect: 100-continue\r\n"))
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert client.recv(len(interim), socket.MSG_WAITALL) == interim
        client.sendall(b"a" * 100)
        assert next_response(client).status == 200
    assert recorder.seen.get(timeout=PATIENCE_S)[1]["body"] == b"a" * 100


def test_trailers_are_dropped(served: Served, recorder: Recorder) -> None:
    with served.connect() as client:
        client.sendall(CHUNKED + b"5\r\nhello\r\n0\r\nAuthorization: Bearer other\r\nX-T: 1\r\n\r\n")
        assert next_response(client).status == 200
    request = recorder.seen.get(timeout=PATIENCE_S)[1]
    assert request["body"] == b"hello"
    assert request["headers"] == [(b"host", b"gate.test"), (b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize(
    "body",
    [
        b"5;%b\r\nhello\r\n0\r\n\r\n" % (b"a" * 2000),
        b"%b5\r\nhello\r\n0\r\n\r\n" % (b"0" * 2000),
        b"0\r\nX-T: %b\r\n\r\n" % (b"a" * 2000),
        b"0\r\n%b\r\n" % (b"X-T: a\r\n" * 200),
        b"1;%b\r\na\r\n" % (b"a" * 50) * 50 + b"0\r\n\r\n",
    ],
    ids=["extension", "size", "trailer", "trailers", "many extensions"],
)
@pytest.mark.parametrize("piece", [10_000, 100])
def test_a_body_with_too_much_besides_its_data_is_refused(
    served: Served, recorder: Recorder, body: bytes, piece: int
) -> None:
    raw = CHUNKED + body
    with served.connect() as client:
        for start in range(0, len(raw), piece):
            client.sendall(raw[start : start + piece])
        (reply,) = responses(read_to_end(client))
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "too_much_framing")
    assert [event for event in recorder.seen.queue if event[0] == "request"] == []


def test_many_small_chunks_are_no_flood(served: Served, recorder: Recorder) -> None:
    with served.connect() as client:
        client.sendall(CHUNKED + b"1\r\na\r\n" * 5000 + b"0\r\n\r\n")
        assert next_response(client).status == 200
    assert recorder.seen.get(timeout=PATIENCE_S)[1]["body"] == b"a" * 5000


def test_an_invalid_body_in_the_read_of_its_head_starts_no_application(
    served: Served, recorder: Recorder
) -> None:
    assert served.refused(CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n") == (400, "malformed_request")
    assert recorder.seen.empty()


def test_an_invalid_body_in_a_later_read_is_a_disconnect(served: Served, recorder: Recorder) -> None:
    with served.connect() as client:
        client.sendall(
            post(5, b"Expect: 100-continue\r\n").replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")
        )
        assert client.recv(25, socket.MSG_WAITALL).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"5\r\nhelloXX")
        (reply,) = responses(read_to_end(client))
    assert reply.status == 400
    assert recorder.seen.get(timeout=PATIENCE_S) == ("disconnect", b"/x")


# Time


def test_a_connection_on_which_nothing_comes_is_closed_without_a_word(recorder: Recorder) -> None:
    with serve(recorder, FrontLimits(header_timeout_s=0.2)) as served:
        assert served.talk(b"") == b""


@pytest.mark.parametrize("part", [b"G", b"\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: "])
def test_half_a_head_is_refused_in_time(recorder: Recorder, part: bytes) -> None:
    with serve(recorder, FrontLimits(header_timeout_s=0.2)) as served:
        reply = served.refusal(part)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (408, "header_timeout")
        assert "x-should-retry" not in dict(reply.headers)


def test_feeding_a_head_by_drops_does_not_extend_its_time(recorder: Recorder) -> None:
    with (
        serve(recorder, FrontLimits(header_timeout_s=0.3, linger_s=0.1)) as served,
        served.connect() as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: ")
        client.settimeout(0.05)
        data = None
        for _ in range(400):
            try:
                client.sendall(b"b")
                data = client.recv(65536)
                break
            except TimeoutError:
                continue
        assert data is not None
        assert data.startswith(b"HTTP/1.1 408 ")


def test_the_second_head_on_a_connection_has_its_time_too(recorder: Recorder) -> None:
    with serve(recorder, FrontLimits(header_timeout_s=0.2)) as served:
        first, second = responses(served.talk(GET + b"GET /"))
        assert (first.status, second.status) == (200, 408)


@pytest.mark.parametrize("raw", [post(5) + b"hel", CHUNKED + b"5\r\nhel", CHUNKED + b"5\r\nhello\r\n"])
def test_half_a_body_is_a_disconnect_in_time_and_never_a_request(recorder: Recorder, raw: bytes) -> None:
    with serve(recorder, FrontLimits(body_timeout_s=0.2)) as served:
        reply = served.refusal(raw)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (408, "body_timeout")
        assert recorder.seen.get(timeout=PATIENCE_S) == ("disconnect", b"/x")
        assert recorder.seen.empty()


def test_a_body_that_keeps_coming_is_not_late(recorder: Recorder) -> None:
    with serve(recorder, FrontLimits(body_timeout_s=2)) as served, served.connect() as client:
        client.sendall(post(50))
        started = time.monotonic()
        for _ in range(50):
            client.sendall(b"a")
            time.sleep(0.05)
        assert time.monotonic() - started > 2
        assert next_response(client).status == 200


def test_a_client_that_leaves_in_its_body_is_a_disconnect(served: Served, recorder: Recorder) -> None:
    with served.connect() as client:
        client.sendall(post(5) + b"hel")
    assert recorder.seen.get(timeout=PATIENCE_S) == ("disconnect", b"/x")


# Several requests on one connection


def test_requests_on_one_connection_share_no_state(served: Served, recorder: Recorder) -> None:
    with served.connect() as client:
        for i in range(20):
            client.sendall(
                b"POST /%d HTTP/1.1\r\nHost: a\r\nX-%d: a\r\nContent-Length: 2\r\n\r\n%02d" % (i, i, i)
            )
            assert next_response(client).status == 200
            request = recorder.seen.get(timeout=PATIENCE_S)[1]
            assert (request["target"], request["body"]) == (b"/%d" % i, b"%02d" % i)
            assert [name for name, _ in request["headers"]] == [b"host", b"x-%d" % i, b"content-length"]


def test_nothing_is_served_after_a_refused_request(served: Served, recorder: Recorder) -> None:
    data = served.talk(b"GET /x HTTP/1.1\r\n\r\n" + GET)
    assert [reply.status for reply in responses(data)] == [400]
    assert recorder.seen.empty()


def test_a_valid_request_before_an_invalid_one_is_still_answered(served: Served, recorder: Recorder) -> None:
    data = served.talk(GET + b"GET /y HTTP/1.1\r\n\r\n" + GET)
    assert [reply.status for reply in responses(data)] == [200]
    assert recorder.seen.qsize() == 1


def test_too_many_pipelined_requests_end_the_connection(served: Served, recorder: Recorder) -> None:
    data = served.talk(GET * 10)
    assert [reply.status for reply in responses(data)] == [200]
    assert recorder.seen.qsize() == 1


def test_an_answer_given_before_the_body_came_ends_the_connection() -> None:
    async def hasty(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    with serve(hasty, FrontLimits(linger_s=1)) as served:
        assert [reply.status for reply in responses(served.talk(post(50)))] == [404]


# Streaming replies: an application that the test drives, one message at a time


def test_an_aborted_reply_is_a_cut_to_the_client_and_quiet_in_the_log(
    streaming: Served, driven: Driven, caplog: pytest.LogCaptureFixture
) -> None:
    with streaming.connect() as client:
        driven.begin(client)
        driven.put(b"data: 1\n\n")
        data = b""
        while not data.endswith(b"9\r\ndata: 1\n\n\r\n"):
            data += client.recv(65536)
        driven.put(None)
        assert read_to_end(client) == b""
    assert {driven.event(), driven.event()} == {
        "aborted",
        "http.disconnect",
    }
    streaming.server.should_exit = True
    while streaming.server.server_state.tasks:
        time.sleep(0.01)
    assert [
        record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")
    ] == []


def test_an_abort_after_the_reply_leaves_the_next_request_alone(streaming: Served, driven: Driven) -> None:
    with streaming.connect() as client:
        driven.begin(client)
        first = driven.scope
        driven.put(b"")
        assert next_response(client).body == b""
        assert driven.event() == "http.disconnect"
        driven.begin(client)
        assert driven.loop is not None
        driven.loop.call_soon_threadsafe(front_of(first).abort)
        driven.put(b"still here")
        driven.put(b"")
        assert next_response(client).body == b"still here"


def test_an_invalid_request_behind_a_stream_does_not_touch_the_stream(
    streaming: Served, driven: Driven
) -> None:
    with streaming.connect() as client:
        driven.begin(client)
        client.sendall(b"\x00garbage\r\n\r\n" + GET)
        driven.put(b"one")
        driven.put(b"")
        (reply,) = responses(read_to_end(client))
    assert reply.body == b"one"


def test_a_client_that_leaves_is_noticed_although_it_had_sent_a_second_request(
    streaming: Served, driven: Driven
) -> None:
    with streaming.connect() as client:
        driven.begin(client, GET + GET)
        # uvicorn stops reading while a second request waits, so only a reset is seen.
        reset(client)
    for _ in range(100):
        driven.put(b"a" * 65536)
    assert driven.event() == "http.disconnect"
    driven.put(b"")


def test_a_client_that_does_not_read_makes_the_application_wait(streaming: Served, driven: Driven) -> None:
    piece = b"a" * 16384
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    with client:
        client.connect(("127.0.0.1", streaming.port))
        driven.begin(client)
        total = 4096
        for _ in range(total):
            driven.put(piece)
        front = front_of(driven.scope)
        # Without a bound all of it would be sent soon. With one, what is sent comes to rest far below.
        before = -1
        while driven.sent != before:
            before = driven.sent
            time.sleep(0.2)
        assert 0 < before < total * len(piece)
        assert front.buffered() <= FrontLimits().write_high_water + len(piece) + 16
        driven.put(b"")
        assert len(next_response(client).body) == total * len(piece)


def test_small_writes_are_not_delayed() -> None:
    found: queue.Queue[int] = queue.Queue()

    class Observed(front_protocol(FrontLimits())):  # type: ignore[misc]
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            connection = transport.get_extra_info("socket")
            found.put(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    for loop in ("uvloop", "asyncio"):
        with serve(Recorder(), loop=loop, http=Observed) as served, served.connect() as client:
            client.sendall(GET)
            assert next_response(client).status == 200
            assert found.get(timeout=PATIENCE_S) == 1, loop


# The pieces


def test_the_protocol_class_carries_its_limits_and_leaves_the_defaults_alone() -> None:
    assert front_protocol(SMALL).limits is SMALL
    assert FrontProtocol.limits == FrontLimits()
