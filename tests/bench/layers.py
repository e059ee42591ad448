"""What each layer costs in process, in microseconds per event: framing, decoding, the session, and a whole tool turn.

No socket and no event loop, so this is turngate's own work and nothing else; the difference to CPU per event of the real
benchmark is the kernel, the loop and HTTP. The bytes are the provider's own, fetched once.

    python -m tests.bench.layers
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from tests.bench import native
from tests.bench.bench import cores, pinned_to
from tests.bench.targets import CHAT, Target, request_bytes
from turngate.core.action import Action, Decide, Forward, Release
from turngate.core.frame import Frame
from turngate.core.gate import Move
from turngate.core.policy import TurnPolicy
from turngate.core.session import Session
from turngate.core.sse import SSEFramer
from turngate.dialects.openai_chat import OpenAIChat
from turngate.rules import Judgement, Traits

DIALECT = OpenAIChat()
POLICY = TurnPolicy()
TEXTS, FRAGMENTS = 60, 20
BURST = 16  # events in one read


@dataclass(frozen=True, slots=True)
class Sample:
    """One stream as the provider sends it, and the request that it answers."""

    request: bytes
    events: list[bytes]

    @property
    def texts(self) -> list[bytes]:
        return self.events[:TEXTS]

    @property
    def calls(self) -> list[bytes]:
        return self.events[TEXTS : TEXTS + 1 + FRAGMENTS]


@dataclass(frozen=True, slots=True)
class Granted:
    """Stands for the ledger's proof: its cost is the ledger's and is measured over sockets."""

    turn_id: str


def fetch(port: int) -> Sample:
    """Ask the provider for one stream."""
    target = Target("direct", "127.0.0.1", port, CHAT, None)
    body = request_bytes(target, f"bench-burst-{TEXTS}-{FRAGMENTS}", stream=True).partition(b"\r\n\r\n")[2]
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("POST", CHAT, body)
    events = [block + b"\n\n" for block in connection.getresponse().read().split(b"\n\n") if block]
    connection.close()
    return Sample(body, events)


def reads(events: Sequence[bytes], size: int) -> list[bytes]:
    """The events as they come off a socket, `size` in a read."""
    return [b"".join(events[i : i + size]) for i in range(0, len(events), size)]


def frames(events: Sequence[bytes]) -> list[Frame]:
    framer = SSEFramer(POLICY.limits.frame_bytes)
    return [frame for event in events for frame in framer.receive_data(event)]


def session(request: bytes) -> Session:
    """A session as the proxy composes it."""
    tools = DIALECT.toolset(request)
    decoder = DIALECT.decoder(tools, POLICY, streamed=True)
    traits = Traits(decoder.sentinel_optional, DIALECT.named_choice_ends_naturally)
    framer = SSEFramer(POLICY.limits.frame_bytes)
    return Session("turn", framer=framer, decoder=decoder, judge=Judgement(tools, traits), policy=POLICY)


def take(turn: Session, data: bytes) -> list[Action]:
    """One read, as the proxy takes it."""
    move = turn.receive_alike(data, 1.0)
    if move is None:
        return turn.receive_data(data, 1.0)
    return [Forward(data)] if move is Move.FORWARD else []


def play(sample: Sample, size: int) -> bytes:
    """Run one whole turn and return what the client gets."""
    turn, sent = session(sample.request), b""
    for data in reads(sample.events, size):
        for action in take(turn, data):
            sent += _carry_out(turn, action)
    turn.close()
    return sent


def _carry_out(turn: Session, action: Action) -> bytes:
    match action:
        case Forward(data) | Release(data):
            return data
        case Decide():
            return b"".join(_carry_out(turn, then) for then in turn.release(Granted(turn.turn_id)))
        case _:
            raise SystemExit(f"the benchmark's own turn did not pass: {action}")


def layers(sample: Sample) -> list[tuple[str, int, Callable[[], object]]]:
    """(layer, events a call, the call)."""
    text_frames, call_frames = frames(sample.texts), frames(sample.calls)
    tools = DIALECT.toolset(sample.request)

    def frame(size: int) -> Callable[[], object]:
        batch = reads(sample.events, size)

        def cut() -> None:
            framer = SSEFramer(POLICY.limits.frame_bytes)
            for data in batch:
                framer.receive_data(data)

        return cut

    def decode(batch: Sequence[Frame]) -> Callable[[], object]:
        def read() -> None:
            decoder = DIALECT.decoder(tools, POLICY, streamed=True)
            for each in batch:
                decoder.decode(each)

        return read

    def prose(size: int) -> Callable[[], object]:
        batch = reads(sample.texts, size)

        def forward() -> None:
            turn = session(sample.request)
            for data in batch:
                take(turn, data)
            turn.close()

        return forward

    whole = len(sample.events)
    return [
        ("framing, 1 event a read", whole, frame(1)),
        (f"framing, {BURST} events a read", whole, frame(BURST)),
        ("decoding text", len(text_frames), decode(text_frames)),
        ("decoding tool fragments", len(call_frames), decode(call_frames)),
        ("session set up (per turn)", 1, lambda: session(sample.request)),
        ("session, text, 1 event a read", TEXTS, prose(1)),
        (f"session, text, {BURST} events a read", TEXTS, prose(BURST)),
        ("whole tool turn, 1 event a read", whole, lambda: play(sample, 1)),
        (f"whole tool turn, {BURST} events a read", whole, lambda: play(sample, BURST)),
    ]


def fastest_s(call: Callable[[], object], budget_s: float) -> float:
    """The fastest run within the budget: what the code costs when nothing disturbs it."""
    fastest, deadline = float("inf"), time.perf_counter() + budget_s
    while time.perf_counter() < deadline:
        begin = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - begin)
    return fastest


def figures(budget_s: float = 0.4) -> list[tuple[str, float]]:
    """Microseconds per event of each layer."""
    bench_cpu, proxy_cpu = cores()
    with tempfile.TemporaryDirectory(prefix="turngate-layers-") as name:
        directory = Path(name)
        native.build(directory)
        with native.provider(directory, bench_cpu) as provider:
            sample = fetch(provider.port)
    if play(sample, 1) != b"".join(sample.events):
        raise SystemExit("the turn that came out is not the turn that went in")
    with pinned_to(proxy_cpu):
        return [(layer, fastest_s(call, budget_s) / events * 1e6) for layer, events, call in layers(sample)]


def main() -> int:
    print("| layer | us/event |\n|---|---|")
    for layer, cost in figures():
        print(f"| {layer} | {cost:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
