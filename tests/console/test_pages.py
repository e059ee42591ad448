"""What the pages show: figures, the audit, one latch, what waits for a person, and a turn's whole course."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.console.browser import BASE, Browser, Seen, logged_in, two_clicks
from tests.console.test_site import HOLDING, one_in_phase
from tests.operator.staged import Staged, operated
from tests.proxy.gated import BAD_TURN, TOOL_TURN, Run, answering, request, streamed
from tests.proxy.test_claim import asked as claim
from tests.transport.peer import Peer
from turngate.operator.tokens import Role

CONFIRM = {"policy": {"confirm_s": 20}, "[policy.rules]": {"action": "confirm", "tool": "send_*"}}


def links(seen: Seen) -> list[str]:
    return [given["href"] or "" for tag, given in seen.tags if tag == "a"]


async def shows(browser: Browser, path: str, words: str) -> Seen:
    """A page, once it says so: rows that nobody waits for follow within a tenth of a second."""
    while True:
        seen = await browser.get(BASE + path)
        if words in seen.text:
            return seen
        await asyncio.sleep(0.01)


def test_figures_are_drawn_named_and_linked_to_the_turns_that_they_count(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        replies = iter([TOOL_TURN, BAD_TURN, TOOL_TURN])

        async def script(peer: Peer) -> None:
            await peer.answer(streamed(next(replies)))

        async with operated(tmp_path, script) as stage:
            for _ in range(3):
                await stage.world.ask()
            await stage.world.turns(3)
            bob = await logged_in(stage, Role.VIEWER)
            page = await bob.get(f"{BASE}figures?minutes=1440")
            bars = [given["class"] for tag, given in page.tags if tag == "rect"]
            assert "bar good shade0" in bars
            assert "bar provider shade0" in bars
            labels = [given["aria-label"] or "" for tag, given in page.tags if tag == "svg"]
            assert [words.partition(":")[0] for words in labels] == [
                "Released, per 24 minutes",
                "Blocked and cancelled, per 24 minutes",
                "Hold time, from a turn's first call to its decision",
                "Wait for the provider's first event",
            ]
            assert "2 turns" in labels[0]
            (blocked,) = [href for href in links(page) if "reason=invalid" in href]
            assert len(re.findall(r'href="/console/turns/', (await bob.get(blocked)).html)) == 1
            (asks,) = [given for _, given in page.tags if "hx-get" in given]
            assert asks["hx-trigger"] == "every 10s"
            assert (await bob.get(asks["hx-get"] or "")).text in page.text
            table = await bob.get(f"{BASE}figures?minutes=1440&as=table")
            assert "svg" not in [tag for tag, _ in table.tags]
            assert "2 valid" in table.text
            assert (await bob.get(f"{BASE}figures?minutes=0")).status == 400

    run(main())


def test_the_audit_says_who_did_what_and_why_and_is_narrowed_and_paged(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN))) as stage:
            latches = [await stage.operator.latch("stop_model", model=f"m{each}") for each in range(3)]
            await stage.operator.lift(latches[0])
            bob = await logged_in(stage, Role.VIEWER)
            page = await shows(bob, "audit", "/console/login")
            assert page.text.count("POST /latches ") == 3
            assert page.text.count("drill") == 3
            assert "over" in page.text
            assert "GET" not in page.text
            assert "GET /console/audit" in (await shows(bob, "audit?changes=false", "GET")).text
            one = await bob.get(f"{BASE}audit?latch={latches[0]['id']}")
            assert one.text.count("POST") == 2
            assert "None that match" in (await bob.get(f"{BASE}audit?actor=nobody")).text
            first = await bob.get(f"{BASE}audit?limit=3&actor=first-operator")
            (older,) = [link["href"] for tag, link in first.tags if tag == "a" and link.get("rel") == "next"]
            rest = await bob.get(older or "")
            assert first.text.count("POST /latches") + rest.text.count("POST /latches") == 4

    run(main())


def test_a_latchs_page_says_what_it_ended_what_it_stopped_since_and_lifts_it(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            if not holding.is_set():
                holding.set()
                await HOLDING(peer)
            await peer.answer(streamed(TOOL_TURN))

        holding = asyncio.Event()
        async with operated(tmp_path, script) as stage:
            ann = await logged_in(stage)
            async with stage.world.connect() as client:
                client.writer.write(request())
                await one_in_phase(ann, "holding")
                latches = await ann.get(f"{BASE}latches?kind=disable_tool&subject=send_mail")
                done = await two_clicks(ann, latches.form("review", act="latch"), reason="case 4711")
                await client.answer()
            assert (await stage.world.ask()).details()["codes"] == ["tool_disabled"]
            later, ended = await stage.world.turns(2)
            page = await ann.get(done.location or "")
            for words in ("case 4711", "a-operator", "in force", "It ended 1 under way", "tool_disabled"):
                assert words in page.text
            before, _, since = page.html.partition("Calls it has stopped since")
            assert ended.turn_id in before
            assert later.turn_id in since
            assert ended.turn_id not in since
            bob = await logged_in(stage, Role.VIEWER)
            assert "review" not in (await bob.get(done.location or "")).html
            assert (await ann.get(f"{BASE}turns/{later.turn_id}")).html.count(done.location or "") == 1
            lift = page.form("review", act="lift")
            back = await two_clicks(ann, lift, reason="case closed")
            assert back.location == done.location
            page = await ann.get(back.location or "")
            assert "case closed" in page.text
            assert "/lift" in page.text
            assert "review" not in page.html
            assert (await ann.get(f"{BASE}latches/tgl_x")).status == 404

    run(main())


def test_what_waits_for_a_person_is_answered_where_it_is_listed_and_the_answer_stays(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN)), sections=CONFIRM) as stage:
            ann, bob = await logged_in(stage), await logged_in(stage, Role.VIEWER)
            assert "Nothing waits" in (await ann.get(f"{BASE}approvals")).text
            for act, said in (("approve", "approved"), ("deny", "denied")):
                async with stage.world.connect() as client:
                    client.writer.write(request())
                    page = await shows(ann, "approvals", "1 waiting")
                    assert "send_mail" in page.text
                    assert "form" not in [tag for tag, _ in (await bob.get(f"{BASE}live/approvals")).tags]
                    (form,) = [each for each in page.forms if each.buttons == ["approve", "deny"]]
                    assert (await two_clicks(ann, form, act=act, reason=f"because {act}")).status == 303
                    await client.answer()
                page = await shows(bob, "approvals", f"{said} because {act}")
                assert f"/console/turns/{form.fields['turn_id']}" in links(page)

    run(main())


async def confirmed(stage: Staged, ann: Browser) -> str:
    async with stage.world.connect() as client:
        client.writer.write(request())
        page = await shows(ann, "approvals", "1 waiting")
        (form,) = [each for each in page.forms if each.buttons == ["approve", "deny"]]
        await two_clicks(ann, form, act="approve", reason="seen with Bob")
        await client.answer()
    return form.fields["turn_id"]


def test_a_turns_course_is_told_to_its_end(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with operated(tmp_path, answering(streamed(TOOL_TURN)), sections=CONFIRM) as stage:
            ann = await logged_in(stage)
            turn = await confirmed(stage, ann)
            assert (await stage.world.ask(claim(turn))).status == 200
            page = await shows(ann, f"turns/{turn}", "handed to the client")
            told = page.text.partition("Timeline")[2]
            course = [
                "request",
                "first event",
                "call 0/0 send_mail: first event",
                "a person is asked",
                "approved by a-operator: seen with Bob",
                "released: valid",
                "handed to the client",
                "call 0/0: claimed by an executor",
            ]
            places = [told.find(words) for words in course]
            assert -1 not in places, told
            assert places == sorted(places), told
            assert "approved by a-operator" in page.text.partition("Calls")[0]

    run(main())
