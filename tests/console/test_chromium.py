"""The console as a person uses it, in a real Chromium and with the keyboard alone, where the machine has one.

What it sees is kept as pictures in `var/console`, to be looked at.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.console.chromium import Tab, chromium
from tests.console.test_pages import CONFIRM
from tests.console.test_site import HOLDING, STRANGE, strange_turn
from tests.operator.staged import Staged, operated
from tests.proxy.gated import BAD_TURN, TOOL_TURN, Run, answering, request, streamed
from tests.transport.peer import Peer

COMMAND = shutil.which("chromium") or shutil.which("google-chrome") or ""
PICTURES = Path(__file__).parents[2] / "var" / "console"

pytestmark = pytest.mark.skipif(not COMMAND, reason="there is no Chromium here")


async def log_in(tab: Tab, stage: Staged) -> None:
    await tab.go(f"{stage.plane.address}/")
    await tab.until("document.activeElement.name === 'token'")
    await tab.type(stage.operator.token or "")
    await tab.press("Enter")
    await tab.until("document.title === 'Turns · turngate'")


def test_a_person_logs_in_watches_a_turn_stops_it_and_lifts_the_stop(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        async with operated(tmp_path, HOLDING) as stage, chromium(COMMAND, tmp_path / "profile") as tab:
            await tab.go(f"{stage.plane.address}/")
            await tab.until("document.activeElement.name === 'token'")
            await tab.picture(PICTURES / "login-light.png", "light")
            await tab.type(stage.operator.token or "")
            await tab.press("Enter")
            await tab.until("document.title === 'Turns · turngate'")
            async with stage.world.connect() as client:
                client.writer.write(request())
                await tab.shows("holding")
                await tab.picture(PICTURES / "turns-light.png", "light")
                await tab.picture(PICTURES / "turns-dark.png", "dark")
                await tab.focus("tbody a")
                await tab.press("Enter")
                await tab.until("document.getElementById('stop-1')")
                await tab.picture(PICTURES / "turn-dark.png", "dark")
                await tab.focus("#stop-1")
                await tab.press("Enter")
                await tab.focus("form.stack input[name=reason]")
                await tab.picture(PICTURES / "latches-light.png", "light")
                await tab.type("case 4711")
                await tab.press("Enter")
                await tab.until("document.activeElement.textContent === 'Stop it now'")
                await tab.picture(PICTURES / "review-light.png", "light")
                assert (await stage.operator.get("/latches"))["latches"] == []
                await tab.press("Enter")
                assert (await client.answer()).details()["codes"] == ["tool_disabled"]
            await tab.shows("1 in force")
            await tab.picture(PICTURES / "latched-dark.png", "dark")
            await tab.focus("form.line input[name=reason]")
            await tab.type("case 4711 is closed")
            await tab.press("Enter")
            await tab.until("document.activeElement.textContent === 'Lift it now'")
            await tab.press("Enter")
            await tab.shows("lifted")
            (latch,) = (await stage.operator.get("/latches"))["latches"]
            assert latch["lift_reason"] == "case 4711 is closed"
            assert tab.complaints == []

    run(main())


def test_a_tools_name_runs_nothing_and_a_page_left_open_goes_to_the_login(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        script = answering(streamed(strange_turn()))
        async with operated(tmp_path, script) as stage, chromium(COMMAND, tmp_path / "profile") as tab:
            await stage.world.ask()
            turn = await stage.world.turn()
            await log_in(tab, stage)
            await tab.shows(turn.turn_id)
            await tab.go(f"{stage.plane.address}/console/turns/{turn.turn_id}")
            await tab.shows(STRANGE.partition("\u202e")[0])
            await tab.picture(PICTURES / "strange-light.png", "light")
            assert await tab.find("document.scripts.length") == 1
            assert await tab.find("typeof htmx") == "object"
            await tab.go(f"{stage.plane.address}/console/")
            await tab.shows(turn.turn_id)
            assert tab.complaints == []
            await tab.find(
                "document.head.append(document.createElement('style').appendChild(new Text('p {}')).parentNode)"
            )
            await tab.complains("Content Security Policy")
            (token,) = stage.plane.store.tokens()
            stage.plane.store.revoke(token.id)
            await tab.until("document.activeElement.name === 'token'")

    run(main())


def test_a_reason_that_is_being_typed_survives_what_moves_around_it_and_answers_the_turn(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        async with (
            operated(tmp_path, answering(streamed(TOOL_TURN)), sections=CONFIRM) as stage,
            chromium(COMMAND, tmp_path / "profile") as tab,
            stage.world.connect() as client,
        ):
            client.writer.write(request())
            await log_in(tab, stage)
            await tab.go(f"{stage.plane.address}/console/approvals")
            await tab.focus("form.line input[name=reason]")
            left = "document.querySelector('article strong').innerText"
            before = await tab.find(left)
            await tab.type("seen with ")
            await tab.until(f"{left} !== {before!r}")
            await tab.type("Bob")
            await tab.picture(PICTURES / "approvals-dark.png", "dark")
            await tab.picture(PICTURES / "approvals-narrow.png", "light", 390)
            await tab.press("Enter")
            await tab.until("document.activeElement.textContent === 'Approve it now'")
            await tab.press("Enter")
            assert (await client.answer()).has_call()
            await tab.shows("seen with Bob")
            await tab.until("!document.querySelector('[hx-get]')")
            await tab.picture(PICTURES / "confirmed-light.png", "light")
            assert tab.complaints == []

    run(main())


def test_figures_are_drawn_in_the_colours_of_the_scheme_and_fit_a_narrow_page(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        replies = iter([TOOL_TURN] * 6 + [BAD_TURN])

        async def script(peer: Peer) -> None:
            await peer.answer(streamed(next(replies)))

        async with operated(tmp_path, script) as stage, chromium(COMMAND, tmp_path / "profile") as tab:
            for _ in range(7):
                await stage.world.ask()
            await stage.world.turns(7)
            latch = await stage.operator.latch("stop_model", model="another")
            await log_in(tab, stage)
            await tab.go(f"{stage.plane.address}/console/figures")
            await tab.until("document.querySelector('rect.good') && document.querySelector('rect.provider')")
            fill = "getComputedStyle(document.querySelector('rect.good')).fill"
            colours = []
            for scheme in ("light", "dark"):
                await tab.picture(PICTURES / f"figures-{scheme}.png", scheme)
                colours.append(await tab.find(fill))
            assert len({*colours, "rgb(0, 0, 0)"}) == 3
            assert await tab.find("document.querySelector('rect.good').getBoundingClientRect().height") > 50
            await tab.picture(PICTURES / "figures-narrow.png", "light", 390)
            assert await tab.find("document.documentElement.scrollWidth") == 390
            for name, path in (("audit", "audit?changes=false"), ("latch", f"latches/{latch['id']}")):
                await tab.go(f"{stage.plane.address}/console/{path}")
                await tab.shows("drill")
                await tab.picture(PICTURES / f"{name}-dark.png", "dark")
                await tab.picture(PICTURES / f"{name}-narrow.png", "light", 390)
                assert await tab.find("document.documentElement.scrollWidth") == 390
            assert tab.complaints == []

    run(main())
