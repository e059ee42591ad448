"""The shape of the source, held to what DESIGN section 2 and the layout promise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "turngate"
TESTS = ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))

STDLIB_IN_CORE = {
    "__future__",
    "base64",
    "collections",
    "dataclasses",
    "enum",
    "fnmatch",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "math",
    "re",
    "typing",
    "zlib",
}
# What each package may import, beside the standard library. Anything absent here is free.
ALLOWED = {
    "core": {*STDLIB_IN_CORE, "msgspec", "turngate.core", "turngate.errors"},
    "rules": {
        *STDLIB_IN_CORE,
        "msgspec",
        "turngate.core",
        "turngate.errors",
        "turngate.rules",
        "turngate.schema",
    },
    "dialects": {
        *STDLIB_IN_CORE,
        "importlib",
        "urllib",
        "msgspec",
        "turngate.core",
        "turngate.dialects",
        "turngate.errors",
    },
}
IN_AN_ADAPTERS_PROCESS = "conformance/adapters/"
"""Files that run where the adapter's library is installed and turngate is not."""
SDKS = {"openai", "anthropic", "mistralai", "google", "litellm", "ollama", "cohere", "boto3", "botocore"}

UNTESTED = {
    "core/frame.py",  # a record and a protocol; test_sse.py and test_body.py read every fault
    "dialects/anthropic_json.py",
    "dialects/anthropic_request.py",
}
"""Modules without a test file of their own. May only shrink: an entry that has its test, or no module, fails."""


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively"
            assert node.module is not None
            yield node.module


def is_within(module: str, allowed: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def has_logic(path: Path) -> bool:
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree(path)))


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_its_layer_may(package: str) -> None:
    found = {
        f"{name_of(path)} imports {module}"
        for path in (SOURCE / package).rglob("*.py")
        for module in imports(path)
        if not is_within(module, ALLOWED[package])
    }
    assert found == set()


def test_nothing_imports_a_providers_sdk() -> None:
    assert [
        name_of(path)
        for path in MODULES
        if not name_of(path).startswith(IN_AN_ADAPTERS_PROCESS)
        and any(is_within(module, SDKS) for module in imports(path))
    ] == []


def test_an_adapter_imports_nothing_of_turngate_when_it_runs() -> None:
    def at_run_time(path: Path) -> Iterator[str]:
        hidden = [
            node
            for block in ast.walk(tree(path))
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for node in ast.walk(block)
        ]
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node not in hidden:
                yield node.module or ""

    adapters = [path for path in MODULES if name_of(path).startswith(IN_AN_ADAPTERS_PROCESS)]
    assert len(adapters) > 3
    assert [
        name_of(path)
        for path in adapters
        if path.name != "__init__.py" and any(is_within(module, {"turngate"}) for module in at_run_time(path))
    ] == []


def test_the_conformance_kit_knows_nothing_of_the_proxy_that_it_judges() -> None:
    kit = [path for path in MODULES if name_of(path).startswith("conformance/")]
    assert kit
    assert [
        name_of(path)
        for path in kit
        if any(is_within(module, {"turngate.proxy", "turngate.transport"}) for module in imports(path))
    ] == []


def test_the_core_never_waits() -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    core = [path for path in MODULES if name_of(path).split("/")[0] in ALLOWED]
    assert [
        name_of(path) for path in core if any(isinstance(node, waiting) for node in ast.walk(tree(path)))
    ] == []


def test_a_module_stays_short_enough_to_be_read_at_once() -> None:
    assert [name_of(path) for path in MODULES if len(path.read_text().splitlines()) > 600] == []


def test_every_module_says_what_it_is() -> None:
    assert [name_of(path) for path in MODULES if not ast.get_docstring(tree(path))] == []


def test_no_module_keeps_state_through_a_global_statement() -> None:
    assert [
        name_of(path)
        for path in MODULES
        if any(isinstance(node, ast.Global) for node in ast.walk(tree(path)))
    ] == []


def test_only_the_strict_reader_decodes_json_with_the_standard_library() -> None:
    def loads(path: Path) -> bool:
        return any(
            isinstance(node, ast.Attribute)
            and node.attr in ("loads", "load", "JSONDecoder")
            and isinstance(node.value, ast.Name)
            and node.value.id == "json"
            for node in ast.walk(tree(path))
        )

    ours = [path for path in MODULES if not name_of(path).startswith(IN_AN_ADAPTERS_PROCESS)]
    assert [name_of(path) for path in ours if loads(path)] == ["core/json_text.py"]


def test_every_module_with_logic_has_a_test_file_of_its_own() -> None:
    def tested(path: Path) -> bool:
        return (TESTS / path.relative_to(SOURCE)).with_name(f"test_{path.name}").exists()

    with_logic = {name_of(path) for path in MODULES if has_logic(path) and path.name != "__init__.py"}
    untested = {name for name in with_logic if not tested(SOURCE / name)}
    stale = {name for name in UNTESTED if name not in with_logic or tested(SOURCE / name)}
    assert stale == set()
    assert untested - UNTESTED == set()
