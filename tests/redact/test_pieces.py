from __future__ import annotations

import json
from typing import Any

from turngate.core.frame import Frame
from turngate.redact.pieces import redact_path, redact_pieces
from turngate.redact.placeholder import Texts
from turngate.redact.vocabulary import vocabulary


def frames(*values: Any) -> list[Frame]:
    return [Frame(data, data) for data in (json.dumps(value).encode() for value in values)]


def partial(text: str, path: str = "$.city", *, goes_on: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": text, "willContinue": goes_on}


def test_the_pieces_of_a_value_are_one_text() -> None:
    texts = Texts(vocabulary())
    found = redact_pieces(frames([partial("Pa", goes_on=True)], {"x": partial("ris")}), texts)
    assert [old for pieces in found.values() for old, _ in pieces] == ["Pa", "ris"]
    assert "".join(new for pieces in found.values() for _, new in pieces) == texts("Paris")


def test_values_at_other_paths_and_in_other_candidates_are_other_texts() -> None:
    texts = Texts(vocabulary())
    two = [{"index": number, "parts": [partial("Pa", goes_on=True)]} for number in (0, 1)]
    rest = [
        {"index": 0, "parts": [partial("ris")]},
        {"index": 1, "parts": [partial("rma"), partial("x", "$.b")]},
    ]
    found = redact_pieces(frames(two, rest), texts)
    (_, first), (_, second) = found[0]
    (_, end), (_, other_end), (_, single) = found[1]
    assert (first + end, second + other_end, single) == (texts("Paris"), texts("Parma"), texts("x"))


def test_a_value_that_is_over_is_not_continued() -> None:
    texts = Texts(vocabulary())
    found = redact_pieces(frames(partial("one"), partial("two")), texts)
    assert [new for pieces in found.values() for _, new in pieces] == [texts("one"), texts("two")]


def test_the_deltas_of_a_text_are_one_text_by_its_indexes() -> None:
    texts = Texts(vocabulary())
    deltas = [
        {
            "type": "response.shell_call_command.delta",
            "output_index": 0,
            "command_index": index,
            "delta": text,
        }
        for index, text in ((0, "l"), (1, "pw"), (0, "s"), (1, "d"))
    ]
    found = redact_pieces(frames(*deltas), texts)
    made = [new for number in range(4) for _, new in found[number]]
    assert (made[0] + made[2], made[1] + made[3]) == (texts("ls"), texts("pwd"))


def test_frames_without_pieces_have_none() -> None:
    assert redact_pieces(frames({"type": "text", "delta": "x"}, [1]), Texts(vocabulary())) == {}
    assert redact_pieces([Frame(b'{"jsonPath"', b'{"jsonPath"'), Frame(b": x")], Texts(vocabulary())) == {}


def test_a_path_keeps_its_steps() -> None:
    texts = Texts(vocabulary())
    assert redact_path("$.city[0].name", texts) == f"$.{texts('city')}[0].{texts('name')}"
