"""Pinned schemas: files in, schemas by tool out, and no bad file overlooked."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.config.pinned import Pinned


def pinned(folder: Path, **files: str) -> Pinned:
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return Pinned(folder)


def test_a_file_is_the_schema_of_the_tool_it_is_named_after(tmp_path: Path) -> None:
    found = pinned(tmp_path, search='{"type": "object"}', anything="true")
    assert found.schemas == {"search": {"type": "object"}, "anything": True}
    assert found.errors == []


def test_a_file_may_name_its_tool(tmp_path: Path) -> None:
    found = pinned(tmp_path, one='{"name": "mcp/files:read", "schema": {"type": "object"}}')
    assert found.schemas == {"mcp/files:read": {"type": "object"}}


def test_other_files_are_no_schemas(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("about", encoding="utf-8")
    assert pinned(tmp_path).schemas == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no strict JSON: "),
        ('{"type": "object", "type": "array"}', "is no strict JSON: "),
        ("[]", "must hold a JSON schema"),
        ('"object"', "must hold a JSON schema"),
        ('{"name": 1, "schema": {}}', "must hold a JSON schema"),
        ('{"name": "a", "schema": []}', "must hold a JSON schema"),
    ],
)
def test_a_file_that_is_no_schema_is_named(tmp_path: Path, text: str, message: str) -> None:
    found = pinned(tmp_path, bad=text, good="{}")
    assert found.schemas == {"good": {}}
    ((file, said),) = found.errors
    assert file == tmp_path / "bad.json"
    assert said.startswith(message)


def test_two_schemas_for_one_tool_are_one_too_many(tmp_path: Path) -> None:
    found = pinned(tmp_path, search="{}", zoo='{"name": "search", "schema": true}')
    assert found.errors == [(tmp_path / "zoo.json", "a second schema for tool 'search'")]


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tool.json").mkdir()
    assert pinned(tmp_path).errors == [(tmp_path / "tool.json", "cannot be read (Is a directory)")]
