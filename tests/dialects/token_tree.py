"""JSON as its tokens, so that a key can come twice, be spelt in another way or stand apart from its colon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Member:
    """A key as it is written, and its value."""

    key: str
    value: Tree

    @property
    def name(self) -> str:
        """What the key says."""
        name = json.loads(self.key)
        assert isinstance(name, str)
        return name


@dataclass(frozen=True)
class Object:
    members: tuple[Member, ...]


@dataclass(frozen=True)
class List:
    items: tuple[Tree, ...]


Tree: TypeAlias = Object | List | str
"""A string is a token, as it is written."""


@dataclass(frozen=True)
class Place:
    """An object in a tree, and how to put another one there."""

    tree: Tree
    steps: tuple[int, ...] = field(default=())

    def holding(self) -> Object:
        """The object."""
        found = self.tree
        for step in self.steps:
            found = found.members[step].value if isinstance(found, Object) else _items(found)[step]
        assert isinstance(found, Object)
        return found

    def put(self, members: tuple[Member, ...]) -> Tree:
        """The tree, with other members there."""
        return _put(self.tree, self.steps, Object(members))


def parse(text: bytes) -> Tree:
    """The tree of a JSON text."""
    return tree_of(json.loads(text, object_pairs_hook=_Pairs))


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, all of them."""


def tree_of(value: Any) -> Tree:
    """The tree of a value, compactly written."""
    if isinstance(value, dict):
        value = _Pairs(value.items())
    if isinstance(value, _Pairs):
        return Object(tuple(Member(_token(key), tree_of(each)) for key, each in value))
    if isinstance(value, list):
        return List(tuple(map(tree_of, value)))
    return _token(value)


def _token(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def write(tree: Tree) -> str:
    """The text, without a blank that no token has in it."""
    match tree:
        case Object():
            return "{" + ",".join(f"{each.key}:{write(each.value)}" for each in tree.members) + "}"
        case List():
            return "[" + ",".join(map(write, tree.items)) + "]"
    return tree


def objects(tree: Tree) -> Iterator[Place]:
    """Every object in a tree, from the outside to the inside."""
    for steps in _steps(tree, ()):
        yield Place(tree, steps)


def repeats(tree: Tree) -> bool:
    """Whether some object has a key twice."""
    members = [place.holding().members for place in objects(tree)]
    return any(len({each.name for each in found}) != len(found) for found in members)


def resolved(tree: Tree, *, first: bool) -> Tree:
    """What a client reads for whom the first, or the last, of two equal keys wins."""
    match tree:
        case Object():
            ordered = tree.members[::-1] if first else tree.members
            winners = {each.name: resolved(each.value, first=first) for each in ordered}
            return Object(tuple(Member(_token(name), value) for name, value in winners.items()))
        case List():
            return List(tuple(resolved(each, first=first) for each in tree.items))
    return tree


def shape(tree: Tree) -> str:
    """Which keys a tree has, and where."""
    match tree:
        case Object():
            return "{" + ",".join(f"{each.key}{shape(each.value)}" for each in tree.members) + "}"
        case List():
            return "[" + ",".join(map(shape, tree.items)) + "]"
    return tree[:1]


def _steps(tree: Tree, above: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if isinstance(tree, Object):
        yield above
        for at, member in enumerate(tree.members):
            yield from _steps(member.value, (*above, at))
    elif isinstance(tree, List):
        for at, item in enumerate(tree.items):
            yield from _steps(item, (*above, at))


def _items(tree: Tree) -> tuple[Tree, ...]:
    assert isinstance(tree, List)
    return tree.items


def _put(tree: Tree, steps: tuple[int, ...], new: Tree) -> Tree:
    if not steps:
        return new
    at, rest = steps[0], steps[1:]
    if isinstance(tree, Object):
        member = tree.members[at]
        changed = replace(member, value=_put(member.value, rest, new))
        return Object((*tree.members[:at], changed, *tree.members[at + 1 :]))
    items = _items(tree)
    return List((*items[:at], _put(items[at], rest, new), *items[at + 1 :]))
