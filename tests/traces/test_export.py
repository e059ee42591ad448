"""The queue between the loop and a collector that is there, slow, gone or of another mind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from tests.proxy.gated import TOOL_TURN, Run, answering, gated, streamed
from tests.traces.collector import Collector, attributes
from turngate import __version__
from turngate.config import TracesConfig
from turngate.traces import export, open_traces
from turngate.traces.export import SpanQueue


class Scripted(SpanExporter):
    """Answers each batch as it is told; waits for `go` before the first."""

    def __init__(self, answer: Callable[[], SpanExportResult]) -> None:
        self.answer = answer
        self.busy, self.go = threading.Event(), threading.Event()
        self.batches: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.busy.set()
        self.go.wait()
        self.batches.append(len(spans))
        return self.answer()

    def shutdown(self) -> None:
        self.go.set()


def success() -> SpanExportResult:
    return SpanExportResult.SUCCESS


def failure() -> SpanExportResult:
    return SpanExportResult.FAILURE


def bug() -> SpanExportResult:
    raise RuntimeError


@pytest.fixture
def made() -> Iterator[Callable[..., SpanQueue]]:
    """Makes queues, each behind a provider."""
    providers: list[TracerProvider] = []

    def make(exporter: SpanExporter, **settings: float) -> SpanQueue:
        queue = SpanQueue(exporter, gather_s=0, **settings)  # type: ignore[arg-type]
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(queue)
        providers.append(provider)
        return queue

    yield make
    for each in providers:
        each.shutdown()


def end_spans(queue: SpanQueue, count: int) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(queue)
    for _ in range(count):
        provider.get_tracer("test").start_span("turn").end()


def test_a_full_queue_drops_and_counts_and_never_waits(made: Callable[..., SpanQueue]) -> None:
    exporter = Scripted(success)
    queue = made(exporter, limit=3)
    end_spans(queue, 1)
    assert exporter.busy.wait(20)
    end_spans(queue, 5)  # the exporter stands still, so nobody takes these
    assert queue.counts.dropped == 2
    exporter.go.set()
    queue.shutdown()
    assert queue.counts.by_result() == {"sent": 4, "failed": 0, "dropped": 2}


@pytest.mark.parametrize("answer", [failure, bug])
def test_what_the_collector_does_not_take_is_counted_and_the_next_batch_goes_on(
    made: Callable[..., SpanQueue], answer: Callable[[], SpanExportResult]
) -> None:
    exporter = Scripted(answer)
    exporter.go.set()
    queue = made(exporter)
    end_spans(queue, 2)
    queue.shutdown()
    assert queue.counts.by_result() == {"sent": 0, "failed": 2, "dropped": 0}


def test_a_collector_that_never_answers_does_not_hold_up_the_end(
    made: Callable[..., SpanQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "CLOSE_S", 0.01)
    exporter = Scripted(success)
    queue = made(exporter)
    end_spans(queue, 1)
    assert exporter.busy.wait(20)
    queue.shutdown()
    assert exporter.go.is_set()  # the exporter was told to give up


def test_a_dead_collector_costs_a_turn_nothing_and_is_counted(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "CLOSE_S", 0.3)

    async def main() -> None:
        sections = {"traces": {"endpoint": "http://127.0.0.1:1"}}
        async with gated(tmp_path, answering(streamed(TOOL_TURN)), sections=sections) as world:
            assert (await world.ask()).has_call()
            gate = world.gate
        assert gate.tracing is not None
        assert gate.tracing.counts.by_result() == {"sent": 0, "failed": 1, "dropped": 0}
        assert b'turngate_spans_total{result="failed"} 1.0' in gate.metrics.exposition()

    run(main())
    assert not [each for each in caplog.records if each.levelno < logging.ERROR]  # nothing of each retry


def test_the_collector_learns_whose_spans_they_are(
    run: Run, tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(folder: Path) -> dict[str, object]:
        async def main() -> None:
            sections = {"traces": {"endpoint": f"{collector.url}/mine"}}
            async with gated(folder, answering(streamed(TOOL_TURN)), sections=sections) as world:
                await world.ask()

        folder.mkdir()
        run(main())
        return attributes(collector.requests()[-1].resource_spans[0].resource)

    ours = told(tmp_path / "ours")
    assert (ours["service.name"], ours["service.version"]) == ("turngate", __version__)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gate-7")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    theirs = told(tmp_path / "theirs")
    assert (theirs["service.name"], theirs["deployment.environment.name"]) == ("gate-7", "test")
    assert set(collector.paths) == {"/mine"}


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:1/v1/traces"])
def test_nothing_is_opened_without_a_collector_or_where_all_of_it_is_off(
    run: Run, monkeypatch: pytest.MonkeyPatch, endpoint: str | None
) -> None:
    if endpoint is not None:
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    async def main() -> None:
        before = threading.active_count()
        async with open_traces(TracesConfig(endpoint)) as tracing:
            assert tracing is None
            assert threading.active_count() == before

    run(main())
