"""The adapters of front ends, each in its own process: what they run, when, and what they raise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conformance.kit import scenario
from tests.node.packages import NodeError, installed
from turngate.conformance.adapters import ADAPTERS
from turngate.conformance.drive import judge_adapter_by
from turngate.conformance.environment import command_for
from turngate.conformance.lapse import LapseCode
from turngate.conformance.provider import Provider, served
from turngate.conformance.report import Row

UNPROVED, EARLY = LapseCode.UNPROVED_CALL, LapseCode.CALL_BEFORE_PROOF
INVENTED, REFUSED = LapseCode.CALL_INVENTED, LapseCode.SOUND_TURN_REFUSED
SETTLE_S = 20.0
"""Nobody waits this long: a reader that acts early ends the wait, and one that does not is played without it."""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder in which both adapters find their packages."""
    try:
        place = installed()
    except NodeError as error:
        pytest.skip(str(error))
    for name in ("vercel-ui", "ag-ui"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "node_modules").symlink_to(place / "node_modules")
    return tmp_path


def told(
    folder: Path, adapter: str, way: str, names: list[str], settle_s: float
) -> dict[str, list[LapseCode]]:
    async def main() -> list[Row]:
        provider = Provider([scenario(name) for name in names])
        async with served(provider) as origin:
            report = await judge_adapter_by(
                adapter,
                origin,
                provider,
                list(provider.scenarios.values()),
                folder=folder,
                ways=[way],
                settle_s=settle_s,
            )
        return list(report.rows)

    return {row.scenario.name.partition("/")[2]: list(row.codes) for row in asyncio.run(main())}


def test_the_chat_of_a_front_end_runs_calls_at_once_and_leaves_them_in_its_messages(packages: Path) -> None:
    names = [f"vercel_ui/{name}" for name in ("fragmented-json", "text-only", "truncation")]

    assert told(packages, "vercel-ui", "onToolCall", names, SETTLE_S) == {
        "fragmented-json": [EARLY],
        "text-only": [],
        "truncation": [EARLY, UNPROVED],
    }
    names += ["vercel_ui/provider-run-tool.answered", "vercel_ui/unknown-event.part"]
    assert told(packages, "vercel-ui", "messages", names, 0.0) == {
        "fragmented-json": [],
        "text-only": [],
        "truncation": [UNPROVED],
        "provider-run-tool.answered": [],
        "unknown-event.part": [REFUSED],
    }


def test_ag_uis_subscriber_runs_calls_at_once_and_its_messages_have_them_afterwards(packages: Path) -> None:
    names = [f"ag_ui/{name}" for name in ("fragmented-json", "text-only", "truncation", "provider-run-tool")]

    assert told(packages, "ag-ui", "subscriber", names, SETTLE_S) == {
        "fragmented-json": [EARLY],
        "text-only": [],
        "truncation": [EARLY, UNPROVED],
        "provider-run-tool": [EARLY, INVENTED],
    }
    names.append("ag_ui/truncation.error")
    assert told(packages, "ag-ui", "messages", names, 0.0) == {
        "fragmented-json": [],
        "text-only": [],
        "truncation": [UNPROVED],
        "provider-run-tool": [],
        "truncation.error": [],
    }


def test_what_the_tests_have_installed_is_what_the_adapters_pin(packages: Path) -> None:
    for name in ("vercel-ui", "ag-ui"):
        node, file = command_for(name, packages)
        assert Path(node).name == "node"
        assert Path(file).with_name("worker.mjs").read_text(encoding="utf-8")
        for package, version in ADAPTERS[name].packages.items():
            manifest = packages / name / "node_modules" / package / "package.json"
            assert f'"version": "{version}"' in manifest.read_text(encoding="utf-8")
