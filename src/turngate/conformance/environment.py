"""Environments of their own for adapters with heavy dependencies: made on request, with pinned versions, in one folder each."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import venv
from importlib import resources
from pathlib import Path

from turngate.conformance.adapters import ADAPTERS, Adapter
from turngate.errors import ConfigError

_NODE_WORKER = "worker.mjs"


def default_folder() -> Path:
    """Where environments are made unless another folder is named."""
    return Path(".turngate-conformance")


def set_up(adapter: Adapter, folder: Path) -> Path:
    """Install the adapter's packages into `FOLDER/ADAPTER`; gives that place."""
    place = folder / adapter.name
    place.mkdir(parents=True, exist_ok=True)
    if adapter.runs_on_node:
        wanted = [f"{package}@{version}" for package, version in adapter.packages.items()]
        _carry_out(
            [
                _program("npm"),
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--prefix",
                str(place),
                *wanted,
            ]
        )
    else:
        venv.create(place, with_pip=True)
        wanted = [f"{package}=={version}" for package, version in adapter.packages.items()]
        _carry_out(
            [str(_python(place)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
        )
    return place


def command_for(name: str, folder: Path) -> list[str]:
    """The command line that runs an adapter: in its own environment if there is one, else in this one."""
    worker = str(resources.files("turngate.conformance.adapters") / "worker.py")
    adapter = ADAPTERS.get(name)
    if adapter is None:
        if ":" not in name:
            raise ConfigError(
                f"there is no adapter {name!r}; there are {', '.join(ADAPTERS)}, or MODULE:FUNCTION"
            )
        return [sys.executable, "-P", worker, name]
    place = folder / name
    if adapter.runs_on_node:
        if not (place / "node_modules").is_dir():
            raise ConfigError(_missing(adapter, folder))
        # Node finds packages from where the file lies.
        for file in (adapter_file(adapter), adapter_file(adapter).with_name(_NODE_WORKER)):
            shutil.copy(file, place)
        return [_program("node"), str(place / adapter.file)]
    if _python(place).exists():
        python = str(_python(place))
    elif _is_importable(adapter.module):
        python = sys.executable
    else:
        raise ConfigError(_missing(adapter, folder))
    return [python, "-P", worker, str(adapter_file(adapter)), adapter.module, *adapter.packages]


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _missing(adapter: Adapter, folder: Path) -> str:
    return f"{adapter.name} is not installed; run: turngate conformance setup {adapter.name} --dir {folder}"


def adapter_file(adapter: Adapter) -> Path:
    """Where the adapter's code is."""
    return Path(str(resources.files("turngate.conformance.adapters") / adapter.file))


def _python(place: Path) -> Path:
    return place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ConfigError(f"{name} is needed for this adapter and is not on the PATH")
    return found


def _carry_out(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 -- our own command line
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ConfigError(f"{' '.join(command[:3])} failed: {''.join(last)}")
