"""`turngate validate`: the verdict on recorded streams, without a network."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from turngate.cli.ledger import escape
from turngate.core.policy import TurnPolicy
from turngate.core.toolset import Toolset
from turngate.dialects import DIALECTS
from turngate.dialects.base import Dialect
from turngate.judging import Framing, find_dialect, judge_reply, policy_of
from turngate.offline.files import STDIN, InputError, parse_document, read_bytes, walk
from turngate.offline.fixture import check_document, report_of
from turngate.offline.place import places_of
from turngate.offline.report import Report, Status
from turngate.presets import PRESETS
from turngate.schema import Vocabulary

Check = Callable[[Path], tuple[Report, str]]
"""Judges a file; the text that the findings' paths lead into, empty for a raw reply."""


@click.command()
@click.argument(
    "fixtures",
    metavar="FIXTURE...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
)
@click.option(
    "--report", "form", type=click.Choice(["human", "json", "ndjson"]), default="human", show_default=True
)
@click.option(
    "--vocabulary",
    type=click.Choice([each.value for each in Vocabulary]),
    help="How much of JSON Schema tools may use; conservative for the published profiles, else full.",
)
@click.option(
    "--preset",
    type=click.Choice([preset.name for preset in PRESETS]),
    default="strict",
    show_default=True,
    metavar="NAME",
    help="Quirks that the turns of a dialect may have.",
)
@click.option(
    "--dialect",
    type=click.Choice([dialect.name for dialect in DIALECTS]),
    help="Read each FIXTURE as a raw reply in this format.",
)
@click.option(
    "--request",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The request that a raw reply answers: it declares the tools.",
)
@click.option(
    "--framing",
    type=click.Choice(get_args(Framing)),
    default="auto",
    show_default=True,
    help="Of a raw reply.",
)
def validate(
    fixtures: tuple[Path, ...],
    *,
    form: str,
    vocabulary: str | None,
    preset: str,
    dialect: str | None,
    request: Path | None,
    framing: Framing,
) -> None:
    """Judge recorded streams: fixture documents, folders of them, raw replies, or - for standard input.

    Exit 0: every turn is complete, unambiguous and valid. 1: a turn fails, and every call of it is blocked.
    2: a file cannot be judged or has no streamed tool call.
    """
    if (dialect is None) is not (request is None):
        raise click.UsageError("a raw reply needs both --dialect and --request")
    chosen = None if vocabulary is None else Vocabulary(vocabulary)
    policy = policy_of(preset)
    check = _document(policy, chosen)
    if dialect is not None and request is not None:
        check = _raw(find_dialect(dialect), request, preset, framing, chosen)
    many = len(fixtures) > 1 or (fixtures[0] != STDIN and fixtures[0].is_dir())
    if many and form == "json":
        raise click.UsageError("several files have several reports: use --report ndjson")
    files = walk(fixtures, suffix="" if dialect else ".json")
    statuses = Counter(_judge(path, check, form, many=many) for path in files)
    if many and form == "human":
        told = ", ".join(f"{statuses[status]} {status}" for status in Status)
        click.echo(f"{statuses.total()} files: {told}")
    sys.exit(_exit_code(statuses))


def _exit_code(statuses: Counter[Status]) -> int:
    """A failure outweighs a file that says nothing; no file at all says nothing either."""
    if statuses[Status.FAIL]:
        return 1
    return 0 if statuses[Status.PASS] and statuses.total() == statuses[Status.PASS] else 2


def _document(policy: TurnPolicy, vocabulary: Vocabulary | None) -> Check:
    def check(path: Path) -> tuple[Report, str]:
        data = read_bytes(path)
        document = parse_document(path, data)
        return check_document(document, policy=policy, vocabulary=vocabulary), data.decode()

    return check


def _raw(
    dialect: Dialect, request: Path, preset: str, framing: Framing, vocabulary: Vocabulary | None
) -> Check:
    tools = _tools(dialect, request)
    policy, words = policy_of(preset), vocabulary or Vocabulary.FULL

    def check(path: Path) -> tuple[Report, str]:
        reply = [read_bytes(path)]
        judged = judge_reply(dialect, tools, reply, policy=policy, framing=framing, vocabulary=words)
        return report_of(judged), ""

    return check


def _tools(dialect: Dialect, request: Path) -> Toolset:
    try:
        data = read_bytes(request)
        tools = dialect.toolset(data)
        if not tools.readable:
            parse_document(request, data)
    except InputError as error:
        raise click.UsageError(escape(str(error))) from None
    if not tools.readable:
        raise click.UsageError(
            escape(f"{request}:1:1: the request is no JSON object that this dialect could read")
        )
    return tools


def _judge(path: Path, check: Check, form: str, *, many: bool) -> Status:
    """Print the report of one file, and say its status."""
    try:
        report, text = check(path)
    except InputError as error:
        if form == "ndjson":
            click.echo(json.dumps({"file": str(path), "status": Status.INVALID.value, "error": str(error)}))
        else:
            click.echo(f"turngate: {escape(str(error))}", err=True)
        return Status.INVALID
    match form:
        case "json":
            click.echo(json.dumps(_placed(report, text), indent=2))
        case "ndjson":
            click.echo(json.dumps({"file": str(path), **_placed(report, text)}))
        case _:
            _print(path, report, text, many=many)
    return report.status


def _placed(report: Report, text: str) -> dict[str, Any]:
    """The JSON report; a finding whose path leads into the document has its line and column, too."""
    told = report.to_json()
    places = places_of(text, {finding.path for finding in report.findings})
    for finding in told["findings"]:
        if (place := places.get(finding["path"])) is not None:
            finding.update(line=place.line, column=place.column)
    return told


_TOLD = {
    Status.PASS: "pass: every call may be handed on",
    Status.FAIL: "fail: no call of this turn may be handed on",
    Status.NOT_APPLICABLE: "not applicable: no streamed tool call in it",
    Status.INVALID: "invalid: the document cannot be judged",
}
"""Total over `Status`."""


def _print(path: Path, report: Report, text: str, *, many: bool) -> None:
    """For a person. Names, ids and places come from the wire, so whatever a terminal obeys is spelled out."""
    click.echo(f"{escape(str(path))}: {report.status if many else _TOLD[report.status]}")
    for call in report.calls:
        end = "ended" if call.terminal else "never ended"
        name, identity = call.name or "(no name)", call.id or "(no id)"
        click.echo(escape(f"  {call.scope}/slot:{call.slot}  {name}  {identity}  {end}"))
    places = places_of(text, {finding.path for finding in report.findings})
    for finding in report.findings:
        where = f"{path}:{places[finding.path]}: " if finding.path in places else ""
        click.echo(escape(f"  {where}{finding.level} {finding.code}  {finding.message}"))
