"""The official `anthropic` package.

`raw`: events joined by block, calls run when the stream has ended. `helper`: `.stream()` and its final message. `runner`: the
package's own tool runner, streaming. `eager`: the same with `run_tools_eagerly`. `whole`: not streamed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("anthropic_messages",)


def client(origin: str) -> Any:
    """A client with the settings that the package has by default."""
    import anthropic  # noqa: PLC0415 -- only the adapter's environment has it

    return anthropic.Anthropic(api_key="none", base_url=origin)


def raw(ask: Ask) -> None:
    """Join the events."""
    blocks: dict[int, list[Any]] = {}
    for event in ask.client(client).messages.create(**_asked(ask)):
        match event.type:
            case "content_block_start" if event.content_block.type == "tool_use":
                block = event.content_block
                blocks[event.index] = [block.id, block.name, json.dumps(block.input) if block.input else ""]
            case "content_block_delta" if event.delta.type == "text_delta":
                ask.say(event.delta.text)
            case "content_block_delta" if event.delta.type == "input_json_delta" and event.index in blocks:
                blocks[event.index][2] += event.delta.partial_json
    for call_id, name, arguments in blocks.values():
        ask.execute(id=call_id, name=name, arguments=json.loads(arguments or "{}"))


def helper(ask: Ask) -> None:
    """Take the final message."""
    with ask.client(client).messages.stream(**_asked(ask, stream=False)) as stream:
        for text in stream.text_stream:
            ask.say(text)
        _run(ask, stream.get_final_message().content)


def runner(ask: Ask) -> None:
    """Let the package run the tools."""
    _run_tools(ask)


def eager(ask: Ask) -> None:
    """Let the package run the tools while the reply still streams."""
    _run_tools(ask, run_tools_eagerly=True)


def whole(ask: Ask) -> None:
    """Take the message."""
    _run(ask, ask.client(client).messages.create(**_asked(ask)).content)


def _asked(ask: Ask, *, stream: bool = True) -> dict[str, Any]:
    asked = {"max_tokens": 1024, **ask.request}
    if not stream:
        asked.pop("stream", None)
    return asked


def _run(ask: Ask, content: Iterable[Any]) -> None:
    for block in content:
        if block.type == "tool_use":
            ask.execute(id=block.id, name=block.name, arguments=block.input)


def _run_tools(ask: Ask, **how: Any) -> None:
    from anthropic import beta_tool  # noqa: PLC0415 -- only the adapter's environment has it

    def runnable(declared: dict[str, Any]) -> Any:
        if "input_schema" not in declared:
            return declared

        def run(**arguments: Any) -> str:
            return ask.execute(id=None, name=declared["name"], arguments=arguments)

        return beta_tool(
            run,
            name=declared["name"],
            description=declared.get("description", "a tool"),
            input_schema=declared["input_schema"],
        )

    asked = {**_asked(ask), "tools": [runnable(tool) for tool in ask.tools]}
    for stream in ask.client(client).beta.messages.tool_runner(**asked, **how):
        for event in stream:
            if event.type == "text":
                ask.say(event.text)


WAYS = {"raw": raw, "helper": helper, "runner": runner, "eager": eager, "whole": whole}
