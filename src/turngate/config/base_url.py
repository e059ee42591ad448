"""An upstream's base URL: the origin and the path that every request to it begins with.

Nothing but configuration ever chooses an origin, so the checks here are the only ones: no credentials (clients send their own),
no query, and nothing that two URL readers could read differently.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from turngate.transport.head import DEFAULT_PORTS, Origin

DEMO_URL = "demo:"
"""The base URL that stands for the bundled replay provider."""

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9a-fA-F:.]+")
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]|\\")


@dataclass(frozen=True, slots=True)
class BaseURL:
    """A base URL that was read."""

    text: str
    origin: Origin
    path: bytes

    @property
    def is_demo(self) -> bool:
        """Whether the bundled replay provider stands behind it."""
        return self.text == DEMO_URL

    @property
    def is_exposed(self) -> bool:
        """Whether keys and prompts leave this machine unencrypted."""
        return self.origin.scheme == "http" and not is_loopback(self.origin.host)


def base_url(value: object) -> BaseURL:
    """An http or https URL, or `demo:`."""
    if not isinstance(value, str):
        raise ValueError("must be text in quotes")  # noqa: TRY004 -- as in `keys`
    text = str(value)
    if text == DEMO_URL:
        return BaseURL(text, Origin("http", "127.0.0.1", 0), b"")
    if _UNPRINTABLE.search(text):
        raise ValueError("must be plain ASCII without blanks; percent-encode the rest")
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise ValueError(f"is no URL ({error})") from None
    if parts.scheme not in DEFAULT_PORTS or not host or not _HOST.fullmatch(host) or port == 0:
        raise ValueError('must be an http or https URL, such as "https://api.example.com"')
    if "@" in parts.netloc or "?" in text or "#" in text:
        raise ValueError("must have no credentials, query or fragment; clients send their own key")
    origin = Origin(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme])
    return BaseURL(text, origin, parts.path.rstrip("/").encode("ascii"))


def is_loopback(host: str) -> bool:
    """Whether a host can only be this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
