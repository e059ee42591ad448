"""The interface over a real socket, before a real gate: who may ask what, how, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.operator.staged import Operator, Staged, Told, operated
from tests.proxy.gated import (
    ARGUMENT,
    GOOD_ARGUMENTS,
    KEY,
    OUTPUT,
    PROMPT,
    TEXT_TURN,
    TOOL_TURN,
    Run,
    answering,
    hang,
    streamed,
)
from turngate.ledger.reader import LedgerReader
from turngate.operator.operations import OPERATIONS, Operation
from turngate.operator.tokens import Role

NOTHING = answering(then=hang)


def concrete(operation: Operation) -> str:
    return operation.path.replace("{turn_id}", "tg_x").replace("{latch_id}", "tgl_x")


def body_for(operation: Operation) -> dict[str, str] | None:
    bodies = {
        "create_latch": {"kind": "stop_model", "model": "no such model", "reason": "drill"},
        "lift_latch": {"reason": "over"},
        "approve_turn": {"reason": "seen"},
        "deny_turn": {"reason": "seen"},
        "test_value": {"turn_id": "tg_x", "slot": "0", "value": "{}"},
    }
    return bodies.get(operation.name)


def test_each_operation_lets_in_who_may_and_nobody_else(run: Run, tmp_path: Path) -> None:
    """Every operation with every kind of token."""

    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            dead, dead_secret = stage.plane.store.create("dead", Role.OPERATOR)
            stage.plane.store.revoke(dead.id)
            _, expired = stage.plane.store.create("late", Role.OPERATOR, lifetime_s=0)
            viewer = stage.viewer()
            for operation in OPERATIONS:
                path, body = concrete(operation), body_for(operation)
                missing = "not_found" in operation.errors and operation.name != "create_latch"
                for nobody in (stage.somebody(None), stage.somebody(dead_secret), stage.somebody(expired)):
                    told = await nobody.ask(operation.method, path, body)
                    assert told.code in ("unauthenticated", "too_many_failures"), operation.name
                told = await viewer.ask(operation.method, path, body)
                if operation.role is Role.OPERATOR:
                    assert (told.status, told.code) == (403, "forbidden"), operation.name
                else:
                    assert told.status == (404 if missing else 200), operation.name
                told = await stage.operator.ask(operation.method, path, body)
                assert told.status == (404 if missing else operation.status), operation.name

    run(main())


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "expected"),
    [
        ("GET", "/turns?limit=0", {}, None, (400, "invalid_request")),
        ("GET", "/turns?limit=201", {}, None, (400, "invalid_request")),
        ("GET", "/turns?limit=x", {}, None, (400, "invalid_request")),
        ("GET", "/turns?tennant=x", {}, None, (400, "invalid_request")),
        ("GET", "/turns?tenant=a&tenant=b", {}, None, (400, "invalid_request")),
        ("GET", "/turns?tenant", {}, None, (400, "invalid_request")),
        ("GET", "/turns?tenant=%ff", {}, None, (400, "invalid_request")),
        ("GET", "/turns?outcome=maybe", {}, None, (400, "invalid_request")),
        ("GET", "/calls?before=x", {}, None, (400, "invalid_request")),
        ("GET", "/calls?before=x/-1/0", {}, None, (400, "invalid_request")),
        ("GET", "/audit?before=99999999999999999999", {}, None, (400, "invalid_request")),
        ("GET", "/status?x=1", {}, None, (400, "invalid_request")),
        ("GET", "/turns/tg_none", {}, None, (404, "not_found")),
        ("GET", "/nothing", {}, None, (404, "not_found")),
        ("GET", "/", {}, None, (404, "not_found")),
        ("DELETE", "/latches", {}, None, (405, "method_not_allowed")),
        ("PATCH", "/turns", {}, None, (405, "method_not_allowed")),
        ("POST", "/latches", {}, b"{", (400, "invalid_request")),
        ("POST", "/latches", {}, b"[]", (400, "invalid_request")),
        ("POST", "/latches", {}, b"\xff", (400, "invalid_request")),
        ("POST", "/latches", {}, b'{"kind": "stop_all", "kind": "stop_all", "reason": "x"}', (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "stop_all"}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "stop_all", "reason": ""}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "stop_all", "reason": "x" * 501}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "stop", "reason": "x"}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "disable_tool", "reason": "x"}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "stop_all", "tenant": "a", "reason": "x"}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "stop_all", "reason": "x", "tennant": "a"}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "stop_all", "reason": "x", "expires_in_s": 0}, (400, "invalid_request")),
        ("POST", "/latches", {}, {"kind": "quarantine_turn", "turn_id": "tg_x", "reason": "x"}, (404, "not_found")),
        ("POST", "/latches", {"Content-Type": "text/plain"}, b"{}", (415, "unsupported_media_type")),
        ("POST", "/latches", {"Content-Type": ""}, b"{}", (415, "unsupported_media_type")),
        ("POST", "/latches", {"Idempotency-Key": "a b"}, {"kind": "stop_all", "reason": "x"}, (400, "invalid_request")),
        ("POST", "/latches", {"Idempotency-Key": "k" * 129}, {"kind": "stop_all", "reason": "x"}, (400, "invalid_request")),
        ("POST", "/latches", {}, b" " * 1_100_000, (413, "request_too_large")),
        ("POST", "/latches/tgl_none/lift", {}, {"reason": "x"}, (404, "not_found")),
        ("GET", "/turns", {"Host": "evil.example"}, None, (403, "host_not_allowed")),
        ("GET", "/turns", {"Host": "a b"}, None, (400, "invalid_host")),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_shape_and_nothing_is_stopped(
    run: Run,
    tmp_path: Path,
    method: str,
    path: str,
    headers: dict[str, str],
    body: dict[str, object] | bytes | None,
    expected: tuple[int, str],
) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            told = await stage.operator.ask(method, path, body, headers=headers)
            assert (told.status, told.code) == expected
            assert (await stage.world.ask()).body == TOOL_TURN

    run(main())


def test_a_chunked_body_that_is_too_long_is_refused_too(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            head = (
                "POST /latches HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {stage.operator.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            told = await stage.operator.raw(
                head.encode() + b"110000\r\n" + b" " * 0x110000 + b"\r\n0\r\n\r\n"
            )
            assert (told.status, told.code) == (413, "request_too_large")

    run(main())


def test_no_answer_may_be_cached_framed_or_taken_for_something_else(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            for told in (
                await stage.operator.ask("GET", "/turns"),
                await stage.somebody(None).ask("GET", "/turns"),
            ):
                assert told.headers["cache-control"] == "no-store"
                assert told.headers["content-type"] == "application/json"
                assert told.headers["x-content-type-options"] == "nosniff"
                assert "default-src 'none'" in told.headers["content-security-policy"]
                assert "server" not in told.headers
                assert "access-control-allow-origin" not in told.headers

    run(main())


async def audited(stage: Staged, count: int) -> list[tuple[str, str, str, int, str | None]]:
    """The audit, oldest first, once it has that many rows: those that nobody waited for follow within a tenth of a second."""
    while True:
        with LedgerReader(stage.world.ledger) as reader:
            rows = reader.list_audit(limit=1000)[::-1]
        if len(rows) >= count:
            return [(row.actor, row.method, row.path, row.status, row.code) for row in rows]
        await asyncio.sleep(0.01)


def test_every_request_is_a_row_of_the_audit_and_too_many_failures_are_not(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            ann = stage.operator
            await ann.get("/turns?tenant=secret-word")
            await ann.ask("GET", "/nothing")
            latch = await ann.latch("stop_all")
            await stage.viewer().ask("POST", "/latches", {"kind": "stop_all", "reason": "x"})
            await ann.lift(latch)
            await ann.lift(latch)
            for _ in range(12):
                await stage.somebody(None).ask("GET", "/turns")
            rows = await audited(stage, 16)
            lift = f"/latches/{latch['id']}/lift"
            assert rows[:6] == [
                ("first-operator", "GET", "/turns", 200, None),
                ("first-operator", "GET", "/nothing", 404, "not_found"),
                ("first-operator", "POST", "/latches", 201, None),
                ("viewer", "POST", "/latches", 403, "forbidden"),
                ("first-operator", "POST", lift, 200, None),
                ("first-operator", "POST", lift, 200, None),
            ]
            assert rows[6:] == [("", "GET", "/turns", 401, "unauthenticated")] * 10
            told = await ann.get(f"/audit?changes=true&latch={latch['id']}")
            assert [row["status"] for row in told["audit"]] == [200, 201]
            with LedgerReader(stage.world.ledger) as reader:
                assert reader.verify().ok

    run(main())


async def create(operator: Operator, key: str, **fields: object) -> Told:
    body = {"kind": "stop_model", "model": "m2", "reason": "drill", **fields}
    return await operator.ask("POST", "/latches", body, headers={"Idempotency-Key": key})


def test_a_repeat_under_the_same_key_changes_nothing_also_after_a_restart(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            first = await create(stage.operator, "k1")
            again, other = await asyncio.gather(create(stage.operator, "k1"), create(stage.operator, "k2"))
            assert again.status == first.status == other.status == 201
            assert again.body == first.body != other.body
            assert again.headers["idempotent-replayed"] == "true"
            assert "idempotent-replayed" not in first.headers
            mismatch = await create(stage.operator, "k1", model="m3")
            assert (mismatch.status, mismatch.code) == (422, "idempotency_mismatch")
            _, secret = stage.plane.store.create("bob", Role.OPERATOR)
            somebody_else = await create(stage.somebody(secret), "k1")
            assert somebody_else.body["latch"]["id"] != first.body["latch"]["id"]
            latch = first.body["latch"]
            lifts = [
                await stage.operator.ask(
                    "POST",
                    f"/latches/{latch['id']}/lift",
                    {"reason": "over"},
                    headers={"Idempotency-Key": "k3"},
                )
                for _ in range(2)
            ]
            assert lifts[0].body == lifts[1].body
            assert [told.headers.get("idempotent-replayed") for told in lifts] == [None, "true"]
        async with operated(tmp_path, NOTHING) as stage:
            again = await create(stage.operator, "k1")
            assert again.headers["idempotent-replayed"] == "true"
            assert again.body["latch"] == {**latch, **lifts[0].body}
            page = await stage.operator.get("/latches")
            assert len(page["latches"]) == 3

    run(main())


def test_many_at_once_under_one_key_make_one_latch(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            told = await asyncio.gather(*(create(stage.operator, "k") for _ in range(20)))
            assert {each.status for each in told} == {201}
            assert len({each.body["latch"]["id"] for each in told}) == 1
            assert sum("idempotent-replayed" not in each.headers for each in told) == 1
            assert len(stage.world.gate.judging.ledger.latches) == 1

    run(main())


def test_nothing_that_was_said_stands_in_what_the_interface_tells_or_keeps(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Prompts, outputs, arguments, keys and tokens: in no answer, ledger, log or file but the token's own."""
    secrets = [KEY, PROMPT, OUTPUT, ARGUMENT]

    async def main() -> None:
        script = answering(streamed(TOOL_TURN))
        async with operated(tmp_path, script) as stage:
            ann = stage.operator
            await stage.world.ask()
            turn = await stage.world.turn()
            test = {"turn_id": turn.turn_id, "slot": "0", "value": GOOD_ARGUMENTS}
            assert (await ann.ask("POST", "/ledger/test-value", test)).body == {"matches": True}
            wrong = await ann.ask("POST", "/ledger/test-value", {**test, "value": f"{ARGUMENT}-wrong"})
            assert wrong.body == {"matches": False}
            await ann.latch("disable_tool", tool="send_mail")
            await stage.world.ask()
            await stage.world.turns(2)
            paths = [f"/turns/{turn.turn_id}", "/turns", "/calls", "/latches", "/audit", "/status"]
            told = [json.dumps(await ann.get(path)) for path in paths]
            told += [json.dumps((await stage.somebody(f"{KEY}-wrong").ask("GET", "/turns")).body)]
            assert ann.token is not None
            secrets.append(ann.token.split("_", 2)[2])
            for answer in told:
                assert not any(secret in answer for secret in secrets)

    run(main())
    captured = capfd.readouterr()
    assert not any(secret in captured.out + captured.err for secret in secrets)
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        found = [secret for secret in secrets if secret.encode() in content]
        assert found == ([secrets[-1]] if file.name.endswith(".operator-token") else []), file.name


def test_a_fault_of_ours_is_an_error_in_the_same_shape_and_quotes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TEXT_TURN))) as stage:
            monkeypatch.setattr(stage.plane.control.serving, "turns", lambda: 1 / 0)
            told = await stage.operator.ask("GET", "/turns?tenant=canary")
            assert (told.status, told.code) == (500, "internal")
            monkeypatch.undo()
            assert (await stage.operator.ask("GET", "/turns")).status == 200
            rows = await audited(stage, 2)
            assert rows[0][3:] == (500, "internal")
        captured = capfd.readouterr()
        assert "canary" not in captured.out + captured.err

    run(main())
