"""Several choices in one chat turn: OpenAI's helper keeps them by position, so it must meet 0, 1, 2 in this order."""

from __future__ import annotations

from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from tests.dialects.wire import judge
from tests.sdk.sdks import CLIENTS
from tests.sdk.stage import Stage, stream
from tests.sdk.wires import TEXT, WIRES, Call, sse
from turngate.core.policy import OnBlock, TurnPolicy

WIRE = WIRES["openai_chat"]
BAD = Call('{"to": 1}')
FILTER_RESULTS = sse({**WIRE.base, "choices": [], "prompt_filter_results": []})
"""What Azure sends first: a chunk without any choice."""

NOTICED: dict[str, tuple[list[bytes], dict[int, str], set[int]]] = {
    "another choice had ended": (
        [
            WIRE.text(),
            WIRE.text(choice=1),
            WIRE.finish("natural"),
            WIRE.calls([BAD], 1),
            WIRE.finish(choice=1),
        ],
        {0: TEXT, 1: TEXT},
        {1},
    ),
    "both were open": (
        [WIRE.text(), WIRE.text(choice=1), WIRE.calls([BAD]), WIRE.calls([BAD], 1)],
        {0: TEXT, 1: TEXT},
        {0, 1},
    ),
    "the second was not shown yet": (
        [WIRE.text(), WIRE.calls([BAD], 1), WIRE.finish(choice=1)],
        {0: TEXT},
        {0, 1},
    ),
    "the second was not shown, and the first had ended": (
        [WIRE.text(), WIRE.finish("natural"), WIRE.calls([BAD], 1), WIRE.finish(choice=1)],
        {0: TEXT},
        {1},
    ),
    "none was shown": ([FILTER_RESULTS, WIRE.calls([BAD]), WIRE.calls([BAD], 1)], {}, {0, 1}),
    "none was shown, and there is no first": ([FILTER_RESULTS, WIRE.calls([BAD], 1)], {}, {0}),
    "the only one had ended": ([WIRE.text(), WIRE.finish("natural"), WIRE.calls([BAD])], {0: TEXT}, {0}),
}
"""What the provider sends; what each choice said before; which choices the notice is told in."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", ["raw", "helper"])
@pytest.mark.parametrize("case", NOTICED)
def test_a_quiet_notice_ends_the_choices_that_are_open_for_the_client_and_no_other(
    stage: Stage, case: str, way: str, client: str
) -> None:
    async def main() -> None:
        sent, said, told = NOTICED[case]
        seen = await stage.ask("openai_chat", way, stream(*sent, WIRE.done), "notice", client=client)
        assert seen.error is None
        assert seen.calls == []
        assert seen.endings == dict.fromkeys([*said, *told], "stop")
        for choice, text in seen.texts.items():
            before = said.get(choice, "")
            assert text.startswith(before)
            assert ("turngate did not release this turn" in text[len(before) :]) is (choice in told)
        assert seen.texts.keys() >= told

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", ["raw", "helper"])
def test_text_of_a_later_choice_does_not_overtake_the_held_start_of_an_earlier_one(
    stage: Stage, way: str, client: str
) -> None:
    async def main() -> None:
        held = WIRE.calls([Call()])
        parts = stream(held, WIRE.text(choice=1), WIRE.finish(), WIRE.finish("natural", choice=1), WIRE.done)
        seen = await stage.ask("openai_chat", way, parts, n=2, client=client)
        assert seen.error is None
        assert [(call.choice, call.id) for call in seen.calls] == [(0, Call().id)]
        assert seen.texts == {1: TEXT}
        assert seen.endings == {0: "tool_calls", 1: "stop"}

    stage.run(main())


ROLE = {"role": "assistant"}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
ENTRY = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "rm", "arguments": "{"}}


@pytest.mark.parametrize(
    ("deltas", "more"),
    [
        pytest.param(
            [{**ROLE, "content": ""}, {"tool_calls": [ENTRY]}, {"content": "a"}], {}, id="role first"
        ),
        pytest.param([{**ROLE, "tool_calls": [ENTRY]}, {"content": "a"}], {}, id="role held"),
        pytest.param(
            [{**ROLE, "tool_calls": [ENTRY]}, {"content": "a"}], {"x": 1}, id="role held, odd chunks"
        ),
        pytest.param([{**ROLE, "tool_calls": [ENTRY]}], {}, id="nothing shown"),
    ],
)
def test_the_helper_reads_one_role_whatever_text_has_overtaken(
    deltas: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    chunks = [
        {**CHUNK, **more, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    sent = b"".join(map(sse, chunks))
    turn = judge("openai_chat", sent, policy=TurnPolicy(on_block=OnBlock.NOTICE))
    state = ChatCompletionStreamState[None]()
    for block in (turn.passed + turn.told).decode().split("\n\n"):
        if "{" in block:
            state.handle_chunk(ChatCompletionChunk.model_validate_json(block.removeprefix("data: ")))
    message = state.get_final_completion().choices[0].message
    assert (turn.outcome, message.role, message.tool_calls) == ("blocked", "assistant", None)
