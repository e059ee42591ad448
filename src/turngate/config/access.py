"""`[tenants.NAME]`, `[policy]`, and how a request's tenant is found."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from turngate.core.tool_rules import ToolRule


class TenantFrom(enum.StrEnum):
    """What says whose a request is."""

    NONE = "none"
    """Nothing: all requests are of one tenant, `default`."""
    GATE_KEY = "gate_key"
    """A key of this gate, sent as the API key."""
    CREDENTIAL = "credential"
    """A keyed digest of the provider's credential that the client sends."""
    HEADER = "header"
    """A header field that something trusted before the gate sets; it does not cross."""


@dataclass(frozen=True, slots=True)
class TenantConfig:
    """What one tenant may do; of `default`, what each may that has no section of its own."""

    upstreams: frozenset[str] = frozenset()
    """Empty allows every upstream."""
    tools: tuple[str, ...] = ()
    """Patterns of the tool names that may be called; empty allows every tool."""
    turns: int = 0
    """Requests under way at once; 0 is no limit."""
    requests_per_minute: int = 0
    """0 is no limit."""


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """`[policy]`: what becomes of calls that have proved valid."""

    rules: tuple[ToolRule, ...] = ()
    """The first that fits a call decides; a call that none fits is allowed."""
    confirm_s: float = 50.0
    """How long a turn waits for a person: below the 60 s after which the strictest clients and load balancers give up."""
    authorizer_url: str | None = None
    """Who is asked about every call that no rule denies."""
    authorizer_timeout_s: float = 2.0
    """Its silence is a no; an OPA beside the gate answers within milliseconds."""
    authorizer_arguments: bool = False
    """Whether it is told the arguments."""
    strip_disabled_tools: bool = False
    """Whether tools that are denied or disabled are taken out of requests: else turngate changes no request."""
