"""How a client is told that a run's calls were not released, and what it has to have seen for that.

Measured: the official SDK raises at an event named `error` whose data has an `error`. A quiet ending is a message of text and the
run's completion, in the shapes that the SDK's handler accumulates; its last step must end, or the handler waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turngate.core.verdict import BlockNotice
from turngate.dialects.base import sse

RUN: Final = "thread.run."
STEP: Final = "thread.run.step."
DONE: Final = b"event: done\ndata: [DONE]\n\n"

_UNSET: Final = dict.fromkeys(
    [
        "cancelled_at", "completed_at", "expires_at", "failed_at", "incomplete_details", "last_error", "max_completion_tokens",
        "max_prompt_tokens", "required_action", "response_format", "started_at", "tool_choice", "truncation_strategy", "usage",
    ]
)  # fmt: skip


@dataclass(slots=True)
class Shown:
    """What the client has seen of a run."""

    run: Mapping[str, Any] | None = None
    steps: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Those that have not ended."""

    def see(self, name: str, value: Mapping[str, Any]) -> None:
        """An event passes to the client."""
        if not name.startswith(STEP):
            self.run = value if name.startswith(RUN) else self.run
        elif name.removeprefix(STEP) in ("created", "in_progress") and isinstance(value.get("id"), str):
            self.steps[value["id"]] = value
        elif name != f"{STEP}delta":
            self.steps.pop(str(value.get("id")), None)


def block_notice(shown: Shown, notice: BlockNotice, model: str | None) -> bytes:
    """End the steps that the client saw beginning, then one message of text, and the run."""
    run = shown.run or _run(notice, model)
    told = [
        sse({**step, "status": "cancelled"}, "thread.run.step.cancelled") for step in shown.steps.values()
    ]
    message: dict[str, Any] = {
        "id": f"msg_{notice.turn_id}",
        "object": "thread.message",
        "created_at": run.get("created_at") or 0,
        "assistant_id": run.get("assistant_id"),
        "thread_id": run.get("thread_id"),
        "run_id": run.get("id"),
        "role": "assistant",
        "attachments": [],
        "metadata": {},
        "incomplete_at": None,
        "incomplete_details": None,
        "completed_at": None,
    }
    text = {"type": "text", "text": {"value": notice.message, "annotations": []}}
    delta = {
        "id": message["id"],
        "object": "thread.message.delta",
        "delta": {"content": [{"index": 0, **text}]},
    }
    told += [
        sse({**message, "status": "in_progress", "content": []}, "thread.message.created"),
        sse(delta, "thread.message.delta"),
        sse({**message, "status": "completed", "content": [text]}, "thread.message.completed"),
        sse({**run, "status": "completed", "required_action": None}, "thread.run.completed"),
        DONE,
    ]
    return b"".join(told)


def _run(notice: BlockNotice, model: str | None) -> dict[str, Any]:
    """A run of which the client has seen nothing."""
    return {
        "id": notice.turn_id,
        "object": "thread.run",
        "created_at": 0,
        "assistant_id": "turngate",
        "thread_id": notice.turn_id,
        "instructions": "",
        "metadata": {},
        "model": model or "turngate",
        "parallel_tool_calls": True,
        "tools": [],
        **_UNSET,
    }
