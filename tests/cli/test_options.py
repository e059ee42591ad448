"""Options that several commands share, on a command of one's own."""

from __future__ import annotations

import click
from click.testing import CliRunner

from turngate.cli.options import TURN_FILTERS, together


@click.command()
@together(click.option("--first"), click.option("--second"))
@TURN_FILTERS
def asked(**given: str | None) -> None:
    click.echo(" ".join(f"{name}={value}" for name, value in given.items() if value is not None))


def test_options_given_together_are_listed_in_their_order() -> None:
    told = CliRunner().invoke(asked, ["--help"]).stdout
    names = ("--first", "--second", "--tenant", "--upstream", "--tool", "--response", "--outcome", "--reason")
    assert sorted(names, key=told.index) == list(names)


def test_turns_are_asked_for_by_the_words_of_the_ledger() -> None:
    told = CliRunner().invoke(asked, ["--second", "2", "--response", "r1", "--outcome", "blocked"])
    assert sorted(told.stdout.split()) == ["outcome=blocked", "response_id=r1", "second=2"]
    unknown = CliRunner().invoke(asked, ["--reason", "whim"])
    assert unknown.exit_code == 2
    assert "'whim' is not one of" in unknown.stderr
