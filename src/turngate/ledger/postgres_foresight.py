"""What a group of writes will ask, asked all at once: so many round trips for a group, however many are in it.

An answer holds as long as the group itself changes nothing that it rests on: nobody else can, because the group has the chain.
What stands against a release is in the rows of its own turn, in those of turns of the same response, and in the latches; how far
a turn has come is in its own row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from turngate.ledger.postgres_connection import STATEMENTS, without_nul

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turngate.ledger.database import Write

OF_ONE_TURN: Final = frozenset({"held", "released", "decided", "withdrawn", "delivery", "claimed"})
"""Kinds of write that change rows of one turn, and nothing else. Any other may change all."""
_ASKING: Final = frozenset({"held", "decided", "withdrawn", "delivery"})
"""Those that ask how far the turn has come."""


class _Subject(msgspec.Struct):
    """What a write is about."""

    turn_id: str
    response_id: str | None = None


class Foresight:
    """The answers for one group."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self._releases = {
            write.payload.decode(): _subject(write) for write in writes if write.kind == "released"
        }
        self._turns = {write.turn_id for write in writes if write.kind in _ASKING}
        self._answers: dict[str, tuple[Any, ...] | None] = {}
        self._changed: set[str] = set()
        self._all_changed = False

    def questions(self) -> list[tuple[str, dict[str, object]]]:
        """What to ask of the server."""
        asked: list[tuple[str, dict[str, object]]] = []
        if self._releases:
            each = STATEMENTS["check_releases"].replace("%(payload)s", "asked.payload")
            asked.append((each, {"payloads": list(self._releases)}))
        if self._turns:
            asked.append((STATEMENTS["read_turn_states"], {"turn_ids": list(self._turns)}))
        return asked

    def learn(self, answers: Sequence[list[tuple[Any, ...]]]) -> None:
        """Take the rows that answer `questions`, in their order."""
        told = list(answers)
        if self._releases:
            self._answers.update(zip(self._releases, told.pop(0), strict=True))
        if self._turns:
            self._answers.update(dict.fromkeys(self._turns))
            self._answers.update((row[0], row[1:]) for row in told.pop(0))

    def answer(self, statement: str, bindings: Mapping[str, object]) -> list[tuple[Any, ...]] | None:
        """The rows that a statement would give now; None if it has to be asked."""
        if self._all_changed:
            return None
        key = str(bindings.get("payload" if statement == "check_release" else "turn_id"))
        if statement == "check_release":
            subject = self._releases.get(key)
            rests_on = set() if subject is None else {subject.turn_id, subject.response_id}
        elif statement == "read_turn_state":
            rests_on = {key}
        else:
            return None
        if key not in self._answers or self._changed & rests_on:
            return None
        row = self._answers[key]
        return [] if row is None else [row]

    def note(self, write: Write) -> None:
        """Hear that the group has carried out a write."""
        if write.kind not in OF_ONE_TURN:
            self._all_changed = self._all_changed or write.kind != "audited"
            return
        subject = _subject(write)
        self._changed.add(subject.turn_id)
        if subject.response_id is not None:
            self._changed.add(subject.response_id)


def _subject(write: Write) -> _Subject:
    return msgspec.json.decode(without_nul(write.payload), type=_Subject)
