"""Processes that tests start: a port for each, and the moment from which one answers on it."""

from __future__ import annotations

import socket
import subprocess
import time
from http.client import HTTPConnection, HTTPException
from typing import Any


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
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
