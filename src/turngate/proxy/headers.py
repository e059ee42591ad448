"""Which header fields cross the gate, in each direction; pure functions over (name, value) pairs.

A proxy owes both sides the same thing (RFC 9110 section 7.6.1): fields about one connection end at it, everything else
crosses unchanged, in order, with its repeats and its spelling. What differs from a plain proxy is said beside each table.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from turngate.errors import MisuseError
from turngate.transport.head import CONNECTION_FIELDS, splits

Headers = list[tuple[bytes, bytes]]

HOP_BY_HOP = (CONNECTION_FIELDS - {b"host", b"content-length"}) | {
    b"http2-settings",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-authentication-info",
}
"""Fields that end at this connection. Host and Content-Length do too, but each direction treats them its own way."""

FORWARDING = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    }
)
"""Fields that describe the caller's network. A provider has no use for them, so none is sent."""

_NOT_UPSTREAM = HOP_BY_HOP | FORWARDING | {b"host", b"content-length"}
_NOT_UPSTREAM_JUDGED = _NOT_UPSTREAM | {b"accept-encoding"}
_NOT_DOWNSTREAM = HOP_BY_HOP | {b"alt-svc"}
_NOT_DOWNSTREAM_JUDGED = _NOT_DOWNSTREAM | {b"content-length"}

OWN_PREFIX = b"x-turngate-"
"""Our own fields: a caller's are for us alone, and an upstream may not speak in our name."""
_BEHIND_OWN = b"x-turngate."
"""What sorts right behind them all. Comparing with both ends costs a third of asking for the prefix."""

KEEP_ALIVE = b"keep-alive"
"""What a Connection field says, if there is one, nearly always: it ends nothing that would cross."""

END_TO_END = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"api-key",
        b"authorization",
        b"cache-control",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"date",
        b"expect",
        b"host",
        b"idempotency-key",
        b"mistral-api-key",
        b"set-cookie",
        b"transfer-encoding",
        b"user-agent",
        b"x-api-key",
        b"x-goog-api-key",
        b"x-should-retry",
    }
)
_END_TO_END_PREFIXES = (b"anthropic-", b"openai-", b"x-amz-", b"x-goog-", b"x-stainless-", OWN_PREFIX)

_AWS_SIGNATURE = re.compile(rb"AWS4-.*\bSignedHeaders=([^,\s]+)")
_CHARSET = re.compile(r"charset\s*=[\s\"']*([^\s\"',;]+)")
_LIKE_ASCII = re.compile(
    r"utf-?8|utf-?(16|32)(-?[bl]e)?|(us-)?ascii|iso-?8859-\d+|latin-?1|windows-125\d|koi8-\w|euc-\w\w"
)
"""Charsets in which the bytes of ASCII text stay ASCII text, perhaps with NULs between them."""
_MEDIA_TYPE = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+/[!#$%&'*+\-.^_`|~0-9a-z]+")


def connection_options(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """What the Connection fields list, in lower case."""
    return _options([value for name, value in headers if name.lower() == b"connection"])


def misplaced_options(options: Iterable[bytes]) -> list[bytes]:
    """Connection options that name an end-to-end field.

    Stripping those lets a caller remove another hop's field ("hop-by-hop header abuse"), and a sender must not list them
    (RFC 9110 section 7.6.1), so a request that does is refused and a response keeps the field.
    """
    return sorted(o for o in options if o in END_TO_END or o.startswith(_END_TO_END_PREFIXES))


def request_headers(headers: Headers, *, judged: bool) -> Headers:
    """The fields that go upstream. On a judged route the reply must be readable, so identity is the one coding asked for.

    What the client has signed crosses as it is: with anything else the signature would not fit.
    """
    dropped = _NOT_UPSTREAM_JUDGED if judged else _NOT_UPSTREAM
    if signed := signed_fields(headers):
        judged = judged and b"accept-encoding" not in signed
        dropped = (_NOT_UPSTREAM_JUDGED if judged else _NOT_UPSTREAM) - (signed & FORWARDING)
    crossing = _crossing(headers, dropped)
    if judged:
        crossing.append((b"accept-encoding", b"identity"))
    return crossing


def signed_fields(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The names of the fields that an AWS signature (SigV4) covers, in lower case."""
    names: frozenset[bytes] = frozenset()
    for name, value in headers:
        if name.lower() == b"authorization" and (match := _AWS_SIGNATURE.match(value)):
            names = names.union(match[1].lower().split(b";"))
    return names


def response_headers(
    headers: Iterable[tuple[bytes, bytes]], *, turn_id: str, streamed: bool, keep_length: bool
) -> Headers:
    """The fields that go to the client.

    Alt-Svc is dropped: it would send the client around the gate. `keep_length` is for a body that passes unchanged. A stream
    says that nothing on its way may buffer or store it, unless the upstream has already said how.
    """
    crossing = _crossing(headers, _NOT_DOWNSTREAM if keep_length else _NOT_DOWNSTREAM_JUDGED)
    crossing.append((b"x-turngate-turn", turn_id.encode("ascii")))
    if streamed:
        present = [name.lower() for name, _ in crossing]
        for name, value in ((b"x-accel-buffering", b"no"), (b"cache-control", b"no-cache")):
            if name not in present:
                crossing.append((name, value))
    return crossing


def media_type(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """`type/subtype` in lower case; empty if there is none, it is invalid, or several differ.

    Of its parameters only a charset stays that lets ASCII bytes mean something else: some clients read the body by it.
    """
    found: str | None = None
    for name, value in headers:
        if name.lower() == b"content-type":
            kind = _media_type(value)
            if found is not None and found != kind:
                return ""
            found = kind
    return found or ""


def content_coding(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """All content codings in lower case, in the order they were applied, joined by `, `; empty if there is none."""
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    if not values:
        return ""
    codings = [coding.strip().lower() for coding in b",".join(values).decode("latin-1").split(",")]
    return ", ".join(coding for coding in codings if coding)


def _options(values: list[bytes]) -> frozenset[bytes]:
    return frozenset([option.strip(b" \t").lower() for option in b",".join(values).split(b",")]) - {b""}


def _crossing(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Headers:
    """One pass for what nearly every message is: one whose Connection field, if any, is an ordinary one."""
    crossing: Headers = []
    connection: list[bytes] = []
    for field in headers:
        name, value = field
        lower = name.lower()
        if lower in dropped:
            if lower == b"connection" and value.lower() != KEEP_ALIVE:
                connection.append(value)
        elif not OWN_PREFIX <= lower < _BEHIND_OWN:
            crossing.append(field)
    if connection:
        options = _options(connection)
        ended = options.difference(misplaced_options(options))
        crossing = [field for field in crossing if field[0].lower() not in ended]
    _demand_safe(crossing)
    return crossing


def _demand_safe(fields: Headers) -> None:
    """The parsers on both sides refuse values that could split a message, so one here is our own fault."""
    if splits(b"".join([value for _, value in fields])):
        unsafe = next(name for name, value in fields if splits(value))
        raise MisuseError(f"the header field {unsafe.decode('latin-1')!r} has a value with CR, LF or NUL")


@functools.lru_cache(64)  # a provider answers with few
def _media_type(value: bytes) -> str:
    kind, _, parameters = value.decode("latin-1").lower().partition(";")
    kind = kind.strip(" \t")
    if not _MEDIA_TYPE.fullmatch(kind):
        return ""
    foreign = [name for name in _CHARSET.findall(parameters) if not _LIKE_ASCII.fullmatch(name)]
    return f"{kind}; charset={foreign[0]}" if foreign else kind
