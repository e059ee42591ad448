"""The whole application before an upstream: heads, statuses, media types, refusals, and words that may stand nowhere."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import socket
from pathlib import Path

import pytest

from tests.processes import free_port
from tests.proxy.gated import (
    ARGUMENT,
    BAD_TURN,
    CHAT,
    GOOD_ARGUMENTS,
    KEY,
    OUTPUT,
    PROMPT,
    SSE_HEAD,
    TOOL_TURN,
    Run,
    answering,
    chunked,
    close,
    gated,
    hang,
    plain,
    request,
    streamed,
    text,
    turn_request,
)
from tests.transport.peer import Peer
from turngate.core.verdict import Outcome
from turngate.transport import Origin

BLOCKED_CALLS = BAD_TURN[BAD_TURN.index(b"data:", 10) :]
"""A bad turn in which nothing comes before the calls."""


def json_turn(arguments: str = GOOD_ARGUMENTS, finish: str = "tool_calls") -> bytes:
    calls = [{"id": "call_1", "type": "function", "function": {"name": "send_mail", "arguments": arguments}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
    ).encode()


# Heads


def test_headers_cross_in_order_with_repeats_and_only_ours_are_added(run: Run, tmp_path: Path) -> None:
    more = "Set-Cookie: a=1\r\nVary: x\r\nset-cookie: b=2\r\nX-Request-Id: r1\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.answer(plain(json_turn(), more=more)))

    async def main() -> None:
        async with gated(tmp_path, script) as world:
            answer = await world.ask(
                request(
                    more="Cookie: a\r\nX-One: 1\r\nCookie: b\r\nX-Forwarded-For: 10.0.0.1\r\nAccept-Encoding: gzip\r\n"
                )
            )
            fields = [(name.lower(), value) for name, value in answer.headers]
            wanted = [("set-cookie", "a=1"), ("vary", "x"), ("set-cookie", "b=2"), ("x-request-id", "r1")]
            assert [field for field in fields if field[0] in ("set-cookie", "vary", "x-request-id")] == wanted
            assert answer.header("x-hop") is None
            assert answer.header("server") is None
            assert answer.header("x-turngate-turn") == (await world.turn()).turn_id

    run(main())
    head = seen[0].partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert head[0] == b"post /v1/chat/completions http/1.1"
    assert [line for line in head if line.startswith((b"cookie", b"x-one"))] == [
        b"cookie: a",
        b"x-one: 1",
        b"cookie: b",
    ]
    assert [line for line in head if line.startswith(b"accept-encoding")] == [b"accept-encoding: identity"]
    assert not any(line.startswith(b"x-forwarded") for line in head)
    assert [line for line in head if line.startswith(b"host")] == [
        line for line in head if line.startswith(b"host: 127.0.0.1:")
    ]
    assert json.loads(seen[0].partition(b"\r\n\r\n")[2]) == turn_request()


@pytest.mark.parametrize(
    "target", ["/v1/files/a%2Fb%2e.+c?a=1&&b=%2F+", "/v1/models?", "/v1//evil.test/../x", "/v1/models?a=%00"]
)
def test_the_target_reaches_the_configured_origin_byte_for_byte(
    run: Run, tmp_path: Path, target: str
) -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.answer(plain(b"{}")))

    async def main() -> None:
        async with gated(tmp_path, script, base_path="/base") as world:
            for prefix in ("", "/provider"):
                assert (await world.ask(request(prefix + target, method="GET"))).status == 200

    run(main())
    assert [raw.split(b" ")[1] for raw in seen] == [b"/base" + target.encode()] * 2


def test_a_target_without_an_upstream_and_a_host_that_is_not_allowed_are_refused(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(plain(b"{}"))) as world:
            answer = await world.ask(request("/nobody/v1/models", method="GET"))
            assert (answer.status, answer.details()["reason"]) == (404, "unknown_route")
            assert answer.header("x-should-retry") == "false"
        async with gated(tmp_path, answering(plain(b"{}")), server={"allowed_hosts": ["gate.test"]}) as world:
            assert (await world.ask(request())).details()["reason"] == "host_not_allowed"
            named = request("/v1/models", method="GET").replace(b"Host: gate", b"Host: gate.test:8080")
            assert (await world.ask(named)).status == 200

    run(main())


# Statuses and media types


@pytest.mark.parametrize("status", ["301 Moved", "307 Temporary Redirect"])
def test_a_redirect_is_passed_and_not_followed(run: Run, tmp_path: Path, status: str) -> None:
    asked = []

    async def script(peer: Peer) -> None:
        asked.append(
            await peer.answer(plain(b"", "text/plain", status, "Location: http://127.0.0.1:1/x\r\n"))
        )

    async def main() -> None:
        async with gated(tmp_path, script) as world:
            answer = await world.ask()
            assert (answer.status, answer.header("location")) == (int(status[:3]), "http://127.0.0.1:1/x")

    run(main())
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        ("429 Too Many Requests", "application/json", b'{"error": {"message": "slow down", "type": "rate"}}'),
        ("401 Unauthorized", "application/json", b'{"error": {"message": "no", "type": "auth"}}'),
        ("502 Bad Gateway", "text/html", b"<h1>bad gateway</h1>"),
        ("500 Oops", "application/json", b"not JSON at all"),
    ],
)
def test_an_error_of_the_providers_passes_with_its_status_and_body(
    run: Run, tmp_path: Path, status: str, kind: str, body: bytes
) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(plain(body, kind, status, "Retry-After: 3\r\n"))) as world:
            answer = await world.ask()
            assert (answer.status, answer.body, answer.header("retry-after")) == (int(status[:3]), body, "3")

    run(main())


def test_calls_behind_an_error_status_are_judged_all_the_same(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        bad = plain(json_turn("{"), status="500 Oops")
        async with gated(tmp_path, answering(bad)) as world:
            answer = await world.ask()
            assert (answer.status, answer.has_call()) == (400, False)

    run(main())


@pytest.mark.parametrize(
    "kind", ["text/event-stream", "Text/Event-Stream; charset=utf-8", "text/event-stream;x=y"]
)
def test_the_spelling_of_the_media_type_does_not_matter(run: Run, tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(plain(TOOL_TURN, kind), plain(b""))) as world:
            answer = await world.ask()
            assert (answer.body, answer.header("content-type")) == (TOOL_TURN, kind)

    run(main())


ODD = {
    "missing": plain(TOOL_TURN).replace(b"Content-Type: application/json\r\n", b""),
    "text": plain(TOOL_TURN, "text/plain"),
    "two": plain(TOOL_TURN, "text/event-stream", more="Content-Type: application/json\r\n"),
    "a stream that says JSON": plain(TOOL_TURN),
    "JSON that says stream": plain(json_turn(), "text/event-stream"),
    "compressed": plain(gzip.compress(TOOL_TURN), "text/event-stream", more="Content-Encoding: gzip\r\n"),
    "of a charset that hides it": plain(
        TOOL_TURN.replace(b"_", b"+AF8-"), "text/event-stream; charset=utf-7"
    ),
    "twice compressed": plain(TOOL_TURN, "text/event-stream", more="Content-Encoding: identity, br\r\n"),
}


@pytest.mark.parametrize("what", ODD)
def test_a_reply_whose_form_is_in_doubt_is_refused(run: Run, tmp_path: Path, what: str) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(ODD[what], then=close)) as world:
            answer = await world.ask()
            assert (answer.status, answer.has_call()) == (400, False)
            assert answer.details()["codes"]

    run(main())


def test_a_json_turn_is_released_as_it_came_or_refused_whole(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        good = json.dumps(json.loads(json_turn()), indent=3).encode() + b"\n"
        async with gated(tmp_path, answering(plain(good))) as world:
            assert (await world.ask()).body == good
            assert (await world.turn()).outcome is Outcome.RELEASED
        async with gated(tmp_path, answering(plain(json_turn('{"to": 1}')))) as world:
            answer = await world.ask()
            assert (answer.status, answer.details()["outcome"]) == (400, "blocked")
            assert answer.header("content-length") == str(len(answer.body))

    run(main())


def test_replies_without_a_body_stay_without_one(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n")
        async with gated(tmp_path, script) as world, world.connect() as client:
            for _ in range(2):
                answer = await client.ask(request("/v1/files/f", method="DELETE"))
                assert (answer.status, answer.header("x-a"), answer.body) == (204, "1", b"")
        script = answering(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n")
        async with gated(tmp_path, script) as world, world.connect() as client:
            for path in ("/v1/models", CHAT):
                answer = await client.ask(request(path, method="HEAD"))
                assert (answer.status, answer.header("content-length")) == (200, "99")

    run(main())


# The upstream gives no reply


def test_an_upstream_that_cannot_be_reached_is_502_in_the_dialects_envelope(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, hang) as world:
            upstream = world.gate.config.upstreams["provider"]
            object.__setattr__(upstream, "origin", Origin("http", "127.0.0.1", free_port()))
            answer = await world.ask(request("/v1/messages", turn_request()))
            assert (answer.status, json.loads(answer.body)["type"]) == (502, "error")
            answer = await world.ask()
            assert (answer.status, answer.details()["reason"]) == (502, "connect_failed")

    run(main())


@pytest.mark.parametrize(
    ("pieces", "status", "reason"),
    [
        ((), 502, "closed_before_head"),
        ((b"HTTP/1.1 200 OK\r\nContent-",), 502, "closed_before_head"),
        ((b"SSH-2.0-server\r\n\r\n",), 502, "malformed_head"),
        (
            (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",),
            502,
            "upgrade_refused",
        ),
    ],
)
def test_an_upstream_that_gives_no_valid_head_is_502(
    run: Run, tmp_path: Path, pieces: tuple[bytes, ...], status: int, reason: str
) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(*pieces, then=close)) as world:
            answer = await world.ask()
            assert (answer.status, answer.details()["reason"]) == (status, reason)

    run(main())


def test_an_upstream_that_is_silent_is_504(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(then=hang), provider={"first_byte_s": 0.1}) as world:
            answer = await world.ask()
            assert (answer.status, answer.details()["reason"]) == (504, "first_byte_timeout")

    run(main())


def test_a_body_over_the_limit_never_reaches_the_upstream(run: Run, tmp_path: Path) -> None:
    asked = []

    async def script(peer: Peer) -> None:
        asked.append(await peer.request())

    async def main() -> None:
        body = b"400\r\n" + b"x" * 1024 + b"\r\n"
        raw = request(body=b"").replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n") + body * 3
        async with gated(tmp_path, script, server={"max_body_bytes": 2048}) as world:
            answer = await world.ask(raw + b"0\r\n\r\n")
            assert (answer.status, answer.details()["reason"]) == (413, "request_too_large")

    run(main())
    assert asked == []


# Words that may stand nowhere; tests/test_canaries.py looks for them wherever nothing of ours fails


def test_a_fault_of_ours_tells_nothing_of_what_was_said(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")

    told: list[bytes] = []

    async def explode(_entry: object) -> None:
        raise RuntimeError(f"{OUTPUT} {ARGUMENT} {KEY} {PROMPT}")

    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            world.gate.judging.ledger.release = explode  # type: ignore[method-assign,assignment]
            told.append((await world.ask()).body)

    run(main())
    captured = capsys.readouterr()
    told.append((captured.out + captured.err + caplog.text).encode())
    assert b"RuntimeError" in told[-1]
    told += [file.read_bytes() for file in tmp_path.iterdir() if file.is_file() and file.name != "gate.toml"]
    assert len(told) > 3
    for canary in (KEY, PROMPT, OUTPUT, ARGUMENT):
        assert not any(canary.encode() in each for each in told), canary


# A client that does not read


def test_a_client_that_does_not_read_stops_the_upstream_and_memory_stays_flat(
    run: Run, tmp_path: Path
) -> None:
    piece, total = chunked(text("x" * 65536)), 1600
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.answer(SSE_HEAD)
        for _ in range(total):
            await peer.send(piece)
            sent += 1

    async def main() -> None:
        async with gated(tmp_path, script) as world:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", world.port))
            with sock:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                await asyncio.get_running_loop().sock_sendall(sock, request())
                before = -1
                while sent != before or not sent:
                    before = sent
                    await asyncio.sleep(0.3)
                # Kernel buffers on both hops and two high-water marks are all that can be under way.
                assert sent < total / 4
                assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 30 * 1024

    run(main())


def test_the_gates_own_endpoints_are_not_passed_on(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, hang) as world:
            assert (await world.ask(request("/turngate/health", method="GET"))).status == 200
            assert json.loads((await world.ask(request("/turngate/ready", method="GET"))).body)["ready"]
            assert (await world.ask(request("/turngate/nothing", method="GET"))).status == 404

    run(main())
