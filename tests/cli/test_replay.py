from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from turngate.cli.replay import replay

DELTAS = [
    {
        "index": 7,
        "id": "call_weather",
        "name": "weather",
        "argumentsDelta": '{"city"',
        "source": "openai-chat",
    },
    {"index": 7, "arguments_delta": ':"Paris"}'},
]
LINES = "\n".join(json.dumps(delta) for delta in DELTAS) + "\n"


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(replay, [str(each) for each in arguments], input=given)


@pytest.mark.parametrize("text", [json.dumps(DELTAS), LINES, LINES.replace("\n", "\r\n\n")])
def test_an_array_and_lines_are_one(text: str) -> None:
    result = run("-", "--json", given=text)
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["executable"], told["calls"][0]["status"]) == (True, "complete")
    assert told["calls"][0]["value"] == {"city": "Paris"}


def test_any_other_reason_leaves_the_call_incomplete_with_its_payload() -> None:
    result = run("-", "--json", "--reason", "error", given=LINES)
    assert result.exit_code == 1
    (call,) = json.loads(result.stdout)["calls"]
    assert (call["status"], call["arguments"], call["value"]) == ("incomplete", '{"city":"Paris"}', None)


def test_a_person_sees_sizes_and_no_arguments(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    path.write_text(LINES)
    result = run(path)
    assert "calls[0]  complete  weather  call_weather  16 bytes of arguments" in result.output
    assert "Paris" not in result.output


def test_control_characters_are_spelled_out() -> None:
    result = run("-", given=json.dumps([{"index": 0, "name": "\x1b[2J", "argumentsDelta": "{}"}]))
    assert "\x1b" not in result.output
    assert "\\x1b[2J" in result.output


def test_a_broken_line_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    path.write_text(LINES + '{"index": x}\n')
    result = run(path)
    assert result.exit_code == 2
    assert "deltas.ndjson:3:11: " in result.stderr


def test_a_delta_that_is_no_object_is_a_diagnostic() -> None:
    result = run("-", given="[1, null]")
    assert result.exit_code == 1
    assert "invalid_tool_call" in result.output


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('[{"index": 0},\n {"index": "0"}, 7]', ["2:2", "2:18"]),
        ('{"index": 0}\n\n  {"index": "0"}\n7', ["3:3", "4:1"]),
    ],
)
def test_a_wrong_type_is_told_with_the_place_of_its_delta(
    tmp_path: Path, text: str, places: list[str]
) -> None:
    path = tmp_path / "deltas"
    path.write_text(text)
    told = json.loads(run(path, "--json").stdout)["diagnostics"]
    found = [f"{each['line']}:{each['column']}" for each in told if "line" in each]
    assert list(dict.fromkeys(found)) == places
    assert [each["code"] for each in told[:2]] == ["invalid_slot", "invalid_slot"]
    assert f"deltas:{places[0]}: error invalid_slot  " in run(path).output


@pytest.mark.parametrize("text", ['[{"index": 0,\n "index": 1}]', '\n{"index": 0, "index": 1}'])
def test_a_repeated_key_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deltas"
    path.write_text(text)
    result = run(path)
    assert result.exit_code == 2
    assert f"deltas:2:{2 if text.startswith('[') else 14}: an object has the same key twice" in result.stderr


def test_nothing_to_replay_is_no_success() -> None:
    assert run("-", given="").exit_code == 2
