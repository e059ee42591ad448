"""Templates, and what they may show.

Every value is escaped for HTML, and before that its controls and the invisible and direction-changing characters are spelt out: a
tool's name must not be able to pass for another one, or for part of the page.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from turngate import __version__
from turngate.console.assets import address

_INVISIBLE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(value: object) -> object:
    """Spell out what a browser would obey or hide; for every value in every template."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return "" if value is None else value
    return _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), value)


def exact(value: object) -> Markup:
    """A text as it is, for a field that is sent back."""
    return escape("" if value is None else value)


def utc(seconds: float | None) -> str:
    """A time for people."""
    if seconds is None:
        return ""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def lasting(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def words(name: object) -> str:
    """A code as words."""
    return str(name).replace("_", " ")


def query(fields: dict[str, str], **more: str) -> str:
    """The query of a link."""
    return urlencode({**fields, **more}, errors="replace")


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("turngate.console"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=visible,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_ENVIRONMENT.filters |= {"exact": exact, "utc": utc, "lasting": lasting, "words": words}
_ENVIRONMENT.globals |= {"version": __version__, "query": query, "asset": address}


def render(template: str, **context: object) -> bytes:
    """A page or a fragment."""
    return _ENVIRONMENT.get_template(template).render(context).encode("utf-8", "replace")
