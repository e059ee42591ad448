"""`status`, `turns` and `latch` against a real gate."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner, Result

from tests.operator.staged import Staged, operated
from tests.processes import free_port
from tests.proxy.conftest import run
from tests.proxy.gated import BAD_TURN, TOOL_TURN, Run, answering, gated, streamed
from turngate.cli.main import main as turngate

__all__ = ["run"]

Cli = Callable[..., Awaitable[Result]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The gate's log is in this process too, and the commands' output is what is looked at."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURNGATE_TOKEN", "TURNGATE_URL", "TURNGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@contextlib.asynccontextmanager
async def commanded(folder: Path, script: Any, **settings: Any) -> AsyncIterator[tuple[Staged, Cli]]:
    listen = f"127.0.0.1:{free_port()}"
    async with operated(folder, script, operator={"listen": listen}, **settings) as stage:

        async def cli(*arguments: str) -> Result:
            command = [*arguments, "--config", str(folder / "gate.toml")]
            return await asyncio.to_thread(CliRunner().invoke, turngate, command)

        yield stage, cli


async def told(answer: Awaitable[Result]) -> Any:
    result = await answer
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_latch_is_made_seen_and_lifted(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with commanded(tmp_path, answering(streamed(TOOL_TURN))) as (stage, cli):
            made = await cli("latch", "create", "disable_tool", "--tool", "send_mail", "--reason", "a drill")
            assert made.exit_code == 0, made.output
            latch_id = made.stdout.split()[0]
            assert "is in force; it ended 0 turns" in made.stdout
            assert (await stage.world.ask()).details()["codes"] == ["tool_disabled"]
            listed = await cli("latch", "list")
            assert latch_id in listed.stdout
            assert "disable_tool tool=send_mail" in listed.stdout
            assert "a drill" in listed.stdout
            assert latch_id in (await cli("status")).stdout
            lifted = await cli("latch", "lift", latch_id, "--reason", "over")
            assert lifted.stdout == f"{latch_id} was lifted by first-operator: over\n"
            assert (await stage.world.ask()).body == TOOL_TURN
            assert latch_id not in (await cli("latch", "list")).stdout
            assert "lifted by first-operator: over" in (await cli("latch", "list", "--all")).stdout

    run(main())


def test_for_programs_everything_is_the_interfaces_own_json(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with commanded(tmp_path, answering(streamed(BAD_TURN))) as (stage, cli):
            await stage.world.ask()
            turn = await stage.world.turn()
            made = await told(
                cli(
                    "latch",
                    "create",
                    "stop_tenant",
                    "--tenant",
                    "t",
                    "--reason",
                    "x",
                    "--expires-in",
                    "600",
                    "--json",
                )
            )
            latch = made["latch"]
            assert latch["expires_at"] == pytest.approx(latch["created_at"] + 600)
            assert await told(cli("latch", "list", "--json")) == await stage.operator.get(
                "/latches?standing=true"
            )
            assert (await told(cli("latch", "lift", latch["id"], "--reason", "x", "--json")))["lifted_at"]
            assert await told(cli("turns", "--json")) == await stage.operator.get("/turns")
            assert await told(cli("turns", turn.turn_id, "--json")) == await stage.operator.get(
                f"/turns/{turn.turn_id}"
            )
            status = await told(cli("status", "--json"))
            assert status.keys() == (await stage.operator.get("/status")).keys()

    run(main())


def test_turns_are_listed_narrowed_paged_and_shown(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with commanded(tmp_path, answering(streamed(BAD_TURN))) as (stage, cli):
            for _ in range(3):
                await stage.world.ask()
            newest, *_ = [turn.turn_id for turn in await stage.world.turns(3)]
            page = await cli("turns", "--past", "--outcome", "blocked", "--tool", "send_mail", "--limit", "2")
            assert newest in page.stdout
            assert "more: --before tg_" in page.stderr
            rest = await cli("turns", "--before", page.stderr.split()[-1])
            assert newest not in rest.stdout
            assert rest.stdout.count("tg_") == 1
            assert "tg_" not in (await cli("turns", "--live")).stdout
            shown = await cli("turns", newest)
            assert "call 0/0" in shown.stdout
            assert "error schema_" in shown.stdout

    run(main())


def test_a_warning_says_where_a_latch_does_not_hold(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        script = answering(streamed(TOOL_TURN))
        async with commanded(tmp_path, script, provider={"mode": "observe"}) as (_, cli):
            made = await cli("latch", "create", "disable_tool", "--tool", "x", "--reason", "x")
            assert "warning: upstream provider is in observe mode" in made.stderr

    run(main())


def test_what_goes_wrong_is_one_line_and_status_1(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with commanded(tmp_path, answering(streamed(TOOL_TURN))) as (stage, cli):
            for arguments, line in (
                (("turns", "tg_\x1b[2Jx"), "Error: not_found: There is no such turn."),
                (("latch", "lift", "tgl_x", "--reason", "x"), "Error: not_found: There is no such latch."),
                (
                    ("latch", "create", "disable_tool", "--reason", "x"),
                    "Error: invalid_request: disable_tool needs tool.",
                ),
                (("status", "--url", "http://127.0.0.1:1"), "Error: http://127.0.0.1:1 does not answer"),
            ):
                result = await cli(*arguments)
                assert result.exit_code == 1
                assert result.stderr.startswith(line)
                assert len(result.stderr.splitlines()) == 1
            assert (await cli("latch", "create", "stop_everything", "--reason", "x")).exit_code == 2
            assert (await cli("latch", "create", "stop_all")).exit_code == 2
            assert stage.world.gate.judging.ledger.latches.standing() == []

    run(main())


def test_a_gate_without_the_listener_says_so(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN)), operator={"listen": "off"}):
            command = ["status", "--config", str(tmp_path / "gate.toml")]
            result = await asyncio.to_thread(CliRunner().invoke, turngate, command)
            assert result.exit_code != 0

    run(main())
