"""How a reply is cut into writes: a reader must come to the same end whatever the network does."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turngate.errors import ConfigError

_LONGEST = 48
"""Bytes of the longest random piece: shorter than most frames, so that most are cut."""


class Cutting(enum.StrEnum):
    """The ways to cut."""

    WHOLE = "whole"
    FRAME = "frame"
    BYTE = "byte"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Split:
    """One way, and the seed of its dice."""

    cutting: Cutting = Cutting.FRAME
    seed: int = 0

    def pieces(self, frames: Sequence[bytes]) -> Iterator[bytes]:
        """The same bytes, cut."""
        match self.cutting:
            case Cutting.FRAME:
                yield from frames
            case Cutting.WHOLE:
                yield from filter(None, [b"".join(frames)])
            case Cutting.BYTE:
                yield from (bytes([value]) for value in b"".join(frames))
            case Cutting.RANDOM:
                yield from _random(b"".join(frames), self.seed)

    def __str__(self) -> str:
        return f"{self.cutting}:{self.seed}" if self.cutting is Cutting.RANDOM else self.cutting.value


def read_split(text: str) -> Split:
    """Read `whole`, `frame`, `byte`, `random` or `random:SEED`."""
    word, _, seed = text.partition(":")
    if word not in tuple(Cutting) or (seed and (word != Cutting.RANDOM or not seed.isdecimal())):
        raise ConfigError(f"there is no split {text!r}; there are whole, frame, byte and random:SEED")
    return Split(Cutting(word), int(seed or 0))


def _random(data: bytes, seed: int) -> Iterator[bytes]:
    dice = random.Random(seed)  # noqa: S311 -- repeatable, not secret
    start = 0
    while start < len(data):
        end = start + dice.randint(1, _LONGEST)
        yield data[start:end]
        start = end
