"""The loop that the gate runs on in production, and a certificate authority of our own."""

from __future__ import annotations

from tests.proxy.conftest import certificates, run

__all__ = ["certificates", "run"]
