"""The loop that the gate runs on in production."""

from __future__ import annotations

from tests.proxy.conftest import run

__all__ = ["run"]
