"""Replies that no dialect claims, over real sockets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.proxy.gated import (
    SSE_HEAD,
    TOOL_TURN,
    Run,
    answering,
    chunked,
    close,
    gated,
    plain,
    request,
    streamed,
)
from turngate.proxy.passthrough import carries_no_turn, has_turn_shape

CALLS = json.dumps(
    {"output": [{"type": "function_call", "call_id": "call_1", "name": "send_mail", "arguments": "{}"}]}
).encode()
GZIP = "Content-Encoding: gzip\r\n"


@pytest.mark.parametrize(
    ("path", "method", "kind", "body"),
    [
        ("/provider/v1/models", "GET", "application/json", b'{"data": [{"id": "tool_use"}]}'),
        ("/provider/v1/embeddings", "POST", "application/json", b'{"data": [0.1, 0.2]}'),
        ("/provider/v1/files/f1/content", "GET", "application/octet-stream", bytes(range(256)) * 512),
        ("/provider/v1/audio/speech", "POST", "audio/mpeg", b"\xff\xfb\x90" * 1000),
        (
            "/provider/v1/unheard-of",
            "POST",
            "application/json",
            b'{"text": "nothing that looks like a turn"}',
        ),
        ("/provider/v1/unheard-of", "POST", "text/html", b"<p>hello</p>"),
    ],
)
def test_what_is_no_turn_passes_untouched(
    run: Run, tmp_path: Path, path: str, method: str, kind: str, body: bytes
) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(plain(body, kind))) as world:
            answer = await world.ask(request(path, b"{}", method=method))
            assert (answer.status, answer.body, answer.header("content-type")) == (200, body, kind)
            assert answer.header("content-length") == str(len(body))
            assert (world.gate.counters.passed, world.gate.counters.refused) == (1, 0)

    run(main())


def test_a_coding_that_the_client_asked_for_passes_on_a_path_without_turns(run: Run, tmp_path: Path) -> None:
    body = gzip.compress(b'{"data": []}')
    seen: list[bytes] = []

    async def main() -> None:
        async def script(peer: object) -> None:
            seen.append(await peer.answer(plain(body, more=GZIP)))  # type: ignore[attr-defined]

        async with gated(tmp_path, script) as world:
            answer = await world.ask(
                request("/provider/v1/models", method="GET", more="Accept-Encoding: gzip\r\n")
            )
            assert (answer.body, answer.header("content-encoding")) == (body, "gzip")

    run(main())
    assert b"accept-encoding: gzip" in seen[0].lower()


UNJUDGED = {
    "streamed": streamed(TOOL_TURN),
    "lines": plain(CALLS + b"\n", "application/x-ndjson"),
    "turn-shaped": plain(CALLS),
    "turn-shaped, no media type": plain(CALLS).replace(b"Content-Type: application/json\r\n", b""),
    "turn-shaped, as text": plain(CALLS, "text/plain"),
    "turn-shaped, compressed": plain(gzip.compress(CALLS), more=GZIP),
    "turn-shaped, escaped": plain(CALLS.replace(b"_call", b"\\u005fcall")),
}


@pytest.mark.parametrize("what", UNJUDGED)
def test_what_may_be_a_turn_is_refused_where_no_dialect_claims_it(
    run: Run, tmp_path: Path, what: str
) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(UNJUDGED[what])) as world:
            answer = await world.ask(request("/provider/v1/conversations/conv_1/items", b"{}"))
            assert (answer.status, answer.details()["codes"]) == (400, ["unsupported_event"])
            assert b"call_1" not in answer.body
            assert (world.gate.counters.passed, world.gate.counters.refused) == (0, 1)

    run(main())


@pytest.mark.parametrize("what", UNJUDGED)
def test_what_may_be_a_turn_passes_where_the_operator_says_so_and_is_counted(
    run: Run, tmp_path: Path, what: str
) -> None:
    async def main() -> None:
        script = answering(UNJUDGED[what])
        async with gated(tmp_path, script, provider={"unjudged": "pass"}) as world:
            answer = await world.ask(request("/provider/v1/conversations/conv_1/items", b"{}"))
            assert (answer.status, answer.clean) == (200, True)
            assert world.gate.counters.unjudged == 1

    run(main())


def test_a_body_too_long_to_look_at_is_refused_or_passes_whole(run: Run, tmp_path: Path) -> None:
    body = b'{"text": "' + b"x" * 50_000 + b'"}'

    async def main() -> None:
        limits = {"frame_bytes": 4096}
        ask = request("/provider/v1/unheard-of", b"{}")
        async with gated(tmp_path, answering(plain(body)), limits=limits) as world:
            assert (await world.ask(ask)).status == 400
        script = answering(plain(body))
        async with gated(tmp_path, script, limits=limits, provider={"unjudged": "pass"}) as world:
            assert (await world.ask(ask)).body == body

    run(main())


@pytest.mark.parametrize("kind", [b"application/json", b"application/octet-stream"])
def test_a_cut_is_passed_on_as_a_cut(run: Run, tmp_path: Path, kind: bytes) -> None:
    head = SSE_HEAD.replace(b"text/event-stream", kind)

    async def main() -> None:
        async with gated(tmp_path, answering(head + chunked(b'{"a":'), then=close)) as world:
            answer = await world.ask(request("/provider/v1/unheard-of", b"{}"))
            assert (answer.clean, answer.body) == (False, b'{"a":')

    run(main())


def test_paths_and_shapes() -> None:
    assert carries_no_turn("/v1/models")
    assert carries_no_turn("/v1/models/gpt:tune")
    assert carries_no_turn("/v1beta/models/gemini:countTokens")
    assert not carries_no_turn("/v1beta/models/gemini:streamGenerateAnswer")
    assert not carries_no_turn("/v1/projects/p/locations/l/publishers/x/models/m:serverStreamingPredict")
    assert not carries_no_turn("/v1/modelsx")
    assert carries_no_turn("/v1/responses/resp_1/input_items")  # what the client sent itself
    assert not carries_no_turn("/v1/responses")
    assert has_turn_shape(b'{"type": "tool_use"}')
    assert not has_turn_shape(b'{"type": "text"}')
