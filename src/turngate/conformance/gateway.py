"""Ask through a running gateway, whose upstream is the kit's provider, as a raw client that keeps every byte."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import httpx2
import msgspec

from turngate.conformance.gateway_judge import judge_gateway
from turngate.conformance.lapse import LapseCode
from turngate.conformance.listener import Listener, listened
from turngate.conformance.observation import WireObservation
from turngate.conformance.provider import Provider
from turngate.conformance.report import Row
from turngate.conformance.scenario import Scenario
from turngate.conformance.split import Split
from turngate.conformance.take import SETTLE_S, TEXT_PATIENCE_S, Take
from turngate.dialects import dialect_for
from turngate.errors import TurngateError
from turngate.presets import preset_named

PATIENCE_S = 60.0
"""How long one take may last; gateways wait for an upstream that says nothing more, but not that long."""
AT_ONCE = 16
"""Takes under way together: most of a take is waiting."""


class UnreachableError(TurngateError):
    """The gateway does not lead to the kit's provider; the message says what came instead."""


def reachable_through(
    scenarios: Sequence[Scenario], preset: str, pinned: Mapping[str, object] | None = None
) -> list[Scenario]:
    """Those that a gateway can be judged by, if it serves an upstream of this preset and has these schemas pinned.

    What rests on an operator's other settings is left out, and of two dialects on one path the one that the preset does not mean.
    """
    known = preset_named(preset)
    family = known.family if known is not None else None
    return [
        scenario
        for scenario in scenarios
        if not scenario.tuned
        and scenario.envelope.pinned == (pinned or {})
        and scenario.preset in ("strict", preset)
        and _claimant(scenario, family) == scenario.dialect
    ]


def _claimant(scenario: Scenario, family: str | None) -> str | None:
    path = scenario.envelope.path.partition("?")[0]
    dialect = dialect_for(scenario.envelope.method, path, family)
    return dialect.name if dialect is not None else None


async def judge_through(
    gateway: str,
    provider: Provider,
    scenarios: Sequence[Scenario],
    *,
    headers: Mapping[str, str] | None = None,
    model: str | None = None,
    split: Split | None = None,
    settle_s: float = SETTLE_S,
    text_patience_s: float = TEXT_PATIENCE_S,
) -> list[Row]:
    """Play every scenario through the gateway once and judge what arrived."""
    turns = asyncio.Semaphore(AT_ONCE)
    limits = httpx2.Limits(max_connections=AT_ONCE)
    async with httpx2.AsyncClient(
        base_url=gateway, headers=dict(headers or {}), timeout=PATIENCE_S, limits=limits, trust_env=False
    ) as client:

        async def play(scenario: Scenario) -> Row:
            take = Take(scenario, split or Split(), text_patience_s=text_patience_s, settle_s=settle_s)
            async with turns:
                provider.expect(take)
                seen = await observe(client, take, model)
                provider.forget(take)
            return Row(scenario, "wire", tuple(judge_gateway(scenario, seen)))

        first = await play(scenarios[0])
        if LapseCode.NOT_ASKED in first.codes:
            raise UnreachableError(f"{gateway}{scenarios[0].envelope.path}: {first.lapses[0].message}")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(play(scenario)) for scenario in scenarios[1:]]
    return [first, *(task.result() for task in tasks)]


async def observe(client: httpx2.AsyncClient, take: Take, model: str | None = None) -> WireObservation:
    """Ask for one take and see what arrives."""
    scenario = take.scenario
    listener = Listener(scenario)
    seen = WireObservation()
    try:
        async with (
            asyncio.timeout(PATIENCE_S),
            client.stream(
                "POST", scenario.envelope.path, content=request_of(take, model), headers=_HEADERS
            ) as reply,
        ):
            seen.status = reply.status_code
            async for data in reply.aiter_raw():
                _hear(listener, take, data, refused=reply.is_error)
        take.read_text(listener.hear_the_end())
    except TimeoutError:
        seen.hung = True
    except httpx2.HTTPError:
        seen.cut = True
    seen.unaltered = listener.is_reply(listened(scenario))
    seen.text, seen.ended = listener.text, listener.ended
    seen.calls = [] if seen.status >= 400 else listener.calls
    seen.error = f"HTTP {seen.status}" if seen.status >= 400 else listener.fault
    seen.call_before_proof, seen.text_late = take.call_seen_early, take.text_late
    seen.requests = take.requests
    return seen


_HEADERS = {"content-type": "application/json", "accept-encoding": "identity"}


def _hear(listener: Listener, take: Take, data: bytes, *, refused: bool) -> None:
    take.read_text(listener.hear(data))
    if listener.carries_call and not refused:
        take.see_call()


def request_of(take: Take, model: str | None = None) -> bytes:
    """The fixture's own request, with a prompt that names the take, and with a model that the gateway knows."""
    asked = msgspec.json.decode(take.scenario.envelope.request or b"{}", type=dict[str, object])
    asked = _laid_over(asked, take.scenario.surface.asking(take.words))
    if model is not None:
        asked["model"] = model
    return msgspec.json.encode(asked)


def _laid_over(asked: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """The request with these fields, of which an object leaves what else stands in its place."""
    merged = dict(asked)
    for key, value in fields.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = _laid_over(known, value)
        else:
            merged[key] = value
    return merged
