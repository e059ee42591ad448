from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.offline.documents import SCHEMAS, chat
from turngate.core.finding import Code
from turngate.core.policy import Mode
from turngate.core.verdict import Outcome, Reason
from turngate.offline.fixture import check_document
from turngate.offline.reply import End
from turngate.redact.captured import LENGTH_BYTES, CapturedTurn, Result
from turngate.redact.folder import CaptureFolder
from turngate.redact.worker import redact_turn, work

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMAS["weather"]}}]


def turn(turn_id: str = "turn", **fields: Any) -> CapturedTurn:
    chunks = [b"data: %s\n\n" % json.dumps(each).encode() for each in chat('{"city":"Zebra","zebra":1}')]
    return msgspec.structs.replace(
        CapturedTurn(
            turn_id=turn_id,
            dialect="openai_chat",
            method="POST",
            path="/zebra/v1/chat/completions",
            request=json.dumps({"stream": True, "tools": TOOLS, "user": "Zebra"}).encode(),
            reply=b"".join(chunks) + b"data: [DONE]\n\n",
            framing="sse",
            end=End.COMPLETE,
            preset="strict",
            accept=[],
            harmless=["zebra"],
            forbidden_provider_tools=["zebra"],
            mode=Mode.ENFORCE,
            pinned={},
            outcome=Outcome.BLOCKED,
            reason=Reason.INVALID,
            codes=[Code.SCHEMA_ADDITIONAL_PROPERTY],
            warnings=[],
        ),
        **fields,
    )


def message(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_BYTES) + body


def sent(*turns: CapturedTurn) -> bytes:
    return b"".join(message(msgspec.msgpack.encode(each)) for each in turns)


def test_a_turn_becomes_the_fixture_of_its_verdict() -> None:
    found = check_document(json.loads(redact_turn(turn(codes=codes_of(turn())))))
    assert set(found.codes) == set(codes_of(turn()))
    assert b"ebra" not in redact_turn(turn(codes=codes_of(turn())))


def codes_of(each: CapturedTurn) -> list[Code]:
    """The codes that the gate finds in the turn."""
    document = {
        "profile": each.dialect,
        "request": json.loads(each.request),
        "chunks": [{"__raw__": each.reply.decode()}],
    }
    return list(dict.fromkeys(check_document(document).codes))


def test_each_turn_has_its_result_and_a_bad_one_stops_nobody(tmp_path: Path) -> None:
    good = turn("good", codes=codes_of(turn()))
    turns = [
        good,
        turn("other", codes=[Code.GATE_STOPPED]),
        turn("unknown", dialect="zebra"),
        turn("last", codes=good.codes),
    ]
    results = io.BytesIO()
    given = io.BytesIO(sent(*turns) + message(b"zebra") + sent(good)[:-1])
    work(given, results, CaptureFolder(tmp_path, max_files=9, max_bytes=10**6))
    assert results.getvalue().decode().split() == [
        Result.WRITTEN, Result.REFUSED, Result.FAILED, Result.WRITTEN, Result.FAILED, Result.FAILED,
    ]  # fmt: skip
    assert sorted(file.name for file in tmp_path.iterdir()) == ["good.json", "last.json"]


def test_the_process_takes_turns_from_its_input_and_ends_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turngate.redact.worker", str(tmp_path), "1", "1000000"]
    good = turn(codes=codes_of(turn()))
    done = subprocess.run(
        command,
        input=sent(good, turn("second", codes=good.codes)),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == b"written\nfull\n"
    assert done.stderr == b""
