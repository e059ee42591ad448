"""The in-process measurement runs the provider's own turn through the real session. No test looks at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench import layers, native

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="the benchmark needs a C compiler")


@pytest.fixture
def sample(tmp_path: Path) -> layers.Sample:
    native.build(tmp_path)
    with native.provider(tmp_path, min(os.sched_getaffinity(0))) as provider:
        return layers.fetch(provider.port)


@pytest.mark.parametrize("size", [1, 7, layers.BURST, 1000])
def test_the_provider_s_tool_turn_is_released_as_it_came(sample: layers.Sample, size: int) -> None:
    assert layers.play(sample, size) == b"".join(sample.events)


def test_every_layer_has_a_figure() -> None:
    assert all(cost > 0 for _, cost in layers.figures(budget_s=0.01))
