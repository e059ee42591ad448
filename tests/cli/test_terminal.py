from __future__ import annotations

import json

import pytest

from turngate.cli.terminal import escape, print_json, print_table, shown, utc


def test_what_could_drive_a_terminal_is_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "rm\x1b[2J\u202e\u200b\r\nx\udc80"
    assert escape(hostile) == r"rm\x1b[2J\u202e\u200b\r\nx\udc80"
    print_table(("tool", "state"), [(hostile, None), ("plain", ["a", "b"])])
    print_json({"tool": hostile})
    out = capsys.readouterr().out
    assert out.isascii()
    assert "\x1b" not in out
    assert "a, b" in out
    assert json.loads(out.splitlines()[-1]) == {"tool": hostile}


def test_nothing_is_a_dash_and_times_are_utc() -> None:
    assert shown(None).plain == "-"
    assert utc(0.5) == "1970-01-01 00:00:00.500"
