"""OpenAI Assistants, and Azure's agents that speak it: runs of a thread, streamed, as one JSON body, and polled.

Source: the API reference's run, step and stream pages and the official SDK's handler (`AssistantEventHandler`). OpenAI itself has closed
the API; the SDK still speaks it, and so do Azure and others. What an event is stands in its SSE name alone.

    wire                                               event
    thread.run.created, .queued, .in_progress          TurnOpened, ChoiceOpened: once
    thread.run.step.created, a function in it          SlotOpened      keyed by the order of appearance
    thread.run.step.delta                              SlotOpened, SlotIdentified, Fragment
    thread.run.step.completed, ...                     SlotCopied, or SlotAnswered where the output stands beside the call
    thread.run.requires_action                         SlotCopied for each function that the run waits for, ChoiceClosed
    thread.run.completed, .incomplete, .cancelled ...  ChoiceClosed
    thread.run.failed, error                           ProviderFault
    done, with the data [DONE]                         TurnClosed
    thread.message.*                                   Prose

One run can require action several times, each time with new calls. So its id does not tell what was handed over: the ids of the calls do.
A request without an assistant only goes on with a run that another one made, or looks at it; its tools are those that the run names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from turngate.core.event import (
    ChoiceClosed,
    ChoiceOpened,
    Defect,
    Ending,
    Event,
    Prose,
    ProviderFault,
    TurnClosed,
    TurnDescribed,
    TurnOpened,
    Unrecognised,
)
from turngate.core.finding import Code
from turngate.core.frame import Frame
from turngate.core.framing import Framing
from turngate.core.json_text import read_lenient, says_once
from turngate.core.policy import TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset, collect
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import (
    KEEP_ALIVE,
    SSE_OR_BODY,
    blank_or_comment,
    encode,
    frame_fault,
    function_tools,
    listed,
    may_hold,
    read_event,
    sse,
    text_or_none,
    twins,
    wire_word,
)
from turngate.dialects.openai_assistants_block import RUN, STEP, Shown, block_notice
from turngate.dialects.openai_assistants_calls import KNOWN, Calls, shows_calls, waits
from turngate.dialects.openai_chat_block import error_envelope

CARRIERS = (b"tool_call", b"required_action", b'"function"')
"""Stand wherever a call does."""

_MADE = re.compile(r"/threads/(runs|[^/]+/runs(/[^/]+(/cancel|/submit_tool_outputs)?)?)$")
_LOOKED_AT = re.compile(r"/threads/[^/]+/runs(/[^/]+(/steps(/[^/]+)?)?)?$")
_MESSAGE = "thread.message."
_PIECE = "thread.message.delta"
_LIFECYCLE = frozenset({"created", "queued", "in_progress", "cancelling"})
_STATUSES: dict[str, Ending] = {
    "requires_action": Ending.CALLS,
    "completed": Ending.NATURAL,
    "incomplete": Ending.LIMIT,
    "failed": Ending.FAILED,
    "cancelled": Ending.FAILED,
    "expired": Ending.FAILED,
    "cancelling": Ending.PAUSED,
    "queued": Ending.PAUSED,
    "in_progress": Ending.PAUSED,
}
_LIMITS = ("max_completion_tokens", "max_prompt_tokens")


class _Text(Struct, forbid_unknown_fields=True, gc=False):
    value: str
    annotations: tuple[()] | UnsetType | None = UNSET


class _Part(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    type: Literal["text"]
    text: _Text


class _MessageDelta(Struct, forbid_unknown_fields=True, gc=False):
    """A delta of nothing but text; any other key sends the event down the careful path."""

    content: list[_Part]


class _TextEvent(Struct, forbid_unknown_fields=True, gc=False):
    id: str
    object: Literal["thread.message.delta"]
    delta: _MessageDelta


_decode_text = msgspec.json.Decoder(_TextEvent).decode


class OpenAIAssistants:
    """The dialect."""

    name: ClassVar[str] = "openai_assistants"
    framings: ClassVar[tuple[Framing, ...]] = SSE_OR_BODY
    named_choice_ends_naturally: ClassVar[bool] = False
    ids_optional: ClassVar[bool] = False
    breaks_after_block: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """Whatever makes a run, goes on with one or looks at one, its steps and all runs of a thread, wherever they are mounted."""
        pattern = {"POST": _MADE, "GET": _LOOKED_AT}.get(method)
        return pattern is not None and pattern.search(path) is not None

    def toolset(self, body: bytes) -> Toolset:
        """Read `tools` and `stream` of a request that makes a run; any other finds its tools in the run."""
        reading = read_lenient(body) if body else None
        request = reading.value if reading is not None else {}
        if not isinstance(request, dict) or (body and reading is None):
            return Toolset(readable=False)
        if "assistant_id" not in request:
            return Toolset(streamed=request.get("stream") is True, replayed=True, staged=True)
        return _toolset_of(request, streamed=request.get("stream") is True)

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A decoder of events, or of one run."""
        return AssistantsDecoder(tools, policy, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """OpenAI's error envelope."""
        return encode(error_envelope(message, details))


def _toolset_of(holder: Mapping[str, Any], *, streamed: bool = False) -> Toolset:
    """The tools that a request, or a run, lists; code interpreter and the like are the provider's."""
    tools, ambiguous = collect(function_tools(holder.get("tools")))
    return Toolset(tools, ambiguous, streamed=streamed, staged=True, model=text_or_none(holder.get("model")))


class AssistantsDecoder:
    """One reply. `streamed` tells events from one whole run, or a listing of runs or steps."""

    prose: Sequence[Event] = (Prose(),)
    free_strings = None
    sentinel_optional = True

    def __init__(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> None:
        self._tools = tools
        self._policy = policy
        self._streamed = streamed
        self._calls = Calls(policy, continued=tools.replayed)
        self._opened = False
        self._run_id: str | None = None
        self._holding = False
        self._shown = Shown()

    def decode(self, frame: Frame) -> Sequence[Event]:
        """What the frame means; `prose` itself for a piece of text."""
        data = frame.data
        if data is None:
            return frame_fault(frame, CARRIERS) or KEEP_ALIVE
        if frame.event == _PIECE and frame.fault is None and self._streamed and _is_text(data):
            return self.prose
        return [*frame_fault(frame, CARRIERS), *self._read(data, frame.event)]

    def _read(self, data: bytes, name: str | None) -> list[Event]:
        if data == b"[DONE]" and self._streamed:
            return [TurnClosed("[DONE]")]
        value, events = read_event(data, CARRIERS)
        if value is None:
            return [ProviderFault("error")] if name == "error" else events
        if not self._streamed:
            return [*events, *twins("body", value, KNOWN), *self._body(value)]
        events += [*twins("event", value, KNOWN), *self._event(name or "", value)]
        self._holding = self._holding or may_hold(events, self._policy.forbidden_provider_tools)
        if not self._holding and name is not None:
            self._shown.see(name, value)
        return events

    def _event(self, name: str, value: Mapping[str, Any]) -> list[Event]:
        if name.startswith(STEP):
            return self._step(name, value)
        if name.startswith(RUN):
            return self._run(name, value)
        if name == "error":
            return [ProviderFault(_fault(value))]
        if (name.startswith(_MESSAGE) or name in ("thread.created", "done")) and not shows_calls(value):
            return [Prose()]
        return [self._unknown(name, value)]

    def _unknown(self, name: str, value: Mapping[str, Any]) -> Event:
        suspect = name not in self._policy.harmless and shows_calls(value)
        return Unrecognised(f"event {wire_word(name)!r}", may_carry_call=suspect)

    def _step(self, name: str, value: Mapping[str, Any]) -> list[Event]:
        match name.removeprefix(STEP):
            case "created":
                return self._calls.begin(value)
            case "delta":
                return self._calls.piece(value)
            case "in_progress":
                return self._calls.copy(value, grows=True)
            case "completed" | "failed" | "cancelled" | "expired":
                return self._calls.copy(value, grows=False)
        return [self._unknown(name, value)]

    # The run.

    def _run(self, name: str, run: Mapping[str, Any]) -> list[Event]:
        kind = name.removeprefix(RUN)
        if kind not in _LIFECYCLE and kind not in _STATUSES:
            return [self._unknown(name, run)]
        again = kind == "created" and self._opened
        events = [*self._open(run), *self._renamed(run)]
        if again:
            events.append(TurnOpened(None, None))
        if kind in _LIFECYCLE:
            if run.get("required_action") is not None:
                message = "a run that is under way and waits for an action all the same"
                events.append(Defect(Code.UNSUPPORTED_EVENT, message, "run"))
            return [*events, Prose()]
        if run.get("status", kind) != kind:
            message = "an event that says otherwise than its run"
            suspect = "requires_action" in (kind, run["status"])
            events.append(Defect(Code.WRONG_TERMINAL_REASON, message, "run", may_carry_call=suspect))
        return [*events, *self._ending(kind, run)]

    def _open(self, run: Mapping[str, Any]) -> list[Event]:
        if self._opened:
            return []
        self._opened = True
        self._run_id, model = text_or_none(run.get("id")), text_or_none(run.get("model"))
        if not self._tools.replayed:
            return [TurnOpened(self._run_id, model), ChoiceOpened(0)]
        return [TurnDescribed(self._run_id, model, _toolset_of(run)), ChoiceOpened(0)]

    def _renamed(self, run: Mapping[str, Any]) -> list[Event]:
        if run.get("id") == self._run_id:
            return []
        return [Defect(Code.IDENTITY_COLLISION, "the run changed its id", "run", may_carry_call=False)]

    def _ending(self, status: str, run: Mapping[str, Any]) -> list[Event]:
        """How the run stands: only one that requires action hands calls over, and one that is completed waits for none."""
        ending, reason = _STATUSES.get(status, Ending.UNKNOWN), status
        events: list[Event] = []
        if status in ("requires_action", "completed") or run.get("required_action") is not None:
            events += self._calls.require(run.get("required_action"))
        if status == "incomplete":
            details = run.get("incomplete_details")
            given = text_or_none(details.get("reason")) if isinstance(details, dict) else None
            reason = f"incomplete: {given}"
            ending = Ending.LIMIT if given in _LIMITS else Ending.UNKNOWN
        if status == "failed":
            error = run.get("last_error")
            events.append(ProviderFault(_fault({"error": error})))
        return [*events, ChoiceClosed(0, wire_word(reason), ending, "run")]

    def _body(self, value: Mapping[str, Any]) -> list[Event]:
        kind, status = value.get("object"), value.get("status")
        if isinstance(value.get("error"), dict) and kind is None:
            return [ProviderFault(_fault(value))]
        if kind == "thread.run" and isinstance(status, str):
            return [*self._open(value), *self._ending(status, value)]
        if kind not in ("list", "thread.run.step"):
            return [self._unknown(str(kind), value)]
        entries = listed(value.get("data")) if kind == "list" else [value]
        shown = [event for entry in entries for event in waits(entry, self._policy)]
        return [*shown, ChoiceClosed(0, kind, Ending.NATURAL, "data")]

    # How a block is told.

    def keep_alive(self) -> bytes:
        """A blank line."""
        return blank_or_comment(self._policy.keepalive_form)

    def block_event(self, notice: BlockNotice) -> bytes:
        """An event named `error` with an `error` object: the official SDKs raise `APIError`."""
        return sse(error_envelope(notice.message, notice.details), "error")

    def block_notice(self, notice: BlockNotice) -> bytes:
        """A message of text, and `thread.run.completed`."""
        return block_notice(self._shown, notice, self._tools.model)

    def block_body(self, notice: BlockNotice) -> bytes:
        """OpenAI's error envelope."""
        return encode(error_envelope(notice.message, notice.details))


def _is_text(data: bytes) -> bool:
    """Whether an event is a piece of a message's text and nothing else."""
    try:
        event = _decode_text(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return says_once(data, event)


def _fault(value: Mapping[str, Any]) -> str:
    """The provider's word for an error, nested or flat."""
    error = value.get("error")
    fields = error if isinstance(error, dict) else value
    return wire_word(fields.get("code") or fields.get("type") or "error")
