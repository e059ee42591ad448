"""OpenAI Chat Completions, and everybody who speaks it. Streamed and not, `n` choices, functions, custom tools, `function_call`.

Source: the API reference's chat streaming page and the recorded streams of some forty servers (wire reference 1 and 11).

    wire                                       event
    choices[].index, new                       ChoiceOpened
    delta.tool_calls[].index, new              SlotOpened        keyed (choice, index)
    delta.function_call                        SlotOpened        keyed (choice, "function_call")
    ....id, ....function.name, .custom.name    SlotIdentified    null or blank says nothing
    ....function.arguments, .custom.input      Fragment
    finish_reason, not null or ""              ChoiceClosed      closes the choice's calls; there is no end of a single call
    [DONE]                                     TurnClosed        customary, not guaranteed
    error                                      ProviderFault
    any other delta, usage, filter results     Prose

A delta of only content, reasoning or refusal commutes with tool deltas: every client accumulates them apart. An empty one
stays in its place, and so does one of a choice whose predecessor the client has not met: openai-python's helper keeps choices
by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from turngate.core.event import (
    CallKind,
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Fragment,
    Prose,
    ProviderFault,
    SlotIdentified,
    SlotKey,
    SlotOpened,
    TurnClosed,
    TurnOpened,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame, FrameFault
from turngate.core.framing import Framing
from turngate.core.json_text import read_lenient
from turngate.core.policy import KIB, Quirk, TurnPolicy
from turngate.core.session import Decoder
from turngate.core.template import Strings
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    SSE_OR_BODY,
    blank_or_comment,
    blank_to_none,
    encode,
    frame_fault,
    is_index,
    listed,
    may_carry,
    sse,
    text_or_none,
    twins,
    wire_word,
)
from turngate.dialects.openai_chat_block import Shown, error_envelope
from turngate.dialects.openai_chat_json import (
    CHUNK,
    PieceChunk,
    TextChunk,
    free_strings,
    piece_chunk,
    raw_arguments,
    text_chunk,
)
from turngate.dialects.openai_chat_request import read_toolset

# What every call looks up; a member's lookup through its class is a call.
_FUNCTION, _CUSTOM = CallKind.FUNCTION, CallKind.CUSTOM

CALL_WORD = "_call"
CARRIERS = (CALL_WORD.encode(),)
"""Stands in `tool_calls` and `function_call`, and in no other key of the format."""

ENDINGS: dict[str, Ending] = {
    "tool_calls": Ending.CALLS,
    "function_call": Ending.CALLS,
    "stop": Ending.NATURAL,
    "length": Ending.LIMIT,
    "model_length": Ending.LIMIT,
    "content_filter": Ending.REFUSED,
    "error": Ending.FAILED,
    "abort": Ending.FAILED,
    "insufficient_system_resource": Ending.FAILED,
}
_OTHER_NATURAL = frozenset({"eos", "eos_token", "end_turn", "stop_sequence", "STOP"})
# OpenRouter passes the underlying provider's own reason on, which is right where its `finish_reason` is not.
_NATIVE_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS"})

_KNOWN = frozenset(
    {
        "choices", "delta", "message", "tool_calls", "function_call", "function", "custom", "arguments", "input",
        "name", "id", "index", "type", "finish_reason", "error",
    }
)  # fmt: skip
_CALLS = ("tool_calls", "function_call")
_TAME = (_KNOWN - {*_CALLS}) | {
    "content", "created", "logprobs", "model", "native_finish_reason", "object", "obfuscation", "provider", "reasoning",
    "reasoning_content", "reasoning_details", "refusal", "role", "service_tier", "system_fingerprint", "usage",
}  # fmt: skip
"""Keys that are spelt right and carry no call, whatever object they stand in."""
_TAME_IN_DELTA = _TAME | {*_CALLS}
_NOT_TEXT = frozenset({"role", *_CALLS})
_COMMUTING_DELTA = frozenset(
    {"content", "role", "refusal", "reasoning", "reasoning_content", "reasoning_details"}
)
_CHUNKS = {CHUNK}
_ALIKE = (_CHUNKS, {None})
"""What chunks may call themselves: all of them chunks, or none anything."""
_FIRST_ONLY = {0}

SHORT = 16 * KIB
"""Bytes of a chunk of text whose reading is kept until the next one: it may take twenty times as many."""

_PLAIN_CHOICE = frozenset(
    {"index", "delta", "finish_reason", "logprobs", "native_finish_reason", "obfuscation", "text"}
)


class OpenAIChat:
    """The dialect."""

    name: ClassVar[str] = "openai_chat"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = True
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../chat/completions`, wherever a server mounts it."""
        return method == "POST" and path.endswith("/chat/completions")

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools`, the legacy `functions`, `tool_choice` and `stream`."""
        return read_toolset(body)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of chunks, or of one `chat.completion`."""
        return ChatDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """OpenAI's error envelope."""
        return encode(error_envelope(message, details))


class ChatDecoder:
    """One reply. `streamed` tells chunks from one whole completion."""

    __slots__ = (
        "_called",
        "_choices",
        "_finished",
        "_kinds",
        "_newest",
        "_numbered",
        "_opened",
        "_plain",
        "_policy",
        "_response_id",
        "_shown",
        "_slots",
        "_streamed",
        "_tools",
        "_unindexed",
    )

    prose: Sequence[Event] = (Prose(0, commutes=True),)
    sentinel_optional = True
    carriers: ClassVar[tuple[bytes, ...]] = CARRIERS

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        self._tools = tools
        self._policy = policy
        self._streamed = streamed
        self._opened = False
        self._response_id: str | None = None
        self._kinds: set[str | None] = set()
        """What chunks call themselves."""
        self._numbered: dict[int, int] = {}
        """How many numbered calls each choice has."""
        self._choices: set[int] = set()
        self._finished: set[int] = set()
        self._shown = Shown()
        self._slots: dict[SlotKey, CallKind] = {}
        self._unindexed = 0
        # Choice 0 is open and alone, and all chunks call themselves alike: the state of nearly every frame.
        self._plain = False
        self._called: str | None = None
        self._newest: TextChunk | PieceChunk | None = None
        """The newest chunk, if a short way has read it."""

    @property
    def free_strings(self) -> Strings | None:
        """What varies from chunk to chunk. Where chunks say nowhere what they are, no other value may say it either."""
        known = self._plain and self._called is not None
        return free_strings(self._newest) if known and self._newest is not None else None

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for plain text of the only open choice."""
        data = frame.data
        if data is None:
            return frame_fault(frame, self.carriers) or KEEP_ALIVE
        if self._plain and frame.fault is None:
            # Once there is a call, nearly every chunk is one more piece of it, and a refused reading costs three good ones.
            if self._slots:
                if (piece := self._piece(data)) is not None:
                    return (piece,)
            elif (text := text_chunk(data, self._called)) is not None:
                self._newest = text if len(data) <= SHORT else None
                return self.prose
        self._newest = None
        if data == b"[DONE]" and self._streamed and frame.fault in (None, FrameFault.UNTERMINATED):
            return (TurnClosed("[DONE]"),)
        events = [*frame_fault(frame, self.carriers), *self._read(data)]
        self._shown.follow(events, self._choices, self._finished)
        return events

    def _piece(self, data: bytes) -> Fragment | None:
        """One more piece of the arguments of a known call, if the chunk is nothing else."""
        chunk = piece_chunk(data, self._called)
        if chunk is None:
            return None
        call = chunk.choices[0].delta.tool_calls[0]
        key = (0, call.index)
        if self._slots.get(key) is not _FUNCTION:
            return None
        self._newest = chunk
        return Fragment(key, call.function.arguments)

    def _read(self, data: bytes) -> list[Event]:
        reading = read_lenient(data)
        if reading is None or not isinstance(reading.value, dict):
            suspect = may_carry(data, self.carriers)
            return [Defect(Code.UNSUPPORTED_EVENT, "data that is no JSON object", may_carry_call=suspect)]
        chunk = reading.value
        events: list[Event] = []
        if reading.repeated_key:
            suspect = may_carry(data, self.carriers)
            events.append(Defect(Code.INVALID_CHUNK, "a chunk repeats a key", may_carry_call=suspect))
        if reading.disputed:
            suspect = may_carry(data, self.carriers)
            message = "a chunk that some clients cannot read"
            events.append(Defect(Code.INVALID_CHUNK, message, may_carry_call=suspect))
        events += _odd_keys("chunk", chunk)
        if not self._opened:
            events += self._open(chunk)
        choices = chunk.get("choices")
        fault = _fault(chunk)
        if isinstance(choices, list):
            events += self._kind(chunk, choices, data)
            for position, choice in enumerate(choices):
                events += self._choice(position, choice, data, chunk.get("object"))
        elif choices is not None or fault is None:
            suspect = may_carry(data, self.carriers)
            events.append(
                Defect(Code.INVALID_CHUNK, "a chunk without a list of choices", may_carry_call=suspect)
            )
        if fault is not None:
            events.append(ProviderFault(fault))
        self._plain = self._choices == _FIRST_ONLY and not self._finished and self._kinds in _ALIKE
        self._called = CHUNK if CHUNK in self._kinds else None
        return events or [Prose(trailer=True)]

    def _open(self, chunk: Mapping[str, Any]) -> list[Event]:
        response_id = blank_to_none(chunk.get("id"))
        if not isinstance(response_id, str):
            return []
        self._opened = True
        self._response_id = response_id
        model = chunk.get("model")
        return [TurnOpened(response_id, text_or_none(model))]

    def _kind(self, chunk: Mapping[str, Any], choices: Sequence[Any], data: bytes) -> list[Event]:
        """All chunks say that they are chunks, or none does: openai-python's helper drops those that do not.

        Azure's first and filter chunks, which carry no choice or no delta, say nothing either way. One that says it under another
        key says something else to every client.
        """
        if not self._streamed:
            return []
        kind = blank_to_none(chunk.get("object"))
        if kind == CHUNK and self._kinds == _CHUNKS:
            return []
        if kind is None and CHUNK in chunk.values():
            kind = ""
        if kind == CHUNK or any(isinstance(choice, dict) and "delta" in choice for choice in choices):
            self._kinds.add(kind if kind is None or isinstance(kind, str) else "")
        if not self._kinds or self._kinds in _ALIKE:
            return []
        suspect = may_carry(data, self.carriers)
        message = "a chunk that some clients drop, because it is not called one as the others are"
        return [Defect(Code.INVALID_CHUNK, message, may_carry_call=suspect)]

    def _choice(self, position: int, choice: Any, data: bytes, chunk_kind: Any) -> list[Event]:
        if not isinstance(choice, dict):
            return [Defect(Code.INVALID_CHOICE, "a choice that is no object", f"choices[{position}]")]
        index: Any = choice.get("index", None if self._streamed else position)
        if not is_index(index):
            path, suspect = f"choices[{position}]", may_carry(data, self.carriers)
            return [Defect(Code.INVALID_SLOT, "a choice without a valid index", path, may_carry_call=suspect)]
        path = f"choices[{index}]"
        events = _odd_keys(path, choice)
        if index not in self._choices:
            if self._streamed and index != len(self._choices):
                # openai-python's helper keeps choices by position: it raises at one that skips those before it.
                message = "choices that are not numbered in order from 0"
                events.append(Defect(Code.INVALID_CHOICE, message, path, may_carry_call=False))
            self._choices.add(index)
            events.append(ChoiceOpened(index))
        delta, copy = choice.get("delta"), choice.get("message")
        if not self._streamed:
            delta, copy = copy, None
        if delta is not None and not isinstance(delta, dict):
            return [*events, Defect(Code.INVALID_DELTA, "a delta that is no object", path)]
        if self._streamed and "delta" not in choice and chunk_kind == CHUNK:
            events.append(Defect(Code.INVALID_DELTA, "a choice without a delta", path, may_carry_call=False))
        delta = delta or {}
        if isinstance(copy, dict) and any(copy.get(key) and copy[key] != delta.get(key) for key in _CALLS):
            events.append(
                Defect(Code.COPIES_DISAGREE, "the choice's message has other calls than its delta", path)
            )
        calls = self._delta(index, path, delta, data)
        finish = self._finish(index, path, choice)
        text = any(bool(value) for key, value in delta.items() if key not in _NOT_TEXT)
        if text or not calls:
            commutes = (
                text
                and self._streamed
                and not finish
                and _PLAIN_CHOICE.issuperset(choice)
                and _COMMUTING_DELTA.issuperset(delta)
                and self._shown.takes(index)
            )
            events.append(Prose(index, trailer=not text, commutes=commutes))
        events += calls
        events += finish
        return events

    def _finish(self, index: int, path: str, choice: Mapping[str, Any]) -> list[Event]:
        reason = blank_to_none(choice.get("finish_reason"))
        if reason is None:
            return []
        if not isinstance(reason, str):
            return [Defect(Code.WRONG_TERMINAL_REASON, "a terminal reason that is no text", path)]
        self._finished.add(index)
        ending = ENDINGS.get(reason, Ending.UNKNOWN)
        if reason in _OTHER_NATURAL and self._policy.accepts(Quirk.OTHER_NATURAL_REASONS):
            ending = Ending.NATURAL
        native = text_or_none(choice.get("native_finish_reason"))
        if native in _NATIVE_LIMIT and ending in (Ending.CALLS, Ending.NATURAL):
            ending = Ending.LIMIT
        return [ChoiceClosed(index, wire_word(reason), ending, path)]

    def _delta(self, choice: int, path: str, delta: Mapping[str, Any], data: bytes) -> list[Event]:
        events = _odd_keys(path, delta, _TAME_IN_DELTA)
        calls = delta.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            events.append(Defect(Code.INVALID_TOOL_CALLS, "tool_calls that is no list", path))
        for position, call in enumerate(listed(calls)):
            events += self._call(choice, position, f"{path}.tool_calls", call, data)
        legacy = delta.get("function_call")
        if legacy is not None:
            key, where = (choice, "function_call"), f"{path}.function_call"
            if isinstance(legacy, dict):
                events += self._slot(key, choice, where, CallKind.LEGACY)
                events += self._parts(key, where, None, legacy.get("name"), legacy.get("arguments"), None)
            else:
                events.append(Defect(Code.INVALID_FUNCTION_DELTA, "function_call that is no object", where))
        return events

    def _call(self, choice: int, position: int, path: str, call: Any, data: bytes) -> list[Event]:
        if not isinstance(call, dict):
            return [Defect(Code.INVALID_TOOL_CALL, "an entry that is no object", f"{path}[{position}]")]
        index = call.get("index") if self._streamed else position
        numbered = is_index(index)
        where = f"{path}[{index if numbered else position}]"
        named, function, custom = call.get("type"), call.get("function"), call.get("custom")
        events: list[Event] = []
        for part in (call, function, custom):
            events += _twins(where, part)
        kind = _CUSTOM if named == "custom" or custom is not None else _FUNCTION
        if named not in (None, "", "function", "custom") or (function and custom):
            return [*events, Defect(Code.UNSUPPORTED_TOOL_TYPE, f"type {wire_word(named)!r}", where)]
        body = custom if kind is _CUSTOM else function
        if not isinstance(body, dict):
            # openai-python's helper raises for an entry without a function part, null or absent.
            message = "its function or custom part is no object"
            return [*events, Defect(Code.INVALID_FUNCTION_DELTA, message, where)]
        key = (choice, index) if numbered else self._unnumbered(choice, index, body)
        if key is None:
            return [*events, Defect(Code.INVALID_SLOT, "a call without a valid index", where)]
        if numbered and key not in self._slots:
            expected = self._numbered.get(choice, 0)
            self._numbered[choice] = expected + 1
            if index != expected:
                # openai-python keeps calls by position: it merges or loses those that do not come numbered 0, 1, 2.
                message = "calls that are not numbered in order from 0"
                events.append(Defect(Code.INVALID_SLOT, message, where))
        text = body.get("input" if kind is _CUSTOM else "arguments")
        opened = self._slot(key, choice, where, kind)
        if self._slots[key] is not kind and (named or custom is not None):
            events.append(Defect(Code.IDENTITY_COLLISION, "a call changed its kind", where))
        raw = (
            raw_arguments(data, choice, position, streamed=self._streamed) if isinstance(text, dict) else None
        )
        events += opened
        events += self._parts(key, where, call.get("id"), body.get("name"), text, raw)
        return events

    def _unnumbered(self, choice: int, index: Any, body: Mapping[str, Any]) -> SlotKey | None:
        """Without an index only a whole call can be told from a continuation of another one."""
        if index is None and self._policy.accepts(Quirk.MISSING_INDEX) and body.get("name"):
            self._unindexed += 1
            return (choice, "unindexed", self._unindexed)
        return None

    def _slot(self, key: SlotKey, choice: int, path: str, kind: CallKind) -> list[Event]:
        if key in self._slots:
            return []
        self._slots[key] = kind
        return [SlotOpened(key, choice, path, kind)]

    def _parts(
        self, key: SlotKey, path: str, call_id: Any, name: Any, text: Any, raw: str | None
    ) -> list[Event]:
        """Identity and argument text of one entry. `raw` is the exact JSON of arguments that are an object."""
        call_id, name = self._identity(call_id), blank_to_none(name)
        events: list[Event] = []
        if call_id is not None and not isinstance(call_id, str):
            events.append(Defect(Code.INVALID_CALL_ID, "an id that is no text", path))
            call_id = None
        if name is not None and not isinstance(name, str):
            events.append(Defect(Code.INVALID_TOOL_NAME, "a name that is no text", path))
            name = None
        if call_id is not None or name is not None:
            events.append(SlotIdentified(key, call_id, name))
        if isinstance(text, str):
            events.append(Fragment(key, text))
        elif raw is not None and self._policy.accepts(Quirk.ARGUMENTS_OBJECT):
            events.append(Fragment(key, raw))
        elif text is not None:
            events.append(Defect(Code.INVALID_ARGUMENTS_DELTA, "arguments that are no text", path))
        return events

    def _identity(self, call_id: Any) -> Any:
        if call_id == "null" and self._policy.accepts(Quirk.NULL_TEXT_ID):
            return None
        return blank_to_none(call_id)

    # How a block is told: agents reference, chat rows; client reactions 4.1.

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An `error` object: the official SDKs raise `APIError`, raw and in the helper."""
        return sse(error_envelope(notice.message, notice.details))

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A text delta and `stop` for every choice that is still open for the client, then `[DONE]`."""
        chunks = [
            self._chunk(notice, index, delta, reason)
            for index in self._shown.unended(self._choices) or [0]
            for delta, reason in self._shown.ending(index, notice.message)
        ]
        return b"".join([*chunks, b"data: [DONE]\n\n"])

    def _chunk(self, notice: BlockNotice, index: int, delta: Mapping[str, str], reason: str | None) -> bytes:
        """A chunk of our own, as one of the response's."""
        base = {"id": self._response_id or notice.turn_id, "object": CHUNK, "created": 0}
        choice = {"index": index, "delta": delta, "finish_reason": reason}
        return sse({**base, "model": self._tools.model or "turngate", "choices": [choice]})

    def block_body(self, notice: BlockNotice) -> bytes:
        """OpenAI's error envelope."""
        return encode(error_envelope(notice.message, notice.details))


def _twins(path: str, value: Any) -> list[Event]:
    return twins(path, value, _KNOWN) if isinstance(value, dict) else []


def _odd_keys(path: str, value: Mapping[str, Any], tame: frozenset[str] = _TAME) -> list[Event]:
    """What the keys are that an object of the format does not have: nothing, for nearly every chunk."""
    if tame.issuperset(value):
        return []
    return [*_twins(path, value), *_stray_calls(path, value, tame)]


def _stray_calls(path: str, value: Mapping[str, Any], tame: frozenset[str]) -> list[Event]:
    """Keys that carry calls in a place where the format has none: nobody knows which client looks there."""
    strays = [key for key in value if key not in tame and CALL_WORD in key.lower()]
    if not any(value[key] for key in strays):
        return []
    return [Defect(Code.UNSUPPORTED_EVENT, f"calls in an unknown place, {wire_word(strays[0])!r}", path)]


def _fault(chunk: Mapping[str, Any]) -> str | None:
    """The provider's word for an error that the chunk reports."""
    error = chunk.get("error")
    if error:
        fields = error if isinstance(error, dict) else {}
        return wire_word(fields.get("type") or fields.get("code") or "error")
    # The older vLLM form.
    return wire_word(chunk.get("type") or "error") if chunk.get("object") == "error" else None
