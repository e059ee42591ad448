"""Reading a ledger: synchronous, read-only, beside a running gate.

Used by the command line and the console. A reader never checkpoints the WAL, so it cannot disturb the writer.
"""

from __future__ import annotations

import dataclasses
import hmac
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import apsw

from turngate.core.verdict import Outcome, Reason
from turngate.errors import LedgerCorruptError, LedgerError
from turngate.ledger.chain import GENESIS, Checkpoint, Link
from turngate.ledger.digest import CallKey, keyed_digest, load_key
from turngate.ledger.entry import Delivery, TurnEntry, turn_from
from turngate.ledger.location import key_path
from turngate.ledger.sqlite_database import STATEMENTS, as_ledger_error
from turngate.ledger.verify import VerifyReport, verify_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns to list; what is None does not narrow."""

    tenant: str | None = None
    upstream: str | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    response_id: str | None = None
    tool: str | None = None


class LedgerReader:
    """A SQLite ledger opened for reading; a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        if not self._path.is_file():
            raise LedgerError(f"there is no ledger at {self._path}")
        with self._errors():
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            self._connection = apsw.Connection(f"{self._path.as_uri()}?mode=ro", flags=flags)
            self._connection.set_busy_timeout(2_000)
            self._connection.execute(STATEMENTS["read_head"]).fetchone()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def list_turns(
        self, matching: TurnFilter = TurnFilter(), *, limit: int = 50, before: str | None = None
    ) -> list[TurnEntry]:
        """List turns, newest first; for the next page pass the last turn id as `before`."""
        narrowed = {name: value and str(value) for name, value in dataclasses.asdict(matching).items()}
        with self._errors():
            rows = self._connection.execute(
                STATEMENTS["list_turns"], {**narrowed, "limit": limit, "before": before}
            )
            return [_turn(payload, delivery) for payload, delivery in rows]

    def get_turn(self, turn_id: str) -> TurnEntry | None:
        """Read one turn as last recorded; `outcome` is None while it is held."""
        with self._errors():
            row = self._connection.execute(STATEMENTS["get_turn"], {"turn_id": turn_id}).fetchone()
        return row and _turn(*row)

    def matches(self, turn_id: str, choice: int, slot: str, value: bytes) -> bool:
        """Tell whether a call's argument text was exactly `value`; needs the key beside the ledger."""
        turn = self.get_turn(turn_id)
        call = next((c for c in turn.calls if (c.choice, c.slot) == (choice, slot)), None) if turn else None
        if call is None or call.argument_hmac is None:
            raise LedgerError(f"the ledger has no argument digest of call {choice}/{slot} in turn {turn_id}")
        with self._errors():
            key = load_key(key_path(self._path))
        return hmac.compare_digest(
            call.argument_hmac, keyed_digest(key, CallKey(turn_id, choice, slot), value)
        )

    def checkpoint(self) -> Checkpoint:
        """Read the chain's size and head, to be kept elsewhere."""
        with self._errors():
            row = self._connection.execute(STATEMENTS["read_head"]).fetchone()
        return Checkpoint(row[0], row[4].hex()) if row else Checkpoint(0, GENESIS.hex())

    def verify(self, checkpoint: Checkpoint | None = None) -> VerifyReport:
        """Recompute the chain and rebuild the views from it; compare with `checkpoint` if given."""
        return verify_ledger(self._path, checkpoint)

    def export_ndjson(self) -> Iterator[bytes]:
        """Yield every entry as one JSON line; `payload` is verbatim, so that others can recompute the chain."""
        with self._errors():
            for row in self._connection.execute(STATEMENTS["list_entries"]):
                link = Link(*row)
                yield (
                    (
                        f'{{"seq":{link.seq},"kind":"{link.kind}","prev_hash":"{link.prev_hash.hex()}",'
                        f'"hash":"{link.hash.hex()}","payload":'
                    ).encode()
                    + link.payload
                    + b"}\n"
                )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.SQLError as error:
            raise LedgerError(f"{self._path} is no ledger of this turngate: {error}") from error
        except (apsw.Error, OSError) as error:
            raise as_ledger_error(error, self._path) from error
        except UnicodeDecodeError as error:
            raise LedgerCorruptError(
                f"{self._path}: an entry is not UTF-8; run `turngate ledger verify`"
            ) from error


def _turn(payload: bytes, delivery: str) -> TurnEntry:
    return dataclasses.replace(turn_from(payload), delivery=Delivery(delivery))
