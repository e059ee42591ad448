"""Replies that no dialect claims: pass what is no model turn, refuse what may be one.

Models, embeddings, files and the like go through untouched, as they are read. A reply that is streamed, or that has the shape
of a turn, on a path that no dialect claims would be released unjudged, so it is refused unless the operator says otherwise.
Both are counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from turngate.dialects.base import may_carry
from turngate.proxy.reply import Reply
from turngate.transport import BodyEnd, UpstreamResponse

STREAM_TYPES = frozenset(
    {
        "text/event-stream",
        "application/x-ndjson",
        "application/jsonl",
        "application/stream+json",
        "application/vnd.amazon.eventstream",
    }
)
"""Media types in which providers stream turns."""

LOOKED_AT = frozenset({"application/json", "text/plain", ""})
"""Media types whose bodies are looked at, except on paths without turns: the SDKs read a turn from any of them."""

TURN_KEYS = (b"_call", b"tool_use", b"functioncall", b"tooluse", b"tool-call", b"tool_plan")
"""What stands in the calls of every provider's turns (wire reference 0.7), in lower case."""

_NO_TURN = re.compile(
    r"/(models|embeddings|files|uploads|images|audio|moderations|batches|fine[-_]tuning|vector_stores|count_tokens"
    r"|tokenize|detokenize|rerank|classifiers|ocr|organizations?|usage|health|version|skills|input_items)(/|:|$)"
)

# Google names what is to be done behind the model (`models/NAME:streamGenerateContent`), and the next method is unknown today.
_GENERATES = re.compile(r":\w*(generate|predict)\w*$", re.IGNORECASE)


@dataclass(slots=True)
class PassCounters:
    """Replies that were not judged."""

    passed: int = 0
    """No turn by path or shape."""
    unjudged: int = 0
    """May have been a turn, and passed because the upstream is configured so."""
    refused: int = 0
    """May have been a turn, and was refused."""


def carries_no_turn(path: str) -> bool:
    """Whether the path belongs to an endpoint that answers with no model turn."""
    return _NO_TURN.search(path) is not None and _GENERATES.search(path) is None


async def pass_on(response: UpstreamResponse, reply: Reply) -> None:
    """Carry the body through as it comes, and end it the way it ended."""
    try:
        while not isinstance(received := await response.receive(), BodyEnd):
            if received:
                await reply.write(received)
        if received.clean:
            await reply.end()
        else:
            reply.cut()
    finally:
        response.close()


async def read_whole(response: UpstreamResponse, limit: int) -> tuple[bytes, BodyEnd | None]:
    """Read a body up to `limit` bytes; the end is None if there is more of it."""
    pieces: list[bytes] = []
    size = 0
    while not isinstance(received := await response.receive(), BodyEnd):
        pieces.append(received)
        size += len(received)
        if size > limit:
            return b"".join(pieces), None
    return b"".join(pieces), received


def has_turn_shape(body: bytes) -> bool:
    """Whether a JSON body could be a model turn with calls, in any dialect."""
    return may_carry(body, TURN_KEYS)
