"""Which requests are served at all: the checks of a head as a whole, before anything sees it.

HTTP/1.0 is refused: its responses have no end mark but the close, so a client could not tell a cut from an end.
"""

from __future__ import annotations

import re
from typing import Final

from turngate.proxy.front_limits import FrontLimits
from turngate.proxy.front_refusal import RefusalError
from turngate.proxy.headers import KEEP_ALIVE, connection_options, misplaced_options

METHODS: Final = frozenset({b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PUT"})

_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")
_CHECKED = frozenset({b"connection", b"content-length", b"expect", b"transfer-encoding"})


def check_head(
    method: bytes, target: bytes, version: str, headers: list[tuple[bytes, bytes]], limits: FrontLimits
) -> None:
    """Refuse a head that is not one plain HTTP/1.1 request to this server. Names are in lower case."""
    if version != "1.1":
        raise RefusalError(505, "http_version", "Use HTTP/1.1 (in nginx: proxy_http_version 1.1).")
    if method not in METHODS:
        why = "This method is not served; in particular, no tunnels."
        raise RefusalError(405, "method_not_allowed", why, ((b"allow", b", ".join(sorted(METHODS))),))
    if not target.startswith(b"/") or b"#" in target:
        # Absolute form comes from clients that took this for a forward proxy; it may never pick an upstream.
        raise RefusalError(
            400, "invalid_target", "The request target must be a path: set a base URL, not a proxy."
        )
    hosts = []
    for name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name in _CHECKED:
            _check_field(name, value, limits)
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise RefusalError(400, "invalid_host", "The request must have exactly one valid Host.")


def _check_field(name: bytes, value: bytes, limits: FrontLimits) -> None:
    """One of the fields that say how the request is framed, and how it is answered."""
    value = value.lower()
    if name == b"transfer-encoding" and value != b"chunked":
        raise RefusalError(501, "transfer_coding", "The only transfer coding is chunked.")
    if (
        name == b"connection"
        and value != KEEP_ALIVE
        and misplaced_options(connection_options([(name, value)]))
    ):
        raise RefusalError(400, "invalid_connection", "The Connection header names an end-to-end field.")
    if name == b"expect" and value != b"100-continue":
        raise RefusalError(417, "expectation_failed", "The only expectation met is 100-continue.")
    if name == b"content-length" and int(value) > limits.max_body_bytes:
        raise RefusalError(
            413, "request_too_large", f"The request has more than {limits.max_body_bytes} bytes."
        )
