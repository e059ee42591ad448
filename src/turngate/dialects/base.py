"""What every dialect shares: its interface, and the one question that keeps text flowing.

A dialect is one wire format. It reads which tools a request declares, makes a decoder for each reply, and knows the shapes
in which the official clients take a block. Decoders see frames, never sockets, and never raise.

The question is: could anybody read a call out of these bytes? A key that carries calls must stand in them, spelled in any case,
perhaps with JSON escapes. Where no such key can stand, the frame is text, however broken it may be; where one can, it is
read with care or held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import structs

from turngate.core.event import (
    ChoiceClosed,
    Defect,
    Ending,
    Event,
    KeepAlive,
    RunsOn,
    SlotIdentified,
    SlotKey,
    SlotOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame, FrameFault
from turngate.core.framing import BODY, SSE, Framing
from turngate.core.json_text import LenientReading, read_lenient, read_value
from turngate.core.policy import KeepAliveForm, TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Tool, Toolset

KEEP_ALIVE: tuple[Event, ...] = (KeepAlive(),)

OPENAI_ERROR_TYPE = "invalid_request_error"
"""The type of a block in OpenAI's formats. Where nothing but the response's opening was sent before it, the Vercel AI SDK asks again
at a type and a code that it does not know."""

SSE_OR_BODY: tuple[Framing, ...] = (SSE, BODY)
"""What the replies of most dialects come in."""

_encode = msgspec.json.Encoder().encode

# Letters, `_`, `-` and `.`, which carriers are made of, as a key can also spell them; and the two signs that Go takes for an
# S or a K. Any other escape is of text, such as an umlaut or an angle bracket.
_ESCAPED_LETTER = re.compile(rb"\\u(?:00(?:4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a]|2[de])|017f|212a)")

_NOT_TAME = re.compile(r"[^\w.:/ -]")

CARRIAGE_RETURN = 0x0D
LINE_FEED = 0x0A
"""A line of a frame's data on its own is another event to some clients. Looked for as a number: a text of one byte costs ten times as much."""


class Dialect(Protocol):
    """One wire format. Stateless."""

    name: ClassVar[str]
    framings: ClassVar[tuple[Framing, ...]]
    """How its replies are framed, by media type. A reply of any other media type cannot be judged."""
    named_choice_ends_naturally: ClassVar[bool]
    """Whether a request that forces one tool by name legally ends with the natural reason."""
    ids_optional: ClassVar[bool]
    """Whether the format has calls without an id."""
    breaks_after_block: ClassVar[bool]
    """Whether the connection is broken off after a block's error, because no event makes the official client raise."""

    def claims(self, method: str, path: str) -> bool:
        """Whether a request to this path, as sent to the upstream, gets a reply in this format. Never looks at a body."""
        ...

    def toolset(self, body: bytes) -> Toolset:
        """The tools that the request declares; an unreadable body declares none."""
        ...

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A fresh decoder for one reply: of a stream, or of one JSON body."""
        ...

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """An HTTP error body in the provider's envelope, for what is refused before any reply exists."""
        ...


def encode(value: Any) -> bytes:
    """JSON of our own. Half a surrogate pair, which the wire can spell and a piece of text may end with, stays an escape."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def may_carry(raw: bytes, carriers: Sequence[bytes]) -> bool:
    """Whether any reader could find one of the lower-case `carriers` as a key in these bytes.

    Bytes that are not UTF-8 may be dropped by a reader, data lines may be joined without the line feed between them, and Python reads
    JSON also in UTF-16, where a NUL stands beside each letter: nothing of that may hide a carrier.
    """
    low = raw.lower().replace(b"\0", b"")
    if _speaks_of(low, carriers):
        return True
    if raw.isascii() and LINE_FEED not in raw and CARRIAGE_RETURN not in raw:
        return False
    kept = low.decode("utf-8", "ignore").casefold().encode()
    joined = b"".join(line.removeprefix(b"data:").removeprefix(b" ") for line in kept.splitlines())
    return _speaks_of(kept, carriers) or _speaks_of(joined, carriers)


def names_carrier(name: str, carriers: Sequence[bytes]) -> bool:
    """Whether a name, as it was decoded, has one of the carriers in it."""
    return may_carry(name.encode(errors="replace"), carriers)


def _speaks_of(low: bytes, carriers: Sequence[bytes]) -> bool:
    return any(carrier in low for carrier in carriers) or _ESCAPED_LETTER.search(low) is not None


def frame_fault(
    frame: Frame, carriers: Sequence[bytes], code: Code = Code.SSE_MALFORMED
) -> tuple[Event, ...]:
    """The finding that a frame's own fault is, or that a line of it is an event to some. Held only if it may carry a call."""
    match frame.fault:
        case None:
            if (
                frame.data is None
                or LINE_FEED not in frame.data
                or not _hides_event(frame, frame.data, carriers)
            ):
                return ()
            return (Defect(code, "a line of an event that some clients take for another event"),)
        case FrameFault.OVERSIZED:
            return (Defect(Code.LIMIT_EXCEEDED, "a frame is larger than the limit"),)
        case FrameFault.UNTERMINATED if frame.data is None:
            return ()
        case fault:
            message = f"a frame that clients read differently ({fault.value})"
            return (Defect(code, message, may_carry_call=may_carry(frame.raw, carriers)),)


def _hides_event(frame: Frame, data: bytes, carriers: Sequence[bytes]) -> bool:
    """Whether one of several data lines is JSON with a call in it for a client that takes each line for an event."""
    if data in frame.raw or frame.raw.count(b"data:") < 2:
        return False
    lines = [line for line in data.split(b"\n") if line.lstrip().startswith(b"{")]
    return any(may_carry(line, carriers) and read_lenient(line) is not None for line in lines)


# Looked up for every frame that is read with care; a member's lookup through its class is a call.
_AGENT, _CALLS = RunsOn.AGENT, Ending.CALLS
_HELD = frozenset({SlotOpened, SlotIdentified, ChoiceClosed, Defect, Unrecognised})
"""The events that may hold a frame. Asked by their type: each pattern of a class that is a struct is a call."""


def may_hold(events: Iterable[Event], forbidden: frozenset[str] = frozenset()) -> bool:
    """Whether the gate, still passing, holds the frame of these events: what they tell, the client has not seen.

    The counterpart of the signals in `turngate.core.turn` for a decoder that must know how a stream stands on the client's side.
    """
    for event in events:
        if type(event) not in _HELD:
            continue
        match event:
            case SlotOpened():
                held = event.runs_on is _AGENT
            case SlotIdentified():
                held = event.name in forbidden
            case ChoiceClosed():
                held = event.ending is _CALLS
            case Defect() | Unrecognised():
                held = event.may_carry_call
            case _:
                continue
        if held:
            return True
    return False


def case_twin(value: Mapping[str, Any], known: frozenset[str]) -> str | None:
    """A known key that stands in `value` in another spelling, which some clients (Go) take for the key itself."""
    if known.issuperset(value):
        return None
    folded = _folded(known)
    for key in value:
        if key not in known and key.casefold() in folded:
            return key.casefold()
    return None


@lru_cache(64)  # each dialect has one set or two
def _folded(known: frozenset[str]) -> frozenset[str]:
    return frozenset(key.casefold() for key in known)


def twins(path: str, value: Mapping[str, Any], known: frozenset[str]) -> list[Event]:
    """The finding that a known key in another spelling is."""
    twin = case_twin(value, known)
    if twin is None:
        return []
    return [Defect(Code.UNSUPPORTED_EVENT, f"a key that some clients read as {twin!r}", path)]


def blank_to_none(value: Any) -> Any:
    """A null or blank id or name says nothing."""
    return None if isinstance(value, str) and not value.strip() else value


def text_or_none(value: Any) -> str | None:
    """The value if it is text."""
    return value if isinstance(value, str) else None


def wire_word(value: Any) -> str:
    """A provider's own word for something, short enough and tame enough to be recorded."""
    word = value if isinstance(value, str) else type(value).__name__
    return _NOT_TAME.sub("", word[:64])


def sse(payload: Any, event: str | None = None) -> bytes:
    """One SSE block of our own."""
    name = b"" if event is None else b"event: " + event.encode() + b"\n"
    return name + b"data: " + encode(payload) + b"\n\n"


def blank_or_comment(form: KeepAliveForm) -> bytes:
    """The keep-alive of an SSE dialect without one of its own: a blank line, the one form that all measured readers take."""
    return b": keep-alive\n\n" if form is KeepAliveForm.COMMENT else b"\n"


def listed(value: Any) -> Iterable[Any]:
    """The entries of a list; nothing for anything else."""
    return value if isinstance(value, list) else ()


def function_tools(entries: Any) -> list[Tool]:
    """The tools of a request that declares each as `{"function": {"name", "parameters"}}`, as OpenAI first did."""
    functions = [entry.get("function") for entry in listed(entries) if isinstance(entry, dict)]
    return [
        Tool(function["name"], schema=function.get("parameters"))
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    ]


def json_faults(reading: LenientReading, data: bytes, carriers: Sequence[bytes]) -> list[Event]:
    """The findings that a frame's JSON is: clients refuse it, or read it differently. Held only if it may carry a call."""
    faults = {
        "an event that some clients cannot read": reading.disputed,
        "an event repeats a key": reading.repeated_key,
    }
    found = [message for message, is_so in faults.items() if is_so]
    suspect = bool(found) and may_carry(data, carriers)
    return [Defect(Code.INVALID_EVENT, message, may_carry_call=suspect) for message in found]


def read_request(body: bytes) -> dict[str, Any] | None:
    """The JSON object that a request is; one that is none declares nothing that can be judged."""
    value = read_value(body)
    return value if isinstance(value, dict) else None


def request_reader(*keys: str) -> Callable[[bytes], Mapping[str, Any] | None]:
    """The same, of these members alone: the messages of a long conversation, nearly all of a request, are passed over unread."""
    members = msgspec.defstruct("Request", [(key, Any, None) for key in keys])
    decode = msgspec.json.Decoder(members).decode

    def read(body: bytes) -> Mapping[str, Any] | None:
        try:
            return structs.asdict(decode(body))
        except (ValueError, RecursionError):
            return read_request(body)

    return read


def read_event(data: bytes, carriers: Sequence[bytes]) -> tuple[dict[str, Any] | None, list[Event]]:
    """The JSON object that a frame carries, and what is wrong with it: no object, or one that clients refuse or read differently.

    What is wrong is held only if it may carry a call.
    """
    reading = read_lenient(data)
    if reading is None or not isinstance(reading.value, dict):
        suspect = may_carry(data, carriers) or (reading is not None and reading.too_deep)
        return None, [Defect(Code.INVALID_EVENT, "data that is no JSON object", may_carry_call=suspect)]
    return reading.value, json_faults(reading, data, carriers)


def identified(key: SlotKey, path: str, call_id: Any, name: Any, *, held: bool = True) -> list[Event]:
    """What an entry says of a call's id and name. `held` where the agent would run the call."""
    call_id, name = blank_to_none(call_id), blank_to_none(name)
    events: list[Event] = []
    if call_id is not None and not isinstance(call_id, str):
        events.append(Defect(Code.INVALID_CALL_ID, "an id that is no text", path, may_carry_call=held))
    if name is not None and not isinstance(name, str):
        events.append(Defect(Code.INVALID_TOOL_NAME, "a name that is no text", path, may_carry_call=held))
    return [*events, SlotIdentified(key, text_or_none(call_id), text_or_none(name))]


def names_calls(value: Any, carriers: Sequence[str]) -> bool:
    """Whether any key in a value, at any depth, has one of the lower-case `carriers` in it and something behind it.

    Narrower than `may_carry`: a text may speak of calls.
    """
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if any(each[key] and any(carrier in key.casefold() for carrier in carriers) for key in each):
                return True
            left += each.values()
        elif isinstance(each, list):
            left += each
    return False


def stray_calls(path: str, elsewhere: Any, carriers: Sequence[str]) -> list[Event]:
    """The finding that calls are where the format has none, if `names_calls` says so: nobody knows which client looks there."""
    if not names_calls(elsewhere, carriers):
        return []
    return [Defect(Code.UNSUPPORTED_EVENT, "calls in an unknown place", path)]


def exact_text(raw: bytes | None) -> str | None:
    """The exact text of raw JSON; None where it has none that every reader shares."""
    try:
        return None if raw is None else raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def is_index(value: Any) -> bool:
    """Whether a value numbers something. True and False are of another type."""
    return type(value) is int and value >= 0
