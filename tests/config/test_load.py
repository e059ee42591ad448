"""Reading the configuration: what wins over what, and that one look at an error is enough."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from turngate.config import CaptureTurns, Config, LogFormat, Override, Unjudged, keys, load_config
from turngate.core.policy import KeepAliveForm, Mode, OnBlock, Quirk
from turngate.errors import ConfigError

ROOT = Path(__file__).parents[2]
ANNOTATED = ROOT / "config" / "turngate.toml"


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None, *flags: Override) -> Config:
    file = tmp_path / "gate.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, environ=environ or {}, overrides=flags)


def errors(tmp_path: Path, text: str, environ: dict[str, str] | None = None, *flags: Override) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environ, *flags)
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def test_the_annotated_file_is_the_default() -> None:
    assert load_config(ANNOTATED, environ={}) == load_config(environ={})


def test_the_annotated_file_with_every_comment_switched_on_still_parses_to_defaults(tmp_path: Path) -> None:
    key = re.compile(r"^# (?=\[|[a-z0-9_]+ = )", re.MULTILINE)
    text = key.sub("", ANNOTATED.read_text(encoding="utf-8"))
    absents = "tls_cert tls_key dir proxy ca_file client_cert client_key credential_env credential_file authorizer_url endpoint sample_ratio checkpoint_dir checkpoint_key key_file"
    for absent in absents.split():
        text = re.sub(rf"^{absent} = .*\n", "", text, flags=re.MULTILINE)
    given = '[upstreams.example]\nbase_url = "https://llm.example.com/base"\n[tenants.example]'
    default = load(tmp_path, given)
    assert load(tmp_path, text) == default


def test_four_upstreams_exist_without_a_file() -> None:
    config = load_config(environ={})
    assert {name: each.preset for name, each in config.upstreams.items()} == {
        "openai": "openai",
        "anthropic": "anthropic",
        "mistral": "mistral",
        "demo": "strict",
    }
    assert config.upstreams["demo"].is_demo
    assert config.upstreams["mistral"].family == "mistral"


def test_a_section_overrides_a_built_in_upstream_key_by_key(tmp_path: Path) -> None:
    config = load(tmp_path, '[upstreams.openai]\non_block = "notice"\nlimits.calls = 3\n')
    openai = config.upstreams["openai"]
    assert openai.base_url == "https://api.openai.com"
    assert openai.policy.on_block is OnBlock.NOTICE
    assert openai.policy.limits.calls == 3
    assert config.upstreams["anthropic"] == load_config(environ={}).upstreams["anthropic"]


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    text = '[server]\nlisten = "127.0.0.1:1"\ndrain_s = 1\n[log]\nformat = "json"\nlevel = "error"\n'
    environ = {"TURNGATE_SERVER_LISTEN": "127.0.0.1:2", "TURNGATE_SERVER_DRAIN_S": "2"}
    flag = Override("server", "listen", "127.0.0.1:3", "--listen")
    config = load(tmp_path, text, environ, flag)
    assert (config.server.listen, config.server.drain_s) == ("127.0.0.1:3", 2.0)
    assert (config.log.format, config.log.level) == (LogFormat.JSON, "error")


def test_a_variable_reaches_every_kind_of_key() -> None:
    config = load_config(
        environ={
            "TURNGATE_LEDGER_RELEASE_WITHOUT_RECORD": "true",
            "TURNGATE_SERVER_ALLOWED_HOSTS": "a.example, b.example",
            "TURNGATE_UPSTREAMS_OPENAI_MODE": "observe",
            "TURNGATE_UPSTREAMS_OPENAI_ACCEPT": "missing_done,missing_ids",
            "TURNGATE_UPSTREAMS_OPENAI_LIMITS_HELD_BYTES": "7",
            "TURNGATE_UPSTREAMS_MY_MODEL_BASE_URL": "https://llm.example.com/x/",
            "TURNGATE_UPSTREAMS_MY_MODEL_KEEPALIVE_FORM": "blank",
            "TURNGATE_UPSTREAMS_MY_MODEL_UNJUDGED": "pass",
        }
    )
    openai, mine = config.upstreams["openai"], config.upstreams["my_model"]
    assert config.ledger.release_without_record
    assert config.server.allowed_hosts == ("a.example", "b.example")
    assert openai.policy.mode is Mode.OBSERVE
    assert openai.policy.accept >= {Quirk.MISSING_DONE, Quirk.MISSING_IDS}
    assert openai.policy.limits.held_bytes == 7
    assert (mine.base_path, mine.unjudged) == (b"/x", Unjudged.PASS)
    assert mine.policy.keepalive_form is KeepAliveForm.BLANK


def test_variables_that_set_no_key_are_left_alone() -> None:
    ours = {"TURNGATE_CONFIG": "x", "TURNGATE_SOAK": "1", "TURNGATE_NO_SKIPS": "1", "PATH": "/bin"}
    kubernetes = {
        "TURNGATE_SERVICE_HOST": "10.0.0.1",
        "TURNGATE_SERVICE_PORT_HTTP": "80",
        "TURNGATE_PORT": "tcp://10.0.0.1:80",
        "TURNGATE_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert load_config(environ=ours | kubernetes) == load_config(environ={})


def test_everything_wrong_is_said_at_once_each_in_one_line_with_its_place(tmp_path: Path) -> None:
    text = """\
[server]
listn = "127.0.0.1:80"
drain_s = "20"
keep_alive_s = 0

[sever]
x = 1

[upstreams.v1]
base_url = "https://a.example"

[upstreams.mine]
base_url = "ftp://a.example"
mode = "enforced"
accept = ["missing_don"]

[upstreams.mine.limits]
call = 1
"""
    environ = {"TURNGATE_LOG_FORMT": "json", "TURNGATE_LOG_LEVEL": "loud"}
    flag = Override("server", "default_upstream", "opnai", "--default-upstream")
    found = errors(tmp_path, text, environ, flag)
    assert sorted(found) == sorted(
        [
            "gate.toml:2: there is no key server.listn; did you mean 'listen'?",
            "gate.toml:3: server.drain_s: must be a number of seconds, 0 or more",
            "gate.toml:4: server.keep_alive_s: must be a whole number of at least 1",
            "gate.toml:6: there is no section [sever]; did you mean 'server'?",
            "gate.toml:9: upstreams.v1: a name has a-z, 0-9, - and _ only (v1 and turngate are taken)",
            'gate.toml:13: upstreams.mine.base_url: must be an http or https URL, such as "https://api.example.com"',
            "gate.toml:14: upstreams.mine.mode: must be one of enforce, observe",
            "gate.toml:15: upstreams.mine.accept: 'missing_don' is no quirk; did you mean 'missing_done'?",
            "gate.toml:18: there is no key upstreams.mine.limits.call; did you mean 'calls'?",
            "TURNGATE_LOG_FORMT: sets no key; did you mean 'TURNGATE_LOG_FORMAT'?",
            "TURNGATE_LOG_LEVEL: log.level: must be one of debug, info, warning, error",
            "--default-upstream: server.default_upstream: no upstream 'opnai'; did you mean 'openai'?",
        ]
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "x = 1",
            "gate.toml:1: there is no section [x]; known are capture, ledger, log, operator, policy, schemas, server, tenants, traces, upstreams",
        ),
        ("server = 1", "gate.toml:1: server: must be a section, written [server]"),
        ("upstreams = 1", "gate.toml:1: upstreams: must be sections, written [upstreams.NAME]"),
        ("\n[upstreams]\na = 1", "gate.toml:3: upstreams.a: must be a section, written [upstreams.a]"),
        ("[[server]]", "gate.toml:1: server: must be a section, written [server]"),
        (
            "[upstreams.openai]\nlimits = 1",
            "gate.toml:2: upstreams.openai.limits: must be a section, written [upstreams.openai.limits]",
        ),
        (
            "\n[upstreams.mine]\n",
            'gate.toml:2: upstreams.mine: base_url is missing, such as "https://api.example.com"',
        ),
        (
            '[upstreams."My Model"]\nbase_url = "https://a.example"',
            "gate.toml:1: upstreams.My Model: a name has a-z, 0-9, - and _ only",
        ),
        (
            '[upstreams.turngate]\nbase_url = "https://a.example"',
            "gate.toml:1: upstreams.turngate: a name has a-z, 0-9, - and _ only (v1 and turngate are taken)",
        ),
        (
            '[upstreams.openai]\npreset = "opnai"',
            "gate.toml:2: upstreams.openai.preset: 'opnai' is no preset; did you mean 'openai'?",
        ),
        (
            f'[upstreams.openai]\nclient_cert = "{ANNOTATED}"',
            "gate.toml:2: upstreams.openai: client_cert and client_key go together",
        ),
        (f'[server]\ntls_key = "{ANNOTATED}"', "gate.toml:2: server: tls_cert and tls_key go together"),
        (
            '[schemas]\ndir = "/nowhere"',
            "gate.toml:2: schemas.dir: /nowhere is no folder",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_allowed(tmp_path: Path, text: str, line: str) -> None:
    found = errors(tmp_path, text)
    if line.startswith("gate.toml:3: upstreams.a"):
        found = found[:1]  # such an upstream also lacks its base_url
    assert found == [line]


def test_a_file_that_is_absent_or_no_toml_is_one_line(tmp_path: Path) -> None:
    absent = tmp_path / "absent.toml"
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read \(No such file or directory\)"):
        load_config(absent, environ={})
    assert errors(tmp_path, "[server\n") == [
        "gate.toml: is not TOML: Expected ']' at the end of a table declaration (at line 1, column 8)"
    ]
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.toml: cannot be read \(it is not UTF-8\)"):
        load_config(tmp_path / "latin.toml", environ={})


def test_plain_http_to_another_machine_warns_and_to_this_one_does_not(tmp_path: Path) -> None:
    far = load(tmp_path, '[upstreams.far]\nbase_url = "http://127.0.0.1.evil.example"')
    assert far.warnings == (
        f"{tmp_path}/gate.toml:2: upstreams.far.base_url: keys and prompts travel unencrypted over http",
    )
    for near in ("127.0.0.1:1", "[::1]:1", "localhost"):
        assert load(tmp_path, f'[upstreams.near]\nbase_url = "http://{near}"').warnings == ()


def test_the_preset_is_chosen_by_host_and_accept_adds_to_it(tmp_path: Path) -> None:
    text = '[upstreams.a]\nbase_url = "https://{}"\naccept = ["null_text_id"]'
    strict = load(tmp_path, text.format("llm.example.com")).upstreams["a"]
    assert (strict.preset, strict.policy.accept) == ("strict", frozenset({Quirk.NULL_TEXT_ID}))
    known = load(tmp_path, text.format("API.OpenAI.com")).upstreams["a"]
    assert known.preset == "openai"
    assert Quirk.NULL_TEXT_ID in known.policy.accept


def test_pinned_schemas_come_with_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "search.json").write_text('{"type": "object"}', encoding="utf-8")
    config = load(tmp_path, f'[schemas]\ndir = "{folder}"')
    assert config.schemas == {"search": {"type": "object"}}
    (folder / "bad.json").write_text("{", encoding="utf-8")
    (found,) = errors(tmp_path, f'[schemas]\ndir = "{folder}"')
    assert found.startswith("schemas/bad.json: is no strict JSON: ")


def test_the_annotated_file_is_plain_toml_with_every_section() -> None:
    document = tomllib.loads(ANNOTATED.read_text(encoding="utf-8"))
    assert set(document) == {*keys.SECTIONS, "upstreams"}


@pytest.mark.parametrize(
    "lines",
    [
        'listen = "127.0.0.1:0"',
        'listen = "[::1]:8485"',
        'listen = "localhost:8485"',
        'listen = "unix:/run/turngate/operator.sock"',
        'listen = "off"',
        'listen = "0.0.0.0:8485"\nallow_unencrypted = true',
        f'listen = "10.0.0.1:8485"\ntls_cert = "{ANNOTATED}"\ntls_key = "{ANNOTATED}"',
    ],
)
def test_the_operators_listener_is_on_this_machine_or_encrypted(tmp_path: Path, lines: str) -> None:
    assert load(tmp_path, f"[operator]\n{lines}").operator.listen in lines


@pytest.mark.parametrize("listen", ["0.0.0.0:8485", "[::]:8485", "10.0.0.1:8485", "gate.example:8485"])
def test_another_address_needs_tls_or_the_word_of_the_operator(tmp_path: Path, listen: str) -> None:
    (found,) = errors(tmp_path, f'[operator]\nlisten = "{listen}"')
    assert found.startswith("gate.toml:2: operator.listen: tokens would travel unencrypted")


@pytest.mark.parametrize("listen", ["8485", "unix:", "on", "127.0.0.1:99999"])
def test_a_listener_that_is_none_is_refused(tmp_path: Path, listen: str) -> None:
    (found,) = errors(tmp_path, f'[operator]\nlisten = "{listen}"')
    assert "must be ADDRESS:PORT" in found


def test_captures_need_a_folder(tmp_path: Path) -> None:
    provider = '[upstreams.mine]\nbase_url = "https://a.example"\ncapture = "blocked"\n'
    assert errors(tmp_path, provider) == [
        "gate.toml:3: upstreams.mine.capture: needs a folder to write to; set capture.dir"
    ]
    config = load(tmp_path, f'{provider}[capture]\ndir = "{tmp_path}"\nmax_files = 7')
    assert (config.capture.dir, config.capture.max_files) == (tmp_path, 7)
    assert config.upstreams["mine"].capture is CaptureTurns.BLOCKED
    assert config.upstreams["openai"].capture is CaptureTurns.OFF
