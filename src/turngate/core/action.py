"""Actions: what the relay must do now. The relay is their only interpreter."""

from __future__ import annotations

from msgspec import Struct

from turngate.core.verdict import Verdict


class Forward(Struct, frozen=True, gc=False):
    """Send these upstream bytes to the client."""

    data: bytes


class Inject(Struct, frozen=True, gc=False):
    """Send these bytes of our own: a keep-alive. Counted apart."""

    data: bytes


class Decide(Struct, frozen=True):
    """The turn is proved. Record it; then `Session.release`, or `Session.refuse` if that is impossible."""

    verdict: Verdict


class Release(Struct, frozen=True):
    """Send the held bytes, exactly as received, and end the reply."""

    data: bytes
    verdict: Verdict


class Block(Struct, frozen=True):
    """Nothing held leaves. End the reply with `stream` if any byte of it was sent, else with `body` as an HTTP 400."""

    verdict: Verdict
    stream: bytes
    body: bytes


class Finish(Struct, frozen=True):
    """No call for the agent was in the turn, and all of it was forwarded. End the reply as the upstream ended."""

    verdict: Verdict
    clean: bool


Action = Forward | Inject | Decide | Release | Block | Finish
