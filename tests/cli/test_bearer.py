"""What is printed of a secret: once itself, then its row."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from turngate.bearer import Bearer
from turngate.cli.bearer import print_made, print_rows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Badge(Bearer):
    holder: str


NOW = time.time()
LIVE = Badge(id="b1", sha256="5ec2e7ed", created_at=NOW, holder="ann\x1b[2J")
ENDED = Badge(id="b2", sha256="5ec2e7ed", created_at=0.0, expires_at=60.0, revoked_at=1.0, holder="bob")


def test_only_the_secret_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_made("badge", LIVE, "b_1_x", "ann", known=("holder",), as_json=False)
    told = capsys.readouterr()
    assert told.out == "b_1_x\n"
    assert told.err == "badge b1 of ann; it is not shown again:\n"


def test_a_program_reads_the_secret_beside_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_made("badge", ENDED, "b_1_x", "bob", known=("holder",), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"id": "b2", "holder": "bob", "badge": "b_1_x"}


def test_a_row_has_its_times_and_its_state_and_never_the_hash(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("badge", [LIVE, ENDED], known=("holder",), as_json=False)
    heading, live, ended = capsys.readouterr().out.splitlines()
    assert heading.split() == ["badge", "holder", "since", "(UTC)", "until", "(UTC)", "state"]
    assert (live.split()[:2], live.split()[-2:]) == (["b1", r"ann\x1b[2J"], ["-", "live"])
    assert ended.split() == ["b2", "bob", "1970-01-01", "00:00:00.000", "1970-01-01", "00:01:00.000", "revoked"]  # fmt: skip


def test_a_program_reads_rows_as_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("badge", [ENDED], known=("holder",), as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"id": "b2", "holder": "bob", "created_at": 0.0, "expires_at": 60.0, "revoked_at": 1.0, "state": "revoked"}
    ]  # fmt: skip
