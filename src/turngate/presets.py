"""Presets: which documented quirks each known server is allowed, and where that is documented.

An upstream without a preset of its own gets `strict`: nothing is tolerated. A quirk enters this table only with its source
(a recorded stream, an issue, the provider's page), and only if it cannot let two clients read two different calls; a server
that numbers all parallel calls 0, for example, is not helped here. Many presets accept nothing: for them the table says
that the server was looked at.

"Recorded" names one case of the corpus of recorded streams; "oddity" is a line of its list of oddities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turngate.core.policy import Quirk


@dataclass(frozen=True, slots=True)
class Preset:
    """What is known of one server."""

    name: str
    doc: str
    hosts: tuple[str, ...] = ()
    """Host names; one that begins with `.` or `-` stands for every host that ends with it."""
    accept: Mapping[Quirk, str] = field(default_factory=dict)
    """The tolerated quirks, each with its source."""
    family: str = ""
    """Whose wire formats its paths speak, where a path alone does not tell."""

    def serves(self, host: str) -> bool:
        """Whether this is the preset of `host`."""
        return any(host.endswith(known) if known[0] in ".-" else host == known for known in self.hosts)


STRICT = Preset("strict", "Nothing is tolerated; what a server without a preset gets.")

_OLD_MISTRAL = "recorded: mistral--magentic--chat-model-test-mistral-chat-model-complete-list-three-fruits-*"
_MISTRAL_SDK = (
    "the official SDK's model of a call: `id` defaults to the text null, `arguments` is a string or an object"
)
_GEMINI_COMPAT = "recorded: google--magentic--emini-test-openai-chat-model-gemini-complete-return-1-2-3-4-5-*"
_TGI_ARGUMENTS = "https://github.com/huggingface/text-generation-inference/issues/2136"

PRESETS: tuple[Preset, ...] = (
    STRICT,
    Preset("demo", "The bundled replay provider; it never needs a quirk."),
    Preset("openai", "OpenAI.", ("api.openai.com",)),
    Preset("chatgpt-codex", "The backend of Codex with a ChatGPT account.", ("chatgpt.com",)),
    Preset("anthropic", "Anthropic.", ("api.anthropic.com",)),
    Preset(
        "mistral", "Mistral's own API.", ("api.mistral.ai", "codestral.mistral.ai"),
        {
            Quirk.MISSING_INDEX: _OLD_MISTRAL,
            Quirk.NULL_TEXT_ID: _MISTRAL_SDK,
            Quirk.ARGUMENTS_OBJECT: _MISTRAL_SDK,
        },
        family="mistral",
    ),
    Preset(
        "azure", "Azure AI Foundry: models of any maker.", (".services.ai.azure.com", ".models.ai.azure.com"),
        {
            Quirk.REPEATED_FINISH: "oddity A7",
        },
    ),
    Preset(
        "azure-openai", "Azure OpenAI.", (".openai.azure.com", ".cognitiveservices.azure.com"),
        {
            Quirk.REPEATED_FINISH: "oddity A7",
        },
    ),
    Preset("vertex", "Google Cloud's Vertex AI.", ("aiplatform.googleapis.com", "-aiplatform.googleapis.com")),
    Preset("bedrock", "AWS Bedrock's runtime."),
    Preset(
        "bedrock-mantle", "AWS Bedrock's OpenAI-compatible endpoints.", (),
        {
            Quirk.MISSING_DONE: "wire reference 11.2: recorded streams end after the usage chunk",
        },
    ),
    Preset(
        "google", "Gemini, with its own API and its OpenAI-compatible one.", ("generativelanguage.googleapis.com",),
        {
            Quirk.MISSING_INDEX: _GEMINI_COMPAT,
            Quirk.MISSING_IDS: _GEMINI_COMPAT,
            Quirk.STOP_WITH_CALLS: "https://github.com/googleapis/python-genai/issues/2868",
        },
    ),
    Preset(
        "openrouter", "OpenRouter.", ("openrouter.ai",),
        {
            Quirk.REPEATED_FINISH: "recorded: openrouter--fantasy--testopenroutercommon-gemini-tool-streaming--0-8bfe6b",
        },
    ),
    Preset("ai21", "AI21.", ("api.ai21.com",)),
    Preset(
        "avian", "Avian.", ("api.avian.io",),
        {
            Quirk.REPEATED_FINISH: "recorded: avian--fantasy--testopenaicompatiblecommon-avian-kimi-multi-tool-streaming--0-5c71ad",
        },
    ),
    Preset(
        "cerebras", "Cerebras.", ("api.cerebras.ai",),
        {
            Quirk.MISSING_DONE: "recorded: cerebras--req-llm--cerebras-qwen-3-235b-a22b-instruct-2507-object-streaming--0-1c5b38",
        },
    ),
    Preset("cloudflare", "Cloudflare Workers AI.", ("api.cloudflare.com", "gateway.ai.cloudflare.com")),
    Preset("cohere", "Cohere.", ("api.cohere.com", "api.cohere.ai")),
    Preset("copilot", "GitHub Copilot.", ("api.githubcopilot.com", ".githubcopilot.com")),
    Preset("crusoe", "Crusoe."),
    Preset("dashscope", "Alibaba's DashScope.", ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com")),
    Preset("databricks", "Databricks.", (".cloud.databricks.com", ".azuredatabricks.net", ".gcp.databricks.com")),
    Preset("deepseek", "DeepSeek.", ("api.deepseek.com",)),
    Preset(
        "doubleword", "Doubleword.", ("api.doubleword.ai",),
        {
            Quirk.REPEATED_FINISH: "recorded: doubleword--rig--doubleword-conformance-streaming-tool--0-5b1bc0",
        },
    ),
    Preset("groq", "Groq.", ("api.groq.com",)),
    Preset(
        "huggingface", "Hugging Face's router, which passes the servers behind it on, TGI among them.",
        ("router.huggingface.co", "api-inference.huggingface.co"),
        {
            Quirk.ARGUMENTS_OBJECT: _TGI_ARGUMENTS,
        },
    ),
    Preset(
        "minimax", "MiniMax.", ("api.minimax.io", "api.minimaxi.com", "api.minimax.chat"),
        {
            Quirk.MISSING_DONE: "recorded: minimax--req-llm--minimax-minimax-m2-5-object-streaming--0-2e7c1c",
            Quirk.REPEATED_FINISH: "recorded: minimax--req-llm--minimax-minimax-m2-1-object-streaming--0-ff32e6",
        },
    ),
    Preset("moonshot", "Moonshot (Kimi).", ("api.moonshot.ai", "api.moonshot.cn")),
    Preset(
        "perplexity", "Perplexity.", ("api.perplexity.ai",),
        {
            Quirk.MISSING_DONE: "oddity A10",
        },
    ),
    Preset("snowflake", "Snowflake Cortex.", (".snowflakecomputing.com",)),
    Preset(
        "together", "Together.", ("api.together.xyz", "api.together.ai"),
        {
            Quirk.REPEATED_FINISH: "wire reference 11.2: recorded streams finish with the arguments and again with the usage",
            Quirk.OTHER_NATURAL_REASONS: "oddity B: `eos`",
        },
    ),
    Preset("venice", "Venice.", ("api.venice.ai",)),
    Preset("vercel-gateway", "Vercel's AI Gateway.", ("ai-gateway.vercel.sh",)),
    Preset(
        "writer", "Writer.", ("api.writer.com",),
        {
            Quirk.MISSING_DONE: "oddity A10",
        },
    ),
    Preset("xai", "xAI.", ("api.x.ai",)),
    Preset(
        "zai", "Z.ai (GLM).", ("api.z.ai", "open.bigmodel.cn"),
        {
            Quirk.REPEATED_FINISH: "recorded: zai--req-llm--zai-coder-glm-4-5v-object-streaming--0-9f5970",
        },
    ),
    Preset("pydantic-gateway", "Pydantic's AI gateway.", ("gateway.pydantic.dev",)),
    # Servers that run anywhere: named by the operator, never guessed from a host.
    Preset("openai-compatible", "Any server that follows OpenAI to the letter."),
    Preset("local-openai-compat", "Any local server that follows OpenAI to the letter."),
    Preset(
        "gpustack", "GPUStack.", (),
        {
            Quirk.MISSING_DONE: "oddity A10",
        },
    ),
    Preset("llamacpp", "llama.cpp's server, which leaves `[DONE]` out after errors only."),
    Preset(
        "litellm", "LiteLLM's proxy.", (),
        {
            Quirk.STOP_WITH_CALLS: "https://github.com/BerriAI/litellm/issues/12862",
        },
    ),
    Preset(
        "litellm-proxy", "LiteLLM's proxy.", (),
        {
            Quirk.STOP_WITH_CALLS: "https://github.com/BerriAI/litellm/issues/12862",
        },
    ),
    Preset("lmstudio", "LM Studio."),
    Preset("mistralrs", "mistral.rs."),
    Preset(
        "ollama", "Ollama, with its own API and its OpenAI-compatible one.", ("ollama.com",),
        {
            Quirk.MISSING_INDEX: "https://github.com/ollama/ollama/issues/7881, before 0.4.7",
            Quirk.STOP_WITH_CALLS: "https://github.com/ollama/ollama/pull/7963, before it",
        },
    ),
    Preset(
        "sglang", "SGLang.", (),
        {
            Quirk.REPEATED_FINISH: "https://github.com/sgl-project/sglang/pull/8417, before it",
            Quirk.MISSING_IDS: "https://github.com/sgl-project/sglang/issues/7048",
        },
    ),
    Preset(
        "tgi", "Hugging Face's Text Generation Inference.", (),
        {
            Quirk.ARGUMENTS_OBJECT: _TGI_ARGUMENTS,
            Quirk.OTHER_NATURAL_REASONS: "https://github.com/huggingface/text-generation-inference/issues/2794: `eos_token`",
        },
    ),
    Preset(
        "vllm", "vLLM.", (),
        {
            Quirk.MISSING_IDS: "https://github.com/vllm-project/vllm/issues/18412",
        },
    ),
)  # fmt: skip
"""Every preset."""

_BY_NAME = {preset.name: preset for preset in PRESETS}


def preset_named(name: str) -> Preset | None:
    """The preset of that name."""
    return _BY_NAME.get(name)


def preset_for_host(host: str) -> Preset:
    """The preset of the server at `host`; `strict` for one that nobody documented."""
    host = host.lower().rstrip(".")
    return next((preset for preset in PRESETS if preset.serves(host)), STRICT)
