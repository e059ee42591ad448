"""Where spans go: `[traces]`, or else OpenTelemetry's own variables.

The variables are those of its specification ("Environment Variable Specification", "OpenTelemetry Protocol Exporter"). They are
often set for a whole namespace, so what they ask for and cannot be had is a warning; what the configuration asks for is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

PATH = "/v1/traces"
"""Where a collector takes traces, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class TracesConfig:
    """`[traces]`: spans of turns, for a collector."""

    endpoint: str | None = None
    """The collector's URL; None makes no spans."""
    sample_ratio: float | None = None
    """Which part of the traces that begin here is kept; None leaves it to `OTEL_TRACES_SAMPLER`, and else keeps all."""


def with_path(url: str) -> str:
    """A collector's URL; one that names no path gets the protocol's."""
    return url.rstrip("/") + PATH if urlsplit(url).path in ("", "/") else url


def named_collector(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The collector that OpenTelemetry's variables name, and the variable; None if they want no traces."""
    if (
        environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or environ.get("OTEL_TRACES_EXPORTER") == "none"
    ):
        return None
    if url := environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return url, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
    if url := environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return url.rstrip("/") + PATH, "OTEL_EXPORTER_OTLP_ENDPOINT"
    return None


def speaks_grpc(environ: Mapping[str, str]) -> bool:
    """Whether the variables name a collector that is spoken to in gRPC, which turngate does not."""
    general = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    return environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", general) == "grpc"


def has_exporter() -> bool:
    """Whether the extra `turngate[otel]` is installed."""
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http.trace_exporter") is not None
    except ImportError:
        return False
