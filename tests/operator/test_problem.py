from __future__ import annotations

import json

import pytest

from turngate.operator.problem import CODES, ProblemError
from turngate.proxy.front_refusal import RefusalError


@pytest.mark.parametrize("code", CODES)
def test_every_error_has_the_shape_of_the_front_before_it(code: str) -> None:
    problem = ProblemError(code, "What is wrong.", param="x")
    body = json.loads(problem.body())
    front = json.loads(RefusalError(400, code, "What is wrong.").response([]).partition(b"\r\n\r\n")[2])
    assert body["error"].keys() == front["error"].keys()
    assert body["error"]["code"] == code
    assert body["error"]["param"] == "x"
    assert problem.status == CODES[code]
    assert (body["error"]["type"] == "server_error") == (problem.status >= 500)
