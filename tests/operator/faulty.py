"""A gate whose clock and disk can be put out of order while it runs: `turngate serve`, told so by lines on a socket.

    python -m tests.operator.faulty SOCKET MUTATION... -- serve --config FILE

`clock SECONDS` sets the wall clock so far from the true one; `disk readonly`, `disk slow` and `disk sound` say how the ledger's
next transactions go. Each line comes back once it holds. A mutation takes one of the gate's guarantees away, for negative controls.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.operator.test_history import blind, find_no_stop
from turngate.cli.main import main
from turngate.ledger.database import Database
from turngate.ledger.sqlite_database import SQLiteDatabase

SLOW_S = 0.03


class Faults:
    """What is wrong at this moment."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.disk = "sound"

    def install(self) -> None:
        true_time, true_time_ns, begin = time.time, time.time_ns, SQLiteDatabase.begin
        patch = pytest.MonkeyPatch()

        def out_of_order(database: SQLiteDatabase, *args: Any, **named: Any) -> None:
            database.connection.pragma("query_only", self.disk == "readonly")
            if self.disk == "slow":
                time.sleep(SLOW_S)
            begin(database, *args, **named)

        patch.setattr(time, "time", lambda: true_time() + self.ahead_s)
        patch.setattr(time, "time_ns", lambda: true_time_ns() + int(self.ahead_s * 1e9))
        patch.setattr(SQLiteDatabase, "begin", out_of_order)

    def obey(self, descriptor: int) -> None:
        with socket.socket(fileno=descriptor) as told, told.makefile("rw") as lines:
            for line in lines:
                what, value = line.split()
                if what == "clock":
                    self.ahead_s = float(value)
                else:
                    self.disk = value
                lines.write(line)
                lines.flush()


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """A restart loads no latch, and the transaction does not look for any."""
    patch.setattr(Database, "standing_latches", lambda _: [])
    find_no_stop(patch)


MUTATIONS = {"blind": blind, "forgetful": forgetful}


if __name__ == "__main__":
    descriptor, *rest = sys.argv[1:]
    cut = rest.index("--")
    for mutation in rest[:cut]:
        MUTATIONS[mutation](pytest.MonkeyPatch())
    faults = Faults()
    faults.install()
    threading.Thread(target=faults.obey, args=(int(descriptor),), daemon=True).start()
    main(rest[cut + 1 :], prog_name=Path(__file__).name)
