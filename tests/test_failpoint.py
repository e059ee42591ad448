from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = "from turngate import failpoint\nfor n in range(4): failpoint.hit('here'); print(n, flush=True)"


def run(spec: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TURNGATE_FAILPOINT"}
    if spec is not None:
        environment["TURNGATE_FAILPOINT"] = spec
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(("spec", "printed"), [("here", ""), ("here:1", ""), ("here:3", "0\n1\n")])
def test_an_armed_point_kills_the_process_at_the_nth_pass(spec: str, printed: str) -> None:
    result = run(spec)
    assert (result.returncode, result.stdout) == (-signal.SIGKILL, printed)


@pytest.mark.parametrize("spec", [None, "", "elsewhere"])
def test_a_point_that_is_not_armed_does_nothing(spec: str | None) -> None:
    result = run(spec)
    assert (result.returncode, result.stdout) == (0, "0\n1\n2\n3\n")
