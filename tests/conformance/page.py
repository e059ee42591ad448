"""The page `docs/sdk-reactions.md`: prose by hand, tables by the results between two marks."""

from __future__ import annotations

from pathlib import Path

from turngate.conformance.results import Results, tables

PAGE = Path(__file__).parents[2] / "docs" / "sdk-reactions.md"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"


def rendered(results: Results) -> str:
    return "\n".join([f"Measured on {results.measured}.", "", *tables(results)])


def parts(page: str) -> tuple[str, str, str]:
    """What stands before, between and behind the marks."""
    before, _, rest = page.partition(BEGIN)
    between, _, behind = rest.partition(END)
    return before, between, behind


def write_page(results: Results) -> None:
    before, _, behind = parts(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(before + BEGIN + rendered(results) + END + behind, encoding="utf-8")
