"""A turn as Gemini's streamGenerateContent sends it with `alt=sse`, in the pieces of `tests.agents.wire`.

A call is one part of one frame: nothing ends it a second time, and a pause inside its arguments can only follow it. A turn of text
ends as one with calls does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.agents.wire import TEXT, Tool, Wire, as_json, block, shell_among

ARGUMENTS = "ARGUMENTS"
"""Where the arguments go, as they are: no encoder would write them twice keyed, or cut."""


class Gemini(Wire):
    """The Developer API."""

    path = (":streamGenerateContent", ":generateContent")
    calls = stopped = "STOP"
    limit, refused = "MAX_TOKENS", "SAFETY"

    def opening(self) -> bytes:
        return block(self.reply([{"text": TEXT}]))

    def call(self, tool: Tool, arguments: str, *, index: int = 0, call_id: str = "call_a") -> bytes:  # noqa: ARG002 -- parts have no index
        part = {"functionCall": {"id": call_id, "name": tool.name, "args": ARGUMENTS}}
        return block(self.reply([part])).replace(as_json(ARGUMENTS), arguments.encode())

    def ended_again(self) -> bytes:
        return b""

    def ending(self, reason: str) -> bytes:
        return block(self.reply([{"text": ""}], reason))

    def end(self) -> bytes:
        return b""

    def error(self, message: str) -> bytes:
        return block({"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}})

    def whole(self, text: str) -> bytes:
        return as_json(self.reply([{"text": json.dumps({"said": text})}], self.stopped))

    def streamed(self, path: str, request: Mapping[str, Any]) -> bool:  # noqa: ARG002 -- the path alone says it
        return path.endswith(":streamGenerateContent")

    def shell(self, request: Mapping[str, Any]) -> Tool | None:
        declared = [
            each for tool in request.get("tools", ()) for each in tool.get("functionDeclarations", ())
        ]
        return shell_among({
            each["name"]: each.get("parametersJsonSchema") or each.get("parameters", {}) for each in declared
        })  # fmt: skip

    def has_result(self, request: Mapping[str, Any]) -> bool:
        parts = [part for content in request["contents"] for part in content["parts"]]
        return any("functionResponse" in part for part in parts)

    def reply(self, parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
        """One response."""
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
        return {
            "candidates": [candidate if reason is None else {**candidate, "finishReason": reason}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
            "modelVersion": "gemini-x",
            "responseId": "r1",
        }


class CodeAssist(Gemini):
    """The same in the envelope of Google's Code Assist, which asks first whose it is."""

    def reply(self, parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
        return {"response": super().reply(parts, reason), "traceId": "t1"}

    def shell(self, request: Mapping[str, Any]) -> Tool | None:
        return super().shell(request.get("request", {}))

    def has_result(self, request: Mapping[str, Any]) -> bool:
        return super().has_result(request["request"])

    def aside(self, path: str) -> bytes:
        known = {"currentTier": {"id": "standard-tier", "name": "x"}, "cloudaicompanionProject": "p"}
        return as_json(known if path.endswith(":loadCodeAssist") else {})
