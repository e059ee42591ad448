"""Ninety raw requests, and what a careful HTTP/1.1 server in front of a proxy does with each (RFC 9110, RFC 9112)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.served import Recorder, Response, Served, next_response, read_to_end, responses, serve
from tests.suites.counters import report
from turngate.proxy.front_limits import FrontLimits

# Where the suite leaves it open: the status that we answer with. 200 means that the application was asked.
OPEN_CASES = {
    "two equal CL": 400,
    "CL leading zeros": 200,
    "TE gzip, chunked": 501,
    "TE leading comma": 501,
    "obs-fold": 400,
    "bare LF line ends": 400,
    "absolute-form": 400,
    "authority-form CONNECT": 405,
    "asterisk OPTIONS": 400,
    "fragment in target": 400,
    "raw UTF-8 in target": 400,
    "HTTP/1.2": 400,
    "lower-case method": 400,
    "trailer with CL": 400,
    "headers 64 KiB one": 200,
    "target 64 KiB": 414,
    "Expect unknown": 417,
}

# Where the suite accepts and we refuse, and why.
DEVIATIONS = {
    # RFC 9110 section 7.8 lets a server ignore Upgrade, but llhttp then skips the request's body and reads it as the next
    # request. Refusing all upgrades is the only reading in which a body cannot become a request.
    "Upgrade h2c": 400,
    # A sender must not list an end-to-end field (RFC 9110 section 7.6.1). Forwarding it is harmless; but who sends this
    # is probing for a hop that strips credentials, and a clear refusal tells an honest sender what is wrong.
    "Connection names Authorization": 400,
}


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((shared / "suites/http_raw_cases.json").read_text())
    return found


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def served(recorder: Recorder) -> Iterator[Served]:
    # One case, an HTTP/0.9 request, is an unfinished head to llhttp: it ends by the time limit.
    with serve(recorder, FrontLimits(header_timeout_s=3, linger_s=1)) as server:
        yield server


def seen(served: Served, recorder: Recorder) -> list[tuple[str, Any]]:
    """What the application saw. A later request has been served, so whatever came before it has run."""
    with served.connect() as client:
        client.sendall(b"GET /sentinel HTTP/1.1\r\nHost: gate.test\r\n\r\n")
        assert next_response(client).status == 200
    events = []
    while (event := recorder.seen.get(timeout=1))[1] != {
        "target": b"/sentinel",
        "headers": [(b"host", b"gate.test")],
        "body": b"",
    }:
        events.append(event)
    return events


def expected_status(case: dict[str, Any]) -> int | None:
    """The status; None is any refusal."""
    name = case["name"]
    if name in DEVIATIONS:
        assert case["expect"].startswith("accept")
        return DEVIATIONS[name]
    if case["expect"] == "either":
        return OPEN_CASES[name]
    return None if case["expect"] == "reject" else 200


def is_refusal(reply: Response) -> bool:
    error = json.loads(reply.body)["error"]
    return (
        400 <= reply.status <= 505
        and reply.status != 500
        and ("connection", "close") in reply.headers
        and set(error) == {"message", "type", "code", "param"}
    )


def problem(case: dict[str, Any], served: Served, recorder: Recorder) -> str | None:
    """What went otherwise than expected."""
    raw, status = base64.b64decode(case["raw"]), expected_status(case)
    with served.connect() as client:
        client.sendall(raw)
        if status == 200:
            count = int(case["expect"].partition(":")[2] or 1)
            replies: list[Response] = []
            while len(replies) < count:
                reply = next_response(client)
                if reply.status != 100:
                    replies.append(reply)
        else:
            replies = responses(read_to_end(client))
    events = seen(served, recorder)
    statuses = [reply.status for reply in replies]
    if status == 200:
        good = statuses == [200] * count and [kind for kind, _ in events] == ["request"] * count
    else:
        good = events == [] and len(replies) == 1 and is_refusal(replies[0]) and status in (None, statuses[0])
    return None if good else f"{case['name']}: {statuses}, application saw {len(events)}"


def test_every_raw_request_meets_its_expected_end(
    cases: list[dict[str, Any]], served: Served, recorder: Recorder
) -> None:
    assert {case["name"] for case in cases if case["expect"] == "either"} == set(OPEN_CASES)
    problems = [found for case in cases if (found := problem(case, served, recorder))]
    assert problems == []
    report("http_raw_cases", len(cases) - len(DEVIATIONS))


def test_every_refused_request_is_refused_byte_by_byte_too(
    cases: list[dict[str, Any]], served: Served, recorder: Recorder
) -> None:
    # An application may have been started before a later read shows the fault, but it never gets a whole request.
    count = 0
    for case in cases:
        raw = base64.b64decode(case["raw"])
        if case["expect"] != "reject" or len(raw) > 1000:
            continue
        with served.connect() as client:
            client.setsockopt(6, 1, 1)
            for i in range(len(raw)):
                try:
                    client.send(raw[i : i + 1])
                except (BrokenPipeError, ConnectionResetError):
                    break
            (reply,) = responses(read_to_end(client))
        assert is_refusal(reply), case["name"]
        assert [kind for kind, _ in seen(served, recorder) if kind == "request"] == [], case["name"]
        count += 1
    report("http_raw_cases_byte_by_byte", count)
