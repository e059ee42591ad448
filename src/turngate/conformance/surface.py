"""Where each dialect keeps what the kit must touch: the prompt, and the text that a person reads.

Everything else about a dialect is read by its own decoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

_WHITE = re.compile(rb"\s")

EACH = "*"
"""Every entry of a list."""

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surface:
    """One dialect from outside."""

    asking: Callable[[str], Fields]
    """The fields of a request that says these words."""
    texts: Sequence[tuple[str, ...]]
    """Where text stands in a frame's JSON, streamed or not. `key=value` goes on only in an object that has it."""
    continuing: tuple[bytes, ...] = ()
    """What stands only in a request that goes on after a turn, such as a tool's result; without white space."""

    def text_of(self, data: bytes | None) -> str:
        """The text in the JSON of one frame; nothing where it is none."""
        if data is None:
            return ""
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return "".join(text for path in self.texts for text in _at(value, path))

    def goes_on(self, body: bytes) -> bool:
        """Whether a request goes on after a turn."""
        compact = _WHITE.sub(b"", body)
        return any(mark in compact for mark in self.continuing)


def _messages(words: str) -> Fields:
    return {"messages": [{"role": "user", "content": words}]}


def _in_parts(words: str) -> Fields:
    return {"messages": [{"role": "user", "content": [{"text": words}]}]}


_CHAT = Surface(
    _messages,
    (("choices", EACH, "delta", "content"), ("choices", EACH, "message", "content")),
    (b'"role":"tool"',),
)

SURFACES: Mapping[str, Surface] = {
    "openai_chat": _CHAT,
    "openai_responses": Surface(
        lambda words: {"input": [{"role": "user", "content": words}]},
        (("type=response.output_text.delta", "delta"), ("output", EACH, "content", EACH, "text")),
        (b'"function_call_output"',),
    ),
    "openai_completions": Surface(lambda words: {"prompt": words}, (("choices", EACH, "text"),)),
    "openai_assistants": Surface(
        lambda words: {"additional_messages": [{"role": "user", "content": words}]},
        (("delta", "content", EACH, "text", "value"),),
        (b'"tool_outputs"',),
    ),
    "anthropic_messages": Surface(
        _messages,
        (("delta", "text"), ("content", EACH, "text")),
        (b'"type":"tool_result"', b'"previous_message_id"'),
    ),
    "mistral_chat": _CHAT,
    "mistral_conversations": Surface(
        lambda words: {"inputs": [{"role": "user", "content": words}]},
        (("content",), ("outputs", EACH, "content")),
        (b'"function.result"',),
    ),
    "gemini_generate": Surface(
        lambda words: {"contents": [{"role": "user", "parts": [{"text": words}]}]},
        (("candidates", EACH, "content", "parts", EACH, "text"),),
        (b'"functionResponse"',),
    ),
    "gemini_interactions": Surface(
        lambda words: {"input": words},
        (("type=text", "text"), ("delta", "type=text", "text"), ("steps", EACH, "content", EACH, "text")),
        (b'"function_result"',),
    ),
    "bedrock_converse": Surface(
        _in_parts,
        (("delta", "text"), ("output", "message", "content", EACH, "text")),
        (b'"toolResult"',),
    ),
    "bedrock_invoke": Surface(
        # The events are inside the frames, in Base64; the kit does not look for text there.
        _messages,
        (("content", EACH, "text"),),
        (b'"type":"tool_result"',),
    ),
    "gemini_code_assist": Surface(
        lambda words: {"request": {"contents": [{"role": "user", "parts": [{"text": words}]}]}},
        (("response", "candidates", EACH, "content", "parts", EACH, "text"),),
        (b'"functionResponse"',),
    ),
    "vercel_ui": Surface(
        lambda words: {"messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": words}]}]},
        (("type=text-delta", "delta"),),
        (b'"state":"output-available"',),
    ),
    "ag_ui": Surface(
        lambda words: {"messages": [{"id": "m", "role": "user", "content": words}]},
        (("type=TEXT_MESSAGE_CONTENT", "delta"),),
        (b'"role":"tool"',),
    ),
    "cohere_chat": Surface(
        _messages,
        (("delta", "message", "content", "text"), ("message", "content", EACH, "text")),
        (b'"role":"tool"',),
    ),
    "cohere_chat_v1": Surface(lambda words: {"message": words}, (("text",),), (b'"tool_results"',)),
    "ollama_chat": Surface(_messages, (("message", "content"),), (b'"role":"tool"',)),
    "dashscope_native": Surface(
        lambda words: {"input": _messages(words)},
        (("output", "choices", EACH, "message", "content"),),
        (b'"role":"tool"',),
    ),
}
"""By the dialect's name. The kit plays the fixtures of these dialects."""


def _at(value: Any, path: Sequence[str]) -> Iterator[str]:
    if not path:
        if isinstance(value, str):
            yield value
    elif path[0] == EACH:
        for entry in value if isinstance(value, list) else ():
            yield from _at(entry, path[1:])
    elif isinstance(value, dict):
        key, equals, wanted = path[0].partition("=")
        if not equals:
            yield from _at(value.get(key), path[1:])
        elif value.get(key) == wanted:
            yield from _at(value, path[1:])
