"""Who is let in: the tenant, its upstreams and its limits, and the provider's credential where the gate holds it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from turngate.access.allowance import Allowances, OwnAllowances
from turngate.access.credential import credentials
from turngate.access.keys import GateKeyStore
from turngate.access.tenant import Caller, Denial, Headers, anybody, by_credential, by_field, by_gate_key
from turngate.access.tenant import with_credential as injected
from turngate.config import Config, UpstreamConfig
from turngate.config.access import TenantConfig, TenantFrom
from turngate.core.tool_rules import ToolRules, narrowed

_UNLIMITED: Final = TenantConfig()
_NO_RULES: Final = ToolRules()


def limits_of(tenants: Mapping[str, TenantConfig], name: str) -> TenantConfig:
    """What is configured for a tenant, or else for all that have no section of their own."""
    return tenants.get(name) or tenants.get("default") or _UNLIMITED


def _is_limited(tenant: TenantConfig) -> bool:
    """Whether there is anything to hold its requests against; nobody else's are counted."""
    return tenant.turns > 0 or tenant.requests_per_minute > 0


class Desk:
    """Lets requests in, and counts them until they leave."""

    def __init__(
        self,
        config: Config,
        keys: Path,
        digest: Callable[[bytes], str],
        environ: Mapping[str, str] = os.environ,
        allowances: Allowances | None = None,
    ) -> None:
        self._config = config
        self._credentials = credentials(config.upstreams.values(), environ)
        self._keys = GateKeyStore(keys)
        self._digest = digest
        self._allowances = allowances or OwnAllowances()

    def tenant(self, name: str) -> TenantConfig:
        """What is configured for a tenant, or else for all that have no section of their own."""
        return limits_of(self._config.tenants, name)

    async def admit(self, headers: Headers, upstream: UpstreamConfig) -> Caller | Denial:
        """Let a request in, or say why not. Whoever is let in must `leave`."""
        caller = self._identify(headers)
        if isinstance(caller, Denial):
            return caller
        tenant = self.tenant(caller.tenant)
        if tenant.upstreams and upstream.name not in tenant.upstreams:
            message = f"The tenant {caller.tenant!r} may not use the upstream {upstream.name!r}."
            return Denial(403, "upstream_not_allowed", message)
        if _is_limited(tenant):
            over = await self._allowances.enter(caller.tenant, tenant)
            if over is not None:
                return over
        credential = self._credentials.get(upstream.name)
        return caller if credential is None else injected(caller, credential)

    def rules(self, caller: Caller, upstream: UpstreamConfig) -> ToolRules:
        """What the policy says of the tools in the caller's turns."""
        rules, allowed = self._config.policy.rules, self.tenant(caller.tenant).tools
        return narrowed(rules, caller.tenant, upstream.name, allowed) if rules or allowed else _NO_RULES

    def leave(self, caller: Caller) -> None:
        """A request that was let in is over."""
        tenant = self.tenant(caller.tenant)
        if _is_limited(tenant):
            self._allowances.leave(caller.tenant, tenant)

    def _identify(self, headers: Headers) -> Caller | Denial:
        server = self._config.server
        match server.tenant_from:
            case TenantFrom.NONE:
                return anybody(headers)
            case TenantFrom.GATE_KEY:
                return by_gate_key(headers, lambda secret: self._keys.find(secret, time.time()))
            case TenantFrom.CREDENTIAL:
                return by_credential(headers, self._digest)
            case TenantFrom.HEADER:
                return by_field(headers, server.tenant_header)
