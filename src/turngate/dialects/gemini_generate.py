"""Gemini's generateContent, on the Developer API and on Vertex: as SSE, as a streamed JSON array, as one JSON body.

Source: the API reference, the official SDK's types, and the recorded replies (wire reference 5).

    wire                                             event
    responseId, modelVersion                         TurnOpened
    candidates[].index, absent is 0                  ChoiceOpened
    part functionCall {name, args, id?}              SlotOpened, SlotIdentified, Fragment, SlotClosed   a call is whole
    part functionCall {name, willContinue}           SlotOpened        Vertex: its arguments come as values at paths
      {partialArgs, willContinue}, {willContinue}    SlotIdentified
      {}, or partialArgs without willContinue        Fragment, SlotClosed
    part executableCode, toolCall                    SlotOpened        run by the provider: recorded, not held
    any other part known to carry no call            Prose
    finishReason                                     ChoiceClosed      STOP also ends turns with calls
    promptFeedback.blockReason                       ChoiceClosed
    `]`, in the array                                TurnClosed
    error                                            ProviderFault

A STOP may be followed by more of its candidate, as recorded with code execution, so only the last one counts: in SSE the clean
end of the stream says which that is, in the array its bracket. Clients read the parts of a candidate in the order in which they
come, so nothing overtakes a held frame. google-genai raises at comments, event names and `[DONE]`: blank lines keep it alive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Prose,
    ProviderFault,
    TurnClosed,
    TurnOpened,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import BODY, JSON_ARRAY, SSE, Framing
from turngate.core.json_array import END
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    LINE_FEED,
    blank_or_comment,
    encode,
    frame_fault,
    is_index,
    listed,
    may_carry,
    may_hold,
    read_event,
    sse,
    text_or_none,
    wire_word,
)
from turngate.dialects.gemini_candidate import CARRIERS, STOP, UNSPECIFIED, Candidate, strays
from turngate.dialects.gemini_json import RawCall, is_text, raw_calls
from turngate.dialects.gemini_request import read_toolset

_REPLY = frozenset(
    {
        "candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime", "modelStatus",
        "error",
    }
)  # fmt: skip
_CODE_ASSIST = re.compile(r"/v[0-9]+internal:(generateContent|streamGenerateContent)$")
_IN_PLACE: tuple[Event, ...] = (Prose(trailer=True),)


class GeminiGenerate:
    """The dialect."""

    name: ClassVar[str] = "gemini_generate"
    framings: ClassVar[tuple[Framing, ...]] = (SSE, JSON_ARRAY, BODY)
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = True
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../NAME:generateContent` and `:streamGenerateContent`, on both services and in every version."""
        generates = path.endswith((":generateContent", ":streamGenerateContent"))
        return method == "POST" and generates and not is_code_assist(path)

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools`."""
        return read_toolset(body)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:  # noqa: ARG002 -- the interface
        """A decoder of responses that stream, or of one response."""
        return GenerateDecoder(policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Google's error envelope."""
        return encode(error(400, "FAILED_PRECONDITION", message, details))


def is_code_assist(path: str) -> bool:
    """Whether a path is Code Assist's, which names no model: there the request and each response stand in an envelope."""
    return _CODE_ASSIST.search(path) is not None


def error(code: int, status: str, message: str, details: Mapping[str, object]) -> dict[str, object]:
    """The SDKs choose their exception by a numeric code."""
    return {"error": {"code": code, "message": message, "status": status, "turngate": details}}


class GenerateDecoder:
    """One reply. `streamed` tells a stream, in either form, from one whole response."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = True

    def __init__(self, policy: TurnPolicy, *, streamed: bool) -> None:
        self._policy = policy
        self._streamed = streamed
        self._in_array = False
        self._candidates: dict[int, Candidate] = {}
        self._response_id: str | None = None
        self._opened = False
        # Candidate 0 is open and alone: the state of nearly every frame.
        self._plain = False
        self._holding = False
        self._shown = False
        """Whether the client has an element of the array."""

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for plain text of the only open candidate."""
        data = frame.data
        if data is None:
            # White space in an array keeps its place, so that what is released is what was received.
            return frame_fault(frame, CARRIERS) or (_IN_PLACE if self._in_array else KEEP_ALIVE)
        if self._plain and frame.fault is None and frame.event is None and self._is_text(data):
            return self.prose
        self._in_array = self._in_array or (self._streamed and _starts(frame, b"[", b","))
        events = [*frame_fault(frame, CARRIERS), *self._strangers(frame), *self._read(data)]
        if self._streamed and _starts(frame, b"{"):
            # One response where a stream was asked for: it is complete when its JSON is.
            events.append(TurnClosed("}"))
        self._holding = self._holding or may_hold(events, self._policy.forbidden_provider_tools)
        self._shown = self._shown or not self._holding
        return events

    def _is_text(self, data: bytes) -> bool:
        # Only in an array it is usual to spread a response over lines; elsewhere one of them might be another event.
        return (self._in_array or LINE_FEED not in data) and is_text(data, self._response_id)

    def _strangers(self, frame: Frame) -> list[Event]:
        """What the official clients do not take for a response: some drop it, others raise."""
        if frame.event is None:
            return []
        suspect = may_carry(frame.raw, CARRIERS)
        return [Defect(Code.INVALID_EVENT, "an event with an SSE name", may_carry_call=suspect)]

    def _read(self, data: bytes) -> list[Event]:
        if self._in_array and data == END:
            stops = [candidate.stop for candidate in self._candidates.values()]
            return [*(stop for stop in stops if stop is not None), TurnClosed("]")]
        reply, events = read_event(data, CARRIERS)
        if reply is None:
            return events
        events += [
            *strays("response", reply, _REPLY, self._policy.harmless),
            *self._open(reply),
            *self._read_candidates(reply, data),
            *_prompt_feedback(reply),
        ]
        if reply.get("error"):
            events.append(ProviderFault(fault(reply["error"])))
        self._plain = self._candidates.keys() == {0} and not self._candidates[0].ended
        return events or [Prose(trailer=True)]

    def _open(self, reply: Mapping[str, Any]) -> list[Event]:
        """The response names itself in each frame, always alike as recorded: a second name is a second response."""
        response_id = text_or_none(reply.get("responseId")) or self._response_id
        if "candidates" not in reply or (self._opened and response_id == self._response_id):
            return []
        again = self._opened and self._response_id is None
        self._opened, self._response_id = True, response_id
        return [] if again else [TurnOpened(response_id, text_or_none(reply.get("modelVersion")))]

    def _read_candidates(self, reply: Mapping[str, Any], data: bytes) -> list[Event]:
        candidates = reply.get("candidates")
        if candidates is not None and not isinstance(candidates, list):
            suspect = may_carry(data, CARRIERS)
            return [Defect(Code.INVALID_EVENT, "candidates that are no list", may_carry_call=suspect)]
        events: list[Event] = []
        raw, seen = raw_calls(data), set[int]()
        for position, value in enumerate(listed(candidates)):
            events += self._candidate(value, raw[position] if position < len(raw) else [], seen)
        return events

    def _candidate(self, value: Any, raw: Sequence[RawCall | None], seen: set[int]) -> list[Event]:
        if not isinstance(value, dict):
            return [Defect(Code.INVALID_CHOICE, "a candidate that is no object", "candidates")]
        index: Any = value.get("index", 0)
        if not is_index(index):
            return [Defect(Code.INVALID_SLOT, "a candidate without a valid index", "candidates")]
        events: list[Event] = []
        candidate = self._candidates.get(index)
        if candidate is None:
            candidate = self._candidates[index] = Candidate(index, self._policy.harmless)
            events.append(ChoiceOpened(index))
        if index in seen:
            message = "two candidates of one index in one response"
            events.append(Defect(Code.IDENTITY_COLLISION, message, candidate.path))
        seen.add(index)
        events += candidate.read(value, raw)
        # In an array the bracket confirms a STOP.
        return [event for event in events if not self._in_array or event is not candidate.stop]

    # How a block is told: agents reference, Gemini rows; client reactions 4.3.

    def keep_alive(self) -> bytes:
        """A blank line, which an array has room for, too."""
        return b"\n" if self._in_array else blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error` object: the official SDKs raise. In a stream of events it comes with a text and an end.

        Older SDKs look for an error without the `data:`, in a read that holds nothing else. Reads merge, and what then remains
        makes Gemini CLI ask again, as a missing end does. It takes the text and `OTHER` as an answer, and shows it (all measured).
        """
        told = error(403, "PERMISSION_DENIED", notice.message, notice.details)
        return self._element(told) if self._in_array else sse(told | self._ending(notice, "OTHER"))

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A text and `STOP` for every candidate."""
        ending = self._ending(notice, STOP)
        return self._element(ending) if self._in_array else sse(ending)

    def _ending(self, notice: BlockNotice, reason: str) -> dict[str, object]:
        """The message as text, and a reason to end, for every candidate."""
        content = {"role": "model", "parts": [{"text": notice.message}]}
        indexes = sorted(self._candidates or {0})
        return {
            "candidates": [{"index": index, "content": content, "finishReason": reason} for index in indexes]
        }

    def _element(self, value: object) -> bytes:
        """The last element of an array, and its end."""
        return (b"," if self._shown else b"[") + encode(value) + b"]"

    def block_body(self, notice: BlockNotice) -> bytes:
        """Google's error envelope."""
        return encode(error(400, "FAILED_PRECONDITION", notice.message, notice.details))


def _starts(frame: Frame, *marks: bytes) -> bool:
    return frame.raw.lstrip().startswith(marks)


def _prompt_feedback(reply: Mapping[str, Any]) -> list[Event]:
    """A prompt that was blocked: there is no candidate, or none that counts."""
    feedback = reply.get("promptFeedback")
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if not reason or (isinstance(reason, int | str) and reason in UNSPECIFIED):
        return []
    word = wire_word(str(reason))
    return [ChoiceOpened(0), ChoiceClosed(0, word, Ending.REFUSED, "promptFeedback", closes_calls=False)]


def fault(error: Any) -> str:
    """The provider's word for an error."""
    fields = error if isinstance(error, dict) else {}
    return wire_word(str(fields.get("status") or fields.get("code") or "error"))
