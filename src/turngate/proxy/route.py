"""Where a request goes: `/NAME/...` to the upstream of that name, a bare `/v1/...` to the default one.

The rest of the target is kept byte for byte and appended to the upstream's base path; nothing of a request ever picks the
origin. The dialect is chosen from the decoded path, because that is what a provider's own router sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from turngate.config import UpstreamConfig

# Bedrock's ids have colons in them; at Google a colon begins the method.
_MODEL = re.compile(r"/model/(.+)/[^/]+\Z|/(?:models|tunedModels|endpoints|deployments)/([^/:]+)[:/]")


class Route(Struct, frozen=True):
    """One request's way to its upstream."""

    upstream: UpstreamConfig
    target: bytes
    """What is sent upstream: path and query, as bytes."""
    path: str
    """The decoded path behind the upstream's name, without the query: what a dialect claims, and what is recorded."""

    @property
    def model(self) -> str | None:
        """The model that the path names, where the format has it there: Gemini, Bedrock, Azure's deployments."""
        found = _MODEL.search(self.path)
        return found[1] or found[2] if found is not None else None


def find_route(target: bytes, upstreams: Mapping[str, UpstreamConfig], default: str) -> Route | None:
    """The route of a request target in origin form; None if it names no upstream."""
    raw_path, mark, query = target.partition(b"?")
    name, slash, _ = raw_path[1:].partition(b"/")
    upstream = upstreams.get(name.decode("ascii", "replace")) if slash else None
    rest = raw_path[1 + len(name) :]
    if upstream is None:
        if name != b"v1" or not slash:
            return None
        upstream, rest = upstreams[default], raw_path
    path = unquote_to_bytes(rest).decode("utf-8", "replace")
    return Route(upstream, upstream.base_path + rest + mark + query, path)
