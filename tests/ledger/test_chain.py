from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.ledger.chain import GENESIS, ChainReport, Checkpoint, Flaw, Link, check_chain, link_hash


def chain_of(*payloads: bytes) -> list[Link]:
    links: list[Link] = []
    for seq, payload in enumerate(payloads, start=1):
        prev_hash = links[-1].hash if links else GENESIS
        links.append(Link(seq, "decided", payload, prev_hash, link_hash(prev_hash, seq, "decided", payload)))
    return links


def seen(links: list[Link]) -> Checkpoint:
    return Checkpoint(len(links), links[-1].hash.hex() if links else GENESIS.hex())


CHAIN = chain_of(b"a", b"b", b"c", b"d")


def test_the_hash_is_what_its_description_says() -> None:
    said = b"turngate ledger entry 1\0" + bytes(32) + bytes(7) + b"\1" + b"\0\7" + b"decided" + b"{}"
    assert link_hash(GENESIS, 1, "decided", b"{}") == hashlib.sha256(said).digest()


@pytest.mark.parametrize("length", range(5))
def test_a_sound_chain_reports_its_size_and_head(length: int) -> None:
    links = CHAIN[:length]
    assert check_chain(links) == ChainReport(seen(links))
    assert check_chain(links, seen(links)) == ChainReport(seen(links))


def test_a_chain_may_have_grown_since_the_checkpoint() -> None:
    assert check_chain(CHAIN, seen(CHAIN[:2])).flaw is None


@pytest.mark.parametrize(
    ("links", "flaw", "bad_seq"),
    [
        pytest.param(
            [CHAIN[0], CHAIN[1]._replace(payload=b"B"), *CHAIN[2:]], Flaw.ALTERED, 2, id="flipped payload"
        ),
        pytest.param(
            [CHAIN[0], CHAIN[1]._replace(kind="held"), *CHAIN[2:]], Flaw.ALTERED, 2, id="changed kind"
        ),
        pytest.param([*CHAIN[:3], CHAIN[3]._replace(hash=bytes(32))], Flaw.ALTERED, 4, id="changed hash"),
        pytest.param([CHAIN[0], *CHAIN[2:]], Flaw.MISSING, 2, id="dropped"),
        pytest.param(CHAIN[1:], Flaw.MISSING, 1, id="dropped first"),
        pytest.param(
            [CHAIN[0], *(x._replace(seq=x.seq - 1) for x in CHAIN[2:])],
            Flaw.UNLINKED,
            2,
            id="dropped, renumbered",
        ),
        pytest.param(
            [CHAIN[0], CHAIN[2]._replace(seq=2), CHAIN[1]._replace(seq=3), CHAIN[3]],
            Flaw.UNLINKED,
            2,
            id="swapped",
        ),
        pytest.param(
            [*CHAIN[:2], CHAIN[2]._replace(prev_hash=bytes(32)), CHAIN[3]], Flaw.UNLINKED, 3, id="relinked"
        ),
    ],
)
def test_a_chain_that_was_tampered_with_names_the_first_bad_entry(
    links: list[Link], flaw: Flaw, bad_seq: int
) -> None:
    report = check_chain(links)
    assert (report.flaw, report.bad_seq, report.head.size) == (flaw, bad_seq, bad_seq - 1)


def test_only_a_checkpoint_shows_a_cut_tail() -> None:
    assert check_chain(CHAIN[:2]).flaw is None
    report = check_chain(CHAIN[:2], seen(CHAIN))
    assert (report.flaw, report.bad_seq) == (Flaw.TRUNCATED, 3)


def test_only_a_checkpoint_shows_a_chain_that_was_computed_anew() -> None:
    forged = chain_of(b"a", b"b", b"C", b"d")
    assert check_chain(forged).flaw is None
    report = check_chain(forged, seen(CHAIN))
    assert (report.flaw, report.bad_seq) == (Flaw.REWRITTEN, 4)


@given(payloads=st.lists(st.binary(max_size=8), min_size=2, max_size=6), data=st.data())
def test_no_order_but_the_written_one_verifies(payloads: list[bytes], data: st.DataObject) -> None:
    links = chain_of(*payloads)
    moved = data.draw(st.permutations(links))
    in_order = all(one.seq < other.seq for one, other in pairwise(moved))
    assert (check_chain(moved).flaw is None) is in_order
