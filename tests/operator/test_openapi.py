"""The document is valid and says what the application does."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.turns import latched
from turngate.errors import MisuseError
from turngate.ledger.latch import LatchKind, check_scope
from turngate.operator.openapi import REF, document
from turngate.operator.operations import OPERATIONS, Operation

PREFIX = REF.partition("{")[0]


def walk(value: Any) -> Any:
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(each)


def test_every_reference_leads_somewhere() -> None:
    schemas = document()["components"]["schemas"]
    found = [each["$ref"] for each in walk(document()) if isinstance(each, dict) and "$ref" in each]
    assert found
    assert {reference.removeprefix(PREFIX) for reference in found} <= set(schemas)


def test_every_schema_is_one() -> None:
    for schema in document()["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_stands_in_the_document_with_all_its_answers(operation: Operation) -> None:
    told = document()["paths"][operation.path][operation.method.lower()]
    assert told["operationId"] == operation.name
    codes = [code for answer in told["responses"].values() for code in answer["description"].split(", ")]
    assert set(operation.problems) == set(codes) - {"Done."}
    names = {each["name"] for each in told["parameters"]}
    assert set(operation.parameters) | set(operation.query.__struct_fields__) == names - {"Idempotency-Key"}
    assert ("Idempotency-Key" in names) == operation.keyed


NEW_LATCH = {"components": document()["components"], "$ref": f"{PREFIX}NewLatch"}


@given(
    kind=st.sampled_from(LatchKind),
    fields=st.dictionaries(
        st.sampled_from(["turn_id", "response_id", "tool", "tenant", "upstream", "model", "route"]),
        st.sampled_from(["x", None]),
    ),
)
def test_the_document_allows_the_latches_that_make_sense_and_no_other(
    kind: LatchKind, fields: dict[str, str | None]
) -> None:
    allowed = jsonschema_rs.is_valid(NEW_LATCH, {"kind": kind.value, "reason": "x", **fields})
    try:
        check_scope(latched(kind, **fields))
    except MisuseError:
        assert not allowed
    else:
        assert allowed


def test_the_document_is_plain_json_and_names_the_token() -> None:
    plain = json.loads(json.dumps(document()))
    assert plain == document()
    assert plain["security"] == [{"token": []}]
