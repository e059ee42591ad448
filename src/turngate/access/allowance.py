"""What each tenant uses now, held against its limits.

Counted where every request of the gate passes: in its one process, or in the supervisor of its workers. A limit that each worker
counted for itself would be another limit, because a client stays at the worker that took its connection.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Final, Protocol

from turngate.access.tenant import Denial
from turngate.config.access import TenantConfig

MINUTE_S: Final = 60.0
MAX_REMEMBERED: Final = 4096
"""Tenants whose use is remembered; where clients choose the names, idle ones must not pile up."""


class Allowances(Protocol):
    """Where requests are counted."""

    async def enter(self, name: str, tenant: TenantConfig) -> Denial | None:
        """Count a request of a tenant, unless that exceeds its limits. What was counted must `leave`."""

    def leave(self, name: str, tenant: TenantConfig) -> None:
        """A request that was counted is over."""


@dataclass(slots=True)
class _Use:
    """What a tenant uses now. The allowance refills evenly, so that no minute's edge doubles it."""

    under_way: int = 0
    allowance: float = math.inf
    refilled_at: float = 0.0


class OwnAllowances:
    """Counts the requests of this process."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}

    def __len__(self) -> int:
        return len(self._uses)

    async def enter(self, name: str, tenant: TenantConfig) -> Denial | None:
        """Count a request now."""
        return self.take(name, tenant, asyncio.get_running_loop().time())

    def take(self, name: str, tenant: TenantConfig, now: float) -> Denial | None:
        """Count a request, unless that exceeds a limit. `now` is monotonic."""
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

    def leave(self, name: str, tenant: TenantConfig) -> None:
        """A request that was counted is over."""
        use = self._uses[name]
        use.under_way -= 1
        if not use.under_way and not tenant.requests_per_minute:
            del self._uses[name]

    def _forget_idle(self, now: float) -> None:
        """Whoever has been away for a minute has the whole allowance again."""
        if len(self._uses) >= MAX_REMEMBERED:
            self._uses = {
                name: use
                for name, use in self._uses.items()
                if use.under_way or now < use.refilled_at + MINUTE_S
            }
