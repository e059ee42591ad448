"""An executor claims a call of its own turn over the proxy's listener."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from tests.proxy.gated import (
    BAD_TURN,
    GOOD_ARGUMENTS,
    KEY,
    TOOL_TURN,
    Answer,
    Run,
    World,
    answering,
    gated,
    request,
    streamed,
)
from tests.transport.peer import Peer
from turngate.ledger.digest import CallKey, keyed_digest, load_key
from turngate.ledger.location import key_path


def asked(turn: str, call: str = "call_1", *, key: str = KEY, once: str = "") -> bytes:
    more = f"Idempotency-Key: {once}\r\n" if once else ""
    path = f"/turngate/turns/{turn}/calls/{call}/claim"
    return request(path, b"{}", more=more).replace(KEY.encode(), key.encode())


async def released(world: World) -> str:
    answer = await world.ask()
    assert answer.body == TOOL_TURN
    turn = answer.header("x-turngate-turn")
    assert turn is not None
    return turn


def read(answer: Answer) -> dict[str, Any]:
    return dict(json.loads(answer.body))


def test_a_released_call_is_granted_once_and_named_by_the_digest_of_its_arguments(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            turn = await released(world)
            first = await world.ask(asked(turn, once="worker-1"))
            assert first.status == 200
            told = read(first)
            assert (told["granted"], told["turn"], told["call"], told["tool"]) == (
                True,
                turn,
                "call_1",
                "send_mail",
            )
            secret = load_key(key_path(world.ledger))
            assert told["argument_hmac"] == keyed_digest(
                secret, CallKey(turn, 0, "0"), GOOD_ARGUMENTS.encode()
            )
            assert read(await world.ask(asked(turn, once="worker-1"))) == told
            second = await world.ask(asked(turn, once="worker-2"))
            assert (second.status, read(second)["error"]["code"]) == (409, "duplicate_delivery")
            assert GOOD_ARGUMENTS not in str(told)

    run(main())


def test_nobody_claims_a_call_that_is_unknown_another_s_or_was_not_released(run: Run, tmp_path: Path) -> None:
    turns = iter([TOOL_TURN, BAD_TURN])

    async def script(peer: Peer) -> None:
        for turn in turns:
            await peer.answer(streamed(turn))
        await peer.hold()

    async def main() -> None:
        async with gated(tmp_path, script) as world, world.connect() as client:
            good = (await client.ask(request())).header("x-turngate-turn") or ""
            bad = (await client.ask(request())).header("x-turngate-turn") or ""
            await world.turns(2)
            for stranger in (asked(good, key="somebody-else"), asked("tg_unknown"), asked(good, "call_9")):
                answer = await world.ask(stranger)
                assert (answer.status, read(answer)["granted"]) == (404, False)
            refused = await world.ask(asked(bad))
            assert (refused.status, read(refused)["error"]["code"]) == (409, "turn_cancelled")
            assert (await world.ask(asked(good, once="k" * 129))).status == 400
            assert (await world.ask(asked(good, "0:0"))).status == 200

    run(main())


def test_the_ledger_keeps_of_the_credentials_a_keyed_digest_only(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, answering(streamed(TOOL_TURN))) as world:
            await released(world)
            owner = (await world.turn()).owner
            assert len(owner) >= 32
            plain = hashlib.sha256(f"Bearer {KEY}".encode()).hexdigest()
            assert not hmac.compare_digest(owner, plain)

    run(main())
