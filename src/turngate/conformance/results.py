"""The bundled results: what each pinned client and gateway did with each scenario, and the tables made of them.

`results.json` lies beside this file and is written by `make conformance`. A cell is the codes of the lapses, in the order found; a row
that is not there was not played to that column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import msgspec

from turngate.conformance.lapse import WEIGHTS, LapseCode, Weight
from turngate.conformance.report import Row

encode = msgspec.json.encode

FILE = Path(str(resources.files("turngate.conformance"))) / "results.json"


@dataclass(frozen=True, slots=True)
class Subject:
    """One client or gateway, as it was measured."""

    name: str
    versions: str
    settings: str
    columns: list[str]
    """Each way of using it."""


@dataclass(slots=True)
class Scene:
    """One scenario, as it was when it was played."""

    title: str
    outcome: str
    codes: list[str]
    cells: dict[str, list[LapseCode]] = field(default_factory=dict)


@dataclass(slots=True)
class Results:
    """One measurement."""

    measured: str
    """The day."""
    subjects: list[Subject] = field(default_factory=list)
    scenes: dict[str, Scene] = field(default_factory=dict)

    def add(self, subject: Subject, rows: Iterable[tuple[str, Row]]) -> None:
        """Add what a subject did, in place of what it did before; each row with its column.

        What others did with a scenario that has changed since says nothing any more.
        """
        self._forget(subject.name)
        self.subjects.append(subject)
        for column, row in rows:
            expect = row.scenario.expect
            now = Scene(row.scenario.envelope.title, str(expect.outcome), sorted(expect.codes))
            scene = self.scenes.get(row.scenario.name, now)
            same = (scene.title, scene.outcome, scene.codes) == (now.title, now.outcome, now.codes)
            self.scenes[row.scenario.name] = scene if same else now
            self.scenes[row.scenario.name].cells[column] = list(row.codes)

    def _forget(self, name: str) -> None:
        for subject in [each for each in self.subjects if each.name == name]:
            self.subjects.remove(subject)
            for scene in self.scenes.values():
                for column in subject.columns:
                    scene.cells.pop(column, None)
        self.scenes = {name: scene for name, scene in self.scenes.items() if scene.cells}


def load_results(file: Path = FILE) -> Results:
    """The bundled results, or those of another file."""
    return msgspec.json.decode(file.read_bytes(), type=Results)


def write_results(results: Results, file: Path = FILE) -> None:
    """Write results with a scenario a line, so that a difference can be read."""
    lines = [encode(name) + b": " + encode(scene) for name, scene in sorted(results.scenes.items())]
    head = b'{"measured": ' + encode(results.measured) + b', "subjects": ' + encode(results.subjects)
    file.write_bytes(head + b', "scenes": {\n' + b",\n".join(lines) + b"\n}}\n")


_WORDS: Sequence[tuple[frozenset[LapseCode], str]] = (
    (frozenset({LapseCode.UNPROVED_CALL, LapseCode.CALL_BEFORE_PROOF}), "**ran early**"),
    (frozenset({LapseCode.UNPROVED_CALL}), "**ran**"),
    (frozenset({LapseCode.CALL_INVENTED}), "**ran another**"),
    (frozenset({LapseCode.CALL_REPEATED}), "**ran twice**"),
    (frozenset({LapseCode.CALL_CHANGED}), "**changed**"),
    (frozenset({LapseCode.CALL_LOST}), "lost"),
    (frozenset({LapseCode.SOUND_TURN_REFUSED}), "refused"),
    (frozenset({LapseCode.HUNG}), "hung"),
    (frozenset({LapseCode.BLOCK_NOT_TOLD}), "just ends"),
    (frozenset({LapseCode.TEXT_CHANGED}), "text changed"),
    (frozenset({LapseCode.TEXT_DELAYED}), "text late"),
    (frozenset({LapseCode.CALL_BEFORE_PROOF}), "early"),
    (frozenset({LapseCode.ASKED_AGAIN}), "asks again"),
    (frozenset({LapseCode.NOT_ASKED}), "n/a"),
    (frozenset({LapseCode.QUIET_END}), "quiet"),
    (frozenset({LapseCode.BYTES_CHANGED}), "rewritten"),
)
"""The first that fits is the word of a cell."""


def word(codes: Sequence[LapseCode] | None) -> str:
    """What a cell says."""
    if codes is None:
        return ""
    return next((text for these, text in _WORDS if these.issubset(codes)), "ok")


_OF_ARGUMENTS = frozenset(
    {"unknown_tool", "duplicate_argument_key", "arguments_not_object", "schema_violation", "schema_enum"}
    | {"schema_type", "schema_required", "schema_additional_property", "copies_disagree"}
)


def section_of(scene: Scene) -> str:
    """Under which heading a scenario stands."""
    if scene.outcome != "blocked":
        return "Sound turns"
    return (
        "Complete turns with wrong arguments" if _OF_ARGUMENTS.issuperset(scene.codes) else "Unproved turns"
    )


SECTIONS = ("Unproved turns", "Complete turns with wrong arguments", "Sound turns")


def tables(results: Results) -> Iterator[str]:
    """The whole measurement in Markdown, a line each."""
    yield from _subjects(results)
    for dialect in sorted({name.partition("/")[0] for name in results.scenes}):
        scenes = {name: each for name, each in results.scenes.items() if name.startswith(f"{dialect}/")}
        columns = [
            column
            for subject in results.subjects
            for column in subject.columns
            if any(column in scene.cells for scene in scenes.values())
        ]
        made = [
            line
            for section in SECTIONS
            for line in _table(
                section, columns, {name: each for name, each in scenes.items() if section_of(each) == section}
            )
        ]
        if made:
            yield from (f"## {dialect}", "", *made)


def _subjects(results: Results) -> Iterator[str]:
    yield "| what | versions | settings |"
    yield "| --- | --- | --- |"
    for subject in results.subjects:
        yield f"| {subject.name} | {subject.versions} | {subject.settings} |"
    yield ""
    yield "| column | unproved turns | run or passed on | early | wrong arguments | run or passed on | sound turns | not as they were, or early |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for subject in results.subjects:
        for column in subject.columns:
            yield f"| {column} | " + " | ".join(map(str, _counts(results, column))) + " |"
    yield ""


def _counts(results: Results, column: str) -> Iterator[int]:
    """How many scenarios of each section were played to a column, and what became of them."""
    played: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    early = 0
    for scene in results.scenes.values():
        codes = scene.cells.get(column)
        if codes is None or LapseCode.NOT_ASKED in codes:
            continue
        section = section_of(scene)
        early += section == SECTIONS[0] and LapseCode.CALL_BEFORE_PROOF in codes
        played[section] += 1
        wrong = {code for code in codes if WEIGHTS[code] is Weight.ERROR}
        ran[section] += bool(wrong if section == SECTIONS[2] else LapseCode.UNPROVED_CALL in wrong)
    unproved, arguments, sound = SECTIONS
    yield from (played[unproved], ran[unproved], early, played[arguments], ran[arguments])
    yield from (played[sound], ran[sound])


def _table(section: str, columns: Sequence[str], scenes: Mapping[str, Scene]) -> Iterator[str]:
    """The rows in which somebody did something else than the gate."""
    told = {
        name: scene
        for name, scene in scenes.items()
        if any(word(codes) not in ("ok", "quiet", "rewritten", "") for codes in scene.cells.values())
    }
    used = [column for column in columns if any(column in scene.cells for scene in told.values())]
    if not told:
        return
    yield f"### {section}"
    yield ""
    yield "| what the provider sent | " + " | ".join(used) + " |"
    yield "| --- |" + " --- |" * len(used)
    for name, scene in sorted(told.items()):
        cells = " | ".join(word(scene.cells.get(column)) for column in used)
        yield f"| {scene.title} `{name.partition('/')[2]}` | {cells} |"
    yield ""
