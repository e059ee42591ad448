"""Named SQL: the statements live in `.sql` files, Python only names them."""

from __future__ import annotations

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_statements(file_name: str) -> dict[str, str]:
    """Read the statements of one file beside this module; anything before the first name is commentary."""
    text = resources.files("turngate.ledger").joinpath("sql", file_name).read_text("utf-8")
    _, *named = _NAME.split(text)
    return {name: body.strip() for name, body in zip(named[::2], named[1::2], strict=True)}
