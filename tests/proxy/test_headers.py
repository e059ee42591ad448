from __future__ import annotations

import pytest

from turngate.errors import MisuseError
from turngate.proxy.headers import (
    connection_options,
    content_coding,
    media_type,
    misplaced_options,
    request_headers,
    response_headers,
    signed_fields,
)
from turngate.transport.head import CONNECTION_FIELDS


def names(headers: list[tuple[bytes, bytes]]) -> list[bytes]:
    return [name.lower() for name, _ in headers]


def reply(
    headers: list[tuple[bytes, bytes]], *, streamed: bool = False, keep_length: bool = False
) -> list[tuple[bytes, bytes]]:
    return response_headers(headers, turn_id="t1", streamed=streamed, keep_length=keep_length)


def test_order_repeats_and_spelling_cross_unchanged() -> None:
    sent = [(b"Cookie", b"a=1"), (b"X-A", b"1"), (b"cookie", b"b=2"), (b"X-a", b"\xe9"), (b"X-Empty", b"")]
    assert request_headers(sent, judged=False) == sent
    assert reply([(b"Set-Cookie", b"a"), (b"Vary", b"b"), (b"Set-Cookie", b"c")])[:3] == [
        (b"Set-Cookie", b"a"),
        (b"Vary", b"b"),
        (b"Set-Cookie", b"c"),
    ]


@pytest.mark.parametrize(
    "name", sorted(CONNECTION_FIELDS | {b"http2-settings", b"proxy-authenticate", b"proxy-authorization"})
)
def test_fields_of_one_connection_end_here(name: bytes) -> None:
    field = (name.title(), b"x")
    assert request_headers([field], judged=False) == []
    crossing = names(reply([field]))
    assert (name in crossing) == (name == b"host")


def test_fields_that_connection_names_end_here_in_both_directions() -> None:
    sent = [
        (b"Connection", b"close, X-One"),
        (b"connection", b"\tx-two "),
        (b"X-One", b"1"),
        (b"X-Two", b"2"),
    ]
    sent.append((b"X-Three", b"3"))
    assert request_headers(sent, judged=False) == [(b"X-Three", b"3")]
    assert names(reply(sent)) == [b"x-three", b"x-turngate-turn"]


def test_a_connection_field_cannot_strip_an_end_to_end_field() -> None:
    sent = [
        (b"connection", b"Authorization, X-Api-Key, anthropic-version, x-own"),
        (b"authorization", b"Bearer t"),
    ]
    assert misplaced_options(connection_options(sent)) == [
        b"anthropic-version",
        b"authorization",
        b"x-api-key",
    ]
    assert request_headers(sent, judged=False) == [(b"authorization", b"Bearer t")]


def test_ordinary_connection_options_are_not_misplaced() -> None:
    sent = [(b"connection", b"close, keep-alive, te, upgrade, http2-settings,, x-hop")]
    assert misplaced_options(connection_options(sent)) == []


@pytest.mark.parametrize(
    "name", [b"Forwarded", b"Via", b"X-Forwarded-For", b"x-forwarded-proto", b"X-Real-IP"]
)
def test_a_provider_is_told_nothing_of_the_callers_network(name: bytes) -> None:
    assert request_headers([(name, b"10.0.0.1")], judged=False) == []


def test_our_own_fields_cross_in_neither_direction() -> None:
    forged = [
        (b"X-Turngate-Turn", b"forged"),
        (b"x-turngate-other", b"1"),
        (b"x-turngate-", b"1"),
        (b"X-TurnGate-~", b""),
    ]
    assert request_headers(forged, judged=False) == []
    assert reply(forged) == [(b"x-turngate-turn", b"t1")]
    near = [(b"x-turngate", b"1"), (b"X-Turngate.a", b"1"), (b"x-turngate_a", b"1"), (b"x-turngat-", b"1")]
    assert request_headers(near, judged=False) == near


def test_a_judged_route_asks_for_identity_and_another_one_for_what_the_caller_asked() -> None:
    sent = [(b"Accept-Encoding", b"gzip, br"), (b"accept-encoding", b"zstd"), (b"Accept", b"*/*")]
    assert request_headers(sent, judged=True) == [(b"Accept", b"*/*"), (b"accept-encoding", b"identity")]
    assert request_headers([], judged=True) == [(b"accept-encoding", b"identity")]
    assert request_headers(sent, judged=False) == sent


SIGNED = (
    "AWS4-HMAC-SHA256 Credential=a/20261130/us-east-1/bedrock/aws4_request, SignedHeaders={}, Signature=0f"
)


def test_what_an_aws_client_has_signed_crosses_as_it_is() -> None:
    value = SIGNED.format("accept-encoding;host;x-amz-date;x-forwarded-for").encode()
    sent = [
        (b"Authorization", value),
        (b"Accept-Encoding", b"gzip"),
        (b"X-Amz-Date", b"20261130T080000Z"),
        (b"X-Forwarded-For", b"10.0.0.1"),
    ]
    assert signed_fields(sent) == {b"accept-encoding", b"host", b"x-amz-date", b"x-forwarded-for"}
    assert request_headers(sent, judged=True) == sent
    unsigned = [(b"Authorization", SIGNED.format("host;x-amz-date").encode()), *sent[1:]]
    crossing = request_headers(unsigned, judged=True)
    assert crossing == [unsigned[0], sent[2], (b"accept-encoding", b"identity")]


def test_no_other_authorization_signs_anything() -> None:
    for value in (b"Bearer AWS4-x SignedHeaders=via", b"Basic x", b"AWS4-HMAC-SHA256 Credential=a"):
        assert signed_fields([(b"authorization", value)]) == frozenset()


@pytest.mark.parametrize("value", [b"a\rb", b"a\nb", b"a\0b"])
def test_a_value_that_could_split_a_message_is_our_fault(value: bytes) -> None:
    with pytest.raises(MisuseError) as caught:
        request_headers([(b"x-a", value)], judged=False)
    with pytest.raises(MisuseError):
        reply([(b"x-a", value)])
    assert value.decode() not in str(caught.value)


def test_the_length_is_kept_only_for_a_body_that_passes_unchanged() -> None:
    received = [(b"Content-Length", b"5"), (b"Content-Type", b"text/plain")]
    assert names(reply(received)) == [b"content-type", b"x-turngate-turn"]
    assert names(reply(received, keep_length=True)) == [
        b"content-length",
        b"content-type",
        b"x-turngate-turn",
    ]


def test_alt_svc_is_dropped_because_it_leads_around_the_gate() -> None:
    assert names(reply([(b"Alt-Svc", b'h3=":443"')])) == [b"x-turngate-turn"]


def test_a_stream_asks_not_to_be_buffered_unless_the_upstream_has_said_how() -> None:
    assert reply([], streamed=True)[1:] == [(b"x-accel-buffering", b"no"), (b"cache-control", b"no-cache")]
    said = [(b"Cache-Control", b"no-store"), (b"X-Accel-Buffering", b"yes")]
    assert reply(said, streamed=True) == [*said, (b"x-turngate-turn", b"t1")]
    assert reply([]) == [(b"x-turngate-turn", b"t1")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([b"text/event-stream"], "text/event-stream"),
        ([b" Text/Event-STREAM ; charset=utf-8"], "text/event-stream"),
        ([b"application/json", b"Application/JSON; a=b"], "application/json"),
        ([b"application/json", b"text/event-stream"], ""),
        ([b"application/json, text/event-stream"], ""),
        ([b"json"], ""),
        ([b""], ""),
        ([b"text/\xe9"], ""),
        ([b'application/json; a="b"; Charset = "ISO-8859-1"'], "application/json"),
        ([b"text/plain;charset=utf-16LE"], "text/plain"),
        ([b"text/plain;charset=EUC-JP"], "text/plain"),
        ([b"text/plain;charset=Shift_JIS"], "text/plain; charset=shift_jis"),
        ([b"application/json; charset=UTF-7"], "application/json; charset=utf-7"),
        ([b"application/json; charset=utf-8; charset='IBM037'"], "application/json; charset=ibm037"),
    ],
)
def test_the_media_type_is_one_or_none(values: list[bytes], expected: str) -> None:
    assert media_type([(b"Content-Type", value) for value in values]) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([b""], ""),
        ([b"Identity"], "identity"),
        ([b"gzip"], "gzip"),
        ([b"gzip,, BR"], "gzip, br"),
        ([b"gzip", b"identity"], "gzip, identity"),
    ],
)
def test_content_codings_are_joined_in_order(values: list[bytes], expected: str) -> None:
    assert content_coding([(b"content-encoding", value) for value in values]) == expected
