from __future__ import annotations

from click.testing import CliRunner

from turngate.cli.explain import explain
from turngate.core.gate import GateState


def test_states_prints_two_diagrams_and_the_gates_table() -> None:
    printed = CliRunner().invoke(explain, ["states"]).output
    assert printed.count("stateDiagram-v2") == 2
    assert "validated --> released: release" in printed
    rows = [line.split(" | ")[0].strip("| ") for line in printed.splitlines() if line.startswith("| ")]
    assert rows == ["state", "---", *(state.value for state in GateState)]
