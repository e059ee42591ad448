"""From a request to its caller: the host that it names, the token that it carries, and how often an address may fail.

A valid token always passes, however often others failed from the same address: on loopback everybody shares one, and a
limit that shuts the operator out would be a way to keep the gate from being stopped. Failures are bounded because each is a row
of the audit.
"""

from __future__ import annotations

import dataclasses
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from turngate.config import OperatorConfig
from turngate.errors import ConfigError
from turngate.ledger.audit import AuditNote
from turngate.operator.problem import ProblemError
from turngate.operator.tokens import Role, Token, TokenStore
from turngate.proxy.incoming import host_of

LOCAL: Final = "local"
"""The peer of a Unix socket."""

PATH_LIMIT: Final = 256
"""Characters of a path that the audit keeps."""

LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- they are recognised here, not bound

Scope = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    name: str
    token_id: str
    role: Role
    peer: str


class FailureLimiter:
    """How many failures each address may still have: a bucket of `burst` that fills again by one every `refill_s`."""

    def __init__(
        self,
        *,
        burst: int = 10,
        refill_s: float = 6.0,
        addresses: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst = burst
        self._refill_s = refill_s
        self._addresses = addresses
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def fail(self, peer: str) -> float:
        """Note a failure; returns the seconds after which another one is heard, 0 if this one still was."""
        now = self._clock()
        left, since = self._buckets.pop(peer, (float(self._burst), now))
        left = min(float(self._burst), left + (now - since) / self._refill_s)
        heard = left >= 1
        self._buckets[peer] = (left - 1 if heard else left, now)
        if len(self._buckets) > self._addresses:
            self._buckets.popitem(last=False)
        return 0.0 if heard else (1 - left) * self._refill_s


class Doorkeeper:
    """Lets in who names an allowed host and carries a live token."""

    def __init__(
        self, config: OperatorConfig, store: TokenStore, limiter: FailureLimiter | None = None
    ) -> None:
        self._store = store
        self._limiter = limiter or FailureLimiter()
        self._any_host = config.socket_path is not None
        """No browser, and so no page, speaks over a Unix socket."""
        own = set() if self._any_host or config.host in WILDCARDS else {_in_host_header(config.host)}
        self._hosts = {host.lower() for host in (*LOOPBACK_HOSTS, *own, *config.allowed_hosts)}

    def check_host(self, scope: Scope) -> None:
        """Refuse a request that names a host of somebody else's (DNS rebinding)."""
        if not self._any_host and host_of(dict(scope)).lower() not in self._hosts:
            raise ProblemError(
                "host_not_allowed", "The request names a host that is not in operator.allowed_hosts."
            )

    def admit(self, scope: Scope) -> Caller:
        """The caller of a request; raises what it is told if nobody is known by its token."""
        peer = peer_of(scope)
        presented = [value for name, value in scope["headers"] if name == b"authorization"]
        token = self._token(presented[0]) if len(presented) == 1 else None
        if token is None:
            raise self._refusal(peer)
        return Caller(token.name, token.id, token.role, peer)

    def admit_secret(self, secret: str, peer: str) -> Token:
        """The token that somebody typed in; failures count as those of requests do."""
        token = self._store.find(secret, time.time())
        if token is None:
            raise self._refusal(peer)
        return token

    def still_admits(self, token: Token) -> bool:
        """Whether a token that was admitted would be admitted again. A file that cannot be read has none."""
        try:
            return token.lives(time.time()) and token in self._store.tokens()
        except ConfigError:
            return False

    def _refusal(self, peer: str) -> ProblemError:
        wait_s = self._limiter.fail(peer)
        if wait_s:
            return ProblemError(
                "too_many_failures",
                "Too many requests without a valid token. One with a valid token is still answered.",
                headers=[(b"retry-after", b"%d" % max(1, round(wait_s)))],
            )
        return ProblemError(
            "unauthenticated",
            "Send a live token as `Authorization: Bearer TOKEN`; `turngate token create NAME` makes one.",
            headers=[(b"www-authenticate", b'Bearer realm="turngate operator"')],
        )

    def _token(self, value: bytes) -> Token | None:
        scheme, _, presented = value.decode("latin-1").partition(" ")
        return self._store.find(presented.strip(), time.time()) if scheme.lower() == "bearer" else None


def require(caller: Caller, needed: Role) -> None:
    """Refuse a caller whose role is not enough."""
    if not caller.role.allows(needed):
        raise ProblemError("forbidden", f"This needs the role {needed}; the token has {caller.role}.")


def stranger_note(scope: Scope, problem: ProblemError) -> AuditNote:
    """The audit's row of a refused request that names nobody."""
    return AuditNote(
        at=time.time(),
        actor="",
        peer=peer_of(scope),
        method=scope["method"],
        path=scope["path"][:PATH_LIMIT],
        status=problem.status,
        code=problem.code,
    )


def peer_of(scope: Scope) -> str:
    """The client's address."""
    client = scope.get("client")
    return client[0] if client and client[0] else LOCAL


def _in_host_header(host: str) -> str:
    return f"[{host}]" if ":" in host else host
