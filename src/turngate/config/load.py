"""Read files, variables and flags into a `Config`, or into one error that lists everything wrong.

Each value remembers where it came from, so that a complaint can name the file and line, the variable or the flag.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from turngate.config import keys
from turngate.config.model import Config, LedgerConfig, LogConfig, ServerConfig, Unjudged, UpstreamConfig
from turngate.core.policy import Limits, Timing, TurnPolicy
from turngate.errors import ConfigError
from turngate.presets import preset_for_host, preset_named
from turngate.transport.head import DEFAULT_PORTS, Origin, Timeouts

DEMO_URL = "demo:"
"""The base URL that stands for the bundled replay provider."""

BUILT_IN: dict[str, dict[str, Any]] = {
    "openai": {"base_url": "https://api.openai.com"},
    "anthropic": {"base_url": "https://api.anthropic.com"},
    "mistral": {"base_url": "https://api.mistral.ai"},
    "demo": {"base_url": DEMO_URL, "preset": "strict"},
}
"""Upstreams that exist without any configuration; a section of the same name overrides them key by key."""

PREFIX = "TURNGATE_"
NOT_KEYS = frozenset({"TURNGATE_CONFIG", "TURNGATE_SHARED", "TURNGATE_FAILPOINT", "TURNGATE_NO_SKIPS"})
"""Variables of ours that set no key."""

RESERVED = frozenset({"v1", "turngate"})
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9a-fA-F:.]+")
_LOOPBACK = re.compile(r"127\.|localhost$|::1$")
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")


@dataclass(frozen=True, slots=True)
class Override:
    """A value from a flag: `source` is how the flag is spelt."""

    section: str
    key: str
    value: str
    source: str


@dataclass(slots=True)
class _Reading:
    """What has been read so far: raw values with their sources, and everything wrong."""

    values: dict[tuple[str, ...], tuple[Any, str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def complain(self, source: str, message: str) -> None:
        self.errors.append(f"{source}: {message}")

    def section(self, prefix: tuple[str, ...], readers: Mapping[str, keys.Reader]) -> dict[str, Any]:
        """The values of one section that were set and are right."""
        found: dict[str, Any] = {}
        for key, reader in readers.items():
            raw = self.values.get((*prefix, key))
            if raw is None:
                continue
            value, source = raw
            try:
                found[key] = reader(value)
            except ValueError as error:
                self.complain(source, f"{'.'.join((*prefix, key))}: {error}")
        return found

    def source(self, *key: str) -> str:
        raw = self.values.get(key)
        return raw[1] if raw is not None else ".".join(key)


def load_config(
    file: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Iterable[Override] = (),
) -> Config:
    """The configuration; raises `ConfigError` with one line for everything that is wrong."""
    reading = _Reading()
    for name, settings in BUILT_IN.items():
        for key, value in settings.items():
            reading.values["upstreams", name, key] = (value, f"built-in upstream {name}")
    if file is not None:
        _read_file(file, reading)
    _read_environment(os.environ if environ is None else environ, reading)
    for each in overrides:
        reading.values[each.section, each.key] = (each.value, each.source)
    config = _build(reading)
    if reading.errors:
        raise ConfigError("\n".join(reading.errors))
    return config


# Files.


def _read_file(file: Path, reading: _Reading) -> None:
    try:
        content = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        reading.complain(str(file), f"cannot be read ({why}); give an existing TOML file")
        return
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        reading.complain(str(file), f"is not TOML: {error}")
        return
    lines = _locate(content)
    for section, table in document.items():
        source = f"{file}:{lines.get((section,), 1)}"
        if section == "upstreams" and isinstance(table, dict):
            for name, settings in table.items():
                _read_table(file, lines, ("upstreams", name), settings, reading)
        elif section in keys.SECTIONS:
            _read_table(file, lines, (section,), table, reading)
        else:
            hint = _nearest(section, [*keys.SECTIONS, "upstreams"])
            reading.complain(source, f"there is no section [{section}]{hint}")


def _read_table(
    file: Path, lines: Mapping[tuple[str, ...], int], prefix: tuple[str, ...], table: Any, reading: _Reading
) -> None:
    where = ".".join(prefix)
    line = lines.get(prefix, 1)
    if not isinstance(table, dict):
        reading.complain(f"{file}:{line}", f"{where}: must be a section, written [{where}]")
        return
    readers = keys.UPSTREAM if prefix[0] == "upstreams" else keys.SECTIONS[prefix[0]]
    for key, value in table.items():
        source = f"{file}:{lines.get((*prefix, key), line)}"
        if prefix[0] == "upstreams" and key == "limits" and isinstance(value, dict):
            for limit, number in value.items():
                _set(
                    (*prefix, "limits", limit),
                    number,
                    f"{file}:{lines.get((*prefix, 'limits', limit), lines.get((*prefix, key), line))}",
                    keys.LIMITS,
                    reading,
                )
        else:
            _set((*prefix, key), value, source, readers, reading)


def _set(key: tuple[str, ...], value: Any, source: str, known: Mapping[str, Any], reading: _Reading) -> None:
    if key[-1] not in known:
        reading.complain(source, f"there is no key {'.'.join(key)}{_nearest(key[-1], known)}")
        return
    reading.values[key] = (value, source)


def _locate(content: str) -> dict[tuple[str, ...], int]:
    """On which line each section and key stands. A hint for people: it reads lines, not TOML."""
    lines: dict[tuple[str, ...], int] = {}
    prefix: tuple[str, ...] = ()
    for number, line in enumerate(content.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        if header is not None:
            prefix = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            for depth in range(1, len(prefix) + 1):
                lines.setdefault(prefix[:depth], number)
        elif "=" in line and not line.lstrip().startswith("#"):
            name = tuple(part.strip().strip("\"'") for part in line.split("=", 1)[0].split("."))
            lines.setdefault((*prefix, *name), number)
    return lines


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {keys.listed(sorted(known))}"


# Variables.


def _read_environment(environ: Mapping[str, str], reading: _Reading) -> None:
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_KEYS:
            continue
        key = _key_of(variable.removeprefix(PREFIX).lower())
        if key is None:
            known = [
                f"{PREFIX}{section}_{key}".upper()
                for section in keys.SECTIONS
                for key in keys.SECTIONS[section]
            ]
            reading.complain(
                variable, f"sets no key{_nearest(variable, [*known, f'{PREFIX}UPSTREAMS_NAME_KEY'])}"
            )
        else:
            reading.values[key] = (value, variable)


def _key_of(variable: str) -> tuple[str, ...] | None:
    for section, readers in keys.SECTIONS.items():
        key = variable.removeprefix(f"{section}_")
        if key != variable and key in readers:
            return (section, key)
    rest = variable.removeprefix("upstreams_")
    if rest == variable:
        return None
    suffixes: list[tuple[str, tuple[str, ...]]] = [(key, (key,)) for key in keys.UPSTREAM]
    suffixes += [(f"limits_{key}", ("limits", key)) for key in keys.LIMITS]
    fits = [(rest[: -len(end) - 1], key) for end, key in suffixes if rest.endswith(f"_{end}")]
    # The longest key wins: `_limits_held_bytes` is not a key `held_bytes` of an upstream `x_limits`.
    name, path = min(fits, key=lambda fit: len(fit[0]), default=("", ()))
    return ("upstreams", name, *path) if name else None


# Building.


def _build(reading: _Reading) -> Config:
    server = ServerConfig(**reading.section(("server",), keys.SERVER))
    ledger = LedgerConfig(**reading.section(("ledger",), keys.LEDGER))
    log = LogConfig(**reading.section(("log",), keys.LOG))
    found = dict.fromkeys(key[1] for key in reading.values if key[0] == "upstreams")
    upstreams = {name: each for name in found if (each := _upstream(name, reading)) is not None}
    if server.default_upstream not in found:
        known = keys.listed(found)
        source = reading.source("server", "default_upstream")
        reading.complain(
            source, f"server.default_upstream: no upstream {server.default_upstream!r}; there are {known}"
        )
    if (server.tls_cert is None) != (server.tls_key is None):
        set_key = "tls_cert" if server.tls_cert is not None else "tls_key"
        reading.complain(reading.source("server", set_key), "server: tls_cert and tls_key go together")
    schemas = reading.section(("schemas",), keys.SCHEMAS)
    pinned = _pinned(schemas["dir"], reading) if "dir" in schemas else {}
    return Config(server, ledger, log, upstreams, pinned, tuple(reading.warnings))


def _upstream(name: str, reading: _Reading) -> UpstreamConfig | None:
    prefix = ("upstreams", name)
    where = next(source for key, (_, source) in reading.values.items() if key[:2] == prefix)
    if not _NAME.fullmatch(name) or name in RESERVED:
        taken = " (v1 and turngate are taken)" if name in RESERVED else ""
        reading.complain(where, f"upstreams.{name}: a name has a-z, 0-9, - and _ only{taken}")
        return None
    settings = reading.section(prefix, keys.UPSTREAM)
    limits = Limits(**reading.section((*prefix, "limits"), keys.LIMITS))
    if "base_url" not in settings:
        if ("upstreams", name, "base_url") not in reading.values:
            reading.complain(
                where, f'upstreams.{name}: base_url is missing, such as "https://api.example.com"'
            )
        return None
    base_url: str = settings["base_url"]
    place = _place(base_url, name, reading)
    if place is None:
        return None
    origin, base_path = place
    preset = preset_named(settings.get("preset", "")) or preset_for_host(origin.host)
    policy = TurnPolicy(
        accept=frozenset(preset.accept) | settings.get("accept", frozenset()),
        limits=limits,
        timing=Timing(**{key: settings[key] for key in keys.TIMING if key in settings}),
        **{key: settings[key] for key in keys.POLICY if key in settings},
    )
    return UpstreamConfig(
        name=name,
        base_url=base_url,
        origin=origin,
        base_path=base_path,
        preset=preset.name,
        policy=policy,
        family=preset.family,
        unjudged=settings.get("unjudged", Unjudged.BLOCK),
        timeouts=Timeouts(**{key: settings[key] for key in keys.TIMEOUTS if key in settings}),
        proxy=settings.get("proxy"),
        http2=settings.get("http2", False),
        ca_file=settings.get("ca_file"),
        client_cert=settings.get("client_cert"),
        client_key=settings.get("client_key"),
        is_demo=base_url == DEMO_URL,
    )


def _place(base_url: str, name: str, reading: _Reading) -> tuple[Origin, bytes] | None:
    """Origin and base path of an upstream's URL. Nothing but configuration ever chooses them."""
    if base_url == DEMO_URL:
        return Origin("http", "127.0.0.1", 0), b""
    source = reading.source("upstreams", name, "base_url")
    where = f"upstreams.{name}.base_url"
    try:
        parts = urlsplit(base_url)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        reading.complain(source, f"{where}: is no URL ({error})")
        return None
    if parts.scheme not in DEFAULT_PORTS or not host or not _HOST.fullmatch(host):
        reading.complain(source, f'{where}: must be an http or https URL, such as "https://api.example.com"')
        return None
    if parts.username or parts.password or parts.query or parts.fragment:
        reading.complain(
            source, f"{where}: must have no credentials, query or fragment; clients send their own key"
        )
        return None
    if not parts.path.isascii() or any(char <= " " for char in parts.path):
        reading.complain(source, f"{where}: its path must be percent-encoded")
        return None
    if parts.scheme == "http" and not _LOOPBACK.match(host):
        reading.warnings.append(f"{source}: {where}: keys and prompts travel unencrypted over http")
    origin = Origin(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme])
    return origin, parts.path.rstrip("/").encode("ascii")


def _pinned(folder: Path, reading: _Reading) -> dict[str, Any]:
    """The schemas of a folder: `TOOL.json` is the schema of TOOL, or `{"name": TOOL, "schema": ...}`."""
    pinned: dict[str, Any] = {}
    try:
        files = sorted(folder.glob("*.json"))
        if not folder.is_dir():
            raise NotADirectoryError(20, "it is no folder")
    except OSError as error:
        reading.complain(
            reading.source("schemas", "dir"), f"schemas.dir: {folder} cannot be read ({error.strerror})"
        )
        return pinned
    for file in files:
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reading.complain(str(file), f"is no JSON schema: {error}")
            continue
        named = isinstance(document, dict) and set(document) == {"name", "schema"}
        name, schema = (document["name"], document["schema"]) if named else (file.stem, document)
        if not isinstance(name, str) or not isinstance(schema, dict | bool):
            reading.complain(str(file), 'must hold a JSON schema, or {"name": TOOL, "schema": SCHEMA}')
        elif name in pinned:
            reading.complain(str(file), f"a second schema for tool {name!r}")
        else:
            pinned[name] = schema
    return pinned
