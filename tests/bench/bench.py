"""turngate's benchmark: direct, nginx and turngate in one run, one after the other in every phase.

Provider, load client and this harness share one core, the proxies another. See docs/benchmarks.md.

    python -m tests.bench.bench [--quick] [--only turngate,nginx] [--phases paced200,burst] [--reps 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.bench import native, phases, report, targets
from tests.bench.phases import Figures, Phase, Rig
from tests.bench.targets import Site, Target, TargetError

Named = TypeVar("Named")
Starter = targets.Starter


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: which load on which targets, how often, and on which cores."""

    starters: Sequence[tuple[str, Starter]]
    extras: Sequence[Target]
    phases: Sequence[Phase]
    reps: int
    provider_port: int
    bench_cpu: int
    proxy_cpu: int


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    bench_cpu, proxy_cpu = cores()
    plan = Plan(
        options.only,
        options.extra,
        [phases.quick(phase) if options.quick else phase for _, phase in options.phases],
        options.reps,
        options.provider_port,
        bench_cpu,
        proxy_cpu,
    )
    allow_many_connections()
    with pinned_to(bench_cpu):
        results, facts = measure(plan), machine(plan)
    print("; ".join(f"{key} {value}" for key, value in facts.items()), end="\n\n")
    print(report.tables(results))
    kept = "turngate" not in dict(plan.starters) or print_floors(results)
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n")
    return 0 if kept or not options.check else 1


def parser() -> argparse.ArgumentParser:
    by_name = {phase.name: phase for phase in phases.PHASES}
    cli = argparse.ArgumentParser(prog="python -m tests.bench.bench", description=__doc__.partition("\n")[0])
    option = cli.add_argument
    option("--quick", action="store_true", help="short windows: to see that all works, not to quote")
    option("--only", type=lambda text: pick(text, targets.TARGETS), default=list(targets.TARGETS.items()),
           metavar="TARGET,...", help=", ".join(targets.TARGETS))  # fmt: skip
    option("--phases", type=lambda text: pick(text, by_name), default=list(by_name.items()),
           metavar="PHASE,...", help=", ".join(by_name))  # fmt: skip
    option("--reps", type=int, default=1, help="repetitions; the tables show medians")
    option("--extra", type=targets.extra, action="append", default=[], metavar="NAME=URL[,PID]",
           help="a proxy that already runs in front of --provider-port")  # fmt: skip
    option("--provider-port", type=int, default=0, help="default: any free port")
    option("--json", metavar="FILE", help="write all figures there")
    option("--check", action="store_true", help="exit with 1 when turngate misses a floor")
    return cli


def pick(text: str, choice: Mapping[str, Named]) -> list[tuple[str, Named]]:
    """An argparse type: names with commas between them."""
    names = text.split(",")
    if unknown := [name for name in names if name not in choice]:
        raise argparse.ArgumentTypeError(f"no such name: {', '.join(unknown)} (of {', '.join(choice)})")
    return [(name, choice[name]) for name in names]


def measure(plan: Plan) -> report.Results:
    """Run every phase on every target, ``reps`` times over, and return the medians."""
    seen: dict[str, dict[str, list[Figures]]] = {phase.name: defaultdict(list) for phase in plan.phases}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turngate-bench-")))
        native.build(directory)
        provider = stack.enter_context(native.provider(directory, plan.bench_cpu, plan.provider_port))
        rig, site = Rig(directory, provider, plan.bench_cpu), Site(directory, provider, plan.proxy_cpu)
        running = [target for name, start in plan.starters if (target := _start(name, start, site, stack))]
        for repetition in range(plan.reps):
            for phase in plan.phases:
                for target in [*running, *plan.extras]:
                    note(f"{repetition + 1}/{plan.reps} {phase.name} {target.name}")
                    seen[phase.name][target.name].append(_run(phase, target, rig))
    return {
        phase: {name: report.combine(runs) for name, runs in by_target.items()}
        for phase, by_target in seen.items()
    }


def _start(name: str, start: Starter, site: Site, stack: ExitStack) -> Target | None:
    try:
        return stack.enter_context(start(site))
    except TargetError as reason:
        note(f"{name}: {reason}")
        return None


def _run(phase: Phase, target: Target, rig: Rig) -> Figures:
    """A target that fails a phase is reported, and the run goes on."""
    try:
        return phases.run(phase, target, rig)
    except phases.PhaseError as failure:
        return {"failure": str(failure)}


def print_floors(results: report.Results) -> bool:
    """Say of each floor whether it was kept, and whether all were."""
    print("\n### Floors\n")
    outcomes = report.floors(results)
    for promise, figure, kept in outcomes:
        shown = "no figure" if figure is None else f"{figure:.2f}"
        print(f"- {'kept  ' if kept else 'MISSED'} {promise}: {shown}")
    return all(kept for _, _, kept in outcomes)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def cores() -> tuple[int, int]:
    """One core for the measuring side, another for the proxies; the same one if there is no other."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        note("only one core: the proxy competes with the load, so read no latency from this run")
    return allowed[0], allowed[min(1, len(allowed) - 1)]


@contextmanager
def pinned_to(cpu: int) -> Iterator[None]:
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def allow_many_connections() -> None:
    """A proxy needs two descriptors for each of 1,000 streams, and the children inherit this limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def machine(plan: Plan) -> dict[str, str]:
    """What the figures depend on."""
    facts = {
        "cpu": _cpu_model(),
        "cores": f"{plan.bench_cpu} (bench) and {plan.proxy_cpu} (proxy)",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "reps": str(plan.reps),
        "load average": f"{os.getloadavg()[0]:.1f}",
    }
    binary = targets.nginx_binary()
    if binary is not None:
        version = subprocess.run([binary, "-v"], capture_output=True, text=True, check=False).stderr
        facts["nginx"] = version.strip().rpartition("/")[2]
    return facts


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
