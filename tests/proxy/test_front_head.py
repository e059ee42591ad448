"""Heads that are served, and those that are not."""

from __future__ import annotations

import pytest

from tests.proxy.served import SMALL, Recorder, Served
from turngate.proxy.front_head import check_head


@pytest.mark.parametrize(
    ("line", "host", "extra", "expected"),
    [
        (b"GET /x HTTP/1.1", b"", b"", (400, "invalid_host")),
        (b"GET /x HTTP/1.1", b"Host: a\r\nHost: a\r\n", b"", (400, "invalid_host")),
        (b"GET /x HTTP/1.1", b"Host:\r\n", b"", (400, "invalid_host")),
        (b"GET /x HTTP/1.1", b"Host: a@b\r\n", b"", (400, "invalid_host")),
        (b"GET /x HTTP/1.1", b"Host: a:b\r\n", b"", (400, "invalid_host")),
        (b"GET /x HTTP/1.1", b"Host: a,b\r\n", b"", (400, "invalid_host")),
        (b"GET /x HTTP/1.1", b"Host: [::1\r\n", b"", (400, "invalid_host")),
        (b"GET /x HTTP/1.0", b"Host: a\r\n", b"", (505, "http_version")),
        (b"CONNECT a:443 HTTP/1.1", b"Host: a:443\r\n", b"", (405, "method_not_allowed")),
        (b"TRACE /x HTTP/1.1", b"Host: a\r\n", b"", (405, "method_not_allowed")),
        (b"GET http://a/x HTTP/1.1", b"Host: a\r\n", b"", (400, "invalid_target")),
        (b"OPTIONS * HTTP/1.1", b"Host: a\r\n", b"", (400, "invalid_target")),
        (b"GET /x#y HTTP/1.1", b"Host: a\r\n", b"", (400, "invalid_target")),
        (b"GET /x HTTP/1.1", b"Host: a\r\n", b"Connection: close, Cookie\r\n", (400, "invalid_connection")),
        (b"GET /x HTTP/1.1", b"Host: a\r\n", b"Connection: content-length\r\n", (400, "invalid_connection")),
        (b"GET /x HTTP/1.1", b"Host: a\r\n", b"Expect: 200-maybe\r\n", (417, "expectation_failed")),
        (
            b"POST /x HTTP/1.1",
            b"Host: a\r\n",
            b"Transfer-Encoding: gzip, chunked\r\n",
            (501, "transfer_coding"),
        ),
        (b"POST /x HTTP/1.1", b"Host: a\r\n", b"Content-Length: 101\r\n", (413, "request_too_large")),
    ],
)
def test_a_head_that_is_no_plain_request_to_this_server_is_refused(
    served: Served,
    recorder: Recorder,
    line: bytes,
    host: bytes,
    extra: bytes,
    expected: tuple[int, str],
) -> None:
    assert served.refused(line + b"\r\n" + host + extra + b"\r\n") == expected
    assert recorder.seen.empty()


@pytest.mark.parametrize(
    "host", [b"a", b"gate.test:8080", b"127.0.0.1", b"[::1]:80", b"[2001:db8::1]", b"a_b-c.d"]
)
def test_a_valid_host_is_accepted(host: bytes) -> None:
    check_head(b"GET", b"/", "1.1", [(b"host", host)], SMALL)


def test_a_method_that_is_not_allowed_learns_which_are(served: Served) -> None:
    headers = dict(served.refusal(b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n").headers)
    assert headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
