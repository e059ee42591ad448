"""Keys: every setting has one, and every reader says what it wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from turngate.config import LedgerConfig, LogConfig, OperatorConfig, ServerConfig, UpstreamConfig, keys
from turngate.core.policy import Limits, Mode, Quirk, Timing, TurnPolicy
from turngate.transport.head import Timeouts

DERIVED = {"name", "origin", "base_path", "family", "is_demo", "policy", "timeouts", "limits", "timing"}


def names(*kinds: type[Any]) -> set[str]:
    return {field.name for kind in kinds for field in fields(kind)} - DERIVED


@pytest.mark.parametrize(
    ("readers", "kinds"),
    [
        (keys.SERVER, (ServerConfig,)),
        (keys.OPERATOR, (OperatorConfig,)),
        (keys.LEDGER, (LedgerConfig,)),
        (keys.LOG, (LogConfig,)),
        (keys.LIMITS, (Limits,)),
        (keys.TIMING, (Timing,)),
        (keys.TIMEOUTS, (Timeouts,)),
        (keys.UPSTREAM, (UpstreamConfig, TurnPolicy, Timing, Timeouts)),
    ],
)
def test_every_field_has_a_key_and_every_key_a_field(
    readers: dict[str, keys.Reader], kinds: tuple[type[Any], ...]
) -> None:
    assert set(readers) == names(*kinds)


Read = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("read", "value", "result"),
    [
        (keys.text, "", ""),
        (keys.flag, True, True),
        (keys.flag, keys.Untyped("no"), False),
        (keys.whole(1), 1, 1),
        (keys.whole(1), keys.Untyped("12"), 12),
        (keys.seconds, 0, 0.0),
        (keys.seconds, keys.Untyped("0.5"), 0.5),
        (keys.one_of(Mode), "observe", Mode.OBSERVE),
        (keys.level, "debug", "debug"),
        (keys.texts, ["a", "b"], ("a", "b")),
        (keys.operator_listen, "off", "off"),
        (keys.operator_listen, "unix:/run/turngate.sock", "unix:/run/turngate.sock"),
        (keys.operator_listen, "[::1]:8485", "[::1]:8485"),
        (keys.texts, keys.Untyped("a, b,"), ("a", "b")),
        (keys.names, [], frozenset()),
        (keys.quirks, ["missing_ids"], frozenset({Quirk.MISSING_IDS})),
        (keys.preset, "vllm", "vllm"),
        (keys.listen, "[::1]:0", "[::1]:0"),
        (keys.ledger_url, "sqlite:////var/lib/a.db", "sqlite:////var/lib/a.db"),
        (keys.proxy_url, "socks5://proxy:1080", "socks5://proxy:1080"),
    ],
)
def test_a_right_value_is_read(read: Read, value: Any, result: Any) -> None:
    assert read(value) == result


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (keys.text, 1, "must be text in quotes"),
        (keys.flag, "true", "must be true or false"),
        (keys.flag, 1, "must be true or false"),
        (keys.flag, keys.Untyped("on"), "must be true or false"),
        (keys.whole(1), 0, "must be a whole number of at least 1"),
        (keys.whole(1), 1.5, "must be a whole number of at least 1"),
        (keys.whole(1), True, "must be a whole number of at least 1"),
        (keys.whole(1), "2", "must be a whole number of at least 1"),
        (keys.whole(1), keys.Untyped("two"), "must be a whole number of at least 1"),
        (keys.seconds, -1, "must be a number of seconds, 0 or more"),
        (keys.seconds, float("nan"), "must be a number of seconds, 0 or more"),
        (keys.seconds, float("inf"), "must be a number of seconds, 0 or more"),
        (keys.seconds, 10**400, "must be a number of seconds, 0 or more"),
        (keys.seconds, True, "must be a number of seconds, 0 or more"),
        (keys.seconds, "8", "must be a number of seconds, 0 or more"),
        (keys.seconds, [], "must be a number of seconds, 0 or more"),
        (keys.one_of(Mode), ["observe"], "must be one of enforce, observe"),
        (keys.level, "INFO", "must be one of debug, info, warning, error"),
        (keys.texts, "a", "must be a list of texts"),
        (keys.texts, ["a", 1], "must be a list of texts"),
        (keys.quirks, ["shared_index"], "'shared_index' is no quirk; "),
        (keys.preset, "vlm", "'vlm' is no preset; did you mean 'vllm'?"),
        (keys.listen, "8484", "must be ADDRESS:PORT"),
        (keys.listen, "::1:80", "must be ADDRESS:PORT"),
        (keys.listen, "127.0.0.1:65536", "must be ADDRESS:PORT"),
        (keys.ledger_url, "mysql://x", "scheme 'mysql' is unknown; use sqlite:///file"),
        (keys.ledger_url, "sqlite://:memory:", "a SQLite ledger is sqlite:///file"),
        (keys.proxy_url, "proxy:3128", "must be a http, https or socks5 URL"),
        (keys.file, "/nowhere/key.pem", "/nowhere/key.pem cannot be read (No such file or directory)"),
        (keys.folder, "/nowhere", "/nowhere is no folder"),
    ],
)
def test_a_wrong_value_is_told_what_is_allowed(read: Read, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read(value)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert keys.path("~/schemas") == Path("/home/somebody/schemas")


def test_a_far_miss_lists_what_there_is() -> None:
    assert keys.nearest("zzz", ["b", "a"]) == "; known are a, b"
    assert keys.nearest("listn", ["listen", "log"]) == "; did you mean 'listen'?"


def test_text_from_a_variable_is_plain_text_once_it_is_read() -> None:
    """Workers get the configuration in a form that knows nothing of where a value came from."""
    assert type(keys.text(keys.Untyped("demo"))) is str
