from __future__ import annotations

from turngate.core.body import BodyFramer
from turngate.core.frame import Frame, FrameFault


def test_a_body_is_one_frame_given_at_its_end() -> None:
    framer = BodyFramer(10)
    assert framer.receive_data(b"{") == framer.receive_data(b"}") == []
    assert framer.receive_eof() == [Frame(b"{}", b"{}")]


def test_an_empty_body_is_no_frame() -> None:
    assert BodyFramer(10).receive_eof() == []


def test_a_body_past_the_limit_comes_out_whole_and_unread() -> None:
    framer = BodyFramer(3)
    assert framer.receive_data(b"abc") == []
    assert framer.receive_data(b"d") == [Frame(b"abcd", fault=FrameFault.OVERSIZED)]
    assert framer.receive_data(b"e") == [Frame(b"e", fault=FrameFault.OVERSIZED)]
    assert framer.receive_eof() == []


def test_a_body_that_is_not_utf8_carries_a_fault() -> None:
    framer = BodyFramer(10)
    framer.receive_data(b'"\xff"')
    assert framer.receive_eof() == [Frame(b'"\xff"', b'"\xff"', fault=FrameFault.ENCODING)]
