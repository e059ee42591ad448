from __future__ import annotations

import subprocess
import sys

import pytest

from turngate.dialects import DIALECTS, dialect_for, dialect_named


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_a_dialect_lies_in_the_module_of_its_name(dialect: object) -> None:
    found = dialect_named(str(getattr(dialect, "name", "")))
    assert type(found) is type(dialect)


@pytest.mark.parametrize(
    "name", ["", "telepathy", "base", "registry", "openai_chat_json", "..errors", "a.b", "os"]
)
def test_no_other_name_is_a_dialect(name: str) -> None:
    assert dialect_named(name) is None


def test_who_judges_one_format_loads_no_other() -> None:
    program = """
import sys
from turngate.dialects import dialect_named
assert dialect_named("anthropic_messages") is not None
print(sorted(name for name in sys.modules if name.startswith("turngate.dialects.")))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "turngate.dialects.anthropic_messages" in ran.stdout
    assert "openai" not in ran.stdout
    assert "registry" not in ran.stdout


def test_a_family_between_application_and_front_end_claims_only_for_itself() -> None:
    assert dialect_for("POST", "/api/chat/7", "vercel") is dialect_of(DIALECTS, "vercel_ui")
    assert dialect_for("POST", "/somewhere") is None


def dialect_of(dialects: tuple[object, ...], name: str) -> object:
    return next(each for each in dialects if getattr(each, "name", "") == name)
