"""Amazon Bedrock's InvokeModel: whatever format the model itself speaks, in the chunks of an AWS event stream or as one body.

Source: the service model that botocore ships, the API reference's pages of model parameters and the recorded streams (wire reference 6.5).

    wire                                      read by
    chunk, .bytes                             the format inside, told by its keys:
      type                                    Anthropic's events       `anthropic_messages`
      messageStart, contentBlockDelta, ...    Nova's                   `bedrock_converse`
      choices                                 Mistral's, OpenAI's      `mistral_chat`
      event_type, or text and finish_reason   Cohere's Command R       `cohere_chat_v1`
      anything else                           text, unless a call could stand in it
    amazon-bedrock-invocationMetrics          the last chunk: TurnClosed, where the format inside has no end of its own
    an exception, an error                    ProviderFault

A turn keeps to one format. Formats without calls (Llama's `generation`, Mistral's `outputs`, Titan, Command) pass as text; what may
be a call in one of them all the same is held, and not proved.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from turngate.core.event import Defect, Event, Prose, ProviderFault, TurnClosed, Unrecognised
from turngate.core.event_stream import encode_message
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import BODY, EVENT_STREAM, Framing
from turngate.core.json_text import read_lenient
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.sse import SSEFramer
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects import (
    anthropic_messages,
    bedrock_converse,
    bedrock_request,
    cohere_chat_v1,
    openai_chat,
)
from turngate.dialects.anthropic_messages import MessagesDecoder
from turngate.dialects.anthropic_request import read_toolset
from turngate.dialects.base import (
    encode,
    frame_fault,
    listed,
    may_carry,
    names_calls,
    read_event,
    read_request,
    wire_word,
)
from turngate.dialects.bedrock_converse import ConverseDecoder, error_body, exception, message_fault
from turngate.dialects.cohere_chat_v1 import CohereV1Decoder
from turngate.dialects.mistral_chat import INHERENT
from turngate.dialects.openai_chat import ChatDecoder, OpenAIChat

CARRIERS = (*anthropic_messages.CARRIERS, *bedrock_converse.CARRIERS, *openai_chat.CARRIERS, b"tool-call")
"""Everything that carries a call in any format inside."""

METRICS = "amazon-bedrock-invocationMetrics"

_WORDS = tuple(carrier.decode() for carrier in CARRIERS)
_NOVA = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}
)


_COHERE_BODY = frozenset({"text", "finish_reason"})

_Inside = MessagesDecoder | ConverseDecoder | ChatDecoder | CohereV1Decoder


class _Chunk(Struct, forbid_unknown_fields=True, gc=False):
    inside: bytes = msgspec.field(name="bytes")
    """Base64 of what the model says."""
    p: str = ""


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class BedrockInvoke:
    """The dialect."""

    name: ClassVar[str] = "bedrock_invoke"
    framings: ClassVar[tuple[Framing, ...]] = (EVENT_STREAM, BODY)
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../model/ID/invoke` and `/invoke-with-response-stream`."""
        ends = path.endswith(("/invoke", "/invoke-with-response-stream"))
        return method == "POST" and "/model/" in path and ends

    def toolset(self, body: bytes) -> Toolset:
        """Read the tools in the spelling of the model's own format."""
        request = read_request(body)
        if request is None:
            return Toolset(readable=False)
        if "toolConfig" in request:
            return bedrock_request.read_toolset(request)
        if any(
            isinstance(tool, dict) and "parameter_definitions" in tool
            for tool in listed(request.get("tools"))
        ):
            return cohere_chat_v1.read_toolset(request)
        functions = any(
            isinstance(tool, dict) and "function" in tool for tool in listed(request.get("tools"))
        )
        return OpenAIChat().toolset(body) if functions else read_toolset(body)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of chunks, or of one body."""
        return InvokeDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """The error body of an AWS service."""
        return error_body(message, details)


class _Chat(ChatDecoder):
    """Chat whose choices may call their reason `stop_reason`, as Mistral's do here."""

    def _finish(self, index: int, path: str, choice: Mapping[str, Any]) -> list[Event]:
        if "finish_reason" not in choice:
            choice = {**choice, "finish_reason": choice.get("stop_reason")}
        return super()._finish(index, path, choice)


class InvokeDecoder:
    """One reply. `streamed` tells chunks from one whole body."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        self.sentinel_optional = not streamed
        self._streamed = streamed
        self._messages = MessagesDecoder(tools, policy, streamed=streamed)
        self._converse = ConverseDecoder(policy, streamed=streamed)
        liberal = replace(policy, accept=policy.accept | INHERENT)
        self._chat = _Chat(tools, liberal, streamed=streamed)
        self._cohere = CohereV1Decoder(policy, streamed=streamed)
        self._inside: _Inside | None = None
        """The decoder of the format inside, once a chunk has shown which it is."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the message means; `prose` itself for a delta of text."""
        data = frame.data or b""
        if not self._streamed:
            faults = frame_fault(frame, CARRIERS, Code.INVALID_EVENT)
            return faults if frame.data is None else [*faults, *self._read(frame, data)]
        if frame.fault is not None:
            return message_fault(frame)
        kind, _, name = (frame.event or "").partition(":")
        if kind != "event":
            return (ProviderFault(wire_word(name)),)
        if name != "chunk":
            # Its bytes may hide anything, but no client looks into an event that it does not know.
            what = f"event of type {wire_word(name)!r}"
            return (Unrecognised(what, may_carry_call=may_carry(data, CARRIERS)),)
        inside = _bytes_of(data)
        if inside is None:
            return (Defect(Code.INVALID_EVENT, "a chunk whose bytes clients read differently, or not"),)
        return self._read(frame, inside)

    def _read(self, frame: Frame, data: bytes) -> Sequence[Event]:
        """What the format inside means."""
        members = _members_of(data)
        decoder, name = self._format(members)
        if decoder is None:
            return self._plain(members, data)
        if self._inside is None:
            self._inside = decoder
        if self._inside is not decoder:
            suspect = may_carry(data, CARRIERS)
            message = "a chunk in another format than those before"
            return (Defect(Code.UNSUPPORTED_EVENT, message, may_carry_call=suspect),)
        if isinstance(decoder, ConverseDecoder) and name is not None:
            events = decoder.event(name, bytes(members[name]))
            if data.count(b'"%b"' % name.encode()) > 1 or b"\\u" in data:
                events = [*read_event(data, CARRIERS)[1], *events]
        else:
            events = decoder.decode(Frame(frame.raw, data, name))
        if events is decoder.prose:
            return self.prose
        if isinstance(decoder, ChatDecoder) and METRICS in members:
            return [*events, TurnClosed(METRICS)]
        return events

    def _format(self, members: Mapping[str, Raw]) -> tuple[_Inside | None, str | None]:
        """Who reads it, and the name of the event, where it has one."""
        if "choices" in members:
            return self._chat, None
        if "type" in members:
            return self._messages, _text_of(members["type"]) if self._streamed else None
        if "event_type" in members if self._streamed else members.keys() >= _COHERE_BODY:
            return self._cohere, None
        if not self._streamed:
            return (self._converse if "output" in members else None), None
        named = [name for name in members if name != METRICS]
        if len(named) == 1 and named[0] in _NOVA:
            return self._converse, named[0]
        return None, None

    def _plain(self, members: Mapping[str, Raw], data: bytes) -> Sequence[Event]:
        if may_carry(data, CARRIERS) and _names_calls(data):
            return (Unrecognised("format with something like a call", may_carry_call=True),)
        if METRICS in members and isinstance(self._inside, ChatDecoder):
            return (Prose(trailer=True), TurnClosed(METRICS))
        return (Prose(trailer=True),) if self._inside is not None else self.prose

    # How a block is told: wire reference 0.4 and 6.

    def keep_alive(self) -> bytes:
        """An event of a type that no client knows: they skip it, and their read timeout starts anew."""
        return self._converse.keep_alive()

    def block_event(self, notice: BlockNotice) -> bytes:
        """An exception: the official SDKs raise."""
        return exception(notice)

    def block_notice(self, notice: BlockNotice) -> bytes:
        """The quiet ending of the format inside; where none has shown itself yet, an exception all the same."""
        match self._inside:
            case None:
                return exception(notice)
            case ConverseDecoder() as converse:
                payloads = [encode({name: payload}) for name, payload in converse.notice_events(notice)]
            case CohereV1Decoder() as decoder:
                payloads = decoder.block_notice(notice).splitlines()
            case decoder:
                frames = SSEFramer(1 << 20).receive_data(decoder.block_notice(notice))
                payloads = [frame.data for frame in frames if frame.data and frame.data != b"[DONE]"]
        return b"".join(map(_chunk, payloads))

    def block_body(self, notice: BlockNotice) -> bytes:
        """The error body of an AWS service."""
        return error_body(notice.message, notice.details)


def _bytes_of(payload: bytes) -> bytes | None:
    """What a chunk carries; None unless it says so once, and in proper Base64."""
    try:
        inside = _decode_chunk(payload).inside
    except (msgspec.MsgspecError, RecursionError):
        return None
    return inside if payload.count(b'"bytes"') == 1 and b"\\" not in payload else None


def _members_of(data: bytes) -> dict[str, Raw]:
    try:
        return _decode_members(data)
    except (msgspec.MsgspecError, RecursionError):
        return {}


def _text_of(raw: Raw) -> str | None:
    try:
        return _decode_text(raw)
    except msgspec.MsgspecError:
        return None


def _names_calls(data: bytes) -> bool:
    """Whether a key of the JSON speaks of calls, or it is none that can be looked into, or none that all read alike."""
    reading = read_lenient(data)
    if reading is None or reading.too_deep or reading.repeated_key:
        return True
    return names_calls(reading.value, _WORDS)


def _chunk(payload: bytes) -> bytes:
    return encode_message(encode({"bytes": b64encode(payload).decode()}), "event", "chunk")
