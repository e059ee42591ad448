"""Recorded provider replies and public bug reports, as the gate meets them.

A recording without its request declares the tools that it is known to call, without schemas, so that everything but the arguments'
schema is judged as ever.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngate.core.event_stream import encode_message

DIALECTS = {
    "openai-chat": "openai_chat",
    "anthropic-messages": "anthropic_messages",
    "anthropic": "anthropic_messages",
    "mistral": "mistral_chat",
    "openai-responses": "openai_responses",
    "gemini-generate": "gemini_generate",
    "gemini": "gemini_generate",
    "gemini-interactions": "gemini_interactions",
    "openai-completions": "openai_completions",
    "openai-assistants": "openai_assistants",
    "vercel-ui": "vercel_ui",
    "ollama-chat": "ollama_chat",
    "ollama": "ollama_chat",
    "cohere-v2-chat": "cohere_chat",
    "cohere-v1-chat": "cohere_chat_v1",
    "bedrock-converse": "bedrock_converse",
    "bedrock-invoke": "bedrock_invoke",
    "dashscope-native": "dashscope_native",
}
PATHS = {
    "openai_chat": "/v1/chat/completions",
    "mistral_chat": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "openai_responses": "/v1/responses",
    "gemini_generate": "/v1beta/models/m:generateContent",
    "gemini_interactions": "/v1beta/interactions",
    "openai_completions": "/v1/completions",
    "openai_assistants": "/v1/threads/thread_1/runs",
    "vercel_ui": "/api/chat",
    "ollama_chat": "/api/chat",
    "cohere_chat": "/v2/chat",
    "cohere_chat_v1": "/v1/chat",
    "bedrock_converse": "/model/m/converse",
    "bedrock_invoke": "/model/m/invoke",
    "dashscope_native": "/api/v1/services/aigc/text-generation/generation",
}
STREAM_PATHS = {
    "gemini_generate": "/v1beta/models/m:streamGenerateContent",
    "bedrock_converse": "/model/m/converse-stream",
    "bedrock_invoke": "/model/m/invoke-with-response-stream",
}
"""Where a stream is asked for at another path."""
WIRES = (
    "openai-chat", "openai-completions", "anthropic-messages", "openai-responses", "gemini-generate", "ollama-chat",
    "gemini-interactions", "openai-assistants",
    "cohere-v2-chat", "cohere-v1-chat", "bedrock-converse", "bedrock-invoke", "dashscope-native",
)  # fmt: skip
FRAMINGS = {"json-array": "json_array"}
"""Framings that neither the dialect nor its being streamed tell, as the corpus names them and as turngate does."""
BUILTIN = frozenset({"local_shell", "shell", "apply_patch", "computer"})
NAMED = frozenset({"anthropic-messages", "openai-responses", "cohere-v2-chat"})
"""Wires whose events have an SSE name."""


def shared_folder() -> Path:
    """Where the data made by others lies."""
    return Path(os.environ.get("TURNGATE_SHARED") or Path(__file__).parents[3] / "shared")


@dataclass(frozen=True)
class Recording:
    """One recorded reply."""

    slug: str
    dialect: str
    provider: str
    streamed: bool
    request: bytes
    body: bytes
    reads: tuple[int, ...]
    """Sizes of the reads that brought it, where they were recorded."""
    calls: tuple[tuple[str | None, str | None, str | None], ...]
    """What it is known to call: id, name, raw arguments."""
    framing: str | None = None
    """How it is framed; the dialect's first way without."""

    @property
    def path(self) -> str:
        """What the client asks."""
        path = PATHS[self.dialect]
        return STREAM_PATHS.get(self.dialect, path) if self.streamed else path

    @property
    def pieces(self) -> list[bytes]:
        """The body in its recorded reads, or cut at odd places where none were recorded."""
        sizes = self.reads or tuple(97 + 31 * (number % 7) for number in range(len(self.body) // 97 + 1))
        cuts, start = [], 0
        for size in sizes:
            cuts.append(self.body[start : start + size])
            start += size
        return [piece for piece in [*cuts, self.body[start:]] if piece]


def recordings() -> Iterator[Recording]:
    """Every recorded reply of the dialects that exist, in a fixed order."""
    for tree in ("cases", "nonstream"):
        for wire in WIRES:
            for folder in sorted((shared_folder() / "corpus" / tree / wire).glob("*/")):
                yield _recording(folder, wire, streamed=tree == "cases")


def _recording(folder: Path, wire: str, *, streamed: bool) -> Recording:
    meta = json.loads((folder / "meta.json").read_bytes())
    expected = json.loads((folder / "expected.json").read_bytes())
    listed = [call for turn in expected["turns"] for call in turn["calls"] if not _runs_at_provider(call)]
    calls = tuple((call["id"], call["name"] or call["kind"], _arguments(call)) for call in listed)
    dialect = DIALECTS[wire]
    if wire == "openai-chat" and meta["provider"] == "mistral":
        dialect = "mistral_chat"
    request = folder / "request.json"
    body = _body(folder, wire)
    reads = tuple(meta.get("chunk_sizes") or ())
    return Recording(
        slug=f"{'streamed' if streamed else 'whole'}/{folder.name}",
        dialect=dialect,
        provider=meta["provider"],
        streamed=streamed,
        request=request.read_bytes() if request.exists() else _request(dialect, calls, streamed=streamed),
        body=body,
        reads=reads if sum(reads) == len(body) else (),
        calls=calls,
        framing=FRAMINGS.get(meta["framing"]),
    )


def _runs_at_provider(call: Any) -> bool:
    """Calls that the corpus lists although the provider runs them: a tool search, xAI's search of X, Nova's interpreter."""
    if call["name"] == "nova_code_interpreter":
        return True
    return (call["kind"] == "tool_search" and call["id"] is None) or str(call["id"]).startswith("xs_call_")


def _arguments(call: Any) -> str | None:
    """The arguments as text; of those that came as values at paths, what the values make."""
    raw: str | None = call.get("arguments_raw")
    return raw if call.get("partial_args") is None else _compact(_put_together(call["partial_args"])).decode()


def _put_together(partials: Any) -> Any:
    values: dict[tuple[str | int, ...], Any] = {}
    for partial in partials:
        steps = re.findall(r"\.(\w+)|\[(\d+)\]", partial["jsonPath"])
        path = tuple(name or int(index) for name, index in steps)
        value = next(partial[key] for key in partial if key.endswith("Value"))
        values[path] = values[path] + value if path in values else value
    return _nested(values)


def _nested(values: dict[tuple[str | int, ...], Any]) -> Any:
    if () in values:
        return values[()]
    inner = {
        step: _nested({path[1:]: value for path, value in values.items() if path[0] == step})
        for step in dict.fromkeys(path[0] for path in values)
    }
    return list(inner.values()) if 0 in inner else inner


def _body(folder: Path, wire: str) -> bytes:
    whole = next(
        (folder / name for name in ("response.bin", "response.json") if (folder / name).exists()), None
    )
    if whole is not None:
        return whole.read_bytes()
    lines = (folder / "chunks.ndjson").read_bytes().splitlines()
    if wire == "bedrock-converse":
        return b"".join(_message(*next(iter(json.loads(line).items()))) for line in lines)
    frames = [_frame(_event(line), line, named=wire in NAMED) for line in lines]
    return b"".join(frames) + (b"data: [DONE]\n\n" if wire == "openai-chat" else b"")


def _event(line: bytes) -> Any:
    """The recorded event, or of one that is no JSON its type, which stands first."""
    try:
        return json.loads(line)
    except ValueError:
        return {"type": line.split(b'"')[3].decode()}


def _frame(value: Any, data: bytes, *, named: bool) -> bytes:
    name = b"event: " + value["type"].encode() + b"\n" if named else b""
    return name + b"data: " + data + b"\n\n"


def _message(name: str, payload: Any) -> bytes:
    """One message of an AWS event stream; what is called an exception is one."""
    kind = "exception" if name.endswith("Exception") else "event"
    return encode_message(_compact(payload), kind, name)


def _request(dialect: str, calls: tuple[tuple[Any, ...], ...], *, streamed: bool) -> bytes:
    names = sorted({call[1] for call in calls if call[1]})
    if dialect == "anthropic_messages":
        # A built-in client tool is the one kind that is declared without a schema.
        tools: list[dict[str, Any]] = [{"type": "bash_20250124", "name": name} for name in names]
    elif dialect in ("openai_responses", "gemini_interactions"):
        tools = [{"type": name} if name in BUILTIN else {"type": "function", "name": name} for name in names]
    elif dialect == "gemini_generate":
        tools = [{"functionDeclarations": [{"name": name} for name in names]}]
    elif dialect == "bedrock_converse":
        specs = [{"toolSpec": {"name": name}} for name in names]
        return json.dumps({"messages": [], "toolConfig": {"tools": specs}}).encode()
    else:
        tools = [{"type": "function", "function": {"name": name}} for name in names]
    return json.dumps({"model": "recorded", "stream": streamed, "tools": tools, "messages": []}).encode()


@dataclass(frozen=True)
class Report:
    """One public bug report, rebuilt as a stream."""

    id: str
    dialect: str
    request: bytes
    body: bytes
    aborted: bool
    verdict: str
    codes: frozenset[str]
    calls: tuple[tuple[str, str, str], ...] | None


def reports() -> Iterator[Report]:
    """The public bug reports of the dialects that exist."""
    for file in sorted((shared_folder() / "cases").glob("*.json")):
        case = json.loads(file.read_bytes())
        if case["dialect"] not in DIALECTS:
            continue
        pieces, aborted = [], False
        for chunk in case["chunks"]:
            if isinstance(chunk, dict) and "__abort__" in chunk:
                aborted = True
                break
            pieces.append(_piece(case["dialect"], chunk))
        expected = case["expected"]
        calls = expected.get("calls")
        yield Report(
            case["id"],
            DIALECTS[case["dialect"]],
            json.dumps(case["request"]).encode(),
            b"".join(pieces),
            aborted,
            expected["verdict"],
            frozenset(expected["codes"]),
            None if calls is None else tuple((call["id"], call["name"], call["arguments"]) for call in calls),
        )


def _piece(wire: str, chunk: Any) -> bytes:
    if chunk == "[DONE]":
        return b"data: [DONE]\n\n"
    if "__raw__" in chunk:
        raw: str = chunk["__raw__"]
        return raw.encode()
    if "__repeat__" in chunk:
        return _piece(wire, chunk["payload"]) * int(chunk["__repeat__"])
    if wire == "ollama":
        return _compact(chunk) + b"\n"
    if wire == "bedrock-converse":
        return _message(chunk["event"], chunk["data"])
    if "event" in chunk and "data" in chunk:
        return _frame({"type": chunk["event"]}, _compact(chunk["data"]), named=True)
    return _frame(chunk, _compact(chunk), named=False)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
