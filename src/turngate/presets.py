"""Presets: which documented quirks of which server are tolerated, each with its source.

`strict` tolerates nothing and is what an unknown host gets. A preset exists for every provider that recorded streams were seen
of, also where it tolerates nothing, so that a configuration can say what it fronts. No preset accepts what would let two clients
read two different calls: a shared index, a second identity, or copies that disagree block everywhere.

A source names a section of the vendor's documentation, a public issue, or what recorded streams of the provider show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turngate.core.policy import Quirk


@dataclass(frozen=True, slots=True)
class Preset:
    """One kind of server. `hosts` are exact names, or suffixes where they begin with a dot or a dash."""

    name: str
    hosts: tuple[str, ...] = ()
    accept: Mapping[Quirk, str] = field(default_factory=dict)
    """Tolerated quirks, each with its source."""
    family: str | None = None
    """The dialect family, where one path serves several."""

    def serves(self, host: str) -> bool:
        """Whether the host belongs to this kind of server."""
        return any(host.endswith(each) if each[0] in ".-" else host == each for each in self.hosts)


_REPEATED = "recorded: the usage chunk repeats finish_reason with choices that are not empty"
_NO_DONE = "recorded: streams end after the finish or usage chunk without [DONE]"

STRICT = Preset("strict")

PRESETS: tuple[Preset, ...] = (
    STRICT,
    Preset("ag-ui", family="ag"),
    Preset("ai21", ("api.ai21.com",)),
    Preset("anthropic", ("api.anthropic.com",)),
    Preset("avian", ("api.avian.io",), {Quirk.REPEATED_FINISH: _REPEATED}),
    Preset(
        "azure",
        (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        {Quirk.REPEATED_FINISH: _REPEATED},
    ),
    Preset("azure-openai", (), {Quirk.REPEATED_FINISH: _REPEATED}),
    Preset("bedrock", (".amazonaws.com",)),
    Preset(
        "bedrock-mantle",
        (".api.aws",),
        {Quirk.MISSING_DONE: "recorded: chat ends after the usage chunk without [DONE]"},
    ),
    Preset("cerebras", ("api.cerebras.ai",), {Quirk.MISSING_DONE: _NO_DONE}),
    Preset(
        "chatgpt-codex",
        ("chatgpt.com",),
        {Quirk.EMPTY_FINAL_OUTPUT: "recorded: with store false, response.completed has output [] (bytedance/deer-flow#1928)"},
    ),
    Preset("cloudflare", ("gateway.ai.cloudflare.com", "api.cloudflare.com")),
    Preset("cohere", ("api.cohere.com", "api.cohere.ai")),
    Preset(
        "copilot",
        ("api.githubcopilot.com", ".githubcopilot.com"),
        {Quirk.ROTATING_ITEM_IDS: "recorded: each Responses event has another item id (vercel/ai#18548)"},
    ),
    Preset("crusoe", (".crusoecloud.com", ".crusoe.ai")),
    Preset("dashscope", ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com")),
    Preset("databricks", (".cloud.databricks.com", ".azuredatabricks.net")),
    Preset("deepseek", ("api.deepseek.com",)),
    Preset("doubleword", ("api.doubleword.ai",), {Quirk.REPEATED_FINISH: _REPEATED}),
    Preset(
        "google",
        ("generativelanguage.googleapis.com",),
        {
            Quirk.MISSING_INDEX: "recorded: the OpenAI layer sends whole calls without index",
            Quirk.MISSING_IDS: 'recorded: the OpenAI layer sends id "" or none (microsoft/autogen#4878)',
            Quirk.STOP_WITH_CALLS: "googleapis/python-genai#2868: streams end with stop although calls are present",
        },
    ),
    Preset("gpustack", (), {Quirk.MISSING_DONE: _NO_DONE}),
    Preset("groq", ("api.groq.com",)),
    Preset("huggingface", ("router.huggingface.co", "api-inference.huggingface.co")),
    Preset(
        "litellm",
        (),
        {Quirk.STOP_WITH_CALLS: "BerriAI/litellm#12862 (chat), BerriAI/litellm#34692 (Messages)"},
    ),
    Preset("litellm-proxy", (), {Quirk.STOP_WITH_CALLS: "BerriAI/litellm#12862"}),
    Preset("llamacpp"),
    Preset("lmstudio"),
    Preset("local-openai-compat"),
    Preset("minimax", ("api.minimax.io", "api.minimaxi.com"), {
        Quirk.REPEATED_FINISH: _REPEATED,
        Quirk.MISSING_DONE: _NO_DONE,
    }),
    Preset("mistral", ("api.mistral.ai", "codestral.mistral.ai"), family="mistral"),
    Preset("mistralrs"),
    Preset("moonshot", ("api.moonshot.ai", "api.moonshot.cn")),
    Preset(
        "ollama",
        ("ollama.com",),
        {
            Quirk.MISSING_INDEX: "ollama/ollama#7881: before 0.4.7 calls carry no index; also recorded",
            Quirk.STOP_WITH_CALLS: "ollama/ollama#7963: older servers end calls with stop",
        },
    ),
    Preset("openai", ("api.openai.com",)),
    Preset("openai-compatible"),
    Preset("openrouter", ("openrouter.ai",), {Quirk.REPEATED_FINISH: _REPEATED}),
    Preset("perplexity", ("api.perplexity.ai",), {Quirk.MISSING_DONE: _NO_DONE}),
    Preset("pydantic-gateway", ("gateway.pydantic.dev",)),
    Preset(
        "sglang",
        (),
        {Quirk.REPEATED_FINISH: "sgl-project/sglang#8417: older servers send the finish chunk twice"},
    ),
    Preset("snowflake", (".snowflakecomputing.com",)),
    Preset(
        "together",
        ("api.together.xyz", "api.together.ai"),
        {
            Quirk.REPEATED_FINISH: _REPEATED,
            Quirk.OTHER_NATURAL_REASONS: "recorded: finish_reason eos for a natural end",
        },
    ),
    Preset("venice", ("api.venice.ai",)),
    Preset("vercel-gateway", ("ai-gateway.vercel.sh",)),
    Preset("vercel-ui", family="vercel"),
    Preset(
        "vertex",
        (
            "aiplatform.googleapis.com",
            "-aiplatform.googleapis.com",
            "aiplatform.us.rep.googleapis.com",
            "aiplatform.eu.rep.googleapis.com",
        ),
    ),
    Preset("vllm"),
    Preset("writer", ("api.writer.com",), {Quirk.MISSING_DONE: _NO_DONE}),
    Preset("xai", ("api.x.ai",)),
    Preset("zai", ("api.z.ai", "open.bigmodel.cn"), {Quirk.REPEATED_FINISH: _REPEATED}),
)  # fmt: skip


def preset_named(name: str) -> Preset | None:
    """The preset of that name."""
    return next((preset for preset in PRESETS if preset.name == name), None)


def preset_for_host(host: str) -> Preset:
    """The preset of a host; `strict` for an unknown one."""
    return next((preset for preset in PRESETS if preset.serves(host.lower())), STRICT)
