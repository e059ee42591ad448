"""Answers of the gate's own: to a request that it does not serve, that was stopped, or whose upstream gives no reply."""

from __future__ import annotations

import traceback
from collections import Counter
from pathlib import Path

import structlog

from turngate.core.verdict import BlockNotice, Verdict
from turngate.dialects.base import Dialect
from turngate.dialects.openai_chat import OpenAIChat
from turngate.proxy.reply import Reply
from turngate.proxy.route import Route
from turngate.proxy.stop import Stop
from turngate.transport import UpstreamError

_log = structlog.get_logger("turngate")
_FALLBACK_ENVELOPE = OpenAIChat()
_TIMEOUT_REASONS = frozenset({"connect_timeout", "first_byte_timeout", "write_timeout"})


class Answers:
    """Each is in the dialect's own envelope where there is one."""

    def __init__(self) -> None:
        self.refusals: Counter[str] = Counter()
        """Requests that ended in an error of ours without a turn that was judged, by its code."""

    async def unreachable(
        self, reply: Reply, route: Route, error: UpstreamError, dialect: Dialect | None
    ) -> None:
        """Say that the upstream gave no reply; one that had begun is cut."""
        status = 504 if error.reason in _TIMEOUT_REASONS else 502
        message = f"The upstream {route.upstream.name!r} gave no reply: {error}"
        if reply.started:
            reply.cut()
        else:
            await self.refuse(reply, status, error.reason, message, dialect)

    async def refuse(
        self, reply: Reply, status: int, code: str, message: str, dialect: Dialect | None = None
    ) -> None:
        """Answer with an error of our own, in the dialect's envelope where there is one."""
        details = {
            "turn": "",
            "outcome": "refused",
            "reason": str(code),
            "codes": [str(code)],
            "retry": "no",
            "handoff": "",
        }
        body = (dialect or _FALLBACK_ENVELOPE).error_body(message, details)
        headers = [(b"content-type", b"application/json")]
        if status == 429:
            headers.append((b"retry-after", b"1"))
        elif status < 500:
            headers.append((b"x-should-retry", b"false"))
        self.refusals[str(code)] += 1
        _log.info("refused", status=status, code=str(code))
        await reply.whole(status, headers, body)

    async def stopped(
        self, reply: Reply, route: Route, turn_id: str, stop: Stop, dialect: Dialect | None
    ) -> None:
        """End a request that was stopped before there was a turn of it."""
        if reply.started:
            reply.cut()
            return
        codes = (stop.finding.code,)
        verdict = Verdict(stop.outcome, stop.reason, (stop.finding,), codes)
        notice = BlockNotice(turn_id, verdict, route.upstream.policy.handoff)
        body = (dialect or _FALLBACK_ENVELOPE).error_body(notice.message, notice.details)
        self.refusals[codes[0].value] += 1
        _log.info("refused", status=400, code=codes[0].value, turn=turn_id, latch=stop.latch)
        headers = [(b"content-type", b"application/json"), (b"x-should-retry", b"false")]
        await reply.whole(400, [*headers, (b"x-turngate-turn", turn_id.encode())], body)

    async def fail(self, reply: Reply, error: Exception) -> None:
        """A fault of ours ends this request and no other. Its text is not logged: it may quote what was said."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-8:]]
        _log.error("failed", error=type(error).__name__, where=where)
        if reply.started:
            reply.cut()
        else:
            message = "turngate failed while it handled this request. Nothing of the reply was passed on."
            await self.refuse(reply, 500, "gate_failure", message)
