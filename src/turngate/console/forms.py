"""What a browser sends, read strictly, and whether a page of this site sent it.

A post is believed if the browser says that it came from here (`Origin`, and `Sec-Fetch-Site` where there is one) and it has the
token that only a page of the same session could know. The token is a keyed digest of the cookie, so nothing else is kept for it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope

from turngate.operator.problem import ProblemError
from turngate.proxy.incoming import BodyTooLargeError, read_body

MAX_FORM: Final = 64 * 1024
SESSION: Final = "turngate_session"
VISITOR: Final = "turngate_login"
"""The cookie of a login page. Another one than the session's, which a browser keeps back when it comes from another site."""
BASE: Final = "/console/"

_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{20,64}")


class Seal:
    """Makes and checks the tokens in forms."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    @staticmethod
    def fresh() -> str:
        """A cookie's value for somebody who has none yet."""
        return secrets.token_urlsafe(32)

    def of(self, cookie: str) -> str:
        """The token of the forms that belong to this cookie."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def check(self, cookie: str | None, presented: str) -> None:
        """Refuse a form that no page of the same cookie's made."""
        if cookie is None or not hmac.compare_digest(self.of(cookie).encode(), presented.encode()):
            raise ProblemError(
                "forbidden", "This form is not from an open page of yours. Load the page again."
            )


def header(scope: Scope, name: bytes) -> str | None:
    """A header that may come once."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def cookie(scope: Scope, name: str) -> str | None:
    """A cookie of ours."""
    try:
        jar = SimpleCookie(header(scope, b"cookie") or "")
    except CookieError:
        return None
    value = jar[name].value if name in jar else ""
    return value if _VALUE.fullmatch(value) else None


def set_cookie(name: str, value: str, *, secure: bool) -> tuple[bytes, bytes]:
    """The header that sets a cookie; an empty value takes it away."""
    text = f"{name}={value}; Path={BASE}; HttpOnly; SameSite=Strict"
    text += "; Secure" if secure else ""
    text += "" if value else "; Max-Age=0"
    return b"set-cookie", text.encode()


def is_encrypted(scope: Scope) -> bool:
    """Whether the browser spoke TLS, with this listener or with what stands in front of it."""
    return scope["scheme"] == "https" or (header(scope, b"origin") or "").startswith("https://")


def check_origin(scope: Scope) -> None:
    """Refuse what another site's page sent."""
    host = header(scope, b"host")
    schemes = ("https",) if scope["scheme"] == "https" else ("http", "https")
    own = header(scope, b"origin") in [f"{scheme}://{host}" for scheme in schemes]
    if not own or header(scope, b"sec-fetch-site") not in (None, "same-origin"):
        raise ProblemError("forbidden", "This form was not sent by a page of this console.")


async def read_form(scope: Scope, receive: Receive) -> dict[str, str]:
    """The fields of a posted form; those that were left empty are left out."""
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ProblemError("unsupported_media_type", "Send the console's own forms.")
    try:
        raw = await read_body(receive, MAX_FORM)
    except BodyTooLargeError:
        raise ProblemError("request_too_large", f"The form has more than {MAX_FORM} bytes.") from None
    return read_fields(raw)


def read_fields(raw: bytes) -> dict[str, str]:
    """The fields of a form or a query."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=32,
        )
    except ValueError:
        raise ProblemError("invalid_request", "The fields are not readable.") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ProblemError("invalid_request", "The same field came twice.")
    return {name: value for name, value in found.items() if value.strip()}


def converted(fields: Mapping[str, str], kind: type[Any]) -> Any:
    """The fields as the interface's own type, which knows what is allowed."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError("invalid_request", f"{error}.") from None
