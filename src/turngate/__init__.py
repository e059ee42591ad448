"""turngate: the tool-call gate between an agent and its model provider."""

from __future__ import annotations

__version__ = "0.1.0"
