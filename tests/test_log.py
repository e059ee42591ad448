"""Logs: what one line looks like, what it may never do, and that nobody logs past it."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from turngate.config import LogConfig, LogFormat
from turngate.log import configure

HOSTILE = "a\nb\x1b[2J\x9b\u202e\u2028\x7f"
SPELT = r"a\x0ab\x1b[2J\x9b\u202e\u2028\x7f"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(captured: pytest.CaptureFixture[str]) -> list[str]:
    out, err = captured.readouterr()
    assert out == ""
    return err.splitlines()


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogConfig(LogFormat.JSON))
    structlog.get_logger("turngate").info("turn", outcome="blocked", codes=["unknown_tool"], calls=2)
    (line,) = lines(capsys)
    entry = json.loads(line)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "event": "turn",
        "level": "info",
        "outcome": "blocked",
        "codes": ["unknown_tool"],
        "calls": 2,
    }


def test_console_is_one_line_without_colours_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogConfig())
    structlog.get_logger("turngate").info("turn", outcome="blocked")
    (line,) = lines(capsys)
    assert "turn" in line
    assert "outcome=blocked" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("form", LogFormat)
def test_text_of_the_wire_neither_forges_a_line_nor_drives_a_terminal(
    form: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(LogConfig(form))
    structlog.get_logger("turngate").info(HOSTILE, tool=HOSTILE, tools=[HOSTILE])
    (line,) = lines(capsys)
    assert line.isprintable()
    said = json.loads(line) if form is LogFormat.JSON else None
    if said is not None:
        assert (said["event"], said["tool"], said["tools"]) == (SPELT, SPELT, [SPELT])


def test_each_control_alone_is_spelt_out_wherever_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """Most lines have none, and are not looked at field by field."""
    configure(LogConfig(LogFormat.JSON))
    log = structlog.get_logger("turngate")
    controls = [
        *range(0x20),
        *range(0x7F, 0xA0),
        0x2028,
        0x2029,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ]
    for code in controls:
        log.info("turn", tool=chr(code), tools=["a", f"b{chr(code)}"])
    said = [json.loads(line) for line in lines(capsys)]
    spelt = [f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in controls]
    assert [(line["tool"], line["tools"]) for line in said] == [(text, ["a", f"b{text}"]) for text in spelt]
    for text in ('a "b"', "a\\b", "\u00a0", "\u00e9\u4e16", "\U0001f600"):
        log.info("turn", tool=text)
        assert json.loads(lines(capsys)[0])["tool"] == text


@pytest.mark.parametrize("form", LogFormat)
def test_a_traceback_keeps_its_lines_and_no_other_control(
    form: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(LogConfig(form))
    try:
        raise RuntimeError("\x1b[2J")  # noqa: TRY301 -- a traceback is what this is about
    except RuntimeError:
        structlog.get_logger("turngate").error("failed", exc_info=True)
    out = capsys.readouterr().err
    assert "RuntimeError: \\x1b[2J" in out.replace("\\\\", "\\")
    assert "\x1b" not in out
    assert len(out.splitlines()) == 1 if form is LogFormat.JSON else len(out.splitlines()) > 2


def test_uvicorns_lines_take_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    configure(LogConfig(LogFormat.JSON))
    logging.getLogger("uvicorn.error").warning("bad request from %s", "\x1b[2J")
    logging.getLogger("uvicorn.access").info("GET /v1/secret")
    (line,) = lines(capsys)
    entry = json.loads(line)
    assert (entry["level"], entry["event"]) == ("warning", r"bad request from \x1b[2J")


def test_what_is_bound_is_said_with_each_line_that_has_no_word_of_its_own_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(LogConfig(LogFormat.JSON))
    log = structlog.get_logger("turngate").bind(trace_id="a", span_id="b")
    log.info("turn", span_id="c")
    log.info("turn")
    said = [json.loads(line) for line in lines(capsys)]
    assert [(line["event"], line["trace_id"], line["span_id"]) for line in said] == [
        ("turn", "a", "c"),
        ("turn", "a", "b"),
    ]


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_what_is_below_the_level_is_not_written(
    level: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(LogConfig(level=level))
    log = structlog.get_logger("turngate")
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("said")
    assert len(lines(capsys)) == count


def test_a_log_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write to this device says that no space is left."""
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115 -- its end fails too
    try:
        with pytest.raises(OSError, match="No space"):
            full.write("a line\n")
        monkeypatch.setattr(sys, "stderr", full)
        configure(LogConfig(LogFormat.JSON))
        structlog.get_logger("turngate").error("turn")
        logging.getLogger("uvicorn.error").error("turn")
    finally:
        with contextlib.suppress(OSError):
            full.close()


def test_a_line_says_when_in_utc_to_the_microsecond(capsys: pytest.CaptureFixture[str]) -> None:
    for form in LogFormat:
        configure(LogConfig(form))
        before = datetime.now(UTC)
        structlog.get_logger("turngate").info("turn")
        (line,) = lines(capsys)
        said = json.loads(line)["timestamp"] if form is LogFormat.JSON else line.split()[0]
        assert said.endswith("Z")
        assert before <= datetime.fromisoformat(said) <= datetime.now(UTC)
