"""The queue between the event loop and the ledger's writer thread.

Somebody waits for an urgent write, nobody for a patient one. An urgent write wakes the writer at once; patient ones gather for
`gather_s`, because each wake-up of the thread takes the interpreter from the loop, and each commit is a wait for the disk.
First in, first out, whatever the urgency. Under load even urgent writes come in groups: between two batches `spacing_s` passes,
so that a lone release waits for nothing but the disk, and a hundred in the same moment wait for it once. Less passes where as many wait
as the last batch had: no more may come before these are answered.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final, Generic, TypeVar

T = TypeVar("T")

CROWD: Final = 4
"""Urgent jobs, at least, that make the next batch come early: waiting for more of them saves little."""


class WriteQueue(Generic[T]):
    """Jobs for one taker, in batches of at most `batch_limit`.

    The taker sleeps on a lock that whoever wakes it releases: a condition costs the loop ten times as much for each job.
    """

    def __init__(self, *, gather_s: float, spacing_s: float, batch_limit: int) -> None:
        self._gather_s = gather_s
        self._spacing_s = spacing_s
        self._taken_at = 0.0
        self._crowd = CROWD
        self._urgent = 0
        """How many urgent jobs wait, or a few more."""
        self._batch_limit = batch_limit
        self._jobs: deque[T] = deque()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._hurried = False
        """Whether what is queued must be taken now."""
        self._idle = False
        """Whether the taker sleeps until the first job comes, patient or not."""
        self._distant = False
        """Whether the taker sleeps until its distance to the last batch has passed, or a crowd waits."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: T, *, urgent: bool) -> None:
        """Queue a job; never waits."""
        self._jobs.append(job)
        if urgent or len(self._jobs) >= self._batch_limit:
            self._hurried = True
            self._urgent += 1
            if not self._distant or self._urgent >= self._crowd:
                self._ring()
        elif self._idle:
            self._ring()

    def close(self) -> None:
        """Have the taker get what is queued, and then nothing more."""
        self._closed = self._hurried = True
        self._ring()

    def take(self) -> list[T]:
        """Wait for jobs and take them; an empty list means that the queue is closed and drained."""
        while True:
            self._sleep()
            self._keep_distance()
            self._hurried = False  # before the jobs are looked at: whoever hurries has queued his by then
            self._crowd, self._urgent = max(CROWD, self._urgent), 0
            batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), self._batch_limit))]
            if self._jobs or self._closed:
                # What is left has waited long enough, and a closed queue has nothing to gather.
                self._hurried = True
                self._urgent = self._crowd
            if batch or self._closed:
                return batch

    def _ring(self) -> None:
        if self._bell.locked():
            try:
                self._bell.release()
            except RuntimeError:
                return  # somebody else has just rung

    def _sleep(self) -> None:
        """Until somebody hurries, or patient jobs have gathered. The first of these, after a long silence, has to wake the taker."""
        while not self._hurried:
            if self._bell.acquire(timeout=self._gather_s):
                continue
            if self._jobs:
                return
            self._idle = True
            if not self._jobs and not self._hurried:
                self._bell.acquire()
            self._idle = False

    def _keep_distance(self) -> None:
        until = self._taken_at + self._spacing_s
        self._distant = True
        while self._urgent < self._crowd and not self._closed and (left := until - time.monotonic()) > 0:
            self._bell.acquire(timeout=left)
        self._distant = False
        self._taken_at = time.monotonic()
