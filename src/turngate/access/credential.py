"""The credentials that the gate holds for its providers. Read once, when the gate opens, and in no message, log or `repr`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from turngate.config import UpstreamConfig
from turngate.errors import ConfigError

_CREDENTIAL: Final = re.compile(r"[!-~]+")


def credentials(upstreams: Iterable[UpstreamConfig], environ: Mapping[str, str]) -> dict[str, str]:
    """The credential of each upstream that has one, by the upstream's name."""
    found = {upstream.name: _credential(upstream, environ) for upstream in upstreams}
    return {name: credential for name, credential in found.items() if credential is not None}


def _credential(upstream: UpstreamConfig, environ: Mapping[str, str]) -> str | None:
    where = f"upstreams.{upstream.name}"
    if upstream.credential_env is not None:
        credential = environ.get(upstream.credential_env, "")
        source = f"{where}.credential_env: the variable {upstream.credential_env}"
    elif upstream.credential_file is not None:
        source = f"{where}.credential_file: {upstream.credential_file}"
        try:
            credential = upstream.credential_file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ConfigError(f"{source} cannot be read ({error.strerror})") from error
    else:
        return None
    credential = credential.strip()
    if not _CREDENTIAL.fullmatch(credential):
        raise ConfigError(f"{source} holds no credential; it is one line of visible ASCII")
    return credential
