"""Every configuration key and how its value is read.

A reader takes the raw value (typed in TOML, text in a variable or flag) and gives the value, or raises `ValueError` with what is
allowed, in words that complete "KEY: ...". Text from TOML is never taken for a number: `Untyped` text is.
"""

from __future__ import annotations

import contextlib
import difflib
import enum
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from turngate.config.access import TenantFrom
from turngate.config.base_url import base_url
from turngate.config.model import CaptureTurns, LogFormat, Unjudged
from turngate.config.traces import with_path
from turngate.core.policy import KeepAliveForm, Mode, OnBlock, Quirk
from turngate.core.tool_rules import RuleAction
from turngate.errors import ConfigError
from turngate.ledger.location import locate
from turngate.presets import PRESETS, preset_named

Reader = Callable[[Any], Any]


class Untyped(str):
    """A value from a variable or a flag, which has no type but what its key makes of it."""

    __slots__ = ()


_LEVELS = ("debug", "info", "warning", "error")
_LISTEN = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):(\d{1,5})")
_PROXIES = ("http://", "https://", "socks5://")
_MAX_PORT = 65535
_FIELD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def text(value: Any) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise ValueError("must be text in quotes")  # noqa: TRY004 -- one kind of complaint for a caller to catch
    return str(value)


def flag(value: Any) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Untyped) and value in ("true", "1", "yes"):
        return True
    if isinstance(value, Untyped) and value in ("false", "0", "no"):
        return False
    raise ValueError("must be true or false")


def whole(at_least: int) -> Reader:
    """A whole number."""

    def read(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, Untyped) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or number < at_least:
            raise ValueError(f"must be a whole number of at least {at_least}")
        return number

    return read


def seconds(value: Any) -> float:
    """A duration."""
    number = -1.0
    if isinstance(value, int | float | Untyped) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError("must be a number of seconds, 0 or more")
    return number


def path(value: Any) -> Path:
    """A file or folder; a relative one is looked for in the working directory."""
    return Path(text(value)).expanduser()


def file(value: Any) -> Path:
    """A file that can be read now, so that a wrong name is found before the first request."""
    found = path(value)
    try:
        found.open("rb").close()
    except OSError as error:
        raise ValueError(f"{found} cannot be read ({error.strerror})") from None
    return found


def folder(value: Any) -> Path:
    """A folder that exists."""
    found = path(value)
    if not found.is_dir():
        raise ValueError(f"{found} is no folder")
    return found


def ledger_url(value: Any) -> str:
    """Where a ledger is."""
    try:
        locate(text(value))
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("ledger URL: ")) from None
    return str(value)


def http_url(value: Any) -> str:
    """An address that is asked over HTTP."""
    if not text(value).startswith(("http://", "https://")):
        raise ValueError("must be a http or https URL")
    return str(value)


def proxy_url(value: Any) -> str:
    """An outbound proxy."""
    if not text(value).startswith(_PROXIES):
        raise ValueError("must be a http, https or socks5 URL")
    return str(value)


def one_of(kind: type[enum.StrEnum]) -> Reader:
    """A member of an enumeration, by its value."""

    def read(value: Any) -> enum.StrEnum:
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"must be one of {listed(kind)}") from None

    return read


def level(value: Any) -> str:
    """A log level."""
    if value not in _LEVELS:
        raise ValueError(f"must be one of {listed(_LEVELS)}")
    return str(value)


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; in a variable, separated by commas."""
    if isinstance(value, Untyped):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise ValueError('must be a list of texts, such as ["a", "b"]')
    return tuple(value)


def field_name(value: Any) -> str:
    """The name of a header field."""
    if not _FIELD.fullmatch(text(value)):
        raise ValueError('must be the name of a header field, such as "x-tenant"')
    return str(value).lower()


def names(value: Any) -> frozenset[str]:
    """A set of texts."""
    return frozenset(texts(value))


def quirks(value: Any) -> frozenset[Quirk]:
    """A list of tolerated quirks."""
    wanted = texts(value)
    known = {quirk.value for quirk in Quirk}
    for part in wanted:
        if part not in known:
            raise ValueError(f"{part!r} is no quirk{nearest(part, known)}")
    return frozenset(Quirk(part) for part in wanted)


def preset(value: Any) -> str:
    """The name of a preset."""
    if preset_named(text(value)) is None:
        raise ValueError(f"{str(value)!r} is no preset{nearest(value, [each.name for each in PRESETS])}")
    return str(value)


def listen(value: Any) -> str:
    """An address and a port."""
    match = _LISTEN.fullmatch(text(value))
    if match is None or int(match[2]) > _MAX_PORT:
        raise ValueError('must be ADDRESS:PORT, such as "127.0.0.1:8484" or "[::1]:8484"')
    return str(value)


def operator_listen(value: Any) -> str:
    """An address and a port, a Unix socket, or nothing."""
    kind, _, name = text(value).partition(":")
    if value == "off" or (kind == "unix" and name):
        return str(value)
    try:
        return listen(value)
    except ValueError:
        raise ValueError('must be ADDRESS:PORT, such as "127.0.0.1:8485", "unix:PATH" or "off"') from None


def collector_url(value: Any) -> str:
    """An OTLP/HTTP collector."""
    return with_path(http_url(value))


def ratio(value: Any) -> float:
    """A part of all."""
    with contextlib.suppress(ValueError):
        if (part := seconds(value)) <= 1:
            return part
    raise ValueError("must be a number from 0 to 1")


def listed(values: Iterable[Any]) -> str:
    """Values, for a message."""
    return ", ".join(str(value) for value in values)


def nearest(name: str, known: Iterable[str]) -> str:
    """What was probably meant, or else what there is; continues "there is no NAME"."""
    close = difflib.get_close_matches(name, list(known), 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {listed(sorted(known))}"


SERVER: dict[str, Reader] = {
    "listen": listen,
    "workers": whole(1),
    "default_upstream": text,
    "tls_cert": file,
    "tls_key": file,
    "allowed_hosts": texts,
    "held_bytes": whole(0),
    "drain_s": seconds,
    "keep_alive_s": whole(1),
    "max_header_bytes": whole(1024),
    "max_headers": whole(8),
    "max_target_bytes": whole(256),
    "max_body_bytes": whole(1024),
    "header_timeout_s": seconds,
    "body_timeout_s": seconds,
    "tenant_from": one_of(TenantFrom),
    "tenant_header": field_name,
}
TENANT: dict[str, Reader] = {
    "upstreams": names,
    "tools": texts,
    "turns": whole(0),
    "requests_per_minute": whole(0),
}
TRACES: dict[str, Reader] = {"endpoint": collector_url, "sample_ratio": ratio}
POLICY_SECTION: dict[str, Reader] = {
    "confirm_s": seconds,
    "authorizer_url": http_url,
    "authorizer_timeout_s": seconds,
    "authorizer_arguments": flag,
    "strip_disabled_tools": flag,
}
RULE: dict[str, Reader] = {"action": one_of(RuleAction), "tenant": text, "upstream": text, "tool": text}
LEDGER: dict[str, Reader] = {
    "url": ledger_url,
    "dir": path,
    "key_file": path,
    "timeout_s": seconds,
    "release_without_record": flag,
    "checkpoint_dir": folder,
    "checkpoint_every_s": whole(1),
    "checkpoint_key": path,
}
OPERATOR: dict[str, Reader] = {
    "listen": operator_listen,
    "tls_cert": file,
    "tls_key": file,
    "allow_unencrypted": flag,
    "allowed_hosts": texts,
}
LOG: dict[str, Reader] = {"format": one_of(LogFormat), "level": level}
SCHEMAS: dict[str, Reader] = {"dir": folder}
CAPTURE: dict[str, Reader] = {
    "dir": folder,
    "max_files": whole(1),
    "max_bytes": whole(1),
    "max_turn_bytes": whole(1),
    "queue": whole(1),
}
LIMITS: dict[str, Reader] = {
    "calls": whole(1),
    "choices": whole(1),
    "argument_bytes": whole(1),
    "held_bytes": whole(1),
    "frame_bytes": whole(1),
    "findings": whole(1),
    "json_depth": whole(1),
}
POLICY: dict[str, Reader] = {
    "mode": one_of(Mode),
    "on_block": one_of(OnBlock),
    "handoff": text,
    "keepalive_form": one_of(KeepAliveForm),
    "harmless": names,
    "forbidden_provider_tools": names,
}
TIMING: dict[str, Reader] = {
    "keepalive_s": seconds,
    "hold_timeout_s": seconds,
    "terminal_grace_s": seconds,
}
TIMEOUTS: dict[str, Reader] = {"connect_s": seconds, "first_byte_s": seconds, "idle_s": seconds}
UPSTREAM: dict[str, Reader] = {
    "base_url": base_url,
    "preset": preset,
    "accept": quirks,
    "unjudged": one_of(Unjudged),
    "capture": one_of(CaptureTurns),
    "proxy": proxy_url,
    "http2": flag,
    "ca_file": file,
    "client_cert": file,
    "client_key": file,
    "credential_env": text,
    "credential_file": path,
    **POLICY,
    **TIMING,
    **TIMEOUTS,
}
SECTIONS: dict[str, dict[str, Reader]] = {
    "server": SERVER,
    "operator": OPERATOR,
    "ledger": LEDGER,
    "log": LOG,
    "schemas": SCHEMAS,
    "capture": CAPTURE,
    "traces": TRACES,
    "policy": POLICY_SECTION,
}
