"""The queue between the event loop and the ledger's writer thread.

Somebody waits for an urgent write, nobody for a patient one. An urgent write wakes the writer at once; patient ones gather for
`gather_s`, because each wake-up of the thread takes the interpreter from the loop, and each commit is a wait for the disk.
First in, first out, whatever the urgency. Under load even urgent writes come in groups: between two batches `spacing_s` passes,
so that a lone release waits for nothing but the disk, and a hundred in the same moment wait for it once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class WriteQueue(Generic[T]):
    """Jobs for one taker, in batches of at most `batch_limit`."""

    def __init__(self, *, gather_s: float, spacing_s: float, batch_limit: int) -> None:
        self._gather_s = gather_s
        self._spacing_s = spacing_s
        self._taken_at = 0.0
        self._batch_limit = batch_limit
        self._jobs: deque[T] = deque()
        self._arrived = threading.Event()
        self._urgent = threading.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: T, *, urgent: bool) -> None:
        """Queue a job; never waits."""
        self._jobs.append(job)
        if urgent or len(self._jobs) >= self._batch_limit:
            self._urgent.set()
        if not self._arrived.is_set():
            self._arrived.set()

    def close(self) -> None:
        """Have the taker get what is queued, and then nothing more."""
        self._closed = True
        self._urgent.set()
        self._arrived.set()

    def take(self) -> list[T]:
        """Wait for jobs and take them; an empty list means that the queue is closed and drained."""
        while True:
            self._arrived.wait()
            self._urgent.wait(self._gather_s)
            self._keep_distance()
            self._arrived.clear()
            self._urgent.clear()
            batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), self._batch_limit))]
            if self._jobs or self._closed:
                # What is left has waited long enough, and a closed queue has nothing to gather.
                self._urgent.set()
                self._arrived.set()
            if batch or self._closed:
                return batch

    def _keep_distance(self) -> None:
        left = self._taken_at + self._spacing_s - time.monotonic()
        if left > 0 and not self._closed:
            time.sleep(left)
        self._taken_at = time.monotonic()
