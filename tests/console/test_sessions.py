"""Sessions: as long as the token, never longer than a shift, and one of many tabs."""

from __future__ import annotations

from turngate.bearer import digest
from turngate.console.sessions import LIFETIME_S, PENDING, PER_TOKEN, Sessions
from turngate.operator.tokens import Role, Token


def token(token_id: str = "a") -> Token:
    return Token(id=token_id, name="ann", role=Role.VIEWER, sha256="", created_at=0.0)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_found_by_its_cookie_and_by_nothing_else() -> None:
    sessions = Sessions(lambda _: True)
    secret = sessions.open(token())
    session = sessions.find(secret)
    assert session is not None
    assert session.token == token()
    for wrong in (None, "", secret[:-1], digest(secret), "\ud800"):
        assert sessions.find(wrong) is None
    assert secret not in repr(vars(sessions))
    sessions.close(secret)
    assert sessions.find(secret) is None
    sessions.close(secret)


def test_a_session_expires_and_dies_with_its_token() -> None:
    clock, dead = Clock(), set[str]()
    sessions = Sessions(lambda each: each.id not in dead, clock=clock)
    first, second = sessions.open(token("a")), sessions.open(token("b"))
    dead.add("a")
    assert sessions.find(first) is None
    clock.now += LIFETIME_S - 0.001
    assert sessions.find(second) is not None
    clock.now += 0.001
    assert sessions.find(second) is None


def test_one_login_too_many_ends_the_oldest_of_the_same_token() -> None:
    sessions = Sessions(lambda _: True)
    other = sessions.open(token("b"))
    mine = [sessions.open(token("a")) for _ in range(PER_TOKEN + 2)]
    assert [sessions.find(each) is not None for each in mine] == [False] * 2 + [True] * PER_TOKEN
    assert sessions.find(other) is not None


def test_a_ticket_stands_for_what_was_shown_and_old_ones_are_forgotten() -> None:
    sessions = Sessions(lambda _: True)
    session = sessions.find(sessions.open(token()))
    assert session is not None
    tickets = [session.keep(number) for number in range(PENDING + 1)]
    assert len(set(tickets)) == PENDING + 1
    assert tickets[0] not in session.pending
    assert session.pending[tickets[-1]] == PENDING
