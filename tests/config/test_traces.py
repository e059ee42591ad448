"""Where spans go: the configuration, OpenTelemetry's variables, and what happens when nothing can send them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from turngate.config import TracesConfig, load_config
from turngate.errors import ConfigError

BASE, OWN = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
COLLECTOR = {BASE: "http://collector:4318/otlp/"}


def loaded(text: str = "", **environ: str) -> TracesConfig:
    return load_config(written(text), environ=environ).traces if text else load_config(environ=environ).traces


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str) -> Path:
    file = Path("gate.toml")
    file.write_text(f"[traces]\n{text}\n")
    return file


def test_there_are_no_traces_unless_a_collector_is_named() -> None:
    assert loaded() == TracesConfig(None, None)
    assert loaded("sample_ratio = 0.5") == TracesConfig(None, 0.5)


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://example.com/otlp/v1/traces", "https://example.com/otlp/v1/traces"),
    ],
)
def test_a_collector_without_a_path_gets_the_protocols(given: str, endpoint: str) -> None:
    assert loaded(f'endpoint = "{given}"').endpoint == endpoint
    assert loaded(TURNGATE_TRACES_ENDPOINT=given).endpoint == endpoint


def test_opentelemetrys_variables_count_where_no_setting_of_ours_does() -> None:
    assert loaded(**COLLECTOR).endpoint == "http://collector:4318/otlp/v1/traces"
    assert loaded(**COLLECTOR, **{OWN: "http://other:1/x"}).endpoint == "http://other:1/x"
    assert loaded('endpoint = "http://mine:2"', **COLLECTOR).endpoint == "http://mine:2/v1/traces"


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_SDK_DISABLED": "True"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_variables_that_want_no_such_traces_are_followed(environ: dict[str, str]) -> None:
    assert loaded(**COLLECTOR, **environ).endpoint is None


def test_a_collector_that_speaks_grpc_is_warned_of() -> None:
    config = load_config(environ={**COLLECTOR, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})
    assert any(BASE in warning and "OTLP/HTTP" in warning for warning in config.warnings)


@pytest.mark.parametrize(
    "setting", ['endpoint = "collector:4318"', "sample_ratio = 1.5", 'sample_ratio = "x"']
)
def test_a_wrong_setting_is_refused_by_name(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"traces.{setting.split(maxsplit=1)[0]}: must be"):
        loaded(setting)


def test_without_the_extra_a_setting_is_refused_and_a_variable_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"gate.toml:2: traces.endpoint: .*turngate\[otel\]"):
        loaded('endpoint = "http://collector:4318"')
    config = load_config(environ=COLLECTOR)
    assert config.traces.endpoint is None
    assert any("turngate[otel]" in warning for warning in config.warnings)
