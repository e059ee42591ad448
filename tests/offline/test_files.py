from __future__ import annotations

from pathlib import Path

import pytest

from turngate.offline.files import MAX_BYTES, InputError, read_bytes, read_document, walk


def test_a_folder_is_walked_in_order_and_a_loop_once(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c.json", "a.json", "b/x.json", "a.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    found = [path.relative_to(tmp_path).as_posix() for path in walk((tmp_path,), suffix=".json")]
    assert found == ["a.json", "b/x.json", "c.json"]


def test_a_dangling_link_is_found_and_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to(tmp_path / "nowhere")
    (path,) = walk((tmp_path,), suffix=".json")
    with pytest.raises(InputError, match=r"x\.json: No such file"):
        read_bytes(path)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(InputError, match="more than"):
        read_bytes(path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{\n  "a": 1,\n  "\xc3\xa9" x}', ":3:7"),
        (b"[1,\n\xff]", ":2:1"),
        (b'{"a": 1,\n "b": {"a": 1}, "a": 2}', ":2:17"),
        (b'{"a": [{"x": 1}, {"x": 1, "x": 2}]}', ":1:27"),
        (b"[1,\n NaN]", ":2:2"),
        (b"[1, 1e999]", ":1:5"),
        (b'["\\ud800"]', ":1:2"),
        (b"[" * 129 + b"]" * 129, ":1:129"),
        (b'["\xc3\xa9", \xff]', ":1:7"),
        (b"\xef\xbb\xbf{}", ":1:1"),
        (b"", ":1:1"),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, text: bytes, place: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_document(path)
    assert str(caught.value).startswith(f"{path}{place}: ")
