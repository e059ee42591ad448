"""`POST /turngate/turns/{turn}/cancel`: the application ends its own turn, under the credentials that it used.

A turn that is unknown, over, or another's is 404 alike. The answer says how the turn ended: a release that was already
recorded stands, and then its calls are the application's to run or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from turngate.core.verdict import Outcome
from turngate.proxy.ownership import CANCELLED, owner_of, same_owner
from turngate.proxy.relay import Judging, TurnRelay
from turngate.proxy.stop import UnjudgedRequest

PATIENCE_S: Final = 2.0
"""How long a cancelled turn may take to end before the answer says that it is ending."""

_POLL_S: Final = 0.005

Endpoint = Callable[[Request], Awaitable[JSONResponse]]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of a turn that its application cancelled."""

    outcome: Outcome
    ended: bool
    """Whether it is over, or only about to end."""


Canceller = Callable[[str, bytes], Awaitable[Cancelled | None]]
"""Cancels a turn, by its id, for an owner; None if no such turn of theirs is under way."""


def cancel_turn(cancel: Canceller) -> Endpoint:
    """The endpoint."""

    async def endpoint(request: Request) -> JSONResponse:
        turn_id = request.path_params["turn_id"]
        done = await cancel(turn_id, owner_of(request.headers.raw))
        if done is None:
            error = {"message": "No such turn of yours is under way.", "code": "not_found"}
            return JSONResponse({"error": error}, status_code=404)
        return JSONResponse(
            {"turn": turn_id, "outcome": done.outcome, "ended": done.ended},
            status_code=200 if done.ended else 202,
        )

    return endpoint


async def cancel_own(judging: Judging, turn_id: str, owner: bytes) -> Cancelled | None:
    """Cancel a turn of this process."""
    turn = judging.live.get(turn_id) or judging.unjudged.get(turn_id)
    if turn is None or not same_owner(turn.owner, owner):
        return None
    turn.stop(CANCELLED)
    ended = await _ended(judging, turn_id)
    return Cancelled(_outcome(turn), ended)


async def _ended(judging: Judging, turn_id: str) -> bool:
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_S
    while turn_id in judging.live or turn_id in judging.unjudged:
        if loop.time() >= until:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _outcome(turn: TurnRelay | UnjudgedRequest) -> Outcome:
    """How it ended; a turn that was stopped before its reply had a verdict is cancelled."""
    session = turn.session if isinstance(turn, TurnRelay) else None
    verdict = session.verdict if session is not None else None
    return verdict.outcome if verdict is not None else Outcome.CANCELLED
