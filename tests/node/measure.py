"""What the official Node SDKs do with the fixtures, without the gate and behind it, as the table of `docs/sdk-reactions.md`.

make node            # or: python -m tests.node.measure [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.node.cases import WAYS, Way, listed, sound, unproved
from tests.node.packages import PINS, NodeError, installed
from tests.node.playing import Played, agrees, judged, played, stages
from tests.node.stage import Stage

PAGE = Path(__file__).parents[2] / "docs" / "sdk-reactions.md"
BEGIN, END = "<!-- node -->\n", "<!-- end of node -->\n"
COLUMNS = (
    "way", "unproved turns", "without the gate: showed or ran", "asked again", "behind it: showed or ran", "asked again", "raised, and said why",
    "said why in an event or as text", "`notice`: ended with the text", "HTTP 400", "stumbled", "sound turns", "exactly the calls", "habits",
)  # fmt: skip


async def row(scene: Stage, way: Way) -> list[str]:
    """One way, counted."""
    cases, whole = unproved(way, every=True), sound(way, every=True)
    direct, error, notice = [
        await played(scene, way, cases, settings) for settings in (None, "error", "notice")
    ]
    released = await played(scene, way, whole, "error")
    right = sum(agrees(each, judged(each.case)) and each.shown.error is None for each in released)
    counts = (
        len(cases),
        sum(bool(each.showed) for each in direct),
        sum(again(way, each) for each in direct),
        sum(bool(each.showed) for each in (*error, *notice)),
        sum(each.requests > 1 for each in (*error, *notice)),
        sum(each.shown.error is not None and each.said_where == "raised" for each in error),
        sum(each.said_where in ("handed out", "text") for each in error),
        sum(each.shown.error is None and each.said_where == "text" for each in notice),
        sum(each.shown.error is not None and each.said_where == "raised" for each in notice),
        sum(listed("stumble", way, each.case.fixture) is not None for each in error),
        len(whole),
        right,
        sum(listed("habit", way, case.fixture) is not None for case in whole),
    )
    return [way.id, *map(str, counts)]


def again(way: Way, each: Played) -> bool:
    """Whether the provider was asked once more, other than with the results of calls."""
    return each.requests > (2 if way.runs and way.asks_again and each.shown.ran else 1)


async def rows() -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        async with stages(Path(folder)) as scenes:
            return [await row(scenes[way.dialect], way) for way in WAYS]


def rendered(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """The table, and what was measured."""
    packages = json.loads((Path(__file__).parent / PINS[0]).read_text())["dependencies"]
    node = shutil.which("node") or "node"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    yield (
        f"Node.js {version.lstrip('v')}; "
        + ", ".join(f"{name} {pinned}" for name, pinned in packages.items())
        + "."
    )
    yield ""
    for number, line in enumerate([COLUMNS, *table]):
        yield f"| {' | '.join(line)} |"
        if not number:
            yield "|" + " --- |" * len(COLUMNS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="Rewrite the table in docs/sdk-reactions.md.")
    options = parser.parse_args()
    try:
        installed()
    except NodeError as error:
        print(error, file=sys.stderr)
        return 2
    table = "\n".join(rendered(asyncio.run(rows()))) + "\n"
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + table + END + rest.partition(END)[2], encoding="utf-8")
    print(table, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
