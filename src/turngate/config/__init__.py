"""Configuration: one TOML file, overridden by `TURNGATE_*` variables, overridden by flags.

model     what the rest of the program sees: frozen dataclasses
keys      every key, with how its value is read
base_url  an upstream's URL, read
pinned    the operator's own tool schemas
traces    where spans go, as the configuration or OpenTelemetry's variables have it
load      files, variables and flags into a `Config`, or into one message that lists everything wrong
"""

from turngate.config.load import Override, load_config
from turngate.config.model import (
    CaptureConfig,
    CaptureTurns,
    Config,
    LedgerConfig,
    LogConfig,
    LogFormat,
    OperatorConfig,
    ServerConfig,
    Unjudged,
    UpstreamConfig,
)
from turngate.config.traces import TracesConfig

__all__ = [
    "CaptureConfig",
    "CaptureTurns",
    "Config",
    "LedgerConfig",
    "LogConfig",
    "LogFormat",
    "OperatorConfig",
    "Override",
    "ServerConfig",
    "TracesConfig",
    "Unjudged",
    "UpstreamConfig",
    "load_config",
]
