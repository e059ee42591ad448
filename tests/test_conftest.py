"""The switch that lets no test be skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED = """
import pytest
def test_that_skips() -> None: pytest.skip("not here")
@pytest.mark.skipif(True, reason="marked")
def test_that_is_marked() -> None: ...
@pytest.mark.xfail(reason="known")
def test_that_is_known_to_fail() -> None: raise AssertionError
def test_that_passes() -> None: ...
"""


def run_pytest(folder: Path, module: str, switch: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of this module, with our conftest beside it."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (folder / "test_skips.py").write_text(module)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(folder),
            str(folder),
        ],
        cwd=folder,
        env={**os.environ, "TURNGATE_NO_SKIPS": switch},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("switch", "summary", "status"),
    [("", "1 passed, 2 skipped, 1 xfailed", 0), ("1", "1 failed, 1 passed, 1 xfailed, 1 error", 1)],
)
def test_a_skip_fails_where_nothing_may_be_skipped(
    tmp_path: Path, switch: str, summary: str, status: int
) -> None:
    result = run_pytest(tmp_path, SKIPPED, switch)
    assert summary in result.stdout
    assert result.returncode == status


def test_a_module_that_skips_itself_fails_too(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, 'import pytest\npytest.importorskip("no_such_module")\n', "1")
    assert "1 error" in result.stdout
    assert result.returncode != 0


def test_ci_runs_the_readmes_command_without_skips() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "export TURNGATE_NO_SKIPS=1" in script
    assert "make test" in script
