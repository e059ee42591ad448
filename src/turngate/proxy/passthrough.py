"""Replies that no dialect claims: pass what is no model turn, refuse what may be one.

Models, embeddings, files and the like go through untouched, as they are read. A reply that is streamed, or that has the shape
of a turn, on a path that no dialect claims would be released unjudged, so it is refused unless the operator says otherwise.
Both are counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from turngate.proxy.headers import content_coding, media_type
from turngate.proxy.reply import Reply
from turngate.proxy.turn_shape import begins_as_turn, has_turn_shape, text_start
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

_SENSORY = ("image/", "audio/", "video/", "font/")
"""What no client reads a turn from."""

_NO_TURN = re.compile(
    r"/(models|embeddings|files|uploads|images|audio|moderations|batches|fine[-_]tuning|vector_stores|count_tokens"
    r"|tokenize|detokenize|rerank|classifiers|ocr|organizations?|usage|health|version|skills|input_items"
    r"|api/pull|api/push|api/create|openapi\.json)(/|:|$)"
)

# Google names what is to be done behind the model (`models/NAME:streamGenerateContent`), and the next method is unknown today.
_GENERATES = re.compile(r"(:|/models/.*/)\w*(generate|predict)\w*$", re.IGNORECASE)


@dataclass(slots=True)
class PassCounters:
    """Replies that were not judged."""

    passed: int = 0
    """No turn by path or shape."""
    unjudged: int = 0
    """May have been a turn, and passed because the upstream is configured so."""
    refused: int = 0
    """May have been a turn, and was refused."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a reply."""

    doubtful: bool
    """Whether it may be a turn."""
    body: bytes = b""
    """What was read for that."""
    end: BodyEnd | None = None
    """The end of the body, if it was read whole."""


def carries_no_turn(path: str) -> bool:
    """Whether the path belongs to an endpoint that answers with no model turn."""
    return _NO_TURN.search(path) is not None and _GENERATES.search(path) is None


async def look_at(response: UpstreamResponse, path: str, limit: int) -> Look:
    """Read of a reply what tells whether it may be a turn, up to `limit` bytes."""
    kind = media_type(response.headers)
    streams = kind in STREAM_TYPES
    # What a model's own path streams is what the model says, whatever else the path answers with.
    if kind.startswith(_SENSORY) or (carries_no_turn(path) and not (streams and "/models/" in path)):
        return Look(doubtful=False)
    if content_coding(response.headers) not in ("", "identity") or ";" in kind:
        # What it says cannot be read here; but no client looks for a turn behind an error status.
        return Look(doubtful=200 <= response.status < 300)
    if streams:
        return Look(doubtful=True)
    is_text = kind in ("", "text/plain") or "json" in kind or kind.startswith("multipart/")
    return await _look_into(response, limit, is_text=is_text)


async def _look_into(response: UpstreamResponse, limit: int, *, is_text: bool) -> Look:
    """The SDKs read JSON and streams from whatever media type they come in, so a body of any is read that begins so."""
    pieces: list[bytes] = []
    size, start = 0, b""
    begins: bool | None = is_text or None
    while not isinstance(received := await response.receive(), BodyEnd):
        pieces.append(received)
        size += len(received)
        if begins is None:
            start = text_start(start + received)
            begins = begins_as_turn(start)
        if size > limit or begins is False:
            return Look(begins is not False, b"".join(pieces))
    body = b"".join(pieces)
    return Look(has_turn_shape(body), body, received)


async def pass_on(
    response: UpstreamResponse, reply: Reply, read: bytes = b"", end: BodyEnd | None = None
) -> None:
    """Carry the body through as it comes, after what was `read` of it, and end it the way it ended."""
    try:
        if read:
            await reply.write(read)
        while end is None:
            received = await response.receive()
            if isinstance(received, BodyEnd):
                end = received
            elif received:
                await reply.write(received)
        if end.clean:
            await reply.end()
        else:
            reply.cut()
    finally:
        response.close()
