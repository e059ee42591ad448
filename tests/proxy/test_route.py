from __future__ import annotations

from pathlib import Path

import pytest

from tests.proxy.gated import configured
from turngate.proxy.route import find_route


@pytest.mark.parametrize(
    ("target", "sent", "path"),
    [
        (b"/provider/v1/models", b"/v1/models", "/v1/models"),
        (b"/v1/models", b"/v1/models", "/v1/models"),
        (b"/v1/files/a%2Fb%2e.+c?a=1&&b=%2F+", b"/v1/files/a%2Fb%2e.+c?a=1&&b=%2F+", "/v1/files/a/b..+c"),
        (b"/v1/models?", b"/v1/models?", "/v1/models"),
        (b"/v1/models??", b"/v1/models??", "/v1/models"),
        (b"/v1/../x", b"/v1/../x", "/v1/../x"),
        (b"/v1//evil.test/x", b"/v1//evil.test/x", "/v1//evil.test/x"),
        (b"/provider//evil.test/x", b"//evil.test/x", "//evil.test/x"),
        (b"/provider/", b"/", "/"),
        (b"/v1/%63hat/completions", b"/v1/%63hat/completions", "/v1/chat/completions"),
        (b"/v1/\xff%ff", b"/v1/\xff%ff", "/v1/\ufffd\ufffd"),
    ],
)
@pytest.mark.parametrize("base", [b"", b"/base/path"])
def test_the_target_is_kept_byte_for_byte(
    tmp_path: Path, target: bytes, sent: bytes, path: str, base: bytes
) -> None:
    config = configured(tmp_path, f"http://127.0.0.1:1{base.decode()}")
    route = find_route(target, config.upstreams, "provider")
    assert route is not None
    assert (route.upstream.name, route.target, route.path) == ("provider", base + sent, path)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1beta/models/gemini-3-pro:streamGenerateContent", "gemini-3-pro"),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-3:generateContent", "gemini-3"),
        ("/v1beta/tunedModels/mine:generateContent", "mine"),
        ("/model/eu.anthropic.claude-v2:0/converse-stream", "eu.anthropic.claude-v2:0"),
        (
            "/model/arn:aws:bedrock:r:1:inference-profile/eu.x/invoke",
            "arn:aws:bedrock:r:1:inference-profile/eu.x",
        ),
        ("/openai/deployments/gpt-mini/chat/completions", "gpt-mini"),
        ("/v1/chat/completions", None),
        ("/v1/models", None),
        ("/v1/models/gpt-mini", None),
    ],
)
def test_the_model_is_read_from_the_path_where_it_stands_there(
    tmp_path: Path, path: str, model: str | None
) -> None:
    config = configured(tmp_path, "http://127.0.0.1:1")
    route = find_route(b"/provider" + path.encode(), config.upstreams, "provider")
    assert route is not None
    assert route.model == model


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"/provider",
        b"/nobody/v1/models",
        b"/v1",
        b"/V1/models",
        b"/%76%31/models",
        b"//provider/v1",
        b"/v1?",
    ],
)
def test_a_target_that_names_no_upstream_has_no_route(tmp_path: Path, target: bytes) -> None:
    config = configured(tmp_path, "http://127.0.0.1:1")
    assert find_route(target, config.upstreams, "provider") is None
