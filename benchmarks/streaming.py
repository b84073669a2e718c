"""Long logs: 120,000 to 6,000,000 PaLiDA samples to a condensed regression, time and memory.

    python benchmarks/streaming.py [--against CHECKOUT] [--samples N ...] [--turns N] [--small]

Timed are reading, outliers, filters, closing of loops, regressor and factors. The choice of dead
bands and windows, which takes the same time for a log of any length, is timed by itself.
`--against` reduces the same log with the source of another checkout too (`git worktree add
../before v0.1`), some times in turn with this one, and compares processor times; versions that
choose no processing take what they need from the first block.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gough.engine import Model, base_parameters
from gough.mechanism import load_robot
from gough.processing import Processing

TURNS = 3  # runs of each checkout
CASES = ((120_000, (1,)), (600_000, (1, 10)), (6_000_000, (1,)))  # samples, decimations


def write_log(path: Path, samples: int) -> None:
    """Write a long smooth motion of the hexapod as NPZ, in pieces."""
    from engine import smooth_motion
    from gough.logs.recording import Recording

    model = Model(load_robot("palida"))
    piece = smooth_motion(model, min(60_000, samples // 2))
    legs = piece.q[:, list(model.actuated)]
    effort = model.inverse_dynamics(piece)
    there_and_back = np.concatenate([legs, legs[::-1]])
    efforts = np.concatenate([effort, effort[::-1]])
    repeats = samples // len(there_and_back)
    Recording(
        joints=model.mechanism.actuated,
        time=np.arange(repeats * len(there_and_back)) * 1e-3,
        position=np.tile(there_and_back, (repeats, 1)),
        position_units=("m",) * 6,
        effort=np.tile(efforts, (repeats, 1)),
    ).save(path)


def block_statistics(path: str, decimation: int) -> None:
    """Condense a log; print seconds of processors, also of the choice, samples and peak memory.

    Runs with the source of older versions too, in which names differ.
    """
    try:
        from gough.logs.recording_sources import open_recording
        from gough.processing import log_statistics
    except ImportError:
        from gough.signals.readers import open_recording

        from gough.processing import condense_log as log_statistics
    model = Model(load_robot("palida"))
    base = base_parameters(model, tie_legs=True)
    settings = Processing(method="time", cutoff=40.0, decimation=decimation)
    choice_seconds = 0.0
    try:
        from gough.processing.choice import choose_processing
    except ImportError:  # a version that chooses nothing
        pass
    else:
        choose_processing(model, [open_recording(path)], base, settings)  # kernels loaded
        started = time.process_time()
        settings = choose_processing(model, [open_recording(path)], base, settings).processing
        choice_seconds = time.process_time() - started
    log_statistics(model, [open_recording(path)], base, settings)  # kernels loaded
    started = time.process_time()
    statistics = log_statistics(model, [open_recording(path)], base, settings)
    seconds = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(seconds, choice_seconds, statistics.samples, memory)


class Measured(NamedTuple):
    """What reducing a log took."""

    seconds: float  # of the processors
    choice: float  # seconds of the choice of the processing; zero if there is none
    samples: float  # kept
    memory: float  # peak [MB]


def measure(path: Path, decimation: int, checkout: Path) -> Measured:
    """Reduce a log in a new process with the source of a checkout."""
    done = subprocess.run(
        [sys.executable, __file__, "block_statistics", str(path), str(decimation)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(checkout / "src")},
    )
    return Measured(*map(float, done.stdout.split()))


def compare(
    path: Path, decimation: int, other: Path | None, turns: int
) -> tuple[Measured, Measured | None]:
    """Return the fastest of a few runs of this checkout and of another, in turn."""
    here = Path(__file__).parents[1]
    if other is None:
        return measure(path, decimation, here), None
    ours = []
    theirs = []
    for _ in range(turns):
        theirs.append(measure(path, decimation, other))
        ours.append(measure(path, decimation, here))
    return min(ours), min(theirs)


def main(
    cases: Sequence[tuple[int, Sequence[int]]] = CASES,
    other: Path | None = None,
    turns: int = TURNS,
) -> list[tuple[str, str, str, str]]:
    """Return rows: what, Gough, peer, remark."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for samples, decimations in cases:
            path = Path(folder) / f"{samples}.npz"
            subprocess.run([sys.executable, __file__, "write", str(path), str(samples)], check=True)
            for decimation in decimations:
                ours, theirs = compare(path, decimation, other, turns)
                peer = "-"
                if theirs is not None:
                    peer = (
                        f"{theirs.seconds:.1f} s, {theirs.memory:.0f} MB: ratio "
                        f"{ours.seconds / theirs.seconds:.2f}"
                    )
                rows.append(
                    (
                        f"{samples:,} PaLiDA samples to condensed regression, decimation "
                        f"{decimation}",
                        f"{ours.seconds:.1f} s of processors, {ours.choice:.1f} s to choose",
                        peer,
                        f"{int(ours.samples):,} samples kept, peak memory {ours.memory:.0f} MB",
                    )
                )
            path.unlink()
    return rows


def compare_as_asked() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--samples", type=int, nargs="*", help="of logs without decimation")
    parser.add_argument("--turns", type=int, default=TURNS, help="runs of each checkout")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    cases: Sequence[tuple[int, Sequence[int]]] = CASES
    if asked.small:
        cases = [(4000, [1])]
    elif asked.samples:
        cases = [(samples, [1]) for samples in asked.samples]
    other = asked.against.resolve() if asked.against else None
    for row in main(cases, other, asked.turns):
        print(" | ".join(row), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "write":
        write_log(Path(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) == 4 and sys.argv[1] == "block_statistics":
        block_statistics(sys.argv[2], int(sys.argv[3]))
    else:
        compare_as_asked()
