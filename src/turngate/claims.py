"""Ask the gate, before running a call, whether it may be run: for executors in Python.

    grant = claim("http://127.0.0.1:8484", turn, call_id, headers={"authorization": f"Bearer {key}"}, once=job_id)

`turn` is the reply's header `x-turngate-turn`, `headers` the credentials that the turn was asked for with. Raises
`ClaimRefusedError` if the call was claimed before, stopped since, or never released, and `OSError` if the gate does not answer:
then do not run it.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from turngate.errors import TurngateError


class ClaimRefusedError(TurngateError):
    """The call must not be run; `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Grant:
    """The one permission to run a call."""

    claim: int
    """The number of the ledger's entry."""
    turn: str
    call: str | None
    tool: str | None
    argument_hmac: str | None
    argument_bytes: int


def claim(
    gate: str, turn: str, call: str, *, headers: Mapping[str, str], once: str = "", timeout_s: float = 10.0
) -> Grant:
    """Claim a call. `once` is an idempotency key: a repeat under it gets the same grant, after a crash for instance."""
    names = [urllib.parse.quote(name, safe="") for name in (turn, call)]
    url = f"{gate.rstrip('/')}/turngate/turns/{names[0]}/calls/{names[1]}/claim"
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("the gate's address is http:// or https://")
    sent = {**headers, **({"Idempotency-Key": once} if once else {})}
    request = urllib.request.Request(url, data=b"", headers=sent, method="POST")  # noqa: S310 -- checked above
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:  # noqa: S310
            told: dict[str, Any] = msgspec.json.decode(reply.read())
    except urllib.error.HTTPError as error:
        raise _refused(error) from None
    except http.client.HTTPException as error:
        raise OSError("the gate's answer is cut") from error
    return Grant(
        told["claim"], told["turn"], told["call"], told["tool"], told["argument_hmac"], told["argument_bytes"]
    )


def _refused(error: urllib.error.HTTPError) -> ClaimRefusedError:
    try:
        told = msgspec.json.decode(error.read())["error"]
        return ClaimRefusedError(told["code"], told["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return ClaimRefusedError("unknown", f"The gate answered {error.code}.")
