"""What a reader of one take was seen to do, whatever kind of reader it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from turngate.core.json_text import JsonFault, read_json


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call that a reader would have run, or that reached it. `arguments` is JSON text, or the free text of a custom tool."""

    id: str | None
    name: str | None
    arguments: str

    def differs_from(self, call_id: str | None, name: str, arguments: Any) -> tuple[str, ...]:
        """Which parts are not those of the call that was proved. A reader that names no id is not blamed for it."""
        value = self.arguments if isinstance(arguments, str) else _value(self.arguments)
        differs = {
            "id": self.id is not None and call_id is not None and self.id != call_id,
            "name": self.name != name,
            "arguments": isinstance(value, JsonFault) or not _same(value, arguments),
        }
        return tuple(part for part, wrong in differs.items() if wrong)


@dataclass(slots=True)
class Observation:
    """Everything that was seen of one take."""

    calls: list[SeenCall] = field(default_factory=list)
    text: str = ""
    error: str | None = None
    """What the reader raised, or was told as an error; no more than its kind."""
    call_before_proof: bool = False
    text_late: bool = False
    requests: int = 0
    hung: bool = False


@dataclass(slots=True)
class WireObservation(Observation):
    """What a raw client behind a gateway saw."""

    status: int = 0
    unaltered: bool = False
    """Whether it is the reply that was sent, byte for byte."""
    ended: bool = False
    """Whether what came last says that the turn is over, without an error."""
    cut: bool = False
    """Whether the connection broke inside the reply."""


def _value(text: str) -> Any:
    return read_json(text.encode(errors="surrogatepass")) if text.strip() else {}


def _same(one: Any, other: Any) -> bool:
    """Equality that keeps true and 1 apart."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
