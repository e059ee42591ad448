"""The console over a real socket, before a real gate: who is let in, what a page may hold, and that two clicks stop."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path

import pytest

from tests.console.browser import BASE, Browser, Seen, logged_in, two_clicks
from tests.operator.staged import Operator, Staged, operated
from tests.proxy.gated import (
    ARGUMENT,
    BAD_TURN,
    CALL,
    KEY,
    OPENING,
    OUTPUT,
    PROMPT,
    SSE_HEAD,
    TOOL_TURN,
    Run,
    answering,
    chunked,
    event,
    hang,
    request,
    streamed,
)
from tests.transport.conftest import Certificates
from turngate.console.site import PAGES, POLICY
from turngate.operator.tokens import Role

NOTHING = answering(then=hang)
HOLDING = answering(SSE_HEAD + chunked(OPENING + CALL), then=hang)
STRANGE = "<script>alert(1)</script>\u202egnp\x00"

READ = [
    *("", "approvals", "latches", "figures", "figures?as=table", "audit", "audit?changes=false", "status"),
    *("live/turns", "live/approvals", "live/figures"),
]


async def one_in_phase(browser: Browser, phase: str) -> Seen:
    """The page of the only turn under way, found as a person finds it, once it has come so far."""
    while True:
        page = await browser.get(f"{BASE}live/turns")
        if phase in page.text:
            (link,) = [given["href"] for tag, given in page.tags if tag == "a"]
            return await browser.get(link or "")
        await asyncio.sleep(0.01)


def strange_turn() -> bytes:
    """A call of a tool whose name tries to be markup, and to read backwards."""
    function = {"name": STRANGE, "arguments": "{}"}
    opened = {"index": 0, "id": '"><img src=x>', "type": "function", "function": function}
    return OPENING + event({"tool_calls": [opened]}) + event({}, "tool_calls") + b"data: [DONE]\n\n"


def test_nobody_sees_a_page_without_a_session(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            browser = Browser(stage.plane.address)
            for page in PAGES:
                if page.open:
                    continue
                path = re.sub(r"\(\?P<\w+>.+?\)", "tg_x", page.pattern)
                seen = await browser.ask(page.method, BASE + path, b"", {"Origin": stage.plane.address})
                assert (seen.status, seen.location) == (303, f"{BASE}login"), page
                assert seen.html == ""
            fragment = await browser.get(f"{BASE}live/turns", **{"HX-Request": "true"})
            assert fragment.status == 401
            assert fragment.answer.header("hx-redirect") == f"{BASE}login"
            bearer = {"Authorization": f"Bearer {stage.operator.token}"}
            assert (await browser.get(BASE, **bearer)).status == 303

    run(main())


@pytest.mark.parametrize("role", list(Role))
def test_each_role_is_served_what_it_may(run: Run, tmp_path: Path, role: Role) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            latch = await stage.operator.latch("stop_model", model="another")
            await stage.world.ask()
            turn = await stage.world.turn()
            browser = await logged_in(stage, role)
            own = {"logout", "", "audit"} | ({"review"} if role is Role.OPERATOR else set())
            acting = ("latches", f"turns/{turn.turn_id}", f"latches/{latch['id']}")
            for path in (*READ, *acting, f"live/turns/{turn.turn_id}"):
                seen = await browser.get(BASE + path)
                assert seen.status == 200, path
                assert {form.action.removeprefix(BASE) for form in seen.forms} <= own
                assert ("review" in seen.html) is (role is Role.OPERATOR and path in acting)
            csrf = (await browser.get()).form("logout").fields["csrf"]
            lift = {"csrf": csrf, "act": "lift", "latch_id": latch["id"], "reason": "over"}
            for action, expected in (("review", 200), ("confirm", 404)):
                seen = await browser.post(action, lift)
                assert seen.status == (expected if role is Role.OPERATOR else 403), seen.text
            assert (await stage.operator.get(f"/latches/{latch['id']}"))["lifted_at"] is None

    run(main())


def test_a_session_ends_with_its_token_and_with_a_log_out(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            ann = await logged_in(stage)
            assert (await ann.get()).status == 200
            kept = dict(ann.cookies)
            assert (await ann.send((await ann.get()).form("logout"))).location == f"{BASE}login"
            assert ann.cookies == {}
            ann.cookies = kept
            assert (await ann.get()).status == 303

            bob = await logged_in(stage, Role.VIEWER)
            (token,) = [each for each in stage.plane.store.tokens() if each.role is Role.VIEWER]
            assert (await bob.get()).status == 200
            stage.plane.store.revoke(token.id)
            assert (await bob.get()).status == 303

    run(main())


def test_cookies_are_for_this_console_alone_and_new_with_each_login(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            browser = Browser(stage.plane.address)
            seen = await browser.log_in(stage.operator.token)
            session, cleared = seen.all("set-cookie")
            name, _, attributes = session.partition("; ")
            assert attributes == "Path=/console/; HttpOnly; SameSite=Strict"
            assert name.startswith("turngate_session=")
            assert cleared == "turngate_login=; Path=/console/; HttpOnly; SameSite=Strict; Max-Age=0"
            first = dict(browser.cookies)
            assert (await browser.get(f"{BASE}login")).location == BASE
            other = Browser(stage.plane.address)
            await other.log_in(stage.operator.token)
            assert other.cookies != first
            assert first_of(stage) not in str(first)

    run(main())


def test_under_tls_cookies_stay_under_tls(run: Run, tmp_path: Path, certificates: Certificates) -> None:
    async def main() -> None:
        tls = {"tls_cert": str(certificates.server), "tls_key": str(certificates.server)}
        async with operated(tmp_path, NOTHING, operator=tls) as stage:
            context = ssl.create_default_context(cafile=certificates.ca)
            address = stage.plane.address.replace("127.0.0.1", "localhost")
            browser = Browser(address, context)
            seen = await browser.log_in(first_of(stage))
            assert seen.status == 303
            assert all("; Secure" in each for each in seen.all("set-cookie"))
            page = await browser.get()
            plain = address.replace("https", "http")
            seen = await browser.post("logout", page.form("logout").fields, Origin=plain)
            assert seen.status == 403

    run(main())


def first_of(stage: Staged) -> str:
    token = stage.operator.token
    assert token is not None
    return token


def test_guesses_at_a_token_are_limited_as_they_are_at_the_interface(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            browser = Browser(stage.plane.address)
            seen = [await browser.log_in(f"guess {number}") for number in range(12)]
            assert [each.status for each in seen][:10] == [401] * 10
            assert seen[-1].status == 429
            assert int(seen[-1].answer.header("retry-after") or 0) >= 1
            assert (await stage.somebody("x").ask("GET", "/status")).code == "too_many_failures"
            assert (await browser.log_in(stage.operator.token)).status == 303
            rows = (await stage.operator.get("/audit?limit=200"))["audit"]
            logins = [(row["actor"], row["status"]) for row in rows if row["path"] == f"{BASE}login"]
            while not logins or logins[0][1] != 303:
                rows = (await stage.operator.get("/audit?limit=200"))["audit"]
                logins = [(row["actor"], row["status"]) for row in rows if row["path"] == f"{BASE}login"]
            assert logins[0] == ("first-operator", 303)
            assert logins[1:] == [("", 401)] * 10

    run(main())


def test_only_a_form_of_the_same_session_and_site_is_believed(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            ann, bob = await logged_in(stage), await logged_in(stage, Role.VIEWER)
            fields = {"act": "latch", "kind": "stop_all", "reason": "drill"}
            csrf = (await ann.get()).form("logout").fields["csrf"]
            theirs = (await bob.get()).form("logout").fields["csrf"]
            own = {**fields, "csrf": csrf}
            assert (await ann.post("review", own)).status == 200
            for wrong in (
                fields,
                {**fields, "csrf": ""},
                {**fields, "csrf": theirs},
                {**fields, "csrf": "é"},
            ):
                assert (await ann.post("review", wrong)).status == 403
            for origin in ("", "null", "http://evil.example", "https://127.0.0.1", ann.address + "0"):
                assert (await ann.post("review", own, Origin=origin)).status == 403, origin
            for site in ("cross-site", "same-site", "none"):
                assert (await ann.post("review", own, **{"Sec-Fetch-Site": site})).status == 403
            assert (await ann.post("review", own, **{"Sec-Fetch-Site": "same-origin"})).status == 200
            for kind in ("application/json", "text/plain", "multipart/form-data", ""):
                assert (await ann.post("review", own, **{"Content-Type": kind})).status == 415
            login = Browser(stage.plane.address)
            form = (await login.get(f"{BASE}login")).form("login")
            login.cookies = {}
            assert (await login.send(form, token=first_of(stage))).status == 403
            assert (await stage.operator.get("/latches"))["latches"] == []

    run(main())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("nothing", 404),
        ("turns/tg_none", 404),
        ("static/site.py", 404),
        ("static/..%2fsite.py", 404),
        ("review", 405),
        ("?tennant=x", 400),
        ("?outcome=maybe", 400),
        ("?limit=0", 400),
        ("?tenant=a&tenant=b", 400),
        ("?tenant=%ff", 400),
        ("?tenant=&tool=&outcome=", 200),
    ],
)
def test_what_cannot_be_shown_is_a_page_that_says_so(
    run: Run, tmp_path: Path, path: str, expected: int
) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            seen = await (await logged_in(stage)).get(BASE + path)
            assert seen.status == expected
            assert seen.answer.header("content-type") == "text/html; charset=utf-8"
            assert "a-operator (operator)" in seen.text

    run(main())


def test_another_host_is_refused(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            ann = await logged_in(stage)
            assert (await ann.get(BASE, Host="evil.example")).status == 403
            assert (await ann.get(f"{BASE}static/htmx.js", Host="evil.example")).status == 403

    run(main())


def test_a_browser_that_names_no_page_is_shown_the_console_and_nobody_else_is(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            browser = Browser(stage.plane.address)
            for path in ("/", "/console"):
                assert (await browser.get(path)).location == BASE
            assert (await stage.operator.ask("GET", "/")).code == "not_found"
            assert (await Operator(stage.plane.address, None).ask("GET", "/")).code == "unauthenticated"

    run(main())


def test_every_answer_has_the_strict_policy_and_no_page_has_script_or_style_in_it(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(BAD_TURN))) as stage:
            await stage.world.ask()
            turn = await stage.world.turn()
            ann = await logged_in(stage)
            latch = await stage.operator.latch("stop_model", model="another")
            nobody = Browser(stage.plane.address)
            pages = [await ann.get(BASE + path) for path in (*READ, f"turns/{turn.turn_id}", "nothing")]
            pages.append(await ann.get(f"{BASE}latches/{latch['id']}"))
            pages += [await nobody.get(), await nobody.get(f"{BASE}login")]
            pages += [await nobody.get(f"{BASE}static/{name}") for name in ("htmx.js", "console.css")]
            for seen in pages:
                assert seen.all("content-security-policy") == [POLICY.decode()]
                assert seen.answer.header("x-content-type-options") == "nosniff"
                assert seen.answer.header("referrer-policy") == "same-origin"
                for tag, attributes in seen.tags:
                    assert tag not in ("style", "iframe", "object", "base")
                    assert tag != "script" or attributes["src"]
                    assert not {name for name in attributes if name == "style" or name.startswith("on")}
            scripts = {dict(attributes)["src"] for tag, attributes in pages[0].tags if tag == "script"}
            (script,) = scripts
            assert (await nobody.get(script or "")).status == 200

    run(main())


def test_what_the_wire_says_is_text_and_can_be_seen(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(strange_turn()))) as stage:
            await stage.world.ask()
            turn = await stage.world.turn()
            assert turn.calls[0].tool == STRANGE
            ann = await logged_in(stage)
            for path in ("", f"turns/{turn.turn_id}", f"live/turns/{turn.turn_id}"):
                seen = await ann.get(BASE + path)
                assert "<script>alert(1)</script>\\u202egnp\\x00" in seen.text
                assert "\u202e" not in seen.html
                assert "\x00" not in seen.html
                assert [tag for tag, _ in seen.tags if tag == "script"] == ["script"] * (
                    not path.startswith("live")
                )
                assert "img" not in [tag for tag, _ in seen.tags]
            strange = '"><b>\u202e'
            page = await ann.get(f"{BASE}?tool=%22%3E%3Cb%3E%E2%80%AE")
            assert page.form("").fields["tool"] == strange
            assert "b" not in [tag for tag, _ in page.tags]

    run(main())


def test_no_page_has_a_prompt_an_output_a_credential_or_an_argument(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(BAD_TURN))) as stage:
            await stage.world.ask()
            turn = await stage.world.turn()
            assert turn.calls[0].argument_bytes > len(ARGUMENT)
            ann = await logged_in(stage)
            for path in (*READ, f"turns/{turn.turn_id}"):
                html = (await ann.get(BASE + path)).html
                assert not [word for word in (KEY, PROMPT, OUTPUT, ARGUMENT) if word in html]
                assert first_of(stage) not in html
                assert str(turn.calls[0].argument_hmac) not in html

    run(main())


def test_one_turns_page_says_what_was_decided_and_why(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(BAD_TURN))) as stage:
            await stage.world.ask()
            turn = await stage.world.turn()
            seen = await (await logged_in(stage, Role.VIEWER)).get(f"{BASE}turns/{turn.turn_id}")
            for words in (
                "blocked",
                "invalid",
                "send_mail",
                "call_1",
                *turn.codes,
                "blocked: invalid",
                "request",
            ):
                assert words in seen.text
            assert not [attributes for _, attributes in seen.tags if "hx-get" in attributes]

    run(main())


def test_turns_can_be_filtered_and_paged(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            for _ in range(3):
                await stage.world.ask()
            turns = [turn.turn_id for turn in await stage.world.turns(3)]
            bob = await logged_in(stage, Role.VIEWER)

            def shown(seen: object) -> list[str]:
                return [
                    turn for turn in turns if f'href="/console/turns/{turn}"' in getattr(seen, "html", "")
                ]

            assert shown(await bob.get(f"{BASE}?tool=send_mail&outcome=released")) == turns
            assert shown(await bob.get(f"{BASE}?tool=other")) == []
            first = await bob.get(f"{BASE}?limit=2&upstream=provider")
            assert shown(first) == turns[:2]
            (older,) = [link["href"] for tag, link in first.tags if tag == "a" and link.get("rel") == "next"]
            assert shown(await bob.get(older or "")) == turns[2:]

    run(main())


def test_two_clicks_stop_a_turn_under_way_and_two_lift_the_stop(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, HOLDING) as stage:
            ann = await logged_in(stage)
            async with stage.world.connect() as client:
                client.writer.write(request())
                turn = await one_in_phase(ann, "holding")
                assert [given["hx-trigger"] for _, given in turn.tags if "hx-get" in given] == ["every 2s"]
                latches = await ann.get(f"{BASE}latches?kind=disable_tool&subject=send_mail")
                form = latches.form("review", act="latch", kind="disable_tool", subject="send_mail")
                shown = await ann.send(form, reason="case 4711")
                assert "ends 1 of the turns under way" in shown.text
                assert (await stage.operator.get("/latches"))["latches"] == []
                confirm = shown.form("confirm")
                done = await ann.send(confirm)
                told = (await client.answer()).details()
                assert (told["reason"], told["codes"]) == ("stopped_by_operator", ["tool_disabled"])
            assert (await ann.send(confirm)).location == done.location
            (latch,) = (await stage.operator.get("/latches"))["latches"]
            assert done.location == f"{BASE}latches/{latch['id']}"
            assert (latch["tool"], latch["reason"], latch["actor"]) == (
                "send_mail",
                "case 4711",
                "a-operator",
            )
            latches = await ann.get(f"{BASE}latches")
            assert "1 in force" in latches.text
            lift = latches.form("review", act="lift", latch_id=latch["id"])
            assert (await two_clicks(ann, lift, reason="closed")).location == done.location
            (latch,) = (await stage.operator.get("/latches"))["latches"]
            assert (latch["lifted_by"], latch["lift_reason"]) == ("a-operator", "closed")
            changes = (await stage.operator.get("/audit?changes=true"))["audit"]
            paths = [row["path"] for row in changes if row["latch"] == latch["id"]]
            assert paths[0] == f"/console/latches/{latch['id']}/lift"
            assert "/console/latches" in paths

    run(main())


def test_a_stop_from_the_console_refuses_what_comes_and_a_lift_lets_it_again(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            ann = await logged_in(stage)
            form = (await ann.get(f"{BASE}latches")).form("review", act="latch")
            await two_clicks(ann, form, kind="stop_tenant", subject="default", reason="drill")
            refused = await stage.world.ask()
            assert (refused.status, refused.details()["codes"]) == (400, ["tenant_stopped"])
            (latch,) = (await stage.operator.get("/latches"))["latches"]
            lift = (await ann.get(f"{BASE}latches")).form("review", act="lift", latch_id=latch["id"])
            await two_clicks(ann, lift, reason="over")
            assert (await stage.world.ask()).has_call()

    run(main())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "stop_all"}, "reason"),
        ({"kind": "stop_all", "reason": "  "}, "reason"),
        ({"kind": "stop_all", "subject": "x", "reason": "x"}, "leave the name empty"),
        ({"kind": "disable_tool", "reason": "x"}, "needs tool"),
        ({"kind": "stop_tenant", "subject": "a", "tenant": "b", "reason": "x"}, "two of tenant"),
        ({"kind": "stop_upstream", "subject": "elsewhere", "reason": "x"}, "no such upstream"),
        ({"kind": "stop_all", "reason": "x" * 501}, "length"),
        ({"kind": "stop_all", "reason": "x", "expires_in_s": "0"}, "expires_in_s"),
        ({"kind": "stop", "reason": "x"}, "Invalid enum value"),
        ({"kind": "stop_all", "reason": "x", "tennant": "x"}, "tennant"),
    ],
)  # fmt: skip
def test_a_latch_that_cannot_be_set_is_said_before_it_is_confirmed(
    run: Run, tmp_path: Path, fields: dict[str, str], words: str
) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            ann = await logged_in(stage)
            csrf = (await ann.get()).form("logout").fields["csrf"]
            seen = await ann.post("review", {"csrf": csrf, "act": "latch", **fields})
            assert seen.status == 400
            assert words in seen.text

    run(main())


def test_a_polled_fragment_leaves_no_row_and_a_page_leaves_one(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            ann = await logged_in(stage)
            for path in ("live/turns", "live/turns", "status"):
                await ann.get(BASE + path)
            paths: list[str] = []
            while f"{BASE}status" not in paths:
                rows = (await stage.operator.get("/audit?actor=a-operator"))["audit"]
                paths = [row["path"] for row in rows]
            assert sorted(paths) == [f"{BASE}login", f"{BASE}status"]

    run(main())


def test_a_turn_that_waits_for_a_person_is_approved_or_denied_in_two_clicks(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        rule = {"policy": {"confirm_s": 20}, "[policy.rules]": {"action": "confirm", "tool": "send_*"}}
        async with operated(tmp_path, answering(streamed(TOOL_TURN)), sections=rule) as stage:
            ann = await logged_in(stage)
            for act, has_call in (("approve", True), ("deny", False)):
                async with stage.world.connect() as client:
                    client.writer.write(request())
                    turn = await one_in_phase(ann, "confirming")
                    (form,) = [each for each in turn.forms if each.buttons == ["approve", "deny"]]
                    seen = await two_clicks(ann, form, act=act, reason="seen")
                    assert seen.location == f"{BASE}turns/{form.fields['turn_id']}"
                    assert (await client.answer()).has_call() is has_call

    run(main())


def test_a_ledger_that_cannot_be_read_is_said_on_the_page(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, NOTHING) as stage:
            ann = await logged_in(stage)
            form = (await ann.get(f"{BASE}latches")).form("review", act="latch")
            shown = await ann.send(form, kind="stop_all", reason="drill")
            away = stage.world.ledger.rename(tmp_path / "away.db")
            for seen in (await ann.get(), await ann.send(shown.form("confirm"))):
                assert seen.status == 503
                assert "The ledger does not answer" in seen.text
            assert "cannot be read" in (await ann.get(f"{BASE}status")).text
            away.rename(stage.world.ledger)
            assert (await ann.send(shown.form("confirm"))).status == 303
            assert len((await stage.operator.get("/latches?standing=true"))["latches"]) == 1

    run(main())
