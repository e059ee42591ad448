"""Who is let in: the tenant, its upstreams and its limits, and the provider's credential where the gate holds it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turngate.access.credential import credentials
from turngate.access.keys import GateKeyStore
from turngate.access.tenant import Caller, Denial, Headers, anybody, by_credential, by_field, by_gate_key
from turngate.access.tenant import with_credential as injected
from turngate.config import Config, UpstreamConfig
from turngate.config.access import TenantConfig, TenantFrom
from turngate.core.tool_rules import ToolRules, narrowed

MINUTE_S: Final = 60.0
MAX_REMEMBERED: Final = 4096
"""Tenants whose use is remembered; where clients choose the names, idle ones must not pile up."""
_UNLIMITED: Final = TenantConfig()


@dataclass(slots=True)
class _Use:
    """What a tenant uses now. The allowance refills evenly, so that no minute's edge doubles it."""

    under_way: int = 0
    allowance: float = math.inf
    refilled_at: float = 0.0


class Desk:
    """Lets requests in, and counts them until they leave."""

    def __init__(
        self,
        config: Config,
        keys: Path,
        digest: Callable[[bytes], str],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._config = config
        self._credentials = credentials(config.upstreams.values(), environ)
        self._keys = GateKeyStore(keys)
        self._digest = digest
        self._uses: dict[str, _Use] = {}

    def tenant(self, name: str) -> TenantConfig:
        """What is configured for a tenant, or else for all that have no section of their own."""
        tenants = self._config.tenants
        return tenants.get(name) or tenants.get("default") or _UNLIMITED

    def admit(self, headers: Headers, upstream: UpstreamConfig, now: float) -> Caller | Denial:
        """Let a request in, or say why not. Whoever is let in must `leave`. `now` is monotonic."""
        caller = self._identify(headers)
        if isinstance(caller, Denial):
            return caller
        tenant = self.tenant(caller.tenant)
        if tenant.upstreams and upstream.name not in tenant.upstreams:
            message = f"The tenant {caller.tenant!r} may not use the upstream {upstream.name!r}."
            return Denial(403, "upstream_not_allowed", message)
        if (over := self._over(caller.tenant, tenant, now)) is not None:
            return over
        credential = self._credentials.get(upstream.name)
        return caller if credential is None else injected(caller, credential)

    def rules(self, caller: Caller, upstream: UpstreamConfig) -> ToolRules:
        """What the policy says of the tools in the caller's turns."""
        allowed = self.tenant(caller.tenant).tools
        return narrowed(self._config.policy.rules, caller.tenant, upstream.name, allowed)

    def leave(self, caller: Caller) -> None:
        """A request that was let in is over."""
        use = self._uses[caller.tenant]
        use.under_way -= 1
        tenant = self.tenant(caller.tenant)
        if not use.under_way and not tenant.requests_per_minute:
            del self._uses[caller.tenant]

    def _identify(self, headers: Headers) -> Caller | Denial:
        server = self._config.server
        match server.tenant_from:
            case TenantFrom.GATE_KEY:
                return by_gate_key(headers, lambda secret: self._keys.find(secret, time.time()))
            case TenantFrom.CREDENTIAL:
                return by_credential(headers, self._digest)
            case TenantFrom.HEADER:
                return by_field(headers, server.tenant_header)
            case TenantFrom.NONE:
                return anybody(headers)

    def _over(self, name: str, tenant: TenantConfig, now: float) -> Denial | None:
        use = self._uses.get(name)
        if use is None:
            self._forget_idle(now)
            use = self._uses[name] = _Use()
        if tenant.turns and use.under_way >= tenant.turns:
            message = f"The tenant {name!r} has {tenant.turns} requests under way, which is its limit."
            return Denial(429, "tenant_limit", message)
        if rate := tenant.requests_per_minute:
            earned = (now - use.refilled_at) * rate / MINUTE_S
            use.allowance, use.refilled_at = min(float(rate), use.allowance + earned), now
            if use.allowance < 1:
                message = f"The tenant {name!r} may send {rate} requests a minute."
                return Denial(429, "tenant_limit", message)
            use.allowance -= 1
        use.under_way += 1
        return None

    def _forget_idle(self, now: float) -> None:
        """Whoever has been away for a minute has the whole allowance again."""
        if len(self._uses) >= MAX_REMEMBERED:
            self._uses = {
                name: use
                for name, use in self._uses.items()
                if use.under_way or now < use.refilled_at + MINUTE_S
            }
