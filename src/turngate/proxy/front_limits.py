"""What a client may send at most, with what others allow beside each bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """Bounds on what a client may send. Sizes in bytes, times in seconds.

    The time that an idle connection is kept is uvicorn's own setting, `timeout_keep_alive`.
    """

    max_header_bytes: int = 64 * 1024
    """nginx allows 32 KiB, Go 1 MiB; agents send 1 to 4 KiB, with large cookies or tokens up to 16."""
    max_headers: int = 128
    """Apache and Envoy allow 100; official SDKs send 15 to 25."""
    max_target_bytes: int = 16 * 1024
    """RFC 9112 section 3 asks for at least 8,000."""
    max_framing_bytes: int = 16 * 1024
    """Chunk extensions, padding and trailers of one body: the bound of Go and Node (CVE-2023-39326, CVE-2024-22019)."""
    max_body_bytes: int = 64 * 1024 * 1024
    """For a declared Content-Length; twice the largest request that a provider accepts (32 MB)."""
    max_pipelined: int = 8
    """Requests waiting behind the one being answered. No official client pipelines at all."""
    header_timeout_s: float = 30.0
    """From the connection, or a request's first byte, to the end of its head; drip-feeding does not extend it."""
    body_timeout_s: float = 30.0
    """The longest silence inside a body."""
    linger_s: float = 2.0
    """How long a refused client may go on sending, so that it reads the refusal and not a reset (RFC 9112 section 9.6)."""
    write_high_water: int = 64 * 1024
    """Bytes buffered for a slow reader before `send` waits."""
