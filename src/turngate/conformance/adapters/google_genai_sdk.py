"""The official `google-genai` package.

`raw`: streamed chunks, calls run when the stream has ended. `automatic`: the package's own function calling, streamed, with Python
functions as tools. `whole`: not streamed.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("gemini_generate",)
_PYTHON = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    # Only the adapter's environment has it.
    return importlib.import_module("google.genai").Client(api_key="none", http_options={"base_url": origin})


def raw(ask: Ask) -> None:
    """Collect the calls of all chunks."""
    calls: list[Any] = []
    for chunk in ask.client(client).models.generate_content_stream(**_asked(ask)):
        calls += _read(ask, chunk)
    _run(ask, calls)


def automatic(ask: Ask) -> None:
    """Let the package run the tools."""
    functions = [_function(ask, declared) for declared in _declared(ask)]
    asked = {**_asked(ask), "config": {"tools": functions}}
    for chunk in ask.client(client).models.generate_content_stream(**asked):
        _read(ask, chunk)


def whole(ask: Ask) -> None:
    """Take the response."""
    _run(ask, _read(ask, ask.client(client).models.generate_content(**_asked(ask))))


def _asked(ask: Ask) -> dict[str, Any]:
    config = {key: ask.request[key] for key in ("tools",) if key in ask.request}
    config["automatic_function_calling"] = {"disable": True}
    return {"model": "demo", "contents": ask.request["contents"], "config": config}


def _declared(ask: Ask) -> Iterable[dict[str, Any]]:
    for tool in ask.tools:
        yield from tool.get("functionDeclarations", ())


def _function(ask: Ask, declared: dict[str, Any]) -> Callable[..., str]:
    """A Python function with the declared name and parameters."""
    schema = declared.get("parameters") or declared.get("parametersJsonSchema") or {}
    required = schema.get("required", ())
    kinds = {name: _kind(each) for name, each in schema.get("properties", {}).items()}

    def run(**arguments: Any) -> str:
        return ask.execute(id=None, name=declared["name"], arguments=arguments)

    run.__name__ = declared["name"]
    run.__doc__ = declared.get("description", "A tool.")
    run.__annotations__ = {**kinds, "return": str}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=inspect.Parameter.empty if name in required else None,
            )
            for name, kind in kinds.items()
        ],
        return_annotation=str,
    )
    return run


def _kind(schema: dict[str, Any]) -> type:
    return _PYTHON.get(str(schema.get("type", "string")).lower(), str)


def _read(ask: Ask, response: Any) -> list[Any]:
    """Show the text of a response, and give its calls."""
    calls = []
    for candidate in response.candidates or ():
        for part in (candidate.content and candidate.content.parts) or ():
            if part.text and not part.thought:
                ask.say(part.text)
            if part.function_call:
                calls.append(part.function_call)
    return calls


def _run(ask: Ask, calls: Iterable[Any]) -> None:
    for call in calls:
        ask.execute(id=call.id, name=call.name, arguments=dict(call.args or {}))


WAYS = {"raw": raw, "automatic": automatic, "whole": whole}
