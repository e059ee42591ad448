from __future__ import annotations

from turngate.core.framing import BODY, JSON_ARRAY, SSE, framing_for


def test_a_reply_is_framed_as_its_media_type_says() -> None:
    assert framing_for((SSE, BODY), "text/event-stream") is SSE
    assert framing_for((SSE, BODY), "application/json") is BODY
    assert framing_for((SSE, BODY), "text/html") is None


def test_where_two_framings_share_a_media_type_the_path_decides() -> None:
    framings = (SSE, JSON_ARRAY, BODY)
    assert framing_for(framings, "application/json", "/v1/models/m:streamGenerateContent") is JSON_ARRAY
    assert framing_for(framings, "application/json", "/v1/models/m:generateContent") is BODY
    assert framing_for(framings, "text/event-stream", "/v1/models/m:streamGenerateContent") is SSE


def test_a_framing_makes_a_framer_with_the_limit_that_it_is_given() -> None:
    assert [frame.raw for frame in SSE.framer(8).receive_data(b"data: 1\n\n")] == [b"data: 1\n\n"]
    assert SSE.framer(8).receive_data(b"data: 1\n\n")[0].fault is not None
    assert BODY.framer(2).receive_data(b"{}") == []
