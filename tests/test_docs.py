"""The documentation says everything that there is, and nothing that there is not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from turngate.cli.main import main
from turngate.config import keys
from turngate.core.finding import Code
from turngate.core.policy import Quirk
from turngate.dialects import DIALECTS
from turngate.ledger.entry import CallEntry, Delivery, TurnEntry
from turngate.presets import PRESETS, Preset

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy" / "README.md"]
EVERYTHING = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def words(text: str) -> set[str]:
    """Everything in backticks, with what stands behind its last dot."""
    quoted = re.findall(r"`([^`\n]+)`", text)
    return {*quoted, *(word.rpartition(".")[2] for word in quoted)}


def test_every_code_has_a_row_and_every_row_a_code() -> None:
    rows = re.findall(r"^\| `([a-z_]+)`", page("finding-codes.md"), re.MULTILINE)
    assert sorted(rows) == sorted(code.value for code in Code)


def test_the_codes_marked_as_not_reported_are_those_that_no_code_reports() -> None:
    marked = set(re.findall(r"^\| `([a-z_]+)` °", page("finding-codes.md"), re.MULTILINE))
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "finding.py" and "offline" not in path.parts  # the proxy is meant
    )
    assert marked == {code.value for code in Code if not re.search(rf"\bCode\.{code.name}\b", source)}


def test_every_row_of_a_code_has_a_level_a_cause_and_a_remedy() -> None:
    for row in re.findall(r"^\| `[a-z_]+`.*$", page("finding-codes.md"), re.MULTILINE):
        _, _, level, cause, remedy, _ = (cell.strip() for cell in row.split("|"))
        assert level in ("error", "warning", "error or warning"), row
        assert cause, row
        assert remedy, row


def test_every_key_is_documented() -> None:
    documented = words(page("config.md"))
    tables = (*keys.SECTIONS.values(), keys.UPSTREAM, keys.LIMITS)
    assert {key for table in tables for key in table} - documented == set()
    assert set(keys.SECTIONS) <= set(re.findall(r"\[([a-z]+)\]", page("config.md")))


def test_every_quirk_and_every_dialect_is_documented() -> None:
    rows = set(re.findall(r"^\| `([a-z0-9_]+)` \|", page("dialects.md"), re.MULTILINE))
    assert {quirk.value for quirk in Quirk} - rows == set()
    assert {dialect.name for dialect in DIALECTS} - rows == set()


def preset_row(preset: Preset) -> str:
    hosts = ", ".join(f"`{'*' if host[0] in '.-' else ''}{host}`" for host in preset.hosts)
    accepted = "; ".join(f"`{quirk}` ({source})" for quirk, source in preset.accept.items())
    return f"| `{preset.name}` | {hosts or 'by name only'} | {accepted or 'nothing'} |"


def test_the_table_of_presets_is_the_presets() -> None:
    table = page("config.md").partition("<!-- presets -->\n")[2].partition("\n<!-- end of presets -->")[0]
    assert table.splitlines()[2:] == [preset_row(preset) for preset in PRESETS]


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        found = command.get_command(context, each)
        assert found is not None
        yield from commands(found, f"{name} {each}")
    if command.invoke_without_command:
        # Last, so that a line of a subcommand is not taken for one of the group.
        yield name, command


COMMANDS = dict(commands(main, "turngate"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    assert name in EVERYTHING
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option):
            assert any(option in EVERYTHING for option in parameter.opts), parameter.opts


def test_every_command_line_in_the_documentation_is_one() -> None:
    lines = re.findall(r"^(?: {4}|\$ )(?:\S*/)?(turngate .+)$", EVERYTHING, re.MULTILINE)
    assert lines
    for line in lines:
        assert any(line.startswith(name) for name in COMMANDS), line
        for option in re.findall(r"--[a-z-]+", line.partition("#")[0]):
            command = next(COMMANDS[name] for name in COMMANDS if line.startswith(name))
            assert any(option in parameter.opts for parameter in command.params), line


def test_every_column_of_the_ledger_is_documented() -> None:
    documented = words(page("ledger.md"))
    for entry in (TurnEntry, CallEntry):
        assert set(entry.__struct_fields__) - {"calls"} - documented == set()
    assert {delivery.value for delivery in Delivery} - documented == set()


@pytest.mark.parametrize("source", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(source: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", source.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        found = (source.parent / file).resolve() if file else source
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in headings}


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_changelog_knows_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
