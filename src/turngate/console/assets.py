"""The console's own files: a style sheet and htmx, read once, named by their digest so that a browser keeps them for as long as they last."""

from __future__ import annotations

import dataclasses
import hashlib
from importlib import resources
from typing import Final

TYPES: Final = {"console.css": "text/css; charset=utf-8", "htmx.js": "text/javascript; charset=utf-8"}


@dataclasses.dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content: bytes
    media_type: str
    version: str


def _read(name: str) -> Asset:
    content = (resources.files("turngate.console") / "static" / name).read_bytes()
    return Asset(content, TYPES[name], hashlib.sha256(content).hexdigest()[:12])


ASSETS: Final = {name: _read(name) for name in TYPES}


def address(name: str) -> str:
    """Where a page finds a file."""
    return f"/console/static/{name}?v={ASSETS[name].version}"
