"""Responses events as providers send them, and one turn judged from them by the whole core."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.dialects.wire import Judged, judge_however_read, sse
from turngate.core.event import CallKind, RunsOn
from turngate.core.toolset import Tool, Toolset

BUILTIN, PROVIDER = CallKind.BUILTIN, RunsOn.PROVIDER
TOOLS = Toolset(
    {
        "ls": Tool("ls"),
        "rm": Tool("rm"),
        "crm.find": Tool("crm.find"),
        "run": Tool("run", CallKind.CUSTOM),
        **{name: Tool(name, BUILTIN) for name in ("local_shell", "shell", "apply_patch", "computer")},
        "tool_search": Tool("tool_search", BUILTIN),
        "x_search": Tool("x_search", BUILTIN, PROVIDER),
        "web_search": Tool("web_search", BUILTIN, PROVIDER),
    },
    toolsets=frozenset({"mcp:crm"}),
    model="m",
)
ARGUMENTS = '{"p":"/"}'


def event(kind: str, /, **fields: Any) -> tuple[str, dict[str, Any]]:
    """One event, still without its number."""
    return kind, fields


Said = tuple[str, dict[str, Any]] | bytes


def wire(*events: Said, named: bool = True, start: int = 0) -> bytes:
    """The events in order, numbered; bytes stay as they are."""
    pieces, number = [], start
    for each in events:
        if isinstance(each, bytes):
            pieces.append(each)
            continue
        kind, fields = each
        value = {"type": kind, "sequence_number": number, **fields}
        pieces.append(sse(value, kind if named else None))
        number += 1
    return b"".join(pieces)


def response(status: str = "in_progress", *output: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "model": "m",
        "output": list(output),
        **fields,
    }


def created(**fields: Any) -> Said:
    return event("response.created", response=response(**fields))


def completed(*output: Any, **fields: Any) -> Said:
    return event("response.completed", response=response("completed", *output, **fields))


def incomplete(reason: str, *output: Any) -> Said:
    details = {"reason": reason}
    return event("response.incomplete", response=response("incomplete", *output, incomplete_details=details))


def added(index: Any, item: Any) -> Said:
    return event("response.output_item.added", output_index=index, item=item)


def done(index: Any, item: Any) -> Said:
    return event("response.output_item.done", output_index=index, item=item)


def piece(index: Any, text: Any, kind: str = "function_call_arguments", **fields: Any) -> Said:
    return event(
        f"response.{kind}.delta", output_index=index, **{"item_id": f"it_{index}", **fields}, delta=text
    )


def joined(index: Any, text: Any, kind: str = "function_call_arguments", **fields: Any) -> Said:
    key = "input" if kind.startswith("custom") else "arguments"
    return event(
        f"response.{kind}.done", output_index=index, **{"item_id": f"it_{index}", key: text, **fields}
    )


def function(index: int = 1, arguments: Any = ARGUMENTS, name: Any = "ls", **fields: Any) -> dict[str, Any]:
    """A function call's item when it is done."""
    item = {"id": f"it_{index}", "type": "function_call", "status": "completed", "call_id": f"call_{index}"}
    return {**item, "name": name, "arguments": arguments, **fields}


def opening(item: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The same item when it is only added."""
    empty = {key: "" for key in ("arguments", "input") if isinstance(item.get(key), str)}
    return {**item, "status": "in_progress", **empty, **fields}


def message(index: int = 0, text: str = "Hi.") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": f"it_{index}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def words(index: int = 0, text: str = "Hi.") -> list[Said]:
    """A whole message of text."""
    at = {"item_id": f"it_{index}", "output_index": index, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    said = {**part, "text": text}
    return [
        added(index, {**message(index), "status": "in_progress", "content": []}),
        event("response.content_part.added", **at, part=part),
        event("response.output_text.delta", **at, delta=text, logprobs=[]),
        event("response.output_text.done", **at, text=text, logprobs=[]),
        event("response.content_part.done", **at, part=said),
        done(index, message(index, text)),
    ]


def call(item: dict[str, Any], index: int = 1, *pieces: str) -> list[Said]:
    """A whole function call, in two pieces if none are given."""
    text = item["arguments"]
    parts = pieces or (text[: len(text) // 2], text[len(text) // 2 :])
    return [
        added(index, opening(item)),
        *(piece(index, part) for part in parts),
        joined(index, text),
        done(index, item),
    ]


SPOKEN = [created(), event("response.in_progress", response=response()), *words()]
CALL = call(function())
END = completed(message(), function())
WHOLE = [*SPOKEN, *CALL, END]


def judged(events: Iterable[Said] | bytes, **more: Any) -> Judged:
    """The turn that these events are, however they are read."""
    data = events if isinstance(events, bytes) else wire(*events)
    return judge_however_read("openai_responses", data, **{"tools": TOOLS, **more})


def told(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream, decoded."""
    blocks = data.decode().split("\n\n")
    return [json.loads(block.partition("data: ")[2]) for block in blocks if "data: " in block]
