"""Do 95 % intervals hold the truth 95 % of the time, on virtual robots with defaults everywhere?

    python benchmarks/coverage.py [--workers N] [bundled] [widths] [orthoglide] [delta]
    [closed_loop] [robot ...] [--small]

`bundled`: every bundled robot with mass, designed trajectory, six periods, Gauss-Markov, ten
noises. `widths`: the same with friction of the plant that is complete from 0.3 and 5 times the usual
speed on, which the robot file does not say. `orthoglide`: 3 s without and 3 s with a payload, currents only, 24 noises: drive gains.
`delta`: one effort wrong by up to 15 %: samples used and error on another log. `closed_loop`:
PaLiDA's own position noise fed back by a PID of 10 Hz, 20 noises. What is short of 95 % is bias:
filtered positions, friction about zero velocity.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gough.app.identify import identify
from gough.app.studies.study_file import run_step
from gough.core.arrays import FloatArray
from gough.core.names import Parameter
from gough.engine import Model, base_parameters
from gough.excitation import design
from gough.excitation.design import Run
from gough.identification import Identification
from gough.logs.recording import Recording
from gough.mechanism import Noise, load_robot
from gough.virtual import PID, record, simulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from measured_feedback import MeasuredFeedback

ROBOTS = (
    ("five_bar", False),
    ("h4", False),
    ("orthoglide", False),
    ("redundant", False),
    ("delta", False),
    ("palida", True),
    ("palida", False),
    ("upv", False),
    ("serial6", False),
)
NOISES = 10
FRICTION_WIDTHS = (0.3, 5.0)  # of the plant, times the usual ones
WORKERS = 1  # processes; the table is the same with any number of them
Row = tuple[str, str, str, str]


def coverage(
    name: str, *, tied: bool = False, noises: int = NOISES, friction_width: float = 1.0
) -> Row:
    """Return a robot's row: share of the intervals that hold, mean error and scatter of the errors
    in sigmas.
    """
    options = {
        "robots": [name],
        "seeds": noises,
        "tie_legs": tied,
        "friction_width": friction_width,
        "workers": WORKERS,
    }
    (found,) = run_step("trials", options).facts["trials"]
    width = "" if friction_width == 1 else f", friction {friction_width:g} times as wide"
    return (
        f"{name}{', legs tied' if tied else ''}{width}, {found['parameters']} parameters",
        f"{100 * found['hold']:.1f} +- {100 * found['hold_error']:.1f} % hold",
        f"bias {found['bias']:.2f} sigma",
        f"scatter {found['scatter']:.2f} sigma",
    )


def bundled(noises: int = NOISES, robots: Sequence[tuple[str, bool]] = ROBOTS) -> Iterator[Row]:
    """Every bundled robot."""
    for name, tied in robots:
        yield coverage(name, tied=tied, noises=noises)


def widths(noises: int = NOISES, robots: Sequence[tuple[str, bool]] = ROBOTS) -> Iterator[Row]:
    """Every bundled robot with widths of friction that the robot file does not state."""
    for name, tied in robots:
        for friction_width in FRICTION_WIDTHS:
            yield coverage(name, tied=tied, noises=noises, friction_width=friction_width)


def gain_errors(seeds: int, iterations: int = 300) -> tuple[list[str], FloatArray, FloatArray]:
    """Return names of the Orthoglide's drive gains, errors in sigmas from two logs of 3 s, and what
    holds, (s, 3).
    """
    model = Model(load_robot("orthoglide"))
    runs = [Run(periods=1), Run(periods=1, payload="calibration")]
    plan = design(
        model,
        frequency=1 / 3.0,
        harmonics=6,
        runs=runs,
        tie_legs=True,
        starts=1,
        seed=0,
        iterations=iterations,
    )
    empty, full = (
        simulate(model, path, controller="pid+", periods=1, payload=load)
        for path, load in zip(plan.trajectories, (None, "calibration"))
    )
    truth = np.array(
        [model.mechanism.joint(name).gain for name in model.mechanism.actuated], dtype=float
    )
    names = [Parameter.gain(name) for name in model.mechanism.actuated]
    found = []
    for seed in range(seeds):
        result = identify(
            model,
            [record(empty, seed=[seed, 0])],
            loaded=[record(full, seed=[seed, 1])],
            estimator="gain_ml",
            payload="calibration",
        ).estimate.select(names)
        low, high = result.interval().T
        found.append([(result.values - truth) / result.std, (low <= truth) & (truth <= high)])
    z, held = (np.array(part) for part in zip(*found))
    return [str(name) for name in names], z, held


def orthoglide(seeds: int = 24, iterations: int = 300) -> Iterator[Row]:
    """Drive gains from two logs of 3 s."""
    names, z, held = gain_errors(seeds, iterations)
    for k, name in enumerate(names):
        yield (
            f"orthoglide, 3 s logs, {name}",
            f"{100 * held[:, k].mean():.0f} % of {seeds} hold",
            f"bias {z[:, k].mean():+.2f} sigma",
            f"rms z {np.sqrt((z[:, k] ** 2).mean()):.2f}",
        )
    yield (
        "orthoglide, 3 s logs, all gains",
        f"{100 * held.mean():.0f} % hold",
        f"rms z {np.sqrt((z**2).mean()):.2f}",
        "wanted: bias within 1 sigma, 85 % hold",
    )


def delta_results(factors: Sequence[float], robot: str = "delta") -> list[Identification]:
    """Return identifications of a robot with its first effort wrong by factors, here and in the
    other log.
    """
    model = Model(load_robot(robot))
    logs = [
        record(
            simulate(
                model, design(model, starts=1, iterations=40, seed=seed).trajectory, periods=6
            ),
            seed=seed,
        )
        for seed in (0, 1)
    ]
    found = []
    for factor in factors:
        first, other = (_scaled(log, factor) for log in logs)
        found.append(identify(model, [first], held_out=[other]))
    return found


def delta(
    factors: Sequence[float] = (1.0, 1.02, 1.05, 1.08, 1.10, 1.12, 1.15), robot: str = "delta"
) -> Iterator[Row]:
    """One effort scaled: what was used, and the error on another log."""
    for factor, result in zip(factors, delta_results(factors, robot)):
        used = result.processing
        yield (
            f"{robot}, first effort times {factor:.2f}",
            f"{result.estimate.n_valid.sum()} equations count",
            f"error on another log {100 * result.validation.relative.max():.2f} %",
            f"cut-off {used.cutoff:.3g} Hz, window {1e3 * (used.window or 0):.3g} ms",
        )


def _scaled(log: Recording, factor: float) -> Recording:
    assert log.effort is not None
    return replace(log, effort=log.effort * np.array([factor, *np.ones(log.effort.shape[1] - 1)]))


def loop_errors(
    seeds: int, robot: str = "palida", bandwidth: float = 10.0
) -> tuple[list[str], FloatArray, FloatArray]:
    """Return kinds of the parameters, errors in sigmas and what holds, (s, p), with position noise
    in the loop.
    """
    model = Model(load_robot(robot))
    plan = design(model, starts=1, iterations=40, seed=0)
    noise, base = model.mechanism.noise, base_parameters(model)
    truth = base.values(model.values(base.standard))
    z, held = [], []
    for seed in range(seeds):
        seen = MeasuredFeedback(
            noise=Noise(position=noise.position, resolution=noise.resolution), seed=seed
        )
        run = simulate(
            model, plan.trajectory, controller=PID(bandwidth=bandwidth), periods=6, feedback=seen
        )
        estimate = identify(model, [record(run, seed=1000 + seed)]).estimate
        low, high = estimate.interval().T
        z.append((estimate.values - truth) / estimate.std)
        held.append((low <= truth) & (truth <= high))
    return [name.kind for name in base.names], np.array(z), np.array(held)


def closed_loop(seeds: int = 20, robot: str = "palida") -> Iterator[Row]:
    """The robot's own position noise seen by its controller, so that its efforts carry it too."""
    kinds, z, held = loop_errors(seeds, robot)
    for kind in (*dict.fromkeys(kinds), "all"):
        own = [k for k, other in enumerate(kinds) if kind in (other, "all")]
        yield (
            f"{robot}, noise in the loop, {kind}",
            f"{100 * held[:, own].mean():.1f} % hold",
            f"bias {np.sqrt((z[:, own].mean(axis=0) ** 2).mean()):.2f} sigma",
            f"rms z {np.sqrt((z[:, own] ** 2).mean()):.2f}",
        )


CASES = {
    "bundled": bundled,
    "widths": widths,
    "orthoglide": orthoglide,
    "delta": delta,
    "closed_loop": closed_loop,
}


def small_rows() -> Iterator[Row]:
    """All cases with two noises, on the smallest robot where there is a choice."""
    yield from bundled(2, ROBOTS[:1])
    yield coverage(ROBOTS[0][0], noises=2, friction_width=FRICTION_WIDTHS[-1])
    yield from orthoglide(1, iterations=3)
    yield from delta((1.0,), "five_bar")
    yield from closed_loop(1, "five_bar")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--workers"]:
        WORKERS, words = int(words[1]), words[2:]
    if words == ["--small"]:
        words = []
        CASES = {"small": small_rows}
    for word in words or CASES:
        for row in CASES[word]() if word in CASES else [coverage(word)]:
            print(" | ".join(row), flush=True)
