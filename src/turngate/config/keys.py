"""Every configuration key and how its value is read.

A reader takes the raw value (typed in TOML, text in a variable or flag) and gives the value, or raises `ValueError` with what is
allowed, in words that complete "KEY: ...".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from turngate.config.model import LogFormat, Unjudged
from turngate.core.policy import KeepAliveForm, Mode, OnBlock, Quirk
from turngate.presets import PRESETS, preset_named

Reader = Callable[[Any], Any]

_LEVELS = ("debug", "info", "warning", "error")
_LISTEN = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):(\d{1,5})")
_MAX_PORT = 65535


def text(value: Any) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise ValueError("must be text in quotes")  # noqa: TRY004 -- one kind of complaint for a caller to catch
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    if value in ("true", "1", "yes"):
        return True
    if value in ("false", "0", "no"):
        return False
    raise ValueError("must be true or false")


def whole(at_least: int) -> Reader:
    """A whole number."""

    def read(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or number < at_least:
            raise ValueError(f"must be a whole number of at least {at_least}")
        return number

    return read


def seconds(value: Any) -> float:
    """A duration."""
    try:
        number = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError("must be a number of seconds, 0 or more")
    return number


def path(value: Any) -> Path:
    """A file or folder."""
    return Path(text(value)).expanduser()


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
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise ValueError('must be a list of texts, such as ["a", "b"]')
    return tuple(value)


def names(value: Any) -> frozenset[str]:
    """A set of texts."""
    return frozenset(texts(value))


def quirks(value: Any) -> frozenset[Quirk]:
    """A list of tolerated quirks."""
    try:
        return frozenset(Quirk(part) for part in texts(value))
    except ValueError as error:
        unknown = [part for part in (value if isinstance(value, list) else []) if part not in set(Quirk)]
        what = f"{unknown[0]!r} is no quirk; " if unknown else f"{error}; "
        raise ValueError(f"{what}the quirks are {listed(Quirk)}") from None


def preset(value: Any) -> str:
    """The name of a preset."""
    if preset_named(text(value)) is None:
        raise ValueError(f"must be one of {listed(sorted(each.name for each in PRESETS))}")
    return str(value)


def listen(value: Any) -> str:
    """An address and a port."""
    match = _LISTEN.fullmatch(text(value))
    if match is None or int(match[2]) > _MAX_PORT:
        raise ValueError('must be ADDRESS:PORT, such as "127.0.0.1:8484" or "[::1]:8484"')
    return str(value)


def listed(values: Iterable[Any]) -> str:
    """Values, for a message."""
    return ", ".join(str(value) for value in values)


SERVER: dict[str, Reader] = {
    "listen": listen,
    "default_upstream": text,
    "tls_cert": path,
    "tls_key": path,
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
}
LEDGER: dict[str, Reader] = {"url": text, "timeout_s": seconds, "release_without_record": flag}
LOG: dict[str, Reader] = {"format": one_of(LogFormat), "level": level}
SCHEMAS: dict[str, Reader] = {"dir": path}
LIMITS: dict[str, Reader] = {
    "calls": whole(1),
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
    "base_url": text,
    "preset": preset,
    "accept": quirks,
    "unjudged": one_of(Unjudged),
    "proxy": text,
    "http2": flag,
    "ca_file": path,
    "client_cert": path,
    "client_key": path,
    **POLICY,
    **TIMING,
    **TIMEOUTS,
}
SECTIONS: dict[str, dict[str, Reader]] = {"server": SERVER, "ledger": LEDGER, "log": LOG, "schemas": SCHEMAS}
