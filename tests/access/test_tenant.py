"""From header fields to a tenant: in whatever field an SDK sends its key, and nothing of ours crosses."""

from __future__ import annotations

import hashlib

import pytest

from turngate.access.keys import GateKey
from turngate.access.tenant import (
    ANONYMOUS,
    Caller,
    Denial,
    Headers,
    anybody,
    by_credential,
    by_field,
    by_gate_key,
    with_credential,
)

SECRET = "tgk_00000001_" + "a" * 43
OTHER = "tgk_00000002_" + "b" * 43
KEYS = {
    SECRET: GateKey(id="00000001", tenant="team-a", sha256="", created_at=0),
    OTHER: GateKey(id="00000002", tenant="team-b", sha256="", created_at=0),
}
REST = [(b"content-type", b"application/json")]


def keyed(*fields: tuple[bytes, bytes]) -> Caller | Denial:
    return by_gate_key([*fields, *REST], KEYS.get)


def digest(credential: bytes) -> str:
    return hashlib.sha256(credential).hexdigest()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"Authorization", f"Bearer {SECRET}"),
        (b"authorization", f"bearer  {SECRET} "),
        (b"X-Api-Key", SECRET),
        (b"x-goog-api-key", SECRET),
        (b"api-key", SECRET),
    ],
)
def test_a_gate_key_is_found_wherever_an_sdk_puts_it_and_goes_no_further(field: bytes, value: str) -> None:
    caller = keyed((field, value.encode()))
    assert caller == Caller("team-a", REST, "00000001", (field.lower(),))


def test_a_gate_key_in_our_own_field_leaves_the_providers_credential_alone() -> None:
    credential = (b"authorization", b"Bearer sk-provider")
    caller = keyed(credential, (b"x-turngate-key", SECRET.encode()))
    assert caller == Caller("team-a", [credential, *REST], "00000001")
    assert isinstance(caller, Caller)
    assert with_credential(caller, "sk-held") == caller


def test_the_same_key_twice_is_one_and_two_keys_are_none() -> None:
    twice = keyed((b"authorization", f"Bearer {SECRET}".encode()), (b"x-api-key", SECRET.encode()))
    assert isinstance(twice, Caller)
    assert twice.headers == REST
    both = [(b"authorization", b"Bearer sk-held"), (b"x-api-key", b"sk-held")]
    assert with_credential(twice, "sk-held").headers == REST + both
    two = keyed((b"authorization", f"Bearer {SECRET}".encode()), (b"x-api-key", OTHER.encode()))
    assert isinstance(two, Denial)
    assert (two.status, two.code) == (401, "unknown_gate_key")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ([], "missing_gate_key"),
        ([(b"authorization", b"Bearer sk-provider")], "missing_gate_key"),
        ([(b"authorization", b"Basic " + SECRET.encode())], "missing_gate_key"),
        ([(b"x-other", SECRET.encode())], "missing_gate_key"),
        ([(b"authorization", b"Bearer tgk_00000009_" + b"a" * 43)], "unknown_gate_key"),
        ([(b"authorization", b"Bearer tgk_\xff")], "unknown_gate_key"),
    ],
)
def test_without_a_known_key_nobody_is_let_in(fields: Headers, code: str) -> None:
    denied = keyed(*fields)
    assert isinstance(denied, Denial)
    assert (denied.status, denied.code) == (401, code)
    assert SECRET not in denied.message


def test_a_held_credential_takes_the_place_of_the_key_and_of_any_other() -> None:
    caller = keyed((b"x-api-key", SECRET.encode()), (b"authorization", b"Bearer smuggled"))
    assert isinstance(caller, Caller)
    assert with_credential(caller, "sk-held").headers == [*REST, (b"x-api-key", b"sk-held")]
    bearer = keyed((b"authorization", f"Bearer {SECRET}".encode()))
    assert isinstance(bearer, Caller)
    assert with_credential(bearer, "sk-held").headers == [*REST, (b"authorization", b"Bearer sk-held")]


def test_a_credential_is_one_tenant_in_whatever_field_and_its_name_does_not_tell_it() -> None:
    first = by_credential([(b"Authorization", b"Bearer sk-1")], digest)
    again = by_credential([(b"x-api-key", b"sk-1")], digest)
    other = by_credential([(b"x-api-key", b"sk-2")], digest)
    assert first.tenant == again.tenant != other.tenant
    assert "sk-1" not in first.tenant
    assert first.headers == [(b"Authorization", b"Bearer sk-1")]
    assert by_credential(REST, digest).tenant == ANONYMOUS


def test_a_signature_changes_with_each_request_and_its_tenant_does_not() -> None:
    signed = (
        b"AWS4-HMAC-SHA256 Credential=%b/20261130/eu/bedrock/aws4_request, SignedHeaders=host, Signature=%b"
    )
    tenants = [
        by_credential([(b"authorization", signed % each)], digest).tenant
        for each in [(b"AKIA1", b"ab"), (b"AKIA1", b"cd"), (b"AKIA2", b"ab")]
    ]
    assert tenants[0] == tenants[1] != tenants[2]


def test_a_trusted_field_names_the_tenant_and_does_not_cross() -> None:
    assert by_field([(b"X-Tenant", b" team-a "), *REST], "x-tenant") == Caller("team-a", REST)


@pytest.mark.parametrize("values", [[], [b""], [b"a", b"b"], [b"a b"], [b"a/../b"], [b"\xe9"]])
def test_a_request_that_names_no_tenant_or_two_is_refused(values: list[bytes]) -> None:
    denied = by_field([(b"x-tenant", value) for value in values], "x-tenant")
    assert isinstance(denied, Denial)
    assert (denied.status, denied.code) == (401, "unknown_tenant")


def test_where_nobody_is_told_apart_nothing_is_changed() -> None:
    headers = [(b"authorization", b"Bearer sk-1"), *REST]
    assert anybody(headers) == Caller("default", headers)
