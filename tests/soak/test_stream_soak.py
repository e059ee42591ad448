"""A million random deltas: `ToolCallStream` never raises, never merges two calls, and loses no text.

The oracle knows nothing of how the stream works. Every delta's text is a number of its own, so that the text of a call says
which deltas it was made of; what those deltas said of identity must fit together.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from typing import Any

from turngate.stream import CallStatus, StreamedCall, StreamResult, ToolCallDelta, ToolCallStream

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
DELTAS = 1_000_000 if SOAK else 20_000
UNBOUNDED = 1_000_000

JUNK: tuple[Any, ...] = (None, 7, "x", b"x", [], [{}], True, 1.5, object())
ODD: tuple[Any, ...] = (True, -1, 1.5, "0", "", " ", [], {}, b"a", float("nan"), 10**30)
IDS = (None, None, "a", "b", "c", "d")
NAMES = (None, None, None, "ls", "rm")
REASONS = ("complete", "complete", "error", "cancelled", "")


def is_index(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def delta(rng: random.Random, number: int) -> dict[str, Any]:
    """One delta whose text is its number; one in ten has a value of a wrong type."""
    made: dict[str, Any] = {
        "index": rng.choice((None, 0, 1, 2, 3)),
        "id": rng.choice(IDS),
        "name": rng.choice(NAMES),
        "choice": rng.choice((0, 0, 0, 1)),
        "arguments_delta": f"<{number}>",
    }
    if rng.random() < 0.1:
        made[rng.choice(("index", "id", "name", "choice"))] = rng.choice(ODD)
    return made


def streams(seed: int) -> Iterator[tuple[random.Random, list[dict[str, Any]]]]:
    """Streams of up to 300 deltas, until there are enough deltas."""
    rng, left = random.Random(seed), DELTAS
    while left > 0:
        size = min(left, rng.choice((1, 3, 10, 40, 300)))
        left -= size
        yield rng, [delta(rng, number) for number in range(size)]


def pushed(deltas: list[dict[str, Any]], rng: random.Random, **limits: Any) -> ToolCallStream:
    """The deltas pushed, as mappings and as objects, junk between them."""
    stream = ToolCallStream(**limits)
    for each in deltas:
        if rng.random() < 0.02:
            stream.push(rng.choice(JUNK))
        stream.push(each if rng.random() < 0.5 else ToolCallDelta.from_mapping(each))
    return stream


def numbers(call: StreamedCall) -> list[int]:
    """Which deltas a call is made of."""
    assert re.fullmatch(r"(<\d+>)*", call.arguments)
    return [int(number) for number in re.findall(r"\d+", call.arguments)]


def assert_one_call(call: StreamedCall, members: list[dict[str, Any]]) -> None:
    """All that the deltas of one call say fits one call."""
    ids = {each["id"] for each in members if is_word(each["id"])}
    names = {each["name"] for each in members if is_word(each["name"])}
    assert len(ids) <= 1
    assert len({each["index"] for each in members if is_index(each["index"])}) <= 1
    assert len({each["choice"] for each in members if is_index(each["choice"])}) <= 1
    assert len(names) <= 1 or call.status is CallStatus.AMBIGUOUS
    # Only a call whose identity is in doubt goes without the id that its delta brought.
    assert call.id in (ids or {None}) or (call.id is None and call.status is CallStatus.AMBIGUOUS)
    if len(members) > 1:
        # Without any identity nothing is ever appended to anything.
        assert all(is_index(each["index"]) or is_word(each["id"]) for each in members)


def test_no_random_delta_is_merged_with_another_call_or_lost() -> None:
    for rng, deltas in streams(1):
        result = pushed(deltas, rng, max_calls=UNBOUNDED).finish(rng.choice(REASONS))
        found = [numbers(call) for call in result.calls]
        for call, members in zip(result.calls, found, strict=True):
            assert members == sorted(members)
            assert_one_call(call, [deltas[number] for number in members])
        assert sorted(number for members in found for number in members) == list(range(len(deltas)))


def test_limits_keep_the_exact_beginning_and_bound_everything() -> None:
    for rng, deltas in streams(2):
        limits = {
            "max_calls": rng.randrange(6),
            "max_argument_bytes": rng.randrange(40),
            "max_diagnostics": rng.randrange(1, 9),
        }
        bounded = pushed(deltas, random.Random(0), **limits).finish()
        assert len(bounded.calls) <= limits["max_calls"]
        assert len(bounded.diagnostics) <= limits["max_diagnostics"]
        free = pushed(deltas, random.Random(0), max_calls=UNBOUNDED).finish()
        for call, whole in zip(bounded.calls, free.calls, strict=False):
            assert len(call.arguments) <= limits["max_argument_bytes"]
            cut = call.arguments != whole.arguments
            if limits["max_calls"] >= len(free.calls):
                assert whole.arguments.startswith(call.arguments)
                assert not cut or call.status in (CallStatus.TRUNCATED, CallStatus.AMBIGUOUS)


def test_the_same_deltas_give_the_same_result() -> None:
    for _, deltas in streams(3):
        results = [pushed(deltas, random.Random(7)).finish() for _ in range(2)]
        assert results[0].to_json() == results[1].to_json()
        if len(deltas) == 300 and not SOAK:
            return


def sound_turn(rng: random.Random) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Calls whose deltas carry identity in one of the ways that providers have, and their arguments by id."""
    calls: list[list[dict[str, Any]]] = []
    truth: dict[str, Any] = {}
    for number in range(rng.randrange(1, 6)):
        value = {"path": "/" * rng.randrange(9), "n": rng.randrange(10**6), "é": ["\\", "東", None]}
        truth[f"id{number}"] = value
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
        by_index, by_id = rng.choice(((True, False), (False, True), (True, True)))
        places = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(6)))
        pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        said = ({"index": number} if by_index else {}) | ({"id": f"id{number}"} if by_id else {})
        deltas: list[dict[str, Any]] = [{"arguments_delta": piece, **said} for piece in pieces]
        # The id comes once, early or late; so does the name, perhaps blank elsewhere.
        rng.choice(deltas)["id"] = f"id{number}"
        rng.choice(deltas)["name"] = f"tool{number}"
        calls.append(deltas)
    return interleaved(calls, rng), truth


def interleaved(calls: list[list[dict[str, Any]]], rng: random.Random) -> list[dict[str, Any]]:
    """All deltas, each call's in their order."""
    order = [number for number, deltas in enumerate(calls) for _ in deltas]
    rng.shuffle(order)
    left = [iter(deltas) for deltas in calls]
    return [next(left[number]) for number in order]


def test_no_sound_turn_is_refused_however_its_calls_interleave() -> None:
    rng, count = random.Random(4), 0
    while count < DELTAS:
        deltas, truth = sound_turn(rng)
        count += len(deltas)
        result: StreamResult = pushed_sound(deltas)
        assert result.executable, (deltas, result.to_json())
        assert {call.id: call.value for call in result.calls} == truth
        assert all(call.name == f"tool{str(call.id)[2:]}" for call in result.calls)


def pushed_sound(deltas: list[dict[str, Any]]) -> StreamResult:
    stream = ToolCallStream()
    for each in deltas:
        stream.push(each)
    return stream.finish()
