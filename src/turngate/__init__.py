"""turngate: the tool-call gate between an agent and its model provider.

As a library: `judge` gives the gate's verdict on a recorded reply, `ToolCallStream` reassembles streamed calls in a harness
of one's own, and the `from_...` adapters normalize what an SDK yields. None of it needs or loads a server; names are
loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turngate.adapters import (
        from_anthropic_event,
        from_gemini_chunk,
        from_mistral_chunk,
        from_openai_chat_chunk,
        from_openai_responses_event,
        from_vercel_part,
    )
    from turngate.judging import JudgedCall, JudgedTurn, judge
    from turngate.stream import CallStatus, StreamedCall, StreamResult, ToolCallDelta, ToolCallStream

__version__ = "0.1.0"

__all__ = [
    "CallStatus",
    "JudgedCall",
    "JudgedTurn",
    "StreamResult",
    "StreamedCall",
    "ToolCallDelta",
    "ToolCallStream",
    "__version__",
    "from_anthropic_event",
    "from_gemini_chunk",
    "from_mistral_chunk",
    "from_openai_chat_chunk",
    "from_openai_responses_event",
    "from_vercel_part",
    "judge",
]

_HOME = {
    **dict.fromkeys(("JudgedCall", "JudgedTurn", "judge"), "turngate.judging"),
    **dict.fromkeys(
        ("CallStatus", "StreamResult", "StreamedCall", "ToolCallDelta", "ToolCallStream"), "turngate.stream"
    ),
    **{name: "turngate.adapters" for name in __all__ if name.startswith("from_")},
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
