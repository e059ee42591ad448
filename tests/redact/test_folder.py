from __future__ import annotations

import stat
from pathlib import Path

import pytest

from turngate.redact.captured import Result
from turngate.redact.folder import CaptureFolder


def test_a_file_is_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path, max_files=2, max_bytes=100)
    assert folder.write("turn", b"{}") is Result.WRITTEN
    (file,) = tmp_path.iterdir()
    assert (file.name, file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == ("turn.json", b"{}", 0o600)


def test_there_is_room_for_so_many_files_and_again_when_one_is_taken_out(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path, max_files=2, max_bytes=100)
    (tmp_path / "notes.txt").write_bytes(b"x" * 200)
    assert [folder.write(name, b"{}") for name in "abc"] == [Result.WRITTEN, Result.WRITTEN, Result.FULL]
    (tmp_path / "a.json").unlink()
    assert folder.write("c", b"{}") is Result.WRITTEN


def test_there_is_room_for_so_many_bytes(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path, max_files=9, max_bytes=100)
    assert folder.write("a", b"x" * 60) is Result.WRITTEN
    assert folder.write("b", b"x" * 41) is Result.FULL
    assert folder.write("c", b"x" * 40) is Result.WRITTEN


@pytest.mark.parametrize("name", ["a/b", "missing/../x"])
def test_a_disk_that_fails_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    assert CaptureFolder(tmp_path, max_files=9, max_bytes=100).write(name, b"{}") is Result.FAILED
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_failure_and_leaves_no_part(tmp_path: Path) -> None:
    # A device that has no room stands where the file would be written.
    (tmp_path / ".a.part").symlink_to("/dev/full")
    assert CaptureFolder(tmp_path, max_files=9, max_bytes=100).write("a", b"{}") is Result.FAILED
    assert not (tmp_path / "a.json").exists()
