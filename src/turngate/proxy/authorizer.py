"""An outside authorizer, asked over HTTP about each call of a proved turn, in the shape of OPA's data API.

    POST URL   {"input": {"tool": "send_mail", ...}}   ->   {"result": true} or {"result": {"allow": true}}

(Open Policy Agent, REST API, "Get a Document (with Input)".) Whatever is no such answer is a no: an undefined rule has no
`result` there. Arguments are sent only where the configuration says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import httpx2
import msgspec
import structlog

from turngate.config.access import PolicyConfig
from turngate.core.check import CallCheck
from turngate.core.event import CallKind, SlotKey
from turngate.core.slot import Slot
from turngate.core.wrapper import names_of
from turngate.ledger.entry import TurnStart
from turngate.proxy.confirmation import Answer, Question

_log = structlog.get_logger("turngate")


class Authorization(Question):
    """Asked of the authorizer."""

    late = Answer.UNAUTHORIZED

    def __init__(self, expires_at: float, asking: asyncio.Task[bool]) -> None:
        super().__init__(expires_at)
        self._asking = asking
        asking.add_done_callback(self._done)

    def _done(self, asking: asyncio.Task[bool]) -> None:
        if asking.cancelled():
            return
        if (error := asking.exception()) is not None:
            # Its text may quote what was sent.
            _log.error("authorizer_failed", error=type(error).__name__)
        self.give(Answer.APPROVED if error is None and asking.result() else Answer.UNAUTHORIZED)

    def close(self) -> None:
        """Ask no further."""
        self._asking.cancel()


class Authorizer:
    """The authorizer that the configuration names."""

    def __init__(self, url: str, *, timeout_s: float, with_arguments: bool) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._with_arguments = with_arguments
        self._client = httpx2.AsyncClient(timeout=timeout_s, trust_env=False, follow_redirects=False)

    @classmethod
    def configured(cls, config: PolicyConfig) -> Authorizer | None:
        """The one of the configuration, if it has any."""
        if config.authorizer_url is None:
            return None
        return cls(
            config.authorizer_url,
            timeout_s=config.authorizer_timeout_s,
            with_arguments=config.authorizer_arguments,
        )

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    def ask(
        self, start: TurnStart, slots: Iterable[Slot], checks: Mapping[SlotKey, CallCheck]
    ) -> Authorization:
        """Ask about every call of a turn at once; all of them must be allowed."""
        inputs = [self._input(start, slot, checks.get(slot.key, CallCheck())) for slot in slots]
        expires_at = asyncio.get_running_loop().time() + self._timeout_s
        return Authorization(expires_at, asyncio.ensure_future(self._all(inputs)))

    async def _all(self, inputs: list[dict[str, Any]]) -> bool:
        return all(await asyncio.gather(*map(self._allows, inputs)))

    async def _allows(self, about: dict[str, Any]) -> bool:
        content = msgspec.json.encode({"input": about})
        headers = {"content-type": "application/json"}
        response = await self._client.post(self._url, content=content, headers=headers)
        if response.status_code != 200:
            _log.error("authorizer_failed", status=response.status_code)
            return False
        document = msgspec.json.decode(response.content)
        result = document.get("result") if isinstance(document, dict) else None
        return result is True or (isinstance(result, dict) and result.get("allow") is True)

    def _input(self, start: TurnStart, slot: Slot, check: CallCheck) -> dict[str, Any]:
        own, *inside = names_of(slot)
        about: dict[str, Any] = {
            "turn": start.turn_id,
            "tenant": start.tenant,
            "actor": start.actor,
            "upstream": start.upstream,
            "route": start.route,
            "model": start.model,
            "call": {"choice": slot.choice, "slot": "/".join(map(str, slot.key[1:])), "id": slot.call_id},
            "tool": own[0],
            "inside": [names[0] for names in inside],
            "schema_digest": check.schema_digest,
        }
        if self._with_arguments:
            about["arguments"] = _arguments(slot)
        return about


def _arguments(slot: Slot) -> object:
    """As they came, digit by digit; they are proved to be a JSON object, unless the tool takes free text."""
    if slot.kind is CallKind.CUSTOM:
        return slot.arguments
    return msgspec.Raw(slot.arguments.encode()) if slot.arguments else {}
