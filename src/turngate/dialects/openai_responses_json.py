"""Typed readings of single Responses events: is it one piece of text or arguments, and what exactly are a call's parameters.

The short ways of the Responses decoder. A reading that proves an event to be nothing but a piece admits no key and no kind besides
those that it names, and no key twice; whatever else arrives takes the careful way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turngate.core.json_text import says_once
from turngate.dialects.base import LINE_FEED, exact_text

TEXT_DELTAS: Final = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
    }
)


class Delta(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An event of nothing but a piece of text, or of a call's arguments; in OpenAI's order, so that most need no counting."""

    type: Literal[
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    ]
    sequence_number: int
    item_id: str | UnsetType | None = UNSET
    output_index: int
    content_index: int | UnsetType = UNSET
    summary_index: int | UnsetType = UNSET
    delta: str
    logprobs: Any = UNSET
    obfuscation: str | UnsetType | None = UNSET
    stream_id: str | UnsetType | None = UNSET


_decode_delta = msgspec.json.Decoder(Delta).decode


class _Keepalive(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["keepalive"]
    sequence_number: int | None = None


_decode_keepalive = msgspec.json.Decoder(_Keepalive).decode

_ABSENT = Raw(b"null")  # a union with Raw takes nothing but null


class RawItem(Struct, gc=False):
    """The parameters of an output item, each as the exact JSON of the wire."""

    arguments: Raw = _ABSENT
    action: Raw = _ABSENT
    actions: Raw = _ABSENT
    operation: Raw = _ABSENT

    def text(self, key: str) -> str | None:
        """The exact text of one of them; None where it has none that every reader shares."""
        return exact_text(bytes(getattr(self, key)))


class _RawOutput(Struct, gc=False):
    output: list[RawItem] | None = None


class _RawEvent(Struct, gc=False):
    item: RawItem | None = None
    response: _RawOutput | None = None


_decode_raw_event = msgspec.json.Decoder(_RawEvent).decode
_decode_raw_body = msgspec.json.Decoder(_RawOutput).decode

NO_PARAMETERS: Final = RawItem()


def read_delta(data: bytes) -> Delta | None:
    """The event, if it is nothing but one piece of text or arguments. A line of it on its own might be another event."""
    if LINE_FEED in data:
        return None
    try:
        event = _decode_delta(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event if says_once(data, event) else None


def is_keepalive(data: bytes) -> bool:
    """Whether the event is a keep-alive and carries nothing else."""
    try:
        _decode_keepalive(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def raw_item(data: bytes) -> RawItem:
    """The exact parameters of the item that an event carries."""
    try:
        return _decode_raw_event(data).item or NO_PARAMETERS
    except (msgspec.MsgspecError, RecursionError):
        return NO_PARAMETERS


def raw_output(data: bytes, value: Mapping[str, Any], *, streamed: bool) -> list[RawItem]:
    """The exact parameters of each item of a whole response; as many as its `output` has, which `value` holds decoded."""
    count = len(value["output"]) if isinstance(value.get("output"), list) else 0
    try:
        response = _decode_raw_event(data).response if streamed else _decode_raw_body(data)
    except (msgspec.MsgspecError, RecursionError):
        response = None
    items = (response.output if response is not None else None) or []
    return items if len(items) == count else [NO_PARAMETERS] * count
