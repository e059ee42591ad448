"""`boto3`, AWS's official package, with Bedrock's Converse.

`raw`: events joined by block as the vendor's guide shows, calls run when the stream has ended. `events`: each call is run when its block has
stopped. `whole`: not streamed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from turngate.conformance.adapters.worker import Ask

DIALECTS = ("bedrock_converse",)


def client(origin: str) -> Any:
    """A client with the settings that the package has by default; the keys are none."""
    # Only the adapter's environment has it.
    return importlib.import_module("boto3").client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=origin,
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 -- no secret
    )


def raw(ask: Ask) -> None:
    """Join the events, then run."""
    blocks: dict[int, dict[str, Any]] = {}
    for _ in _read(ask, blocks):
        pass
    _run(ask, blocks.values())


def events(ask: Ask) -> None:
    """Run each call when its block stops."""
    blocks: dict[int, dict[str, Any]] = {}
    for index in _read(ask, blocks):
        if index in blocks:
            _run(ask, [blocks[index]])


def whole(ask: Ask) -> None:
    """Take the reply."""
    reply = ask.client(client).converse(modelId="demo-model", **ask.request)
    for block in reply["output"]["message"]["content"]:
        ask.say(block.get("text"))
        if "toolUse" in block:
            use = block["toolUse"]
            ask.execute(id=use["toolUseId"], name=use["name"], arguments=use["input"])


def _read(ask: Ask, blocks: dict[int, dict[str, Any]]) -> Iterator[int]:
    """Join pieces to the calls of their blocks; gives each block that stops."""
    reply = ask.client(client).converse_stream(modelId="demo-model", **ask.request)
    with contextlib.closing(reply["stream"]) as stream:
        for event in stream:
            ((kind, said),) = event.items()
            if kind == "contentBlockStart" and "toolUse" in said["start"]:
                blocks[said["contentBlockIndex"]] = {**said["start"]["toolUse"], "input": ""}
            elif kind == "contentBlockDelta" and "toolUse" in said["delta"]:
                blocks[said["contentBlockIndex"]]["input"] += said["delta"]["toolUse"]["input"]
            elif kind == "contentBlockDelta":
                ask.say(said["delta"].get("text"))
            elif kind == "contentBlockStop":
                yield said["contentBlockIndex"]


def _run(ask: Ask, uses: Iterable[dict[str, Any]]) -> None:
    for use in uses:
        if use.get("type") == "server_tool_use":  # the provider runs it
            continue
        ask.execute(id=use["toolUseId"], name=use["name"], arguments=json.loads(use["input"] or "{}"))


WAYS = {"raw": raw, "events": events, "whole": whole}
