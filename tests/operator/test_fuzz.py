"""Whatever is asked, with or without a token, the interface answers as its OpenAPI document says, and never with a fault of ours.

Requests are drawn from the document itself: what its schemas allow, what they just do not, and plain rubbish.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import jsonschema_rs
import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.operator.staged import Staged, Told, operated
from tests.proxy.gated import TOOL_TURN, answering, streamed
from turngate.operator.openapi import document

SOAK = os.environ.get("TURNGATE_SOAK") == "1"
DOCUMENT = document()
OPERATIONS = [
    (path, method, told) for path, item in DOCUMENT["paths"].items() for method, told in item.items()
]
ERROR = {"$ref": "#/components/schemas/ErrorBody"}
OURS_ONLY = frozenset({"405", "404"})
"""Statuses of the application as a whole, which no single operation lists: the front's, and another method's."""


@dataclass
class Fuzzed:
    runner: asyncio.Runner
    stage: Staged
    tokens: dict[str, str | None]

    def ask(self, who: str, *request: Any, **more: Any) -> Told:
        somebody = self.stage.somebody(self.tokens[who])
        return self.runner.run(somebody.ask(*request, **more))


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = contextlib.AsyncExitStack()

        async def open_stage() -> Fuzzed:
            folder = tmp_path_factory.mktemp("fuzz")
            stage = await stack.enter_async_context(operated(folder, answering(streamed(TOOL_TURN))))
            await stage.world.ask()
            await stage.world.turn()
            tokens = {"operator": stage.operator.token, "viewer": stage.viewer().token, "nobody": None}
            return Fuzzed(runner, stage, tokens)

        yield runner.run(open_stage())
        runner.run(stack.aclose())


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a schema of the document allows."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return st.one_of([values(each) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "string":
            letters = st.characters(codec="utf-8")
            return st.text(
                letters, min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 40), 300)
            )
        case "object":
            required = schema.get("required", [])
            fields = {name: values(each) for name, each in schema["properties"].items()}
            must = {name: each for name, each in fields.items() if name in required}
            may = {name: each for name, each in fields.items() if name not in required}
            return st.fixed_dictionaries(must, optional=may)
    raise AssertionError(schema)


RUBBISH = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=400),
    st.lists(st.integers(), max_size=3),
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, Any], str, Any, dict[str, str]]:
    """An operation's path, method and document, a target, a body and headers."""
    path, method, told = draw(st.sampled_from(OPERATIONS))
    target, query = path, {}
    for parameter in told["parameters"]:
        name = parameter["name"]
        if parameter["in"] == "path":
            target = target.replace(f"{{{name}}}", quote(draw(values(parameter["schema"])), safe=""))
        elif parameter["in"] == "query" and draw(st.booleans()):
            value = draw(st.one_of(values(parameter["schema"]), st.text(max_size=20)))
            query[name] = json.dumps(value) if isinstance(value, bool) else str(value)
    if query:
        target += "?" + urlencode(query, errors="replace")
    headers: dict[str, str] = {}
    if draw(st.booleans()):
        headers["Idempotency-Key"] = draw(
            st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=140)
        )
    body: Any = None
    if "requestBody" in told:
        schema = told["requestBody"]["content"]["application/json"]["schema"]
        body = draw(values(schema))
        if draw(st.booleans()):
            spoilt = draw(st.sampled_from([*body, "surplus"]))
            body = {**body, spoilt: draw(RUBBISH)}
        if draw(st.integers(0, 9)) == 0:
            body = draw(st.binary(max_size=60))
    return path, method.upper(), told, target, body, headers


def check(told: Told, operation: dict[str, Any]) -> None:
    """The status is one of the document's, and the body has its schema."""
    status = str(told.status)
    assert told.status < 500, told.body
    answer = operation["responses"].get(status)
    if answer is None:
        assert status in OURS_ONLY or told.code in ("target_too_long", "malformed_request"), told.body
        schema: dict[str, Any] = ERROR
    else:
        (kind, content), *_ = answer["content"].items()
        assert told.headers["content-type"].partition(";")[0] == kind
        schema = content["schema"]
    whole = {"components": DOCUMENT["components"], **schema}
    jsonschema_rs.validate(whole, told.body)
    if told.status >= 400:
        assert answer is None or told.code in answer["description"].split(", ")


@settings(
    max_examples=2_000 if SOAK else 250,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(request=requests(), who=st.sampled_from(["operator", "operator", "viewer", "nobody"]))
def test_every_answer_is_one_that_the_document_names(fuzzed: Fuzzed, request: Any, who: str) -> None:
    _, method, operation, target, body, headers = request
    told = fuzzed.ask(who, method, target, body, headers=headers)
    check(told, operation)
    if who == "nobody":
        assert told.status in (401, 429)
    if who == "viewer" and method == "POST" and "%2F" not in target:  # an id with a slash makes another path
        assert told.status == 403


@settings(
    max_examples=1_000 if SOAK else 150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    path=st.text(st.characters(codec="utf-8"), max_size=60),
    body=st.one_of(st.none(), st.binary(max_size=100)),
)
def test_rubbish_is_answered_in_the_same_shape(
    fuzzed: Fuzzed, method: str, path: str, body: bytes | None
) -> None:
    told = fuzzed.ask("operator", method, "/" + quote(path, safe="/"), body)
    assert 400 <= told.status < 500
    assert told.code


def test_after_all_that_the_gate_still_does_its_work(fuzzed: Fuzzed) -> None:
    async def main() -> None:
        ann = fuzzed.stage.operator
        while latches := (await ann.get("/latches?standing=true&limit=200"))["latches"]:
            for latch in latches:
                await ann.lift(latch)
        assert (await fuzzed.stage.world.ask()).body == TOOL_TURN

    fuzzed.runner.run(main())
