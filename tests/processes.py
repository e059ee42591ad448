"""Processes that tests start: a port for each, and the moment from which one answers on it."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import time
from http.client import HTTPConnection, HTTPException
from typing import Any

OWN_PORTS = range(20_000, 32_768)
"""Below what Linux (from 32768) and macOS (from 49152) give to whoever connects or asks for any port."""


def free_port() -> int:
    """A port that nobody listens on now, and that no other process gets by chance before one of ours listens there."""
    while True:
        port = secrets.choice(OWN_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def answers(process: subprocess.Popen[Any], port: int, path: str, patience_s: float) -> bool:
    """Whether it came to answer with a 200, before it ended and in time."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return True
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    return False
