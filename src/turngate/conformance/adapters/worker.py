"""The process in which one adapter runs: takes asks as lines of JSON, and tells what the adapter would have run.

Run by path with the interpreter of the adapter's environment, so it imports the standard library only. An adapter's file has
`WAYS`, a function for each way of using its library, and `DIALECTS`; a function gets an `Ask`, says the text that it shows and
the calls that it would run at the very moment at which it would, and raises what its library raises.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

AT_ONCE = 16
"""Asks under way together: most of an ask is waiting."""


_clients: dict[Any, Any] = {}
_making = threading.Lock()


@dataclass(frozen=True, slots=True)
class Ask:
    """One turn to ask for."""

    number: int
    origin: str
    """Of the provider, such as `http://127.0.0.1:8585`."""
    dialect: str
    request: dict[str, Any]
    """The body to send, as the dialect has it: model, messages, tools."""
    tell: Callable[[dict[str, Any]], None]

    @property
    def tools(self) -> Any:
        """The declared tools, in the dialect's form."""
        return self.request.get("tools", [])

    @property
    def messages(self) -> Any:
        """The conversation."""
        return self.request["messages"]

    def client(self, make: Callable[[str], Any]) -> Any:
        """One client for all asks of an origin, made once: some libraries close a client that is dropped, requests and all."""
        with _making:
            key = (make, self.origin)
            if key not in _clients:
                _clients[key] = make(self.origin)
            return _clients[key]

    def say(self, text: str | None) -> None:
        """The adapter shows text."""
        if text:
            self.tell({"ask": self.number, "text": text})

    def execute(self, *, id: str | None, name: str | None, arguments: Any) -> str:  # noqa: A002 -- the wire's own name
        """The adapter would run this call now. `arguments` are parsed, or the free text of a custom tool."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        self.tell({"ask": self.number, "call": {"id": id, "name": name, "arguments": text}})
        return "done"


class Outlet:
    """Where lines go out, one at a time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def tell(self, line: dict[str, Any]) -> None:
        """Write one line."""
        with self._lock:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()


def load(place: str) -> tuple[dict[str, Callable[[Ask], Any]], Sequence[str]]:
    """The ways and dialects of an adapter's file, or of `MODULE:FUNCTION`, which has one way and takes any dialect."""
    if place.endswith(".py"):
        module = _module_at(Path(place))
        return module.WAYS, module.DIALECTS
    name, _, function = place.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    found = importlib.import_module(name)
    return {"function": getattr(found, function)}, getattr(found, "DIALECTS", ())


def _module_at(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"turngate_adapter_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A library that resolves the annotations of a tool's function looks its module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answer(ways: dict[str, Callable[[Ask], Any]], asked: dict[str, Any], outlet: Outlet) -> None:
    """Run one ask to its end, and tell how it ended."""
    ask = Ask(asked["ask"], asked["origin"], asked["dialect"], asked["request"], outlet.tell)
    error = None
    try:
        result = ways[asked["way"]](ask)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except Exception as raised:  # noqa: BLE001 -- whatever the library raises is what is to be told
        error = type(raised).__name__
    outlet.tell({"ask": ask.number, "end": True, "error": error})


def main(place: str, module: str = "", *packages: str) -> None:
    """Serve asks until standard input ends. `module` is the library, `packages` are those whose versions are told."""
    # What a library prints must not get between the lines.
    outlet = Outlet(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    try:
        ways, dialects = load(place)
        if module:
            # Now, and not in the first ask: some libraries take longer to import than an ask may last.
            importlib.import_module(module)
    except (ImportError, AttributeError) as error:
        outlet.tell({"failed": f"{type(error).__name__}: {error}"})
        return
    versions = {package: importlib.metadata.version(package) for package in packages}
    versions["Python"] = platform.python_version()
    outlet.tell({"ways": list(ways), "dialects": list(dialects), "versions": versions})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for line in sys.stdin:
            pool.submit(answer, ways, json.loads(line), outlet)


if __name__ == "__main__":
    main(*sys.argv[1:])
