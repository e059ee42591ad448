"""What the gate says in its own words; `test_app.py` has it from a whole gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.proxy.gated import configured
from turngate.core.finding import Code, Finding
from turngate.core.verdict import Outcome, Reason
from turngate.dialects.anthropic_messages import AnthropicMessages
from turngate.proxy.answers import Answers
from turngate.proxy.reply import Reply
from turngate.proxy.route import Route, find_route
from turngate.proxy.stop import Stop
from turngate.transport.errors import ConnectFailedError, FirstByteTimeoutError, UpstreamError

SECRET = "canary-7f"


class Heard:
    """What a client was told."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.cut = False
        self.reply = Reply(self._send, self._abort, lambda _data: False)

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.headers |= dict(message.get("headers", ()))
        self.body += message.get("body", b"")

    def _abort(self) -> None:
        self.cut = True

    @property
    def details(self) -> Any:
        return json.loads(self.body)["error"]["turngate"]


@pytest.fixture
def route(tmp_path: Path) -> Route:
    config = configured(tmp_path, "http://127.0.0.1:9", provider={"handoff": "Ask the desk."})
    found = find_route(b"/provider/v1/chat/completions", config.upstreams, "provider")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (403, {b"x-should-retry": b"false"}),
        (429, {b"retry-after": b"1"}),
        (502, {}),
    ],
)
def test_a_refusal_says_why_and_whether_to_ask_again(status: int, advice: dict[bytes, bytes]) -> None:
    answers, heard = Answers(), Heard()
    asyncio.run(answers.refuse(heard.reply, status, "some_code", "No."))

    assert heard.status == status
    assert {
        name: heard.headers[name] for name in heard.headers if name.startswith((b"x-", b"retry"))
    } == advice
    assert heard.details["codes"] == ["some_code"]
    assert answers.refusals == {"some_code": 1}


def test_a_refusal_comes_in_the_envelope_of_its_dialect() -> None:
    heard = Heard()
    asyncio.run(Answers().refuse(heard.reply, 403, "some_code", "No.", AnthropicMessages()))
    assert json.loads(heard.body)["type"] == "error"


@pytest.mark.parametrize(("error", "status"), [(FirstByteTimeoutError(), 504), (ConnectFailedError(), 502)])
def test_an_upstream_without_a_reply_is_told_by_its_kind_and_a_reply_under_way_is_cut(
    route: Route, error: UpstreamError, status: int
) -> None:
    answers, before, after = Answers(), Heard(), Heard()

    async def main() -> None:
        await answers.unreachable(before.reply, route, error, None)
        await after.reply.start()
        await answers.unreachable(after.reply, route, error, None)

    asyncio.run(main())
    assert (before.status, before.details["reason"], before.cut) == (status, error.reason, False)
    assert (after.body, after.cut) == (b"", True)


def test_a_request_that_was_stopped_before_its_turn_began_has_the_handoff(route: Route) -> None:
    stop = Stop(Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, Finding(Code.TENANT_STOPPED, SECRET), "tgl_1")
    answers, before, after = Answers(), Heard(), Heard()

    async def main() -> None:
        await answers.stopped(before.reply, route, "tg_1", stop, None)
        await after.reply.start()
        await answers.stopped(after.reply, route, "tg_1", stop, None)

    asyncio.run(main())
    assert (before.status, before.headers[b"x-turngate-turn"]) == (400, b"tg_1")
    assert before.details["handoff"] == "Ask the desk."
    assert SECRET.encode() not in before.body
    assert answers.refusals == {"tenant_stopped": 1}
    assert (after.body, after.cut) == (b"", True)


def test_a_fault_of_ours_is_told_by_its_name_and_place_alone() -> None:
    answers, before, after = Answers(), Heard(), Heard()

    async def main() -> None:
        await after.reply.start()
        for heard in (before, after):
            await answers.fail(heard.reply, RuntimeError(SECRET))

    with structlog.testing.capture_logs() as lines:
        asyncio.run(main())
    assert (before.status, before.details["reason"]) == (500, "gate_failure")
    assert (after.body, after.cut) == (b"", True)
    assert [line["error"] for line in lines if line["event"] == "failed"] == ["RuntimeError"] * 2
    assert SECRET not in f"{lines} {before.body!r}"
