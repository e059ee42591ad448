"""The official `google-genai` package with Gemini's Interactions.

`raw`: events joined by step as the vendor's guide shows, calls run when the stream has ended. `events`: each call is run when its step has
stopped. `whole`: not streamed.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("gemini_interactions",)


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    # Only the adapter's environment has it.
    return importlib.import_module("google.genai").Client(api_key="none", http_options={"base_url": origin})


def raw(ask: Ask) -> None:
    """Join the events, then run."""
    steps: dict[int, list[Any]] = {}
    for _ in _read(ask, steps):
        pass
    for step in steps.values():
        _run(ask, *step)


def events(ask: Ask) -> None:
    """Run each call when its step stops."""
    steps: dict[int, list[Any]] = {}
    for index in _read(ask, steps):
        if index in steps:
            _run(ask, *steps[index])


def whole(ask: Ask) -> None:
    """Take the interaction."""
    interaction = ask.client(client).interactions.create(**ask.request)
    ask.say(interaction.output_text)
    for step in interaction.steps or ():
        if step.type == "function_call":
            ask.execute(id=step.id, name=step.name, arguments=step.arguments)


def _read(ask: Ask, steps: dict[int, list[Any]]) -> Iterator[int]:
    """Join pieces to the calls of their steps; gives each step that stops."""
    for event in ask.client(client).interactions.create(**ask.request):
        if event.event_type == "step.start" and event.step.type == "function_call":
            whole = event.step.arguments
            steps[event.index] = [event.step.id, event.step.name, json.dumps(whole) if whole else ""]
        elif event.event_type == "step.delta" and event.delta.type == "text":
            ask.say(event.delta.text)
        elif event.event_type == "step.delta" and event.delta.type == "arguments_delta":
            steps[event.index][2] += event.delta.arguments
        elif event.event_type == "step.stop":
            yield event.index


def _run(ask: Ask, call_id: str, name: str, arguments: str) -> None:
    ask.execute(id=call_id, name=name, arguments=json.loads(arguments or "{}"))


WAYS = {"raw": raw, "events": events, "whole": whole}
