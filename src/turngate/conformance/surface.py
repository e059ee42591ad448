"""Where each dialect keeps what the kit must touch: the prompt, and the text that a person reads.

Everything else about a dialect is read by its own decoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

EACH = "*"
"""Every entry of a list."""


@dataclass(frozen=True, slots=True)
class Surface:
    """One dialect from outside."""

    prompt: str
    """The request's field that holds the conversation."""
    texts: Sequence[tuple[str, ...]]
    """Where text stands in a frame's JSON, streamed or not."""
    continuing: tuple[bytes, ...]
    """What stands only in a request that goes on after a turn, such as a tool's result; without white space."""
    parts: bool = False
    """Whether a message's content is a list of parts named `parts`, and not a text."""

    def asking(self, words: str) -> dict[str, Any]:
        """The fields of a request that says these words."""
        message: dict[str, Any] = {"role": "user"}
        message |= {"parts": [{"text": words}]} if self.parts else {"content": words}
        return {self.prompt: [message]}

    def text_of(self, data: bytes | None) -> str:
        """The text in the JSON of one frame; nothing where it is none."""
        if data is None:
            return ""
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return "".join(text for path in self.texts for text in _at(value, path))


_CHAT = Surface(
    "messages",
    (("choices", EACH, "delta", "content"), ("choices", EACH, "message", "content")),
    (b'"role":"tool"',),
)

SURFACES: Mapping[str, Surface] = {
    "openai_chat": _CHAT,
    "mistral_chat": _CHAT,
    "anthropic_messages": Surface(
        "messages",
        (("delta", "text"), ("content", EACH, "text")),
        (b'"type":"tool_result"', b'"previous_message_id"'),
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
        yield from _at(value.get(path[0]), path[1:])
