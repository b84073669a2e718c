"""Damaged files of every kind, each reader in a process of its own with limits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("time and memory are limited otherwise", allow_module_level=True)

from targets import TARGETS

QUICK_COUNTS = {"log": 120, "robot": 90, "factor": 60}  # of the slow readers
QUICK_COUNT = 120


def check(reader: str, count: int, folder: Path) -> None:
    program = Path(__file__).with_name("targets.py")
    done = subprocess.run(
        [sys.executable, str(program), reader, str(count)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # some damage is harmless, and some is not
    assert int(re.search(r"'read': (\d+)", done.stdout)[1]) > 0
    assert int(re.search(r"'refused': (\d+)", done.stdout)[1]) > count / 10


@pytest.mark.parametrize("reader", TARGETS)
def test_damaged_files_are_read_or_refused_by_name(reader, tmp_path: Path) -> None:
    check(reader, QUICK_COUNTS.get(reader, QUICK_COUNT), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("reader", TARGETS)
def test_ten_thousand_damaged_files_are_read_or_refused_by_name(reader, tmp_path: Path) -> None:
    check(reader, 10_000, tmp_path)
