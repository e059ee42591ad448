"""Configuration: one TOML file, overridden by `TURNGATE_*` variables, overridden by flags.

model     what the rest of the program sees: frozen dataclasses
keys      every key, with how its value is read
base_url  an upstream's URL, read
pinned    the operator's own tool schemas
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
    "Unjudged",
    "UpstreamConfig",
    "load_config",
]
