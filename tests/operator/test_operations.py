from __future__ import annotations

import inspect

import pytest

from turngate.operator.handlers import Handlers
from turngate.operator.operations import OPERATIONS, Operation, matching
from turngate.operator.problem import CODES
from turngate.operator.tokens import Role


def test_every_operation_has_its_handler_and_every_handler_its_operation() -> None:
    handlers = {
        name for name, each in vars(Handlers).items() if inspect.iscoroutinefunction(each) and name[0] != "_"
    }
    assert handlers == {operation.name for operation in OPERATIONS}
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_what_changes_something_needs_an_operator_and_takes_a_key(operation: Operation) -> None:
    changes = operation.method != "GET" and operation.name != "test_value"
    assert operation.keyed == changes
    assert (operation.role is Role.OPERATOR) == (operation.method != "GET")
    assert set(operation.problems) <= set(CODES)
    assert (operation.body is not None) == (operation.method == "POST")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/latches", ["create_latch", "list_latches"]),
        ("/latches/tgl_1", ["get_latch"]),
        ("/latches/tgl_1/lift", ["lift_latch"]),
        ("/latches/", []),
        ("/turns/a/b", []),
        ("/", []),
        ("/turns\n", []),
    ],
)
def test_a_path_finds_its_operations(path: str, names: list[str]) -> None:
    assert sorted(operation.name for operation, _ in matching(path)) == names
