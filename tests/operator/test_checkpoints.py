"""Checkpoints of a running gate, over its operators' listener and in its folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.operator.staged import operated
from tests.proxy.gated import TOOL_TURN, Run, answering, streamed
from turngate.ledger.checkpoint import opened, signer_at, signing_key_path
from turngate.ledger.reader import LedgerReader

SCRIPT = answering(streamed(TOOL_TURN))


async def until_kept(folder: Path, count: int) -> list[Path]:
    """It happens in a thread, now and then."""
    while True:
        if len(kept := _kept(folder)) >= count:
            return kept
        await asyncio.sleep(0.01)


def _kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.checkpoint"))


def test_a_viewer_fetches_a_signed_checkpoint_that_the_chain_contains(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, SCRIPT) as stage:
            await stage.world.ask()
            await stage.world.turns()
            told = await stage.viewer().ask("GET", "/checkpoint")
            assert (told.status, told.headers["content-type"]) == (200, "text/plain; charset=utf-8")
            assert (await stage.somebody(None).ask("GET", "/checkpoint")).status == 401
            path = stage.world.ledger
        checkpoint = opened(told.body.encode(), signer_at(signing_key_path(path)).verifier)
        assert checkpoint.size > 0
        with LedgerReader(path) as reader:
            assert reader.verify(checkpoint).ok
            assert reader.checkpoint().size > checkpoint.size

    run(main())


def test_checkpoints_are_kept_while_the_ledger_grows_and_each_is_in_the_chain(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, key = tmp_path / "kept", tmp_path / "elsewhere.key"
    folder.mkdir()
    ledger = {"checkpoint_dir": str(folder), "checkpoint_every_s": 1, "checkpoint_key": str(key)}

    async def main() -> None:
        async with operated(tmp_path, SCRIPT, ledger=ledger) as stage:
            await until_kept(folder, 1)
            await stage.world.ask()
            await stage.world.turns()
            files = await until_kept(folder, 2)
            path = stage.world.ledger
        assert not signing_key_path(path).exists()
        with LedgerReader(path) as reader:
            for file in files:
                assert reader.verify(opened(file.read_bytes(), signer_at(key).verifier)).ok

    run(main())
    said = capsys.readouterr()
    assert "checkpoint" in said.out + said.err


def test_a_folder_that_takes_nothing_is_said_and_costs_no_turn(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()

    async def main() -> None:
        ledger = {"checkpoint_dir": str(folder), "checkpoint_key": str(tmp_path / "nowhere" / "key")}
        said = ""
        async with operated(tmp_path, SCRIPT, ledger=ledger) as stage:
            while "checkpoint_failed" not in said:
                await asyncio.sleep(0.01)
                said += "".join(capsys.readouterr())
            assert (await stage.world.ask()).has_call()

    run(main())
    assert list(folder.iterdir()) == []
