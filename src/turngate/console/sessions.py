"""Who is logged in: random names for live tokens, kept in this process alone.

A session is good for nothing once its token is not: that is asked with each request, as it is for a request with the token
itself. What is kept is the hash of the cookie's value, so a copy of the memory logs nobody in. OWASP's Session Management
Cheat Sheet is the list that this follows: a new random value at each login, an end on the server, nothing in it.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from turngate.bearer import digest
from turngate.operator.tokens import Token

LIFETIME_S: Final = 8 * 3600.0
"""A shift. Pages ask again by themselves while they are open, so idleness cannot be told."""
PER_TOKEN: Final = 8
PENDING: Final = 16


@dataclasses.dataclass(slots=True)
class Session:
    """One login."""

    token: Token
    expires_at: float
    """By the monotonic clock."""
    pending: OrderedDict[str, Any] = dataclasses.field(default_factory=OrderedDict)
    """What was shown for review, by its ticket."""

    def keep(self, reviewed: object) -> str:
        """Remember what was shown; the ticket confirms exactly that."""
        ticket = secrets.token_urlsafe(18)
        self.pending[ticket] = reviewed
        if len(self.pending) > PENDING:
            self.pending.popitem(last=False)
        return ticket


class Sessions:
    """All logins. `lives` says whether a token is still good."""

    def __init__(
        self,
        lives: Callable[[Token], bool],
        *,
        lifetime_s: float = LIFETIME_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lives = lives
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def open(self, token: Token) -> str:
        """Log in; the result is the cookie's value. One login too many ends the oldest with the same token."""
        self._forget_dead()
        same = [key for key, session in self._sessions.items() if session.token.id == token.id]
        for key in same[: max(0, len(same) - PER_TOKEN + 1)]:
            del self._sessions[key]
        secret = secrets.token_urlsafe(32)
        self._sessions[digest(secret)] = Session(token, self._clock() + self._lifetime_s)
        return secret

    def find(self, secret: str | None) -> Session | None:
        """The live login with this cookie."""
        session = None if secret is None else self._sessions.get(digest(secret))
        return session if session is not None and self._is_live(session) else None

    def close(self, secret: str) -> None:
        """Log out."""
        self._sessions.pop(digest(secret), None)

    def _is_live(self, session: Session) -> bool:
        return self._clock() < session.expires_at and self._lives(session.token)

    def _forget_dead(self) -> None:
        self._sessions = {key: each for key, each in self._sessions.items() if self._is_live(each)}
