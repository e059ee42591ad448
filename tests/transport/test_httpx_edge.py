from __future__ import annotations

import httpx2
import pytest

from turngate.transport import errors
from turngate.transport.head import Origin, Timeouts
from turngate.transport.httpx_edge import from_httpx, head_of, timeouts_of, to_httpx


def test_a_request_keeps_its_headers_and_its_own_target() -> None:
    request = httpx2.Request(
        "GET",
        "https://api.example.test/ignored",
        headers=[(b"X-A", b"1"), (b"x-a", b"2")],
        extensions={"target": b"/a%2Fb/%2e%2e/c?x=+&&"},
    )
    head = head_of(request)
    assert (head.method, head.origin, head.target) == (
        b"GET",
        Origin("https", "api.example.test", 443),
        b"/a%2Fb/%2e%2e/c?x=+&&",
    )
    assert [header for header in head.headers if header[0].lower() == b"x-a"] == [
        (b"X-A", b"1"),
        (b"x-a", b"2"),
    ]


def test_no_timeout_means_none() -> None:
    assert timeouts_of(httpx2.Request("GET", "http://h/")) == Timeouts(0, 0, 0)
    extension = {"timeout": httpx2.Timeout(3, connect=1).as_dict()}
    assert timeouts_of(httpx2.Request("GET", "http://h/", extensions=extension)) == Timeouts(1, 3, 3)


@pytest.mark.parametrize("kind", errors.UpstreamError.__subclasses__())
def test_every_error_has_an_httpx2_form(kind: type[errors.UpstreamError]) -> None:
    assert isinstance(to_httpx(kind()), httpx2.TransportError)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (httpx2.ConnectTimeout("x"), errors.ConnectTimeoutError),
        (httpx2.PoolTimeout("x"), errors.ConnectTimeoutError),
        (httpx2.ReadTimeout("x"), errors.FirstByteTimeoutError),
        (httpx2.WriteTimeout("x"), errors.WriteTimeoutError),
        (httpx2.ProxyError("x"), errors.ProxyFailedError),
        (httpx2.ConnectError("x"), errors.ConnectFailedError),
        (httpx2.ReadError("x"), errors.ResetBeforeHeadError),
        (httpx2.WriteError("x"), errors.ResetBeforeHeadError),
        (httpx2.LocalProtocolError("x"), errors.InvalidRequestError),
        (httpx2.RemoteProtocolError("x"), errors.MalformedHeadError),
    ],
)
def test_every_httpx2_error_has_a_reason(
    theirs: httpx2.TransportError, ours: type[errors.UpstreamError]
) -> None:
    assert type(from_httpx(theirs)) is ours
