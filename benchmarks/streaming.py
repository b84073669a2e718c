"""Long logs: 600,000 and 6,000,000 PaLiDA samples to a condensed regression, time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gough.engine import Model, base_parameters
from gough.logs.readers import open_recording
from gough.mechanism import load_robot
from gough.processing import Processing, log_statistics

CASES = ((600_000, (1, 10)), (6_000_000, (1,)))  # samples, decimations


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
    """Condense a log and print seconds, samples and peak memory."""
    model = Model(load_robot("palida"))
    base = base_parameters(model, tie_legs=True)
    settings = Processing(method="time", cutoff=40.0, decimation=decimation)
    log_statistics(model, [open_recording(path)], base, settings)  # kernels loaded
    started = time.perf_counter()
    result = log_statistics(model, [open_recording(path)], base, settings)
    seconds = time.perf_counter() - started
    print(seconds, result.samples, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


def main(
    cases: Sequence[tuple[int, Sequence[int]]] = CASES,
) -> list[tuple[str, str, str, str]]:
    """Return rows: what, Gough, peer, remark."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for samples, decimations in cases:
            path = Path(folder) / f"{samples}.npz"
            subprocess.run([sys.executable, __file__, "write", str(path), str(samples)], check=True)
            for decimation in decimations:
                done = subprocess.run(
                    [sys.executable, __file__, "block_statistics", str(path), str(decimation)],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                seconds, kept, memory = (float(x) for x in done.stdout.split())
                rows.append(
                    (
                        f"{samples:,} PaLiDA samples to condensed regression, decimation "
                        f"{decimation}",
                        f"{seconds:.1f} s",
                        "-",
                        f"{int(kept):,} samples kept, peak memory {memory:.0f} MB",
                    )
                )
            path.unlink()
    return rows


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "write":
        write_log(Path(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) == 4:
        block_statistics(sys.argv[2], int(sys.argv[3]))
    else:
        cases = [(4000, [1])] if "--small" in sys.argv else CASES
        for row in main(cases):
            print(" | ".join(row))
