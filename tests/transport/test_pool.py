from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.transport.peer import OK, QUICK, Peer, get, read_all, serving, transport

if TYPE_CHECKING:
    from tests.transport.peer import Run
    from turngate.transport import DirectTransport, Origin

FIVE = OK + b"Content-Length: 5\r\n\r\nhello"


async def keep_answering(peer: Peer) -> None:
    while True:
        await peer.answer(FIVE)


async def leave_idle(direct: DirectTransport, origin: Origin, count: int) -> None:
    """Have `count` requests under way at once, then finish them in order."""
    responses = [await direct.request(get(origin), b"", QUICK) for _ in range(count)]
    for response in responses:
        await read_all(response)


def test_the_last_connection_in_is_the_first_out(run: Run) -> None:
    async def main() -> None:
        async with serving(keep_answering) as origin, transport() as direct:
            await leave_idle(direct, origin, 3)
            newest = next(reversed(direct.pool._idle[origin]))
            assert direct.pool.acquire(origin) is newest
            direct.pool.release(newest)

    run(main())


def test_idle_connections_expire_by_themselves(run: Run) -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.answer(FIVE)
            await peer.hold()
            gone.set()

        async with serving(script) as origin, transport(idle_expiry_s=0.05) as direct:
            await leave_idle(direct, origin, 1)
            await gone.wait()
            assert direct.pool.open_count == 0

    run(main())


def test_an_expired_connection_is_not_used_even_before_the_sweep(run: Run) -> None:
    async def main() -> None:
        async with serving(keep_answering) as origin, transport(idle_expiry_s=0) as direct:
            await leave_idle(direct, origin, 1)
            assert direct.pool.acquire(origin) is None
            assert direct.pool.open_count == 0

    run(main())


def test_the_oldest_goes_when_too_many_are_idle(run: Run) -> None:
    async def main() -> None:
        async with serving(keep_answering) as origin, transport(max_idle_per_origin=2) as direct:
            await leave_idle(direct, origin, 5)
            assert (direct.pool.idle_count(origin), direct.pool.open_count) == (2, 2)

        async with serving(keep_answering) as origin, transport(max_idle_per_origin=0) as direct:
            await leave_idle(direct, origin, 1)
            assert direct.pool.open_count == 0

    run(main())


def test_origins_do_not_share_connections(run: Run) -> None:
    async def main() -> None:
        async with serving(keep_answering) as one, serving(keep_answering) as other, transport() as direct:
            await leave_idle(direct, one, 1)
            assert direct.pool.acquire(other) is None
            assert direct.pool.idle_count(one) == 1

    run(main())
