"""`python -m tests.corpus.table`: the recorded corpus through the real proxy, as a table by provider and reason."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

from turngate.ledger.reader import LedgerReader

from .recordings import Recording, recordings
from .replay import stage

SPLITS = ("whole", "reads", "bytes")


def pieces_of(recording: Recording, split: str) -> list[bytes]:
    """The body whole, in its recorded reads, or one byte at a time."""
    if split == "whole":
        return [recording.body]
    if split == "reads":
        return recording.pieces
    return [recording.body[at : at + 1] for at in range(len(recording.body))]


async def replay(folder: Path, split: str) -> dict[str, tuple[str, bytes]]:
    """Every recording's turn id and what the client got."""
    answers = {}
    async with stage(folder) as scene:
        for recording in recordings():
            _, turn, body = await scene.ask(recording, pieces_of(recording, split), preset=recording.provider)
            answers[recording.slug] = (turn, body)
    return answers


def main() -> int:
    """Print the table; 1 if what a client gets depends on how it was read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    splits = parser.parse_args().splits
    rows: Counter[tuple[str, str, str]] = Counter()
    got: dict[str, dict[str, tuple[str, bytes]]] = {}
    for split in splits:
        with tempfile.TemporaryDirectory() as folder:
            answers = asyncio.run(replay(Path(folder), split))
            with LedgerReader(Path(folder) / "ledger.db") as ledger:
                for recording in recordings():
                    turn, body = answers[recording.slug]
                    row = ledger.get_turn(turn)
                    verdict = ("", "") if row is None else (str(row.outcome), str(row.reason))
                    if split == splits[0]:
                        rows[recording.provider, *verdict] += 1
                    got.setdefault(recording.slug, {})[split] = (verdict[0], body.replace(turn.encode(), b""))
    print(f"{'provider':24} {'outcome':10} {'reason':24} turns")
    for (provider, outcome, reason), turns in sorted(rows.items()):
        print(f"{provider:24} {outcome:10} {reason:24} {turns:5}")
    differing = [slug for slug, by_split in got.items() if len(set(by_split.values())) > 1]
    print(f"{len(got)} replies, read {', '.join(splits)}: {len(differing)} depend on how they were read")
    for slug in differing:
        print(f"  {slug}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
