"""What the demo provider reads of a request: the model's name, the tools, whether to stream, whether a result came back.

Messages are looked at for one thing only: an agent that just returned a tool's result gets text, so that its loop ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from turngate.demo.turns import ANSWER, HINT, THANKS, TURNS, Step, Tool, Turn, text_turn
from turngate.demo.wire import ChatWire, MessagesWire, MistralWire, Wire

CHAT_PATH = "/v1/chat/completions"
MESSAGES_PATH = "/v1/messages"
_MISTRAL = "mistral-"


class RefusedError(Exception):
    """The provider answers with an error status."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Asking:
    """One request for a turn."""

    turn: Turn
    tools: tuple[Tool, ...]
    streamed: bool
    answered: bool
    """Whether the last message is a tool's result."""
    wire: Wire

    def steps(self) -> Iterable[Step]:
        """The script that this request gets."""
        if self.answered:
            return text_turn(THANKS)
        if not self.tools:
            return text_turn(f"{ANSWER} {HINT}")
        return self.turn.script(self.tools)


def model_names() -> list[str]:
    """Every model that can be asked for."""
    return [*TURNS, *(mistral_name(turn) for turn in TURNS.values() if turn.mistral)]


def mistral_name(turn: Turn) -> str:
    """The model's name in Mistral's form."""
    return _MISTRAL + turn.name.removeprefix("demo-")


def read(path: str, body: bytes) -> Asking:
    """Read a request to one of the two paths, or raise `RefusedError`."""
    try:
        asked = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, "invalid_request_error", "The body is not a JSON object.") from error
    model = str(asked.get("model"))
    turn = _turn(model)
    wire: Wire
    if path == MESSAGES_PATH:
        wire = MessagesWire(model)
    else:
        wire = MistralWire(model) if model.startswith(_MISTRAL) else ChatWire(model)
    streamed = asked.get("stream") is True
    if turn.streamed_only and not streamed:
        raise RefusedError(400, "invalid_request_error", f"The turn of {model} exists only as a stream.")
    return Asking(turn, tuple(_tools(asked.get("tools"))), streamed, _answered(asked.get("messages")), wire)


def _turn(model: str) -> Turn:
    name = model
    if model.startswith(_MISTRAL):
        rest = model.removeprefix(_MISTRAL)
        name = rest if rest == "demo" else f"demo-{rest}"
    turn = TURNS.get(name)
    if turn is None or (name != model and not turn.mistral):
        known = ", ".join(model_names())
        raise RefusedError(404, "not_found_error", f"There is no model of this name. Use one of {known}.")
    return turn


def _tools(declared: Any) -> Iterable[Tool]:
    """The declared functions of either dialect; a tool without a name of its own is the provider's to run."""
    for entry in declared if isinstance(declared, list) else ():
        body = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):
            continue
        schema = body.get("parameters", body.get("input_schema"))
        yield Tool(body["name"], schema if isinstance(schema, dict) else {})


def _answered(messages: Any) -> bool:
    last = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, dict):
        return False
    content = last.get("content")
    blocks = content if isinstance(content, list) else ()
    return last.get("role") == "tool" or any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks
    )
