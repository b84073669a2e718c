"""Files appear complete or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gough.core.errors import OutputError
from gough.core.files import write_text, write_together


def test_text_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "one")
    write_text(path, "two µ")
    assert path.read_text(encoding="utf-8") == "two µ"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_the_mode_is_that_of_a_new_file_and_set_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows before Python 3.13 refuses a descriptor."""
    changed = []

    def by_name(path: str, mode: int) -> None:
        assert isinstance(path, str)
        changed.append(mode)

    (tmp_path / "plain.txt").write_text("x")
    monkeypatch.setattr(os, "chmod", by_name)
    write_text(tmp_path / "a.txt", "x")
    assert changed == [(tmp_path / "plain.txt").stat().st_mode & 0o777]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="gone"):
        write_text(tmp_path / "gone" / "a.txt", "x")


def test_files_that_belong_together_appear_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    write_together({first: b"a1", second: b"b1"})
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"b\.txt.*No space left"):
        write_together({first: b"a2", second: b"b2"})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a.txt": b"a1", "b.txt": b"b1"}
