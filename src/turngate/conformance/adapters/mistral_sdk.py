"""The official `mistralai` package: chat and conversations.

`raw`: typed chunks, joined as the vendor's guide shows, calls run when the stream has ended. `whole`: not streamed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("mistral_chat", "mistral_conversations")
_CONVERSATIONS = "mistral_conversations"


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    from mistralai.client import Mistral  # noqa: PLC0415 -- only the adapter's environment has it

    return Mistral(api_key="none", server_url=origin)


def raw(ask: Ask) -> None:
    """Join the chunks: a call without an id goes on with the one at its index."""
    if ask.dialect == _CONVERSATIONS:
        _converse(ask)
        return
    joined: dict[tuple[int, Any], list[Any]] = {}
    with ask.client(client).chat.stream(**_asked(ask)) as stream:
        for event in stream:
            for choice in event.data.choices:
                if isinstance(choice.delta.content, str):
                    ask.say(choice.delta.content)
                for call in choice.delta.tool_calls or ():
                    named = call.id if call.id and call.id != "null" else None
                    key = (choice.index, call.index or named or len(joined))
                    entry = joined.setdefault(key, [named, call.function.name, ""])
                    arguments = call.function.arguments
                    entry[2] = arguments if isinstance(arguments, dict) else entry[2] + arguments
    for call_id, name, arguments in joined.values():
        _run(ask, call_id, name, arguments)


def whole(ask: Ask) -> None:
    """Take the completion."""
    if ask.dialect == _CONVERSATIONS:
        for output in ask.client(client).beta.conversations.start(**_asked(ask)).outputs:
            if output.type == "function.call":
                _run(ask, output.tool_call_id, output.name, output.arguments)
        return
    for choice in ask.client(client).chat.complete(**_asked(ask)).choices:
        for call in choice.message.tool_calls or ():
            _run(ask, call.id, call.function.name, call.function.arguments)


def _converse(ask: Ask) -> None:
    """Join the pieces of a conversation by the id of their call."""
    joined: dict[str, list[str]] = {}
    with ask.client(client).beta.conversations.start_stream(**_asked(ask)) as stream:
        for event in stream:
            if event.data.type == "message.output.delta" and isinstance(event.data.content, str):
                ask.say(event.data.content)
            elif event.data.type == "function.call.delta":
                entry = joined.setdefault(event.data.tool_call_id, [event.data.name, ""])
                entry[1] += event.data.arguments
    for call_id, (name, arguments) in joined.items():
        _run(ask, call_id, name, arguments)


def _asked(ask: Ask) -> dict[str, Any]:
    return {key: value for key, value in ask.request.items() if key != "stream"}


def _run(ask: Ask, call_id: str | None, name: str, arguments: Any) -> None:
    value = arguments if isinstance(arguments, dict) else json.loads(arguments or "{}")
    ask.execute(id=call_id, name=name, arguments=value)


WAYS = {"raw": raw, "whole": whole}
