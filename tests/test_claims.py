from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.proxy.gated import KEY, TOOL_TURN, answering, gated, streamed
from turngate.claims import ClaimRefusedError, Grant, claim

MINE = {"authorization": f"Bearer {KEY}"}


def test_the_helper_claims_once_and_is_told_why_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            turn = (await world.ask()).header("x-turngate-turn") or ""
            ask = partial(claim, f"http://127.0.0.1:{world.port}/", turn, "call_1")
            grant = await asyncio.to_thread(ask, headers=MINE, once="job 1")
            assert isinstance(grant, Grant)
            assert (grant.turn, grant.call, grant.tool) == (turn, "call_1", "send_mail")
            assert await asyncio.to_thread(ask, headers=MINE, once="job 1") == grant
            others: dict[str, str] = {}
            for headers, code in ((MINE, "duplicate_delivery"), (others, "not_found")):
                with pytest.raises(ClaimRefusedError) as refused:
                    await asyncio.to_thread(ask, headers=headers)
                assert refused.value.code == code

    asyncio.run(main())


def test_a_gate_that_does_not_answer_grants_nothing() -> None:
    with pytest.raises(OSError, match=r"."):
        claim("http://127.0.0.1:9", "tg_1", "call_1", headers=MINE, timeout_s=2)
    with pytest.raises(ValueError, match="http"):
        claim("file:///etc/passwd", "tg_1", "call_1", headers=MINE)
