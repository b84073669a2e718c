"""Monte Carlo on virtual robots: do intervals hold, over robots, designs, noises and seeds? And the
truth they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from gough.app.identify import identify
from gough.app.studies.verbs import Done, Force, Progress, to_file
from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.errors import GoughError, NotConverged
from gough.core.executors import WorkSettings
from gough.core.files import require_free, write_text
from gough.core.names import Parameter
from gough.core.options import About, Settings, nested, option
from gough.engine import as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.excitation import design
from gough.fitting.estimate import Estimate
from gough.identification import ESTIMATORS
from gough.virtual import Simulation, record, simulate

# A row for each robot, design and size of noise: the share of 95 % intervals that hold, the last
# three in sigmas.
HEADER = ("robot", "design", "noise", "trials", "parameters", "hold", "bias", "scatter", "rms_z")


@dataclass(frozen=True, kw_only=True)
class TrialSettings(Settings):
    """Which trials are run."""

    seeds: int = option(10, "Noises drawn for each robot, design and size of noise.", least=2)
    noises: tuple[float, ...] = option(
        (1.0,), "Sizes of the noise, times that of the robot file.", above=0
    )
    designs: int = option(1, "Designed trajectories.", least=1)
    periods: int = option(6, "Periods of each log.", least=2)
    tie_legs: bool = option(False, TIE_LEGS)
    estimator: str = option("gm", "Whose estimate is looked at.", choices=lambda: tuple(ESTIMATORS))
    work: WorkSettings = nested(WorkSettings)


class Trial(NamedTuple):
    """One virtual experiment: plain values, which any process understands."""

    robot: str
    tied: bool
    design: int
    noise: float
    periods: int
    estimator: str
    seed: int


def truth_table(
    robot: str, estimate: Estimate, tie_legs: bool
) -> list[tuple[str, float, float, float, bool]]:
    """Return name, true value, estimate, standard deviation, and whether the 95 % interval holds
    the truth.
    """
    model = as_model(robot)
    payloads = dict.fromkeys(n.payload for n in estimate.parameters if n.payload is not None)
    base = base_parameters(model, tie_legs=tie_legs, payloads=tuple(payloads))
    true = dict(zip(base.names, base.values(model.values(base.standard))))
    true |= {
        Parameter.gain(joint.name): joint.gain
        for joint in model.mechanism.joints
        if joint.gain is not None
    }
    found = zip(
        estimate.parameters,
        estimate.values.tolist(),
        estimate.std.tolist(),
        estimate.interval(0.95),
    )
    return [
        (name, float(true[name]), value, std, bool(low <= true[name] <= high))
        for name, value, std, (low, high) in found
    ]


@lru_cache(maxsize=8)
def _run(robot: str, tied: bool, number: int, periods: int) -> Simulation:
    """Return the motion of a robot along a designed trajectory, once for each process."""
    model = as_model(robot)
    plan = design(model, starts=1, iterations=40, seed=number, tie_legs=tied)
    return simulate(model, plan.trajectory, periods=periods)


def outcome_of(trial: Trial) -> FloatArray:
    """Return the error of each parameter in sigmas, and whether its 95 % interval holds the truth,
    (2, p).
    """
    run = _run(trial.robot, trial.tied, trial.design, trial.periods)
    usual = run.model.mechanism.noise
    noise = replace(usual, position=trial.noise * usual.position, effort=trial.noise * usual.effort)
    result = identify(
        run.model,
        [record(run, seed=trial.seed, noise=noise)],
        tie_legs=trial.tied,
        estimator=trial.estimator,
    )
    table = truth_table(trial.robot, result.estimate, trial.tied)
    return np.array([[(value - true) / std, within] for _, true, value, std, within in table]).T


def trials(
    robots: Annotated[
        Sequence[str], About(help="Names of bundled robots, or paths of robot files.")
    ],
    settings: TrialSettings,
    *,
    output: Annotated[str | None, to_file("Table to write (.csv).")] = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Done:
    """Do what `gough trials` does; see `VERBS`."""
    require_free(output, force)
    cases = [*product(robots, range(settings.designs), settings.noises)]
    tasks = [
        Trial(robot, settings.tie_legs, number, noise, settings.periods, settings.estimator, seed)
        for robot, number, noise in cases
        for seed in range(settings.seeds)
    ]
    found: dict[int, Any] = {}
    for k, result in settings.work.executor.run(outcome_of, tasks):
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
        own = [
            found[k] for k in range(c * settings.seeds, (c + 1) * settings.seeds) if k not in failed
        ]
        if own:
            z, held = np.array(own).transpose(1, 0, 2)
            scatter = np.sqrt(z.var(axis=0, ddof=1).mean()) if len(z) > 1 else np.nan
            bias, size = np.sqrt((z.mean(axis=0) ** 2).mean()), np.sqrt((z**2).mean())
            rows.append(
                (*case, len(own), z.shape[1], *map(float, (held.mean(), bias, scatter, size)))
            )
    if output is not None:
        write_text(output, "\n".join(",".join(map(str, row)) for row in (HEADER, *rows)) + "\n")
    notes = [f"{tasks[k]}: {error}" for k, error in failed.items()]
    many, hold = sum(row[3] for row in rows), np.mean([row[5] for row in rows])
    shown = [
        [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows
    ]
    facts = {"trials": [dict(zip(HEADER, row)) for row in rows], "notes": notes}
    return Done(
        [] if output is None else [Path(output)],
        facts,
        [
            f"{many} trials: {100 * hold:.1f} % of the 95 % intervals hold",
            "",
            text_table(HEADER, shown),
            *notes,
        ],
    )
