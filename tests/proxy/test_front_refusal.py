"""What a client is told whose request is not served."""

from __future__ import annotations

import httptools
import pytest

from tests.proxy.served import SMALL
from turngate.proxy.front_head import check_head
from turngate.proxy.front_refusal import RefusalError, refusal_of


def test_only_a_request_that_was_late_may_fare_better_when_it_is_repeated() -> None:
    late, wrong = (RefusalError(status, "code", "Why.").response([]) for status in (408, 400))
    assert b"x-should-retry" not in late
    assert b"\r\nx-should-retry: false\r\n" in wrong


def test_a_refusal_has_the_fields_of_every_response_and_its_own() -> None:
    head, _, body = (
        RefusalError(405, "code", "Why.", ((b"allow", b"GET"),))
        .response([(b"date", b"now")])
        .partition(b"\r\n\r\n")
    )
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 405 Method Not Allowed",
        b"date: now",
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"connection: close",
        b"allow: GET",
        b"x-should-retry: false",
    ]


def test_what_stopped_the_parser_is_a_check_of_ours_or_its_own_reason() -> None:
    ours = RefusalError(400, "code", "Why.")

    class Checked:
        def on_url(self, _url: bytes) -> None:
            raise ours

    with pytest.raises(httptools.HttpParserError) as caught:
        httptools.HttpRequestParser(Checked()).feed_data(b"GET / HTTP/1.1\r\n\r\n")
    assert refusal_of(caught.value) is ours
    with pytest.raises(httptools.HttpParserError) as caught:
        httptools.HttpRequestParser(object()).feed_data(b"secret\r\n\r\n")
    refusal = refusal_of(caught.value)
    assert (refusal.status, refusal.code) == (400, "malformed_request")
    assert "secret" not in str(refusal)


def test_a_refusal_repeats_nothing_of_the_request() -> None:
    with pytest.raises(RefusalError) as caught:
        check_head(b"GET", b"/secret#x", "1.1", [(b"host", b"secret")], SMALL)
    assert b"secret" not in caught.value.response([])
