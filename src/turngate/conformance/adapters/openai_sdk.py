"""The official `openai` package: Chat Completions and Responses.

`raw`: chunks joined by index as the vendor's guide shows, calls run when the stream has ended; for Responses the items that the stream
said were done. `helper`: `.stream()` and its final completion or response. `events`: calls run at once, at the helper's
`tool_calls.function.arguments.done` or at `response.output_item.done`. `whole`: not streamed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("openai_chat", "openai_responses")
_RESPONSES = "openai_responses"


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    import openai  # noqa: PLC0415 -- only the adapter's environment has it

    return openai.OpenAI(api_key="none", base_url=f"{origin}/v1")


def raw(ask: Ask) -> None:
    """Join the chunks."""
    if ask.dialect == _RESPONSES:
        _run_items(ask, [event.item for event in _response_events(ask) if event.type == _ITEM_DONE])
        return
    joined: dict[tuple[int, int], list[str | None]] = {}
    for chunk in ask.client(client).chat.completions.create(**ask.request):
        for choice in chunk.choices:
            ask.say(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                entry = joined.setdefault((choice.index, call.index), [None, None, ""])
                entry[0] = entry[0] or call.id
                if call.function:
                    entry[1] = entry[1] or call.function.name
                    entry[2] = (entry[2] or "") + (call.function.arguments or "")
    for call_id, name, arguments in joined.values():
        ask.execute(id=call_id, name=name, arguments=json.loads(arguments or "{}"))


def helper(ask: Ask) -> None:
    """Take the final completion."""
    if ask.dialect == _RESPONSES:
        with ask.client(client).responses.stream(**_unstreamed(ask)) as responses:
            for event in responses:
                _say(ask, event)
            _run_items(ask, responses.get_final_response().output)
        return
    with ask.client(client).chat.completions.stream(**_unstreamed(ask)) as stream:
        for event in stream:
            if event.type == "content.delta":
                ask.say(event.delta)
        completion = stream.get_final_completion()
    for choice in completion.choices:
        _run(ask, choice.message.tool_calls or ())


def events(ask: Ask) -> None:
    """Run each call when the helper says that its arguments are done."""
    if ask.dialect == _RESPONSES:
        for event in _response_events(ask):
            if event.type == _ITEM_DONE:
                _run_items(ask, [event.item])
        return
    with ask.client(client).chat.completions.stream(**_unstreamed(ask)) as stream:
        for event in stream:
            if event.type == "content.delta":
                ask.say(event.delta)
            if event.type == "tool_calls.function.arguments.done":
                ask.execute(id=None, name=event.name, arguments=json.loads(event.arguments or "{}"))


def whole(ask: Ask) -> None:
    """Take the completion."""
    if ask.dialect == _RESPONSES:
        _run_items(ask, ask.client(client).responses.create(**ask.request).output)
        return
    completion = ask.client(client).chat.completions.create(**ask.request)
    for choice in completion.choices:
        ask.say(choice.message.content)
        _run(ask, choice.message.tool_calls or ())


def _unstreamed(ask: Ask) -> dict[str, Any]:
    return {key: value for key, value in ask.request.items() if key not in ("stream", "stream_options")}


def _run(ask: Ask, calls: Iterable[Any]) -> None:
    for call in calls:
        if call.type == "custom":
            ask.execute(id=call.id, name=call.custom.name, arguments=call.custom.input)
        else:
            ask.execute(
                id=call.id, name=call.function.name, arguments=json.loads(call.function.arguments or "{}")
            )


_ITEM_DONE = "response.output_item.done"


def _response_events(ask: Ask) -> Iterable[Any]:
    for event in ask.client(client).responses.create(**ask.request):
        _say(ask, event)
        yield event


def _say(ask: Ask, event: Any) -> None:
    if event.type == "response.output_text.delta":
        ask.say(event.delta)


def _run_items(ask: Ask, items: Iterable[Any]) -> None:
    for item in items:
        if item.type == "custom_tool_call":
            ask.execute(id=item.call_id, name=item.name, arguments=item.input)
        elif item.type == "function_call":
            ask.execute(id=item.call_id, name=item.name, arguments=json.loads(item.arguments or "{}"))


WAYS = {"raw": raw, "helper": helper, "events": events, "whole": whole}
