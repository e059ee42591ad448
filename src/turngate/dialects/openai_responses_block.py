"""How a client is told that a Responses turn was not released, and what it has to have seen for that.

Measured (agents reference, client reactions 4.1): the official SDKs raise at an `error` event that has the flat fields of the
specification and a nested `error`; Codex CLI wants `response.failed` besides, and asks again unless its code is `invalid_prompt`.
The official helper refuses a response that changes its id, and an item that never ends. The type is `OPENAI_ERROR_TYPE`'s matter.

Over a WebSocket it is the `error` alone. The official session ends a lane's response at it and raises; it would give a
`response.failed` behind it to the lane's next response, whose final one that then is. Codex CLI takes the `status`: 400 is not
asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from turngate.core.verdict import BlockNotice
from turngate.dialects.base import OPENAI_ERROR_TYPE, listed, sse

_TEXT_PARTS = {"output_text": "text", "refusal": "refusal"}


def as_sse(event: Mapping[str, Any]) -> bytes:
    """An event of our own in a stream."""
    return sse(event, event["type"])


@dataclass(slots=True)
class Shown:
    """What the client has seen of a response."""

    keeps_text: bool
    """Whether a quiet ending may have to repeat open items; nothing else needs their text."""
    write: Callable[[Mapping[str, Any]], bytes] = as_sse
    """How an event of our own is written."""
    number: int = -1
    """The last `sequence_number`. A client resumes behind it, so it must never be one of a held event."""
    response: Mapping[str, Any] | None = None
    items: dict[int, dict[str, Any]] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def see(self, value: Mapping[str, Any]) -> None:
        """An event passes to the client."""
        kind, number, index = value.get("type"), value.get("sequence_number"), value.get("output_index")
        if isinstance(number, int):
            self.number = number
        response, item = value.get("response"), value.get("item")
        if isinstance(response, dict):
            self.response = {key: response[key] for key in ("id", "model", "created_at") if key in response}
        if not self.keeps_text or not isinstance(index, int):
            return
        if kind == "response.output_item.added" and isinstance(item, dict):
            self.items[index] = dict(item)
            self.open.add(index)
        elif kind == "response.output_item.done" and isinstance(item, dict):
            self.items[index] = dict(item)
            self.open.discard(index)
        elif kind == "response.content_part.added" and index in self.items:
            part = value.get("part")
            content = [*listed(self.items[index].get("content")), part if isinstance(part, dict) else {}]
            self.items[index]["content"] = content

    def see_text(self, index: int, content_index: int, text: str) -> None:
        """A piece of text has passed to the client."""
        content = self.items.get(index, {}).get("content")
        if self.keeps_text and isinstance(content, list) and content_index < len(content):
            part = content[content_index]
            key = _TEXT_PARTS.get(part.get("type"), "text")
            part[key] = f"{part.get(key) or ''}{text}"


def error(message: str, details: Mapping[str, object]) -> dict[str, object]:
    """OpenAI's error object."""
    return {
        "type": OPENAI_ERROR_TYPE,
        "code": details["reason"],
        "message": message,
        "param": None,
        "turngate": details,
    }


def keep_alive(shown: Shown) -> bytes:
    """OpenAI's own form: Codex counts events, not bytes."""
    return shown.write({"type": "keepalive", "sequence_number": max(shown.number, 0)})


def block_event(shown: Shown, notice: BlockNotice, model: str | None) -> bytes:
    """An `error` in both forms, then `response.failed`."""
    failed = _response(shown, notice, model, "failed", [])
    failed["error"] = {"code": "invalid_prompt", "message": notice.message}
    told = error_event(notice.message, notice.details)
    return _events([told, {"type": "response.failed", "response": failed}], shown)


def error_event(message: str, details: Mapping[str, object]) -> dict[str, object]:
    """An `error` with the flat fields of the specification and the nested ones at which the official SDKs raise."""
    told = error(message, details)
    flat = {key: told[key] for key in ("code", "message", "param")}
    return {"type": "error", **flat, "error": told}


def block_notice(shown: Shown, notice: BlockNotice, model: str | None) -> bytes:
    """Close what the client saw opening, then one message of text, and `response.completed`."""
    events: list[dict[str, Any]] = []
    if shown.response is None:
        started = _response(shown, notice, model, "in_progress", [])
        events.append({"type": "response.created", "response": started})
    for index in sorted(shown.open):
        shown.items[index]["status"] = "incomplete"
        events.append(
            {"type": "response.output_item.done", "output_index": index, "item": shown.items[index]}
        )
    index = max(shown.items, default=-1) + 1
    at = {"item_id": f"msg_{notice.turn_id}", "output_index": index}
    part = {"type": "output_text", "text": "", "annotations": []}
    said = {**part, "text": notice.message}
    item = {"id": at["item_id"], "type": "message", "role": "assistant"}
    opened = {**item, "status": "in_progress", "content": []}
    closed = {**item, "status": "completed", "content": [said]}
    output = [*(shown.items[each] for each in sorted(shown.items)), closed]
    completed = _response(shown, notice, model, "completed", output)
    within = {**at, "content_index": 0}
    events += [
        {"type": "response.output_item.added", "output_index": index, "item": opened},
        {"type": "response.content_part.added", **within, "part": part},
        {"type": "response.output_text.delta", **within, "delta": notice.message, "logprobs": []},
        {"type": "response.output_text.done", **within, "text": notice.message, "logprobs": []},
        {"type": "response.content_part.done", **within, "part": said},
        {"type": "response.output_item.done", "output_index": index, "item": closed},
        {"type": "response.completed", "response": completed},
    ]
    return _events(events, shown)


def _response(
    shown: Shown, notice: BlockNotice, model: str | None, status: str, output: list[dict[str, Any]]
) -> dict[str, Any]:
    seen = shown.response or {}
    return {
        "id": seen.get("id") or notice.turn_id,
        "object": "response",
        "created_at": seen.get("created_at") or 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": seen.get("model") or model or "turngate",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _events(events: list[dict[str, Any]], shown: Shown) -> bytes:
    number = shown.number + 1
    return b"".join(
        shown.write({**event, "sequence_number": number + step}) for step, event in enumerate(events)
    )
