from __future__ import annotations

import re
from pathlib import Path

from turngate.offline.matrix import POINTS, point_of

PAGE = Path(__file__).parents[2] / "docs" / "fixture-format.md"


def test_a_variant_belongs_to_its_point() -> None:
    assert point_of("truncation.before-done") == "truncation"
    assert point_of("text-only") in POINTS


def test_every_point_is_documented_in_these_words() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {point: words for point, words in rows if point in POINTS} == POINTS
