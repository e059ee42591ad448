"""The provider's credential: read where it is, and never told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from turngate.access.credential import credentials
from turngate.config import UpstreamConfig, load_config
from turngate.errors import ConfigError

UPSTREAM = load_config(environ={}).upstreams["openai"]


def held(environ: dict[str, str], **settings: object) -> dict[str, str]:
    upstream: UpstreamConfig = replace(UPSTREAM, **settings)  # type: ignore[arg-type]
    return credentials([upstream], environ)


def test_a_credential_comes_from_a_variable_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-file\n")
    assert held({"THE_KEY": "sk-variable"}, credential_env="THE_KEY") == {"openai": "sk-variable"}
    assert held({}, credential_file=file) == {"openai": "sk-file"}
    assert held({}) == {}


@pytest.mark.parametrize("value", ["", " ", "two words", "two\nlines", "sk-\x7f", "schlüssel"])
def test_what_is_no_credential_is_said_without_saying_it(value: str) -> None:
    with pytest.raises(
        ConfigError, match=r"upstreams\.openai\.credential_env: the variable THE_KEY"
    ) as caught:
        held({"THE_KEY": value}, credential_env="THE_KEY")
    assert not value.strip() or value not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent cannot be read"):
        held({}, credential_file=tmp_path / "absent")
