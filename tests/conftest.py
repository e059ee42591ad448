"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """Test data made by others: `TURNGATE_SHARED`, or the folder `shared` beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("TURNGATE_SHARED", beside))
    if not folder.is_dir():
        pytest.skip("the shared test data is not here; set TURNGATE_SHARED")
    return folder
