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
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from turngate.core.policy import Quirk, TurnPolicy
from turngate.core.session import Decoder
from turngate.core.toolset import Toolset
from turngate.dialects.openai_chat import ChatDecoder, OpenAIChat

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
        return ChatDecoder(tools, liberal, streamed=streamed)
