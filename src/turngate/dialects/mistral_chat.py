"""Mistral's chat and agents completions: OpenAI's chunks, with what Mistral's own schema leaves open.

Source: the official SDK's `ToolCall` (id defaults to the text `null`, index to 0, arguments are text or an object) and the
recorded streams (wire reference 4.3). There a call usually arrives whole, without `index`, in the chunk that also
finishes its choice. What would be a quirk of an OpenAI server is the format here, so no preset has to name it:

    entry without index, with a name           a call of its own, in order
    entry without index, without a name        invalid: nobody can say which call it continues
    arguments that are an object               their exact JSON text
    id "null"                                  no id yet

Free-standing differences from OpenAI stay as they are: a call still needs an id of its own, and a turn with calls ends
with `tool_calls` even where the request forces one tool by name.

The official SDKs raise at an error in the middle of a stream, because it is no chunk. The one for Python shows what stood in it, the
one for Node does not; so a chunk that says the same in words goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.core.verdict import BlockNotice
from turngate.dialects.base import encode, sse
from turngate.dialects.openai_chat import ChatDecoder, OpenAIChat
from turngate.dialects.openai_chat_block import error_envelope, error_fields

INHERENT = frozenset({Quirk.MISSING_INDEX, Quirk.ARGUMENTS_OBJECT, Quirk.NULL_TEXT_ID})
"""Allowed by the format itself."""


class MistralChat(OpenAIChat):
    """The dialect."""

    name: ClassVar[str] = "mistral_chat"
    named_choice_ends_naturally: ClassVar[bool] = False

    def claims(self, method: str, path: str) -> bool:
        """`POST .../chat/completions`, `.../agents/completions`, and Google's spelling of the same."""
        if method != "POST":
            return False
        return path.endswith(("/chat/completions", "/agents/completions")) or (
            "/publishers/mistralai/models/" in path and path.endswith((":streamRawPredict", ":rawPredict"))
        )

    def decoder(self, tools: Toolset, policy: TurnPolicy, *, streamed: bool) -> Decoder:
        """A chat decoder that reads the format's own liberties."""
        liberal = replace(policy, accept=policy.accept | INHERENT)
        return MistralDecoder(tools, liberal, streamed=streamed)

    def error_body(self, message: str, details: Mapping[str, object]) -> bytes:
        """Mistral's error envelope."""
        return encode(mistral_envelope(message, details))


def mistral_envelope(message: str, details: Mapping[str, object]) -> dict[str, object]:
    """Mistral's error object, and in it OpenAI's: the Vercel AI SDK shows only the former."""
    return {"object": "error", **error_fields(message, details), **error_envelope(message, details)}


class MistralDecoder(ChatDecoder):
    """One reply."""

    def block_event(self, notice: BlockNotice) -> bytes:
        """A last chunk in words, then an `error` object."""
        index = next(iter(self._shown.unended(self._choices)), 0)
        said = self._chunk(notice, index, {"content": notice.message}, "error")
        return said + sse(error_envelope(notice.message, notice.details))

    def block_body(self, notice: BlockNotice) -> bytes:
        """Mistral's error envelope."""
        return encode(mistral_envelope(notice.message, notice.details))
