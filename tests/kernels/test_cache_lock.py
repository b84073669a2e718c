"""The lock of the cache of machine code: one process compiles, and one that dies holds nobody up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gough.kernels import cache

HOLD = """
import sys
from gough.kernels import cache
with cache.reserved("k"):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("GOUGH_CACHE_DIR", str(tmp_path))
    return tmp_path


def holding() -> subprocess.Popen:
    """Start a process that locks a key until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    return process


def count_waits(monkeypatch, process: subprocess.Popen | None = None, most: int = 5) -> list:
    """Count the waits for a lock; end a process after some."""
    waits: list[float] = []

    def waited(seconds: float) -> None:
        waits.append(seconds)
        if process is not None and len(waits) == most:
            process.communicate("")

    monkeypatch.setattr(cache, "sleep", waited)
    return waits


def test_a_killed_process_leaves_no_lock(folder: Path, monkeypatch) -> None:
    process = holding()
    process.kill()
    process.communicate()
    assert (folder / "k.lock").exists()
    waits = count_waits(monkeypatch)
    with cache.reserved("k"):
        assert not waits
    assert not (folder / "k.lock").exists()


def test_another_process_waits_for_a_lock(folder: Path, monkeypatch) -> None:
    process = holding()
    waits = count_waits(monkeypatch, process)
    with cache.reserved("k"):
        assert len(waits) >= 5
        assert (folder / "k.lock").exists()
    assert not (folder / "k.lock").exists()


def test_a_lock_that_is_held_for_ever_is_not_waited_for_for_ever(monkeypatch) -> None:
    process = holding()
    monkeypatch.setattr(cache, "LOCK_TIMEOUT", 0.01)
    with cache.reserved("k"):
        pass
    process.communicate("")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="may write everywhere")
def test_a_folder_that_cannot_be_written_needs_no_lock(folder: Path) -> None:
    folder.chmod(0o500)
    with cache.reserved("k"):
        pass
    folder.chmod(0o700)
