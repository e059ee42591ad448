"""Signed checkpoints: what they say, where they are kept, and what they find in a ledger that somebody has changed."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from turngate.errors import LedgerError
from turngate.ledger.chain import GENESIS, Checkpoint
from turngate.ledger.checkpoint import ORIGIN, keep, opened, signed, signer_at, signing_key_path
from turngate.ledger.note import NoteError, Signer

SIGNER = Signer(f"{ORIGIN}test", bytes(range(32)))
CHECKPOINT = Checkpoint(20852163, "0a" * 32)


@pytest.mark.parametrize("checkpoint", [CHECKPOINT, Checkpoint(0, GENESIS.hex())])
def test_a_signed_checkpoint_says_who_how_many_and_which_head(checkpoint: Checkpoint) -> None:
    note = signed(checkpoint, SIGNER)
    head = base64.b64encode(bytes.fromhex(checkpoint.head)).decode()
    assert note.splitlines()[:4] == [SIGNER.name, str(checkpoint.size), head, ""]
    assert opened(note.encode(), SIGNER.verifier) == checkpoint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"{SIGNER.name}\n", "example.com/log\n"),
        ("20852163", "020852163"),
        ("20852163", "-1"),
        ("CgoK", "CgoK*"),
        ("Cgo=\n", "Cgo=\nextension\n"),
        ("20852163\n", ""),
    ],
)
def test_another_text_is_no_checkpoint_though_it_is_signed(old: str, new: str) -> None:
    text, gap, _ = signed(CHECKPOINT, SIGNER).partition("\n\n")
    assert old in text + "\n"
    note = SIGNER.sign((text + "\n").replace(old, new))
    with pytest.raises(NoteError):
        opened(note.encode(), SIGNER.verifier)
    assert gap


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = signing_key_path(tmp_path / "ledger.db")
    signer = signer_at(path)
    assert signer.name.startswith(ORIGIN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert signer_at(path) == signer
    assert signer_at(tmp_path / "other").name != signer.name
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("ledger")] == [path.name]


def test_a_key_that_others_can_read_or_that_is_none_signs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "key"
    signer_at(path)
    path.chmod(0o640)
    with pytest.raises(LedgerError, match="chmod 600"):
        signer_at(path)
    path.chmod(0o600)
    path.write_text("PRIVATE+KEY+nonsense")
    with pytest.raises(LedgerError, match="no signing key"):
        signer_at(path)
    with pytest.raises(LedgerError, match="No such file"):
        signer_at(tmp_path / "nowhere" / "key")


def test_kept_checkpoints_are_whole_files_in_order(tmp_path: Path) -> None:
    files = [keep(tmp_path, Checkpoint(size, "00" * 32), f"{size}\n") for size in (1, 9, 10)]
    assert sorted(tmp_path.iterdir()) == files
    assert [file.read_text() for file in files] == ["1\n", "9\n", "10\n"]
