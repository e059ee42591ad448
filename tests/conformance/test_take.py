"""A take waits for what its judge has seen, and gives up on what never comes."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.kit import scenario
from tests.proxy.gated import Run
from turngate.conformance.take import Take

LONG_S = 60.0
"""Longer than any test: whatever waits this long hangs the test instead."""


def take(text_patience_s: float = LONG_S, settle_s: float = LONG_S) -> Take:
    return Take(scenario("openai_chat/fragmented-json"), text_patience_s=text_patience_s, settle_s=settle_s)


def test_the_words_name_the_scenario_and_the_take() -> None:
    one = take()

    assert one.words == f"[turngate openai_chat/fragmented-json #{one.token}]"
    assert one.token != take().token


def test_text_that_is_read_lets_the_provider_go_on(run: Run) -> None:
    async def main() -> None:
        one = take()
        waiting = asyncio.create_task(one.until_text_is_read(4))
        for piece in ("ab", "", "cd"):
            await asyncio.sleep(0)
            assert not waiting.done()
            one.read_text(piece)
        await waiting
        assert not one.text_late

    run(main())


def test_text_that_never_arrives_is_late_once_and_not_waited_for_again(run: Run) -> None:
    async def main() -> None:
        one = take(text_patience_s=0.01)
        await one.until_text_is_read(1)
        assert one.text_late
        one.text_patience_s = LONG_S
        await one.until_text_is_read(2)

    run(main())


def test_a_call_before_the_proof_ends_the_wait_and_is_remembered(run: Run) -> None:
    async def main() -> None:
        one = take()
        waiting = asyncio.create_task(one.until_proof_may_be_sent(held=True))
        await asyncio.sleep(0)
        one.see_call()
        await waiting
        assert one.call_seen_early

    run(main())


@pytest.mark.parametrize("held", [True, False])
def test_a_call_after_the_proof_is_in_time(run: Run, held: bool) -> None:
    async def main() -> None:
        one = take(settle_s=0.01)
        await one.until_proof_may_be_sent(held=held)
        one.see_call()
        assert not one.call_seen_early

    run(main())


def test_nobody_waits_where_nothing_is_held_or_nobody_listens(run: Run) -> None:
    async def main() -> None:
        await take().until_proof_may_be_sent(held=False)
        await take(text_patience_s=0.0).until_text_is_read(5)

    run(main())
