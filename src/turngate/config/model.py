"""What the rest of the program sees of the configuration. Every default says why it is what it is."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from turngate.config.access import PolicyConfig, TenantConfig, TenantFrom
from turngate.config.traces import TracesConfig
from turngate.core.policy import MIB, TurnPolicy
from turngate.ledger.location import LedgerPlace, locate
from turngate.transport.head import Origin, Timeouts


class LogFormat(enum.StrEnum):
    """How log lines look."""

    CONSOLE = "console"
    JSON = "json"


class Unjudged(enum.StrEnum):
    """What becomes of a reply that may be a turn and that no dialect claims."""

    BLOCK = "block"
    PASS = "pass"  # noqa: S105 -- a word, no password


class CaptureTurns(enum.StrEnum):
    """Which turns leave a redacted capture."""

    OFF = "off"
    BLOCKED = "blocked"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """`[server]`: the listener and what one client may send."""

    listen: str = "127.0.0.1:8484"
    """Loopback: an agent's sidecar serves nobody else unless told so."""
    workers: int = 1
    """Processes that take turns. One judges some hundred turns a second on a core, and needs no supervisor."""
    default_upstream: str = "openai"
    """Where a bare `/v1/...` goes: the SDK whose users are used to changing nothing but a host."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    """Host names that a request may name; empty allows any, since an agent's bearer key is what a browser lacks."""
    held_bytes: int = 512 * MIB
    """Bytes that all turns of the process may hold together: sixty-four turns at their own limit of 8 MiB."""
    drain_s: float = 20.0
    """How long turns under way may finish after SIGTERM: below the 30 s after which Kubernetes kills."""
    keep_alive_s: int = 75
    """How long an idle client connection is kept: nginx's default, above the 60 s of most load balancers."""
    max_header_bytes: int = 64 * 1024
    max_headers: int = 128
    max_target_bytes: int = 16 * 1024
    max_body_bytes: int = 64 * MIB
    """Twice the largest request that a provider accepts (32 MB)."""
    header_timeout_s: float = 30.0
    body_timeout_s: float = 30.0
    tenant_from: TenantFrom = TenantFrom.NONE
    tenant_header: str = "x-tenant"
    """The field that names the tenant, where `tenant_from` is `header`. Whoever reaches the gate must not be able to set it."""

    @property
    def host(self) -> str:
        """The address part of `listen`."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port part of `listen`; 0 takes a free one."""
        return int(self.listen.rpartition(":")[2])

    @property
    def held_bytes_each(self) -> int:
        """What one worker may hold: its part, so that all together stay below the limit. 0 is no bound."""
        return max(1, self.held_bytes // self.workers) if self.held_bytes else 0


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """`[ledger]`: where decisions are recorded."""

    url: str = field(default="sqlite:///var/turngate.db", repr=False)
    """It may hold a password; `place.name` does not."""
    key_file: Path | None = None
    """The HMAC key. None has it with the other files; all gates of one ledger have the same."""
    dir: Path | None = None
    """Where this host keeps its files for a ledger on a server. Those of a SQLite ledger lie beside it."""
    timeout_s: float = 5.0
    """How long a release waits to be durable before it is blocked; a healthy disk takes milliseconds."""
    release_without_record: bool = False
    """Release turns that could not be recorded. Off: a ledger that is down blocks every tool call."""
    checkpoint_dir: Path | None = None
    """Where signed checkpoints are kept, best on a mount that only takes new files. None keeps none."""
    checkpoint_every_s: int = 3600
    """How often, if entries have been added: what a rewritten past can hide in."""
    checkpoint_key: Path | None = None
    """The key that signs them; None has it beside the ledger."""

    @property
    def place(self) -> LedgerPlace:
        """Where the ledger is, and which files go with it."""
        return locate(self.url, key_file=self.key_file, directory=self.dir)


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """`[operator]`: the listener for those who watch and stop."""

    listen: str = "127.0.0.1:8485"
    """ADDRESS:PORT, `unix:PATH`, or `off`. Loopback: whoever may stop everything is on this machine unless told otherwise."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allow_unencrypted: bool = False
    """Serve another address than loopback without TLS, where something in front of it encrypts."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that a request may name beside those of `listen` and loopback: a page of another name cannot reach the listener
    by pointing its own name here."""

    @property
    def is_off(self) -> bool:
        """Whether there is no such listener."""
        return self.listen == "off"

    @property
    def socket_path(self) -> Path | None:
        """The Unix socket, if it is one."""
        kind, _, name = self.listen.partition(":")
        return Path(name) if kind == "unix" else None

    @property
    def host(self) -> str:
        """The address part of `listen`."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port part of `listen`; 0 takes a free one."""
        return int(self.listen.rpartition(":")[2])

    @property
    def is_exposed(self) -> bool:
        """Whether others than this machine can reach it."""
        return not self.is_off and self.socket_path is None and not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own. A name other than localhost may be anybody's tomorrow."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """`[log]`: one structured line a turn, on standard error."""

    format: LogFormat = LogFormat.CONSOLE
    level: str = "info"


@dataclass(frozen=True, slots=True)
class CaptureConfig:
    """`[capture]`: where redacted captures go, and how many. Each bound drops captures, and never holds up a turn."""

    dir: Path | None = None
    max_files: int = 1000
    max_bytes: int = 256 * MIB
    max_turn_bytes: int = 4 * MIB
    """Request and reply together; a turn with calls is mostly below 100 KiB, its request may hold a whole conversation."""
    queue: int = 32
    """Turns that may wait to be redacted, which takes some milliseconds each."""


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """`[upstreams.NAME]`: one provider and how its turns are judged."""

    name: str
    base_url: str
    origin: Origin
    base_path: bytes
    preset: str
    policy: TurnPolicy
    family: str | None = None
    """The dialect family where one path serves several (`mistral`)."""
    unjudged: Unjudged = Unjudged.BLOCK
    capture: CaptureTurns = CaptureTurns.OFF
    timeouts: Timeouts = field(default_factory=Timeouts)
    proxy: str | None = None
    http2: bool = False
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    credential_env: str | None = None
    credential_file: Path | None = None
    """Where the provider's credential is that goes out in place of a gate key: the name of a variable, or a file."""
    is_demo: bool = False
    """Whether the bundled replay provider stands behind it."""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything."""

    server: ServerConfig
    ledger: LedgerConfig
    log: LogConfig
    upstreams: Mapping[str, UpstreamConfig]
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """Pinned tool schemas, by tool name."""
    warnings: tuple[str, ...] = ()
    operator: OperatorConfig = field(default_factory=OperatorConfig)
    capture: CaptureConfig = field(default_factory=CaptureConfig)
    tenants: Mapping[str, TenantConfig] = field(default_factory=dict)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    traces: TracesConfig = field(default_factory=TracesConfig)
