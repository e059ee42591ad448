"""Sound tool turns as providers send them, streamed and whole, and the calls that stand in them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import openai

from tests.sdk.reading import SeenCall
from tests.sdk.sdks import FUNCTIONS, NOTHING
from tests.sdk.wires import GOOD, TEXT, WIRES, Call, sse

ODD = '{ "to" :\t"A\\u006en\\n😀 \\"x\\"" }'
"""Sound arguments that nobody who parses them and writes them again would write like this."""
SHELL = 'ls -l "{not json'


@dataclass(frozen=True)
class Turn:
    """One turn. `streamed` and `whole` are the provider's bytes, where that form is a case of its own."""

    calls: tuple[SeenCall, ...]
    streamed: bytes | None = None
    whole: bytes | None = None
    asked: dict[str, Any] = field(default_factory=dict)
    """What the request says beside the usual."""
    helper_raises: bool = False
    """Whether the SDK's helper raises at the end of it, gate or no gate."""


FIRST = SeenCall(0, Call().id, "send_mail", GOOD)
SECOND = SeenCall(0, "call_0002", "now", "{}")
PAIR = (Call(), Call("{}", "now", "call_0002"))

CHAT: Any = WIRES["openai_chat"]
NAMED = {"tool_choice": {"type": "function", "function": {"name": "send_mail"}}}
LEGACY = {"tools": openai.omit, "functions": [tool["function"] for tool in FUNCTIONS]}
CUSTOM = {"id": "call_0001", "type": "custom", "custom": {"name": "run", "input": SHELL}}


def entry(index: int, call: Call | None = None, arguments: str = "") -> bytes:
    """One chunk with one entry of `tool_calls`: the start of `call`, or more arguments."""
    known = {"id": call.id, "type": "function"} if call else {}
    function = {**({"name": call.name} if call else {}), "arguments": arguments}
    return bytes(CHAT.chunk({"tool_calls": [{"index": index, **known, "function": function}]}))


def completion(*messages: dict[str, Any], reason: str) -> bytes:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": None, **message},
            "finish_reason": reason,
        }
        for index, message in enumerate(messages)
    ]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return json.dumps({**CHAT.base, "object": "chat.completion", "choices": choices, "usage": usage}).encode()


def tool_calls(*calls: Call) -> dict[str, Any]:
    functions = ({"name": call.name, "arguments": call.arguments} for call in calls)
    return {
        "tool_calls": [
            {"id": call.id, "type": "function", "function": function}
            for call, function in zip(calls, functions, strict=True)
        ]
    }


CHAT_TURNS = {
    "one call": Turn(
        (FIRST,), CHAT.text() + CHAT.calls([Call()]) + CHAT.finish() + CHAT.done, CHAT.whole([Call()])
    ),
    "parallel": Turn(
        (FIRST, SECOND), CHAT.text() + CHAT.calls(PAIR) + CHAT.finish() + CHAT.done, CHAT.whole(PAIR)
    ),
    "parallel, mixed": Turn(
        (FIRST, SECOND),
        entry(0, PAIR[0])
        + entry(1, PAIR[1])
        + entry(0, arguments=GOOD[:5])
        + entry(1, arguments="{}")
        + entry(0, arguments=GOOD[5:])
        + CHAT.finish()
        + CHAT.done,
    ),
    "two choices": Turn(
        (FIRST, SeenCall(1, "call_0002", "now", "{}")),
        CHAT.text()
        + CHAT.text(choice=1)
        + CHAT.calls(PAIR[:1])
        + CHAT.calls(PAIR[1:], 1)
        + CHAT.finish()
        + CHAT.finish(choice=1)
        + CHAT.done,
        completion(tool_calls(PAIR[0]), tool_calls(PAIR[1]), reason="tool_calls"),
        {"n": 2},
    ),
    "function_call": Turn(
        (SeenCall(0, None, "send_mail", GOOD),),
        CHAT.chunk({"role": "assistant", "content": None, "function_call": {"name": "send_mail", "arguments": ""}})
        + CHAT.chunk({"function_call": {"arguments": GOOD[:4]}})
        + CHAT.chunk({"function_call": {"arguments": GOOD[4:]}})
        + CHAT.chunk({}, "function_call")
        + CHAT.done,
        completion({"function_call": {"name": "send_mail", "arguments": GOOD}}, reason="function_call"),
        LEGACY,
    ),
    "custom tool": Turn(
        (SeenCall(0, "call_0001", "run", SHELL),),
        CHAT.chunk({"tool_calls": [{"index": 0, **CUSTOM, "custom": {"name": "run", "input": ""}}]})
        + CHAT.chunk({"tool_calls": [{"index": 0, "custom": {"input": SHELL[:5]}}]})
        + CHAT.chunk({"tool_calls": [{"index": 0, "custom": {"input": SHELL[5:]}}]})
        + CHAT.finish()
        + CHAT.done,
        completion({"tool_calls": [CUSTOM]}, reason="tool_calls"),
        # openai 3.57.0: it accumulates the custom call as a plain dict and asks that for an attribute to warn about it.
        helper_raises=True,
    ),
    "forced by name, ends with stop": Turn(
        (FIRST,),
        CHAT.calls([Call()]) + CHAT.finish("natural") + CHAT.done,
        completion(tool_calls(Call()), reason="stop"),
        NAMED,
    ),
    "whole in one chunk": Turn(
        (FIRST,),
        CHAT.chunk({"role": "assistant", "tool_calls": [{"index": 0, **tool_calls(Call())["tool_calls"][0]}]}, "tool_calls")
        + CHAT.done,
    ),
    "odd arguments": Turn(
        (SeenCall(0, "call_0001", "send_mail", ODD),),
        CHAT.text() + CHAT.calls([Call(ODD)]) + CHAT.finish() + CHAT.done,
        CHAT.whole([Call(ODD)]),
    ),
    "no sentinel": Turn((FIRST,), CHAT.calls([Call()]) + CHAT.finish()),
}  # fmt: skip

MESSAGES: Any = WIRES["anthropic_messages"]
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SEARCHED = {
    "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Ann"},
}  # fmt: skip
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SEND_MAIL = FUNCTIONS[0]["function"]["parameters"]
WITH_SEARCH = {
    "tools": [
        SEARCH,
        {"name": "send_mail", "input_schema": SEND_MAIL},
        {"name": "now", "input_schema": NOTHING},
    ]
}


def block(index: int, content: dict[str, Any], *pieces: str) -> bytes:
    """A block with a call, its input in the pieces."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return b"".join(
        (
            MESSAGES.event("content_block_start", index=index, content_block=content),
            *(MESSAGES.event("content_block_delta", index=index, delta=delta) for delta in deltas),
            MESSAGES.event("content_block_stop", index=index),
        )
    )


def tool_use(call: Call, given: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given or {}}


def message(*content: dict[str, Any]) -> bytes:
    return json.dumps(MESSAGES.message([{"type": "text", "text": TEXT}, *content], "tool_use")).encode()


ENDED = MESSAGES.finish() + MESSAGES.done
MESSAGES_TURNS = {
    "one call": Turn((FIRST,), MESSAGES.text() + MESSAGES.calls([Call()]) + ENDED, MESSAGES.whole([Call()])),
    "parallel": Turn((FIRST, SECOND), MESSAGES.text() + MESSAGES.calls(PAIR) + ENDED, MESSAGES.whole(PAIR)),
    "fine-grained": Turn(
        (SeenCall(0, "call_0001", "send_mail", ODD),),
        MESSAGES.text()
        + block(1, tool_use(Call()), *(ODD[at : at + 3] for at in range(0, len(ODD), 3)))
        + ENDED,
    ),
    "input in the block's start": Turn(
        (FIRST,), MESSAGES.text() + block(1, tool_use(Call(), json.loads(GOOD))) + ENDED
    ),
    "compact": Turn((FIRST,), MESSAGES.silent(Call())),
    "no arguments": Turn(
        (SeenCall(0, "call_0002", "now", ""),), MESSAGES.text() + block(1, tool_use(PAIR[1]), "") + ENDED
    ),
    "no arguments, no delta": Turn(
        (SeenCall(0, "call_0002", "now", ""),), MESSAGES.text() + block(1, tool_use(PAIR[1])) + ENDED
    ),
    "no arguments, whole": Turn((SECOND,), None, message(tool_use(PAIR[1]))),
    "a provider-run tool beside": Turn(
        (FIRST,),
        MESSAGES.text()
        + block(1, {**SEARCHED, "input": {}}, "", '{"query":', '"Ann"}')
        + block(2, FOUND)
        + block(3, tool_use(Call()), "", GOOD)
        + ENDED,
        message(SEARCHED, FOUND, tool_use(Call(), json.loads(GOOD))),
        WITH_SEARCH,
    ),
}

MISTRAL: Any = WIRES["mistral_chat"]


def mistral_call(call: Call, arguments: Any = None, **more: Any) -> dict[str, Any]:
    given = call.arguments if arguments is None else arguments
    return {"id": call.id, "function": {"name": call.name, "arguments": given}, **more}


def mistral_last(*calls: dict[str, Any]) -> bytes:
    """The chunk in which Mistral's calls usually come: whole, with the terminal reason and the usage."""
    choice = {
        "index": 0,
        "delta": {"content": "", "tool_calls": list(calls)},
        "finish_reason": "tool_calls",
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return sse({**MISTRAL.base, "choices": [choice], "usage": usage})


def goes_on(index: int, arguments: str) -> bytes:
    more = {"index": index, "function": {"name": "", "arguments": arguments}}
    return bytes(MISTRAL.chunk({"tool_calls": [more]}))


MISTRAL_TURNS = {
    "whole in one chunk": Turn(
        (FIRST,), MISTRAL.text() + mistral_last(mistral_call(Call())) + MISTRAL.done, MISTRAL.whole([Call()])
    ),
    "parallel": Turn(
        (FIRST, SECOND),
        MISTRAL.text() + mistral_last(*map(mistral_call, PAIR)) + MISTRAL.done,
        MISTRAL.whole(PAIR),
    ),
    "fragments": Turn(
        (FIRST, SECOND),
        MISTRAL.text()
        + MISTRAL.chunk({"tool_calls": [mistral_call(PAIR[0], "", index=0)]})
        + goes_on(0, GOOD[:3])
        + goes_on(0, GOOD[3:])
        + MISTRAL.chunk({"tool_calls": [mistral_call(PAIR[1], "{", index=1)]})
        + goes_on(1, "}")
        + MISTRAL.finish()
        + MISTRAL.done,
    ),
    "arguments as an object": Turn(
        (FIRST,),
        MISTRAL.text() + mistral_last(mistral_call(Call(), json.loads(GOOD))) + MISTRAL.done,
        completion({"tool_calls": [mistral_call(Call(), json.loads(GOOD))]}, reason="tool_calls"),
    ),
    "odd arguments": Turn(
        (SeenCall(0, "call_0001", "send_mail", ODD),),
        MISTRAL.text() + mistral_last(mistral_call(Call(ODD))) + MISTRAL.done,
        MISTRAL.whole([Call(ODD)]),
    ),
}

TURNS = {
    "openai_chat": CHAT_TURNS,
    "anthropic_messages": MESSAGES_TURNS,
    "mistral_chat": MISTRAL_TURNS,
}
