"""The server side of a WebSocket: what it relies on in uvicorn, and what it tells the application."""

from __future__ import annotations

import inspect
from pathlib import Path

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tests.proxy.gated import Run
from tests.proxy.socketed import PATH, Provider, connected, read_to_end, socketed
from turngate.proxy.front_socket import FrontSocket


def test_every_uvicorn_name_that_is_relied_on_is_there_and_unchanged() -> None:
    signatures = {"handle_connect": ["self", "event"], "shutdown": ["self"]}
    protocol = WebSocketsSansIOProtocol
    found = {name: list(inspect.signature(getattr(protocol, name)).parameters) for name in signatures}
    assert found == signatures
    source = inspect.getsource(protocol)
    for name in ("handshake_complete", "close_sent", "scope", "transport"):
        assert f"self.{name}" in source, name
    # The application's task runs later, so its scope can still be completed.
    assert "self.loop.create_task(self.run_asgi())" in inspect.getsource(protocol.handle_connect)
    handing_over = inspect.getsource(HttpToolsProtocol.handle_websocket_upgrade)
    assert 'protocol.data_received(b"".join(output))' in handing_over
    assert list(inspect.signature(HttpToolsProtocol._should_upgrade).parameters) == ["self"]


def test_a_shutdown_before_the_handshake_is_over_does_not_wait_for_it(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with socketed(tmp_path, Provider()) as world, connected(world) as client:
            (front,) = world.server.server_state.connections
            assert isinstance(front, FrontSocket)
            assert front.scope["path"] == PATH
            front.shutdown()
            await read_to_end(client)
            assert front.close_sent
            front.shutdown()  # a second one ends it, whether or not the client has answered
            assert front.transport.is_closing()

    run(main())
