"""Every lapse has a weight, and is documented."""

from __future__ import annotations

import re
from pathlib import Path

from turngate.conformance.lapse import WEIGHTS, Lapse, LapseCode, Weight

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def test_the_weights_are_total() -> None:
    assert set(WEIGHTS) == set(LapseCode)
    assert Lapse(LapseCode.TEXT_DELAYED, "").weight is Weight.WARNING


def test_the_documented_lapses_are_the_lapses() -> None:
    rows = re.findall(
        r"^\| `([a-z_]+)` \| (error|warning|note) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )

    assert rows == [(code.value, WEIGHTS[code].value) for code in LapseCode]
