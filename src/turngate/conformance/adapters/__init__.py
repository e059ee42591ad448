"""The adapters: what the kit can drive, with the pinned packages of each.

Every adapter runs in a process of its own, by the interpreter of its own environment, and speaks lines of JSON: one that hangs or dies
takes nothing with it, and turngate itself needs none of their packages. An adapter's file imports nothing of turngate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Adapter:
    """One client library that the kit knows."""

    name: str
    file: str
    """Beside this one. A `.mjs` file runs under Node.js."""
    packages: Mapping[str, str]
    """Each package with its version, the one that is asked for its version first."""
    module: str = ""
    """What must be importable for the adapter to run without an environment of its own."""

    @property
    def runs_on_node(self) -> bool:
        """Whether it is JavaScript."""
        return self.file.endswith(".mjs")


ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        Adapter("openai", "openai_sdk.py", {"openai": "3.57.0"}, "openai"),
        Adapter("anthropic", "anthropic_sdk.py", {"anthropic": "2.14.0"}, "anthropic"),
        Adapter("mistral", "mistral_sdk.py", {"mistralai": "3.7.0"}, "mistralai"),
        Adapter("cohere", "cohere_sdk.py", {"cohere": "7.3.1"}, "cohere"),
        Adapter("google-genai", "google_genai_sdk.py", {"google-genai": "3.6.1"}, "google.genai"),
        Adapter(
            "google-interactions", "google_interactions_sdk.py", {"google-genai": "3.6.1"}, "google.genai"
        ),
        Adapter("ollama", "ollama_sdk.py", {"ollama": "0.6.3"}, "ollama"),
        Adapter("boto3", "boto3_sdk.py", {"boto3": "1.44.8"}, "boto3"),
        Adapter("langchain-openai", "langchain_sdk.py", {"langchain-openai": "1.7.4"}, "langchain_openai"),
        Adapter("litellm", "litellm_sdk.py", {"litellm": "1.110.2"}, "litellm"),
        Adapter(
            "vercel-ai",
            "vercel_ai.mjs",
            {
                "ai": "7.0.173",
                "@ai-sdk/openai": "4.0.118",
                "@ai-sdk/anthropic": "4.0.105",
            },
        ),
        Adapter("vercel-ui", "vercel_ui.mjs", {"ai": "7.0.173"}),
        Adapter("ag-ui", "ag_ui.mjs", {"@ag-ui/client": "1.0.0"}),
    )
}
"""By the name that `--adapter` takes."""
