"""Google Code Assist: Gemini behind a Google login, as Gemini CLI speaks to it (`v1internal:streamGenerateContent`).

Source: Gemini CLI's own client (`code_assist/server.ts` and `converter.ts`). Google documents nothing of it. The request of
generateContent stands in `request`, beside `model` and `project`, and each response in `response`, beside a `traceId` and what credits
are left. What is inside is judged as generateContent, by the exact text that the envelope holds.

The client reads no error inside a stream: of an envelope without a response it makes one without candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from turngate.core.event import Event, Prose, ProviderFault
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import SSE_OR_BODY, encode, frame_fault, read_event, read_request, text_or_none
from turngate.dialects.gemini_candidate import CARRIERS, strays
from turngate.dialects.gemini_generate import GenerateDecoder, error, fault, is_code_assist
from turngate.dialects.gemini_request import toolset_of

_ENVELOPE = frozenset({"response", "traceId", "consumedCredits", "remainingCredits", "metadata", "error"})


class _Envelope(Struct, gc=False):
    response: Raw = Raw(b"")


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class GeminiCodeAssist:
    """The dialect."""

    name: ClassVar[str] = "gemini_code_assist"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = True
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../v1internal:generateContent` and `:streamGenerateContent`, which name no model."""
        return method == "POST" and is_code_assist(path)

    def toolset(self, body: bytes) -> Toolset:
        """Read the `tools` of the request inside."""
        outer = read_request(body)
        inner = outer.get("request") if outer is not None else None
        if outer is None or not isinstance(inner, dict):
            return Toolset(readable=False)
        return toolset_of(inner, text_or_none(outer.get("model")))

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002 -- the interface
        """A decoder of envelopes that stream, or of one."""
        return CodeAssistDecoder(policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Google's error envelope."""
        return encode(error(400, "FAILED_PRECONDITION", message, details))


class CodeAssistDecoder(GenerateDecoder):
    """One reply: what each envelope holds, read as generateContent."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for plain text of the only open candidate."""
        data = frame.data
        if data is None:
            return super().decode(frame)
        inner = _response(data)
        around = self._around(data, inner)
        if inner is None:
            return [*frame_fault(frame, CARRIERS), *around, Prose(trailer=True)]
        if frame.fault is None:
            around += frame_fault(frame, CARRIERS)
        read = super().decode(Frame(frame.raw, inner, frame.event, frame.fault))
        return [*around, *read] if around else read

    def _around(self, data: bytes, inner: bytes | None) -> list[Event]:
        """What stands beside the response."""
        envelope, faults = read_event(data if inner is None else data.replace(inner, b"{}", 1), CARRIERS)
        if envelope is None:
            return faults
        faults += strays("envelope", envelope, _ENVELOPE, self._policy.harmless)
        return [*faults, ProviderFault(fault(envelope["error"]))] if envelope.get("error") else faults

    def _ending(self, notice: BlockNotice, reason: str) -> dict[str, object]:
        return {"response": super()._ending(notice, reason)}


def _response(data: bytes) -> bytes | None:
    """The exact text of the response that an envelope holds, if it holds one."""
    try:
        response = bytes(_decode_envelope(data).response)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return response if response.startswith(b"{") else None
