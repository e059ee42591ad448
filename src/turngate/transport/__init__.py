"""turngate's HTTP client towards providers.

Words: an **origin** is where connections go (scheme, host, port); a **connection** is one socket, idle in the
**pool** or busy with one **exchange** (one request and its response); a **response** has a head, then pieces of body
to **receive**, then a **body end**, which says how it ended and whether the framing permits that; **framing** is the
rule which delimits a body. An **upstream** is anything that carries requests to origins: `DirectTransport` on the hot
path, `HttpxUpstream` where an outbound proxy or HTTP/2 is asked for.

No request is ever retried, no redirect followed, no content decoded, and no URL joined or normalised.
"""

from turngate.transport.adapter import HttpxUpstream, UpstreamSettings, open_upstream
from turngate.transport.dial import TlsSettings
from turngate.transport.direct import DirectTransport
from turngate.transport.errors import UpstreamError
from turngate.transport.head import (
    BodyEnd,
    EndReason,
    HeadLimits,
    Origin,
    RequestHead,
    Timeouts,
    Upstream,
    UpstreamResponse,
)

__all__ = [
    "BodyEnd",
    "DirectTransport",
    "EndReason",
    "HeadLimits",
    "HttpxUpstream",
    "Origin",
    "RequestHead",
    "Timeouts",
    "TlsSettings",
    "Upstream",
    "UpstreamError",
    "UpstreamResponse",
    "UpstreamSettings",
    "open_upstream",
]
