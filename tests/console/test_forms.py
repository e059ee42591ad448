"""What a browser sends, read strictly."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from turngate.console.forms import Seal, check_origin, cookie, is_encrypted, read_fields, set_cookie
from turngate.operator.problem import ProblemError

VALUE = "v" * 43


def scope(scheme: str = "http", **headers: str) -> dict[str, Any]:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"scheme": scheme, "headers": fields}


def test_a_form_token_belongs_to_one_cookie_of_one_process() -> None:
    seal, other = Seal(), Seal()
    mine = seal.of("cookie")
    seal.check("cookie", mine)
    for cookie_value, presented in (
        ("another", mine),
        ("cookie", ""),
        ("cookie", other.of("cookie")),
        (None, mine),
    ):
        with pytest.raises(ProblemError, match="not from an open page"):
            seal.check(cookie_value, presented)


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (f"turngate_session={VALUE}", VALUE),
        (f"other=1; turngate_session={VALUE}; more=2", VALUE),
        ("turngate_session=short", None),
        (f"turngate_session={VALUE}.", None),
        (f"xturngate_session={VALUE}", None),
        ("turngate_session", None),
        ("=;;,", None),
        ("", None),
    ],
)
def test_a_cookie_is_taken_only_in_the_shape_that_it_was_given(sent: str, found: str | None) -> None:
    assert cookie(scope(cookie=sent), "turngate_session") == found


def test_a_cookie_that_is_set_is_for_this_site_alone() -> None:
    name, value = set_cookie("c", "v", secure=True)
    assert (name, value) == (b"set-cookie", b"c=v; Path=/console/; HttpOnly; SameSite=Strict; Secure")


@pytest.mark.parametrize(
    ("sent", "is_own"),
    [
        (scope(host="h:1", origin="http://h:1"), True),
        (scope(host="h:1", origin="https://h:1"), True),
        (scope("https", host="h:1", origin="https://h:1"), True),
        (scope("https", host="h:1", origin="http://h:1"), False),
        (scope(host="h:1", origin="http://h:2"), False),
        (scope(host="h:1", origin="null"), False),
        (scope(host="h:1"), False),
        (scope(host="h:1", origin="http://h:1", sec_fetch_site="same-origin"), True),
        (scope(host="h:1", origin="http://h:1", sec_fetch_site="cross-site"), False),
    ],
)
def test_only_this_sites_own_pages_are_believed(sent: dict[str, Any], is_own: bool) -> None:
    expected = contextlib.nullcontext() if is_own else pytest.raises(ProblemError, match="not sent by a page")
    with expected:
        check_origin(sent)


def test_tls_in_front_of_the_listener_counts_as_tls() -> None:
    assert is_encrypted(scope("https"))
    assert is_encrypted(scope(origin="https://gate.example"))
    assert not is_encrypted(scope(origin="http://gate.example"))
    assert not is_encrypted(scope())


def test_fields_left_empty_are_left_out_and_unreadable_ones_are_refused() -> None:
    assert read_fields(b"a=1&b=&c=%20&d=x+y%26") == {"a": "1", "d": "x y&"}
    assert read_fields(b"") == {}
    for wrong in (b"a=1&a=2", b"a", b"a=%ff", b"\xff=1", b"&".join(b"f%d=1" % n for n in range(40))):
        with pytest.raises(ProblemError):
            read_fields(wrong)
