"""Events of a run as OpenAI's Assistants API sends them, with every field that the official SDK wants."""

from __future__ import annotations

import json
from typing import Any

from tests.dialects.wire import sse
from turngate.core.toolset import Tool, Toolset

SCHEMA = {
    "type": "object",
    "properties": {"p": {"type": "string"}},
    "required": ["p"],
    "additionalProperties": False,
}
DECLARED: list[Any] = [{"type": "function", "function": {"name": "ls", "parameters": SCHEMA}}]
TOOLS = Toolset({"ls": Tool("ls"), "rm": Tool("rm")}, staged=True, model="m")
CONTINUED = Toolset(replayed=True, staged=True)
ARGUMENTS = '{"p":"/"}'
DONE = b"event: done\ndata: [DONE]\n\n"
RUNS = "/v1/threads/thread_1/runs"


def run(status: str = "in_progress", *calls: Any, **fields: Any) -> dict[str, Any]:
    """A run; with calls, one that waits for their outputs."""
    action = {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": list(calls)}}
    return {
        "id": "run_1",
        "object": "thread.run",
        "created_at": 1,
        "assistant_id": "asst_1",
        "thread_id": "thread_1",
        "status": status,
        "instructions": "",
        "model": "m",
        "parallel_tool_calls": True,
        "required_action": action if calls else None,
        "tools": DECLARED,
        "metadata": {},
        **fields,
    }


def function(number: int = 1, arguments: Any = ARGUMENTS, name: Any = "ls", **fields: Any) -> dict[str, Any]:
    """A whole call."""
    told = {"name": name, "arguments": arguments, **fields}
    return {"id": f"call_{number}", "type": "function", "function": told}


def step(*calls: Any, kind: str = "tool_calls", number: int = 1, **fields: Any) -> dict[str, Any]:
    details = {"tool_calls": list(calls)} if kind == "tool_calls" else {kind: {"message_id": "msg_1"}}
    return {
        "id": f"step_{number}",
        "object": "thread.run.step",
        "created_at": 1,
        "run_id": "run_1",
        "assistant_id": "asst_1",
        "thread_id": "thread_1",
        "type": kind,
        "status": "in_progress",
        "step_details": {"type": kind, **details},
        **fields,
    }


def life(status: str, *calls: Any, name: str | None = None, **fields: Any) -> bytes:
    """An event of the run."""
    return sse(run(status, *calls, **fields), f"thread.run.{name or status}")


def stepped(*calls: Any, name: str = "created", **fields: Any) -> bytes:
    """An event of a whole step."""
    return sse(step(*calls, **fields), f"thread.run.step.{name}")


def delta(*entries: Any, number: int = 1) -> bytes:
    """Pieces of a step's calls."""
    details = {"type": "tool_calls", "tool_calls": list(entries)}
    fields = {"id": f"step_{number}", "object": "thread.run.step.delta", "delta": {"step_details": details}}
    return sse(fields, "thread.run.step.delta")


def opened(index: Any = 0, number: int = 1, arguments: Any = "", name: Any = "ls") -> dict[str, Any]:
    """The first piece of a call."""
    return {"index": index, **function(number, arguments, name, output=None)}


def piece(arguments: Any, index: Any = 0) -> dict[str, Any]:
    return {"index": index, "type": "function", "function": {"arguments": arguments}}


def message(status: str, *content: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "object": "thread.message",
        "created_at": 1,
        "thread_id": "thread_1",
        "run_id": "run_1",
        "assistant_id": "asst_1",
        "role": "assistant",
        "status": status,
        "content": list(content),
        "attachments": [],
        "metadata": {},
    }


def words(text: str) -> bytes:
    content = [{"index": 0, "type": "text", "text": {"value": text, "annotations": []}}]
    fields = {"id": "msg_1", "object": "thread.message.delta", "delta": {"content": content}}
    return sse(fields, "thread.message.delta")


def said(text: str = "Hello.") -> list[bytes]:
    """A whole message in two pieces, with its step."""
    whole = {"type": "text", "text": {"value": text, "annotations": []}}
    return [
        stepped(kind="message_creation", number=0),
        sse(message("in_progress"), "thread.message.created"),
        words(text[:2]),
        words(text[2:]),
        sse(message("completed", whole), "thread.message.completed"),
        stepped(kind="message_creation", number=0, name="completed", status="completed"),
    ]


OPENING = [life("queued", name="created"), life("queued"), life("in_progress")]
CALL = [stepped(), delta(opened()), delta(piece('{"p":')), delta(piece('"/"}'))]
END = [life("requires_action", function()), DONE]
TURN = b"".join([*OPENING, *said(), *CALL, *END])


def body(status: str, *calls: Any, **fields: Any) -> bytes:
    """The run as one JSON document."""
    return json.dumps(run(status, *calls, **fields)).encode()
