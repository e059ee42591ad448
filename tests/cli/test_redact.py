from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.offline.documents import chat, document, message
from turngate.cli.main import main
from turngate.offline.fixture import check_document

GOOD = document("openai_chat", chunks=[*chat('{"city":"Zebra"}', id="zebra"), "[DONE]"])
CUT = document("anthropic_messages", events=message('{"city":"Zeb'))
PUBLISHED = document("openai", chunks=chat('{"city":"Zebra","zebra":1}'))
REQUEST = {
    "stream": True,
    "tools": [
        {"type": "function", "function": {"name": "weather", "parameters": {"const": {"city": "Zebra"}}}}
    ],
}
REPLY = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in chat('{"city":"Zebra"}'))


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["redact", *map(str, arguments)], input=given)


@pytest.mark.parametrize(
    ("original", "status"), [(GOOD, "pass"), (CUT, "fail"), (PUBLISHED, "fail")], ids=["good", "cut", "published"]
)  # fmt: skip
def test_a_fixture_becomes_one_that_says_nothing(tmp_path: Path, original: object, status: str) -> None:
    file = tmp_path / "capture.json"
    file.write_text(json.dumps(original))
    result = run(file)
    assert result.exit_code == 0
    assert "ebra" not in result.stdout
    before, after = check_document(original), check_document(json.loads(result.stdout))
    assert after.status == before.status == status
    assert set(after.codes) == set(before.codes)


def test_standard_input_is_read() -> None:
    assert json.loads(run("-", given=json.dumps(GOOD)).stdout)["expect"]["outcome"] == "released"


def test_a_raw_reply_is_read_with_its_request(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    (tmp_path / "reply.bin").write_bytes(REPLY)
    raw = ("--dialect", "openai_chat", "--request", tmp_path / "request.json", tmp_path / "reply.bin")
    whole = json.loads(run(*raw).stdout)
    assert whole["expect"]["outcome"] == "released"
    cut = json.loads(run(*raw, "--end", "broken").stdout)
    assert cut["expect"]["reason"] == "truncated_by_transport"
    assert cut["chunks"][-1] == {"__abort__": True}
    assert "ebra" not in json.dumps([whole, cut])


def test_a_preset_goes_into_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    (tmp_path / "reply.bin").write_bytes(
        REPLY.replace(b'"finish_reason": "tool_calls"', b'"finish_reason": "stop"')
    )
    raw = ("--dialect", "openai_chat", "--request", tmp_path / "request.json", tmp_path / "reply.bin")
    assert json.loads(run(*raw).stdout)["expect"]["codes"] == ["wrong_terminal_reason"]
    tolerated = json.loads(run(*raw, "--preset", "litellm").stdout)
    assert tolerated["expect"]["outcome"] == "released"
    assert check_document(tolerated).status == "pass"


def test_a_file_is_written_for_its_owner_and_never_over_another(tmp_path: Path) -> None:
    capture, output = tmp_path / "capture.json", tmp_path / "redacted.json"
    capture.write_text(json.dumps(GOOD))
    assert run(capture, "--output", output).exit_code == 0
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert json.loads(output.read_text())["profile"] == "openai_chat"
    again = run(capture, "--output", output)
    assert again.exit_code == 2
    assert "redacted.json: File exists" in again.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "capture.json:1:2"),
        (json.dumps({"profile": "openai_chat"}), "exactly one of"),
    ],
)
def test_what_cannot_be_read_is_said_and_nothing_is_written(tmp_path: Path, content: str, said: str) -> None:
    capture, output = tmp_path / "capture.json", tmp_path / "redacted.json"
    capture.write_text(content)
    result = run(capture, "--output", output)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not output.exists()


def test_a_capture_that_would_show_something_else_is_not_written(tmp_path: Path) -> None:
    # Python takes true for 1 in the runner's vocabulary; no placeholder of 1 is equal to true.
    schema = {"type": "object", "properties": {"on": {"enum": [1, 9]}}}
    capture, output = tmp_path / "capture.json", tmp_path / "redacted.json"
    capture.write_text(
        json.dumps(
            {"profile": "openai", "tool_schemas": {"weather": schema}, "chunks": chat('{"on":true,"x":0.5}')}
        )
    )
    result = run(capture, "--output", output)
    assert result.exit_code == 2
    assert "would be fail" in result.stderr
    assert not output.exists()


def test_a_raw_reply_needs_its_request(tmp_path: Path) -> None:
    (tmp_path / "reply.bin").write_bytes(REPLY)
    assert "needs both" in run("--dialect", "openai_chat", tmp_path / "reply.bin").stderr
