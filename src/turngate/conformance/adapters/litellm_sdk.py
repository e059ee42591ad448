"""`litellm` as a library.

`raw`: chunks joined by index, calls run when the stream has ended. `builder`: its own `stream_chunk_builder`. `whole`: not streamed.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("openai_chat", "anthropic_messages", "mistral_chat")
_PROVIDERS = {"openai_chat": "openai", "anthropic_messages": "anthropic", "mistral_chat": "mistral"}


def raw(ask: Ask) -> None:
    """Join the chunks."""
    joined: dict[tuple[int, int], list[Any]] = {}
    for chunk in _complete(ask):
        for choice in chunk.choices:
            ask.say(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                entry = joined.setdefault((choice.index, call.index), [None, None, ""])
                entry[0] = entry[0] or call.id
                entry[1] = entry[1] or call.function.name
                entry[2] += call.function.arguments or ""
    for call_id, name, arguments in joined.values():
        ask.execute(id=call_id, name=name, arguments=json.loads(arguments or "{}"))


def builder(ask: Ask) -> None:
    """Let the package join the chunks."""
    chunks = []
    for chunk in _complete(ask):
        ask.say(chunk.choices[0].delta.content if chunk.choices else None)
        chunks.append(chunk)
    built: Any = _package().stream_chunk_builder(chunks)
    if built is not None:
        _run(ask, built.choices)


def whole(ask: Ask) -> None:
    """Take the completion."""
    _run(ask, _complete(ask).choices)


def _package() -> Any:
    """Only the adapter's environment has it."""
    return importlib.import_module("litellm")


def _complete(ask: Ask) -> Any:
    """The request in litellm's one form: OpenAI's."""
    base = ask.origin if ask.dialect == "anthropic_messages" else f"{ask.origin}/v1"
    return _package().completion(
        model=f"{_PROVIDERS[ask.dialect]}/demo",
        api_base=base,
        api_key="none",
        messages=ask.messages,
        tools=[_as_openai(tool) for tool in ask.tools] or None,
        stream=ask.request.get("stream", False),
    )


def _as_openai(tool: dict[str, Any]) -> dict[str, Any]:
    if "input_schema" not in tool:
        return tool
    return {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}


def _run(ask: Ask, choices: Iterable[Any]) -> None:
    for choice in choices:
        for call in choice.message.tool_calls or ():
            arguments = json.loads(call.function.arguments or "{}")
            ask.execute(id=call.id, name=call.function.name, arguments=arguments)


WAYS = {"raw": raw, "builder": builder, "whole": whole}
