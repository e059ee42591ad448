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
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench import native, phases, report, targets
from tests.bench.phases import Figures, Phase, Rig
from tests.bench.targets import Site, Target, Unavailable


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    bench_cpu, proxy_cpu = cores()
    os.sched_setaffinity(0, {bench_cpu})
    allow_many_connections()
    chosen = [phases.quick(phase) if options.quick else phase for phase in options.phases]
    results, machine = measure(
        options.only, chosen, options.extra, bench_cpu, proxy_cpu, options.reps, options.provider_port
    )
    kept = print_report(results, machine)
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    return 0 if kept or not options.check else 1


def parser() -> argparse.ArgumentParser:
    names = [phase.name for phase in phases.PHASES]
    cli = argparse.ArgumentParser(prog="python -m tests.bench.bench", description=__doc__.partition("\n")[0])
    cli.add_argument("--quick", action="store_true", help="short windows: to see that all works, not to quote")
    cli.add_argument(
        "--only", type=_names(list(targets.TARGETS)), default=list(targets.TARGETS), metavar="TARGET,..."
    )
    cli.add_argument(
        "--phases", type=_phases, default=list(phases.PHASES), metavar="PHASE,...", help=", ".join(names)
    )
    cli.add_argument("--reps", type=int, default=1, help="repetitions; the tables show medians")
    cli.add_argument("--extra", type=targets.extra, action="append", default=[], metavar="NAME=URL[,PID]",
                     help="a proxy that already runs in front of --provider-port")  # fmt: skip
    cli.add_argument("--provider-port", type=int, default=0, help="default: any free port")
    cli.add_argument("--json", metavar="FILE", help="write all figures there")
    cli.add_argument("--check", action="store_true", help="exit with 1 when turngate misses a floor")
    return cli


class _names:
    """An argparse type: a comma-separated choice."""

    def __init__(self, allowed: list[str]) -> None:
        self.allowed = allowed

    def __call__(self, text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [name for name in chosen if name not in self.allowed]:
            raise argparse.ArgumentTypeError(f"no such name: {', '.join(unknown)} (of {', '.join(self.allowed)})")
        return chosen


def _phases(text: str) -> list[Phase]:
    by_name = {phase.name: phase for phase in phases.PHASES}
    return [by_name[name] for name in _names(list(by_name))(text)]


def measure(
    names: Sequence[str],
    chosen: Sequence[Phase],
    extras: Sequence[Target],
    bench_cpu: int,
    proxy_cpu: int,
    reps: int = 1,
    provider_port: int = 0,
) -> tuple[report.Results, dict[str, str]]:
    """Run every phase on every target, ``reps`` times over, and return the medians."""
    seen: dict[str, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turngate-bench-")))
        native.build(directory)
        provider = stack.enter_context(native.provider(directory, bench_cpu, provider_port))
        rig, site = Rig(directory, provider, bench_cpu), Site(directory, provider, proxy_cpu)
        running = [target for name in names if (target := _start(name, site, stack))] + list(extras)
        for _ in range(reps):
            for phase in chosen:
                for target in running:
                    note(f"{phase.name} {target.name}")
                    seen[phase.name][target.name].append(_run(phase, target, rig))
    combined = {
        phase: {name: report.combine(runs) for name, runs in by_target.items()} for phase, by_target in seen.items()
    }
    return combined, machine(bench_cpu, proxy_cpu, reps)


def _start(name: str, site: Site, stack: ExitStack) -> Target | None:
    try:
        return stack.enter_context(targets.TARGETS[name](site))
    except Unavailable as reason:
        note(f"{name}: {reason}")
        return None


def _run(phase: Phase, target: Target, rig: Rig) -> Figures:
    """A target that fails a phase is reported, and the run goes on."""
    try:
        return phases.run(phase, target, rig)
    except RuntimeError as failure:
        return {"failure": str(failure)}


def print_report(results: report.Results, machine: dict[str, str]) -> bool:
    """Print the tables, then the floors; say whether all were kept."""
    print("; ".join(f"{key} {value}" for key, value in machine.items()), end="\n\n")
    print(report.tables(results))
    outcomes = report.floors(results)
    if outcomes:
        print("\n### Floors\n")
    for promise, figure, kept in outcomes:
        print(f"- {'kept  ' if kept else 'MISSED'} {promise}: {figure:.2f}")
    return all(kept for _, _, kept in outcomes)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def cores() -> tuple[int, int]:
    """One core for the measuring side, another for the proxies; the same one if there is no other."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        note("only one core: the proxy competes with the load, so read no latency from this run")
    return allowed[0], allowed[-1] if len(allowed) == 1 else allowed[1]


def allow_many_connections() -> None:
    """A proxy needs two descriptors for each of 1,000 streams, and the children inherit this limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def machine(bench_cpu: int, proxy_cpu: int, reps: int) -> dict[str, str]:
    """What the figures depend on."""
    facts = {
        "cpu": _cpu_model(),
        "cores": f"{bench_cpu} (bench), {proxy_cpu} (proxy)",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "reps": str(reps),
        "load": f"{os.getloadavg()[0]:.1f}",
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
