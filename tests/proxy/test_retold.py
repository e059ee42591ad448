"""Turns of a WebSocket in the captures of a gate."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.gated import KEY, Run
from tests.proxy.socketed import BAD, OUTPUT, PROMPT, Provider, ask, connected, read_turn, socketed, turn
from turngate.core.messages import message
from turngate.offline.fixture import check_document
from turngate.proxy.retold import as_stream


def test_messages_are_told_as_events_of_a_stream() -> None:
    assert (
        as_stream(message(b'{"a":1}') + message(b'{\n"a":1}'))
        == b'data: {"a":1}\n\ndata: {\ndata: "a":1}\n\n'
    )
    assert as_stream(b"") == b""


@pytest.mark.parametrize("data", [message(b"{}", text=False), message(b'{"a":\r1}')])
def test_what_no_stream_can_have_is_not_told(data: bytes) -> None:
    assert as_stream(data) is None


def test_a_blocked_turn_is_captured_as_what_it_would_be_over_http(run: Run, tmp_path: Path) -> None:
    into = tmp_path / "captures"
    into.mkdir()

    async def main() -> None:
        odd = [*turn(BAD, 3)[:-1], turn(BAD, 3)[-1].encode(), turn(BAD, 3)[-1]]
        provider: Any = Provider(turn(), turn(BAD, 2), odd)
        settings = {"capture": {"dir": str(into)}, "provider": {"capture": "blocked"}}
        async with socketed(tmp_path, provider, **settings) as world, connected(world) as client:
            for _ in range(3):
                await ask(client)
                await read_turn(client)
            captures = world.gate.judging.captures
            assert captures is not None
            while sum(captures.counts.values()) < 2:  # noqa: ASYNC110 -- a capture has no event
                await asyncio.sleep(0.01)
            assert {name: count for name, count in captures.counts.items() if count} == {
                "written": 1,
                "dropped": 1,
            }

    run(main())
    (file,) = into.iterdir()
    told = file.read_text()
    document = json.loads(told)
    assert (document["method"], document["path"]) == ("POST", "/v1/responses")
    report = check_document(document)
    assert {finding.code.value for finding in report.findings} == {
        "schema_additional_property",
        "schema_required",
        "schema_violation",
    }
    for secret in (KEY, PROMPT, OUTPUT, "town"):
        assert secret not in told
