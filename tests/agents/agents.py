"""The agents: which release, how each is installed, and how each is pointed at a base URL and given a task.

Every run gets a fresh home and an environment of its own making, so nothing of the machine's (credentials, settings, caches) reaches
an agent, and nothing of one run the next. Approvals are off: the question is what an agent executes when nobody looks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.agents.wire import Chat, Messages, Wire
from tests.agents.wire_gemini import CodeAssist, Gemini
from tests.agents.wire_responses import Responses

TASK = "list files"
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
STOP_PATIENCE_S = 5.0


QUIET = {
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}
"""Settings of Gemini CLI, and of Qwen Code, which came from it: whatever else would ask the network is off."""


class AgentError(Exception):
    """The agents cannot run here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How an agent's run ended. `code` is None where its time ran out."""

    code: int | None
    said: str
    seconds: float


class Agent(ABC):
    """One agent: its package, and how it is started."""

    name: ClassVar[str]
    title: ClassVar[str]
    package: ClassVar[str]
    release: ClassVar[str]
    binary: ClassVar[str]
    wire: ClassVar[Wire]

    def __init__(self, version: str | None = None) -> None:
        self.version = version or self.release

    def folder(self, packages: Path) -> Path:
        """Where this release is installed: by itself, so that releases can be compared."""
        return packages / f"{self.name}-{self.version}"

    @abstractmethod
    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """Write the agent's settings; give its arguments and its variables."""

    def run(self, packages: Path, home: Path, base: str, limit_s: float) -> Exit:
        """Start it, wait for its end, and end whatever it leaves behind."""
        arguments, variables = self.prepare(home, base)
        binaries = self.folder(packages) / "node_modules" / ".bin"
        environment = {
            "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            **variables,
        }
        (home / "tmp").mkdir()
        output, began = home / "said.txt", time.monotonic()
        with output.open("wb") as said:
            process = subprocess.Popen(
                [str(binaries / self.binary), *arguments],
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                end_session(process)
        seconds = time.monotonic() - began
        return Exit(code, TERMINAL_CODES.sub("", output.read_text(errors="replace")), seconds)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End the process group that the process leads, and reap the process."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


class ClaudeCode(Agent):
    """Anthropic Messages."""

    name, title = "claude", "Claude Code"
    package, release, binary = "@anthropic-ai/claude-code", "2.1.332", "claude"
    wire = Messages()

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        variables = {
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": "sk-ant-x",
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # else it refuses to skip permissions as root
        }
        arguments = ["-p", TASK, "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"]
        return arguments, variables


class QwenCode(Agent):
    """Chat Completions through the official SDK."""

    name, title = "qwen", "Qwen Code"
    package, release, binary = "@qwen-code/qwen-code", "0.24.4", "qwen"
    wire = Chat()

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        settings = home / ".qwen"
        settings.mkdir()
        (settings / "settings.json").write_text(json.dumps(QUIET))
        variables = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"{base}/v1", "OPENAI_MODEL": "gpt-x"}
        return ["-y", "-p", TASK, "--auth-type", "openai"], variables


class OpenCode(Agent):
    """Chat Completions through the AI SDK's compatible provider."""

    name, title = "opencode", "opencode"
    package, release, binary = "opencode-ai", "1.18.33", "opencode"
    wire = Chat()

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        settings = home / ".config" / "opencode"
        settings.mkdir(parents=True)
        model = {"tool_call": True, "limit": {"context": 100_000, "output": 8_000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{base}/v1", "apiKey": "x"},
            "models": {"gpt-x": model},
        }
        config = {
            "autoupdate": False,
            "share": "disabled",
            "permission": "allow",
            "provider": {"gate": provider},
        }
        (settings / "opencode.json").write_text(json.dumps(config))
        variables = {
            "XDG_CONFIG_HOME": str(home / ".config"),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        return ["run", "-m", "gate/gpt-x", TASK], variables


class Codex(Agent):
    """OpenAI Responses, with the provider's settings of its own, so that its limits and retries are the usual ones."""

    name, title = "codex", "Codex CLI"
    package, release, binary = "@openai/codex", "0.171.0", "codex"
    wire = Responses()

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        settings = home / ".codex"
        settings.mkdir()
        (settings / "config.toml").write_text(
            'model = "gpt-x"\nmodel_provider = "gate"\ncheck_for_update_on_startup = false\n\n[analytics]\nenabled = false\n\n'
            f'[model_providers.gate]\nname = "gate"\nbase_url = "{base}/v1"\nwire_api = "responses"\nenv_key = "GATE_KEY"\n'
        )
        arguments = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK]
        return arguments, {"CODEX_HOME": str(settings), "GATE_KEY": "x"}


class CodexSocket(Codex):
    """The same over a WebSocket, which it prefers wherever its provider's settings admit it."""

    name, title = "codex-ws", "Codex CLI over a WebSocket"

    def folder(self, packages: Path) -> Path:
        return packages / f"{Codex.name}-{self.version}"

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        started = super().prepare(home, base)
        with (home / ".codex" / "config.toml").open("a") as settings:
            settings.write("supports_websockets = true\n")
        return started


class GeminiCli(Agent):
    """Gemini generateContent, streamed."""

    name, title = "gemini", "Gemini CLI"
    package, release, binary = "@google/gemini-cli", "0.61.0", "gemini"
    wire = Gemini()

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        settings = home / ".gemini"
        settings.mkdir()
        chosen = {**QUIET, "security": {"auth": {"selectedType": "gemini-api-key"}}}
        (settings / "settings.json").write_text(json.dumps(chosen))
        variables = {
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": base,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        return ["-y", "-m", "gemini-2.5-pro", "-p", TASK], variables


class GeminiLogin(GeminiCli):
    """The same with a Google login, which speaks to Code Assist. Nothing of it asks Google whose login that is."""

    name, title = "gemini-login", "Gemini CLI with a Google login"
    wire = CodeAssist()

    def folder(self, packages: Path) -> Path:
        return packages / f"{GeminiCli.name}-{self.version}"

    def prepare(self, home: Path, base: str) -> tuple[Sequence[str], Mapping[str, str]]:
        arguments, _ = super().prepare(home, base)
        settings = home / ".gemini" / "settings.json"
        settings.write_text(settings.read_text().replace("gemini-api-key", "oauth-personal"))
        alone = home / "alone.cjs"
        alone.write_text(
            "const ask = fetch; globalThis.fetch = (to, ...more) =>"
            f" String(to?.url ?? to).startsWith({base!r}) ? ask(to, ...more) : Promise.reject(new Error('alone'));\n"
        )
        variables = {
            "GOOGLE_GENAI_USE_GCA": "true",
            "GOOGLE_CLOUD_ACCESS_TOKEN": "x",
            "CODE_ASSIST_ENDPOINT": base,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "NODE_OPTIONS": f"--require={alone}",
        }
        return arguments, variables


BY_NAME: Mapping[str, type[Agent]] = {
    kind.name: kind for kind in (ClaudeCode, QwenCode, OpenCode, Codex, CodexSocket, GeminiCli, GeminiLogin)
}


def agent_named(spec: str) -> Agent:
    """The agent of `NAME`, in the pinned release, or of `NAME@VERSION`."""
    name, _, version = spec.partition("@")
    if name not in BY_NAME:
        raise ValueError(f"{name!r} is none of {', '.join(BY_NAME)}")
    return BY_NAME[name](version or None)


def install(agents: Sequence[Agent], packages: Path) -> None:
    """Install what is missing, in exactly the version wanted, into the folder and nowhere else."""
    if shutil.which("npm") is None:
        raise AgentError("the agents come from npm: install Node.js 20 or newer")
    for agent in agents:
        folder, wanted = agent.folder(packages), f"{agent.package}@{agent.version}"
        if (folder / "node_modules" / ".bin" / agent.binary).exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        quietly = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        command = ["npm", "install", "--prefix", str(folder), *quietly, wanted]
        if subprocess.run(command, check=False).returncode != 0:
            raise AgentError(f"npm could not install {wanted}")
