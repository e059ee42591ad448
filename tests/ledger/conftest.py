"""Coroutine tests of the ledger run on asyncio, the loop that the gate runs on."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
