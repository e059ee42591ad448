from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.offline.documents import SCHEMAS, chat, document
from turngate.cli.validate import validate

GOOD = document("openai", chunks=chat('{"city":"Paris"}'))
CUT = document("openai", chunks=chat('{"city":"Par'))
TEXT = document("openai", chunks=[])


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(validate, [str(each) for each in arguments], input=given)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in (("good", GOOD), ("cut", CUT), ("text", TEXT)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


@pytest.mark.parametrize(("name", "code"), [("good", 0), ("cut", 1), ("text", 2)])
def test_the_exit_code_is_the_verdict(folder: Path, name: str, code: int) -> None:
    result = run(folder / f"{name}.json", "--report", "json")
    assert result.exit_code == code
    report = json.loads(result.stdout)
    assert report["executable"] is (code == 0)
    assert list(report) == ["status", "applicable", "executable", "calls", "findings"]


def test_a_folder_gives_one_report_a_line(folder: Path) -> None:
    (folder / "broken.json").write_text("{")
    result = run(folder, "--report", "ndjson")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(Path(line["file"]).name, line["status"]) for line in lines] == [
        ("broken.json", "invalid"),
        ("cut.json", "fail"),
        ("good.json", "pass"),
        ("text.json", "not_applicable"),
    ]
    assert "broken.json:1:2: " in lines[0]["error"]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ('{"profile": "openai_chat",\n "chunks": [{},\n  {"__raw__": 1}]}', "3:3", "invalid_document"),
        ('{"profile": "openai_chat",\n "chunk": []}', "2:2", "invalid_document"),
        ('{"profile": "openai",\n "chunks": [{"choices": []},\n  7]}', "3:3", "invalid_chunk"),
        ('{"profile": "anthropic",\n "events": {}}', "2:2", "invalid_events"),
        ('{"profile": "opnai"}', "1:2", "unknown_profile"),
        ("[]", "1:1", "invalid_document"),
    ],
)
def test_a_document_that_is_wrong_is_told_with_file_line_and_column(
    tmp_path: Path, text: str, place: str, code: str
) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    result = run(path)
    assert result.exit_code == 2
    assert f"wrong.json:{place}: error {code}  " in result.output
    (finding,) = json.loads(run(path, "--report", "json").stdout)["findings"]
    assert f"{finding['line']}:{finding['column']}" == place


def test_a_repeated_key_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"profile": "openai",\n "chunks": [], "profile": "mistral"}')
    result = run(path)
    assert result.exit_code == 2
    assert "twice.json:2:16: an object has the same key twice" in result.stderr


@pytest.mark.parametrize(
    ("text", "told"), [('{"tools": [}', "request.json:1:12: "), ("[]", "request.json:1:1: ")]
)
def test_a_request_that_cannot_be_read_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    reply, request = tmp_path / "reply.bin", tmp_path / "request.json"
    reply.touch()
    request.write_text(text)
    result = run(reply, "--dialect", "openai_chat", "--request", request)
    assert result.exit_code == 2
    assert told in result.stderr.replace("\n", "").replace("│", "")


def test_a_summary_closes_the_human_report_of_a_folder(folder: Path) -> None:
    result = run(folder)
    assert result.stdout.splitlines()[-1] == "3 files: 1 pass, 1 fail, 1 not_applicable, 0 invalid"


def test_an_empty_folder_proves_nothing(tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 2


def test_control_characters_from_the_wire_are_spelled_out(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document("openai", chunks=chat("{}", id="\x1b[2J\u202e"))))
    result = run(path)
    assert "\x1b" not in result.output
    assert "\\x1b[2J\\u202e" in result.output


def test_arguments_are_not_shown_to_a_person(folder: Path) -> None:
    assert "Paris" not in run(folder / "good.json").output


def test_standard_input_is_a_fixture(folder: Path) -> None:
    result = run("-", "--report", "json", given=json.dumps(GOOD))
    assert json.loads(result.stdout)["status"] == "pass"
    assert folder.exists()


def test_several_files_are_no_single_json_report(folder: Path) -> None:
    result = run(folder, "--report", "json")
    assert result.exit_code == 2
    assert "ndjson" in result.output


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMAS["weather"]}}]
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"model": "m", "stream": True, "tools": tools}))
    return path


def raw(path: Path, text: str, *, done: bool = True) -> Path:
    blocks = [f"data: {json.dumps(chunk)}\n\n" for chunk in chat(text)]
    path.write_text("".join([*blocks, "data: [DONE]\n\n" if done else ""]))
    return path


def test_a_raw_stream_is_judged_by_its_request(request_file: Path, tmp_path: Path) -> None:
    raw_options = ("--dialect", "openai_chat", "--request", request_file, "--report", "json")
    sound = run(raw(tmp_path / "a.bin", '{"city":"Paris"}'), *raw_options)
    assert (sound.exit_code, json.loads(sound.stdout)["status"]) == (0, "pass")
    wrong = run(raw(tmp_path / "b.bin", '{"town":"Paris"}'), *raw_options)
    assert wrong.exit_code == 1
    assert {finding["code"] for finding in json.loads(wrong.stdout)["findings"]} >= {"schema_required"}


def test_a_preset_tolerates_the_quirks_of_its_server(request_file: Path, tmp_path: Path) -> None:
    options = ("--dialect", "openai_chat", "--request", request_file)
    endless = raw(tmp_path / "a.bin", '{"city":"Paris"}', done=False)
    assert run(endless, *options, "--preset", "perplexity").exit_code == 0


def test_a_raw_body_is_recognised(request_file: Path, tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city":"a"}'}}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "tool_calls": [call]},
        "finish_reason": "tool_calls",
    }
    body = tmp_path / "body.bin"
    body.write_text(json.dumps({"id": "r", "choices": [choice]}))
    options = ("--dialect", "openai_chat", "--request", request_file)
    assert run(body, *options).exit_code == 0
    assert run(body, *options, "--framing", "sse").exit_code != 0


def test_a_raw_reply_needs_its_request(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.touch()
    assert "both" in run(path, "--dialect", "openai_chat").output
