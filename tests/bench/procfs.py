"""What a process and its children have used, read from /proc.

CPU comes from ``task/*/schedstat`` (nanoseconds on the core), because ``stat`` counts in ticks of 10 ms. Threads that end
between two readings take their time with them; the proxies measured here keep theirs.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        for task in _tasks(parent):
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of the whole tree so far."""
    spent = 0
    for process in tree(pid):
        for task in _tasks(process):
            with suppress(OSError):
                spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1e9


def peak_memory(pid: int) -> int:
    """Peak resident bytes, summed over the tree; pages that processes share count for each."""
    return sum(_high_water_mark(process) for process in tree(pid))


def reset_peak_memory(pid: int) -> None:
    """Start the high-water mark again at today's size (proc(5), clear_refs), so that each phase has its own."""
    for process in tree(pid):
        with suppress(OSError):
            (PROC / str(process) / "clear_refs").write_text("5")


def _tasks(pid: int) -> list[Path]:
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _high_water_mark(pid: int) -> int:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
