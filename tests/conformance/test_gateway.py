"""The kit before real gateways: turngate has no lapse, and one that only passes bytes on is found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conformance.kit import passing_on, pin, pinned_of, playing, preset_of, scenario, scenarios
from tests.proxy.gated import Run, configured, running
from turngate.conformance.gateway import UnreachableError, judge_through, reachable_through, request_of
from turngate.conformance.lapse import LapseCode
from turngate.conformance.report import Row
from turngate.conformance.scenario import Scenario
from turngate.conformance.split import Split, read_split
from turngate.conformance.take import Take

SETTLE_S = 0.05
"""Nothing is lost by a short wait: bytes that were held too briefly arrive without their proof in other scenarios."""
PATIENCE_S = 20.0
"""Nobody waits this long: text that flows and a call that leaks end the wait at once."""
PRESETS = {name: preset_of(name) for name in dict.fromkeys(each.dialect for each in scenarios().values())}
HEADS = ("openai_chat", "openai_responses", "anthropic_messages", "mistral_chat")


async def through_turngate(
    folder: Path, preset: str, some: Sequence[Scenario], split: Split | None = None
) -> list[Row]:
    pinned = pin(folder, dict(some[0].envelope.pinned))
    async with playing() as stage:
        settings = {"preset": preset, "terminal_grace_s": 2.0}
        config = configured(folder, stage.origin, provider=settings, sections=pinned)
        async with running(config) as (_, _, port):
            return await judge_through(
                f"http://127.0.0.1:{port}/provider",
                stage.provider,
                some,
                split=split,
                settle_s=SETTLE_S,
                text_patience_s=PATIENCE_S,
            )


def told(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    return [(row.scenario.name, [lapse.message for lapse in row.lapses]) for row in rows if row.lapses]


@pytest.mark.parametrize(
    ("dialect", "split"), [*((name, "frame") for name in PRESETS), *((name, "byte") for name in HEADS[:2])]
)
def test_turngate_has_no_lapse(run: Run, tmp_path: Path, dialect: str, split: str) -> None:
    async def main() -> None:
        preset = PRESETS[dialect]
        reachable = reachable_through(list(scenarios().values()), preset, pinned_of(dialect))
        fit = [each for each in reachable if each.dialect == dialect]
        assert fit
        assert told(await through_turngate(tmp_path, preset, fit, read_split(split))) == []

    run(main())


@pytest.mark.parametrize("dialect", HEADS)
def test_turngate_has_no_lapse_wherever_a_sound_turn_is_cut(run: Run, tmp_path: Path, dialect: str) -> None:
    async def main() -> None:
        whole = scenario(f"{dialect}/fragmented-json")
        cut = [whole.cut_at(count) for count in range(1, len(whole.envelope.pieces))]
        assert told(await through_turngate(tmp_path, PRESETS[dialect], cut)) == []

    run(main())


@pytest.mark.parametrize("dialect", HEADS)
def test_a_gateway_that_passes_bytes_on_as_they_come_is_found_out(run: Run, dialect: str) -> None:
    async def main() -> None:
        some = [each for each in scenarios().values() if each.dialect == dialect and not each.disputable]
        async with playing() as stage, passing_on(int(stage.origin.rpartition(":")[2])) as gateway:
            rows = await judge_through(gateway, stage.provider, some, settle_s=PATIENCE_S)
        counts = Counter(code for row in rows for code in set(row.codes))
        with_call = sum(each.executable and each.envelope.streamed for each in some)
        assert counts[LapseCode.CALL_BEFORE_PROOF] >= with_call
        assert counts[LapseCode.UNPROVED_CALL] > 40
        assert not any(row.failed for row in rows if row.scenario.textual)

    run(main())


def test_a_request_that_never_reaches_the_provider_ends_the_run(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with playing() as stage:
            config = configured(tmp_path, "http://127.0.0.1:1")
            async with running(config) as (_, _, port):
                with pytest.raises(UnreachableError, match="the provider was not asked: HTTP 502"):
                    await judge_through(
                        f"http://127.0.0.1:{port}/provider",
                        stage.provider,
                        [scenario("openai_chat/text-only")],
                    )

    run(main())


def test_the_request_is_the_fixtures_own_with_the_words_of_the_take() -> None:
    take = Take(scenario("openai_chat/fragmented-json"))

    asked, own = request_of(take, "other"), take.scenario.envelope.request
    assert own is not None
    assert take.words.encode() in asked
    assert b'"model":"other"' in asked
    assert asked.count(b'"name"') == own.count(b'"name"')


def test_the_words_of_a_take_leave_the_tools_in_an_envelope() -> None:
    take = Take(scenario("gemini_code_assist/fragmented-json"))

    asked, own = request_of(take), take.scenario.envelope.request
    assert own is not None
    assert take.words.encode() in asked
    assert b'"project":"p"' in asked
    assert asked.count(b'"name"') == own.count(b'"name"') > 0


def test_a_request_that_goes_on_after_another_turn_is_none_to_begin_with() -> None:
    names = scenarios()
    assert "openai_assistants/renamed-tool.undeclared" in names
    assert "openai_assistants/renamed-tool.second-action" not in names


def test_what_a_preset_does_not_mean_is_not_played() -> None:
    everything = list(scenarios().values())

    strict = {each.dialect for each in reachable_through(everything, "strict")}
    assert {"openai_chat", "anthropic_messages"} <= strict
    assert "mistral_chat" not in strict
    assert "mistral_chat" in {each.dialect for each in reachable_through(everything, "mistral")}
    assert not any(each.disputable for each in reachable_through(everything, "strict"))
    assert "vercel_ui" not in {each.dialect for each in reachable_through(everything, "vercel-ui")}
    pinned = reachable_through(everything, "vercel-ui", pinned_of("vercel_ui"))
    assert {each.dialect for each in pinned} == {"vercel_ui"}
