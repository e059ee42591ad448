from __future__ import annotations

import hashlib

from turngate.core.gate import Gate, GateState, Move, Signal


def test_a_gate_releases_what_it_held_once_and_only_after_the_verdict() -> None:
    gate = Gate()
    assert gate.step(Signal.TOOL) is Move.HOLD
    gate.hold(b"a")
    gate.hold(b"b")
    assert gate.release() == b""
    assert gate.digest() == hashlib.sha256(b"ab").hexdigest()
    assert gate.step(Signal.PASS) is Move.RELEASE
    assert gate.release() == b"ab"
    assert gate.release() == b""
    assert (gate.held_bytes, gate.held_frames) == (2, 2)


def test_a_blocked_gate_gives_nothing_whatever_follows() -> None:
    gate = Gate()
    gate.step(Signal.TOOL)
    gate.hold(b"a")
    gate.step(Signal.FAIL)
    assert [gate.step(signal) for signal in Signal] == [Move.DROP] * len(Signal)
    assert gate.state is GateState.BLOCKED
    assert gate.release() == b""


def test_discarded_bytes_cannot_be_released() -> None:
    gate = Gate()
    gate.step(Signal.TOOL)
    gate.hold(b"a")
    gate.discard()
    gate.step(Signal.PASS)
    assert gate.release() == b""
