"""OpenTelemetry spans: one for each turn, made when it is over from what was recorded of it anyway.

turn    what a span says of a turn, and how the trace of a request is continued
export  the queue between the event loop and a collector

Both need the extra `turngate[otel]` and are imported only where `[traces]` or OpenTelemetry's own variables name a collector.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from turngate.config import TracesConfig

if TYPE_CHECKING:
    from turngate.traces.turn import Tracing

__all__ = ["open_traces"]


@contextlib.asynccontextmanager
async def open_traces(config: TracesConfig) -> AsyncIterator[Tracing | None]:
    """What makes spans, while it is open; None where nobody wants them."""
    if config.endpoint is None or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield None
        return
    from turngate.traces.export import open_queue  # noqa: PLC0415 -- an extra, and a second's worth of imports
    from turngate.traces.turn import Tracing  # noqa: PLC0415 -- likewise

    async with open_queue(config) as (provider, counts):
        yield Tracing(provider, counts)
