"""Signed notes against the published example of golang.org/x/mod/sumdb/note, and whatever is not one."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from turngate.ledger.note import NOTE_LIMIT, NoteError, Signer, Verifier

SECRET = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
SIGNATURE = "\N{EM DASH} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
NOTE = f"{TEXT}\n{SIGNATURE}"
SIGNER, VERIFIER = Signer.parse(SECRET), Verifier.parse(PUBLIC)
OTHER = Signer("PeterNeumann", bytes(range(32)))


def test_keys_and_notes_are_spelt_as_the_known_tools_spell_them() -> None:
    assert (SIGNER.secret(), str(SIGNER.verifier), SIGNER.verifier) == (SECRET, PUBLIC, VERIFIER)
    assert SIGNER.sign(TEXT) == NOTE
    assert VERIFIER.open(NOTE.encode()) == TEXT


def test_a_private_key_does_not_show_itself() -> None:
    assert "seed" not in repr(SIGNER)
    assert SECRET.rpartition("+")[2] not in repr(SIGNER)


def test_signatures_of_others_are_passed_over_and_the_text_may_have_gaps() -> None:
    text = f"{TEXT}\nmore\n"
    theirs = OTHER.sign(text).splitlines(keepends=True)[-1]
    assert VERIFIER.open((SIGNER.sign(text) + theirs).encode()) == text
    assert (
        VERIFIER.open((OTHER.sign(text) + SIGNER.sign(text).splitlines(keepends=True)[-1]).encode()) == text
    )


@pytest.mark.parametrize(
    "note",
    [
        pytest.param(NOTE.replace("answer", "Answer"), id="text changed"),
        pytest.param(NOTE.replace("\n\n", "\n\n\n"), id="line added"),
        pytest.param(NOTE.replace("x08go", "x08gp"), id="another key's id"),
        pytest.param(NOTE.replace("/ZJk", "/ZJl"), id="signature changed"),
        pytest.param(NOTE.replace("PeterN", "peterN"), id="another name"),
        pytest.param(NOTE.replace("JnAM=", "JnAM"), id="no base64"),
        pytest.param(NOTE.replace("\N{EM DASH}", "-"), id="no dash"),
        pytest.param(NOTE[:-1], id="last line open"),
        pytest.param(TEXT, id="no signature"),
        pytest.param(f"{TEXT}\n", id="nothing behind the gap"),
        pytest.param(f"{NOTE}\n", id="gap at the end"),
        pytest.param(NOTE.replace("your", "yo\tur"), id="control character"),
        pytest.param(f"{NOTE}\N{EM DASH} other ???\n", id="signature of another that is none"),
        pytest.param(OTHER.sign(TEXT), id="signed by another of that name"),
        pytest.param(NOTE + SIGNATURE.replace("/ZJk", "/ZJl"), id="one good and one bad signature"),
        pytest.param(TEXT + "x" * NOTE_LIMIT + f"\n\n{SIGNATURE}", id="too long"),
        pytest.param("", id="empty"),
    ],
)  # fmt: skip
def test_any_other_note_is_refused(note: str) -> None:
    with pytest.raises(NoteError):
        VERIFIER.open(note.encode())


def test_a_note_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(NoteError):
        VERIFIER.open(NOTE.encode().replace(b"problem", b"pr\xffblem"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PeterNeumann",
        SECRET,
        PUBLIC.replace("c74f20a3", "c74f20a4"),
        PUBLIC.replace("PeterNeumann", "Peter Neumann"),
        PUBLIC.replace("PeterNeumann", ""),
        PUBLIC[:-4],
        PUBLIC.replace("+ARpc", "+Aupc"),
        "x+00000000+" + base64.b64encode(b"\x02" + bytes(32)).decode(),
    ],
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        Verifier.parse(text)


@pytest.mark.parametrize("text", ["", PUBLIC, SECRET[:-4], SECRET.replace("c74f20a3", "c74f20a4")])
def test_what_is_no_private_key_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        Signer.parse(text)


@pytest.mark.parametrize("text", ["", "open line", "con\ttrol\n"])
def test_what_makes_no_note_is_not_signed(text: str) -> None:
    with pytest.raises(NoteError):
        SIGNER.sign(text)


def test_a_key_that_is_no_point_of_the_curve_verifies_nothing() -> None:
    bad = replace(VERIFIER, key=b"\xff" * 32)
    note = NOTE.replace("x08go", base64.b64encode(bad.key_id + b"xx").decode()[:5])
    with pytest.raises(NoteError):
        bad.open(note.encode())
