"""Which command line runs an adapter, and what is said where it cannot."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from turngate.conformance.adapters import ADAPTERS, Adapter
from turngate.conformance.environment import command_for, default_folder, set_up
from turngate.errors import ConfigError

ABSENT = Adapter("absent", "openai_sdk.py", {"absent": "1.0"}, "no_such_module")


def test_a_library_that_is_importable_is_run_here(tmp_path: Path) -> None:
    python, alone, worker, file, module, package = command_for("openai", tmp_path)

    assert (python, alone, module, package) == (sys.executable, "-P", "openai", "openai")
    assert Path(worker).name == "worker.py"
    assert Path(file).name == "openai_sdk.py"


def test_its_own_environment_is_preferred(tmp_path: Path) -> None:
    own = tmp_path / "openai" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)

    assert command_for("openai", tmp_path)[0] == str(own)


def test_a_function_of_ones_own_is_run_here(tmp_path: Path) -> None:
    assert command_for("my_module:run", tmp_path)[-1] == "my_module:run"


def test_what_is_missing_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADAPTERS, "absent", ABSENT)

    for name in ("absent", "vercel-ai"):
        with pytest.raises(ConfigError, match=f"turngate conformance setup {name} --dir"):
            command_for(name, tmp_path)
    with pytest.raises(ConfigError, match="no adapter 'morse'"):
        command_for("morse", tmp_path)


def test_an_adapter_in_javascript_is_run_by_node_beside_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "node", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "vercel-ai" / "node_modules").mkdir(parents=True)

    node, file = command_for("vercel-ai", tmp_path)

    assert node == str(tmp_path / "bin" / "node")
    assert Path(file).parent == tmp_path / "vercel-ai"
    assert Path(file).read_text(encoding="utf-8")


def test_npm_gets_the_pinned_packages_and_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "npm", f'echo "$@" > {tmp_path}/asked')
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + os.environ["PATH"])

    place = set_up(ADAPTERS["vercel-ai"], tmp_path)

    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert f"--prefix {place}" in asked
    assert f"ai@{ADAPTERS['vercel-ai'].packages['ai']}" in asked


def test_a_failed_installation_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "npm", "echo no such package >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + os.environ["PATH"])

    with pytest.raises(ConfigError, match="failed: no such package"):
        set_up(ADAPTERS["vercel-ai"], tmp_path)


def test_a_missing_program_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match="npm is needed"):
        set_up(ADAPTERS["vercel-ai"], tmp_path)


def test_every_adapter_has_its_file_and_its_versions() -> None:
    folder = Path(command_for("openai", default_folder())[3]).parent
    for adapter in ADAPTERS.values():
        assert (folder / adapter.file).is_file()
        assert all(version[0].isdigit() for version in adapter.packages.values())


def program(file: Path, script: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
