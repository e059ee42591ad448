"""A turn as OpenAI Responses streams it, in the pieces of `tests.agents.wire`.

Every event carries its number, and the last one carries all items again, so a turn is not the mere sum of its pieces: `assembled`
completes it. A provider's error is `response.failed`, as the service sends it once a stream has begun.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.agents.wire import CREATED, TEXT, Tool, Wire, as_json, event, in_pieces, named_event, shell_among


class Responses(Wire):
    """Item 0 is the text, so call N is item N + 1. An answer of text ends as one with calls does."""

    path = "/responses"
    calls = stopped = "completed"
    reason_ends = True
    limit, refused = "max_output_tokens", "content_filter"

    def opening(self) -> bytes:
        at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": TEXT, "annotations": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant"}
        begun = {**item, "status": "in_progress", "content": []}
        done = {**item, "status": "completed", "content": [part]}
        return (
            event("response.created", response=_response("in_progress"))
            + event("response.output_item.added", output_index=0, item=begun)
            + event("response.content_part.added", **at, part={**part, "text": ""})
            + event("response.output_text.delta", **at, delta=TEXT, logprobs=[])
            + event("response.output_text.done", **at, text=TEXT, logprobs=[])
            + event("response.content_part.done", **at, part=part)
            + event("response.output_item.done", output_index=0, item=done)
        )

    def call(self, tool: Tool, arguments: str, *, index: int = 0, call_id: str = "call_a") -> bytes:
        item = {"id": f"fc_{index}", "type": "function_call", "call_id": call_id, "name": tool.name}
        begun = {**item, "status": "in_progress", "arguments": ""}
        done = {**item, "status": "completed", "arguments": arguments}
        at = {"item_id": item["id"], "output_index": index + 1}
        deltas = [event("response.function_call_arguments.delta", **at, delta=piece) for piece in in_pieces(arguments)]  # fmt: skip
        return (
            event("response.output_item.added", output_index=index + 1, item=begun)
            + b"".join(deltas)
            + event("response.function_call_arguments.done", **at, arguments=arguments)
            + event("response.output_item.done", output_index=index + 1, item=done)
        )

    def ended_again(self) -> bytes:
        return event("response.output_item.done", output_index=1, item=None)

    def ending(self, reason: str) -> bytes:
        if reason == self.calls:
            return event("response.completed", response=_response("completed"))
        details = {"reason": reason}
        return event("response.incomplete", response=_response("incomplete", incomplete_details=details))

    def end(self) -> bytes:
        return b""

    def error(self, message: str) -> bytes:
        error = {"code": "server_error", "message": message}
        return event("response.failed", response=_response("failed", error=error))

    def whole(self, text: str) -> bytes:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}  # fmt: skip
        return as_json({**_response("completed"), "output": [item]})

    def shell(self, request: Mapping[str, Any]) -> Tool | None:
        declared = [tool for tool in request.get("tools", ()) if tool["type"] == "function"]
        return shell_among({tool["name"]: tool.get("parameters", {}) for tool in declared})

    def has_result(self, request: Mapping[str, Any]) -> bool:
        items = request["input"]
        return isinstance(items, list) and any(item.get("type") == "function_call_output" for item in items)

    def assembled(self, turn: bytes) -> bytes:
        """Number the events, repeat an item that ends again, and give all ended items to the last event."""
        items: dict[int, Any] = {}
        events = []
        for number, block in enumerate(turn.split(b"\n\n")[:-1]):
            value = json.loads(block.partition(b"\ndata: ")[2])
            if value["type"] == "response.output_item.done":
                value["item"] = value["item"] or items[value["output_index"]]
                items[value["output_index"]] = value["item"]
            elif "response" in value:
                value["response"]["output"] = list(items.values())
            events.append(named_event({**value, "sequence_number": number}))
        return b"".join(events)


def _response(status: str, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": "gpt-x",
        "output": [],
        "usage": None if status == "in_progress" else usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        **fields,
    }
