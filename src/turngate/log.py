"""Logs: one structured line a turn, on standard error, and nothing that was said in it.

Everything that logs, uvicorn included, goes through one pipeline. Text of the wire (tool names, paths) is escaped, so that it can
neither forge a line nor drive a terminal. A line of JSON is one a turn, where each call is felt: so it is looked at as a whole first.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO, cast

import msgspec
import structlog

from turngate.config.model import LogConfig, LogFormat

_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}
"""C0 and C1 controls, line and paragraph separators, and what turns the writing direction."""
_CONTROLS_IN_TRACEBACK = {code: text for code, text in _CONTROLS.items() if code != ord("\n")}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isprintable() else value.translate(_CONTROLS)
    if isinstance(value, list | tuple):
        return [_escaped(each) for each in value]
    return value


def escape_controls(_logger: Any, _name: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Spell out control characters in every field; a traceback keeps its own line feeds."""
    for key, value in line.items():
        if key == "exception" and isinstance(value, str):
            line[key] = value.translate(_CONTROLS_IN_TRACEBACK)
        elif not (value.__class__ is str and value.isprintable()):
            line[key] = _escaped(value)
    return line


def complete(logger: Any, name: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the level, the time, and the traceback where there is one."""
    line["level"] = name
    # As `isoformat` has it, at a quarter of the price.
    line["timestamp"] = msgspec.to_builtins(datetime.now(UTC))
    return structlog.processors.format_exc_info(logger, name, line) if "exc_info" in line else line


def json_line(logger: Any, name: str, line: MutableMapping[str, Any]) -> str:
    """One line of JSON. In ASCII without an escape there is no control but DEL in any field, and so nothing to spell out."""
    text = _as_json(line)
    if "\\" in text or "\x7f" in text or not text.isascii():
        text = _as_json(escape_controls(logger, name, line))
    return text


def _as_json(line: MutableMapping[str, Any]) -> str:
    """A field of some other type, or half a surrogate pair, is spelt as Python does."""
    try:
        return msgspec.json.encode(line).decode()
    except (TypeError, ValueError):
        return json.dumps(line, default=repr)


class Logger(structlog.BoundLoggerBase):
    """A logger that hands its fields on as they are: structlog's own copies them thrice, which is half of what a line costs."""

    least = logging.NOTSET
    """The level below which nothing is said."""

    def debug(self, event: str, /, **line: Any) -> None:
        """Say what only a developer wants to know."""
        self._say(logging.DEBUG, "debug", event, line)

    def info(self, event: str, /, **line: Any) -> None:
        """Say what has happened."""
        self._say(logging.INFO, "info", event, line)

    def warning(self, event: str, /, **line: Any) -> None:
        """Say what somebody should look at."""
        self._say(logging.WARNING, "warning", event, line)

    def error(self, event: str, /, **line: Any) -> None:
        """Say what has failed."""
        self._say(logging.ERROR, "error", event, line)

    def _say(self, level: int, name: str, event: str, line: dict[str, Any]) -> None:
        if level < self.least:
            return
        said: Any = {**self._context, **line, "event": event}
        try:
            for process in self._processors:
                said = process(self._logger, name, said)
        except structlog.DropEvent:
            return
        self._logger.msg(said)


class Stream:
    """A stream that loses what it cannot write: a log whose disk is full, or whose reader has gone, ends no turn."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or not."""
        try:  # noqa: SIM105 -- a context manager's calls, for every line
            self._stream.write(text)
        except OSError:
            pass
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, or not."""
        try:  # noqa: SIM105 -- likewise
            self._stream.flush()
        except OSError:
            pass


def configure(config: LogConfig) -> None:
    """Send all logging through one pipeline, in the configured format and from the configured level on."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    stream = Stream(sys.stderr)
    rendering: list[structlog.typing.Processor] = [json_line]
    if config.format is not LogFormat.JSON:
        rendering = [
            escape_controls,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    structlog.configure(
        processors=[complete, *rendering],
        wrapper_class=type("Logger", (Logger,), {"least": level}),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", stream)),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[complete],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
