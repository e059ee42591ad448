"""Read files, variables and flags into a `Config`, or into one error that lists everything wrong.

Each value remembers where it came from, so that a complaint can name the file and line, the variable or the flag.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from turngate.bearer import NAME
from turngate.config import keys
from turngate.config.access import PolicyConfig, TenantConfig, TenantFrom
from turngate.config.base_url import DEMO_URL, BaseURL
from turngate.config.model import (
    CaptureConfig,
    CaptureTurns,
    Config,
    LedgerConfig,
    LogConfig,
    OperatorConfig,
    ServerConfig,
    Unjudged,
    UpstreamConfig,
)
from turngate.config.pinned import Pinned
from turngate.config.traces import TracesConfig, has_exporter, named_collector, speaks_grpc
from turngate.core.policy import Limits, Timing, TurnPolicy
from turngate.core.tool_rules import ToolRule
from turngate.errors import ConfigError
from turngate.presets import preset_for_host, preset_named
from turngate.transport.head import Timeouts

BUILT_IN: dict[str, dict[str, Any]] = {
    "openai": {"base_url": "https://api.openai.com"},
    "anthropic": {"base_url": "https://api.anthropic.com"},
    "mistral": {"base_url": "https://api.mistral.ai"},
    "demo": {"base_url": DEMO_URL, "preset": "strict"},
}
"""Upstreams that exist without any configuration; a section of the same name overrides them key by key."""

PREFIX = "TURNGATE_"
NOT_KEYS = re.compile(
    r"TURNGATE_(?:CONFIG|SHARED|FAILPOINT|NO_SKIPS|SOAK|TOKEN|URL|(?:SERVICE|PORT)(?:_.*)?)"
)
"""Variables that set no key: our own switches, what the commands of an operator read, and what Kubernetes and links put beside a service that is called turngate."""

RESERVED = frozenset({"v1", "turngate"})
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")
_ARRAY_HEADER = re.compile(r"\s*\[\[([^\[\]]+)\]\]\s*(#.*)?")


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
    upstreams: dict[str, str] = field(default_factory=dict)
    """Every upstream that was named, with where it was named first."""
    tenants: dict[str, str] = field(default_factory=dict)
    """The same of the tenants."""
    rules: list[str] = field(default_factory=list)
    """Where each rule of the policy stands."""
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
        reading.upstreams[name] = f"built-in upstream {name}"
        for key, value in settings.items():
            reading.values["upstreams", name, key] = (value, reading.upstreams[name])
    environ = os.environ if environ is None else environ
    _read_collector(environ, reading)
    if file is not None:
        _read_file(file, reading)
    _read_environment(environ, reading)
    for each in overrides:
        reading.values[each.section, each.key] = (keys.Untyped(each.value), each.source)
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
    place = _Places(file, content)
    for section, table in document.items():
        if section == "upstreams" and isinstance(table, dict):
            for name, settings in table.items():
                reading.upstreams.setdefault(name, place("upstreams", name))
                _read_table(place, ("upstreams", name), settings, keys.UPSTREAM, reading)
        elif section == "tenants" and isinstance(table, dict):
            for name, settings in table.items():
                reading.tenants[name] = place("tenants", name)
                _read_table(place, ("tenants", name), settings, keys.TENANT, reading)
        elif section == "policy" and isinstance(table, dict):
            _read_policy(place, table, reading)
        elif section in keys.SECTIONS:
            _read_table(place, (section,), table, keys.SECTIONS[section], reading)
        elif section in ("upstreams", "tenants"):
            reading.complain(place(section), f"{section}: must be sections, written [{section}.NAME]")
        else:
            hint = keys.nearest(section, [*keys.SECTIONS, "upstreams", "tenants"])
            reading.complain(place(section), f"there is no section [{section}]{hint}")


def _read_policy(place: _Places, table: dict[str, Any], reading: _Reading) -> None:
    rules = table.get("rules", [])
    if not isinstance(rules, list):
        message = "policy.rules: must be written [[policy.rules]], once a rule"
        reading.complain(place("policy", "rules"), message)
        rules = []
    for number, rule in enumerate(rules):
        at = ("policy", "rules", str(number))
        reading.rules.append(place(*at))
        _read_table(place, at, rule, keys.RULE, reading)
    settings = {key: value for key, value in table.items() if key != "rules"}
    _read_table(place, ("policy",), settings, keys.POLICY_SECTION, reading)


def _read_table(
    place: _Places, prefix: tuple[str, ...], table: Any, readers: Mapping[str, keys.Reader], reading: _Reading
) -> None:
    where = ".".join(prefix)
    if not isinstance(table, dict):
        reading.complain(place(*prefix), f"{where}: must be a section, written [{where}]")
        return
    for key, value in table.items():
        source = place(*prefix, key)
        if readers is keys.UPSTREAM and key == "limits":
            _read_table(place, (*prefix, key), value, keys.LIMITS, reading)
        elif key in readers:
            reading.values[*prefix, key] = (value, source)
        else:
            known = [*readers, "limits"] if readers is keys.UPSTREAM else readers
            reading.complain(source, f"there is no key {where}.{key}{keys.nearest(key, known)}")


class _Places:
    """On which line each section and key of a file stands. A hint for people: it reads lines, not TOML."""

    def __init__(self, file: Path, content: str) -> None:
        self._file = file
        self._lines: dict[tuple[str, ...], int] = {}
        prefix: tuple[str, ...] = ()
        arrays: Counter[tuple[str, ...]] = Counter()
        for number, line in enumerate(content.splitlines(), 1):
            header = _HEADER.fullmatch(line) or _ARRAY_HEADER.fullmatch(line)
            if header is not None:
                prefix = _parts(header[1])
                if header.re is _ARRAY_HEADER:
                    arrays[prefix] += 1
                    prefix = (*prefix, str(arrays[prefix] - 1))
                for depth in range(1, len(prefix) + 1):
                    self._lines.setdefault(prefix[:depth], number)
            elif "=" in line and not line.lstrip().startswith("#"):
                self._lines.setdefault((*prefix, *_parts(line.split("=", 1)[0])), number)

    def __call__(self, *key: str) -> str:
        """FILE:LINE of a key, or of the closest section around it."""
        depth = next((depth for depth in range(len(key), 0, -1) if key[:depth] in self._lines), 0)
        return f"{self._file}:{self._lines.get(key[:depth], 1)}"


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


# Variables.


def _read_environment(environ: Mapping[str, str], reading: _Reading) -> None:
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or NOT_KEYS.fullmatch(variable):
            continue
        key = _key_of(variable.removeprefix(PREFIX).lower())
        if key is None:
            sections = [
                f"{PREFIX}{section}_{key}" for section in keys.SECTIONS for key in keys.SECTIONS[section]
            ]
            known = [name.upper() for name in (*sections, f"{PREFIX}UPSTREAMS_NAME_KEY")]
            reading.complain(variable, f"sets no key{keys.nearest(variable, known)}")
            continue
        if key[0] == "upstreams":
            reading.upstreams.setdefault(key[1], variable)
        reading.values[key] = (keys.Untyped(value), variable)


def _read_collector(environ: Mapping[str, str], reading: _Reading) -> None:
    """What OpenTelemetry's variables say, which any setting of ours overrides."""
    if (named := named_collector(environ)) is None:
        return
    if speaks_grpc(environ):
        reading.warnings.append(
            f"{named[1]}: no traces; they are sent over OTLP/HTTP only, and grpc is asked for"
        )
    elif not has_exporter():
        reading.warnings.append(f"{named[1]}: no traces; they need the extra: pip install 'turngate[otel]'")
    else:
        reading.values["traces", "endpoint"] = named


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
    named = reading.upstreams
    upstreams = {name: each for name in named if (each := _upstream(name, reading)) is not None}
    for name in upstreams:
        _check_credential(name, server.tenant_from, reading)
    tenants = {name: _tenant(name, upstreams, reading) for name in reading.tenants}
    if server.default_upstream not in named:
        source = reading.source("server", "default_upstream")
        hint = keys.nearest(server.default_upstream, named)
        reading.complain(source, f"server.default_upstream: no upstream {server.default_upstream!r}{hint}")
    _go_together(("server",), "tls_cert", "tls_key", reading)
    operator = _operator(reading)
    folder = reading.section(("schemas",), keys.SCHEMAS).get("dir")
    pinned = Pinned(folder) if folder is not None else None
    for file, message in pinned.errors if pinned is not None else ():
        reading.complain(str(file), message)
    schemas = pinned.schemas if pinned is not None else {}
    capture = _capture(upstreams.values(), reading)
    traces = TracesConfig(**reading.section(("traces",), keys.TRACES))
    if traces.endpoint is not None and not has_exporter():
        reading.complain(
            reading.source("traces", "endpoint"),
            "traces.endpoint: needs the extra: pip install 'turngate[otel]'",
        )
    warnings = tuple(reading.warnings)
    rules = _rules(upstreams, reading)
    policy = PolicyConfig(rules, **reading.section(("policy",), keys.POLICY_SECTION))
    return Config(
        server, ledger, log, upstreams, schemas, warnings, operator, capture, tenants, policy, traces
    )


def _capture(upstreams: Iterable[UpstreamConfig], reading: _Reading) -> CaptureConfig:
    capture = CaptureConfig(**reading.section(("capture",), keys.CAPTURE))
    capturing = [upstream for upstream in upstreams if upstream.capture is not CaptureTurns.OFF]
    for upstream in capturing if ("capture", "dir") not in reading.values else ():
        source = reading.source("upstreams", upstream.name, "capture")
        message = f"upstreams.{upstream.name}.capture: needs a folder to write to; set capture.dir"
        reading.complain(source, message)
    return capture


def _tenant(name: str, upstreams: Mapping[str, UpstreamConfig], reading: _Reading) -> TenantConfig:
    if not NAME.fullmatch(name):
        message = f"tenants.{name}: a name has up to 64 letters, digits and . _ @ -"
        reading.complain(reading.tenants[name], message)
    tenant = TenantConfig(**reading.section(("tenants", name), keys.TENANT))
    for unknown in sorted(tenant.upstreams - set(reading.upstreams)):
        message = f"tenants.{name}.upstreams: no upstream {unknown!r}{keys.nearest(unknown, upstreams)}"
        reading.complain(reading.source("tenants", name, "upstreams"), message)
    return tenant


def _rules(upstreams: Mapping[str, UpstreamConfig], reading: _Reading) -> tuple[ToolRule, ...]:
    rules = []
    for number, place in enumerate(reading.rules):
        at = ("policy", "rules", str(number))
        settings = reading.section(at, keys.RULE)
        if (*at, "action") not in reading.values:
            reading.complain(place, "policy.rules: action is missing; it is allow, confirm or deny")
        upstream = settings.get("upstream", "*")
        if not any(fnmatchcase(name, upstream) for name in upstreams):
            hint = keys.nearest(upstream, upstreams)
            reading.complain(reading.source(*at, "upstream"), f"policy.rules: no upstream {upstream!r}{hint}")
        if "action" in settings:
            rules.append(ToolRule(**settings))
    return tuple(rules)


def _check_credential(name: str, tenant_from: TenantFrom, reading: _Reading) -> None:
    keys_of_it = ("credential_env", "credential_file")
    given = [key for key in keys_of_it if ("upstreams", name, key) in reading.values]
    if not given:
        return
    source = reading.source("upstreams", name, given[0])
    if len(given) > 1:
        reading.complain(source, f"upstreams.{name}: give credential_env or credential_file, not both")
    if tenant_from is not TenantFrom.GATE_KEY:
        message = f'upstreams.{name}.{given[0]}: whoever reaches the gate would use it; set server.tenant_from = "gate_key"'
        reading.complain(source, message)


def _operator(reading: _Reading) -> OperatorConfig:
    operator = OperatorConfig(**reading.section(("operator",), keys.OPERATOR))
    _go_together(("operator",), "tls_cert", "tls_key", reading)
    if operator.is_exposed and operator.tls_cert is None and not operator.allow_unencrypted:
        reading.complain(
            reading.source("operator", "listen"),
            "operator.listen: tokens would travel unencrypted to another address than loopback; set operator.tls_cert and "
            "operator.tls_key, or operator.allow_unencrypted = true where something in front of it encrypts",
        )
    return operator


def _upstream(name: str, reading: _Reading) -> UpstreamConfig | None:
    prefix = ("upstreams", name)
    if not _NAME.fullmatch(name) or name in RESERVED:
        taken = " (v1 and turngate are taken)" if name in RESERVED else ""
        reading.complain(
            reading.upstreams[name], f"upstreams.{name}: a name has a-z, 0-9, - and _ only{taken}"
        )
        return None
    settings = reading.section(prefix, keys.UPSTREAM)
    limits = Limits(**reading.section((*prefix, "limits"), keys.LIMITS))
    _go_together(prefix, "client_cert", "client_key", reading)
    if (*prefix, "base_url") not in reading.values:
        message = f'upstreams.{name}: base_url is missing, such as "https://api.example.com"'
        reading.complain(reading.upstreams[name], message)
    base: BaseURL | None = settings.get("base_url")
    if base is None:
        return None
    if base.is_exposed:
        source = reading.source(*prefix, "base_url")
        reading.warnings.append(
            f"{source}: upstreams.{name}.base_url: keys and prompts travel unencrypted over http"
        )
    preset = preset_named(settings.get("preset", "")) or preset_for_host(base.origin.host)
    policy = TurnPolicy(
        accept=frozenset(preset.accept) | settings.get("accept", frozenset()),
        limits=limits,
        timing=Timing(**{key: settings[key] for key in keys.TIMING if key in settings}),
        **{key: settings[key] for key in keys.POLICY if key in settings},
    )
    return UpstreamConfig(
        name=name,
        base_url=base.text,
        origin=base.origin,
        base_path=base.path,
        preset=preset.name,
        policy=policy,
        family=preset.family,
        unjudged=settings.get("unjudged", Unjudged.BLOCK),
        capture=settings.get("capture", CaptureTurns.OFF),
        timeouts=Timeouts(**{key: settings[key] for key in keys.TIMEOUTS if key in settings}),
        proxy=settings.get("proxy"),
        http2=settings.get("http2", False),
        ca_file=settings.get("ca_file"),
        client_cert=settings.get("client_cert"),
        client_key=settings.get("client_key"),
        credential_env=settings.get("credential_env"),
        credential_file=settings.get("credential_file"),
        is_demo=base.is_demo,
    )


def _go_together(prefix: tuple[str, ...], one: str, other: str, reading: _Reading) -> None:
    given = [key for key in (one, other) if (*prefix, key) in reading.values]
    if len(given) == 1:
        reading.complain(
            reading.source(*prefix, given[0]), f"{'.'.join(prefix)}: {one} and {other} go together"
        )
