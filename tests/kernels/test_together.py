"""Processes that share a machine: one of them compiles, each keeps to its threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import casadi as ca
from gough.kernels.kernel import Kernel, _cores
x = ca.SX.sym("x", 40)
y = x
for _ in range(15):
    y = ca.sin(y) * x + ca.cos(y)
print(int(Kernel(ca.Function("large", [x], [y])).compiled), _cores())
"""


@pytest.mark.slow
def test_of_processes_that_start_together_one_compiles(tmp_path: Path) -> None:
    own = os.environ | {"GOUGH_CACHE_DIR": str(tmp_path / "cache"), "GOUGH_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=own, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    told = [process.communicate()[0].split() for process in running]
    assert sorted(words[0] for words in told) == ["0", "0", "1"]
    assert {words[1] for words in told} == {"1"}
    assert not list((tmp_path / "cache").glob("*.lock"))
