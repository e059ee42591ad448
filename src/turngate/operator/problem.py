"""The one shape of every error of the operator's interface; the front in the same listener uses it too.

{"error": {"message": "...", "type": "invalid_request_error", "code": "...", "param": null}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from turngate.proxy.reply import Headers

CODES: Final[Mapping[str, int]] = {
    "invalid_request": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "host_not_allowed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_waiting": 409,
    "request_too_large": 413,
    "unsupported_media_type": 415,
    "idempotency_mismatch": 422,
    "too_many_failures": 429,
    "internal": 500,
    "ledger_unavailable": 503,
}
"""Every code of ours, with its HTTP status."""

JSON: Final = (b"content-type", b"application/json")


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong."""

    message: str
    """For a person."""
    type: str = "invalid_request_error"
    code: str
    """For a program."""
    param: str | None = None
    """The field that it is about."""


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every error."""

    error: Error


class ProblemError(Exception):
    """A request that is not carried out."""

    def __init__(
        self, code: str, message: str, *, param: str | None = None, headers: Headers | None = None
    ) -> None:
        super().__init__(message)
        self.status = CODES[code]
        self.code = code
        self.param = param
        self.headers: Headers = headers or []

    def body(self) -> bytes:
        """The whole body."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = Error(message=str(self), type=kind, code=self.code, param=self.param)
        return msgspec.json.encode(ErrorBody(error))
