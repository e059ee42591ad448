"""The process that redacts what the proxy captures: `python -m turngate.redact.worker FOLDER MAX_FILES MAX_BYTES`.

A process of its own, and a nice one, because redaction computes for as long as a hundred turns take to pass: in the proxy's
own it would be felt. Turns come on standard input, each behind its length in four bytes; for each, one line with its `Result` goes out.
What a turn holds is in memory only until it is redacted. No error is told in words: they might quote it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from turngate.judging import find_dialect
from turngate.offline.envelope import Upstream
from turngate.redact import RedactionError
from turngate.redact.capture import Capture, Told, redact_capture
from turngate.redact.captured import LENGTH_BYTES, CapturedTurn, Result
from turngate.redact.folder import CaptureFolder

NICENESS = 10


def redact_turn(turn: CapturedTurn) -> bytes:
    """The fixture of a captured turn, as a file has it; raises `RedactionError`."""
    dialect = find_dialect(turn.dialect)
    upstream = Upstream(
        turn.preset, tuple(turn.accept), tuple(turn.harmless), tuple(turn.forbidden_provider_tools), turn.mode
    )
    capture = Capture(
        dialect,
        dialect.toolset(turn.request),
        turn.request,
        (turn.reply,),
        next(framing for framing in dialect.framings if framing.name == turn.framing),
        end=turn.end,
        upstream=upstream,
        method=turn.method,
        path=turn.path,
        pinned=turn.pinned,
    )
    told = Told(turn.outcome, turn.reason, frozenset(turn.codes), frozenset(turn.warnings))
    return json.dumps(redact_capture(capture, told=told), indent=2).encode() + b"\n"


def take(message: bytes, folder: CaptureFolder) -> Result:
    """Redact and keep one turn."""
    try:
        turn = msgspec.msgpack.decode(message, type=CapturedTurn)
        return folder.write(turn.turn_id, redact_turn(turn))
    except RedactionError:
        return Result.REFUSED
    except Exception:  # noqa: BLE001 -- whatever one turn brings up, the next one is taken
        return Result.FAILED


def work(turns: BinaryIO, results: BinaryIO, folder: CaptureFolder) -> None:
    """Take turns until there are no more."""
    while len(head := turns.read(LENGTH_BYTES)) == LENGTH_BYTES:
        message = turns.read(int.from_bytes(head))
        results.write(f"{take(message, folder)}\n".encode())
        results.flush()


def main(arguments: list[str]) -> None:
    """Run as a process."""
    # The proxy ends this process by closing its input, also when a terminal interrupts both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    folder, max_files, max_bytes = arguments
    work(
        sys.stdin.buffer,
        sys.stdout.buffer,
        CaptureFolder(Path(folder), max_files=int(max_files), max_bytes=int(max_bytes)),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
