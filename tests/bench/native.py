"""The two C programs: build them, run the provider, start the load client.

They are built on demand, so the repository holds no binaries and the package no compiler.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STOP_PATIENCE_S = 5.0


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(directory: Path) -> None:
    """Compile both programs into the directory."""
    cc = compiler()
    if cc is None:
        raise SystemExit("the benchmark needs a C compiler (Debian: apt-get install gcc libc6-dev)")
    for name in ("provider", "load"):
        subprocess.run([cc, "-O2", "-o", directory / name, HERE / f"{name}.c"], check=True)


@contextmanager
def running(command: Sequence[str | Path], cpu: int, **popen: Any) -> Iterator[subprocess.Popen[str]]:
    """A process on its own core, ended when the block ends.

    It inherits the core from this thread: set from outside, its first threads and children could escape.
    """
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        process = subprocess.Popen(command, text=True, **popen)
    finally:
        os.sched_setaffinity(0, own)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@dataclass(frozen=True, slots=True)
class Provider:
    """The running provider."""

    port: int
    pid: int

    def stats(self) -> dict[str, int]:
        """Its counters: connections, streaming, started, completed, aborted."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/stats")
            counters: dict[str, int] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return counters


@contextmanager
def provider(directory: Path, cpu: int, port: int = 0) -> Iterator[Provider]:
    """Run the provider on 127.0.0.1; port 0 takes any free one."""
    with running([directory / "provider", str(port)], cpu, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        word, _, number = process.stdout.readline().partition(" ")
        if word != "PORT":
            raise SystemExit(f"the provider did not start on port {port}")
        yield Provider(int(number), process.pid)
