from __future__ import annotations

import pytest

from turngate.transport.errors import MalformedHeadError, UpgradeRefusedError
from turngate.transport.framing import Framing, response_framing

LENGTH = (b"Content-Length", b"5")
CHUNKED = (b"Transfer-Encoding", b"chunked")


@pytest.mark.parametrize(
    ("method", "status", "headers", "framing"),
    [
        (b"GET", 200, [LENGTH], Framing.LENGTH),
        (b"GET", 200, [(b"transfer-encoding", b" Chunked ")], Framing.CHUNKED),
        (b"GET", 200, [], Framing.UNTIL_CLOSE),
        (b"HEAD", 200, [LENGTH], Framing.NO_BODY),
        (b"GET", 204, [], Framing.NO_BODY),
        (b"GET", 304, [LENGTH], Framing.NO_BODY),
    ],
)
def test_each_framing_is_recognised(
    method: bytes, status: int, headers: list[tuple[bytes, bytes]], framing: Framing
) -> None:
    assert response_framing(method, status, "1.1", headers) is framing


@pytest.mark.parametrize(
    "headers",
    [
        [LENGTH, CHUNKED],
        [LENGTH, (b"content-length", b"6")],
        [LENGTH, LENGTH],
        [(b"Content-Length", b"5, 5")],
        [(b"Content-Length", b"-5")],
        [(b"Content-Length", b"")],
        [(b"Transfer-Encoding", b"xchunked")],
        [(b"Transfer-Encoding", b"gzip, chunked")],
        [(b"Transfer-Encoding", b"identity")],
        [CHUNKED, CHUNKED],
    ],
)
def test_a_length_that_two_readers_could_judge_differently_is_refused(
    headers: list[tuple[bytes, bytes]],
) -> None:
    with pytest.raises(MalformedHeadError):
        response_framing(b"GET", 200, "1.1", headers)


def test_http_1_0_has_no_chunks() -> None:
    with pytest.raises(MalformedHeadError):
        response_framing(b"GET", 200, "1.0", [CHUNKED])


def test_another_major_version_on_this_wire_is_refused() -> None:
    with pytest.raises(MalformedHeadError):
        response_framing(b"GET", 200, "2.0", [LENGTH])


def test_switching_protocols_is_refused() -> None:
    with pytest.raises(UpgradeRefusedError):
        response_framing(b"GET", 101, "1.1", [])
