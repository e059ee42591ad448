"""The operator's interface from the command line: who asks, where, and what went wrong in one line."""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from turngate.config import Config
from turngate.errors import TurngateError
from turngate.operator.problem import ErrorBody
from turngate.operator.tokens import first_token_path

TIMEOUT_S: Final = 30.0
"""Longer than a ledger is waited for; a stop that takes this long has to be looked at."""


class OperatorError(TurngateError):
    """The gate could not be asked, or said no."""


class OperatorClient:
    """One gate's operator interface; `unix:PATH`, `http://` or `https://`."""

    def __init__(self, address: str, token: str, *, verify: ssl.SSLContext | bool = True) -> None:
        self._address = address
        kind, _, path = address.partition(":")
        transport = httpx2.HTTPTransport(uds=path) if kind == "unix" else None
        self._http = httpx2.Client(
            base_url="http://localhost" if kind == "unix" else address,
            headers={"authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
            # A proxy of the environment is meant for providers.
            trust_env=False,
            verify=verify,
            transport=transport,
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """Ask for something; what is None in the query is left out."""
        wanted = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        return self._ask("GET", path, params=wanted)

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """Change something, once: a repeat by the transport cannot do it twice."""
        content = {name: value for name, value in body.items() if value is not None}
        return self._ask("POST", path, json=content, headers={"idempotency-key": secrets.token_hex(16)})

    def _ask(self, method: str, path: str, **what: Any) -> Any:
        try:
            answer = self._http.request(method, path, **what)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise OperatorError(
                f"{self._address} does not answer ({type(error).__name__}); is `turngate serve` running, and is this "
                "operator.listen?"
            ) from error
        try:
            if answer.is_success:
                return msgspec.json.decode(answer.content)
            problem = msgspec.json.decode(answer.content, type=ErrorBody).error
        except msgspec.MsgspecError as error:
            raise OperatorError(
                f"{self._address} is no operator's interface ({answer.status_code})"
            ) from error
        raise OperatorError(f"{problem.code}: {problem.message}")


def connect(config: Config, *, url: str | None = None, token_file: Path | None = None) -> OperatorClient:
    """Connect to the configured gate, or to another one.

    The token is in TURNGATE_TOKEN, in `token_file`, or in the file that the first start made beside the ledger.
    """
    operator = config.operator
    if url is None and operator.is_off:
        raise OperatorError('operator.listen is "off"; there is nothing to ask')
    scheme = "http" if operator.tls_cert is None else "https"
    listen = operator.listen
    address = url or (listen if operator.socket_path is not None else f"{scheme}://{listen}")
    verify: ssl.SSLContext | bool = True
    if url is None and operator.tls_cert is not None:
        # The gate of this very configuration is known by the certificate that it serves, whoever signed it.
        verify = ssl.create_default_context(cafile=operator.tls_cert)
        verify.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        verify.check_hostname = False
    return OperatorClient(address, _token(config, token_file), verify=verify)


def _token(config: Config, token_file: Path | None) -> str:
    given = os.environ.get("TURNGATE_TOKEN")
    if given is not None and token_file is None:
        return given.strip()
    file = token_file or first_token_path(config.ledger.place.files)
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no token"
        raise OperatorError(
            f"{file} cannot be read ({why}); name a token with --token-file or TURNGATE_TOKEN"
        ) from error
    if not token.isprintable() or not token:
        raise OperatorError(f"{file} holds no token")
    return token


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
