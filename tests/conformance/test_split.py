"""However a reply is cut, its bytes are the same."""

from __future__ import annotations

import pytest

from turngate.conformance.split import read_split
from turngate.errors import ConfigError

FRAMES = [b"data: one\n\n", b"data: two, which is rather longer than the first one\n\n" * 3]


@pytest.mark.parametrize("text", ["whole", "frame", "byte", "random", "random:7"])
def test_the_pieces_are_the_reply(text: str) -> None:
    assert b"".join(read_split(text).pieces(FRAMES)) == b"".join(FRAMES)


def test_each_way_cuts_as_it_says() -> None:
    assert list(read_split("whole").pieces(FRAMES)) == [b"".join(FRAMES)]
    assert list(read_split("frame").pieces(FRAMES)) == FRAMES
    assert {len(piece) for piece in read_split("byte").pieces(FRAMES)} == {1}


def test_a_seed_is_its_dice() -> None:
    once, again, other = (list(read_split(f"random:{seed}").pieces(FRAMES)) for seed in (7, 7, 8))

    assert once == again != other


@pytest.mark.parametrize("text", ["", "words", "byte:1", "random:x", "cut:3"])
def test_an_unknown_way_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="there are whole, frame, byte and random:SEED"):
        read_split(text)


@pytest.mark.parametrize("text", ["whole", "frame", "byte", "random:7"])
def test_a_split_is_written_as_it_is_read(text: str) -> None:
    assert str(read_split(text)) == text
