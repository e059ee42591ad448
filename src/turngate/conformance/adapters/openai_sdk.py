"""The official `openai` package: Chat Completions.

`raw`: chunks joined by index as the vendor's guide shows, calls run when the stream has ended. `helper`: `.stream()` and its final
completion. `events`: calls run at the helper's `tool_calls.function.arguments.done`. `whole`: not streamed.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("openai_chat",)


@functools.cache
def client(origin: str) -> Any:
    """One client for all asks; retries are the package's own default."""
    import openai  # noqa: PLC0415 -- only the adapter's environment has it

    return openai.OpenAI(api_key="none", base_url=f"{origin}/v1")


def raw(ask: Ask) -> None:
    """Join the chunks."""
    joined: dict[tuple[int, int], list[str | None]] = {}
    for chunk in client(ask.origin).chat.completions.create(**ask.request):
        for choice in chunk.choices:
            ask.say(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                entry = joined.setdefault((choice.index, call.index), [None, None, ""])
                function = call.function
                entry[0] = entry[0] or call.id
                entry[1] = entry[1] or (function and function.name)
                entry[2] = (entry[2] or "") + ((function and function.arguments) or "")
    for call_id, name, arguments in joined.values():
        ask.execute(id=call_id, name=name, arguments=json.loads(arguments or "{}"))


def helper(ask: Ask) -> None:
    """Take the final completion."""
    with client(ask.origin).chat.completions.stream(**_unstreamed(ask)) as stream:
        for event in stream:
            if event.type == "content.delta":
                ask.say(event.delta)
        completion = stream.get_final_completion()
    for choice in completion.choices:
        _run(ask, choice.message.tool_calls or ())


def events(ask: Ask) -> None:
    """Run each call when the helper says that its arguments are done."""
    with client(ask.origin).chat.completions.stream(**_unstreamed(ask)) as stream:
        for event in stream:
            if event.type == "content.delta":
                ask.say(event.delta)
            if event.type == "tool_calls.function.arguments.done":
                ask.execute(id=None, name=event.name, arguments=json.loads(event.arguments or "{}"))


def whole(ask: Ask) -> None:
    """Take the completion."""
    completion = client(ask.origin).chat.completions.create(**ask.request)
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


WAYS = {"raw": raw, "helper": helper, "events": events, "whole": whole}
