"""Survey a schema before it is compiled: refuse what could go unchecked, and bound what checking it can cost.

Three things could make an evaluator accept in silence or look outside: a keyword that it does not know, a reference
that leaves the document, and a reference to a place that is no schema (`#/properties/a/default`), whose keywords
nobody has looked at. All three are refused here, by place.

References also make a small schema huge: thirty definitions that each name the next one twice ask for 2^30
evaluations. `Survey.cost` counts the evaluations that one place in an instance can cause, so that a caller can refuse
before it starts. The count is an upper bound; for a recursive schema it grows with the depth of the instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from turngate.core.finding import Code, Finding
from turngate.schema.vocabulary import KEYWORDS, Draft, Holds, is_extension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turngate.core.json_text import JsonValue

MAX_NODES = 10_000
"""Most subschemas in one tool schema. The largest of 778 published tool schemas has some hundreds."""

MAX_FINDINGS = 16

_NAMING = {"$anchor", "$dynamicAnchor"}


def escape(name: str) -> str:
    """Write one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


@dataclass(slots=True)
class _Node:
    """One subschema: what it is evaluated together with, and what it asks of members and items."""

    pointer: str
    same: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)  # of these, one place in an instance meets at most one
    references: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Survey:
    """What was found out about one schema."""

    findings: list[Finding] = field(default_factory=list)
    nodes: dict[str, _Node] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    has_references: bool = False
    patterns: int = 0
    """Regular expressions in the whole schema."""
    longest_list: int = 0
    """Entries in the longest enum or required; the evaluator copies an enum into each of its errors."""
    order: list[str] = field(default_factory=list)
    """The nodes, each after those it is evaluated together with; only filled in when there are references."""
    _costs: list[dict[str, int]] = field(default_factory=list)

    def cost(self, depth: int) -> int:
        """Bound the evaluations of subschemas that any one place of an instance `depth` levels deep can cause."""
        if not self.has_references:
            return len(self.nodes)
        while len(self._costs) <= depth:
            shallower = self._costs[-1] if self._costs else {}
            if shallower and self._costs[-2:-1] == [shallower]:
                return shallower[""]  # not recursive: more depth changes nothing
            level: dict[str, int] = {}
            for pointer in self.order:
                level[pointer] = self._cost_here(self.nodes[pointer], level, shallower)
            self._costs.append(level)
        return self._costs[depth][""]

    def _cost_here(self, node: _Node, level: dict[str, int], shallower: dict[str, int]) -> int:
        here = sum(level[pointer] for pointer in node.same)
        below = sum(shallower.get(pointer, 0) for pointer in node.parts)
        one_member = max((shallower.get(pointer, 0) for pointer in node.members), default=0)
        return min(1 + here + below + one_member, 1 << 60)


def survey(schema: JsonValue, draft: Draft, *, path: str = "") -> Survey:
    """Walk every subschema. When `findings` is not empty, the schema must not be used."""
    walker = _Walker(draft, path)
    walker.walk(schema)
    return walker.result


class _Walker:
    def __init__(self, draft: Draft, path: str) -> None:
        self.keywords = KEYWORDS[draft]
        self.path = path
        self.result = Survey()
        self.anchors: dict[str, str] = {}

    def refuse(self, code: Code, message: str) -> None:
        if len(self.result.findings) < MAX_FINDINGS:
            self.result.findings.append(Finding(code, message, self.path))

    def walk(self, schema: JsonValue) -> None:
        waiting: list[tuple[str, Any]] = [("", schema)]
        while waiting:
            pointer, node = waiting.pop()
            if len(self.result.nodes) >= MAX_NODES:
                self.refuse(Code.INVALID_SCHEMA, f"the schema has more than {MAX_NODES} subschemas")
                return
            waiting.extend(self.visit(pointer, node))
        self.follow_references()
        if not self.result.findings and self.result.has_references:
            self.order()

    def visit(self, pointer: str, schema: Any) -> Iterator[tuple[str, Any]]:
        node = self.result.nodes[pointer] = _Node(pointer)
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            self.refuse(Code.INVALID_SCHEMA, f"#{pointer} is no schema: neither an object nor a boolean")
            return
        for keyword, value in schema.items():
            holds = self.keywords.get(keyword)
            if holds is Holds.VALUE:
                self.look_at(pointer, keyword, value)
            elif holds is not None:
                yield from self.descend(node, keyword, holds, value)
            elif not is_extension(keyword):
                self.refuse(
                    Code.UNSUPPORTED_SCHEMA_KEYWORD,
                    f"#{pointer}/{escape(keyword)} is a keyword that is not checked here",
                )

    def descend(self, node: _Node, keyword: str, holds: Holds, value: Any) -> Iterator[tuple[str, Any]]:
        if holds is Holds.REFERENCE:
            self.refer(node, keyword, value)
            return
        here = f"{node.pointer}/{escape(keyword)}"
        inner = list(self.subschemas(here, holds, value))
        pointers = [pointer for pointer, _ in inner]
        if holds in (Holds.SAME, Holds.SAME_LIST, Holds.SAME_MAP):
            node.same += pointers
        elif holds in (Holds.PART, Holds.PATTERN_MAP):
            node.parts += pointers
        elif holds in (Holds.PART_MAP, Holds.PART_LIST):
            node.members += pointers
        if keyword == "properties" and isinstance(value, dict):
            self.result.names.update(value)
        self.result.patterns += len(inner) if holds is Holds.PATTERN_MAP else 0
        yield from inner

    def subschemas(self, here: str, holds: Holds, value: Any) -> Iterator[tuple[str, Any]]:
        """List the schemas in a keyword's value. A wrong shape is left to the meta-schema, which refuses it."""
        mapped = holds in (Holds.SAME_MAP, Holds.PART_MAP, Holds.PATTERN_MAP, Holds.SHELF)
        if mapped and isinstance(value, dict):
            for name, schema in value.items():
                if not isinstance(schema, list):  # draft-07 dependencies may list names
                    yield f"{here}/{escape(name)}", schema
        elif isinstance(value, list):
            for position, schema in enumerate(value):
                yield f"{here}/{position}", schema
        elif holds in (Holds.SAME, Holds.PART):
            yield here, value

    def look_at(self, pointer: str, keyword: str, value: Any) -> None:
        """Take the measure of plain values, and check the keywords that name a schema or its draft."""
        self.result.patterns += keyword == "pattern"
        if isinstance(value, list):
            self.result.longest_list = max(self.result.longest_list, len(value))
        if keyword == "$schema" and pointer:
            self.refuse(
                Code.UNSUPPORTED_SCHEMA_KEYWORD, f"#{pointer}/$schema: only the root may declare a draft"
            )
        elif keyword in _NAMING and isinstance(value, str):
            self.name(pointer, value)
        elif keyword == "$id" and isinstance(value, str):
            if value.startswith("#") and self.keywords is KEYWORDS[Draft.DRAFT_07]:
                self.name(pointer, value[1:])
            elif pointer or ":" in value or value.startswith("//"):
                self.refuse(
                    Code.UNSUPPORTED_SCHEMA_KEYWORD,
                    f"#{pointer}/$id is absolute or moves the base of references",
                )

    def name(self, pointer: str, anchor: str) -> None:
        if self.anchors.setdefault(anchor, pointer) != pointer:
            self.refuse(Code.INVALID_SCHEMA, f"#{pointer} has the name of another subschema")

    def refer(self, node: _Node, keyword: str, value: Any) -> None:
        if isinstance(value, str) and value.startswith("#"):
            self.result.has_references = True
            node.references.append(unquote(value[1:]))
        else:
            self.refuse(
                Code.UNSUPPORTED_SCHEMA_KEYWORD,
                f"#{node.pointer}/{keyword} points outside the document; nothing is fetched for a schema",
            )

    def follow_references(self) -> None:
        for node in self.result.nodes.values():
            for reference in node.references:
                target = (
                    reference if reference.startswith("/") or not reference else self.anchors.get(reference)
                )
                if target in self.result.nodes:
                    node.same.append(target)
                else:
                    self.refuse(
                        Code.INVALID_SCHEMA, f"#{node.pointer} refers to a place that is no subschema"
                    )

    def order(self) -> None:
        """Order nodes so that whatever is evaluated with a node comes before it, and refuse circles."""
        done: dict[str, bool] = {}
        for root in self.result.nodes:
            stack = [root]
            while stack:
                pointer = stack[-1]
                if pointer not in done:
                    done[pointer] = False
                    for other in self.result.nodes[pointer].same:
                        if done.get(other) is False:
                            self.refuse(Code.INVALID_SCHEMA, f"#{pointer} refers to itself without end")
                            return
                        if other not in done:
                            stack.append(other)
                else:
                    stack.pop()
                    if not done[pointer]:
                        done[pointer] = True
                        self.result.order.append(pointer)
