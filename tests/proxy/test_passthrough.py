"""Replies that no dialect claims, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.gated import (
    LAST_CHUNK,
    SSE_HEAD,
    TOOL_TURN,
    Run,
    Script,
    answering,
    chunked,
    close,
    gated,
    plain,
    request,
    streamed,
)
from tests.transport.peer import Peer
from turngate.proxy.passthrough import carries_no_turn

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


def played(replies: list[bytes]) -> Script:
    """An upstream that gives one after the other, on however many connections."""

    async def play(peer: Peer) -> None:
        while replies:
            await peer.request()
            await peer.send(replies.pop(0))

    return play


CHOICE = {
    "message": {
        "role": "assistant",
        "tool_calls": [{"id": "call_1", "function": {"name": "rm", "arguments": "{}"}}],
    }
}
COMPLETION = json.dumps({"choices": [CHOICE]})
ESCAPED = COMPLETION.replace("tool_calls", "\\u0074\\u006f\\u006F\\u006c\\u005f\\u0043alls")
FRAME = f"data: {COMPLETION}\n\n".encode()

HOSTILE: dict[str, tuple[bytes, str]] = {
    "escaped": (ESCAPED.encode(), "application/json"),
    "UTF-16, escaped": (ESCAPED.encode("utf-16"), "application/json"),
    "UTF-32": (COMPLETION.encode("utf-32-be"), "application/json"),
    "UTF-7": (COMPLETION.replace("_", "+AF8-").encode(), "application/json; charset=utf-7"),
    "EBCDIC": (COMPLETION.encode("cp037"), 'application/json; charset="cp037"'),
    "a byte order mark": (b"\xef\xbb\xbf" + COMPLETION.encode(), "application/json"),
    "a NUL": (COMPLETION.replace("tool_calls", "tool\0_calls").encode(), "application/json"),
    "a byte that is no text": (COMPLETION.encode().replace(b"tool_calls", b"tool_c\xffalls"), "application/json"),
    "a key twice": (COMPLETION.replace('"role"', '"tool_calls": [], "role"').encode(), "application/json"),
    "letters that Go folds": (COMPLETION.replace("tool_calls", "TOOL_CALL\u017f").encode(), "application/json"),
    "JSON as a text": (json.dumps({"body": COMPLETION}).encode(), "application/json"),
    "a stream as text": (b": hi\r\r" + FRAME.replace(b"\n", b"\r"), "text/plain"),
    "a stream as text, a key over two lines": (FRAME.replace(b"tool_", b"tool_\rdata: ").replace(b"\n", b"\r"), "text/plain"),
    "a stream as a page": (b"\n\n" + FRAME, "text/html"),
    "a stream as bytes": (FRAME, "application/octet-stream"),
    "bytes": (b"\xff\xfe" + COMPLETION.encode("utf-16-le"), "application/octet-stream"),
    "lines": (COMPLETION.encode() + b"\n{}\n", "application/x-jsonlines"),
    "a sequence": (b"\x1e" + COMPLETION.encode() + b"\n", "application/json-seq"),
    "another JSON": (COMPLETION.encode(), "application/vnd.api+json"),
    "parts": (b"--b\r\n\r\n" + COMPLETION.encode() + b"\r\n--b--\r\n", "multipart/mixed; boundary=b"),
    "Mistral's": (b'{"outputs": [{"type": "function.call", "id": "call_1", "name": "rm"}]}', "application/json"),
    "Vercel's": (b'{"parts": [{"type": "tool-rm", "toolCallId": "call_1"}]}', "application/json"),
    "in camel case": (b'{"toolCalls": [{"id": "call_1", "name": "rm"}]}', "application/json"),
}  # fmt: skip


def test_no_spelling_of_a_call_gets_past_a_path_that_no_dialect_claims(run: Run, tmp_path: Path) -> None:
    replies = [plain(body, kind) for body, kind in HOSTILE.values()]
    replies += [
        plain(gzip.compress(CALLS), kind, more=GZIP) for kind in ("text/json", "application/octet-stream")
    ]

    async def main() -> None:
        async with gated(tmp_path, played(list(replies))) as world:
            for what in (*HOSTILE, "compressed", "compressed bytes"):
                answer = await world.ask(request("/provider/v1/unheard-of", b"{}"))
                assert answer.status == 400, what
                assert answer.details()["codes"] == ["unsupported_event"]
            assert (world.gate.counters.passed, world.gate.counters.refused) == (0, len(replies))

    run(main())


TEMPLATE = "{{- if .ToolCalls }}<tool_call>{% for call in message.tool_calls %}"
PLAIN: dict[str, tuple[str, dict[str, Any] | bytes, str]] = {
    "a model of Ollama": ("api/show", {"template": TEMPLATE, "capabilities": ["tools"]}, "application/json"),
    "properties of llama.cpp": (
        "props",
        {"chat_template": TEMPLATE, "chat_template_tool_use": f"{TEMPLATE}{{"},
        "application/json",
    ),
    "models of LiteLLM": (
        "v1/model/info",
        {"supports_function_calling": True, "supported_openai_params": ["tools", "parallel_tool_calls"]},
        "application/json",
    ),
    "an answer in words": (
        "client/v4/ai/run/@cf/x",
        {"result": {"response": "I made the tool_call.", "tool_calls": []}},
        "application/json",
    ),
    "a page": ("docs", b"<script>let tool_calls = {}</script>", "text/html; charset=utf-8"),
    "a script": ("ui/x.js", b'"use strict"; let tool_calls = {}', "text/javascript"),
    "an archive": ("v1/export", b"PK\x03\x04 tool_calls", "application/octet-stream"),
    "nothing": ("v1/nothing", b"", "application/octet-stream"),
    "blanks": ("v1/blanks", b" \n\n", "text/html"),
    "a sound": ("v1/speak", b'{"tool_calls": [1]}', "audio/pcm"),
    "a table of Anthropic's": ("v1/table", "tool_use".encode("utf-16"), "text/csv; charset=utf-16"),
    "a transcript as it grows": (
        "v1/audio/transcriptions",
        b'data: {"type": "transcript.text.delta", "delta": "tool_calls"}\n\n',
        "text/event-stream",
    ),
    "a model as it is fetched": ("api/pull", b'{"status": "pulling"}\n', "application/x-ndjson"),
}


def test_what_only_speaks_of_calls_passes_as_it_came(run: Run, tmp_path: Path) -> None:
    bodies = [
        body if isinstance(body, bytes) else json.dumps(body).encode()
        for _path, body, _kind in PLAIN.values()
    ]
    kinds = [kind for _path, _body, kind in PLAIN.values()]
    script = played([plain(body, kind) for body, kind in zip(bodies, kinds, strict=True)])

    async def main() -> None:
        async with gated(tmp_path, script) as world:
            for (what, (path, _body, kind)), body in zip(PLAIN.items(), bodies, strict=True):
                answer = await world.ask(request(f"/provider/{path}", b"{}"))
                assert (answer.status, answer.body, answer.clean) == (200, body, True), what
                assert answer.header("content-type") == kind
            assert (world.gate.counters.passed, world.gate.counters.refused) == (len(PLAIN), 0)

    run(main())


def test_an_error_that_cannot_be_read_passes(run: Run, tmp_path: Path) -> None:
    body = gzip.compress(b'{"error": "tool_use"}')

    async def main() -> None:
        async with gated(tmp_path, answering(plain(body, status="404 Not Found", more=GZIP))) as world:
            answer = await world.ask(request("/provider/v1/unheard-of", b"{}"))
            assert (answer.status, answer.body) == (404, body)

    run(main())


@pytest.mark.parametrize("path", ["v1/models/m/generate_stream", "models/m"])
def test_what_a_models_own_path_streams_is_refused(run: Run, tmp_path: Path, path: str) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            assert (await world.ask(request(f"/provider/{path}", b"{}"))).status == 400

    run(main())


def test_an_answer_that_begins_as_no_turn_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    head = SSE_HEAD.replace(b"text/event-stream", b"text/html")

    async def main() -> None:
        more = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(head, chunked(b" "), chunked(b"<p>"))
            await more.wait()
            await peer.send(chunked(b"end"), LAST_CHUNK)

        async with gated(tmp_path, script) as world, world.connect() as client:
            client.writer.write(request("/provider/docs", b"{}"))
            assert await client.reader.readuntil(b"<p>")
            more.set()
            assert await client.reader.readuntil(LAST_CHUNK)

    run(main())


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


def test_paths() -> None:
    assert carries_no_turn("/v1/models")
    assert carries_no_turn("/v1/models/gpt:tune")
    assert carries_no_turn("/v1beta/models/gemini:countTokens")
    assert not carries_no_turn("/v1beta/models/gemini:streamGenerateAnswer")
    assert not carries_no_turn("/v1/projects/p/locations/l/publishers/x/models/m:serverStreamingPredict")
    assert not carries_no_turn("/v1/modelsx")
    assert carries_no_turn("/v1/responses/resp_1/input_items")  # what the client sent itself
    assert not carries_no_turn("/v1/responses")
    assert not carries_no_turn("/v1/models/owner/name/predictions")
    assert not carries_no_turn("/v2/models/m/generate")
    assert carries_no_turn("/v1/images/generate")
