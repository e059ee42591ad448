"""The acceptance with real coding agents: what each executes of a valid turn and of unproved ones, without the gate and with it.

    python -m tests.agents.accept [--agents claude,qwen@0.15.10] [--cases valid,reset] [--only with] [--hold 360] [--json FILE] [--markdown FILE]

Exit 1 when an agent behind the gate executes an unproved call, does not execute a valid one exactly once, asks twice for a turn, or
does not show why a turn was blocked; 2 when the agents cannot run here.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from tests.agents import agents, cases
from tests.agents.agents import Agent, AgentError
from tests.agents.cases import Case
from tests.agents.gate import gate
from tests.agents.providers import Log, Play, provider
from tests.agents.report import markdown

PACKAGES = Path(__file__).parents[2] / "var" / "agents"
TIME_LIMIT_S = 120.0
HOLD_S = 20.0
"""How long a slow provider pauses by default: two of the gate's keep-alives. Idle limits of agents are minutes."""
BLOCKED = "turngate did not release this turn"
SIDES = ("without", "with")

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class Result:
    """One agent, one case, one side."""

    agent: str
    version: str
    case: str
    side: str
    executed: int
    asked: int
    """How often the turn was asked for; more than one is an automatic retry."""
    requests: Mapping[str, int]
    exit_code: int | None
    seconds: float
    said: str

    @property
    def gated(self) -> bool:
        """Whether the gate stood in between."""
        return self.side == "with"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        agents.install(options.agents, options.packages)
        results = []
        sides = [options.only] if options.only else SIDES
        for result in run_all(options.agents, options.cases, sides, options.packages, options.hold):
            print(line(result), flush=True)
            results.append(result)
    except AgentError as error:
        print(error, file=sys.stderr)
        return 2
    table = markdown(results, options.agents)
    print(f"\n{table}")
    if options.json:
        options.json.write_text(as_json(results))
    if options.markdown:
        options.markdown.write_text(table)
    broken = [(result, why) for result in results for why in breaches(result)]
    for result, why in broken:
        print(f"BROKEN {result.agent} {result.version} {result.case} {result.side}: {why}")
    return 1 if broken else 0


def parser() -> argparse.ArgumentParser:
    cli = argparse.ArgumentParser(
        prog="python -m tests.agents.accept", description=__doc__.partition("\n")[0]
    )
    option = cli.add_argument
    option("--agents", type=named, default=[kind() for kind in agents.BY_NAME.values()],
           metavar="AGENT[@VERSION],...", help=", ".join(agents.BY_NAME))  # fmt: skip
    option("--cases", type=lambda text: pick(text, cases.BY_NAME), default=cases.ALL,
           metavar="CASE,...", help=", ".join(cases.BY_NAME))  # fmt: skip
    option("--only", choices=SIDES, help="the side to run; both unless given")
    option("--hold", type=float, default=HOLD_S, metavar="SECONDS", help="how long the slow turn pauses")
    option("--packages", type=Path, default=PACKAGES, help="where the agents are installed")
    option("--json", type=Path, metavar="FILE")
    option("--markdown", type=Path, metavar="FILE")
    return cli


def named(text: str) -> list[Agent]:
    """The agents of a list of `NAME` or `NAME@VERSION`."""
    try:
        return [agents.agent_named(spec) for spec in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pick(text: str, known: Mapping[str, Named]) -> list[Named]:
    """The named ones, in the order given."""
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return [known[name] for name in text.split(",")]


def run_all(
    chosen: Sequence[Agent], turns: Sequence[Case], sides: Sequence[str], packages: Path, hold_s: float
) -> Iterator[Result]:
    """One run after the other: the agents are heavy, and a shared core would only blur the times."""
    for agent in chosen:
        for case in (case for case in turns if case.exists(agent.wire)):
            for side in sides:
                with tempfile.TemporaryDirectory(prefix="agents-", ignore_cleanup_errors=True) as folder:
                    yield run(agent, case, side, packages.resolve(), Path(folder), hold_s)


def run(agent: Agent, case: Case, side: str, packages: Path, folder: Path, hold_s: float) -> Result:
    """Send one agent one turn."""
    home, proof, log = folder / "home", folder / "proof", Log()
    home.mkdir()
    with ExitStack() as stack:
        port = stack.enter_context(provider(Play(agent.wire, case, proof, log, hold_s)))
        base = f"http://127.0.0.1:{port}"
        if side == "with":
            base = stack.enter_context(gate(folder / "gate", port))
        ended = agent.run(packages, home, base, TIME_LIMIT_S + hold_s)
    executed = proof.read_text().count(cases.LINE) if proof.exists() else 0
    return Result(
        agent.name, agent.version, case.name, side, executed, log.turns, dict(log.counts), ended.code, round(ended.seconds, 1), told(ended.said)
    )  # fmt: skip


def told(output: str) -> str:
    """What a person reads: the gate's message if it is there, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if BLOCKED in line), lines[-1] if lines else "")


def breaches(result: Result) -> Iterator[str]:
    """How a result breaks what is promised of its side; without the gate nothing is, but that a valid turn runs."""
    case = cases.BY_NAME[result.case]
    if case.proved and result.executed != 1:
        yield f"executed {result.executed} times, not once"
    if not result.gated:
        return
    if not case.proved and result.executed:
        yield f"executed {result.executed} times"
    unread = case.late and agents.BY_NAME[result.agent].wire.reason_ends
    if not case.proved and not unread and BLOCKED not in result.said:
        yield f"does not show the block, but {result.said[:120]!r}"
    if result.asked != 1:
        yield f"the turn was asked for {result.asked} times"


def line(result: Result) -> str:
    """One result, for the terminal."""
    requests = " ".join(f"{kind}={count}" for kind, count in sorted(result.requests.items()))
    return (
        f"{result.agent + ' ' + result.version:17} {result.case:18} {result.side:8} executed {result.executed}  asked {result.asked}  "
        f"({requests}; exit {result.exit_code}, {result.seconds} s)  {result.said[:160]}"
    )


def as_json(results: Sequence[Result]) -> str:
    """Everything that was measured."""
    return json.dumps([asdict(result) for result in results], indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
