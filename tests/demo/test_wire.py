from __future__ import annotations

import json
from typing import Any

import pytest

from turngate.demo.turns import TURNS, Tool
from turngate.demo.wire import ChatWire, MessagesWire, MistralWire, Wire, gather

TOOLS = (Tool("write_file", {"properties": {"path": {"type": "string"}}}),)


def events(wire: Wire, name: str) -> list[Any]:
    """The JSON of every event, without the sentinel."""
    blocks = [block for step in TURNS[name].script(TOOLS) for block in wire.render(step)]
    datas = [block.partition(b"data: ")[2] for block in blocks]
    return [json.loads(data) for data in datas if not data.startswith(b"[DONE]")]


@pytest.mark.parametrize(
    "wire", [ChatWire("m"), MistralWire("m"), MessagesWire("m")], ids=["chat", "mistral", "messages"]
)
@pytest.mark.parametrize("name", TURNS)
def test_every_event_is_one_sse_block(wire: Wire, name: str) -> None:
    for step in TURNS[name].script(TOOLS):
        for block in wire.render(step):
            assert block.endswith(b"\n\n")
            assert block.count(b"\n\n") == 1


def test_mistral_sends_a_whole_call_without_index_in_the_chunk_with_the_reason() -> None:
    (last,) = [
        chunk["choices"][0]
        for chunk in events(MistralWire("m"), "demo")
        if chunk["choices"][0]["finish_reason"]
    ]

    (call,) = last["delta"]["tool_calls"]
    assert "index" not in call
    assert json.loads(call["function"]["arguments"]) == {"path": "demo path"}
    assert last["finish_reason"] == "tool_calls"


def test_mistral_sends_what_it_has_before_a_cut() -> None:
    last = events(MistralWire("m"), "demo-cut")[-1]["choices"][0]

    assert last["finish_reason"] is None
    assert len(last["delta"]["tool_calls"]) == 1


def test_a_splice_begins_a_second_response_in_the_same_stream() -> None:
    chat = {chunk["id"] for chunk in events(ChatWire("m"), "demo-splice")}
    messages = [
        event for event in events(MessagesWire("m"), "demo-splice") if event["type"] == "message_start"
    ]

    assert len(chat) == 2
    assert len({event["message"]["id"] for event in messages}) == 2


def test_a_collision_puts_two_ids_on_one_index() -> None:
    entries = [
        entry
        for chunk in events(ChatWire("m"), "demo-collision")
        for entry in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]

    assert {entry["index"] for entry in entries} == {0}
    assert len({entry["id"] for entry in entries if "id" in entry}) == 2


def test_call_ids_differ_within_a_turn() -> None:
    whole = ChatWire("m").whole(gather(TURNS["demo-parallel"].script(TOOLS)))

    calls = whole["choices"][0]["message"]["tool_calls"]
    assert len({call["id"] for call in calls}) == 2
