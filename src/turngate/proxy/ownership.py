"""Whose turn it is: who may cancel it, and which newer turn takes its place.

The application owns the turns that it asked for. It can cancel one under the credentials that it used, and it can name the
conversation that a turn belongs to: then a newer turn of the conversation supersedes an older one that is still under way, so
that calls of two answers never meet. Names are the owner's own: nobody can supersede the turn of another.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final, Protocol

from turngate.access.tenant import CREDENTIAL_FIELDS
from turngate.core.finding import Code, Finding
from turngate.core.verdict import Outcome, Reason
from turngate.proxy.stop import Stop

CONVERSATION: Final = b"x-turngate-conversation"

CREDENTIALS: Final = frozenset({*CREDENTIAL_FIELDS, b"cookie"})
"""The fields in which the official clients send who they are."""

SUPERSEDED: Final = Stop(
    Outcome.CANCELLED,
    Reason.SUPERSEDED,
    Finding(Code.TURN_SUPERSEDED, "a newer turn of its conversation began"),
)
CANCELLED: Final = Stop(
    Outcome.CANCELLED,
    Reason.CANCELLED_BY_CLIENT,
    Finding(Code.TURN_CANCELLED, "the application cancelled it"),
)


class Stoppable(Protocol):
    """A request under way."""

    def stop(self, stop: Stop) -> None:
        """End it at once."""
        ...


def owner_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A digest of the credentials of a request; the same for all that bring none."""
    brought = []
    for name, value in headers:
        if (lower := name.lower()) in CREDENTIALS:
            brought.append((lower, value))
    brought.sort()
    return hashlib.sha256(b"".join([b"%d:%b%d:%b" % (len(n), n, len(v), v) for n, v in brought])).digest()


def same_owner(one: bytes, other: bytes) -> bool:
    """Whether two requests came under the same credentials; takes as long whatever differs."""
    return hmac.compare_digest(one, other)


def conversation_of(headers: Iterable[tuple[bytes, bytes]], owner: bytes) -> bytes | None:
    """The key of the conversation that a request names, if it names one."""
    named = []
    for name, value in headers:
        if name.lower() == CONVERSATION:
            named.append(value.strip())
    return hashlib.sha256(owner + b"\0".join(named)).digest() if any(named) else None


class Conversations:
    """The turn under way in each conversation that was named."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, Stoppable] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    async def begin(self, conversation: bytes, turn_id: str, turn: Stoppable) -> None:  # noqa: ARG002 -- its workers need the id
        """A turn begins; whatever was under way in its conversation is superseded."""
        self.supersede(conversation, turn)

    def supersede(self, conversation: bytes, turn: Stoppable) -> None:
        """Have the turn under way in its conversation, and no other."""
        older = self._under_way.get(conversation)
        self._under_way[conversation] = turn
        if older is not None:
            older.stop(SUPERSEDED)

    def end(self, conversation: bytes, turn_id: str, turn: Stoppable) -> None:  # noqa: ARG002 -- likewise
        """The turn is over."""
        if self._under_way.get(conversation) is turn:
            del self._under_way[conversation]
