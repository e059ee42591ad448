"""Redacted captures of turns, while the gate runs: `capture = "blocked"` or `"all"` of an upstream.

A turn that is to be captured has its bytes remembered as they go to the framer, and nothing else is done before it is over. Then
it waits in a bounded queue for the process that redacts it (`turngate.redact.worker`). Whatever does not fit, fails or
takes too long is counted and dropped; no turn ever waits for its capture, and nothing reaches a disk that is not redacted.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import structlog

from turngate.config import CaptureConfig, CaptureTurns, Config, UpstreamConfig
from turngate.core.finding import Level
from turngate.core.frame import Frame, Framer
from turngate.core.framing import Framing
from turngate.core.policy import MIB
from turngate.core.session import HeldBudget, Session
from turngate.core.verdict import Outcome, Reason, Verdict
from turngate.ledger.entry import TurnStart
from turngate.offline.reply import End
from turngate.redact.captured import LENGTH_BYTES, CapturedTurn, Result

MAX_WAITING_BYTES = 64 * MIB
"""Bytes of all turns that are remembered or wait to be redacted, an eighth of what all turns may hold."""

REDACT_TIMEOUT_S = 60.0
"""A turn of the largest size takes some seconds."""

CLOSE_S = 5.0
"""How long the end of the gate waits for captures: they are worth less than a quick end."""

UNSHOWN = frozenset({
    Reason.STOPPED_BY_OPERATOR, Reason.SUPERSEDED, Reason.DUPLICATE_DELIVERY, Reason.LEDGER_UNAVAILABLE, Reason.SHUTDOWN,
    Reason.RESTART, Reason.GATE_FAILURE, Reason.CONFIRMATION_EXPIRED,
})  # fmt: skip
"""Reasons that lie outside of the turn, so that no fixture of it could show them."""

_log = structlog.get_logger("turngate")


class Tape:
    """A framer that remembers what goes through it, up to a limit."""

    may_miss_repeats = False

    def __init__(self, framer: Framer, request: bytes, *, limit: int, budget: HeldBudget) -> None:
        self.request = request
        self.lost = False
        """Whether it is incomplete and of no use."""
        self._framer = framer
        self._limit = limit
        self._budget = budget
        self._pieces: list[bytes] = []
        self._size = 0
        self._take(len(request))

    @property
    def reply(self) -> bytes:
        """Everything that went through."""
        return b"".join(self._pieces)

    def receive_data(self, data: bytes) -> list[Frame]:
        """Remember a read, and cut it."""
        self.remember(data)
        return self._framer.receive_data(data)

    def remember(self, data: bytes) -> None:
        """Remember a read."""
        if not self.lost and self._take(len(data)):
            self._pieces.append(data)

    def receive_eof(self) -> list[Frame]:
        """Give what is left."""
        return self._framer.receive_eof()

    def _take(self, size: int) -> bool:
        if self._size + size > self._limit or not self._budget.take(size):
            self.lost = True
            self.clear()
            return False
        self._size += size
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._budget.give(self._size)
        self._size = 0
        self._pieces = []
        self.request = b""


class Captures:
    """The way from turns that are over to the folder of their redacted captures."""

    def __init__(self, config: CaptureConfig) -> None:
        self.results: Counter[Result] = Counter(dict.fromkeys(Result, 0))
        """What became of the turns that were to be captured."""
        self._config = config
        self._budget = HeldBudget(MAX_WAITING_BYTES)
        self._waiting: deque[tuple[CapturedTurn, Tape]] = deque()
        self._worker: asyncio.subprocess.Process | None = None
        self._working: asyncio.Task[None] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The results, in words."""
        return {result.value: number for result, number in self.results.items()}

    @property
    def worker_pid(self) -> int | None:
        """The process that redacts, if there is one now."""
        return None if self._worker is None else self._worker.pid

    def tape(self, framer: Framer, request: bytes) -> Tape:
        """A framer for a turn that may be captured."""
        return Tape(framer, request, limit=self._config.max_turn_bytes, budget=self._budget)

    def keep(
        self,
        tape: Tape,
        upstream: UpstreamConfig,
        start: TurnStart,
        session: Session,
        framing: Framing,
        pinned: Mapping[str, Any],
    ) -> None:
        """Have a turn that is over redacted, if it is one of those that are wanted."""
        verdict = session.verdict
        if verdict is None or not _is_wanted(verdict, upstream.capture):
            tape.clear()
            return
        if tape.lost or len(self._waiting) >= self._config.queue:
            tape.clear()
            self._count(start.turn_id, Result.DROPPED)
            return
        self._waiting.append((_captured(tape, upstream, start, session, framing, pinned, verdict), tape))
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work())

    def _count(self, turn_id: str, result: Result) -> None:
        self.results[result] += 1
        log = _log.info if result is Result.WRITTEN else _log.warning
        log("capture", turn=turn_id, result=result.value)

    async def _work(self) -> None:
        while self._waiting:
            turn, tape = self._waiting.popleft()
            try:
                async with asyncio.timeout(REDACT_TIMEOUT_S):
                    result = await self._redact(turn)
            except Exception:  # noqa: BLE001 -- no process, a dead one, one that hangs: it costs a capture, and the next has a new one
                result = Result.FAILED
                await self._end_worker(kill=True)
            finally:
                tape.clear()
            self._count(turn.turn_id, result)

    async def _redact(self, turn: CapturedTurn) -> Result:
        worker = self._worker = self._worker or await self._start_worker()
        if worker.stdin is None or worker.stdout is None:
            raise OSError("a process without pipes")
        message = msgspec.msgpack.encode(turn)
        worker.stdin.write(len(message).to_bytes(LENGTH_BYTES))
        worker.stdin.write(message)
        await worker.stdin.drain()
        return Result((await worker.stdout.readline()).decode().strip())

    async def _start_worker(self) -> asyncio.subprocess.Process:
        config = self._config
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "turngate.redact.worker", str(config.dir), str(config.max_files), str(config.max_bytes),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

    async def _end_worker(self, *, kill: bool) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if kill:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
        if worker.stdin is not None:
            worker.stdin.close()
        await worker.wait()

    async def close(self) -> None:
        """Redact what still waits, if that does not take long, and end the process."""
        kill = False
        if self._working is not None:
            done, _ = await asyncio.wait([self._working], timeout=CLOSE_S)
            kill = not done
            if kill:
                self._working.cancel()
                await asyncio.wait([self._working])
        for turn, tape in self._waiting:
            tape.clear()
            self._count(turn.turn_id, Result.DROPPED)
        self._waiting.clear()
        await self._end_worker(kill=kill)


def _is_wanted(verdict: Verdict, turns: CaptureTurns) -> bool:
    wanted = turns is CaptureTurns.ALL or (
        turns is CaptureTurns.BLOCKED and verdict.outcome is Outcome.BLOCKED
    )
    return wanted and verdict.reason not in UNSHOWN


def _captured(
    tape: Tape,
    upstream: UpstreamConfig,
    start: TurnStart,
    session: Session,
    framing: Framing,
    pinned: Mapping[str, Any],
    verdict: Verdict,
) -> CapturedTurn:
    end = End.BROKEN if session.turn.clean_end is False else End.COMPLETE
    method, _, path = start.route.partition(" ")
    called = {slot.name for slot in session.turn.slots.values()}
    policy = upstream.policy
    return CapturedTurn(
        turn_id=start.turn_id,
        dialect=start.dialect,
        method=method,
        path=path,
        request=tape.request,
        reply=tape.reply,
        framing=framing.name,
        end=End.CANCELLED if verdict.outcome is Outcome.CANCELLED else end,
        preset=upstream.preset,
        accept=sorted(policy.accept),
        harmless=sorted(policy.harmless),
        forbidden_provider_tools=sorted(policy.forbidden_provider_tools),
        mode=policy.mode,
        pinned={name: schema for name, schema in pinned.items() if name in called},
        outcome=verdict.outcome,
        reason=verdict.reason,
        codes=list(verdict.codes),
        warnings=[finding.code for finding in verdict.findings if finding.level is Level.WARNING],
    )


@contextlib.asynccontextmanager
async def open_captures(config: Config) -> AsyncIterator[Captures | None]:
    """The captures of the configured upstreams; None where none of them has any."""
    if all(upstream.capture is CaptureTurns.OFF for upstream in config.upstreams.values()):
        yield None
        return
    captures = Captures(config.capture)
    try:
        yield captures
    finally:
        await captures.close()
