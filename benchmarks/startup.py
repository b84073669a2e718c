"""Start-up time of the command line beside importing its three largest libraries.

Run `python benchmarks/startup.py [--small]`. The peer is `python -c "import numpy, scipy.linalg, casadi"`.
Bytecode and compiled kernels are in their caches. Processor time of the shortest of several runs,
commands and peer in turn, because the machine is shared; beside it the ratio to the peer and the
number of imported modules. `fit` is `identify` without the verdict.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 7
PEER = ["-c", "import numpy, scipy.linalg, casadi"]
FIT = """
from gough.engine import as_model
from gough.identification.fit import IdentifySettings, fit_logs
from gough.logs.readers import read_recording
print(fit_logs(as_model("five_bar"), [read_recording("log.csv")], IdentifySettings()))
"""
PREPARATION = [
    "design five_bar --starts 1 -o trajectory.json",
    "simulate five_bar --trajectory trajectory.json --periods 5 -o log.csv",
    "identify five_bar log.csv",
    "check five_bar",
]
COMMANDS = {
    "peer": PEER,
    "--help": ["-m", "gough", "--help"],
    "robots": ["-m", "gough", "robots"],
    "check": ["-m", "gough", "check", "five_bar"],
    "fit": ["-c", FIT],
    "identify": ["-m", "gough", "identify", "five_bar", "log.csv"],
}


def cpu_seconds(arguments: list[str], folder: Path) -> float:
    """Return the processor time of one run, or its duration where the platform has none. [s]"""
    before = os.times()
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    elapsed = time.perf_counter() - started
    after = os.times()
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    return user + system or elapsed


def count_modules(arguments: list[str], folder: Path) -> int:
    """Return how many modules a run imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stderr.count("import time:") - 1


def main(commands: Sequence[str] = tuple(COMMANDS), rounds: int = ROUNDS) -> None:
    """Print processor time, ratio to the peer and modules of each command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GOUGH_CACHE_DIR"] = str(folder / "cache")
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        cpu_seconds(PEER, folder)
        if {"check", "fit", "identify"} & set(commands):
            for line in PREPARATION:
                cpu_seconds(["-m", "gough", *line.split()], folder)
        times: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds):
            for label in commands:
                arguments = COMMANDS[label]
                times[label].append(cpu_seconds(arguments, folder))
        peer = min(times["peer"])
        print(f"{'command':10s} {'cpu time':>9s} {'ratio':>6s} {'modules':>8s}")
        for label in commands:
            arguments = COMMANDS[label]
            shortest = min(times[label])
            modules = count_modules(arguments, folder)
            print(f"{label:10s} {shortest:7.2f} s {shortest / peer:6.2f} {modules:8d}")


if __name__ == "__main__":
    if "--small" in sys.argv:
        main(["peer", "--help"], 1)
    else:
        main()
