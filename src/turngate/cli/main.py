"""The command line. Commands import what they need when they run, so that `turngate --help` is immediate."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turngate import __version__
from turngate.errors import TurngateError

if TYPE_CHECKING:
    from turngate.config import Config, Override

LAZY: dict[str, tuple[str, str]] = {
    "conformance": (
        "turngate.cli.conformance:conformance",
        "Judge what a client, an adapter or a gateway does with hostile streams.",
    ),
    "approve": ("turngate.cli.operate:approve", "Have a turn released that waits for confirmation."),
    "deny": ("turngate.cli.operate:deny", "Have a turn blocked that waits for confirmation."),
    "demo": ("turngate.cli.demo:demo", "Ask a bundled provider, directly and through the gate, and compare."),
    "explain": ("turngate.cli.explain:explain", "Explain how turngate decides."),
    "latch": ("turngate.cli.operate:latch", "Stop something, see what is stopped, and lift it."),
    "ledger": ("turngate.cli.ledger:ledger", "Read, verify and export the ledger."),
    "redact": ("turngate.cli.redact:redact", "Make a fixture of a capture that says nothing that was said."),
    "replay": ("turngate.cli.replay:replay", "Reassemble recorded deltas, without a network."),
    "status": ("turngate.cli.operate:status", "Show a running gate at a glance."),
    "key": (
        "turngate.cli.key:key",
        "Make, list and revoke the keys that agents send in place of a provider's.",
    ),
    "token": ("turngate.cli.token:token", "Make, list and revoke the tokens of those who watch and stop."),
    "turns": ("turngate.cli.operate:turns", "List turns under way and over, or show one."),
    "validate": ("turngate.cli.validate:validate", "Judge recorded streams, without a network."),
}
"""Commands that live in a module of their own, each with its line in the overview."""


class Commands(click.Group):
    """The top-level group: finds lazy commands, and turns our own errors into one clear message."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, lazy ones included."""
        return sorted([*super().list_commands(ctx), *LAZY])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported if need be."""
        if cmd_name not in LAZY:
            return super().get_command(ctx, cmd_name)
        place, _ = LAZY[cmd_name]
        module, _, name = place.partition(":")
        command = getattr(importlib.import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- its place in click
        """The overview, without importing what it lists."""
        lines = {name: command.get_short_help_str(100) for name, command in self.commands.items()}
        lines |= {name: line for name, (_, line) in LAZY.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run; an error of ours ends with its message and status 2."""
        try:
            return super().invoke(ctx)
        except TurngateError as error:
            for line in str(error).splitlines():
                click.echo(f"turngate: {line}", err=True)
            sys.exit(2)


def configured_ledger() -> str | None:
    """The URL of the configured ledger, for commands that name none."""
    from turngate.config import load_config  # noqa: PLC0415 -- keeps --help immediate

    file = os.environ.get("TURNGATE_CONFIG")
    return load_config(Path(file) if file else None).ledger.url


def configured_checkpoint_key() -> str | None:
    """The key that signs the configured ledger's checkpoints, if it is not beside it."""
    from turngate.config import load_config  # noqa: PLC0415 -- keeps --help immediate

    file = os.environ.get("TURNGATE_CONFIG")
    ledger = load_config(Path(file) if file else None).ledger
    if ledger.checkpoint_key is None and not ledger.place.is_server:
        return None
    from turngate.operator.checkpoints import signing_key  # noqa: PLC0415 -- likewise

    return str(signing_key(ledger))


LEDGER_COMMANDS = ("list", "show", "verify", "export", "checkpoint", "public-key")


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "default_map": {
            "ledger": {
                name: {"url": configured_ledger, "key": configured_checkpoint_key} for name in LEDGER_COMMANDS
            }
        },
    },
)
@click.version_option(__version__, prog_name="turngate")
def main() -> None:
    """turngate: the tool-call gate between an agent and its model provider."""


@main.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    envvar="TURNGATE_CONFIG",
    help="The TOML file. Without one, the built-in upstreams and defaults.",
)
@click.option("--listen", help="ADDRESS:PORT of the proxy.")
@click.option("--workers", help="How many processes take turns.")
@click.option("--default-upstream", help="Where a bare /v1/... goes.")
@click.option("--ledger", help="The ledger's URL, such as sqlite:///turngate.db or postgresql://...")
@click.option("--log-format", help="console or json.")
def serve(
    file: Path | None,
    listen: str | None,
    workers: str | None,
    default_upstream: str | None,
    ledger: str | None,
    log_format: str | None,
) -> None:
    """Run the gate until SIGINT or SIGTERM."""
    from turngate.config import load_config  # noqa: PLC0415 -- keeps --help immediate

    config = load_config(file, overrides=_overrides(listen, workers, default_upstream, ledger, log_format))
    for warning in config.warnings:
        click.echo(f"turngate: warning: {warning}", err=True)
    if config.server.workers == 1:
        from turngate.proxy.server import serve as run  # noqa: PLC0415 -- keeps --help immediate
    else:
        from turngate.workers.supervisor import serve as run  # noqa: PLC0415 -- likewise
    run(config, announce)


def _overrides(*values: str | None) -> list[Override]:
    from turngate.config import Override  # noqa: PLC0415 -- keeps --help immediate

    flags = (
        ("server", "listen", "--listen"),
        ("server", "workers", "--workers"),
        ("server", "default_upstream", "--default-upstream"),
        ("ledger", "url", "--ledger"),
        ("log", "format", "--log-format"),
    )
    return [
        Override(*flag[:2], value, flag[2])
        for flag, value in zip(flags, values, strict=True)
        if value is not None
    ]


def announce(config: Config) -> None:
    """Say where the gate is and how to try it."""
    server = config.server
    scheme = "https" if server.tls_cert is not None else "http"
    base = f"{scheme}://{server.listen}"
    default = config.upstreams[server.default_upstream]
    click.echo(
        f"turngate {__version__} on {base}, default upstream {default.name}, ledger {config.ledger.place.name}",
        err=True,
    )
    for upstream in config.upstreams.values():
        where = "the bundled replay provider" if upstream.is_demo else upstream.base_url
        click.echo(
            f"  {base}/{upstream.name}/  ->  {where}  (preset {upstream.preset}, {upstream.policy.mode})",
            err=True,
        )
    if default.is_demo:
        click.echo(TRY_IT.format(base=base), err=True)
    for line in announce_operator(config):
        click.echo(line, err=True)


def announce_operator(config: Config) -> Iterable[str]:
    """Where those who watch and stop find it, and the first of them a token."""
    from turngate.operator.tokens import first_token_path  # noqa: PLC0415 -- keeps --help immediate

    operator = config.operator
    if operator.is_off:
        yield "no operator's listener: nobody can stop a turn but by ending the process"
        return
    file = first_token_path(config.ledger.place.files)
    token = f"token in {file}" if file.exists() else "`turngate token create NAME` makes a token"
    if operator.socket_path is not None:
        yield f"operators: {operator.listen}, {token}"
        return
    scheme = "http" if operator.tls_cert is None else "https"
    yield f"console: {scheme}://{operator.listen}/console/, {token}"


TRY_IT = """
Try a turn whose arguments are cut, and then look at the ledger:

  curl -sN {base}/v1/chat/completions -H 'content-type: application/json' -d '{{"model": "demo-cut", "stream": true,
    "messages": [{{"role": "user", "content": "tidy up"}}], "tools": [{{"type": "function", "function": {{"name": "delete_file",
    "parameters": {{"type": "object", "properties": {{"path": {{"type": "string"}}}}, "required": ["path"]}}}}}}]}}'

  turngate ledger list

The same from Python; model "demo" is the sound twin:

  from openai import OpenAI
  client = OpenAI(base_url="{base}/v1", api_key="none")
  tools = [{{"type": "function", "function": {{"name": "delete_file", "parameters": {{"type": "object",
           "properties": {{"path": {{"type": "string"}}}}, "required": ["path"]}}}}}}]
  for chunk in client.chat.completions.create(model="demo-cut", stream=True, tools=tools,
                                              messages=[{{"role": "user", "content": "tidy up"}}]):
      print(chunk.choices[0].delta)
"""


@main.group("config")
def config_group() -> None:
    """Check and show the configuration."""


@config_group.command("check")
@click.argument("file", type=click.Path(path_type=Path), required=False, envvar="TURNGATE_CONFIG")
def config_check(file: Path | None) -> None:
    """Read FILE (or the defaults) as `serve` would, and say what it means or everything that is wrong."""
    from turngate.config import load_config  # noqa: PLC0415 -- keeps --help immediate

    config = load_config(file)
    for warning in config.warnings:
        click.echo(f"warning: {warning}")
    for line in summary(config):
        click.echo(line)


def summary(config: Config) -> Iterable[str]:
    """What a configuration means, a line each."""
    yield f"listen {config.server.listen}, default upstream {config.server.default_upstream}"
    if config.server.workers > 1:
        yield f"workers {config.server.workers}, each may hold {config.server.held_bytes_each} bytes"
    place = config.ledger.place
    yield f"ledger {place.name if place.is_server else config.ledger.url}"  # a server's URL may hold a password
    yield f"operator {config.operator.listen}"
    if config.ledger.release_without_record:
        yield "  turns are released even if they cannot be recorded"
    for upstream in config.upstreams.values():
        accepted = ", ".join(sorted(upstream.policy.accept)) or "nothing"
        yield f"upstream {upstream.name}: {upstream.base_url}, preset {upstream.preset}, tolerates {accepted}"
        yield f"  mode {upstream.policy.mode}, on_block {upstream.policy.on_block}, unjudged {upstream.unjudged}"
    yield f"pinned schemas: {', '.join(sorted(config.schemas)) or 'none'}"


@main.command()
@click.option("--url", default="http://127.0.0.1:8484/turngate/health", show_default=True)
@click.option("--timeout", default=3.0, show_default=True, help="Seconds.")
def health(url: str, timeout: float) -> None:
    """Ask a running gate for its health; exit 1 if it does not answer well. For container health checks."""
    import httpx2  # noqa: PLC0415 -- keeps --help immediate

    try:
        # A proxy of the environment is meant for providers; the gate is asked directly.
        answer = httpx2.get(url, timeout=timeout, trust_env=False)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        click.echo(f"turngate: {url}: {type(error).__name__}", err=True)
        sys.exit(1)
    click.echo(answer.text)
    sys.exit(0 if answer.status_code == 200 else 1)


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


def run(arguments: Sequence[str] | None = None) -> None:
    """Entry point for `python -m turngate`."""
    main(arguments)
