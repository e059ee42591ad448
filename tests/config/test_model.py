"""What the rest of the program sees of the configuration."""

from __future__ import annotations

import pytest

from turngate.config import ServerConfig, UpstreamConfig, load_config
from turngate.core.policy import TurnPolicy
from turngate.transport.head import Timeouts


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("127.0.0.1:8484", "127.0.0.1", 8484), ("[::1]:1", "::1", 1), ("localhost:0", "localhost", 0)],
)
def test_listen_is_an_address_and_a_port(listen: str, host: str, port: int) -> None:
    server = ServerConfig(listen=listen)
    assert (server.host, server.port) == (host, port)


def test_the_defaults_of_the_core_and_the_transport_are_the_configurations() -> None:
    anthropic: UpstreamConfig = load_config(environ={}).upstreams["anthropic"]
    assert anthropic.policy == TurnPolicy(accept=anthropic.policy.accept)
    assert anthropic.timeouts == Timeouts()
