"""What the request declared: the tools that the agent offered, and what was asked about them.

Read from the request's body by the dialect, without changing it. A tool that is not in here is an invention of the model or of
a gateway, unless the operator pinned its schema.
"""

from __future__ import annotations

import enum
from typing import Any

from msgspec import Struct, field

from turngate.core.event import CallKind, RunsOn


class SchemaDialect(enum.StrEnum):
    """How a tool's schema is spelled."""

    JSON_SCHEMA = "json_schema"
    OPENAPI = "openapi"


class Tool(Struct, frozen=True):
    """One declared tool.

    `schema` is its parsed declaration, None where the request gives none: built-in client tools, functions without
    parameters.
    """

    name: str
    kind: CallKind = CallKind.FUNCTION
    runs_on: RunsOn = RunsOn.AGENT
    schema: Any = None
    dialect: SchemaDialect = SchemaDialect.JSON_SCHEMA


class Toolset(Struct, frozen=True):
    """The tools of one request, by name."""

    tools: dict[str, Tool] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    """Names that were declared more than once, differently."""
    toolsets: frozenset[str] = frozenset()
    """Declared toolsets, which bring tools without listing them."""
    named_choice: bool = False
    """Whether the request forces one named tool; some dialects then end naturally."""
    streamed: bool = False
    model: str | None = None
    readable: bool = True
    """Whether the request's body could be read at all."""
    replayed: bool = False
    """Whether the request only fetches a response made earlier, or goes on with it: its tools are then those that the response names."""
    staged: bool = False
    """Whether one response hands calls over several times, new ones each time: then only their ids tell what was handed over."""

    def find(self, name: str) -> Tool | None:
        """The declared tool of that name."""
        return self.tools.get(name)


def collect(tools: list[Tool]) -> tuple[dict[str, Tool], frozenset[str]]:
    """Key tools by name; names declared twice with different meanings come back as ambiguous."""
    by_name: dict[str, Tool] = {}
    ambiguous: set[str] = set()
    for tool in tools:
        known = by_name.setdefault(tool.name, tool)
        if known is not tool and known != tool:
            ambiguous.add(tool.name)
    return by_name, frozenset(ambiguous)
