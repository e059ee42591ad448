"""Spans on their way to a collector: a bounded queue, one thread, OTLP over HTTP.

The event loop only ever appends to the queue. A collector that is slow or gone costs spans, which are counted, and nothing else.
The SDK's own batch processor does the same but says nowhere how many it dropped. Who is spoken to, with which headers and
certificates and for how long, the exporter reads from the `OTEL_EXPORTER_OTLP_*` variables.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from turngate import __version__
from turngate.config import TracesConfig
from turngate.ledger.write_queue import WriteQueue

QUEUE_LIMIT: Final = 2048
"""Spans that may wait, and `BATCH_LIMIT` in one request: the defaults of OpenTelemetry's batch processor."""
BATCH_LIMIT: Final = 512
GATHER_S: Final = 1.0
"""How long spans gather: nobody looks at a trace sooner."""
CLOSE_S: Final = 1.0
"""How long the end of the gate waits for the last spans: they are worth less than a quick end."""


@dataclass(slots=True)
class SpanCounts:
    """What became of the spans."""

    sent: int = 0
    failed: int = 0
    """The collector did not take them."""
    dropped: int = 0
    """The queue was full."""

    def by_result(self) -> dict[str, int]:
        """For whoever counts."""
        return asdict(self)


class SpanQueue(SpanProcessor):
    """Takes spans from the loop's thread and exports them in its own."""

    def __init__(
        self, exporter: SpanExporter, *, gather_s: float = GATHER_S, limit: int = QUEUE_LIMIT
    ) -> None:
        self.counts = SpanCounts()
        self._exporter = exporter
        self._limit = limit
        self._queue: WriteQueue[ReadableSpan] = WriteQueue(
            gather_s=gather_s, spacing_s=0, batch_limit=BATCH_LIMIT
        )
        self._thread = threading.Thread(target=self._export, name="turngate-traces", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that is over; never waits."""
        if len(self._queue) >= self._limit:
            self.counts.dropped += 1
        else:
            self._queue.put(span, urgent=False)

    def shutdown(self) -> None:
        """Send what is queued, for a while, and then give up."""
        self._queue.close()
        self._thread.join(CLOSE_S)
        self._exporter.shutdown()  # ends a wait between two tries, and has what is left fail at once
        self._thread.join(CLOSE_S)

    def _export(self) -> None:
        while batch := self._queue.take():
            try:
                taken = self._exporter.export(batch) is SpanExportResult.SUCCESS
            except Exception:  # noqa: BLE001 -- whatever the exporter cannot do is its collector's loss
                taken = False
            if taken:
                self.counts.sent += len(batch)
            else:
                self.counts.failed += len(batch)


@contextlib.asynccontextmanager
async def open_queue(config: TracesConfig) -> AsyncIterator[tuple[TracerProvider, SpanCounts]]:
    """Where spans are made, and what became of them."""
    # What is below says of each retry, and of each odd header of a request, that there was one.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    ratio = config.sample_ratio
    provider = TracerProvider(
        sampler=None if ratio is None else ParentBasedTraceIdRatio(ratio),
        resource=resource(),
        shutdown_on_exit=False,
    )
    queue = SpanQueue(OTLPSpanExporter(endpoint=config.endpoint))
    provider.add_span_processor(queue)
    try:
        yield provider, queue.counts
    finally:
        await asyncio.to_thread(provider.shutdown)


def resource() -> Resource:
    """Who sends the spans; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win."""
    ours = {SERVICE_NAME: "turngate", SERVICE_VERSION: __version__}
    return Resource.create(ours | dict(OTELResourceDetector().detect().attributes))
