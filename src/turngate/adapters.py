"""What SDKs yield, as normalized deltas. Plain mappings and SDK objects alike; no SDK is imported.

An adapter is stateless and total: it reads what has the right shape, hands values on unchecked for `ToolCallStream` to judge, and
gives nothing for events that say nothing about calls. Where a wire sends whole arguments beside fragments, they are handed on as a copy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from turngate.core.event import RunsOn
from turngate.stream import ToolCallDelta

Deltas = tuple[ToolCallDelta, ...]


def from_openai_chat_chunk(chunk: object) -> Deltas:
    """Deltas of one chunk of Chat Completions, or of any server that speaks it: `choices[].delta.tool_calls[]`."""
    return tuple(_chat(chunk, "openai-chat"))


def from_mistral_chunk(chunk: object) -> Deltas:
    """Deltas of one chunk of Mistral's chat; also of the SDK's event around it. The id `null` says nothing."""
    inner = _get(chunk, "data")
    return tuple(_chat(chunk if inner is None else inner, "mistral"))


def _chat(chunk: object, source: str) -> Iterator[ToolCallDelta]:
    for position, choice in enumerate(_list(_get(chunk, "choices"))):
        index = _get(choice, "index")
        for call in _list(_get(_get(choice, "delta"), "tool_calls")):
            yield _chat_call(call, position if index is None else index, source)


def _chat_call(call: object, choice: Any, source: str) -> ToolCallDelta:
    custom = _get(call, "custom")
    function = _get(call, "function") if custom is None else custom
    call_id = _sent(call, "id")
    return ToolCallDelta(
        index=_sent(call, "index"),
        id=None if source == "mistral" and call_id == "null" else call_id,
        name=_get(function, "name"),
        arguments_delta=_text(_get(function, "arguments" if custom is None else "input")),
        choice=choice,
        source=source,
    )


_CALL_ITEMS = {"function_call": "arguments", "custom_tool_call": "input"}
_PIECES = {
    "response.function_call_arguments.delta": "delta",
    "response.custom_tool_call_input.delta": "delta",
}
_COPIES = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}


def from_openai_responses_event(event: object) -> Deltas:
    """Deltas of one event of the Responses API. Calls are keyed by `output_index`; free text of a custom tool is no JSON.

    The copies that `.done` events and the completed response carry must agree with the fragments.
    """
    kind = _get(event, "type")
    if not isinstance(kind, str):
        return ()
    index = _get(event, "output_index")
    if kind in _PIECES or kind in _COPIES:
        piece, copy = _get(event, _PIECES.get(kind, "")), _get(event, _COPIES.get(kind, ""))
        return (ToolCallDelta(index=index, arguments_delta=piece, arguments=copy, source="openai-responses"),)
    if kind in ("response.output_item.added", "response.output_item.done"):
        return tuple(_item(index, _get(event, "item"), whole=kind.endswith("done")))
    if kind == "response.completed":
        output = _list(_get(_get(event, "response"), "output"))
        return tuple(delta for place, item in enumerate(output) for delta in _item(place, item, whole=True))
    return ()


def _item(index: Any, item: object, *, whole: bool) -> Iterator[ToolCallDelta]:
    kind = _get(item, "type")
    if isinstance(kind, str) and kind in _CALL_ITEMS:
        text = _get(item, _CALL_ITEMS[kind])
        yield ToolCallDelta(
            index=index,
            id=_get(item, "call_id"),
            name=_get(item, "name"),
            # What an item is opened with is a placeholder, unless it has text.
            arguments=text if whole or text else None,
            source="openai-responses",
        )


_BLOCKS = {
    "tool_use": RunsOn.AGENT,
    "server_tool_use": RunsOn.PROVIDER,
    "mcp_tool_use": RunsOn.PROVIDER,
}


def from_anthropic_event(event: object) -> Deltas:
    """Deltas of one event of the Messages API. Calls that the provider runs are marked so."""
    kind, index = _get(event, "type"), _get(event, "index")
    if kind == "content_block_start":
        block = _get(event, "content_block")
        block_type = _get(block, "type")
        if not isinstance(block_type, str) or block_type not in _BLOCKS:
            return ()
        given = _get(block, "input")
        return (
            ToolCallDelta(
                index=index,
                id=_get(block, "id"),
                name=_get(block, "name"),
                arguments=_text(given) if given else None,
                runs_on=_BLOCKS[block_type],
                source="anthropic",
            ),
        )
    delta = _get(event, "delta")
    if kind != "content_block_delta" or _get(delta, "type") != "input_json_delta":
        return ()
    return (ToolCallDelta(index=index, arguments_delta=_get(delta, "partial_json"), source="anthropic"),)


def from_gemini_chunk(chunk: object) -> Deltas:
    """Deltas of one chunk of `generateContent`: each function call comes whole, often without an id.

    A call that streams its arguments in parts is not reassembled: it stands alone, ambiguous.
    """
    deltas = []
    for position, candidate in enumerate(_list(_get(chunk, "candidates"))):
        index = _get(candidate, "index")
        for part in _list(_get(_get(candidate, "content"), "parts")):
            call = _either(part, "functionCall", "function_call")
            if call is not None:
                deltas.append(_gemini_call(call, position if index is None else index))
    return tuple(deltas)


def _gemini_call(call: object, choice: Any) -> ToolCallDelta:
    in_parts = _either(call, "partialArgs", "partial_args") or _either(call, "willContinue", "will_continue")
    given = _get(call, "args")
    return ToolCallDelta(
        id=_get(call, "id"),
        name=None if in_parts else _get(call, "name"),
        arguments=None if in_parts else _text({} if given is None else given),
        choice=choice,
        source="gemini",
    )


_VERCEL = {
    "tool-input-start": (None, None),
    "tool-call-streaming-start": (None, None),
    "tool-input-delta": ("piece", ("inputTextDelta", "delta")),
    "tool-call-delta": ("piece", ("argsTextDelta",)),
    "tool-input-available": ("copy", ("input",)),
    "tool-call": ("copy", ("input", "args")),
}
"""Parts of the AI SDK's UI stream and full stream, also of version 4: what each brings, and under which key."""


def from_vercel_part(part: object) -> Deltas:
    """Deltas of one part of the Vercel AI SDK's streams. Calls are keyed by their id."""
    kind = _get(part, "type")
    if not isinstance(kind, str) or kind not in _VERCEL:
        return ()
    brings, keys = _VERCEL[kind]
    text = None if keys is None else _text(_either(part, *keys))
    provider = _get(part, "providerExecuted") is True
    return (
        ToolCallDelta(
            id=_either(part, "toolCallId", "id"),
            name=_get(part, "toolName"),
            arguments_delta=text if brings == "piece" else None,
            arguments=text if brings == "copy" else None,
            runs_on=RunsOn.PROVIDER if provider else RunsOn.AGENT,
            source="vercel",
        ),
    )


# Reading without knowing what it is.


def _get(value: object, key: str) -> Any:
    """A key of a mapping, or an attribute of an SDK's object; None where there is none."""
    if isinstance(value, Mapping):
        return value.get(key)
    # A text and a list have attributes too, `index` among them.
    return None if isinstance(value, str | bytes | list | tuple) else getattr(value, key, None)


def _either(value: object, *keys: str) -> Any:
    return next((found for key in keys if (found := _get(value, key)) is not None), None)


def _sent(value: object, key: str) -> Any:
    """A key as the wire had it: an SDK's object that fills in defaults says which of its fields were set."""
    set_by_wire = getattr(value, "model_fields_set", None)
    if isinstance(set_by_wire, set | frozenset) and key not in set_by_wire:
        return None
    return _get(value, key)


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else ()


def _text(value: Any) -> Any:
    """Argument text; a JSON object or list, where a wire or an SDK has one instead, becomes its text."""
    if not isinstance(value, Mapping | list):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return value
