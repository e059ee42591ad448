"""Logs: one structured line a turn, on standard error, and nothing that was said in it.

Everything that logs, uvicorn included, goes through one pipeline. Text of the wire (tool names, paths) is escaped, so that it can
neither forge a line nor drive a terminal.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from turngate.config.model import LogConfig, LogFormat

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(_CONTROLS)
    if isinstance(value, list | tuple):
        return [_escaped(each) for each in value]
    return value


def escape_controls(_logger: Any, _name: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Spell out control characters in every field but a traceback of our own."""
    for key, value in line.items():
        if key != "exception":
            line[key] = _escaped(value)
    return line


def configure(config: LogConfig) -> None:
    """Send all logging through one pipeline, in the configured format and from the configured level on."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if config.format is LogFormat.JSON:
        last: list[structlog.typing.Processor] = [
            structlog.processors.format_exc_info,
            escape_controls,
            structlog.processors.JSONRenderer(),
        ]
    else:
        last = [
            escape_controls,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                # The default one prints the local variables, and with them what was said.
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
