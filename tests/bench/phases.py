"""The phases of a run: which load, how long, and what is read while it runs.

Every phase is bounded: warm-up, window and drain have fixed lengths, and a watchdog ends a client that overruns them.
"""

from __future__ import annotations

import json
import math
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench import cut, procfs
from tests.bench.native import Provider, running
from tests.bench.targets import Target, request_bytes

PERIOD_S = 0.02
SENTINELS = 3  # finish, usage, [DONE]
QUIET = 0.05  # of one core: an event loop's own timers stay below this
QUIET_SAMPLE_S = 0.1
SETTLE_LIMIT_S = 10.0
WATCHDOG_S = 15.0

Figures = dict[str, float | str | None]
"""The figures of one phase; times in microseconds, memory in bytes, None = not applicable."""


class PhaseError(Exception):
    """The load client did not say what it should."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One load: ``connections`` in a closed loop, each asking for the same script (see provider.c)."""

    name: str
    kind: str  # paced, burst or json: the provider's word
    connections: int
    texts: int = 0
    fragments: int = 0
    spread_ms: int = 0
    warm_ms: int = 500
    window_ms: int = 2500
    drain_ms: int = 6000
    abort: bool = False
    stops: int = 0
    """How often an operator stops all of it."""

    @property
    def model(self) -> str:
        """The provider reads its script from the model's name."""
        return f"bench-{self.kind}-{self.texts}-{self.fragments}"

    @property
    def events(self) -> int:
        """Events of one stream; 0 for a JSON body."""
        if self.kind == "json":
            return 0
        return self.texts + (1 + self.fragments if self.fragments else 0) + SENTINELS

    @property
    def offered_per_s(self) -> float:
        """Events per second that paced streams send when nothing slows them down."""
        return self.connections * self.events / ((self.events - SENTINELS) * PERIOD_S)


def _paced(connections: int) -> Phase:
    spread = 0 if connections == 1 else 1620  # one stream's length: the load is even from then on
    return Phase(
        f"paced{connections}", "paced", connections, 60, 20, spread, warm_ms=spread + 400, window_ms=4000
    )


PHASES = (
    Phase("probe", "burst", 1, texts=1, warm_ms=200, window_ms=1500),
    _paced(1),
    _paced(50),
    _paced(200),
    _paced(1000),
    Phase("burst", "burst", 8, texts=500),
    Phase("turns", "burst", 8, texts=8, fragments=20),
    Phase("json1", "json", 1, warm_ms=200, window_ms=1500),
    Phase("json50", "json", 50, window_ms=2000),
    # Every second stream is held when all are dropped: prose lasts 1.1 s, the streams are 0.7 to 1.5 s old.
    Phase("abort", "paced", 200, 55, 600, spread_ms=800, warm_ms=1000, window_ms=500, abort=True),
    Phase("cut", "paced", 200, 55, 600, spread_ms=800, stops=5),
)


def quick(phase: Phase) -> Phase:
    """The same load in a shorter window: to see that all works, not to quote."""
    shortest = 1700 if phase.kind == "paced" else 500  # a paced stream must begin and end in it
    return replace(phase, window_ms=min(phase.window_ms, shortest))


@dataclass(frozen=True, slots=True)
class Rig:
    """The measuring side: programs, provider and its core."""

    directory: Path
    provider: Provider
    cpu: int


def run(phase: Phase, target: Target, rig: Rig) -> Figures:
    """Put the load on the target and return what was seen."""
    if phase.stops:
        return _stop(phase, target)
    settle_s = quiet_after(target.pid)
    if target.pid is not None:
        procfs.reset_peak_memory(target.pid)
    request = rig.directory / "request.http"
    request.write_bytes(request_bytes(target, phase.model, stream=phase.events > 0))
    numbers = (
        phase.connections,
        phase.spread_ms,
        phase.warm_ms,
        phase.window_ms,
        phase.drain_ms,
        phase.events,
    )
    command = [
        str(rig.directory / "load"),
        target.address,
        str(target.port),
        str(request),
        *map(str, numbers),
    ]
    if phase.abort:
        command.append("abort")
    with running(command, rig.cpu, stdout=subprocess.PIPE) as client:
        limit = (phase.warm_ms + phase.window_ms + phase.drain_ms) / 1000 + WATCHDOG_S
        watchdog = threading.Timer(limit, client.kill)
        watchdog.start()
        try:
            figures = _watch(client, phase, target, rig)
        finally:
            watchdog.cancel()
    return figures | {"settle_s": settle_s}


def _stop(phase: Phase, target: Target) -> Figures:
    """What an operator's stop takes to reach the clients; nothing where there is no operator."""
    if target.operators is None:
        return {}
    quiet_after(target.pid)
    cuts = cut.measure(target, phase.model, phase.connections, phase.spread_ms / 1000, phase.stops)
    return {
        **_percentiles("cut", cuts.told),
        **_percentiles("stop_answer", cuts.answered),
        "broken": cuts.broken,
        "unfinished": cuts.unfinished,
    }


def _percentiles(name: str, seconds: list[float]) -> Figures:
    """By nearest rank."""
    ordered = sorted(seconds)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        f"{name}_{key}_us": ordered[math.ceil(share * len(ordered)) - 1] * 1e6 if ordered else None
        for key, share in shares.items()
    }


def _watch(client: subprocess.Popen[str], phase: Phase, target: Target, rig: Rig) -> Figures:
    assert client.stdout is not None
    _expect(client, "START")
    start, proxy, bench = time.monotonic(), _cpu(target.pid), _bench_cpu(client, rig)
    _expect(client, "ABORTED" if phase.abort else "END")
    elapsed = time.monotonic() - start
    proxy_s, bench_s = _cpu(target.pid) - proxy, _bench_cpu(client, rig) - bench
    after = _watch_abort(target, rig) if phase.abort else {}
    seen = json.loads(client.stdout.readline() or "{}")
    if not seen:
        raise PhaseError(f"{phase.name} on {target.name}: the load client ended without a report")
    peak = procfs.peak_memory(target.pid) if target.pid is not None else None
    figures: Figures = {}
    for name, value in seen.items():
        if isinstance(value, dict):
            figures |= {
                f"{name}_{key}_us" if key != "n" else f"{name}_n": number for key, number in value.items()
            }
        else:
            figures[name] = value
    window_s = float(seen["window_s"])
    figures |= after
    figures |= {
        "events_per_s": seen["events"] / window_s,
        "answers_per_s": seen["window_answers"] / window_s,
        "delivered": seen["events"] / window_s / phase.offered_per_s if phase.kind == "paced" else None,
        "cpu_us_per_event": _share_us(proxy_s, seen["events"]),
        "cpu_us_per_answer": _share_us(proxy_s, seen["window_answers"]),
        "proxy_core": proxy_s / elapsed if target.pid is not None else None,
        "bench_core": bench_s / elapsed,
        "peak_bytes": peak,
    }
    return figures


def _share_us(cpu_s: float, units: int) -> float | None:
    return cpu_s / units * 1e6 if cpu_s and units else None


def _expect(client: subprocess.Popen[str], word: str) -> None:
    assert client.stdout is not None
    line = client.stdout.readline().strip()
    if line != word:
        raise PhaseError(f"the load client said {line!r}, not {word!r}")


def _cpu(pid: int | None) -> float:
    return procfs.cpu_seconds(pid) if pid is not None else 0.0


def _bench_cpu(client: subprocess.Popen[str], rig: Rig) -> float:
    return procfs.cpu_seconds(client.pid) + procfs.cpu_seconds(rig.provider.pid)


def _watch_abort(target: Target, rig: Rig) -> Figures:
    """After all clients hung up: when the provider was let go, and when the proxy had nothing left to do."""
    let_go: list[float] = []
    stopped = threading.Event()

    def watch_provider(begin: float) -> None:
        while not stopped.wait(0.02):
            with suppress(OSError):
                if rig.provider.stats()["streaming"] == 0:
                    let_go.append(time.monotonic() - begin)
                    return

    watcher = threading.Thread(target=watch_provider, args=(time.monotonic(),))
    cpu = _cpu(target.pid)
    watcher.start()
    idle_s = quiet_after(target.pid)
    watcher.join(SETTLE_LIMIT_S)
    stopped.set()
    watcher.join()
    return {
        "idle_s": idle_s,
        "abort_cpu_s": _cpu(target.pid) - cpu if target.pid is not None else None,
        "let_go_s": let_go[0] if let_go else None,
    }


def quiet_after(pid: int | None) -> float | None:
    """Seconds until the process tree used less than QUIET of a core in five samples on end; the limit if it never did."""
    if pid is None:
        return None
    begin = time.monotonic()
    quiet, last_busy, before, cpu = 0, 0.0, begin, procfs.cpu_seconds(pid)
    while quiet < 5 and time.monotonic() - begin < SETTLE_LIMIT_S:
        time.sleep(QUIET_SAMPLE_S)
        at, now_cpu = time.monotonic(), procfs.cpu_seconds(pid)
        busy = (now_cpu - cpu) / (at - before) > QUIET
        quiet, last_busy = (0, at - begin) if busy else (quiet + 1, last_busy)
        before, cpu = at, now_cpu
    return last_busy if quiet == 5 else SETTLE_LIMIT_S
