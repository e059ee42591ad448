"""Spans of turns through a whole gate, as a collector gets them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.proxy.gated import (
    ARGUMENT,
    BAD_TURN,
    CALL,
    DONE,
    FINISH_CALLS,
    KEY,
    OPENING,
    OUTPUT,
    PROMPT,
    SSE_HEAD,
    TEXT_TURN,
    TOOL_TURN,
    Run,
    answering,
    chunked,
    event,
    gated,
    hang,
    plain,
    request,
    streamed,
    turn_request,
)
from tests.traces.collector import Collector, attributes
from tests.transport.peer import Peer
from turngate.config import load_config
from turngate.core.finding import Code, Finding
from turngate.core.verdict import Outcome, Reason
from turngate.proxy.stop import Stop
from turngate.traces.turn import provider_name

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
LATCHED = Stop(Outcome.BLOCKED, Reason.STOPPED_BY_OPERATOR, Finding(Code.GATE_STOPPED, "stopped"), "latch-1")


def traced(collector: Collector, **more: Any) -> dict[str, Any]:
    return {"sections": {"traces": {"endpoint": collector.url, **more}}}


def asking(parent: str | None = SAMPLED, more: str = "", **body: Any) -> bytes:
    fields = "" if parent is None else f"traceparent: {parent}\r\ntracestate: {STATE}\r\n"
    return request(body=turn_request(**body), more=fields + more)


def field_of(raw: bytes, name: str) -> list[str]:
    head = raw.partition(b"\r\n\r\n")[0].decode("latin-1")
    return re.findall(rf"(?im)^{name}: *([^\r\n]*)", head)


class Provider:
    """Answers each request with the next reply and keeps what it was asked."""

    def __init__(self, *replies: bytes) -> None:
        self.asked: list[bytes] = []
        self._replies = list(replies)

    async def __call__(self, peer: Peer) -> None:
        while self._replies:
            self.asked.append(await peer.request())
            await peer.send(self._replies.pop(0))

    def parent(self) -> list[str]:
        (asked,) = self.asked
        return field_of(asked, "traceparent")


def played(run: Run, folder: Path, provider: Provider, *requests: bytes, **settings: Any) -> None:
    """Play requests, one after the other, through a gate that is closed then: what it has to tell has been told."""

    async def main() -> None:
        async with gated(folder, provider, **settings) as world:
            for each in requests:
                await world.ask(each)

    run(main())


async def until(condition: Callable[[], bool]) -> None:
    """The gate has no event for it."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.001)


def moments(span: Span) -> list[str]:
    at = [span.start_time_unix_nano, *(each.time_unix_nano for each in span.events), span.end_time_unix_nano]
    assert at == sorted(at)
    return [each.name for each in span.events]


def test_a_released_turn_is_one_span_under_its_clients_and_over_its_providers(
    run: Run, tmp_path: Path, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = Provider(streamed(TOOL_TURN))
    conversation = "x-turngate-conversation: talk-1\r\n"
    played(run, tmp_path, provider, asking(more=conversation), **traced(collector))
    (span,) = collector.spans()
    assert collector.paths == ["/v1/traces"]
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    assert (span.name, span.kind) == ("chat m", Span.SPAN_KIND_CLIENT)
    told = attributes(span)
    turn_id = told.pop("turngate.turn")
    assert told.pop("gen_ai.response.time_to_first_chunk") > 0
    assert told.pop("turngate.held_s") >= 0
    assert told.pop("server.port") > 0
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.conversation.id": "talk-1",
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
        "turngate.tenant": "default",
        "turngate.upstream": "provider",
        "turngate.dialect": "openai_chat",
        "turngate.mode": "enforce",
        "turngate.outcome": "released",
        "turngate.reason": "valid",
        "turngate.codes": [],
        "turngate.calls": 1,
        "turngate.tools": ["send_mail"],
    }
    assert moments(span) == ["turngate.hold", "turngate.decision", "turngate.release"]
    assert span.status.code == Status.STATUS_CODE_UNSET
    assert provider.parent() == [f"00-{TRACE}-{span.span_id.hex()}-01"]
    assert field_of(provider.asked[0], "tracestate") == [STATE]
    said = capsys.readouterr()
    (line,) = [each for each in (said.out + said.err).splitlines() if turn_id in each]
    assert TRACE in line
    assert span.span_id.hex() in line


def test_a_turn_that_nobody_traces_yet_begins_a_trace(run: Run, tmp_path: Path, collector: Collector) -> None:
    provider = Provider(streamed(TEXT_TURN))
    played(run, tmp_path, provider, asking(None), **traced(collector))
    (span,) = collector.spans()
    assert not span.parent_span_id
    (parent,) = provider.parent()
    assert parent.startswith(f"00-{span.trace_id.hex()}-{span.span_id.hex()}-")
    assert moments(span) == ["turngate.decision"]
    assert attributes(span)["turngate.outcome"] == "passed"


def test_a_blocked_turn_is_an_error_of_its_reason(run: Run, tmp_path: Path, collector: Collector) -> None:
    played(run, tmp_path, Provider(streamed(BAD_TURN)), asking(), **traced(collector))
    (span,) = collector.spans()
    told = attributes(span)
    assert (told["turngate.outcome"], told["error.type"]) == ("blocked", "invalid")
    assert "schema_additional_property" in told["turngate.codes"]
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert not span.status.message
    assert moments(span) == ["turngate.hold", "turngate.decision"]


def test_a_stop_is_a_cut_while_the_turn_is_held_and_before_there_is_a_reply(
    run: Run, tmp_path: Path, collector: Collector
) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            if b"held" in await peer.request():
                await peer.send(SSE_HEAD, chunked(OPENING + CALL))
            await hang(peer)

        async with gated(tmp_path, script, **traced(collector)) as world:
            live = world.gate.judging.live
            for user in ("held", "silent"):
                answer = asyncio.ensure_future(world.ask(asking(user=user)))
                await until(lambda: bool(live))
                (turn,) = live.values()
                if user == "held":
                    await until(lambda: turn.session is not None and turn.session.gate.held_frames > 0)  # noqa: B023
                turn.stop(LATCHED)
                await answer
                await until(lambda: not live)

    run(main())
    held, silent = collector.spans()
    assert moments(held) == ["turngate.hold", "turngate.cut", "turngate.decision"]
    assert moments(silent) == ["turngate.cut"]
    for span in (held, silent):
        told = attributes(span)
        assert (told["turngate.outcome"], told["turngate.reason"]) == ("blocked", "stopped_by_operator")
        assert (told["turngate.latch"], told["error.type"]) == ("latch-1", "stopped_by_operator")


def test_what_cannot_be_judged_is_an_error_without_a_verdict(
    run: Run, tmp_path: Path, collector: Collector
) -> None:
    busy = plain(b"busy", "text/plain", "503 Service Unavailable")
    page = plain(b"<html>", "text/html")
    replies = Provider(busy, b"nonsense\r\n\r\n", page)
    played(run, tmp_path, replies, asking(), asking(), asking(), **traced(collector))
    failed, broken, refused = (attributes(span) for span in collector.spans())
    assert (failed["error.type"], failed["http.response.status_code"]) == ("503", 503)
    assert (refused["error.type"], refused["http.response.status_code"]) == ("400", 200)
    assert broken["error.type"] == "malformed_head"
    assert "turngate.outcome" not in failed | refused | broken


def test_the_parents_decision_to_keep_nothing_is_followed_and_handed_on(
    run: Run, tmp_path: Path, collector: Collector
) -> None:
    provider = Provider(streamed(TOOL_TURN))
    played(run, tmp_path, provider, asking(f"00-{TRACE}-{SPAN}-00"), **traced(collector, sample_ratio=1))
    assert collector.spans() == []
    (parent,) = provider.parent()
    assert re.fullmatch(rf"00-{TRACE}-(?!{SPAN})[0-9a-f]{{16}}-00", parent)


def test_a_ratio_holds_for_the_traces_that_begin_here_and_for_no_other(
    run: Run, tmp_path: Path, collector: Collector
) -> None:
    provider = Provider(streamed(TEXT_TURN), streamed(TEXT_TURN))
    played(run, tmp_path, provider, asking(None), asking(), **traced(collector, sample_ratio=0))
    (span,) = collector.spans()
    assert span.trace_id.hex() == TRACE
    assert [field_of(asked, "traceparent")[0][-2:] for asked in provider.asked] != ["01", "01"]


def test_a_parent_that_cannot_be_read_begins_a_new_trace_without_its_state(
    run: Run, tmp_path: Path, collector: Collector
) -> None:
    twice = f"{SAMPLED}\r\ntraceparent: {SAMPLED}"
    parents = [SAMPLED[:-1], f"00-{'0' * 32}-{SPAN}-01", f"ff-{TRACE}-{SPAN}-01", "\xff" * 600, twice]
    provider = Provider(*(streamed(TEXT_TURN) for _ in parents))
    played(run, tmp_path, provider, *map(asking, parents), **traced(collector))
    for span, asked in zip(collector.spans(), provider.asked, strict=True):
        assert not span.parent_span_id
        (given,) = field_of(asked, "traceparent")
        assert given.startswith(f"00-{span.trace_id.hex()}-")
        assert TRACE not in given
        assert field_of(asked, "tracestate") == []


def test_what_the_client_signed_is_not_touched(run: Run, tmp_path: Path, collector: Collector) -> None:
    def signed(*names: str) -> bytes:
        value = f"AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders={';'.join(('host', *names))}, Signature=0"
        return asking().replace(f"Bearer {KEY}".encode(), value.encode())

    provider = Provider(streamed(TEXT_TURN), streamed(TEXT_TURN))
    played(run, tmp_path, provider, signed("traceparent"), signed("x-amz-date"), **traced(collector))
    covered, free = provider.asked
    assert field_of(covered, "traceparent") == [SAMPLED]
    assert field_of(free, "traceparent") != [SAMPLED]
    assert len(collector.spans()) == 2


def test_without_a_collector_the_fields_of_a_trace_cross_as_any_others(run: Run, tmp_path: Path) -> None:
    provider = Provider(streamed(TEXT_TURN), streamed(TEXT_TURN))
    played(run, tmp_path, provider, asking(), asking(None))
    traced_, untraced = provider.asked
    assert (field_of(traced_, "traceparent"), field_of(traced_, "tracestate")) == ([SAMPLED], [STATE])
    assert field_of(untraced, "traceparent") == []


def test_nothing_that_was_said_is_in_a_span_and_names_of_the_wire_break_none(
    run: Run, tmp_path: Path, collector: Collector
) -> None:
    function = {"name": "send_\ud800mail", "arguments": json.dumps({"to": ARGUMENT})}
    odd = event({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    replies = [TOOL_TURN, BAD_TURN, TEXT_TURN, OPENING + odd + FINISH_CALLS + DONE]
    secret = "x-secret: canary-header-7f\r\ncookie: canary-cookie-7f\r\n"
    played(
        run,
        tmp_path,
        Provider(*map(streamed, replies)),
        *[asking(more=secret) for _ in replies],
        **traced(collector),
    )
    spans = collector.spans()
    assert len(spans) == len(replies)
    assert attributes(spans[-1])["turngate.tools"] == ["send_?mail"]
    sent = b"".join(collector.bodies)
    assert b"send_mail" in sent
    for canary in (KEY, PROMPT, OUTPUT, ARGUMENT, "canary-header-7f", "canary-cookie-7f"):
        assert canary.encode() not in sent, canary


def test_an_observed_turn_is_told_as_it_was_judged(run: Run, tmp_path: Path, collector: Collector) -> None:
    script = answering(streamed(BAD_TURN))

    async def main() -> None:
        async with gated(tmp_path, script, provider={"mode": "observe"}, **traced(collector)) as world:
            await world.ask(asking())

    run(main())
    (span,) = collector.spans()
    told = attributes(span)
    assert (told["turngate.mode"], told["turngate.outcome"]) == ("observe", "blocked")


@pytest.mark.parametrize(
    ("url", "dialect", "name"),
    [
        ("https://api.anthropic.com", "anthropic_messages", "anthropic"),
        ("https://generativelanguage.googleapis.com", "openai_chat", "gcp.gemini"),
        ("https://api.groq.com/openai", "openai_chat", "groq"),
        ("https://llm.example.com", "anthropic_messages", "anthropic"),
        ("https://llm.example.com", "gemini_generate", "gcp.gemini"),
        ("https://llm.example.com", "ag_ui", "mine"),
    ],
)
def test_a_provider_is_named_by_its_host_and_else_by_the_format_that_it_speaks(
    url: str, dialect: str, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(f'[upstreams.mine]\nbase_url = "{url}"\n')
    upstream = load_config(file, environ={}).upstreams["mine"]
    assert provider_name(upstream, dialect) == name
