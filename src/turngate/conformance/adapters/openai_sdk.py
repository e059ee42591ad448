"""The official `openai` package: Chat Completions, Responses and the Assistants' runs.

`raw`: chunks joined by index as the vendor's guide shows, calls run when the stream has ended; for Responses the items that the stream
said were done; for a run what it waits for, at once at `thread.run.requires_action`, as the guide has it. `helper`: `.stream()` and its
final completion, response or run. `events`: calls run at once, at the helper's `tool_calls.function.arguments.done`, at
`response.output_item.done` or in the handler's `on_tool_call_done`. `whole`: not streamed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("openai_chat", "openai_responses", "openai_assistants")
_RESPONSES = "openai_responses"
_ASSISTANTS = "openai_assistants"


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    import openai  # noqa: PLC0415 -- only the adapter's environment has it

    return openai.OpenAI(api_key="none", base_url=f"{origin}/v1")


def raw(ask: Ask) -> None:
    """Join the chunks."""
    if ask.dialect == _RESPONSES:
        _run_items(ask, [event.item for event in _response_events(ask) if event.type == _ITEM_DONE])
        return
    if ask.dialect == _ASSISTANTS:
        _follow(ask)
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
    if ask.dialect == _ASSISTANTS:
        with _runs(ask).stream(**_unstreamed(ask), thread_id=_THREAD) as run:
            for text in run.text_deltas:
                ask.say(text)
            _run_waiting(ask, run.get_final_run())
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
    if ask.dialect == _ASSISTANTS:
        with _runs(ask).stream(**_unstreamed(ask), thread_id=_THREAD, event_handler=_handler(ask)) as run:
            run.until_done()
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
    if ask.dialect == _ASSISTANTS:
        _run_waiting(ask, _runs(ask).create(**ask.request, thread_id=_THREAD))
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


_THREAD = "thread_1"


def _runs(ask: Ask) -> Any:
    return ask.client(client).beta.threads.runs


def _follow(ask: Ask) -> None:
    """Read a run's events."""
    for event in _runs(ask).create(**ask.request, thread_id=_THREAD):
        if event.event == "thread.message.delta":
            for part in event.data.delta.content or ():
                if part.type == "text":
                    ask.say(part.text.value)
        elif event.event == "thread.run.requires_action":
            _run_waiting(ask, event.data)


def _run_waiting(ask: Ask, run: Any) -> None:
    """Run what a run waits for; one that was cut short lists nothing that is waited for."""
    if run.status == "requires_action":
        _run(ask, run.required_action.submit_tool_outputs.tool_calls)


def _handler(ask: Ask) -> Any:
    import openai  # noqa: PLC0415 -- only the adapter's environment has it

    class Handler(openai.AssistantEventHandler):
        def on_text_delta(self, delta: Any, snapshot: Any) -> None:  # noqa: ARG002 -- the package's own signature
            ask.say(delta.value)

        def on_tool_call_done(self, tool_call: Any) -> None:
            if tool_call.type == "function":
                _run(ask, [tool_call])

    return Handler()


WAYS = {"raw": raw, "helper": helper, "events": events, "whole": whole}
