"""From a request's header fields to its tenant, and to the fields that may cross.

Every official SDK sends its key in one of four fields; a gate key stands in any of them. What names the tenant to us alone (a
gate key, the trusted field) never crosses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from turngate.access.keys import PREFIX, GateKey
from turngate.bearer import NAME

Headers = list[tuple[bytes, bytes]]

OWN_FIELD: Final = b"x-turngate-key"
"""Where a gate key stands that travels beside a provider's credential. Fields of our own prefix never cross."""

CREDENTIAL_FIELDS: Final = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
"""Where the official SDKs put their key: most of them, Anthropic's older ones, Google's, Azure's."""

DEFAULT: Final = "default"
"""The one tenant of a gate that does not tell them apart."""

ANONYMOUS: Final = "anonymous"
"""Who sends no credential at all."""

_BEARER: Final = re.compile(rb"(?i:bearer)[ \t]+([^ \t].*)")
_AWS_KEY_ID: Final = re.compile(rb"AWS4-\S+\s+Credential=([^/,\s]+)/")
_IS_GATE_KEY: Final = f"{PREFIX}_".encode()


class Caller(Struct, frozen=True):
    """Who asks."""

    tenant: str
    headers: Headers
    """The request's fields without what was for us alone."""
    actor: str = ""
    """The id of the gate key."""
    key_fields: tuple[bytes, ...] = ()
    """The credential fields in which the gate key stood."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is not let in: an HTTP error before anything goes upstream."""

    status: int
    code: str
    message: str


def anybody(headers: Headers) -> Caller:
    """No tenants are told apart."""
    return Caller(DEFAULT, headers)


def by_gate_key(headers: Headers, find: Callable[[str], GateKey | None]) -> Caller | Denial:
    """The tenant of the gate key that is presented. Several keys in one request must be the same."""
    found = [(name, secret) for name, secret in _secrets(headers) if secret.startswith(_IS_GATE_KEY)]
    presented = {secret for _, secret in found}
    if not presented:
        message = "No gate key. Send one of this gate as the API key, in the field that your SDK uses."
        return Denial(401, "missing_gate_key", message)
    key = find(presented.pop().decode("ascii", "replace")) if len(presented) == 1 else None
    if key is None:
        return Denial(401, "unknown_gate_key", "The gate key is unknown, expired or revoked.")
    crossing = [each for each in headers if not _secret(*each).startswith(_IS_GATE_KEY)]
    fields = dict.fromkeys(name for name, _ in found if name != OWN_FIELD)
    return Caller(key.tenant, crossing, key.id, tuple(fields))


def by_credential(headers: Headers, digest: Callable[[bytes], str]) -> Caller:
    """A tenant for each provider credential: a keyed digest of it, so that the name tells nobody what it was."""
    secrets = [secret for name, secret in _secrets(headers) if name != OWN_FIELD]
    if not secrets:
        return Caller(ANONYMOUS, headers)
    return Caller(f"c-{digest(secrets[0])[:16]}", headers)


def by_field(headers: Headers, field: str) -> Caller | Denial:
    """The tenant that something trusted before us has written into a field."""
    name = field.lower().encode()
    values = {value.strip(b" \t").decode("latin-1") for key, value in headers if key.lower() == name}
    tenant = values.pop() if len(values) == 1 else ""
    if not NAME.fullmatch(tenant):
        return Denial(401, "unknown_tenant", f"The request does not name its tenant in the field {field}.")
    return Caller(tenant, [each for each in headers if each[0].lower() != name])


def with_credential(caller: Caller, credential: str) -> Caller:
    """Put the provider's credential where the gate key stood, in place of every other one."""
    if not caller.key_fields:
        return caller
    value = credential.encode("ascii")
    others = [each for each in caller.headers if each[0].lower() not in CREDENTIAL_FIELDS]
    held = [(name, b"Bearer " + value if name == b"authorization" else value) for name in caller.key_fields]
    return replace(caller, headers=[*others, *held])


def _secrets(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    for name, value in headers:
        if secret := _secret(name, value):
            yield name.lower(), secret


def _secret(name: bytes, value: bytes) -> bytes:
    """What a credential field says without its scheme; of an AWS signature the key's id, since the rest changes each time."""
    name = name.lower()
    if name != OWN_FIELD and name not in CREDENTIAL_FIELDS:
        return b""
    value = value.strip(b" \t")
    if name != b"authorization":
        return value
    match = _BEARER.fullmatch(value) or _AWS_KEY_ID.match(value)
    return match[1] if match else value
