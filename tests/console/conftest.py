"""The loop that the gate runs on in production, and a certificate authority of our own."""

from __future__ import annotations

import os

from tests.proxy.conftest import certificates, run

__all__ = ["certificates", "run"]

collect_ignore = [] if os.environ.get("TURNGATE_CHROMIUM") else ["test_chromium.py"]
"""Not every machine has a browser: `make console` has it looked for."""
