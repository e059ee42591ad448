from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from click.testing import CliRunner

from turngate.cli.demo import demo
from turngate.demo.turns import TURNS


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_the_comparison_is_printed_without_a_key_or_an_sdk() -> None:
    result = CliRunner().invoke(demo, ["--plain", "--pace", "0", "demo", "demo-no-terminal"])

    assert result.exit_code == 0, result.output
    assert "The client is plain accumulator" in result.output
    assert "released, valid" in result.output
    assert "blocked, truncated_by_transport: missing_terminal" in result.output
    assert max(len(line) for line in result.output.splitlines()) <= 100


def test_the_turns_are_listed() -> None:
    result = CliRunner().invoke(demo, ["--list"])

    assert [line.split()[0] for line in result.output.splitlines()] == list(TURNS)


def test_an_unknown_turn_is_refused() -> None:
    assert CliRunner().invoke(demo, ["demo-nothing"]).exit_code == 2
