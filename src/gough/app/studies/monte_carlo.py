"""Monte-Carlo studies on virtual robots: do confidence intervals contain the true parameters?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gough.app.identify import identify
from gough.app.studies.step import Progress
from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.errors import GoughError, NotConverged
from gough.core.executors import WorkerFault, WorkersLost, WorkSettings
from gough.core.names import Parameter
from gough.core.options import Settings, nested, option
from gough.engine import as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.excitation import design
from gough.fitting.estimate import Estimate
from gough.identification import ESTIMATORS
from gough.identification.estimators import AUTO_ESTIMATOR
from gough.virtual import Simulation, record, simulate

# Columns of the table, a row for each robot, design and noise level:
# number of runs, number of parameters, fraction of 95 % intervals that
# contain the truth and its standard error (from the scatter between
# runs: the intervals of one run are correlated); then, in standard
# errors of the estimates, bias, scatter between runs, and root mean
# square of the errors.
COLUMNS = (
    "robot",
    "design",
    "noise",
    "trials",
    "parameters",
    "hold",
    "hold_error",
    "bias",
    "scatter",
    "rms_z",
)
DESIGN_ITERATIONS = 40  # of a trajectory; it need not be optimal here


@dataclass(frozen=True, kw_only=True)
class MonteCarloSettings(Settings):
    """Which experiments are run."""

    seeds: int = option(10, "Noises drawn for each robot, design and size of noise.", least=2)
    noises: tuple[float, ...] = option(
        (1.0,), "Sizes of the noise, times that of the robot file.", above=0
    )
    designs: int = option(1, "Designed trajectories.", least=1)
    periods: int = option(6, "Periods of each log.", least=2)
    friction_width: float = option(
        1.0,
        "Speed up to which friction of the virtual robot grows, times the usual one.",
        above=0,
    )
    tie_legs: bool = option(False, TIE_LEGS)
    estimator: str = option(
        "gm", "Estimator to use.", choices=lambda: (*ESTIMATORS, AUTO_ESTIMATOR)
    )
    work: WorkSettings = nested(WorkSettings)


class MonteCarloRun(NamedTuple):
    """One virtual experiment: plain values, which can be sent to any process."""

    robot: str
    tied: bool  # legs have equal parameters
    design: int  # number of the trajectory
    noise: float  # times the noise of the robot file
    periods: int
    estimator: str
    seed: int
    friction_width: float = 1.0  # times the usual one


class TrueAndEstimated(NamedTuple):
    """A parameter of a virtual robot and its estimate."""

    name: str
    true: float
    estimate: float
    standard_error: float
    within: bool  # the 95 % interval contains the true value


class MonteCarloStudy(NamedTuple):
    """The table of a study, and the runs that failed."""

    rows: list[tuple[Any, ...]]  # see `COLUMNS`
    notes: list[str]  # runs that failed, and why

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON can hold it."""
        return {
            "trials": [dict(zip(COLUMNS, row)) for row in self.rows],
            "notes": self.notes,
        }

    def lines(self) -> list[str]:
        """Return the table as text."""
        shown = []
        for row in self.rows:
            shown.append([_cell(entry) for entry in row])
        n_runs = sum(row[COLUMNS.index("trials")] for row in self.rows)
        coverage = np.mean([row[COLUMNS.index("hold")] for row in self.rows])
        headline = f"{n_runs} trials: {100 * coverage:.1f} % of the 95 % intervals hold"
        return [headline, "", text_table(COLUMNS, shown), *self.notes]


def _cell(entry: Any) -> str:
    return f"{entry:.3g}" if isinstance(entry, float) else str(entry)


def truth_table(robot: str, estimate: Estimate, tie_legs: bool) -> list[TrueAndEstimated]:
    """Compare an estimate with the parameters of the robot file."""
    model = as_model(robot)
    payloads = dict.fromkeys(n.payload for n in estimate.parameters if n.payload is not None)
    base = base_parameters(model, tie_legs=tie_legs, payloads=tuple(payloads))
    true: dict[str, float] = dict(zip(base.names, base.values(model.values(base.standard))))
    for motor, gain in model.mechanism.drive_gains.items():
        true[Parameter.gain(motor)] = gain
    table = []
    for k, (low, high) in enumerate(estimate.interval(0.95)):
        name = estimate.parameters[k]
        table.append(
            TrueAndEstimated(
                name=name,
                true=float(true[name]),
                estimate=float(estimate.values[k]),
                standard_error=float(estimate.std[k]),
                within=bool(low <= true[name] <= high),
            )
        )
    return table


@lru_cache(maxsize=8)
def _simulated(
    robot: str, tied: bool, design_number: int, periods: int, friction_width: float
) -> Simulation:
    """Return the motion of a robot along a designed trajectory, once for each process."""
    model = as_model(robot)
    plan = design(
        model,
        starts=1,
        iterations=DESIGN_ITERATIONS,
        seed=design_number,
        tie_legs=tied,
    )
    simulation = simulate(model, plan.trajectory, periods=periods)
    if friction_width == 1:
        return simulation
    widths = (friction_width * simulation.dead_band).tolist()
    return simulate(model, plan.trajectory, periods=periods, dead_band=widths)


def outcome_of(run: MonteCarloRun) -> FloatArray:
    """Identify one virtual experiment and compare the estimate with the truth.

    Returns:
        Error of each parameter in standard errors, and 1 where its 95 %
        interval contains the truth, (2, p).
    """
    simulation = _simulated(run.robot, run.tied, run.design, run.periods, run.friction_width)
    usual = simulation.model.mechanism.noise
    noise = replace(
        usual,
        position=run.noise * usual.position,
        effort=run.noise * usual.effort,
    )
    result = identify(
        simulation.model,
        [record(simulation, seed=run.seed, noise=noise)],
        tie_legs=run.tied,
        estimator=run.estimator,
    )
    outcomes = []
    for row in truth_table(run.robot, result.estimate, run.tied):
        outcomes.append([(row.estimate - row.true) / row.standard_error, row.within])
    return np.array(outcomes).T


def run_monte_carlo(
    robots: Sequence[str], settings: MonteCarloSettings, progress: Progress
) -> MonteCarloStudy:
    """Identify virtual robots many times with different noise.

    Args:
        robots: Names or paths of robot files.
        settings: Which experiments are run.
        progress: Called with the fraction done.

    Raises:
        NotConverged: No run came to an end.
    """
    runs = _all_runs(robots, settings)
    outcomes: dict[int, Any] = {}
    for k, outcome in settings.work.executor.run(outcome_of, runs):
        fault = isinstance(outcome, WorkerFault | WorkersLost)
        if fault or (isinstance(outcome, Exception) and not isinstance(outcome, GoughError)):
            raise outcome
        outcomes[k] = outcome
        progress(len(outcomes) / len(runs))
    failed = {k: outcomes[k] for k in range(len(runs)) if isinstance(outcomes[k], GoughError)}
    if len(failed) == len(runs):
        raise NotConverged(f"none of {len(runs)} trials came to an end; the first: {failed[0]}")
    rows = []
    for first in range(0, len(runs), settings.seeds):
        seeds = range(first, first + settings.seeds)
        completed = [outcomes[k] for k in seeds if k not in failed]
        if completed:
            run = runs[first]
            rows.append((run.robot, run.design, run.noise, *_statistics(completed)))
    return MonteCarloStudy(rows, [f"{runs[k]}: {error}" for k, error in failed.items()])


def _all_runs(robots: Sequence[str], settings: MonteCarloSettings) -> list[MonteCarloRun]:
    """Return all runs; those that differ only in their seed are neighbours."""
    runs = []
    for robot in robots:
        for design_number in range(settings.designs):
            for noise in settings.noises:
                for seed in range(settings.seeds):
                    run = MonteCarloRun(
                        robot=robot,
                        tied=settings.tie_legs,
                        design=design_number,
                        noise=noise,
                        periods=settings.periods,
                        estimator=settings.estimator,
                        seed=seed,
                        friction_width=settings.friction_width,
                    )
                    runs.append(run)
    return runs


def _statistics(
    outcomes: Sequence[FloatArray],
) -> tuple[int, int, float, float, float, float, float]:
    """Return the last seven columns of the table; see `COLUMNS`."""
    z, within = np.array(outcomes).transpose(1, 0, 2)
    n_runs, n_parameters = z.shape
    bias = float(np.sqrt((z.mean(axis=0) ** 2).mean()))
    scatter = float("nan")
    hold_error = float("nan")
    if n_runs > 1:
        hold_error = float(within.mean(axis=1).std(ddof=1) / np.sqrt(n_runs))
        scatter = float(np.sqrt(z.var(axis=0, ddof=1).mean()))
    rms = float(np.sqrt((z**2).mean()))
    return n_runs, n_parameters, float(within.mean()), hold_error, bias, scatter, rms
