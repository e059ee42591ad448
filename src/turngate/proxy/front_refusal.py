"""A request that the front does not serve: one JSON body, in the shape that the providers' SDKs read, and the connection's end."""

from __future__ import annotations

import json
from http import HTTPStatus

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE


class RefusalError(Exception):
    """A request that is not served. Raised inside the parser's callbacks, which stops the parser for good."""

    def __init__(
        self, status: int, code: str, message: str, fields: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.fields = fields
        """Header fields that its status asks for."""

    def response(self, default_headers: list[tuple[bytes, bytes]]) -> bytes:
        """The whole response."""
        error = {
            "message": str(self),
            "type": "invalid_request_error",
            "code": self.code,
            "param": None,
        }
        body = json.dumps({"error": error}).encode()
        headers = [
            *default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *self.fields,
        ]
        if self.status != HTTPStatus.REQUEST_TIMEOUT:
            # Official SDKs repeat a 408 or a 5xx unless told not to; only the first of these can fare better.
            headers.append((b"x-should-retry", b"false"))
        return b"".join([STATUS_LINE[self.status], *(b"%b: %b\r\n" % h for h in headers), b"\r\n", body])


def refusal_of(error: httptools.HttpParserError) -> RefusalError:
    """What stopped the parser: a check of ours, or llhttp's own reason, which quotes nothing of the request."""
    if isinstance(error.__context__, RefusalError):
        return error.__context__
    return RefusalError(
        400, "malformed_request", f"Not a valid HTTP/1.1 request: {str(error) or 'bad target'}."
    )
