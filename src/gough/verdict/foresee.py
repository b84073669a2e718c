"""Before the experiment: will this motion answer? Sigmas to expect, weak directions, mistakes that
would be noticed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.display import relative, rounded, text_table
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.notices import Notice, notice_lines
from gough.core.parameters import BaseParameters
from gough.core.record import Columns, Record
from gough.core.trajectory import Trajectory
from gough.engine import Model, Robot, as_model, base_parameters
from gough.fitting.regression import Regression
from gough.fitting.selection import WeakDirection, weak_directions
from gough.identification.diagnosis import Limit, limits_table
from gough.identification.experiment import prepare
from gough.identification.validation import WEAK_CONDITION, noise_variance
from gough.logs.recording import Recording
from gough.verdict.detectable import detection_limits
from gough.verdict.fitted_log import (
    MAX_VERDICT_SAMPLES,
    Evidence,
    FittedLog,
    FittedModel,
)
from gough.verdict.search import Screen, Search, Stage

# Noise over the rms effort of each motor, where the robot file gives no effort noise.
ASSUMED_NOISE = 0.02
POORLY_KNOWN = 0.3  # relative standard error beyond which a parameter is hardly known


@dataclass(frozen=True, kw_only=True, eq=False)
class Foresight(Record):
    """What a motion will tell of the base parameters, (b,)."""

    robot: str
    source: str  # the trajectory or log
    samples: int
    periods: int  # repetitions reckoned with
    noise: FloatArray  # standard deviation of a single sample of each row's effort, (r,)
    parameters: tuple[str, ...]
    units: tuple[str, ...]
    values: FloatArray  # what the robot file says
    sigma: FloatArray  # to expect
    condition_number: float  # of the whitened regressor with columns of unit length
    weak: tuple[WeakDirection, ...]  # combinations the motion hardly excites
    limits: tuple[Limit, ...]  # smallest mistakes that would be noticed
    notices: tuple[Notice, ...] = ()  # what was assumed

    @property
    def poor(self) -> tuple[str, ...]:
        """Parameters whose sigma will exceed 30 % of the robot file's value."""
        return tuple(
            name
            for name, value, sigma in zip(self.parameters, self.values, self.sigma)
            if not sigma < POORLY_KNOWN * abs(value)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "robot": self.robot,
            "source": self.source,
            "samples": self.samples,
            "periods": self.periods,
            "noise": self.noise.tolist(),
            "condition_number": self.condition_number,
            "parameters": [
                {
                    "name": n,
                    "unit": u,
                    "value": float(v),
                    "sigma": float(s) if np.isfinite(s) else None,
                }
                for n, u, v, s in zip(self.parameters, self.units, self.values, self.sigma)
            ],
            "weak": [asdict(weak) for weak in self.weak],
            "limits": [limit.to_dict() for limit in self.limits],
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def table(self) -> Columns:
        """Return the sigma to expect by parameter."""
        return {
            "parameter": self.parameters,
            "robot file": self.values,
            "sigma": self.sigma,
            "unit": self.units,
        }

    def summary(self) -> str:
        """Return the outlook as plain text."""
        rows = [
            [name, *rounded(value, sigma), relative(value, sigma), unit]
            for name, value, sigma, unit in zip(
                self.parameters, self.values, self.sigma, self.units
            )
        ]
        doubt = (
            "fine"
            if self.condition_number < WEAK_CONDITION
            else "too large: the motion hardly sees some of them"
        )
        lines = [
            f"{self.robot} along {self.source}: {self.samples} samples, {self.periods} period(s), "
            f"condition "
            f"number {self.condition_number:.3g} ({doubt})",
            "",
            text_table(
                ["parameter", "robot file", "sigma", "sigma/|value|", "unit"],
                rows,
            ),
            "",
            "Weakest directions:",
            *(f"  {weak.direction}" for weak in self.weak),
            "",
            "Faults that would be noticed in 95 of 100 experiments:",
            limits_table(self.limits),
        ]
        return "\n".join(
            [
                *lines,
                *([""] if self.notices else []),
                *notice_lines(self.notices),
            ]
        )


@one_blas_thread
def foresee(
    model: Robot,
    motion: Trajectory | Recording,
    *,
    periods: int = 10,
    tie_legs: bool = False,
) -> Foresight:
    """Predict what an experiment will tell, from the robot file and a planned or recorded motion.

    With the noise Sigma of the efforts and k periods, covariance = (k sum_t W_t^T Sigma^-1
    W_t)^-1; faults are noticed as the verdict notices them. White noise, the robot file's
    parameters and no error of the model: no experiment does better.

    Args:
        motion: A trajectory, or a log whose efforts are not used.
        periods: Repetitions of the motion.
        tie_legs: Take what the robot file ties as equal across legs.
    """
    if periods < 1:
        raise InvalidInput(f"{periods} periods; expected at least one")
    model = as_model(model)
    base = base_parameters(model, tie_legs=tie_legs)
    if isinstance(motion, Recording):
        done = prepare(model, [motion], base).processed[0]
        moved, source, periodic = (
            done.motion,
            motion.source,
            done.average is not None,
        )
    else:
        time, source, periodic = (
            motion.times(model.mechanism.noise.rate),
            "the trajectory",
            motion.period is not None,
        )
        moved = model.kinematics.motion(
            time,
            *motion.at(time),
            model.loops.partition_driven_by(motion.coordinates),
        )
    values = base.values(model.values(base.standard))
    effort, notices = model.inverse_dynamics(moved), tuple[Notice, ...]()
    covariance = model.mechanism.noise.effort_covariance(len(model.actuated))
    if not model.mechanism.noise.effort > 0:
        covariance = np.diag(
            np.maximum(ASSUMED_NOISE * np.sqrt((effort**2).mean(axis=0)), 1e-12) ** 2
        )
        text = (
            f"the robot file gives no effort noise: {100 * ASSUMED_NOISE:.0f} % of each motor's "
            "rms effort was assumed"
        )
        notices = (Notice(rule="assumed noise", level="info", text=text),)
    problem = model.regression(moved, effort, base, covariance=covariance / periods)
    noise = np.sqrt(noise_variance(problem))
    sigma, condition = _sigmas(problem)
    limits = _limits(model, base, values, moved, effort, problem, source, periodic)
    return Foresight(
        robot=model.mechanism.name,
        source=source,
        samples=len(moved),
        periods=periods,
        noise=noise * np.sqrt(periods),
        parameters=base.names,
        units=base.units,
        values=values,
        sigma=sigma,
        condition_number=condition,
        weak=weak_directions(problem),
        limits=limits,
        notices=notices,
    )


def _limits(
    model: Model,
    base: BaseParameters,
    values: FloatArray,
    motion: Motion,
    effort: FloatArray,
    problem: Regression,
    source: str,
    periodic: bool,
) -> tuple[Limit, ...]:
    """Return the smallest faults that a log of the motion with white noise would show."""
    rng = np.random.default_rng(0)
    noise = np.sqrt(noise_variance(problem)) * rng.standard_normal(problem.effort.shape)
    log = FittedLog(
        fitted=FittedModel(model=model, base=base, values=values),
        name=source,
        held_out=False,
        motion=motion,
        effort=effort,
        dead_band=np.zeros(len(model.home)),
        regression=replace(problem, effort=problem.effort + noise),
        periodic=periodic,
    )
    short = log.averaged(MAX_VERDICT_SAMPLES).away_from_reversals()
    evidence = Evidence(fitted=log.fitted, logs=(short,))
    search = Search(evidence, with_discrete=False)
    screen = Screen(Stage(evidence, search.labels), search.faults, ())
    return detection_limits(screen, screen.trials)


def _sigmas(problem: Regression) -> tuple[FloatArray, float]:
    """Return the standard deviation of each parameter and the condition number; infinite where
    nothing is seen.
    """
    W = problem.whitened().regressor
    stacked = W.reshape(-1, W.shape[2])
    length = np.linalg.norm(stacked, axis=0)
    unit = np.where(length > 0, length, 1.0)
    _, s, vt = np.linalg.svd(stacked / unit, full_matrices=False)
    seen = s > 1e-10 * s[0]
    spread = ((vt[seen] / s[seen, None]) ** 2).sum(axis=0)
    hidden = (vt[~seen] ** 2).sum(axis=0) > 1e-12
    sigma = np.where(hidden | (length == 0), np.inf, np.sqrt(spread) / unit)
    return sigma, float(s[0] / s[-1]) if s[-1] > 0 else float("inf")
