"""What reaches an SDK while a turn is held: the text as it comes, keep-alives, and nothing else.

Proved by the order of events: the provider goes on only when the client has said that it saw what came before.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.gated import chunked
from tests.sdk.reading import Seen
from tests.sdk.sdks import CLIENTS, STREAMED
from tests.sdk.stage import Part, Stage, stream
from tests.sdk.tap import tapped
from tests.sdk.test_blocks import quietly_told, told
from tests.sdk.test_releases import agree
from tests.sdk.wires import TEXT, WIRES, Call, frames_of
from tests.transport.peer import Peer, until
from turngate.core.verdict import Reason

COMMENT = b": still there\n\n"
FORMS: dict[Any, bytes] = {
    ("anthropic_messages", "native"): b'event: ping\ndata: {"type":"ping"}\n\n',
    "native": b"\n",
    "blank": b"\n",
    "comment": b": keep-alive\n\n",
}
BETWEEN = 3
"""Keep-alives that a client gets, at least, before the provider goes on."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_text_arrives_before_the_verdict_and_a_call_only_after_it(
    stage: Stage, dialect: str, way: str, client: str
) -> None:
    async def main() -> None:
        wire, seen, early = WIRES[dialect], Seen(), list[bytes]()
        text, call, end = wire.text(), wire.calls([Call()]), wire.finish() + wire.done

        async def until_it_is_read(_peer: Peer) -> None:
            await until(lambda: seen.text == TEXT)

        async with tapped(stage.world.port) as tap:

            async def until_the_comment_has_passed(_peer: Peer) -> None:
                early.append(await tap.until(COMMENT))

            parts = stream(text, until_it_is_read, call, COMMENT, until_the_comment_has_passed, end)
            await stage.ask(dialect, way, parts, client=client, seen=seen, port=tap.port)
            assert seen.error is None
            assert text in early[0]
            assert early[0].endswith(b"%x\r\n%b\r\n" % (len(COMMENT), COMMENT))
            assert Call().id.encode() not in early[0]
            assert call + end in tap.passed
        assert [shown.id for shown in seen.calls] == [Call().id]
        agree(stage, await stage.turn(), seen)

    stage.run(main())


@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_without_the_gate_the_call_is_there_before_the_turn_has_ended(
    stage: Stage, dialect: str, way: str
) -> None:
    async def main() -> None:
        wire, early = WIRES[dialect], list[bytes]()
        async with tapped(stage.world.upstream_port) as tap:

            async def until_the_comment_has_passed(_peer: Peer) -> None:
                early.append(await tap.until(COMMENT))

            parts = stream(wire.text(), wire.calls([Call()]), COMMENT, until_the_comment_has_passed)
            seen = await stage.ask(dialect, way, parts, None, port=tap.port)
        assert Call().id.encode() in early[0]
        assert [shown.id for shown in seen.calls] == [Call().id]

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("dialect", "way"), [each for each in STREAMED if each[0] != "anthropic_messages"])
def test_text_behind_a_held_call_does_not_wait_for_it(
    stage: Stage, dialect: str, way: str, client: str
) -> None:
    async def main() -> None:
        wire, seen, early = WIRES[dialect], Seen(), list[list[object]]()
        more = wire.chunk({"content": "Nearly done."})

        async def until_it_is_read(_peer: Peer) -> None:
            session = await stage.held()
            await until(lambda: seen.text == TEXT + "Nearly done.")
            early.append([*seen.calls, session.verdict])

        parts = stream(wire.text(), wire.calls([Call()]), more, until_it_is_read, wire.finish() + wire.done)
        await stage.ask(dialect, way, parts, client=client, seen=seen)
        assert early == [[None]]
        assert seen.error is None
        assert [shown.id for shown in seen.calls] == [Call().id]
        agree(stage, await stage.turn(), seen)

    stage.run(main())


def kept_alive(stage: Stage) -> Part:
    """A part of the provider's: wait until the client has been kept alive several times."""

    async def part(_peer: Peer) -> None:
        session = await stage.held()
        enough = session.tally.bytes_injected + BETWEEN * len(session._decoder.keep_alive())
        await until(lambda: session.tally.bytes_injected >= enough)

    return part


def haltingly(stage: Stage, opening: str, dialect: str, call: Call) -> list[Part]:
    """A turn whose provider is silent for long after the first frame with a call, and again before the last ones."""
    wire, wait = WIRES[dialect], kept_alive(stage)
    if opening == "before anything":
        first, *others = frames_of(wire.silent(call))
        return stream(first, wait, *others[:-1], wait, *others[-1:])
    first, *others = frames_of(wire.calls([call]))
    return stream(wire.text(), first, wait, *others, wait, wire.finish(), wire.done)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("form", ["native", "blank", "comment"])
@pytest.mark.parametrize("opening", ["after text", "before anything"])
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_an_sdk_reads_on_over_keep_alives_of_every_form(
    stage: Stage, dialect: str, way: str, opening: str, form: str, client: str
) -> None:
    async def main() -> None:
        parts = haltingly(stage, opening, dialect, Call())
        async with tapped(stage.world.port) as tap:
            seen = await stage.ask(dialect, way, parts, form, client=client, port=tap.port)
            frame = FORMS.get((dialect, form)) or FORMS[form]
            times = tap.passed.count(chunked(frame))
        assert times >= 2 * BETWEEN
        assert seen.error is None
        assert [shown.id for shown in seen.calls] == [Call().id]
        turn = await stage.turn()
        assert turn.bytes_injected == times * len(frame)
        agree(stage, turn, seen)

    stage.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("settings", ["native", "quiet"])
@pytest.mark.parametrize("opening", ["after text", "before anything"])
@pytest.mark.parametrize(("dialect", "way"), STREAMED)
def test_a_block_after_keep_alives_is_told_like_any_other(
    stage: Stage, dialect: str, way: str, opening: str, settings: str, client: str
) -> None:
    async def main() -> None:
        parts = haltingly(stage, opening, dialect, Call('{"to": 1}'))
        seen = await stage.ask(dialect, way, parts, settings, client=client)
        assert (await stage.turn()).bytes_injected > 0
        if settings == "quiet":
            quietly_told(stage, seen)
        else:
            told(stage, seen, Reason.INVALID, "schema_type")
            # The reply had begun: this is no HTTP error.
            assert getattr(seen.error, "status_code", 200) == 200

    stage.run(main())
