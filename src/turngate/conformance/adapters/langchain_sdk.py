"""`langchain-openai`: `ChatOpenAI` with bound tools.

`stream`: chunks added up, `tool_calls` of the sum run when the stream has ended. `whole`: not streamed. Calls that LangChain itself
lists as invalid are not run: an agent executor looks at `tool_calls`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("openai_chat",)


def stream(ask: Ask) -> None:
    """Add up the chunks."""
    total: Any = None
    for chunk in _model(ask).stream(ask.messages):
        ask.say(chunk.text if isinstance(chunk.text, str) else chunk.text())
        total = chunk if total is None else total + chunk
    if total is not None:
        _run(ask, total)


def whole(ask: Ask) -> None:
    """Take the message."""
    _run(ask, _model(ask).invoke(ask.messages))


def _model(ask: Ask) -> Any:
    # Only the adapter's environment has it.
    package = importlib.import_module("langchain_openai")
    model = package.ChatOpenAI(model="demo", api_key="none", base_url=f"{ask.origin}/v1")
    return model.bind_tools(ask.tools) if ask.tools else model


def _run(ask: Ask, message: Any) -> None:
    for call in message.tool_calls:
        ask.execute(id=call["id"], name=call["name"], arguments=call["args"])


WAYS = {"stream": stream, "whole": whole}
