"""The folder that redacted captures go to: bounded, for its owner only, one whole file or none."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from turngate.redact.captured import Result


class CaptureFolder:
    """Writes captures until the folder is full. Nothing is ever deleted: the first ones show how it began."""

    def __init__(self, folder: Path, *, max_files: int, max_bytes: int) -> None:
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes

    def write(self, name: str, content: bytes) -> Result:
        """Write one file, if there is room; the folder is looked at anew, because people take files out of it."""
        target, part = self._folder / f"{name}.json", self._folder / f".{name}.part"
        try:
            sizes = [
                entry.stat().st_size for entry in os.scandir(self._folder) if entry.name.endswith(".json")
            ]
            if len(sizes) >= self._max_files or sum(sizes) + len(content) > self._max_bytes:
                return Result.FULL
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            part.rename(target)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
            return Result.FAILED
        return Result.WRITTEN
