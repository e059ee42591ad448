"""The application behind the operator's listener.

Each request goes the same way: host, token, operation, role, strict reading, handler; then its row in the audit, and only then
the answer. A change has written its row by then, in the same entry as what it changed.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from turngate.core.json_text import JsonFault, read_object
from turngate.errors import LedgerError
from turngate.ledger.audit import AuditNote
from turngate.ledger.entry import canonical
from turngate.operator.auth import PATH_LIMIT, Doorkeeper, require, stranger_note
from turngate.operator.control import Control
from turngate.operator.handlers import Ask, Handlers
from turngate.operator.operations import Operation, matching
from turngate.operator.problem import JSON, ProblemError
from turngate.proxy.front_connection import front_of
from turngate.proxy.incoming import BodyTooLargeError, ClientGoneError, read_body
from turngate.proxy.reply import Headers

MAX_BODY: Final = 1024 * 1024
"""Holds the longest value that can be tested, every character of it escaped."""

_KEY: Final = re.compile(r"[!-~]{1,128}")

ALWAYS: Final[Headers] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]

_log = structlog.get_logger("turngate")


class OperatorApi:
    """The ASGI application."""

    def __init__(self, control: Control, doorkeeper: Doorkeeper) -> None:
        self._control = control
        self._doorkeeper = doorkeeper
        self._handlers = Handlers(control)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the operator's listener serves no {scope['type']}")
        ask: Ask | None = None
        try:
            self._doorkeeper.check_host(scope)
            ask = Ask(self._doorkeeper.admit(scope), scope["method"], scope["path"], {}, None)
            operation = _find(ask)
            require(ask.caller, operation.role)
            await _read(ask, operation, scope, receive)
            answer = await self._handle(ask, operation)
        except ClientGoneError:
            front_of(scope).abort()
        except ProblemError as problem:
            await self._refuse(scope, send, problem, ask)
        except Exception as error:  # noqa: BLE001 -- its text may quote what was asked
            frames = traceback.extract_tb(error.__traceback__)
            where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-8:]]
            _log.error("operator_failed", error=type(error).__name__, where=where)
            await self._refuse(
                scope, send, ProblemError("internal", "turngate failed while it handled this request."), ask
            )
        else:
            if not ask.recorded:
                self._audit(ask.note(operation.status))
            headers = [(b"idempotent-replayed", b"true")] if ask.replayed else []
            body = answer.encode() if isinstance(answer, str) else canonical(answer)
            await _send(
                send, operation.status, [(b"content-type", operation.media_type.encode()), *headers], body
            )

    async def _handle(self, ask: Ask, operation: Operation) -> object:
        try:
            return await getattr(self._handlers, operation.name)(ask)
        except LedgerError as error:
            _log.error("ledger_unavailable", operation=operation.name, error=str(error))
            raise ProblemError(
                "ledger_unavailable",
                "The ledger does not answer. While it does not, no tool call is released. Try again with the same "
                "Idempotency-Key.",
            ) from error

    async def _refuse(self, scope: Scope, send: Send, problem: ProblemError, ask: Ask | None) -> None:
        if ask is not None:
            self._audit(ask.note(problem.status, code=problem.code))
        elif problem.code != "too_many_failures":
            self._audit(stranger_note(scope, problem))
        await _send(send, problem.status, [JSON, *problem.headers], problem.body())

    def _audit(self, note: AuditNote) -> None:
        self._control.ledger.audit(note)


def _find(ask: Ask) -> Operation:
    ask.path = ask.path[:PATH_LIMIT]
    allowed: list[str] = []
    for operation, names in matching(ask.path):
        if operation.method == ask.method:
            ask.names = names
            return operation
        allowed.append(operation.method)
    if allowed:
        allow = (b"allow", ", ".join(sorted(allowed)).encode())
        raise ProblemError("method_not_allowed", "This path takes another method.", headers=[allow])
    raise ProblemError("not_found", "There is no such path; see /openapi.json.")


async def _read(ask: Ask, operation: Operation, scope: Scope, receive: Receive) -> None:
    """Read query, key and body, strictly."""
    ask.query = _converted(_query(scope["query_string"]), operation.query, strict=False)
    try:
        raw = await read_body(receive, MAX_BODY)
    except BodyTooLargeError:
        raise ProblemError("request_too_large", f"The body has more than {MAX_BODY} bytes.") from None
    if operation.body is not None:
        _demand_json(scope)
        ask.body = _converted(_object(raw), operation.body, strict=True)
    if operation.keyed and (key := _header(scope, b"idempotency-key")) is not None:
        if not _KEY.fullmatch(key):
            raise ProblemError(
                "invalid_request",
                "Idempotency-Key: up to 128 visible ASCII characters.",
                param="Idempotency-Key",
            )
        ask.key = key
        ask.sha256 = hashlib.sha256(f"{ask.method} {ask.path}\n".encode() + raw).hexdigest()


def _query(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict"
        )
    except ValueError:
        raise ProblemError("invalid_request", "The query is not readable.") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ProblemError("invalid_request", "The query has the same field twice.")
    return found


def _object(raw: bytes) -> Mapping[str, Any]:
    value = read_object(raw)
    if isinstance(value, JsonFault):
        raise ProblemError("invalid_request", f"The body: {value.message}.")
    return value


def _converted(value: Mapping[str, Any], kind: type[Any], *, strict: bool) -> Any:
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ProblemError("invalid_request", f"{error}.") from None


def _demand_json(scope: Scope) -> None:
    """Another page's form cannot send this type without asking first, and is not let."""
    kind = (_header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError("unsupported_media_type", "Send the body as application/json.")


def _header(scope: Scope, name: bytes) -> str | None:
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        raise ProblemError("invalid_request", f"The header {name.decode()} came twice.")
    return found[0].decode("latin-1") if found else None


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-length", b"%d" % len(body)), *ALWAYS, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})
