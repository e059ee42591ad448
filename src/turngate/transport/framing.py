"""Which rule delimits a response body (RFC 9112 section 6.3), read from a complete head.

llhttp is strict about most of this, but it reads `Transfer-Encoding: xchunked` up to the end of the connection and
accepts a coding under the chunks (measured with httptools 0.9). A message whose length two readers could judge
differently is refused here; there is nothing to gain from guessing.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from turngate.transport.errors import MalformedHeadError, UpgradeRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Framing(enum.Enum):
    """What ends the body."""

    NO_BODY = "no_body"
    LENGTH = "length"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until_close"


_NO_BODY, _LENGTH, _CHUNKED, _UNTIL_CLOSE = Framing  # the lookup of a member costs as much as a call


def response_framing(
    method: bytes, status: int, http_version: str, headers: Iterable[tuple[bytes, bytes]]
) -> Framing:
    """The framing of a final response; raises an `UpstreamError` for one that must not be read."""
    if status == 101:
        raise UpgradeRefusedError
    if http_version not in {"1.0", "1.1"}:
        raise MalformedHeadError("HTTP version")
    codings: list[bytes] = []
    lengths: list[bytes] = []
    for name, value in headers:
        match name.lower():
            case b"transfer-encoding":
                codings.append(value.strip().lower())
            case b"content-length":
                lengths.append(value.strip())
    if codings and (codings != [b"chunked"] or lengths or http_version == "1.0"):
        raise MalformedHeadError("Transfer-Encoding")
    if lengths and (len(lengths) > 1 or not lengths[0].isdigit()):
        raise MalformedHeadError("Content-Length")
    if method == b"HEAD" or status in {204, 304}:
        return _NO_BODY
    if codings:
        return _CHUNKED
    return _LENGTH if lengths else _UNTIL_CLOSE
