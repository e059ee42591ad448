"""Every dialect, all of them loaded: what a server asks, which must not load one in the middle of a request."""

from __future__ import annotations

from functools import lru_cache

from turngate.dialects.ag_ui import AgUi
from turngate.dialects.anthropic_messages import AnthropicMessages
from turngate.dialects.base import Dialect
from turngate.dialects.bedrock_converse import BedrockConverse
from turngate.dialects.bedrock_invoke import BedrockInvoke
from turngate.dialects.cohere_chat import CohereChat
from turngate.dialects.cohere_chat_v1 import CohereChatV1
from turngate.dialects.dashscope_native import DashScopeNative
from turngate.dialects.gemini_code_assist import GeminiCodeAssist
from turngate.dialects.gemini_generate import GeminiGenerate
from turngate.dialects.gemini_interactions import GeminiInteractions
from turngate.dialects.mistral_chat import MistralChat
from turngate.dialects.mistral_conversations import MistralConversations
from turngate.dialects.ollama_chat import OllamaChat
from turngate.dialects.openai_assistants import OpenAIAssistants
from turngate.dialects.openai_chat import OpenAIChat
from turngate.dialects.openai_completions import OpenAICompletions
from turngate.dialects.openai_responses import OpenAIResponses
from turngate.dialects.vercel_ui import VercelUI

DIALECTS: tuple[Dialect, ...] = (
    OpenAIChat(),
    AnthropicMessages(),
    MistralChat(),
    OpenAIResponses(),
    OpenAICompletions(),
    OpenAIAssistants(),
    OllamaChat(),
    CohereChat(),
    CohereChatV1(),
    BedrockConverse(),
    BedrockInvoke(),
    DashScopeNative(),
    MistralConversations(),
    GeminiGenerate(),
    GeminiCodeAssist(),
    GeminiInteractions(),
    VercelUI(),
    AgUi(),
)
"""Every dialect, in the order in which they are asked whether they claim a request."""

_ON_ANY_PATH = ("vercel", "ag")
"""Families between an application and its front end. Their paths are the application's own, so only the upstream tells."""


@lru_cache(512)  # a gate serves few paths, and a path is short
def dialect_for(method: str, path: str, family: str | None = None) -> Dialect | None:
    """The dialect that claims a request to this path.

    Two formats may share a path; then the upstream's `family` decides, the first word of a dialect's name (`mistral`).
    """
    claiming = [dialect for dialect in DIALECTS if dialect.claims(method, path)]
    of_family = [dialect for dialect in claiming if _family(dialect) == family]
    of_others = [dialect for dialect in claiming if _family(dialect) not in _ON_ANY_PATH]
    return next(iter(of_family or of_others), None)


def _family(dialect: Dialect) -> str:
    return dialect.name.partition("_")[0]
