"""`make conformance`: every adapter and every gateway that the bundled results tell of, measured again, and the page rewritten.

Each adapter runs in an environment of its own with the pinned versions, which is made if it is not there. A gateway gets the settings
that its entry here says, and nothing else. About eight minutes, without the installation; `python -m tests.conformance.measure --only NAME`
measures one again and leaves the others as they were.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import logging
import os
import platform
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx2
import structlog

from tests.conformance.kit import PRESETS, pin, pinned_of, preset_of
from tests.conformance.page import write_page
from tests.processes import free_port
from tests.proxy.gated import configured, running
from turngate import __version__
from turngate.conformance.adapters import ADAPTERS, Adapter
from turngate.conformance.drive import judge_adapter_by
from turngate.conformance.environment import default_folder, set_up
from turngate.conformance.gateway import judge_through, reachable_through
from turngate.conformance.provider import Provider, served
from turngate.conformance.report import Row
from turngate.conformance.results import Results, Subject, load_results, write_results
from turngate.conformance.scenario import Scenario, load_scenarios

SETTLE_S = 3.0
SLOW_SETTLE_S = 5.0
"""LiteLLM's proxy takes a second for a piece while sixteen turns are under way."""
START_PATIENCE_S = 180
KEY = "sk-turngate-conformance-0001"
PROXY = Adapter("litellm-proxy", "", {"litellm[proxy]": "1.108.6"})
"""The newest release whose `proxy` extra could be installed from the registry at hand."""
PROXY_MODELS = {"openai_chat": "demo", "openai_responses": "demo", "anthropic_messages": "claude"}
PROXY_CONFIG = """
model_list:
  - model_name: demo
    litellm_params: {{model: openai/demo, api_base: "{origin}/v1", api_key: none}}
  - model_name: claude
    litellm_params: {{model: anthropic/demo, api_base: "{origin}", api_key: none}}
router_settings: {{disable_cooldowns: true}}
"""
ADAPTER_SETTINGS = {
    "openai": "defaults; a loop that joins what the SDK gives and runs it",
    "anthropic": "defaults; a loop, and the SDK's own tool runner",
    "mistral": "defaults; a loop that joins what the SDK gives and runs it",
    "cohere": "defaults; a loop that joins what the SDK gives and runs it, and one that runs a call when the stream says that it is whole",
    "google-genai": "defaults; a loop, and the SDK's automatic function calling",
    "google-interactions": "defaults; a loop that joins what the SDK gives and runs it, and one that runs a call when its step has stopped",
    "ollama": "defaults; a loop that runs calls when the stream has ended, and one that runs them as they come",
    "boto3": "defaults; a loop over `converse_stream` that joins what the SDK gives and runs it, and one that runs a call when its block has stopped",
    "langchain-openai": "`ChatOpenAI.bind_tools`, defaults; `tool_calls` of the summed message are run",
    "litellm": "`completion`, defaults; a loop, and `stream_chunk_builder`",
    "vercel-ai": "`streamText` with `execute`, one step, and a loop over its `tool-call` parts",
    "vercel-ui": "`AbstractChat` over `DefaultChatTransport`; `onToolCall`, and the parts of the last message when the chat is done",
    "ag-ui": "`HttpAgent`; a subscriber's `onToolCallEndEvent`, and the agent's messages when the run is over",
}
GATEWAYS = ("LiteLLM proxy", "turngate")
Measured = tuple[Subject, list[tuple[str, Row]]]


async def measure_adapter(adapter: Adapter, folder: Path, scenarios: Sequence[Scenario]) -> Measured:
    provider = Provider(scenarios)
    async with served(provider) as origin:
        report = await judge_adapter_by(
            adapter.name, origin, provider, scenarios, folder=folder, settle_s=SETTLE_S
        )
    versions = report.subject.partition(": ")[2]
    ways = list(dict.fromkeys(row.way for row in report.rows))
    columns = {way: f"{adapter.name} {way}" for way in ways}
    subject = Subject(adapter.name, versions, ADAPTER_SETTINGS[adapter.name], list(columns.values()))
    return subject, [(columns[row.way], row) for row in report.rows]


@contextlib.asynccontextmanager
async def litellm_proxy(place: Path, origin: str) -> AsyncIterator[str]:
    """LiteLLM's proxy before the kit's provider."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(PROXY_CONFIG.format(origin=origin))
        command = [
            str(place / "bin" / "litellm"),
            "--config",
            str(config),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        more = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **more}, stdout=DEVNULL, stderr=DEVNULL
        )
        try:
            gateway = f"http://127.0.0.1:{port}"
            await until_alive(f"{gateway}/health/liveliness")
            yield gateway
        finally:
            process.terminate()
            await process.wait()


async def until_alive(url: str) -> None:
    async with asyncio.timeout(START_PATIENCE_S), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                if (await client.get(url)).status_code == 200:
                    return
            await asyncio.sleep(0.5)


async def measure_litellm_proxy(folder: Path, scenarios: Sequence[Scenario]) -> Measured:
    place = folder / PROXY.name
    if not (place / "bin" / "litellm").exists():
        set_up(PROXY, folder)
    provider, column, rows = Provider(scenarios), "LiteLLM proxy", []
    headers = {"authorization": f"Bearer {KEY}"}
    async with served(provider) as origin, litellm_proxy(place, origin) as gateway:
        for dialect, model in PROXY_MODELS.items():
            some = [each for each in reachable_through(scenarios, "strict") if each.dialect == dialect]
            rows += await judge_through(
                gateway, provider, some, headers=headers, model=model, settle_s=SLOW_SETTLE_S
            )
    settings = (
        "two models, a master key, cooldowns off; no guardrail configured, so nothing here is one that failed"
    )
    version = f"litellm[proxy] {PROXY.packages['litellm[proxy]']}, Python {platform.python_version()}"
    return Subject(column, version, settings, [column]), [(column, row) for row in rows]


async def measure_turngate(scenarios: Sequence[Scenario]) -> Measured:
    column, rows = "turngate", []
    for preset in ("strict", *PRESETS.values()):
        pinned = pinned_of("vercel_ui") if preset == "vercel-ui" else {}
        fit = reachable_through(scenarios, preset, pinned)
        fit = [each for each in fit if preset_of(each.dialect) == preset]
        provider = Provider(scenarios)
        with tempfile.TemporaryDirectory() as folder:
            async with served(provider) as origin:
                settings, sections = {"preset": preset, "terminal_grace_s": 2.0}, pin(Path(folder), pinned)
                config = configured(Path(folder), origin, provider=settings, sections=sections)
                async with running(config) as (_, _, port):
                    gateway = f"http://127.0.0.1:{port}/provider"
                    rows += await judge_through(gateway, provider, fit, settle_s=SETTLE_S)
    settings_told = (
        "defaults; preset `strict`, for Mistral's dialects `mistral`, for those of front ends `ag-ui` and `vercel-ui`, the latter with "
        "its tools' schemas pinned"
    )
    return Subject(column, f"turngate {__version__}", settings_told, [column]), [
        (column, row) for row in rows
    ]


async def measure(folder: Path, only: Sequence[str]) -> Results:
    """Measure all of them, or only some, and leave the others as they were measured."""
    scenarios = load_scenarios()
    results = load_results() if only else Results(dt.datetime.now(tz=dt.UTC).date().isoformat())
    for name in only or (*ADAPTERS, *GATEWAYS):
        tell(results, *await measure_one(name, folder, scenarios))
    order = (*ADAPTERS, *GATEWAYS)
    results.subjects.sort(key=lambda subject: order.index(subject.name))
    return results


async def measure_one(name: str, folder: Path, scenarios: Sequence[Scenario]) -> Measured:
    if name == "turngate":
        return await measure_turngate(scenarios)
    if name not in ADAPTERS:
        return await measure_litellm_proxy(folder, scenarios)
    if not (folder / name).exists():
        set_up(ADAPTERS[name], folder)
    return await measure_adapter(ADAPTERS[name], folder, scenarios)


def tell(results: Results, subject: Subject, rows: list[tuple[str, Row]]) -> None:
    results.add(subject, rows)
    print(f"{subject.name}: {len(rows)} takes, {sum(row.failed for _, row in rows)} failed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=default_folder())
    parser.add_argument(
        "--only", action="append", choices=[*ADAPTERS, *GATEWAYS], default=[], help="May be repeated."
    )
    options = parser.parse_args()
    # The gate's own log line for each turn is of no use here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    results = asyncio.run(measure(options.dir, options.only))
    write_results(results)
    write_page(results)


if __name__ == "__main__":
    main()
