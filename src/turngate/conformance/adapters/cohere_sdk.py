"""The official `cohere` package: version 2 and version 1 of its chat.

`raw`: events joined as the vendor's guide shows, calls run when the stream has ended; in version 1 those that the stream listed as whole.
`events`: calls run at once, at `tool-call-end` or `tool-calls-generation`. `whole`: not streamed. Calls of version 1 have no id.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("cohere_chat", "cohere_chat_v1")
_V1 = "cohere_chat_v1"


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    import cohere  # noqa: PLC0415 -- only the adapter's environment has it

    return cohere.ClientV2("none", base_url=origin)


def client_v1(origin: str) -> Any:
    """The same for version 1."""
    import cohere  # noqa: PLC0415 -- only the adapter's environment has it

    return cohere.Client("none", base_url=origin)


def raw(ask: Ask) -> None:
    """Join the events, then run."""
    if ask.dialect == _V1:
        _run(ask, [call for event in _events(ask) for call in _listed(event)])
        return
    joined: dict[int, Any] = {}
    for event in _events(ask):
        _join(joined, event)
    _run(ask, joined.values())


def events(ask: Ask) -> None:
    """Run each call when the stream says that it is whole."""
    joined: dict[int, Any] = {}
    for event in _events(ask):
        if ask.dialect == _V1:
            _run(ask, _listed(event))
        else:
            _join(joined, event)
            if event.type == "tool-call-end":
                _run(ask, [joined[event.index]])


def whole(ask: Ask) -> None:
    """Take the reply."""
    if ask.dialect == _V1:
        reply = ask.client(client_v1).chat(**_asked(ask))
        ask.say(reply.text)
        _run(ask, reply.tool_calls or ())
        return
    message = ask.client(client).chat(**_asked(ask)).message
    for part in message.content or ():
        ask.say(part.text)
    _run(ask, message.tool_calls or ())


def _events(ask: Ask) -> Iterator[Any]:
    """The stream's events; their text is shown."""
    sdk = ask.client(client_v1 if ask.dialect == _V1 else client)
    for event in sdk.chat_stream(**_asked(ask)):
        if ask.dialect == _V1 and event.event_type == "text-generation":
            ask.say(event.text)
        elif ask.dialect != _V1 and event.type == "content-delta":
            ask.say(event.delta.message.content.text)
        yield event


def _listed(event: Any) -> Iterable[Any]:
    """The calls that an event of version 1 lists as whole."""
    return event.tool_calls if event.event_type == "tool-calls-generation" else ()


def _join(joined: dict[int, Any], event: Any) -> None:
    """Put a piece to its call."""
    if event.type == "tool-call-start":
        joined[event.index] = event.delta.message.tool_calls
    elif event.type == "tool-call-delta":
        joined[event.index].function.arguments += event.delta.message.tool_calls.function.arguments


def _asked(ask: Ask) -> dict[str, Any]:
    return {key: value for key, value in ask.request.items() if key != "stream"}


def _run(ask: Ask, calls: Iterable[Any]) -> None:
    for call in calls:
        if ask.dialect == _V1:
            ask.execute(id=None, name=call.name, arguments=call.parameters)
        else:
            arguments = json.loads(call.function.arguments or "{}")
            ask.execute(id=call.id, name=call.function.name, arguments=arguments)


WAYS = {"raw": raw, "events": events, "whole": whole}
