"""What the published conformance runner says about schemas, document by document.

Only its schema codes are compared: the calls are taken from its own report, so no chunk is reassembled here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.suites.counters import report
from turngate.core.finding import Code
from turngate.schema.conservative import instance_findings, schema_findings

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_CODES = {
    Code.INVALID_SCHEMA,
    Code.UNSUPPORTED_SCHEMA_KEYWORD,
    Code.SCHEMA_ENUM,
    Code.SCHEMA_TYPE,
    Code.SCHEMA_REQUIRED,
    Code.SCHEMA_ADDITIONAL_PROPERTY,
    Code.SCHEMA_MIN_ITEMS,
    Code.SCHEMA_MAX_ITEMS,
    Code.SCHEMA_MINIMUM,
    Code.SCHEMA_MAXIMUM,
}


def codes(schemas: dict[str, Any], calls: list[dict[str, Any]]) -> set[Code]:
    found = {finding.code for schema in schemas.values() for finding in schema_findings(schema)}
    for call in calls:
        name, arguments = call["name"], call["arguments"]
        if isinstance(arguments, dict) and isinstance(name, str) and name in schemas:
            found |= {finding.code for finding in instance_findings(schemas[name], arguments)}
    return found


def test_schema_codes_are_those_of_the_runner(shared: Path) -> None:
    different = []
    agreed = 0
    for line in (shared / "suites/runner_vectors.ndjson").read_text().splitlines():
        vector = json.loads(line)
        document = vector["document"]
        if not isinstance(document, dict) or "unknown_profile" in vector["codes"]:
            continue  # ends before any schema is read
        schemas = document.get("tool_schemas", {})
        found = codes(schemas if isinstance(schemas, dict) else {}, vector["calls"])
        if found == SCHEMA_CODES & set(vector["codes"]):
            agreed += 1
        else:
            different.append((found, vector["codes"]))
    assert different == []
    report("runner_schema_codes", agreed)
