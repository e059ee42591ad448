"""A listener hears text, calls, errors and the end, however the bytes are cut."""

from __future__ import annotations

import pytest

from tests.conformance.kit import scenario
from turngate.conformance.listener import Listener, listened
from turngate.conformance.observation import SeenCall
from turngate.conformance.split import read_split
from turngate.dialects.base import sse

SOUND, TEXT = "openai_chat/fragmented-json", "anthropic_messages/text-only"


@pytest.mark.parametrize("split", ["whole", "frame", "byte", "random:5"])
def test_the_cut_makes_no_difference(split: str) -> None:
    listener = Listener(scenario(SOUND))
    for piece in read_split(split).pieces(scenario(SOUND).envelope.pieces):
        listener.hear(piece)
    listener.hear_the_end()

    assert listener.calls == [SeenCall("call_1", "weather", '{"city":"Paris"}')]
    assert (listener.ended, listener.fault, listener.carries_call) == (True, None, True)
    assert listener.is_reply(listened(scenario(SOUND)))


def test_text_is_heard_as_it_arrives() -> None:
    listener = Listener(scenario(TEXT))
    heard = [listener.hear(piece) for piece in scenario(TEXT).envelope.pieces]

    assert "".join(heard) == listener.text != ""
    assert not listener.carries_call


def test_a_call_is_heard_with_its_first_frame() -> None:
    listener = Listener(scenario(SOUND))
    carried = []
    for piece in scenario(SOUND).envelope.pieces:
        listener.hear(piece)
        carried.append(listener.carries_call)

    assert carried == [False, *[True] * (len(carried) - 1)]


def test_bytes_that_must_be_held_count_even_if_nobody_could_read_a_call() -> None:
    broken = scenario("openai_chat/truncation.in-name")
    listener = Listener(broken)
    listener.hear(broken.body)
    listener.hear_the_end()

    assert listener.carries_call


@pytest.mark.parametrize("name", [SOUND, TEXT])
def test_an_error_in_any_form_is_heard(name: str) -> None:
    listener = Listener(scenario(name))
    listener.hear(sse({"error": {"message": "no"}}))

    assert listener.fault is not None
    assert not listener.ended


def test_keep_alives_and_what_follows_the_end_do_not_count_as_the_reply() -> None:
    listener = Listener(scenario(SOUND))
    for piece in scenario(SOUND).envelope.pieces:
        listener.hear(b": wait\n\n" + piece)
    listener.hear(b"data: more\n\n")

    assert listener.is_reply(listened(scenario(SOUND)))


def test_text_may_overtake_a_call_and_nothing_else_may_change_its_place() -> None:
    turn = scenario("openai_chat/text-after-tool")
    call, text, *rest = turn.envelope.pieces

    def is_reply(*frames: bytes) -> bool:
        listener = Listener(turn)
        listener.hear(b"".join(frames))
        return listener.is_reply(listened(turn))

    assert is_reply(text, call, *rest)
    assert not is_reply(call, *rest)
    assert not is_reply(call, text, text, *rest)
    assert not is_reply(text, rest[0], call, *rest[1:])
    assert not is_reply(text, call.replace(b"Paris", b"London"), *rest)
