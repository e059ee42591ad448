"""`turngate conformance`: serve hostile streams, and judge what a client, an adapter or a gateway does with them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from turngate.cli.ledger import escape
from turngate.config.pinned import Pinned
from turngate.conformance.adapters import ADAPTERS
from turngate.conformance.drive import judge_adapter_by
from turngate.conformance.environment import default_folder, set_up
from turngate.conformance.gateway import judge_through, reachable_through
from turngate.conformance.provider import Provider, served
from turngate.conformance.report import Report
from turngate.conformance.results import FILE, load_results, tables
from turngate.conformance.scenario import Scenario, load_scenarios
from turngate.conformance.split import read_split
from turngate.conformance.surface import SURFACES
from turngate.conformance.take import SETTLE_S
from turngate.errors import ConfigError
from turngate.presets import PRESETS

_DIALECT = click.option(
    "--dialect",
    "dialects",
    multiple=True,
    type=click.Choice(list(SURFACES)),
    help="Only this dialect; may be repeated.",
)
_FIXTURES = click.option(
    "--fixtures",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of fixtures instead of the bundled ones.",
)
_PORT = click.option(
    "--port", default=0, help="The provider's port on the loopback address; 0 takes a free one."
)
_SPLIT = click.option(
    "--split",
    default="frame",
    show_default=True,
    help="How replies are cut into writes: whole, frame, byte, random:SEED.",
)
_FOLDER = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where environments of adapters are; .turngate-conformance by default.",
)


@click.group(invoke_without_command=True)
@click.option("--adapter", help=f"{', '.join(ADAPTERS)}, or MODULE:FUNCTION of your own.")
@click.option(
    "--gateway", metavar="URL", help="The base URL of a running gateway whose upstream is this provider."
)
@click.option("--report", "form", type=click.Choice(["human", "json"]), default="human", show_default=True)
@click.option(
    "--scenario",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only scenarios whose name contains this; may be repeated.",
)
@_DIALECT
@_FIXTURES
@_PORT
@_SPLIT
@_FOLDER
@click.option(
    "--way",
    "ways",
    multiple=True,
    metavar="NAME",
    help="Only this way of using the adapter; may be repeated.",
)
@click.option(
    "--preset",
    type=click.Choice([preset.name for preset in PRESETS]),
    default="strict",
    metavar="NAME",
    help="Whose quirks the gateway is to tolerate; strict by default.",
)
@click.option(
    "--schemas",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of schemas that the gateway has pinned, its `schemas.dir`.",
)
@click.option("--model", help="The model that the gateway routes to this provider, if it minds.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    help="A header for the gateway; may be repeated.",
)
@click.option(
    "--settle",
    default=SETTLE_S,
    show_default=True,
    help="Seconds that a proof is withheld to see who does not wait for it.",
)
@click.option("--all", "every", is_flag=True, help="Also list what went well.")
@click.pass_context
def conformance(
    ctx: click.Context,
    *,
    adapter: str | None,
    gateway: str | None,
    form: str,
    names: tuple[str, ...],
    dialects: tuple[str, ...],
    fixtures: Path | None,
    port: int,
    split: str,
    folder: Path | None,
    ways: tuple[str, ...],
    preset: str,
    schemas: Path | None,
    model: str | None,
    headers: tuple[str, ...],
    settle: float,
    every: bool,
) -> None:
    """Judge an in-process adapter or a running gateway by hostile streams.

    Exit 0: no error. 1: at least one lapse of level error. 2: the run could not be made.
    """
    if ctx.invoked_subcommand is not None:
        return
    if (adapter is None) is (gateway is None):
        raise click.UsageError("name either --adapter or --gateway")
    pinned = _pinned(schemas)
    scenarios = _chosen(load_scenarios(fixtures, dialects), names)
    provider = Provider(scenarios)
    how = read_split(split)

    async def run() -> Report:
        async with served(provider, port=port) as origin:
            if gateway is None:
                assert adapter is not None
                return await judge_adapter_by(
                    adapter,
                    origin,
                    provider,
                    scenarios,
                    folder=folder or default_folder(),
                    ways=ways,
                    split=how,
                    settle_s=settle,
                )
            click.echo(f"turngate: the provider is on {origin}", err=True)
            fields = dict(_header(each) for each in headers)
            fit = _fitting(scenarios, preset, pinned)
            rows = await judge_through(
                gateway, provider, fit, headers=fields, model=model, split=how, settle_s=settle
            )
            return Report(f"gateway {gateway}, {len(fit)} scenarios, split {how}", rows)

    report = asyncio.run(run())
    if form == "json":
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        for line in report.lines(every=every):
            click.echo(escape(line))
    sys.exit(report.exit_code)


def _chosen(scenarios: tuple[Scenario, ...], names: tuple[str, ...]) -> list[Scenario]:
    found = [each for each in scenarios if not names or any(name in each.name for name in names)]
    if not found:
        raise ConfigError(f"no scenario's name contains {' or '.join(names)}")
    return found


def _fitting(scenarios: list[Scenario], preset: str, pinned: Mapping[str, Any]) -> list[Scenario]:
    fit = reachable_through(scenarios, preset, pinned)
    if not fit:
        raise ConfigError(
            f"a gateway with preset {preset} and {'these' if pinned else 'no'} schemas pinned gets none of these scenarios; "
            "name another --preset, --schemas or --dialect"
        )
    return fit


def _pinned(folder: Path | None) -> Mapping[str, Any]:
    pinned = Pinned(folder) if folder is not None else None
    for file, message in pinned.errors if pinned is not None else ():
        raise ConfigError(f"{file}: {message}")
    return pinned.schemas if pinned is not None else {}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError(f"--header takes NAME:VALUE, not {text!r}")
    return name.strip(), value.strip()


@conformance.command()
@_DIALECT
@_FIXTURES
@click.option("--listen", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8585, show_default=True)
@_SPLIT
@click.option("--gap", default=0.0, show_default=True, help="Seconds between two writes.")
@click.option("--scenario", help="What a request gets that names nothing.")
def serve(
    dialects: tuple[str, ...],
    fixtures: Path | None,
    listen: str,
    port: int,
    split: str,
    gap: float,
    scenario: str | None,
) -> None:
    """Serve the fixtures as a provider until interrupted. The model's name or `[turngate NAME]` in the prompt picks one."""
    provider = Provider(load_scenarios(fixtures, dialects), gap_s=gap, split=read_split(split))
    if scenario is not None:
        provider.choose(scenario)

    async def run() -> None:
        async with served(provider, listen, port) as origin:
            click.echo(f"turngate: {len(provider.scenarios)} scenarios on {origin}", err=True)
            await asyncio.Event().wait()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        click.echo("turngate: stopped", err=True)


@conformance.command("list")
@_DIALECT
@_FIXTURES
def list_scenarios(dialects: tuple[str, ...], fixtures: Path | None) -> None:
    """Name every scenario, with the verdict that it deserves and what is special about it."""
    for scenario in load_scenarios(fixtures, dialects):
        click.echo(f"{scenario.name}\t{scenario.expect.outcome}\t{scenario.envelope.title}")


@conformance.command()
@click.option("--report", "form", type=click.Choice(["human", "json"]), default="human", show_default=True)
def results(form: str) -> None:
    """Print what the pinned SDKs and gateways did when they were last measured."""
    if form == "json":
        click.echo(FILE.read_text(encoding="utf-8"), nl=False)
        return
    for line in tables(load_results()):
        click.echo(line)


@conformance.command()
@click.argument("adapter", type=click.Choice(list(ADAPTERS)))
@_FOLDER
def setup(adapter: str, folder: Path | None) -> None:
    """Install an ADAPTER's pinned packages into an environment of their own."""
    place = set_up(ADAPTERS[adapter], folder or default_folder())
    click.echo(f"turngate: {adapter} is ready in {place}")
