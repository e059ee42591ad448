"""The examples of docs/ownership.md, run as they are printed there, before the demo provider."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from turngate.demo.stage import demo_config, open_stage
from turngate.ledger.claim import Claim
from turngate.ledger.queued import QueuedLedger
from turngate.ledger.store import Refusal

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
APART = Path(sys.prefix) / "apart" / "bin" / "python"
"""Where `make test` puts what only one test needs."""

PYTHONS = {
    "claim_openai": Path(sys.executable),
    "claim_langchain": APART,
}
NAMES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not python.exists(), reason="needs tests/apart.lock; `make test` installs it"
        ),
    )
    for name, python in PYTHONS.items()
]


def printed(folder: Path, name: str) -> str:
    """What an example prints before a gate that runs here."""

    async def main() -> bytes:
        async with open_stage(demo_config(folder)) as stage:
            environment = {
                **os.environ,
                "GATE": stage.gate.rpartition("/")[0],
                "MODEL": "demo-parallel",
                "PYTHONPATH": str(ROOT / "src"),
            }
            command = [str(PYTHONS[name]), str(EXAMPLES / f"{name}.py")]
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=subprocess.PIPE)
            output, _ = await process.communicate()
            assert process.returncode == 0
            return output

    return asyncio.run(main()).decode()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_what_it_is_granted_and_not_what_somebody_else_has_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Two calls of one turn, of which the one that is asked for last comes too late."""
    granting = QueuedLedger.claim
    asked: list[str] = []

    async def late_the_second_time(ledger: QueuedLedger, claim: Claim) -> int | Refusal:
        asked.append(claim.slot)
        if len(asked) == 2:
            await granting(ledger, replace(claim, key="somebody else's"))
        return await granting(ledger, claim)

    monkeypatch.setattr(QueuedLedger, "claim", late_the_second_time)
    ran, refused = sorted(printed(tmp_path, name).splitlines())
    assert ran.startswith("looked up ")
    assert refused == "not run: duplicate_delivery"
    assert sorted(asked) == ["0", "1"]


@pytest.mark.parametrize("name", PYTHONS)
def test_the_page_prints_what_is_tested(name: str) -> None:
    example = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```\n" in (ROOT / "docs" / "ownership.md").read_text(encoding="utf-8")
