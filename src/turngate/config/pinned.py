"""Pinned tool schemas: the operator's own, which win over what a request declares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turngate.core.json_text import JsonFault, read_json


class Pinned:
    """The schemas of a folder, by tool, and everything wrong with them.

    `TOOL.json` is the schema of TOOL, or `{"name": TOOL, "schema": ...}` where a name makes no file name.
    """

    def __init__(self, folder: Path) -> None:
        self.schemas: dict[str, Any] = {}
        self.errors: list[tuple[Path, str]] = list(self._read(folder))

    def _read(self, folder: Path) -> Iterator[tuple[Path, str]]:
        for file in sorted(folder.glob("*.json")):
            try:
                document = read_json(file.read_bytes())
            except OSError as error:
                yield file, f"cannot be read ({error.strerror})"
                continue
            if isinstance(document, JsonFault):
                yield file, f"is no strict JSON: {document.message}"
                continue
            name: Any = file.stem
            schema: Any = document
            if isinstance(document, dict) and set(document) == {"name", "schema"}:
                name, schema = document["name"], document["schema"]
            if not isinstance(name, str) or not isinstance(schema, dict | bool):
                yield file, 'must hold a JSON schema, or {"name": TOOL, "schema": SCHEMA}'
            elif name in self.schemas:
                yield file, f"a second schema for tool {name!r}"
            else:
                self.schemas[name] = schema
