"""The official `ollama` package.

`raw`: the parts of a streamed chat, calls run when the stream has ended, as the vendor's guide shows. `events`: calls run at once, at the part
that has them. `whole`: not streamed. Calls come whole and without an id.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("ollama_chat",)


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    # Only the adapter's environment has it.
    return importlib.import_module("ollama").Client(host=origin)


def raw(ask: Ask) -> None:
    """Collect the calls of all parts."""
    for call in list(_calls(ask, ask.client(client).chat(**ask.request))):
        _run(ask, call)


def events(ask: Ask) -> None:
    """Run each call as it comes."""
    for call in _calls(ask, ask.client(client).chat(**ask.request)):
        _run(ask, call)


def whole(ask: Ask) -> None:
    """Take the reply."""
    for call in _calls(ask, [ask.client(client).chat(**ask.request)]):
        _run(ask, call)


def _calls(ask: Ask, parts: Any) -> Iterator[Any]:
    for part in parts:
        ask.say(part.message.content)
        yield from part.message.tool_calls or ()


def _run(ask: Ask, call: Any) -> None:
    ask.execute(id=None, name=call.function.name, arguments=dict(call.function.arguments))


WAYS = {"raw": raw, "events": events, "whole": whole}
