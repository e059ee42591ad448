"""`turngate validate`: the verdict on recorded streams, without a network."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from turngate.cli.ledger import escape
from turngate.core.toolset import Toolset
from turngate.dialects import DIALECTS
from turngate.dialects.base import Dialect
from turngate.judging import Framing, find_dialect, judge_reply, policy_of
from turngate.offline.files import STDIN, InputError, read_bytes, read_document, walk
from turngate.offline.fixture import check_document, report_of
from turngate.offline.report import Report, Status
from turngate.presets import PRESETS
from turngate.schema import Vocabulary

Check = Callable[[Path], Report]


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
    type=click.Choice(["auto", "sse", "json"]),
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
    check: Check = lambda path: check_document(read_document(path), policy=policy, vocabulary=chosen)  # noqa: E731
    if dialect is not None and request is not None:
        check = _raw(find_dialect(dialect), read_bytes(request), preset, framing, chosen)
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


def _raw(
    dialect: Dialect, request: bytes, preset: str, framing: Framing, vocabulary: Vocabulary | None
) -> Check:
    tools: Toolset = dialect.toolset(request)
    if not tools.readable:
        raise click.UsageError("the request is no JSON object that this dialect could read")
    policy, words = policy_of(preset), vocabulary or Vocabulary.FULL

    def check(path: Path) -> Report:
        reply = [read_bytes(path)]
        return report_of(judge_reply(dialect, tools, reply, policy=policy, framing=framing, vocabulary=words))

    return check


def _judge(path: Path, check: Check, form: str, *, many: bool) -> Status:
    """Print the report of one file, and say its status."""
    try:
        report = check(path)
    except InputError as error:
        if form == "ndjson":
            click.echo(json.dumps({"file": str(path), "status": Status.INVALID.value, "error": str(error)}))
        else:
            click.echo(f"turngate: {escape(str(error))}", err=True)
        return Status.INVALID
    match form:
        case "json":
            click.echo(json.dumps(report.to_json(), indent=2))
        case "ndjson":
            click.echo(json.dumps({"file": str(path), **report.to_json()}))
        case _:
            _print(path, report, many=many)
    return report.status


_TOLD = {
    Status.PASS: "pass: every call may be handed on",
    Status.FAIL: "fail: no call of this turn may be handed on",
    Status.NOT_APPLICABLE: "not applicable: no streamed tool call in it",
    Status.INVALID: "invalid: the document cannot be judged",
}
"""Total over `Status`."""


def _print(path: Path, report: Report, *, many: bool) -> None:
    """For a person. Names, ids and places come from the wire, so whatever a terminal obeys is spelled out."""
    click.echo(f"{escape(str(path))}: {report.status if many else _TOLD[report.status]}")
    for call in report.calls:
        end = "ended" if call.terminal else "never ended"
        name, identity = call.name or "(no name)", call.id or "(no id)"
        click.echo(escape(f"  {call.scope}/slot:{call.slot}  {name}  {identity}  {end}"))
    for finding in report.findings:
        click.echo(escape(f"  {finding.level} {finding.code}  {finding.message}"))
