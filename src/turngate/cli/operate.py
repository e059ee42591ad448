"""`turngate status`, `turngate turns`, `turngate latch`: watch a running gate and stop it, through its operator's listener."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from rich.text import Text

from turngate.cli.options import CONFIG, JSON, TURN_FILTERS, together
from turngate.cli.terminal import choice, console, escape, field_table, print_json, print_table, utc
from turngate.config import load_config
from turngate.ledger.latch import LatchKind
from turngate.operator.client import OperatorClient, OperatorError, connect

reaching = together(
    CONFIG,
    click.option(
        "--url",
        envvar="TURNGATE_URL",
        help="Another gate: http://, https:// or unix:PATH.",
        show_envvar=True,
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A file with the token. Without one TURNGATE_TOKEN, or the file that the first start made.",
    ),
    JSON,
)
"""Gives a command the options that say which gate, and with which token."""


@contextlib.contextmanager
def asking(file: Path | None, url: str | None, token_file: Path | None) -> Iterator[OperatorClient]:
    """A connection to the gate; its errors are one line."""
    client = connect(load_config(file), url=url, token_file=token_file)
    try:
        yield client
    except OperatorError as error:
        raise click.ClickException(escape(str(error))) from error
    finally:
        client.close()


@click.command()
@reaching
def status(file: Path | None, url: str | None, token_file: Path | None, *, as_json: bool) -> None:
    """Show a running gate at a glance."""
    with asking(file, url, token_file) as gate:
        told = gate.get("/status")
    if as_json:
        print_json(told)
        return
    ledger, latches = told["ledger"], told["latches"]
    lost = ledger["dropped"] + ledger["failed"]
    fields = {
        "version": told["version"],
        "started (UTC)": told["started_at"],
        "turns under way": f"{told['turns_under_way']}, {told['holding']} of them with a held call",
        "held bytes": f"{told['held_bytes']} of {told['held_bytes_limit']}",
        "ledger": f"{ledger['entries']} entries" if ledger["readable"] else "CANNOT BE READ",
        "entries lost": lost or None,
        "workers": [_worker_line(each) for each in told["workers"]],
        "upstreams": [f"{each['name']} ({each['mode']})" for each in told["upstreams"]],
        "you": f"{told['you']} ({told['role']})",
        "latches": str(len(latches)),
    }
    console().print(field_table(fields))
    if latches:
        _print_latches(latches)


def _worker_line(worker: dict[str, Any]) -> str:
    line = f"{worker['pid']}: {worker['turns_under_way']} turns, {worker['held_bytes']} bytes held"
    return line if worker["answers"] else f"{line}, DOES NOT ANSWER"


@click.command()
@reaching
@click.argument("turn_id", metavar="[TURN]", required=False)
@click.option("--live/--past", default=None, help="Only those under way, or only those that are over.")
@TURN_FILTERS
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@click.option("--before", metavar="TURN", help="The next page.")
def turns(
    file: Path | None,
    url: str | None,
    token_file: Path | None,
    *,
    as_json: bool,
    turn_id: str | None,
    **filters: Any,
) -> None:
    """List turns under way and over, newest first; or show TURN."""
    with asking(file, url, token_file) as gate:
        told = (
            gate.get("/turns", filters) if turn_id is None else gate.get(f"/turns/{quote(turn_id, safe='')}")
        )
    if as_json:
        print_json(told)
    elif turn_id is None:
        print_table(
            ("turn", "started (UTC)", "tenant", "upstream", "model", "phase", "outcome", "reason", "tools"),
            [
                (
                    turn["turn_id"],
                    utc(turn["started_at"]),
                    turn["tenant"],
                    turn["upstream"],
                    turn["model"],
                    turn["phase"],
                    turn["outcome"],
                    turn["reason"],
                    [call["tool"] or "?" for call in turn["calls"]],
                )
                for turn in told["turns"]
            ],
        )
        if told["next"] is not None:
            click.echo(f"more: --before {escape(told['next'])}", err=True)
    else:
        _print_turn(told)


@click.command()
@reaching
@click.argument("turn_id", metavar="TURN")
@click.option("--reason", required=True, help="For the record; no client sees it.")
def approve(
    file: Path | None, url: str | None, token_file: Path | None, *, as_json: bool, turn_id: str, reason: str
) -> None:
    """Have TURN released, which waits for confirmation."""
    _answer(asking(file, url, token_file), turn_id, "approve", reason, as_json=as_json)


@click.command()
@reaching
@click.argument("turn_id", metavar="TURN")
@click.option("--reason", required=True, help="For the record; no client sees it.")
def deny(
    file: Path | None, url: str | None, token_file: Path | None, *, as_json: bool, turn_id: str, reason: str
) -> None:
    """Have TURN blocked, which waits for confirmation."""
    _answer(asking(file, url, token_file), turn_id, "deny", reason, as_json=as_json)


def _answer(
    reached: contextlib.AbstractContextManager[OperatorClient],
    turn_id: str,
    answer: str,
    reason: str,
    *,
    as_json: bool,
) -> None:
    with reached as gate:
        told = gate.post(f"/turns/{quote(turn_id, safe='')}/{answer}", {"reason": reason})
    if as_json:
        print_json(told)
    else:
        click.echo(f"{told['turn_id']} is {told['policy']}")


def _print_turn(turn: dict[str, Any]) -> None:
    out = console()
    calls, findings = turn.pop("calls"), turn.pop("findings")
    out.print(field_table(turn))
    for call in calls:
        out.print(Text(f"\ncall {call['choice']}/{escape(call['slot'])}"))
        out.print(field_table(call))
    for finding in findings:
        out.print(Text(escape(f"\n{finding['level']} {finding['code']} {finding['path']}".rstrip())))
        out.print(Text(escape(f"  {finding['message']}")))


@click.group()
def latch() -> None:
    """Stop something, see what is stopped, and lift it."""


@latch.command("create")
@reaching
@click.argument("kind", type=choice(LatchKind))
@click.option("--reason", required=True, help="For the record; no client sees it.")
@click.option("--turn", "turn_id", help="The turn to quarantine.")
@click.option("--response", "response_id", help="The provider's response to quarantine.")
@click.option("--tool", help="The tool to disable.")
@click.option("--tenant", help="The tenant to stop, or to which the latch is narrowed.")
@click.option("--upstream", help="The upstream to stop, or to which the latch is narrowed.")
@click.option("--model", help="The model to stop, or to which the latch is narrowed.")
@click.option("--route", help="To which the latch is narrowed, such as 'POST /v1/chat/completions'.")
@click.option(
    "--expires-in", "expires_in_s", type=click.IntRange(1), metavar="SECONDS", help="It then lifts itself."
)
def create_command(
    file: Path | None, url: str | None, token_file: Path | None, *, as_json: bool, **what: Any
) -> None:
    """Stop what KIND says. When this returns, nothing that it covers is released any more."""
    with asking(file, url, token_file) as gate:
        told = gate.post("/latches", what)
    if as_json:
        print_json(told)
        return
    made = told["latch"]
    click.echo(
        f"{made['id']} is in force; it ended {len(made['turns'])} turns with {len(made['calls'])} calls"
    )
    for call in made["calls"]:
        key = f"{call['turn_id']} {call['choice']}/{call['slot']}"
        click.echo(escape(f"  {key}  {call['tool'] or '?'}  {call['call_id'] or ''}  {call['state']}"))
    for gate in told["unheard"]:
        click.echo(f"warning: {escape(gate)} has not heard of it yet; it releases nothing", err=True)
    for name in told["not_enforced"]:
        click.echo(f"warning: upstream {name} is in observe mode; calls from it pass", err=True)


@latch.command("list")
@reaching
@click.option("--all", "everything", is_flag=True, help="Also those that were lifted.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@click.option("--before", metavar="LATCH", help="The next page.")
def list_command(
    file: Path | None,
    url: str | None,
    token_file: Path | None,
    *,
    as_json: bool,
    everything: bool,
    limit: int,
    before: str | None,
) -> None:
    """List latches, newest first."""
    with asking(file, url, token_file) as gate:
        told = gate.get("/latches", {"standing": not everything, "limit": limit, "before": before})
    if as_json:
        print_json(told)
        return
    _print_latches(told["latches"])
    if told["next"] is not None:
        click.echo(f"more: --before {escape(told['next'])}", err=True)


def _print_latches(latches: list[dict[str, Any]]) -> None:
    about = ("turn_id", "response_id", "tool", "tenant", "upstream", "model", "route")
    print_table(
        ("latch", "since (UTC)", "stops", "by", "reason", "until"),
        [
            (
                each["id"],
                utc(each["created_at"]),
                " ".join(
                    [each["kind"], *(f"{name}={each[name]}" for name in about if each[name] is not None)]
                ),
                each["actor"],
                each["reason"],
                _until(each),
            )
            for each in latches
        ],
    )


def _until(latch: dict[str, Any]) -> str:
    if latch["lifted_at"] is not None:
        return f"{utc(latch['lifted_at'])}, lifted by {latch['lifted_by']}: {latch['lift_reason']}"
    return "lifted" if latch["expires_at"] is None else utc(latch["expires_at"])


@latch.command("lift")
@reaching
@click.argument("latch_id", metavar="LATCH")
@click.option("--reason", required=True, help="For the record.")
def lift_command(
    file: Path | None, url: str | None, token_file: Path | None, *, as_json: bool, latch_id: str, reason: str
) -> None:
    """Lift LATCH."""
    with asking(file, url, token_file) as gate:
        told = gate.post(f"/latches/{quote(latch_id, safe='')}/lift", {"reason": reason})
    if as_json:
        print_json(told)
        return
    click.echo(f"{told['id']} was lifted by {told['lifted_by']}: {escape(told['lift_reason'])}")
