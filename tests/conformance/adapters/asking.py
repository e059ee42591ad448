"""An adapter's way, run in this process against the kit's provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.conformance.kit import playing, scenario
from turngate.conformance.adapters import worker
from turngate.conformance.adapters.worker import Ask
from turngate.conformance.gateway import request_of
from turngate.conformance.observation import SeenCall
from turngate.conformance.take import Take


def told_by(way: Callable[[Ask], Any], name: str) -> tuple[list[SeenCall], str]:
    """The calls that a way would have run, and the text that it showed; raises what it raises."""
    lines: list[dict[str, Any]] = []
    take = Take(scenario(name), settle_s=0.0)

    async def main() -> None:
        async with playing() as stage:
            stage.provider.expect(take)
            request = json.loads(request_of(take))
            await asyncio.to_thread(way, Ask(1, stage.origin, take.scenario.dialect, request, lines.append))

    try:
        asyncio.run(main())
    finally:
        # Whatever keeps connections for the next ask would keep them until the interpreter ends.
        for key in [key for key, client in worker._clients.items() if hasattr(client, "close")]:
            worker._clients.pop(key).close()
    calls = [SeenCall(**line["call"]) for line in lines if "call" in line]
    return calls, "".join(line.get("text", "") for line in lines)
