"""Framings: how a reply of some media type is cut into frames. A dialect lists those that its replies come in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from turngate.core.body import BodyFramer
from turngate.core.event_stream import EventStreamFramer
from turngate.core.frame import Framer
from turngate.core.json_array import JsonArrayFramer
from turngate.core.messages import MessagesFramer
from turngate.core.ndjson import NDJSONFramer
from turngate.core.sse import SSEFramer


@dataclass(frozen=True, slots=True)
class Framing:
    """One way of cutting. `streamed` tells frames that arrive one by one from a body that is one frame."""

    name: str
    media_types: tuple[str, ...]
    framer: Callable[[int], Framer]
    """Makes a framer; its argument is the limit of one frame in bytes."""
    streamed: bool = True
    paths: tuple[str, ...] = ("",)
    """What the path of the request ends with, where the media type alone does not tell."""


SSE = Framing("sse", ("text/event-stream",), SSEFramer)
NDJSON = Framing(
    "ndjson", ("application/x-ndjson", "application/jsonl", "application/stream+json"), NDJSONFramer
)
EVENT_STREAM = Framing("event_stream", ("application/vnd.amazon.eventstream",), EventStreamFramer)
JSON_ARRAY = Framing("json_array", ("application/json",), JsonArrayFramer, paths=(":streamGenerateContent",))
MESSAGES = Framing("messages", (), MessagesFramer)
"""WebSocket messages. No media type: what speaks so is no reply to a request."""
BODY = Framing("json", ("application/json",), BodyFramer, streamed=False)


def framing_for(framings: Iterable[Framing], media_type: str, path: str = "") -> Framing | None:
    """The framing of a reply of this media type to a request for this path; None if the reply cannot be read."""
    for framing in framings:
        if media_type in framing.media_types and path.endswith(framing.paths):
            return framing
    return None
