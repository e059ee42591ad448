"""The benchmark itself: its counts add up, and its client sees what a proxy gets wrong. No test looks at a time."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import bench, native, phases, report
from tests.bench.phases import PHASES, Figures, Phase, Rig
from tests.bench.targets import CHAT, Operators, Site, Target, turngate

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="the benchmark needs a C compiler")

CPU = min(os.sched_getaffinity(0))
SHORT = Phase("short", "burst", 2, texts=5, fragments=4, warm_ms=0, window_ms=100, drain_ms=2000)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    directory = tmp_path_factory.mktemp("bench")
    native.build(directory)
    with native.provider(directory, CPU) as provider:
        yield Rig(directory, provider, CPU)


def run_direct(rig: Rig, phase: Phase) -> Figures:
    return phases.run(phase, Target("direct", "127.0.0.1", rig.provider.port, CHAT, None), rig)


def test_a_quick_run_prints_figures_for_every_phase(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "figures.json"
    assert (
        bench.main(["--quick", "--only", "direct", "--phases", "probe,burst,json50", "--json", str(out)]) == 0
    )
    printed = capsys.readouterr().out
    assert [word for word in ("(`probe`)", "(`burst`)", "(`json50`)") if word not in printed] == []
    assert '"events_per_s"' in out.read_text()


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_every_phase_has_a_table(phase: Phase) -> None:
    assert phase.name in report.LAYOUT


@pytest.mark.parametrize("kind", ["burst", "paced"])
def test_every_event_of_every_stream_arrives_in_order(rig: Rig, kind: str) -> None:
    before = rig.provider.stats()
    figures = run_direct(rig, replace(SHORT, kind=kind))
    after = rig.provider.stats()
    assert report.faults(figures) == "-"
    assert figures["answers"] == figures["asked"] == after["completed"] - before["completed"]
    assert figures["shortest_body"] == figures["longest_body"]
    assert after["streaming"] == 0


def test_without_a_gate_the_call_comes_before_the_turn_has_ended(rig: Rig) -> None:
    figures = run_direct(rig, replace(SHORT, kind="paced"))
    assert figures["calls_early"] == figures["answers"]
    assert figures["calls_late"] == 0


@pytest.mark.parametrize("calls", [0, 1])
def test_json_bodies_are_counted_as_answers(rig: Rig, calls: int) -> None:
    figures = run_direct(rig, replace(SHORT, kind="json", texts=0, fragments=calls))
    assert report.faults(figures) == "-"
    assert figures["answers"] == figures["asked"]
    assert figures["events"] == 0


def test_dropped_streams_are_let_go_by_the_provider(rig: Rig) -> None:
    before = rig.provider.stats()
    abort = Phase("abort", "paced", 20, 50, 20, warm_ms=0, window_ms=100, abort=True)
    figures = run_direct(rig, abort)
    after = rig.provider.stats()
    assert figures["let_go_s"] is not None
    assert after["aborted"] - before["aborted"] == 20
    assert after["streaming"] == 0


def test_a_stop_is_timed_up_to_the_clients_of_a_gate(rig: Rig, tmp_path: Path) -> None:
    stop = replace(next(phase for phase in PHASES if phase.stops), connections=4, spread_ms=0, stops=1)
    assert run_direct(rig, stop) == {}
    with turngate(Site(tmp_path, rig.provider, CPU)) as target:
        figures = phases.run(stop, target, rig)
        assert report.faults(figures) == "-"
        assert 0 < number(figures, "cut_p50_us") <= number(figures, "cut_p99_us")
        assert number(figures, "cut_p99_us") <= number(figures, "cut_max_us")
        # The latch is lifted, so the load goes on.
        assert report.faults(phases.run(replace(SHORT, drain_ms=4000), target, rig)) == "-"


def test_streams_that_end_without_a_word_are_not_counted_as_stopped(rig: Rig) -> None:
    with scripted_server(b'HTTP/1.1 201 Created\r\n\r\n{"latch": {"id": "x"}}') as target:
        stop = Phase("cut", "paced", 3, 5, 5, stops=2)
        figures = phases.run(stop, replace(target, operators=Operators(target.port, "")), rig)
    assert (figures["broken"], figures["unfinished"], figures["cut_p99_us"]) == (6, 0, None)
    assert report.floors({"cut": {"turngate": figures}})[0][2] is False


def number(figures: Figures, key: str) -> float:
    found = figures[key]
    assert isinstance(found, float)
    return found


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(kind: str, sequence: int, sent: int = 1) -> bytes:
    return b'data: {"system_fingerprint":"fp_%c%04d_%019d"}\n\n' % (ord(kind), sequence, sent)


@contextmanager
def scripted_server(answer: bytes) -> Iterator[Target]:
    """A server that gives every request the same bytes and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if connection.recv(65536):
                    connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Target("scripted", "127.0.0.1", listener.getsockname()[1], CHAT, None)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


WHOLE = [event("t", 0), event("t", 1), event("f", 2), event("u", 3), b"data: [DONE]\n\n"]


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        ("lost", HEAD + b"".join(WHOLE[:1] + WHOLE[3:])),
        ("lost", HEAD + b"".join(WHOLE[:-1])),
        ("disordered", HEAD + b"".join([WHOLE[1], WHOLE[0], *WHOLE[2:]])),
        ("blocked", HEAD + WHOLE[0] + b'data: {"error":{"message":"refused"}}\n\n'),
        ("bad_status", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\nrefused"),
        ("broken", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:"),
        ("malformed", HEAD + b"data: " + b"x" * 8192),
    ],
    ids=["gap", "no-done", "swapped", "refused-in-stream", "refused", "cut", "endless-line"],
)
def test_the_client_reports_what_a_proxy_gets_wrong(rig: Rig, fault: str, answer: bytes) -> None:
    with scripted_server(answer) as target:
        figures = phases.run(replace(SHORT, texts=2, fragments=0, connections=1), target, rig)
    count = figures[fault]
    assert isinstance(count, int)
    assert count > 0
    assert fault in report.faults(figures)


def test_a_call_after_the_turn_s_end_counts_as_held(rig: Rig) -> None:
    held = [
        event("t", 0),
        event("c", 1),
        event("c", 2),
        event("c", 3),
        event("f", 4),
        event("u", 5, sent=2),
        WHOLE[-1],
    ]
    with scripted_server(HEAD + b"".join(held)) as target:
        figures = phases.run(replace(SHORT, texts=1, fragments=2, connections=1), target, rig)
    assert report.faults(figures) == "-"
    assert figures["calls_late"] == figures["answers"]
    assert figures["calls_early"] == 0
    assert figures["release_n"]


def test_a_chunk_boundary_may_fall_anywhere(rig: Rig) -> None:
    body = b"".join(WHOLE)
    chunked = b"".join(
        b"%x\r\n%s\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7)
    )
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    with scripted_server(head + chunked + b"0\r\n\r\n") as target:
        figures = phases.run(replace(SHORT, texts=2, fragments=0, connections=1), target, rig)
    assert report.faults(figures) == "-"
    assert figures["longest_body"] == len(body)


def test_floors_are_judged_by_the_figures_of_the_run() -> None:
    def results(ours: float) -> report.Results:
        return {"burst": {"nginx": {"events_per_s": 100_000.0}, "turngate": {"events_per_s": ours}}}

    assert [kept for _, _, kept in report.floors(results(50_000))] == [True]
    assert [kept for _, _, kept in report.floors(results(30_000))] == [False]
    assert report.floors({"probe": {"turngate": {}}}) == []


def test_a_floor_without_a_figure_is_not_kept() -> None:
    assert [(figure, kept) for _, figure, kept in report.floors({"burst": {"direct": {}}})] == [(None, False)]


def test_repetitions_give_medians_but_faults_add_up() -> None:
    runs: list[Figures] = [{"events_per_s": rate, "lost": 1} for rate in (1.0, 9.0, 2.0)]
    assert report.combine(runs) == {"events_per_s": 2.0, "lost": 3}


@pytest.mark.parametrize(
    "arguments", [["--only", "nowhere"], ["--phases", "paced7"], ["--extra", "x=ftp://a"]]
)
def test_a_name_that_does_not_exist_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        bench.parser().parse_args(arguments)


def test_the_c_programs_compile_without_a_warning(tmp_path: Path) -> None:
    cc = native.compiler()
    assert cc is not None
    for name in ("provider", "load"):
        command: list[str | Path] = [
            cc,
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            tmp_path / name,
            native.HERE / f"{name}.c",
        ]
        subprocess.run(command, check=True)
