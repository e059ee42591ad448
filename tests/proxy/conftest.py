"""The loop that the gate runs on in production, the front before an application of ours, and a certificate authority of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop

from tests.proxy.served import SMALL, Driven, Recorder, Served, serve
from tests.transport.conftest import certificates
from turngate.core.session import Session
from turngate.proxy.fast_path import FastPath
from turngate.proxy.front_limits import FrontLimits
from turngate.proxy.web_socket import SocketRelay

__all__ = ["certificates"]

LOOKS_AT_THE_TURN = ("receive_data", "receive_eof", "tick", "stop", "abandon", "release", "refuse")
"""What a session does that changes what may pass."""

HANG_S = 30.0
"""A test that needs this long has failed; no test waits for it to pass."""


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine to its end."""

    def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(main, HANG_S))

    return run_on_loop


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def served(recorder: Recorder) -> Iterator[Served]:
    with serve(recorder, SMALL) as server:
        yield server


@pytest.fixture
def driven() -> Driven:
    return Driven()


@pytest.fixture(params=["uvloop", "asyncio"])
def streaming(request: pytest.FixtureRequest, driven: Driven) -> Iterator[Served]:
    with serve(driven, FrontLimits(linger_s=1), loop=request.param) as server:
        yield server


@pytest.fixture
def relays(monkeypatch: pytest.MonkeyPatch) -> list[SocketRelay]:
    """The WebSockets that are accepted."""
    seen: list[SocketRelay] = []
    accept = SocketRelay.accept

    async def seeing(relay: SocketRelay) -> bool:
        seen.append(relay)
        return await accept(relay)

    monkeypatch.setattr(SocketRelay, "accept", seeing)
    return seen


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing may be asked of a session while text passes it by."""
    passed_by: dict[int, Session] = {}
    asked: list[str] = []

    def opens(path: FastPath, opening: Callable[[FastPath], None] = FastPath.open) -> None:
        opening(path)
        if path._template is not None or path._holds:
            passed_by[id(path._session)] = path._session

    def settles(path: FastPath, settling: Callable[[FastPath], None] = FastPath.settle) -> None:
        settling(path)
        passed_by.pop(id(path._session), None)

    def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(session: Session, *args: Any, **named: Any) -> Any:
            if id(session) in passed_by:
                asked.append(name)
            return method(session, *args, **named)

        return noted

    monkeypatch.setattr(FastPath, "open", opens)
    monkeypatch.setattr(FastPath, "settle", settles)
    for name in LOOKS_AT_THE_TURN:
        monkeypatch.setattr(Session, name, noting(name, getattr(Session, name)))
    yield
    assert asked == []
