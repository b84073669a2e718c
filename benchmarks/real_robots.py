"""Real robots with defaults everywhere, beside the best of a grid of cut-offs and the figures that
came with the logs.

    python benchmarks/real_robots.py [tx40] [pendulum] [upv] [emps] [sigmas] [--small]

Errors are relative rms of the recorded, unfiltered effort of logs that were not identified from, in
percent; `counts` leaves out reversals and standstills as the processing does, `moving` is joints
faster than 0.05 rad/s. `sigmas` is the rms difference of estimates from parts of an experiment over
what both say. The logs are not part of the project: docs/real-robots.md says where they are from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "real"))

import machines
from test_real_robots import TX40_ANCHOR, errors, fitted
from test_sigmas import estimates, rms_z

from gough.app.identify import identify
from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.logs.recording import Recording
from gough.processing import Processing

Row = tuple[str, str, str, str]


def shown(values: FloatArray) -> str:
    """Return percentages."""
    return " ".join(f"{v:.1f}" for v in np.atleast_1d(values))


def compared(
    label: str,
    model: Model,
    logs: Sequence[Recording],
    unseen: Recording,
    grid: Sequence[float],
    *,
    faster: float = 0.0,
) -> Iterator[Row]:
    """Yield defaults and the best of a grid, row by row of the robot."""
    ready, values = fitted(model, logs)
    used = ready.processing
    ours = errors(model, ready, values, unseen, faster=faster)
    tried = [
        errors(model, *fitted(model, logs, Processing(cutoff=cutoff)), unseen, faster=faster)
        for cutoff in grid
    ]
    best = np.min(tried, axis=0)
    yield (
        label,
        shown(ours),
        shown(best),
        f"{used.cutoff:.3g} Hz, decimation {used.decimation}, window "
        f"{1e3 * (used.window or 0):.3g} ms; ratio to the best "
        f"{' '.join(f'{r:.2f}' for r in ours / best)}; "
        f"counts {shown(errors(model, ready, values, unseen, counted=True))}",
    )


def tx40() -> Iterator[Row]:
    """First half to second half, and back."""
    model, log = machines.tx40(), machines.tx40_log()
    halves = [log.take(slice(0, 22500)), log.take(slice(22500, None))]
    grid = np.geomspace(20.0, 320.0, 9)
    yield (
        "TX40, anchor of its PROVENANCE, moving",
        shown(TX40_ANCHOR),
        "-",
        "ordinary least squares",
    )
    yield from compared(
        "TX40, first half to second, moving", model, halves[:1], halves[1], grid, faster=0.05
    )
    yield from compared(
        "TX40, second half to first, moving", model, halves[1:], halves[0], grid, faster=0.05
    )


def pendulum() -> Iterator[Row]:
    """Each log from the four others."""
    model = machines.pendulum()
    logs = [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS]
    for k, log in enumerate(logs):
        rest = [other for j, other in enumerate(logs) if j != k]
        yield from compared(
            f"double pendulum, four logs to {log.source}, all samples",
            model,
            rest,
            log,
            np.geomspace(2.5, 40.0, 9),
        )


def upv() -> Iterator[Row]:
    """Each run from the two others."""
    model, logs = machines.upv(), [machines.upv_log(run) for run in machines.UPV_RUNS]
    table = []
    for k, log in enumerate(logs):
        ready, values = fitted(model, [other for j, other in enumerate(logs) if j != k])
        used = ready.processing
        table.append(errors(model, ready, values, log, counted=True))
        yield (
            f"UPV, two runs to {log.source}, counts",
            shown(table[-1]),
            "-",
            f"{used.cutoff:.3g} Hz, decimation {used.decimation}, window "
            f"{1e3 * (used.window or 0):.3g} ms; "
            f"all samples {shown(errors(model, ready, values, log))}",
        )
    yield (
        "UPV, over the runs, counts",
        shown(np.sqrt(np.mean(np.square(table), axis=0))),
        "-",
        "wanted: below 14",
    )


def emps() -> Iterator[Row]:
    """The whole log, and halves."""
    model, log = machines.emps(), machines.emps_log()
    half = len(log) // 2
    first, second = log.take(slice(0, half)), log.take(slice(half, None))
    for label, part, unseen in (
        ("all", log, log),
        ("first half", first, second),
        ("second half", second, first),
    ):
        result = identify(model, [part], held_out=[] if part is unseen else [unseen])
        values = " ".join(
            f"{v:.4g} +- {s:.2g}" for v, s in zip(result.estimate.values, result.estimate.std)
        )
        yield (
            f"EMPS, {label}: M Fv Fc offset",
            values,
            "95.1089 203.5034 20.3935 -3.1648",
            f"{result.processing.cutoff:.3g} Hz; {result.headline}",
        )


def sigmas() -> Iterator[Row]:
    """Parts of an experiment against others."""
    log = machines.tx40_log()
    half = len(log) // 2
    a, b = estimates(machines.tx40(), [[log.take(slice(0, half))], [log.take(slice(half, None))]])
    yield (
        "TX40, halves, rms z",
        f"{rms_z(a, b):.2f}",
        "-",
        f"wanted: 1.3; sigmas from {a.uncertainty}",
    )
    logs = [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS]
    pairs = list(combinations(range(5), 2))
    found = dict(
        zip(pairs, estimates(machines.pendulum(), [[logs[k] for k in pair] for pair in pairs]))
    )
    for label, out in (("but for the shoulder's motor off in both", (3, 4)), ("all", None)):
        apart = [
            rms_z(found[x], found[y])
            for x, y in combinations(found, 2)
            if not set(x) & set(y) and out != y
        ]
        yield (
            f"double pendulum, two logs against two, {label}, rms z",
            f"{min(apart):.2f} to {max(apart):.2f}",
            "-",
            f"wanted: 1.5; {len(apart)} ways",
        )
    logs = [machines.upv_log(run) for run in machines.UPV_RUNS]
    for k, run in enumerate(logs):
        a, b = estimates(machines.upv(), [[run], [*logs[:k], *logs[k + 1 :]]])
        yield (
            f"UPV, {run.source} against the others, rms z",
            f"{rms_z(a, b):.2f}",
            "-",
            "wanted: 1.5",
        )


CASES = {"tx40": tx40, "pendulum": pendulum, "upv": upv, "emps": emps, "sigmas": sigmas}


def main() -> None:
    """Print the tables asked for, or all."""
    words = ["emps"] if "--small" in sys.argv else sys.argv[1:]
    for name in words or CASES:
        for row in CASES[name]():
            print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
