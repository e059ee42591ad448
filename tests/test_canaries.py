"""A search for what was said, in everything that a gate tells or keeps.

A real `turngate serve`, logging at debug level, is driven through all that it does, with a word of its own for each thing that nobody may
learn from it: credentials, prompts, outputs, arguments, headers. Then everything that came out of it is searched, also for pieces
of those words and for their encodings. Each place must show the tools and turns that it is about: a place that says nothing proves
nothing.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
import signal
import string
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from click.testing import CliRunner

from tests.console.browser import BASE, Browser
from tests.operator.staged import Operator
from tests.processes import free_port
from tests.proxy.gated import (
    DONE,
    FINISH,
    FINISH_CALLS,
    OPENING,
    SSE_HEAD,
    Answer,
    Client,
    chunked,
    event,
    plain,
    streamed,
)
from tests.traces.collector import Collector, collecting
from tests.transport.peer import Peer, serving
from turngate.cli.main import main as turngate
from turngate.operator.operations import OPERATIONS
from turngate.operator.tokens import first_token_path

PATIENCE_S = 120.0
"""A test that needs this long has failed; no test waits for it to pass."""

PIECE = 10
"""Letters of a word that are told already when a piece of it is found: arguments travel in fragments."""


def word(name: str) -> str:
    """Letters that stand for one secret, and in nothing else."""
    return "".join(random.Random(name).choices(string.ascii_lowercase, k=30))


CANARIES = {
    name: word(name)
    for name in (
        *("wrong key", "provider's key", "cookie", "header", "query", "proxy's password"),
        *("prompt", "system prompt", "tool result", "tool's description", "schema's words"),
        *("output", "argument", "argument's name", "broken argument", "error's words", "reply's header"),
        *("wrong token", "tested value", "misplaced setting", "conversation"),
    )
}
ALLOWED = {"conversation": {"traces"}}
"""What may be told after all, and where: the application names a conversation so that its turns are found."""


def encodings(piece: bytes) -> Iterator[bytes]:
    """A piece of a word as it is, and in the encodings that it may travel in."""
    yield piece
    yield piece.hex().encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + piece)
        yield encoded[4 if shift else 0 : -4]  # the ends depend on what stands beside it


def found_in(content: bytes, canary: str) -> bool:
    """Whether a content tells a word, or a piece of it."""
    letters, lowered = canary.encode(), content.lower()
    pieces = [letters[at : at + PIECE] for at in range(len(letters) - PIECE + 1)]
    if any(piece in lowered for piece in pieces):
        return True
    return any(each in content for each in encodings(letters) if each != letters)


# The gate and everything around it


@dataclass
class Stage:
    """A gate as its own process, and what it has told so far, by where."""

    folder: Path
    port: int
    operators: int
    upstream: int
    collector: Collector
    key: str = ""
    told: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def file(self) -> Path:
        return self.folder / "gate.toml"

    def tell(self, place: str, *contents: bytes | str) -> None:
        self.told.setdefault(place, []).extend(
            each.encode() if isinstance(each, str) else each for each in contents
        )

    def token(self) -> str:
        return first_token_path(self.ledger).read_text().strip()

    def operator(self, token: str | None = None) -> Operator:
        return Operator(f"http://127.0.0.1:{self.operators}", token or self.token())

    def command(self, *arguments: str, **environ: str) -> str:
        """Run one of our commands."""
        result = CliRunner().invoke(turngate, arguments, env={"TURNGATE_CONFIG": str(self.file), **environ})
        return result.output

    async def ask(
        self,
        case: str,
        *,
        path: str = "/provider/v1/chat/completions",
        key: str | None = None,
        more: str = "",
    ) -> Answer:
        """One request of a client that tells the gate all its secrets."""
        said = CANARIES
        body: dict[str, Any] = {
            "model": f"{case}-model",
            "max_tokens": 9,
            "stream": not path.endswith(("messages", "responses")),
            "messages": [
                {"role": "user", "content": said["prompt"]},
                {"role": "assistant", "content": said["tool result"]},
            ],
            "tools": [_tool("send_mail"), _tool("confirmed_mail")],
        }
        if path.endswith("messages"):
            function = _tool("send_mail")["function"]
            schema = {"name": "send_mail", "input_schema": function["parameters"]}
            body |= {"system": said["system prompt"], "tools": [schema]}
        if path.endswith("responses"):
            function = {"type": "function", **_tool("send_mail")["function"]}
            body = {"model": body["model"], "input": said["prompt"], "tools": [function]}
        content = json.dumps(body).encode()
        head = (
            f"POST {path}?key={said['query']} HTTP/1.1\r\nHost: gate\r\n"
            f"Authorization: Bearer {key or self.key}\r\nCookie: session={said['cookie']}\r\n"
            f"X-Secret: {said['header']}\r\nX-Turngate-Conversation: {said['conversation']}-{case}\r\n{more}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            return await Client(reader, writer).ask(head.encode() + content)
        finally:
            writer.transport.abort()


def _tool(name: str) -> dict[str, Any]:
    properties = {"to": {"type": "string"}, "how": {"enum": [CANARIES["schema's words"]]}}
    schema = {"type": "object", "properties": properties, "required": ["to"], "additionalProperties": False}
    told = {"name": name, "description": CANARIES["tool's description"], "parameters": schema}
    return {"type": "function", "function": told}


def _call(arguments: str, name: str = "send_mail") -> bytes:
    half = len(arguments) // 2
    function = {"name": name, "arguments": arguments[:half]}
    opened = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return event({"tool_calls": [opened]}) + event(
        {"tool_calls": [{"index": 0, "function": {"arguments": arguments[half:]}}]}
    )


def _turn(arguments: dict[str, Any] | str, name: str = "send_mail") -> bytes:
    told = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return streamed(OPENING + _call(told, name) + FINISH_CALLS + DONE)


GOOD = {"to": CANARIES["argument"]}
ODD_HEADER = "X-Odd: " + CANARIES["reply's header"] + "\r\n"
ERROR = json.dumps({"error": {"message": CANARIES["error's words"], "type": "server_error"}}).encode()
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "send_mail", "input": {"too": CANARIES["argument"]}}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": CANARIES["output"]}, TOOL_USE],
    "stop_reason": "tool_use",
}
FUNCTION_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "send_mail",
    "arguments": json.dumps({"to": 1, "how": CANARIES["argument"]}),
    "status": "completed",
}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": CANARIES["output"],
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "send_mail", "arguments": json.dumps([CANARIES["argument"]])},
                    }
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "m",
    "output": [FUNCTION_CALL],
}
HELD = SSE_HEAD + chunked(OPENING + _call(json.dumps(GOOD)))

REPLIES: dict[str, bytes] = {
    "released": _turn(GOOD).replace(b"\r\n\r\n", f"\r\n{ODD_HEADER}\r\n".encode(), 1),
    "invalid": _turn({"to": 1, "how": CANARIES["argument"]}),
    "surplus": _turn({"to": "x", CANARIES["argument's name"]: CANARIES["argument"]}),
    "broken": _turn(f'{{"to": "{CANARIES["broken argument"]}'),
    "twice": _turn(f'{{"to": "{CANARIES["argument"]}", "to": "{CANARIES["broken argument"]}"}}'),
    "unknown": _turn(GOOD, "unknown_tool"),
    "confirmed": _turn(GOOD, "confirmed_mail"),
    "text": streamed(OPENING + event({"content": CANARIES["output"]}) + FINISH + DONE),
    "fault": streamed(OPENING + _call(json.dumps(GOOD)) + b"data: " + ERROR + b"\n\n"),
    "cut": HELD,
    "malformed": streamed(OPENING + _call(json.dumps(GOOD)) + CANARIES["output"].encode() + b"\n\n" + DONE),
    "json": plain(json.dumps(COMPLETION).encode()),
    "page": plain(CANARIES["output"].encode(), "text/html"),
    "error": plain(ERROR, status="500 Internal Server Error"),
    "head": b"HTTP/1.1 200 OK\r\n" + CANARIES["output"].encode() + b"\r\n\r\n",
    "messages": plain(json.dumps(MESSAGE).encode()),
    "responses": plain(json.dumps(RESPONSE).encode()),
    "unjudged": plain(json.dumps({"choices": [{"message": {"tool_calls": [CANARIES["output"]]}}]}).encode()),
    "held": HELD,
}
OURS = {
    "invalid",
    "surplus",
    "broken",
    "twice",
    "unknown",
    "fault",
    "cut",
    "malformed",
    "json",
    "page",
    "head",
}
"""Cases whose whole answer, or what follows the opening, is an error of ours. The provider's own words pass to the client."""


async def provider(peer: Peer) -> None:
    """Answer by the case that the request's model names."""
    asked = await peer.request()
    (case,) = [case for case in REPLIES if f'"{case}-model"'.encode() in asked]
    await peer.send(REPLIES[case])
    if case == "held":
        await peer.hold()


CONFIG = """
[server]
listen = "127.0.0.1:{port}"
default_upstream = "provider"
tenant_from = "gate_key"
[operator]
listen = "127.0.0.1:{operators}"
[ledger]
url = "sqlite:///{ledger}"
checkpoint_dir = "{folder}/checkpoints"
[log]
format = "json"
level = "debug"
[traces]
endpoint = "{collector}"
[capture]
dir = "{folder}/captures"
[[policy.rules]]
action = "confirm"
tool = "confirmed_*"
[upstreams.provider]
base_url = "http://127.0.0.1:{upstream}"
credential_file = "{folder}/credential"
capture = "all"
terminal_grace_s = 0.2
[upstreams.watched]
base_url = "http://127.0.0.1:{upstream}"
mode = "observe"
[upstreams.away]
base_url = "https://away.invalid"
proxy = "http://me:{password}@127.0.0.1:1"
"""


@contextlib.asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """Everything that runs. What the process has said is told when it is over."""
    with collecting() as collector:
        async with serving(provider) as origin:
            stage = Stage(folder, free_port(), free_port(), origin.port, collector)
            for name in ("captures", "checkpoints"):
                (folder / name).mkdir()
            (folder / "credential").write_text(CANARIES["provider's key"])
            stage.file.write_text(
                CONFIG.format(
                    **{
                        name: getattr(stage, name)
                        for name in ("port", "operators", "ledger", "folder", "upstream")
                    },
                    collector=collector.url,
                    password=CANARIES["proxy's password"],
                )
            )
            stage.key = stage.command("key", "create", "acme").split()[-1]
            environment = {
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("TURNGATE_", "OTEL_"))
            }
            command = [sys.executable, "-m", "turngate", "serve", "--config", str(stage.file)]
            with (folder / "log").open("wb") as log:
                process = await asyncio.create_subprocess_exec(
                    *command, env=environment, stdout=log, stderr=log
                )
            try:
                await _until_ready(stage, process)
                yield stage
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                await process.wait()
        stage.tell("log", (folder / "log").read_bytes())
        stage.tell("files", *kept(folder).values())
        stage.tell("captures", *(each.read_bytes() for each in (folder / "captures").iterdir()))
        stage.tell("traces", *collector.bodies)


async def _until_ready(stage: Stage, process: asyncio.subprocess.Process) -> None:
    while process.returncode is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", stage.port)
            writer.transport.abort()
            return
        await asyncio.sleep(0.02)
    raise AssertionError((stage.folder / "log").read_text())


# What is done with it


async def use(stage: Stage) -> None:
    """All that clients do."""
    for case in REPLIES:
        if case in ("confirmed", "held"):
            continue
        path = {
            "messages": "/provider/v1/messages",
            "responses": "/provider/v1/responses",
            "unjudged": "/provider/x",
        }
        answer = await stage.ask(case, path=path.get(case, "/provider/v1/chat/completions"))
        if case in OURS:
            stage.tell("errors", answer.body)
        stage.tell("errors", *(value for name, value in answer.headers if name.startswith("x-turngate")))
        if case in ("released", "invalid", "broken"):
            await stage.ask(case, path="/watched/v1/chat/completions")
    turn_id = (await stage.ask("released")).header("x-turngate-turn")
    claimed = await stage.ask("released", path=f"/turngate/turns/{turn_id}/calls/call_1/claim")
    assert claimed.status == 200
    stage.tell("answers", claimed.body)
    refused = [
        await stage.ask("released", key=CANARIES["wrong key"]),
        await stage.ask("released", path="/away/v1/chat/completions"),
        await stage.ask("released", path=f"/nowhere-{CANARIES['query']}/"),
        await stage.ask("released", path="/turngate/turns/x/cancel"),
        await stage.ask("released", path="/turngate/turns/x/calls/y/claim"),
    ]
    assert all(answer.status >= 400 for answer in refused)
    stage.tell("errors", *(answer.body for answer in refused))


async def until(operator: Operator, condition: Callable[[Any], bool]) -> None:
    """Wait for something that the gate's status says."""
    while True:
        if condition(await operator.get("/status")):
            return
        await asyncio.sleep(0.005)


async def operate(stage: Stage) -> None:
    """All that operators do: stops while a turn is held, a refusal, tests of a value, and whoever has no token."""
    ann = stage.operator()
    held = asyncio.ensure_future(stage.ask("held"))
    await until(ann, lambda status: status["holding"] == 1)
    stage.tell("API", json.dumps(await ann.get("/turns?live=true")))
    latch = await ann.latch("disable_tool", tool="send_mail")
    stage.tell("errors", (await held).body, (await stage.ask("released")).body)
    await ann.lift(latch)
    stop = await ann.latch("stop_all")
    stage.tell("errors", (await stage.ask("released")).body)
    await ann.lift(stop)
    cancelled = asyncio.ensure_future(stage.ask("held"))
    await until(ann, lambda status: status["holding"] == 1)
    (turn,) = (await ann.get("/turns?live=true"))["turns"]
    told = await stage.ask("held", path=f"/turngate/turns/{turn['turn_id']}/cancel")
    assert told.status == 200
    stage.tell("answers", told.body, (await cancelled).body)
    asked = asyncio.ensure_future(stage.ask("confirmed"))
    await until(ann, lambda status: status["holding"] == 1)
    (turn,) = (await ann.get("/turns?live=true"))["turns"]
    await ann.ask("POST", f"/turns/{turn['turn_id']}/deny", {"reason": "drill"})
    stage.tell("errors", (await asked).body)
    call = (await ann.get("/calls?tool=send_mail"))["calls"][0]
    value = {"turn_id": call["turn_id"], "slot": call["slot"], "value": CANARIES["tested value"]}
    stage.tell("API", json.dumps((await ann.ask("POST", "/ledger/test-value", value)).body))
    for token in (CANARIES["wrong token"], f"tgo_x_{CANARIES['wrong token']}"):
        stage.tell("errors", json.dumps((await stage.operator(token).ask("GET", "/turns")).body))


async def look(stage: Stage) -> None:
    """Ask for everything that can be seen."""
    ann = stage.operator()
    turns = (await ann.get("/turns?limit=200"))["turns"]
    latches = (await ann.get("/latches?limit=200"))["latches"]
    for operation in OPERATIONS:
        for turn, latch in zip(turns, latches * len(turns), strict=False):
            if operation.method == "GET":
                path = operation.path.format(turn_id=turn["turn_id"], latch_id=latch["id"])
                told = await ann.ask("GET", path)
                assert told.status == 200, path
                stage.tell("metrics" if path == "/metrics" else "API", json.dumps(told.body))
            if path == operation.path:
                break
    browser = Browser(ann.address)
    stage.tell("console", (await browser.log_in(CANARIES["wrong token"])).html)
    assert (await browser.log_in(stage.token())).status == 303
    paths = ["", "approvals", "latches", "figures", "audit", "status", "live/turns", "live/figures"]
    paths += [f"turns/{turn['turn_id']}" for turn in turns] + [f"latches/{latch['id']}" for latch in latches]
    for path in paths:
        seen = await browser.get(BASE + path)
        assert seen.status == 200, path
        stage.tell("console", seen.html)


def kept(folder: Path) -> dict[str, bytes]:
    """Every file but those that are there to hold a secret, and the log, which is still being written."""
    found: dict[str, bytes] = {}
    for each in folder.rglob("*"):
        if each.name not in {"gate.toml", "credential", "log", "ledger.db.operator-token"}:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # drafts come and go
                found[str(each)] = each.read_bytes()
    return found


def read(stage: Stage) -> None:
    """Everything that is kept, byte for byte, and what the commands show of it."""
    files = kept(stage.folder)
    stage.tell("files", *files.values())
    stage.tell("write-ahead log", *(content for name, content in files.items() if name.endswith("-wal")))
    stage.tell("export", stage.command("ledger", "export"))
    turns = [json.loads(line) for line in stage.command("ledger", "list", "--json").splitlines()]
    blocked = [turn for turn in turns if turn["outcome"] == "blocked"]
    stage.tell(
        "commands",
        stage.command("ledger", "list"),
        stage.command("ledger", "verify"),
        stage.command("ledger", "checkpoint"),
        *(stage.command("ledger", "show", turn["turn_id"]) for turn in blocked[:8]),
        *(stage.command(*names) for names in (["turns"], ["status"], ["latch", "list", "--all"])),
        *(stage.command(*names) for names in (["token", "list"], ["key", "list"])),
        stage.command("config", "check", str(stage.file)),
    )


def misconfigure(stage: Stage) -> None:
    """Settings with secrets in the wrong places."""
    secret = CANARIES["misplaced setting"]
    file = stage.folder / "wrong.toml"
    for line in (
        f'[server]\npassword = "{secret}"',
        f'[upstreams.provider]\nbase_url = "https://me:{secret}@example.com"',
        f'[upstreams.provider]\nproxy = "socks9://me:{secret}@example.com"',
        f'[upstreams.provider]\napi_key = "{secret}"',
        f'[policy]\nauthorizer_url = "ftp://me:{secret}@example.com"',
        f'[traces]\nendpoint = "ftp://me:{secret}@example.com"',
        f'[ledger]\nurl = "mysql://me:{secret}@example.com/x"',
        f'[server]\npassword = "{secret}',
    ):
        file.write_text(line)
        output = stage.command("config", "check", str(file))
        assert "wrong.toml" in output, output
        stage.tell("complaints", output)
    stage.tell("complaints", stage.command("config", "check", TURNGATE_UPSTREAMS_PROVIDER_KEY=secret))
    file.unlink()


def test_nothing_that_was_said_is_anywhere(tmp_path: Path) -> None:
    stages: list[Stage] = []
    secrets = dict(CANARIES)

    async def main() -> None:
        async with staged(tmp_path) as stage:
            stages.append(stage)
            await use(stage)
            await operate(stage)
            await look(stage)
            CANARIES["operator's token"] = stage.token().rpartition("_")[2].lower()
            CANARIES["gate key"] = stage.key.rpartition("_")[2].lower()
            await asyncio.to_thread(read, stage)
            await asyncio.to_thread(misconfigure, stage)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    (stage,) = stages
    for place in ("log", "files", "write-ahead log", "traces", "API", "console", "export", "commands"):
        told = b"".join(stage.told[place])
        assert b"invalid" in told, place
        assert b"schema_type" in told, place
    assert b"turngate_turns_total" in b"".join(stage.told["metrics"])
    assert b"tool_disabled" in b"".join(stage.told["errors"])
    assert b"tool_calls" in b"".join(stage.told["captures"])
    found = {
        (name, place)
        for place, contents in stage.told.items()
        for name, canary in secrets.items()
        if place not in ALLOWED.get(name, ()) and any(found_in(each, canary) for each in contents)
    }
    assert found == set()
    assert found_in(b"".join(stage.told["traces"]), CANARIES["conversation"])


CANARY = CANARIES["argument"].encode()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(CANARY, id="whole"),
        pytest.param(CANARY[:12], id="its beginning"),
        pytest.param(CANARY[-11:] + b'"}}]', id="its end, in a fragment"),
        pytest.param(CANARY.upper(), id="in capitals"),
        pytest.param(CANARY.hex().encode(), id="in hex"),
        *(pytest.param(base64.b64encode(b"x" * at + CANARY + b"y"), id=f"in base64 at {at}") for at in range(3)),
        pytest.param(quote_from_bytes(b"{" + CANARY + b"}").encode(), id="in a URL"),
        pytest.param(json.dumps({"to": CANARY.decode()}).encode(), id="in JSON"),
    ],
)  # fmt: skip
def test_the_search_finds_a_word_however_it_travels(content: bytes) -> None:
    assert found_in(b"something " + content + b" else", CANARIES["argument"])
    assert not found_in(b"something " + content + b" else", CANARIES["prompt"])
