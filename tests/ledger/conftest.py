"""Coroutine tests of the ledger run on asyncio, the loop that the gate runs on; `store` runs a test on each database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.stores import Store
from tests.transport.conftest import certificates
from turngate.ledger.location import locate

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["certificates"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":
        return Store(locate(f"sqlite:///{tmp_path}/ledger.db"))
    return request.getfixturevalue("server_store")  # type: ignore[no-any-return]


@pytest.fixture
def server_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    cluster = request.getfixturevalue("cluster")
    schema = cluster.new_schema()
    return Store(locate(cluster.url(schema), directory=tmp_path), cluster, schema)
