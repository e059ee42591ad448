"""Gemini's responses as its two services send them, in each of the three forms."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tests.dialects.wire import Judged, judge
from turngate.core.policy import TurnPolicy
from turngate.core.toolset import Toolset
from turngate.dialects.gemini_request import read_toolset

Json = dict[str, Any]
HEAD: Json = {"modelVersion": "g", "responseId": "r1"}
TEXT: Json = {"text": "hi"}
TOOLS = {"tools": [{"functionDeclarations": [{"name": "ls"}, {"name": "rm"}, {"name": "now"}]}]}


def call(name: Any = "ls", args: Any = None, **fields: Any) -> Json:
    """A part with a call; `args` only if given."""
    function = {key: value for key, value in (("name", name), ("args", args)) if value is not None}
    return {"functionCall": {**function, **fields}}


def partial(path: str, **value: Any) -> Json:
    return {"jsonPath": path, **value}


def growing(*partials: Json, more: bool = True, **fields: Any) -> Json:
    """A nameless part that feeds the call under way."""
    function: Json = {**({"partialArgs": list(partials)} if partials else {}), **fields}
    return {"functionCall": {**function, "willContinue": True} if more else function}


def candidate(*parts: Json, finish: Any = None, **fields: Any) -> Json:
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {**content, **({"finishReason": finish} if finish is not None else {}), "index": 0, **fields}


def response(*parts: Json, finish: Any = None, **fields: Any) -> Json:
    """One response with one candidate."""
    return {"candidates": [candidate(*parts, finish=finish)], **HEAD, **fields}


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def sse(*responses: Any) -> bytes:
    """As with `alt=sse`: one data line each, CRLF."""
    return b"".join(
        b"data: " + (each if isinstance(each, bytes) else compact(each)) + b"\r\n\r\n" for each in responses
    )


def array(*responses: Any, end: bytes = b"\n]") -> bytes:
    """As without it: pretty-printed elements of one array."""
    elements = [
        each if isinstance(each, bytes) else json.dumps(each, indent=2).encode() for each in responses
    ]
    return b"[" + b"\n,\r\n".join(elements) + end


def whole(*responses: Json) -> bytes:
    """The same turn as one body: the parts of all responses in one."""
    parts: dict[int, list[Any]] = {}
    last: dict[int, Json] = {}
    for each in responses:
        for entry in each.get("candidates", ()):
            index = entry.get("index", 0)
            parts.setdefault(index, []).extend(entry.get("content", {}).get("parts", ()))
            last[index] = {**last.get(index, {}), **entry}
    candidates = [{**last[index], "content": {"role": "model", "parts": parts[index]}} for index in parts]
    others = {key: value for each in responses for key, value in each.items() if key != "candidates"}
    return json.dumps({**others, **({"candidates": candidates} if candidates else {})}, indent=2).encode()


FORMS = {"sse": sse, "array": array}


def judged(
    data: bytes,
    form: str = "sse",
    *,
    tools: Json | None = None,
    policy: TurnPolicy | None = None,
    clean: bool = True,
    reads: Iterable[bytes] | None = None,
    toolset: Toolset | None = None,
) -> Judged:
    """The turn, judged as a reply of that form."""
    return judge(
        "gemini_generate",
        data,
        tools=toolset or read_toolset(compact(tools or TOOLS)),
        policy=policy,
        framing={"sse": "sse", "array": "json_array", "whole": "json"}[form],
        clean=clean,
        reads=reads,
    )


def places(data: bytes) -> list[int]:
    """Where to cut: around every line end, and at every seventh place; with TURNGATE_SOAK at every place."""
    if os.environ.get("TURNGATE_SOAK") == "1":
        return list(range(1, len(data)))
    ends = {at + beside for at, byte in enumerate(data) if byte == 10 for beside in (-1, 0, 1)}
    return sorted({*range(1, len(data), 7), *ends} & set(range(1, len(data))))


def every_reading(data: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, in sevens, and cut in two."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    yield [data[at : at + 7] for at in range(0, len(data), 7)]
    yield from ([data[:at], data[at:]] for at in places(data))
