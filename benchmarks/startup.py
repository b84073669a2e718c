"""How long the command line takes to start, beside importing its three largest libraries: python
benchmarks/startup.py

The peer is `python -c "import numpy, scipy.linalg, casadi"`. Compiled code lies in the cache:
nothing is compiled. The shortest of several runs, commands and peer in turn, because the machine is
shared; beside it the modules each loads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 7
PEER = ["-c", "import numpy, scipy.linalg, casadi"]
COMMANDS = {
    "--help": ["-m", "gough", "--help"],
    "robots": ["-m", "gough", "robots"],
    "check": ["-m", "gough", "check", "five_bar"],
    "identify": ["-m", "gough", "identify", "five_bar", "log.csv"],
}


def seconds(arguments: list[str], folder: Path) -> float:
    """Return the processor time of one run, where the platform tells it: a busy machine does not
    count. [s]
    """
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after, elapsed = os.times(), time.perf_counter() - started
    spent = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return spent or elapsed


def imported(arguments: list[str], folder: Path) -> int:
    """Return how many modules a run imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stderr.count("import time:") - 1


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GOUGH_CACHE_DIR"] = str(folder / "cache")
        for arguments in (
            ["design", "five_bar", "--starts", "1", "-o", "trajectory.json"],
            [
                "simulate",
                "five_bar",
                "--trajectory",
                "trajectory.json",
                "--periods",
                "5",
                "-o",
                "log.csv",
            ],
            ["identify", "five_bar", "log.csv"],
            ["check", "five_bar"],
        ):
            seconds(["-m", "gough", *arguments], folder)
        times = {label: [] for label in ("peer", *COMMANDS)}
        for _ in range(ROUNDS):
            for label, arguments in {"peer": PEER, **COMMANDS}.items():
                times[label].append(seconds(arguments, folder))
        peer = min(times["peer"])
        print(f"{'command':10s} {'cpu time':>9s} {'ratio':>6s} {'modules':>8s}")
        for label, arguments in {"peer": PEER, **COMMANDS}.items():
            print(
                f"{label:10s} {min(times[label]):7.2f} s {min(times[label]) / peer:6.2f} "
                f"{imported(arguments, folder):8d}"
            )


if __name__ == "__main__":
    main()
