"""A few hundred damaged logs of every format; `fuzzing.py` reads thousands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="memory is counted otherwise")
def test_damaged_logs_are_read_or_refused_and_never_flood_the_memory(tmp_path: Path) -> None:
    """In a process of its own: a library that crashes must not take the tests with it."""
    program = Path(__file__).parent / "fuzzing.py"
    done = subprocess.run(
        [sys.executable, str(program), "400"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    peak = re.search(r"(\d+) MiB", done.stdout)
    assert peak is not None
    assert int(peak[1]) < 1024
    outcomes = [line.split()[:2] for line in done.stdout.splitlines()[:-1]]
    doors = {door for door, _ in outcomes}
    assert len(doors) >= 16
    assert {door for door, outcome in outcomes if outcome == "InvalidRecording"} == doors
    assert (
        len({door for door, outcome in outcomes if outcome == "read"}) >= 8
    )  # some damage is harmless
