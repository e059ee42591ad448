"""Documents of the published profiles, redacted: there the reply is parsed already, and no decoder says what is an argument."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from turngate.offline import published
from turngate.offline.report import Report
from turngate.redact import RedactionError
from turngate.redact.arguments import numbers_of, redact_fragments, strings_of
from turngate.redact.placeholder import Numbers, Texts
from turngate.redact.schema import SchemaRedactor
from turngate.redact.vocabulary import vocabulary
from turngate.redact.wire import Redacted, WireRedactor, numbers_in
from turngate.schema import Vocabulary


def redact_published(document: Any, schemas: Vocabulary = Vocabulary.CONSERVATIVE) -> Any:
    """The redacted document; raises `RedactionError` if its report has another status or other codes."""
    redacted = _redact(copy.deepcopy(document))
    before, after = published.check(document, schemas), published.check(redacted, schemas)
    if _told(before) != _told(after):
        raise RedactionError(f"redacted, the document would be {_said(after)}, and not {_said(before)}")
    return redacted


def _told(report: Report) -> tuple[object, ...]:
    return report.status, report.applicable, sorted(report.codes)


def _said(report: Report) -> str:
    return f"{report.status} with {', '.join(sorted(set(report.codes))) or 'no code'}"


def _redact(document: Any) -> Any:
    texts = Texts(vocabulary())
    slots: dict[object, list[tuple[dict[str, Any], str]]] = defaultdict(list)
    for slot, holder, key in _fragments(document):
        slots[slot].append((holder, key))
    wholes = ["".join(holder[key] for holder, key in pieces) for pieces in slots.values()]
    spoken = frozenset(number for whole in wholes for number in numbers_of(whole))
    numbers = Numbers([*spoken, *numbers_in(document)])
    strings = frozenset(text for whole in wholes for text in strings_of(whole))
    schemas = SchemaRedactor(texts, numbers, strings, spoken)
    for pieces in slots.values():
        redacted = redact_fragments([holder[key] for holder, key in pieces], texts, numbers)
        for (holder, key), new in zip(pieces, redacted, strict=True):
            holder[key] = Redacted(new)
    wire = WireRedactor(vocabulary(), texts, numbers)
    if not isinstance(document, dict):
        return schemas.value(document)
    return {
        key: _member(key, value, wire, schemas)
        for key, value in document.items()
        if key in ("profile", "tool_schemas", "chunks", "events")
    }


def _member(key: str, value: Any, wire: WireRedactor, schemas: SchemaRedactor) -> Any:
    if key == "profile":
        return value if value in published.PROFILES else schemas.value(value)
    if key == "tool_schemas" and isinstance(value, dict):
        return {wire.texts(name): schemas.tool(schema) for name, schema in value.items()}
    return wire.value(value, schemas, ())


def _fragments(document: Any) -> Iterator[tuple[object, dict[str, Any], str]]:
    """Where the pieces of arguments are, each with the call that it belongs to."""
    for event in _list(_get(document, "events")):
        delta = _get(event, "delta")
        if isinstance(_get(delta, "partial_json"), str):
            yield repr(_get(event, "index")), delta, "partial_json"
    for chunk in _list(_get(document, "chunks")):
        for place, choice in enumerate(_list(_get(chunk, "choices"))):
            for call in _list(_get(_get(choice, "delta"), "tool_calls")):
                function = _get(call, "function")
                if isinstance(_get(function, "arguments"), str):
                    slot = choice.get("index", place), _get(call, "index")
                    yield repr(slot), function, "arguments"


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
