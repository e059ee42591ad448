"""Base URLs: the only place where an origin is chosen."""

from __future__ import annotations

import pytest

from turngate.config.base_url import base_url, is_loopback
from turngate.transport.head import Origin


@pytest.mark.parametrize(
    ("text", "origin", "path"),
    [
        ("https://api.example.com", Origin("https", "api.example.com", 443), b""),
        ("https://api.example.com/", Origin("https", "api.example.com", 443), b""),
        ("http://127.0.0.1:9000/base/", Origin("http", "127.0.0.1", 9000), b"/base"),
        ("https://[::1]:8/a%20b", Origin("https", "::1", 8), b"/a%20b"),
        ("HTTPS://API.Example.com", Origin("https", "api.example.com", 443), b""),
    ],
)
def test_a_base_url_is_an_origin_and_a_path(text: str, origin: Origin, path: bytes) -> None:
    read = base_url(text)
    assert (read.origin, read.path, read.is_demo) == (origin, path, False)


def test_demo_stands_for_the_bundled_provider() -> None:
    assert base_url("demo:").is_demo


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1, "must be text"),
        ("", "must be an http or https URL"),
        ("api.example.com", "must be an http or https URL"),
        ("ftp://api.example.com", "must be an http or https URL"),
        ("https://", "must be an http or https URL"),
        ("https://a.example:0", "must be an http or https URL"),
        ("https://a.example:99999", "is no URL"),
        ("https://[::1", "is no URL"),
        ("https://key@a.example", "must have no credentials"),
        ("https://@a.example", "must have no credentials"),
        ("https://a.example?key=1", "must have no credentials"),
        ("https://a.example/#x", "must have no credentials"),
        ("https://a.example/\n.evil.example", "must be plain ASCII"),
        ("https://a.example\\@evil.example", "must be plain ASCII"),
        ("https://münchen.example", "must be plain ASCII"),
        (" https://a.example", "must be plain ASCII"),
    ],
)
def test_a_url_that_could_be_read_in_two_ways_is_refused(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        base_url(value)


@pytest.mark.parametrize(
    ("host", "near"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("127.evil.example", "localhost.evil.example", "10.0.0.1", "::2")],
)
def test_only_this_machine_is_loopback(host: str, near: bool) -> None:
    assert is_loopback(host) is near
