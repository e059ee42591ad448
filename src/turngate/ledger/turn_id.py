"""Turn ids: ours, unique without coordination, and sortable by time.

A turn id is a TypeID: `tg_` and 26 lower-case Crockford base32 digits of a UUIDv7 (RFC 9562), so that PostgreSQL can
keep it as a `uuid`, text order is time order, and a person can read it out. The twelve bits after the millisecond
hold its fraction (RFC 9562 section 6.2, method 3): ids made by one process sort to about a quarter of a
microsecond without any shared counter.
"""

from __future__ import annotations

import os
import time

PREFIX = "tg_"
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS = 26
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_NS_PER_MS = 1_000_000


def new_turn_id() -> str:
    """Make an id for a turn that begins now."""
    milliseconds, rest = divmod(time.time_ns(), _NS_PER_MS)
    fraction = (rest << 12) // _NS_PER_MS
    random = int.from_bytes(os.urandom(8), "big") >> 2
    return PREFIX + _crockford(_uuid7(milliseconds, fraction, random))


def first_turn_id(since: float) -> str:
    """The id that sorts before those of all turns that began then or later; `since` is in seconds since the epoch."""
    return PREFIX + _crockford(_uuid7(max(0, int(since * 1000)), 0, 0))


def _uuid7(milliseconds: int, fraction: int, random: int) -> int:
    version, variant = 0b0111, 0b10
    return (milliseconds << 80) | (version << 76) | (fraction << 64) | (variant << 62) | random


def _crockford(number: int) -> str:
    # Two digits at a time: an id is made for every turn, text or not.
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(5 * (_DIGITS - 2), -1, -10)])
