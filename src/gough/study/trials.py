"""Monte Carlo on virtual robots: do intervals hold, over robots, designs, noises and seeds?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import GoughError, NotConverged
from gough.core.executors import WorkSettings
from gough.core.options import Settings, nested, option, settle, takes
from gough.core.text import text_table
from gough.engine import as_model
from gough.engine.base import TIE_LEGS
from gough.excitation import design
from gough.identification import ESTIMATORS, identify
from gough.study.demo import truth_table
from gough.virtual import Simulation, record, simulate

HEADER = ("robot", "design", "noise", "trials", "parameters", "hold", "bias", "scatter", "rms_z")


@dataclass(frozen=True, kw_only=True)
class TrialSettings(Settings):
    """Which trials are run."""

    seeds: int = option(10, "Noises drawn for each robot, design and size of noise.", least=2)
    noises: tuple[float, ...] = option((1.0,), "Sizes of the noise, times that of the robot file.", above=0)
    designs: int = option(1, "Designed trajectories.", least=1)
    periods: int = option(6, "Periods of each log.", least=2)
    tie_legs: bool = option(False, TIE_LEGS)
    estimator: str = option("gm", "Whose estimate is looked at.", choices=lambda: tuple(ESTIMATORS))
    work: WorkSettings = nested(WorkSettings)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One virtual experiment: plain values, which any process understands."""

    robot: str
    tied: bool
    design: int
    noise: float
    periods: int
    estimator: str
    seed: int


@lru_cache(maxsize=8)
def _run(robot: str, tied: bool, number: int, periods: int) -> Simulation:
    """Return the motion of a robot along a designed trajectory, once for each process."""
    model = as_model(robot)
    plan = design(model, starts=1, iterations=40, seed=number, tie_legs=tied)
    return simulate(model, plan.trajectory, periods=periods)


def outcome_of(trial: Trial) -> FloatArray:
    """Return the error of each parameter in sigmas, and whether its 95 % interval holds the truth, (2, p)."""
    run = _run(trial.robot, trial.tied, trial.design, trial.periods)
    usual = run.model.mechanism.noise
    noise = replace(usual, position=trial.noise * usual.position, effort=trial.noise * usual.effort)
    result = identify(run.model, [record(run, seed=trial.seed, noise=noise)], tie_legs=trial.tied,
                      estimator=trial.estimator)
    table = truth_table(trial.robot, result.estimate, trial.tied)
    return np.array([[(value - true) / std, within] for _, true, value, std, within in table]).T


@dataclass(frozen=True, kw_only=True, eq=False)
class Trials:
    """What trials showed, a row for each robot, design and size of noise.

    Args:
        rows: Robot, design, noise, trials, parameters, share of 95 % intervals that hold, bias, scatter and rms error
            in sigmas; see `HEADER`.
        notes: Trials that failed.
    """

    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"trials": [dict(zip(HEADER, row)) for row in self.rows], "notes": list(self.notes)}

    def summary(self) -> str:
        shown = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in self.rows]
        many, held = sum(row[3] for row in self.rows), np.mean([row[5] for row in self.rows])
        return "\n".join([f"{many} trials: {100 * held:.1f} % of the 95 % intervals hold", "",
                          text_table(list(HEADER), shown), *self.notes])


@takes(TrialSettings)
def run_trials(robots: Sequence[str], settings: TrialSettings | None = None, *,
               progress: Callable[[float], None] | None = None, **options: Any) -> Trials:
    """Identify virtual robots again and again with other noise, and compare with the truth.

    Args:
        settings: Which trials; single options may be given by name instead.
        progress: Called with the fraction done, over all workers.
    """
    s = settle(TrialSettings, settings, options)
    cases = [(robot, number, noise) for robot in robots for number in range(s.designs) for noise in s.noises]
    tasks = [Trial(robot=robot, tied=s.tie_legs, design=number, noise=noise, periods=s.periods, estimator=s.estimator,
                   seed=seed) for robot, number, noise in cases for seed in range(s.seeds)]
    found: dict[int, Any] = {}
    for k, result in s.work.executor.run(outcome_of, tasks):
        found[k] = result
        if progress is not None:
            progress(len(found) / len(tasks))
    for error in found.values():
        if isinstance(error, Exception) and not isinstance(error, GoughError):
            raise error
    failed = {k: result for k, result in sorted(found.items()) if isinstance(result, GoughError)}
    if len(failed) == len(tasks):
        raise NotConverged(f"none of {len(tasks)} trials came to an end; the first: {failed[0]}")
    rows = []
    for c, case in enumerate(cases):
        own = [found[k] for k in range(c * s.seeds, (c + 1) * s.seeds) if k not in failed]
        if own:
            z, held = np.array(own).transpose(1, 0, 2)
            spread = float(np.sqrt(z.var(axis=0, ddof=1).mean())) if len(z) > 1 else float("nan")
            rows.append((*case, len(own), z.shape[1], float(held.mean()),
                         float(np.sqrt((z.mean(axis=0) ** 2).mean())), spread, float(np.sqrt((z**2).mean()))))
    return Trials(rows=tuple(rows), notes=tuple(f"{tasks[k]}: {error}" for k, error in failed.items()))
