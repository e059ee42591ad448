from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

from tests.transport.peer import OK, QUICK, Peer, get, serving, transport, until
from turngate.transport.connection import Connection
from turngate.transport.errors import ClosedBeforeHeadError
from turngate.transport.exchange import Exchange
from turngate.transport.head import BodyEnd, HeadLimits, Origin, encode_head

if TYPE_CHECKING:
    from tests.transport.peer import Run

FIVE = OK + b"Content-Length: 5\r\n\r\nhello"


def test_what_the_loop_has_not_read_yet_is_seen_before_reuse(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.hold()) as origin, transport() as direct:
            connection = await direct._dialer.connect(origin, 5)
            assert connection.is_quiet()
            connection.transport.pause_reading()

            async def until_readable() -> None:
                readable = asyncio.Event()
                duplicate = connection.transport.get_extra_info("socket").dup()
                loop = asyncio.get_running_loop()
                loop.add_reader(duplicate.fileno(), readable.set)
                await readable.wait()
                loop.remove_reader(duplicate.fileno())
                duplicate.close()

            await asyncio.sleep(0)
            assert connection.usable
            connection.transport.write_eof()  # the peer answers an end of stream with its own
            await until_readable()
            assert connection.usable
            assert not connection.is_quiet()

    run(main())


def test_a_server_that_speaks_first_is_not_listened_to(run: Run) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(FIVE)
        await peer.hold()

    async def main() -> None:
        async with serving(script) as origin, transport() as direct:
            connection = await direct._dialer.connect(origin, 5)
            await until(lambda: not connection.usable)
            direct.pool.release(connection)
            assert direct.pool.acquire(origin) is None

    run(main())


def test_a_connection_that_ended_before_its_first_request_is_reported(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda _: asyncio.sleep(0)) as origin, transport() as direct:
            connection = await direct._dialer.connect(origin, 5)
            await until(lambda: not connection.usable)
            loop = asyncio.get_running_loop()
            exchange = Exchange(loop, connection, b"GET", QUICK, limits=HeadLimits())
            with pytest.raises(ClosedBeforeHeadError):
                await exchange.send(connection, encode_head(get(origin), 0), b"")

    run(main())


def test_aborting_twice_is_harmless(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda peer: peer.answer(FIVE)) as origin, transport() as direct:
            await direct.request(get(origin), b"", QUICK)
            (connection,) = direct.pool._open
            connection.abort()
            connection.abort()
            assert direct.pool.open_count == 0

    run(main())


@pytest.mark.parametrize(
    "ending", [b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", b"Content-Length: 9\r\n\r\nhello"]
)
def test_a_connection_that_is_over_leaves_nothing_to_the_collector(run: Run, ending: bytes) -> None:
    def is_there(origin: Origin) -> bool:  # whatever gates other tests of this process keep
        return any(isinstance(each, Connection) and each.origin == origin for each in gc.get_objects())

    async def main() -> None:
        async with serving(lambda peer: peer.answer(OK + ending)) as origin, transport() as direct:
            response = await direct.request(get(origin), b"", QUICK)
            while not isinstance(await response.receive(), BodyEnd):
                pass
            assert is_there(origin)
            response.close()
            del response
            await until(lambda: not is_there(origin))

    gc.collect()
    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()
