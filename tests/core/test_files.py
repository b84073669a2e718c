"""Files appear complete or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gough.core.errors import OutputError
from gough.core.files import (
    locate_written,
    require_free,
    require_free_folder,
    write_text,
    write_together,
)


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


def test_the_mode_is_that_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("x")
    write_text(tmp_path / "a.txt", "x")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="gone"):
        write_text(tmp_path / "gone" / "a.txt", "x")


def test_files_that_belong_together_appear_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_together(tmp_path, {"a.txt": b"a1", "b.txt": b"b1"})
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        write_together(tmp_path, {"a.txt": b"a2", "b.txt": b"b2"})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a.txt": b"a1", "b.txt": b"b1"}


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_crash_between_the_renames_leaves_no_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """The process dies after some of the files have reached their places; readers see all new
    ones.
    """
    write_together(tmp_path, {"a.txt": b"a1", "b.txt": b"b1"})
    move, done = os.replace, []

    def dying(source: Path, target: Path) -> None:
        if len(done) == moves:
            raise KeyboardInterrupt
        done.append(target)
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying)
        patch.setattr(Path, "rmdir", lambda self: dying(self, self))
        with pytest.raises(KeyboardInterrupt):
            write_together(tmp_path, {"a.txt": b"a2", "b.txt": b"b2"})
    assert [locate_written(tmp_path, name).read_bytes() for name in ("a.txt", "b.txt")] == [
        b"a2",
        b"b2",
    ]
    write_together(tmp_path, {"c.txt": b"c"})  # the next to write moves what was left
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        "a.txt": b"a2",
        "b.txt": b"b2",
        "c.txt": b"c",
    }


def test_a_crash_before_the_commit_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_together(tmp_path, {"a.txt": b"a1", "b.txt": b"b1"})

    def dying(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", dying)
    with pytest.raises(KeyboardInterrupt):
        write_together(tmp_path, {"a.txt": b"a2", "b.txt": b"b2"})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a.txt": b"a1", "b.txt": b"b1"}
    assert locate_written(tmp_path, "a.txt").read_bytes() == b"a1"


def test_a_link_to_nowhere_is_not_overwritten_silently(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(OutputError, match="already exists"):
        require_free(link, force=False)
    require_free(link, force=True)
    with pytest.raises(OutputError, match="broken link"):
        require_free_folder(link, force=True)


def test_what_may_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="is a folder, expected a file"):
        require_free(tmp_path, force=True)
    with pytest.raises(OutputError, match=r"already exists; .* `force=True`"):
        require_free(tmp_path / "file", force=False)
    with pytest.raises(OutputError, match="does not exist; create"):
        require_free(tmp_path / "gone" / "file", force=True)
    with pytest.raises(OutputError, match="is not empty"):
        require_free_folder(tmp_path, force=False)
    assert require_free_folder(tmp_path, force=True) == tmp_path
    assert require_free_folder(tmp_path / "new", force=False) == tmp_path / "new"
