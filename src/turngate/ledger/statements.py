"""Named SQL: the statements live in `.sql` files, Python only names them."""

from __future__ import annotations

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_INCLUDED = re.compile(r"@(\w+)")


def load_statements(file_name: str) -> dict[str, str]:
    """Read the statements of one file beside this module; anything before the first name is commentary.

    `@name` in a statement stands for an earlier one, as a subquery.
    """
    text = resources.files("turngate.ledger").joinpath("sql", file_name).read_text("utf-8")
    _, *named = _NAME.split(text)
    found: dict[str, str] = {}
    for name, body in zip(named[::2], named[1::2], strict=True):
        code = "\n".join(line for line in body.strip().splitlines() if not line.startswith("--"))
        found[name] = _INCLUDED.sub(lambda match: f"({found[match[1]].rstrip(';')})", code)
    return found
