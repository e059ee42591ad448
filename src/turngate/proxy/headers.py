"""Which header fields cross the gate, in each direction; pure functions over (name, value) pairs.

A proxy owes both sides the same thing (RFC 9110 section 7.6.1): fields about one connection end at it, everything else
crosses unchanged, in order, with its repeats and its spelling. What differs from a plain proxy is said beside each table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from turngate.errors import MisuseError
from turngate.transport.head import CONNECTION_FIELDS

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
_NOT_DOWNSTREAM = HOP_BY_HOP | {b"alt-svc"}

OWN_PREFIX = b"x-turngate-"
"""Our own fields: a caller's are for us alone, and an upstream may not speak in our name."""

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

_UNSAFE_VALUE = re.compile(rb"[\r\n\0]")
_AWS_SIGNATURE = re.compile(rb"AWS4-.*\bSignedHeaders=([^,\s]+)")
_MEDIA_TYPE = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+/[!#$%&'*+\-.^_`|~0-9a-z]+")


def connection_options(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """What the Connection fields list, in lower case."""
    values = [value for name, value in headers if name.lower() == b"connection"]
    if not values:
        return frozenset()
    return frozenset(option.strip(b" \t").lower() for option in b",".join(values).split(b",")) - {b""}


def misplaced_options(options: Iterable[bytes]) -> list[bytes]:
    """Connection options that name an end-to-end field.

    Stripping those lets a caller remove another hop's field ("hop-by-hop header abuse"), and a sender must not list them
    (RFC 9110 section 7.6.1), so a request that does is refused and a response keeps the field.
    """
    return sorted(o for o in options if o in END_TO_END or o.startswith(_END_TO_END_PREFIXES))


def request_headers(headers: Iterable[tuple[bytes, bytes]], *, judged: bool) -> Headers:
    """The fields that go upstream. On a judged route the reply must be readable, so identity is the one coding asked for.

    What the client has signed crosses as it is: with anything else the signature would not fit.
    """
    fields = list(headers)
    signed = signed_fields(fields)
    judged = judged and b"accept-encoding" not in signed
    dropped = (_NOT_UPSTREAM - (signed & FORWARDING)) | _ended_here(fields)
    if judged:
        dropped |= {b"accept-encoding"}
    crossing = _crossing(fields, dropped)
    if judged:
        crossing.append((b"accept-encoding", b"identity"))
    return crossing


def signed_fields(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The names of the fields that an AWS signature (SigV4) covers, in lower case."""
    values = [value for name, value in headers if name.lower() == b"authorization"]
    found = [match[1].lower().split(b";") for value in values if (match := _AWS_SIGNATURE.match(value))]
    return frozenset(name for names in found for name in names)


def response_headers(
    headers: Iterable[tuple[bytes, bytes]], *, turn_id: str, streamed: bool, keep_length: bool
) -> Headers:
    """The fields that go to the client.

    Alt-Svc is dropped: it would send the client around the gate. `keep_length` is for a body that passes unchanged. A stream
    says that nothing on its way may buffer or store it, unless the upstream has already said how.
    """
    fields = list(headers)
    dropped = _NOT_DOWNSTREAM | _ended_here(fields)
    if not keep_length:
        dropped |= {b"content-length"}
    crossing = _crossing(fields, dropped)
    crossing.append((b"x-turngate-turn", turn_id.encode("ascii")))
    if streamed:
        present = {name.lower() for name, _ in crossing}
        for name, value in ((b"x-accel-buffering", b"no"), (b"cache-control", b"no-cache")):
            if name not in present:
                crossing.append((name, value))
    return crossing


def media_type(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """`type/subtype` in lower case without parameters; empty if there is none, it is invalid, or several differ."""
    found = {_without_parameters(value) for name, value in headers if name.lower() == b"content-type"}
    only = found.pop() if len(found) == 1 else ""
    return only if _MEDIA_TYPE.fullmatch(only) else ""


def content_coding(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """All content codings in lower case, in the order they were applied, joined by `, `; empty if there is none."""
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    if not values:
        return ""
    codings = [coding.strip().lower() for coding in b",".join(values).decode("latin-1").split(",")]
    return ", ".join(coding for coding in codings if coding)


def _ended_here(headers: list[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """What the Connection field ends here, besides what always does."""
    options = connection_options(headers)
    return options.difference(misplaced_options(options))


def _crossing(headers: list[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Headers:
    crossing = [
        field
        for field in headers
        if (lower := field[0].lower()) not in dropped and not lower.startswith(OWN_PREFIX)
    ]
    # The parsers on both sides refuse such values, so one here is our own fault.
    if _UNSAFE_VALUE.search(b"".join([value for _, value in crossing])):
        unsafe = next(name for name, value in crossing if _UNSAFE_VALUE.search(value))
        raise MisuseError(f"the header field {unsafe.decode('latin-1')!r} has a value with CR, LF or NUL")
    return crossing


def _without_parameters(value: bytes) -> str:
    return value.decode("latin-1").partition(";")[0].strip(" \t").lower()
