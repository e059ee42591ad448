"""A turn of Anthropic's: text, one call, and the reason that lets it go."""

from __future__ import annotations

from typing import Any

from tests.dialects.wire import TEXT, Judged, block, judge, message_end, message_start, part, tool_use, words

SPOKEN = message_start() + block(0, TEXT, words(0))
CALL = block(1, tool_use(), part(1, ""), part(1, '{"p":'), part(1, '"/"}'))
END = message_end("tool_use")


def judged(data: bytes, **more: Any) -> Judged:
    return judge("anthropic_messages", data, **more)


def assert_released(middle: bytes, arguments: str) -> None:
    """Behind text, this leaves byte for byte, with one call of these arguments."""
    sent = SPOKEN + middle + END
    turn = judged(sent)
    assert (turn.outcome, turn.codes) == ("released", set())
    assert turn.passed + turn.released == sent
    assert [call[2] for call in turn.calls] == [arguments]


def assert_blocked(middle: bytes, code: str) -> None:
    """Behind text, nothing of this is released, for this reason among others."""
    turn = judged(SPOKEN + middle + END)
    assert turn.outcome == "blocked"
    assert code in turn.codes
    assert turn.released == b""
    assert b"tool_use" not in turn.passed
    assert turn.told.startswith(b"event: error\n")
