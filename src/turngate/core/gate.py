"""The gate: whether a frame passes now, waits, or is dropped. One total table.

It never edits bytes: it forwards, holds, releases or drops. Before the first tool signal everything passes in the read that
brought it. From then on the tail of the turn waits in order; only keep-alives, and prose that the dialect declares to
commute, still pass. `RELEASED` and `BLOCKED` have no way out, and in both whatever still arrives is dropped: a late call
cannot follow a released turn, and a blocked turn stays blocked.
"""

from __future__ import annotations

import enum
import hashlib


class GateState(enum.StrEnum):
    """What the gate is doing."""

    PASSING = "passing"
    HOLDING = "holding"
    RELEASED = "released"
    BLOCKED = "blocked"


class Signal(enum.IntEnum):
    """What a frame, or a decision, means to the gate. A frame's signal is the highest of its events'."""

    KEEPALIVE = 0
    COMMUTING = 1
    """Prose that may overtake held frames."""
    ORDERED = 2
    """Harmless, but in its place."""
    TOOL = 3
    """Part of a call that the agent would run, or something that may be one."""
    PASS = 4
    """The verdict: proved, and recorded."""
    FAIL = 5
    """The verdict: not proved; or stopped, overflowed, stalled, cancelled."""


class Move(enum.StrEnum):
    """What happens to the frame, or to what is held."""

    FORWARD = "forward"
    HOLD = "hold"
    RELEASE = "release"
    BLOCK = "block"
    DROP = "drop"


_PASSING = GateState.PASSING  # made for every turn, and a member's lookup through its class is a call
_G = GateState
_S = Signal
_M = Move

GATE_TRANSITIONS: dict[tuple[GateState, Signal], tuple[GateState, Move]] = {
    (_G.PASSING, _S.KEEPALIVE): (_G.PASSING, _M.FORWARD),
    (_G.PASSING, _S.COMMUTING): (_G.PASSING, _M.FORWARD),
    (_G.PASSING, _S.ORDERED): (_G.PASSING, _M.FORWARD),
    (_G.PASSING, _S.TOOL): (_G.HOLDING, _M.HOLD),
    (_G.PASSING, _S.PASS): (_G.RELEASED, _M.DROP),
    (_G.PASSING, _S.FAIL): (_G.BLOCKED, _M.BLOCK),
    (_G.HOLDING, _S.KEEPALIVE): (_G.HOLDING, _M.FORWARD),
    (_G.HOLDING, _S.COMMUTING): (_G.HOLDING, _M.FORWARD),
    (_G.HOLDING, _S.ORDERED): (_G.HOLDING, _M.HOLD),
    (_G.HOLDING, _S.TOOL): (_G.HOLDING, _M.HOLD),
    (_G.HOLDING, _S.PASS): (_G.RELEASED, _M.RELEASE),
    (_G.HOLDING, _S.FAIL): (_G.BLOCKED, _M.BLOCK),
    **{(_G.RELEASED, signal): (_G.RELEASED, _M.DROP) for signal in Signal},
    **{(_G.BLOCKED, signal): (_G.BLOCKED, _M.DROP) for signal in Signal},
}
"""Total over (state, signal); the docs' table is printed from it."""


class Gate:
    """The table, and the bytes it holds. Held bytes can leave through `release` only."""

    __slots__ = ("_held", "held_bytes", "held_frames", "state")

    def __init__(self) -> None:
        self.state = _PASSING
        self.held_bytes = 0
        self.held_frames = 0
        self._held: list[bytes] = []

    def step(self, signal: Signal) -> Move:
        """Move by the table."""
        self.state, move = GATE_TRANSITIONS[self.state, signal]
        return move

    def hold(self, raw: bytes) -> None:
        """Keep a frame's bytes, in order."""
        self._held.append(raw)
        self.held_bytes += len(raw)
        self.held_frames += 1

    def release(self) -> bytes:
        """Everything held, exactly as received; the one way out. Empty unless the table says `RELEASED`."""
        if self.state is not GateState.RELEASED:
            return b""
        held = b"".join(self._held)
        self._held.clear()
        return held

    def digest(self) -> str:
        """SHA-256 of what is held, in hex: what the ledger says was released."""
        digest = hashlib.sha256()
        for raw in self._held:
            digest.update(raw)
        return digest.hexdigest()

    def discard(self) -> None:
        """Forget what is held: the turn was blocked, or its session is over."""
        self._held.clear()
