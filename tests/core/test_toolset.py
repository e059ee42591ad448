from __future__ import annotations

from turngate.core.toolset import Tool, collect


def test_a_tool_declared_twice_alike_is_one_tool_and_differently_is_ambiguous() -> None:
    one, same, other = Tool("a", schema={"type": "object"}), Tool("a", schema={"type": "object"}), Tool("b")
    assert collect([one, same, other]) == ({"a": one, "b": other}, frozenset())
    assert collect([one, Tool("a")]) == ({"a": one}, frozenset({"a"}))
