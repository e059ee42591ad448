"""What the rest of the program sees of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.config import OperatorConfig, ServerConfig, UpstreamConfig, load_config
from turngate.core.policy import TurnPolicy
from turngate.transport.head import Timeouts


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("127.0.0.1:8484", "127.0.0.1", 8484), ("[::1]:1", "::1", 1), ("localhost:0", "localhost", 0)],
)
def test_listen_is_an_address_and_a_port(listen: str, host: str, port: int) -> None:
    server = ServerConfig(listen=listen)
    assert (server.host, server.port) == (host, port)


@pytest.mark.parametrize(
    ("listen", "exposed"),
    [
        ("127.0.0.9:1", False),
        ("[::1]:1", False),
        ("localhost:1", False),
        ("off", False),
        ("unix:a", False),
        ("[::]:1", True),
    ],
)
def test_an_operators_listener_knows_who_can_reach_it(listen: str, exposed: bool) -> None:
    assert OperatorConfig(listen=listen).is_exposed is exposed


def test_a_unix_socket_is_a_path() -> None:
    assert OperatorConfig(listen="unix:/run/a:b.sock").socket_path == Path("/run/a:b.sock")
    assert OperatorConfig().socket_path is None
    assert (OperatorConfig().host, OperatorConfig().port) == ("127.0.0.1", 8485)


@pytest.mark.parametrize(("held", "workers", "each"), [(512, 1, 512), (512, 4, 128), (0, 4, 0), (3, 4, 1)])
def test_workers_hold_no_more_together_than_one_would(held: int, workers: int, each: int) -> None:
    assert ServerConfig(held_bytes=held, workers=workers).held_bytes_each == each


def test_the_defaults_of_the_core_and_the_transport_are_the_configurations() -> None:
    anthropic: UpstreamConfig = load_config(environ={}).upstreams["anthropic"]
    assert anthropic.policy == TurnPolicy(accept=anthropic.policy.accept)
    assert anthropic.timeouts == Timeouts()
