"""Recorded replies of formats that no dialect reads: refused whole, or passed as they are, as the operator says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proxy.conftest import run
from tests.proxy.gated import LAST_CHUNK, Run, chunked, gated, request
from tests.transport.peer import Peer

__all__ = ["run"]

WIRES = {"ollama-generate": ("/api/generate", 2)}


@pytest.mark.parametrize("unjudged", ["block", "pass"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_cannot_be_judged_is_refused_or_passes(
    shared: Path, tmp_path: Path, run: Run, wire: str, unjudged: str
) -> None:
    path, number = WIRES[wire]
    folders = sorted((shared / "corpus" / "cases" / wire).iterdir())
    assert len(folders) == number
    bodies = [(folder / "response.bin").read_bytes() for folder in folders]
    kind = json.loads((folders[0] / "meta.json").read_bytes())["content_type"]
    left = list(bodies)

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
            await peer.send(head.encode(), chunked(left.pop(0)), LAST_CHUNK)

    async def main() -> None:
        async with gated(tmp_path, play, provider={"unjudged": unjudged}) as world:
            for body in bodies:
                answer = await world.ask(request(f"/provider{path}", {"stream": True}))
                if unjudged == "pass":
                    assert (answer.status, answer.body, answer.clean) == (200, body, True)
                else:
                    assert (answer.status, answer.details()["codes"]) == (400, ["unsupported_event"])
            counters = world.gate.counters
            assert (counters.refused, counters.unjudged) == (
                (number, 0) if unjudged == "block" else (0, number)
            )

    run(main())
