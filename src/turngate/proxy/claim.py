"""May I run this call? `POST /turngate/turns/{turn}/calls/{call}/claim`.

Granted once, only for a released call that no operator has stopped since, and only under the credentials that the turn was asked
for with. `call` is the call's id, or `CHOICE:SLOT` where the format has none. With an `Idempotency-Key`, a repeat gets the first
answer again. turngate runs nothing: the answer names the call, and the digest of its arguments to compare with.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from turngate.core.event import RunsOn
from turngate.errors import LedgerError
from turngate.ledger.claim import Claim
from turngate.ledger.entry import CallEntry, TurnEntry
from turngate.ledger.store import Ledger, Refusal
from turngate.proxy.ownership import owner_of

KEY_LIMIT: Final = 128
Endpoint = Callable[[Request], Awaitable[JSONResponse]]
FindTurn = Callable[[str], Awaitable[TurnEntry | None]]


def owner_digest(ledger: Ledger, owner: bytes) -> str:
    """What the ledger keeps of an owner."""
    return ledger.argument_digest("owner", 0, "", owner)


def claim_call(ledger: Ledger, find: FindTurn) -> Endpoint:
    """The endpoint; `find` looks a recorded turn up."""

    async def claim(request: Request) -> JSONResponse:
        key = request.headers.get("idempotency-key", "")
        if len(key) > KEY_LIMIT:
            return _problem(400, "invalid_request", f"Idempotency-Key has more than {KEY_LIMIT} characters.")
        names = request.path_params
        try:
            turn = await find(names["turn_id"])
            owner = owner_digest(ledger, owner_of(request.headers.raw))
            if turn is None or not hmac.compare_digest(turn.owner.encode(), owner.encode()):
                return _problem(404, "not_found", "No such turn of yours.")
            call = _call(turn, names["call"])
            if call is None:
                return _problem(404, "not_found", "The turn has no such call for an agent.")
            asked = Claim(turn_id=turn.turn_id, choice=call.choice, slot=call.slot, key=key, at=time.time())
            answer = await ledger.claim(asked)
        except LedgerError:
            return _problem(503, "ledger_unavailable", "The ledger does not answer, so nothing is granted.")
        if isinstance(answer, Refusal):
            return _refused(turn, answer)
        return JSONResponse({"granted": True, "claim": answer, **_named(turn, call)})

    return claim


def _call(turn: TurnEntry, named: str) -> CallEntry | None:
    """The call of that id, if it is the only one, or of that `CHOICE:SLOT`."""
    calls = [call for call in turn.calls if call.runs_on is RunsOn.AGENT]
    found = [call for call in calls if call.call_id == named] or [
        call for call in calls if f"{call.choice}:{call.slot}" == named
    ]
    return found[0] if len(found) == 1 else None


def _named(turn: TurnEntry, call: CallEntry) -> dict[str, Any]:
    return {
        "turn": turn.turn_id,
        "call": call.call_id,
        "choice": call.choice,
        "slot": call.slot,
        "tool": call.tool,
        "argument_bytes": call.argument_bytes,
        "argument_hmac": call.argument_hmac,
    }


_WHY: Final = {
    "duplicate_delivery": "It was claimed before.",
    "turn_cancelled": "Its turn was not released.",
}


def _refused(turn: TurnEntry, refusal: Refusal) -> JSONResponse:
    message = _WHY.get(refusal.code, "An operator has stopped it.")
    error = {"message": message, "code": refusal.code.value}
    return JSONResponse({"granted": False, "turn": turn.turn_id, "error": error}, status_code=409)


def _problem(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"granted": False, "error": {"message": message, "code": code}}, status_code=status)
