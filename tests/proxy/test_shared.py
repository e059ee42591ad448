"""A gate that is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proxy.gated import TOOL_TURN, Run, answering, gated, streamed
from turngate.errors import LedgerError
from turngate.proxy.shared import Shared, finding


def test_a_recorded_turn_is_found_in_the_file(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            await world.ask()
            turn = await world.turn()
            find = finding(world.ledger)
            assert await find(turn.turn_id) == turn
            assert await find("tg_nobody") is None
            with pytest.raises(LedgerError):
                await finding(tmp_path / "none.db")("tg_nobody")

    run(main())


def test_alone_no_turn_is_anywhere_else(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            shared: Shared = world.gate.shared
            assert await shared.cancel_elsewhere("tg_nobody", b"") is None

    run(main())
