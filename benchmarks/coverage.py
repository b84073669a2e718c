"""Do 95 % intervals hold the truth 95 % of the time, on virtual robots with defaults everywhere?

    python benchmarks/coverage.py [bundled] [orthoglide] [delta] [closed_loop] [robot ...]

`bundled`: every bundled robot with mass, designed trajectory, six periods, Gauss-Markov, ten noises. `orthoglide`: 3 s
without and 3 s with a payload, currents only, 24 noises: drive gains. `delta`: one effort wrong by up to 15 %: samples
used and error on another log. `closed_loop`: PaLiDA's own position noise fed back by a PID of 10 Hz, 20 noises.
What is short of 95 % is bias: filtered positions, friction about zero velocity.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gough.core.names import Parameter
from gough.engine import Model, base_parameters
from gough.estimators.estimate import Estimate
from gough.excitation import design
from gough.excitation.design import Run
from gough.identification import identify
from gough.logs.recording import Recording
from gough.mechanism import Noise, load_robot
from gough.study.demo import truth_table
from gough.virtual import PID, Feedback, record, simulate

ROBOTS = (("five_bar", False), ("h4", False), ("redundant", False), ("delta", False), ("palida", True),
          ("palida", False), ("upv", False), ("serial6", False))
NOISES = 10
Row = tuple[str, str, str, str]


def coverage(name: str, *, tied: bool = False, noises: int = NOISES) -> Row:
    """Return a robot's row: share of the intervals that hold, mean error and scatter of the errors in sigmas."""
    model = Model(load_robot(name))
    plan = design(model, starts=1, iterations=40, seed=0, tie_legs=tied)
    run = simulate(model, plan.trajectory, periods=6)
    tables = [truth_table(name, identify(model, [record(run, seed=seed)], tie_legs=tied).estimate, tied)
              for seed in range(noises)]
    held = np.mean([[within for *_, within in table] for table in tables])
    errors = np.array([[(value - true) / std for _, true, value, std, _ in table] for table in tables])
    bias, scatter = np.sqrt(np.mean(errors.mean(axis=0) ** 2)), np.sqrt(np.mean(errors.var(axis=0, ddof=1)))
    return (f"{name}{', legs tied' if tied else ''}, {errors.shape[1]} parameters", f"{100 * held:.1f} % hold",
            f"bias {bias:.2f} sigma", f"scatter {scatter:.2f} sigma")


def bundled() -> Iterator[Row]:
    """Every bundled robot."""
    for name, tied in ROBOTS:
        yield coverage(name, tied=tied)


def orthoglide(seeds: int = 24) -> Iterator[Row]:
    """Drive gains from two logs of 3 s."""
    model = Model(load_robot("orthoglide"))
    runs = [Run(periods=1), Run(periods=1, payload="calibration")]
    plan = design(model, frequency=1 / 3.0, harmonics=6, runs=runs, tie_legs=True, starts=1, seed=0)
    empty, full = (simulate(model, path, controller="pid+", periods=1, payload=load)
                   for path, load in zip(plan.trajectories, (None, "calibration")))
    truth = np.array([model.mechanism.joint(name).gain for name in model.mechanism.actuated], dtype=float)
    names = [Parameter.gain(name) for name in model.mechanism.actuated]
    found = []
    for seed in range(seeds):
        result = identify(model, [record(empty, seed=[seed, 0])], loaded=[record(full, seed=[seed, 1])],
                          estimator="gain_ml", payload="calibration").estimate.select(names)
        low, high = result.interval().T
        found.append([(result.values - truth) / result.std, (low <= truth) & (truth <= high), result.values])
    z, held, values = (np.array(part) for part in zip(*found))
    for k, name in enumerate(names):
        off = (values[:, k].mean() - truth[k]) / values[:, k].std(ddof=1)
        yield (f"orthoglide, 3 s logs, {name}", f"{100 * held[:, k].mean():.0f} % of {seeds} hold",
               f"bias {off:+.2f} sigma", f"rms z {np.sqrt((z[:, k] ** 2).mean()):.2f}")
    yield ("orthoglide, 3 s logs, all gains", f"{100 * held.mean():.0f} % hold", f"rms z {np.sqrt((z**2).mean()):.2f}",
           "wanted: bias within 1 sigma, 85 % hold")


def delta() -> Iterator[Row]:
    """One effort scaled: what was used, and the error on another log."""
    model = Model(load_robot("delta"))
    logs = [record(simulate(model, design(model, starts=1, iterations=40, seed=seed).trajectory, periods=6), seed=seed)
            for seed in (0, 1)]
    for factor in (1.0, 1.02, 1.05, 1.08, 1.10, 1.12, 1.15):
        first, other = (_scaled(log, factor) for log in logs)
        result = identify(model, [first], held_out=[other])
        used = result.processing
        yield (f"delta, first effort times {factor:.2f}", f"{result.estimate.counts.sum()} equations count",
               f"error on another log {100 * result.validation.relative.max():.2f} %",
               f"cut-off {used.cutoff:.3g} Hz, window {1e3 * (used.window or 0):.3g} ms")


def _scaled(log: Recording, factor: float) -> Recording:
    assert log.effort is not None
    return replace(log, effort=log.effort * np.array([factor, *np.ones(log.effort.shape[1] - 1)]))


def closed_loop(seeds: int = 20, robot: str = "palida", bandwidth: float = 10.0) -> Iterator[Row]:
    """The robot's own position noise seen by its controller, so that its efforts carry it too."""
    model = Model(load_robot(robot))
    plan = design(model, starts=1, iterations=40, seed=0)
    noise = model.mechanism.noise
    tables = []
    for seed in range(seeds):
        seen = Feedback(noise=Noise(position=noise.position, resolution=noise.resolution), seed=seed)
        run = simulate(model, plan.trajectory, controller=PID(bandwidth=bandwidth), periods=6, feedback=seen)
        tables.append(identify(model, [record(run, seed=1000 + seed)]).estimate)
    yield from _by_kind(f"{robot}, noise in the loop", model, tables)


def _by_kind(label: str, model: Model, estimates: list[Estimate]) -> Iterator[Row]:
    """Yield the share of intervals that hold by kind of parameter, and of all."""
    base = base_parameters(model)
    true = dict(zip(base.names, base.values(model.values(base.standard))))
    kinds = np.array([name.kind for name in estimates[0].parameters])
    truth = np.array([true[name] for name in estimates[0].parameters])
    z = np.array([(e.values - truth) / e.std for e in estimates])
    held = np.array([(e.interval()[:, 0] <= truth) & (truth <= e.interval()[:, 1]) for e in estimates])
    for kind in dict.fromkeys(kinds.tolist()):
        own = kinds == kind
        yield (f"{label}, {kind}", f"{100 * held[:, own].mean():.0f} % hold",
               f"bias {np.sqrt((z[:, own].mean(axis=0) ** 2).mean()):.2f} sigma",
               f"rms z {np.sqrt((z[:, own] ** 2).mean()):.2f}")
    yield (f"{label}, all {len(kinds)}", f"{100 * held.mean():.1f} % hold",
           f"bias {np.sqrt((z.mean(axis=0) ** 2).mean()):.2f} sigma", f"rms z {np.sqrt((z**2).mean()):.2f}")


CASES = {"bundled": bundled, "orthoglide": orthoglide, "delta": delta, "closed_loop": closed_loop}


def main() -> list[Row]:
    """Return the rows of all cases."""
    return [row for case in CASES.values() for row in case()]


if __name__ == "__main__":
    for word in sys.argv[1:] or CASES:
        for row in CASES[word]() if word in CASES else [coverage(word)]:
            print(" | ".join(row), flush=True)
