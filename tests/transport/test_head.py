from __future__ import annotations

import pytest

from turngate.transport.errors import InvalidRequestError
from turngate.transport.head import BodyEnd, EndReason, Origin, RequestHead, encode_head

ORIGIN = Origin("https", "api.example.test", 443)


def test_target_order_repeats_and_case_go_out_as_given() -> None:
    headers = [
        (b"X-B", b"2"),
        (b"cookie", b"a=1"),
        (b"x-a", b""),
        (b"Cookie", b"b=2"),
        (b"X-L", b"caf\xc3\xa9"),
    ]
    encoded = encode_head(RequestHead(b"POST", ORIGIN, b"/a%2Fb/%2e%2e/c?x=+&&", headers), 3)
    assert encoded == (
        b"POST /a%2Fb/%2e%2e/c?x=+&& HTTP/1.1\r\nHost: api.example.test\r\nX-B: 2\r\ncookie: a=1\r\nx-a: \r\n"
        b"Cookie: b=2\r\nX-L: caf\xc3\xa9\r\nContent-Length: 3\r\n\r\n"
    )


def test_framing_and_connection_fields_of_the_caller_are_replaced() -> None:
    headers = [
        (b"HOST", b"evil.test"),
        (b"content-length", b"99"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"close"),
        (b"Expect", b"100-continue"),
    ]
    encoded = encode_head(RequestHead(b"POST", ORIGIN, b"/", headers), 0)
    assert encoded == b"POST / HTTP/1.1\r\nHost: api.example.test\r\nContent-Length: 0\r\n\r\n"


def test_a_get_without_content_states_no_length() -> None:
    assert b"Content-Length" not in encode_head(RequestHead(b"GET", ORIGIN, b"/"), 0)


@pytest.mark.parametrize(
    ("origin", "authority"),
    [
        (Origin("https", "h", 443), b"h"),
        (Origin("http", "h", 443), b"h:443"),
        (Origin("http", "::1", 80), b"[::1]"),
        (Origin("http", "::1", 8080), b"[::1]:8080"),
    ],
)
def test_host_names_the_port_unless_it_is_the_default(origin: Origin, authority: bytes) -> None:
    assert origin.authority == authority


@pytest.mark.parametrize(
    "head",
    [
        RequestHead(b"GET", ORIGIN, b"/", [(b"A", b"b\r\nc: d")]),
        RequestHead(b"GET", ORIGIN, b"/", [(b"A", b"b\nc")]),
        RequestHead(b"GET", ORIGIN, b"/", [(b"A", b"b\0")]),
        RequestHead(b"GET", ORIGIN, b"/", [(b"A b", b"c")]),
        RequestHead(b"GET", ORIGIN, b"/", [(b"", b"c")]),
        RequestHead(b"GET", ORIGIN, b"/", [(b"Host\n", b"c")]),
        RequestHead(b"GET", ORIGIN, b"/a b"),
        RequestHead(b"GET", ORIGIN, b"/a\r\n"),
        RequestHead(b"GET", ORIGIN, b""),
        RequestHead(b"GET", ORIGIN, b"http://evil.test/"),
        RequestHead(b"GET", ORIGIN, b"*"),
        RequestHead(b"GE T", ORIGIN, b"/"),
        RequestHead(b"CONNECT", ORIGIN, b"/"),
    ],
)
def test_what_could_become_two_requests_is_never_encoded(head: RequestHead) -> None:
    with pytest.raises(InvalidRequestError):
        encode_head(head, 0)


def test_only_two_ends_are_clean() -> None:
    assert [how for how in EndReason if BodyEnd(how).clean] == [EndReason.COMPLETE, EndReason.CLOSED]
