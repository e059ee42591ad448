"""What templates show of what they are given."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from turngate.console.rendering import exact, lasting, query, render, utc, visible, words
from turngate.operator.problem import ProblemError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("send_mail", "send_mail"),
        ("senden äöü 送信 שלח", "senden äöü 送信 שלח"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb\u2066c\u061cd\u00ade", "a\\u200bb\\u2066c\\u061cd\\xade"),
        ("a\x00\n\x7f\x9fb", "a\\x00\\n\\x7f\\x9fb"),
        ("a\ud800b", "a\\ud800b"),
    ],
)
def test_what_a_browser_would_hide_or_obey_is_spelt_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_nothing_is_shown_as_nothing_and_markup_of_ours_stays() -> None:
    assert visible(None) == ""
    assert visible(Markup("<b>\u202e</b>")) == Markup("<b>\u202e</b>")
    assert visible(7) == 7


def test_every_page_escapes_what_it_shows() -> None:
    problem = ProblemError("invalid_request", "<script>\u202e&\"'")
    page = render("problem.html", me=None, problem=problem).decode()
    assert "&lt;script&gt;\\u202e&amp;&#34;&#39;" in page
    assert "\u202e" not in page


def test_a_field_that_is_sent_back_keeps_its_text_and_stays_a_field() -> None:
    assert exact('"><b>\u202e') == Markup("&#34;&gt;&lt;b&gt;\u202e")
    assert exact(None) == Markup()
    assert query({"tool": "a&b=\u202e"}, before="x") == "tool=a%26b%3D%E2%80%AE&before=x"
    assert query({"tool": "\ud800"}) == "tool=%3F"


def test_times_and_codes_are_for_people() -> None:
    assert utc(0.0) == "1970-01-01 00:00:00"
    assert utc(None) == ""
    assert [lasting(each) for each in (0.0124, 1.25, 600, 36000)] == ["12 ms", "1.2 s", "10 min", "10.0 h"]
    assert words("stopped_by_operator") == "stopped by operator"
