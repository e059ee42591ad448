from __future__ import annotations

import threading
import time

from turngate.ledger.write_queue import CROWD, WriteQueue

FOREVER = 3600.0


def test_an_urgent_job_takes_the_patient_ones_before_it_along() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=FOREVER, spacing_s=0, batch_limit=10)
    jobs.put(1, urgent=False)
    jobs.put(2, urgent=True)

    assert jobs.take() == [1, 2]


def test_patient_jobs_are_taken_after_they_have_gathered() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=0.01, spacing_s=0, batch_limit=10)
    jobs.put(1, urgent=False)
    jobs.put(2, urgent=False)

    assert jobs.take() == [1, 2]


def test_a_full_batch_of_patient_jobs_does_not_wait() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=FOREVER, spacing_s=0, batch_limit=2)
    for job in range(5):
        jobs.put(job, urgent=False)

    assert [jobs.take(), jobs.take(), jobs.take()] == [[0, 1], [2, 3], [4]]


def test_a_closed_queue_is_drained_and_then_empty() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=FOREVER, spacing_s=0, batch_limit=2)
    for job in range(3):
        jobs.put(job, urgent=False)
    jobs.close()

    assert [jobs.take() for _ in range(4)] == [[0, 1], [2], [], []]


def test_nothing_is_lost_or_reordered_between_threads() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=0.0, spacing_s=0, batch_limit=7)
    taken: list[int] = []

    def take_all() -> None:
        while batch := jobs.take():
            taken.extend(batch)

    taker = threading.Thread(target=take_all)
    taker.start()
    for job in range(5000):
        jobs.put(job, urgent=job % 11 == 0)
        if job % 500 == 0:
            time.sleep(0.001)
    jobs.close()
    taker.join(30)

    assert list(range(5000)) == taken


def test_urgent_jobs_of_the_same_moment_are_taken_together() -> None:
    """The first take is free; what comes within the distance after it waits for it to pass, and is then one batch."""
    jobs: WriteQueue[int] = WriteQueue(gather_s=FOREVER, spacing_s=0.5, batch_limit=10)
    jobs.put(1, urgent=True)
    assert jobs.take() == [1]
    jobs.put(2, urgent=True)
    feeder = threading.Timer(0.02, jobs.put, (3,), {"urgent": True})
    feeder.start()
    assert jobs.take() == [2, 3]
    feeder.join()


def test_a_crowd_does_not_wait_for_the_distance() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=FOREVER, spacing_s=FOREVER, batch_limit=100)
    jobs.put(0, urgent=True)
    assert jobs.take() == [0]
    for size, waits in ((CROWD, True), (10, False), (10, True)):
        for job in range(size - waits):
            jobs.put(job, urgent=True)
        feeder = threading.Timer(0.02, jobs.put, (size - 1,), {"urgent": True})
        if waits:
            feeder.start()
        assert jobs.take() == list(range(size))
        if waits:
            feeder.join()


def test_patient_jobs_are_no_crowd() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=0.0, spacing_s=0.2, batch_limit=100)
    jobs.put(0, urgent=True)
    assert jobs.take() == [0]
    began = time.monotonic()
    for job in range(3 * CROWD):
        jobs.put(job, urgent=False)
    assert jobs.take() == list(range(3 * CROWD))
    assert time.monotonic() - began >= 0.19


def test_closing_ends_the_distance() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=FOREVER, spacing_s=FOREVER, batch_limit=100)
    jobs.put(0, urgent=True)
    assert jobs.take() == [0]
    jobs.put(1, urgent=True)
    closer = threading.Timer(0.02, jobs.close)
    closer.start()
    assert jobs.take() == [1]
    assert jobs.take() == []
    closer.join()


def test_what_a_full_batch_left_over_does_not_wait_for_the_distance() -> None:
    jobs: WriteQueue[int] = WriteQueue(gather_s=FOREVER, spacing_s=FOREVER, batch_limit=2)
    for job in range(5):
        jobs.put(job, urgent=job == 0)

    assert [jobs.take(), jobs.take(), jobs.take()] == [[0, 1], [2, 3], [4]]
