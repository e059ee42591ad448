"""OpenAI's older completions, and Mistral's fill-in-the-middle: text, and no place for a call.

Source: the API reference's completions page and the recorded streams. The format knows no tool, so nothing is held, and a cut
stream of text is the client's to see. A frame in which a call could stand all the same is held and blocks the turn: nobody
knows which client would look there.

    wire                     event
    id, model                TurnOpened
    choices[]                ChoiceOpened, Prose; finish_reason -> ChoiceClosed
    error                    ProviderFault
    [DONE]                   TurnClosed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Ending,
    Event,
    Prose,
    ProviderFault,
    TurnClosed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.json_text import read_lenient
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    SSE_OR_BODY,
    blank_or_comment,
    encode,
    frame_fault,
    is_index,
    listed,
    may_carry,
    read_request,
    sse,
    text_or_none,
    wire_word,
)
from turngate.dialects.openai_chat_block import error_envelope

CARRIERS = (b"_call", b"tool_use", b"toolcall", b"functioncall")
"""Stands in the calls of every format that a server of completions may speak beside this one."""

ENDINGS: dict[str, Ending] = {
    "stop": Ending.NATURAL,
    "length": Ending.LIMIT,
    "content_filter": Ending.REFUSED,
}


class OpenAICompletions:
    """The dialect."""

    name: ClassVar[str] = "openai_completions"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../completions` that are neither a chat's nor an agent's."""
        return (
            method == "POST"
            and path.endswith("/completions")
            and not path.endswith(("/chat/completions", "/agents/completions"))
        )

    def toolset(self, body: bytes) -> Toolset:
        """The format declares no tools; read `model` and `stream`."""
        request = read_request(body)
        if request is None:
            return Toolset(readable=False)
        return Toolset(streamed=request.get("stream") is True, model=text_or_none(request.get("model")))

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of chunks, or of one `text_completion`."""
        return CompletionsDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """OpenAI's error envelope."""
        return encode(error_envelope(message, details))


class CompletionsDecoder:
    """One reply. `streamed` tells chunks from one whole completion."""

    prose: Sequence[Event] = (Prose(0),)
    free_strings = None
    sentinel_optional = True
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        self._tools = tools
        self._policy = policy
        self._streamed = streamed
        self._opened = False
        self._choices: set[int] = set()

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means. A frame without an end is text whatever else is in it."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        if data == b"[DONE]" and self._streamed:
            return (TurnClosed("[DONE]"),)
        events: list[Event] = [*frame_fault(frame, self.carriers)]
        if may_carry(data, self.carriers):
            events.append(Unrecognised("member of a format without calls", may_carry_call=True))
        reading = read_lenient(data)
        chunk = reading.value if reading is not None else None
        return [*events, *self._read(chunk)] if isinstance(chunk, dict) else [*events, Prose()]

    def _read(self, chunk: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        response_id = text_or_none(chunk.get("id"))
        if not self._opened and response_id:
            self._opened = True
            events.append(TurnOpened(response_id, text_or_none(chunk.get("model"))))
        for choice in listed(chunk.get("choices")):
            if isinstance(choice, dict) and is_index(choice.get("index")):
                events += self._choice(choice["index"], choice.get("finish_reason"))
        if error := chunk.get("error"):
            word = error.get("type") if isinstance(error, dict) else None
            events.append(ProviderFault(wire_word(word or "error")))
        return [*events, Prose(trailer=True)]

    def _choice(self, index: int, reason: Any) -> list[Event]:
        events: list[Event] = []
        if index not in self._choices:
            self._choices.add(index)
            events.append(ChoiceOpened(index))
        if isinstance(reason, str) and reason:
            events.append(ChoiceClosed(index, wire_word(reason), ENDINGS.get(reason, Ending.UNKNOWN)))
        return events

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error` object: the official SDKs raise `APIError`."""
        return sse(error_envelope(notice.message, notice.details))

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A piece of text, `stop` and `[DONE]`."""
        choice = {"index": 0, "text": notice.message, "logprobs": None, "finish_reason": "stop"}
        head = {"id": notice.turn_id, "object": "text_completion", "created": 0}
        return (
            sse({**head, "model": self._tools.model or "turngate", "choices": [choice]}) + b"data: [DONE]\n\n"
        )

    def block_body(self, notice: BlockNotice) -> bytes:
        """OpenAI's error envelope."""
        return encode(error_envelope(notice.message, notice.details))
