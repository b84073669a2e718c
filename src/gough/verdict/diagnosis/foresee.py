"""Before the experiment: will this motion answer? Sigmas to expect, weak directions, mistakes that
would be noticed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.display import relative, rounded, text_table
from gough.core.errors import InvalidInput
from gough.core.notices import Notice, notice_lines
from gough.core.record import Columns, Record
from gough.core.trajectory import Trajectory
from gough.engine import Robot, as_model, base_parameters
from gough.fitting.regression import Regression
from gough.fitting.selection import WeakDirection, weak_directions
from gough.identification.diagnosis import Limit, limits_table
from gough.identification.experiment import prepare
from gough.identification.validation import WEAK_CONDITION, noise_variance
from gough.logs.recording import Recording
from gough.verdict.diagnosis.diagnose import limits_of
from gough.verdict.diagnosis.evidence import Evidence
from gough.verdict.diagnosis.search import Standing
from gough.verdict.diagnosis.track import MOST_SAMPLES, Source

GUESSED = 0.02  # of the rms effort, where the robot file gives no effort noise
POORLY = 0.3  # relative sigma beyond which a parameter is not worth its name


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
            if not sigma < POORLY * abs(value)
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
            "Mistakes that would be noticed in 95 of 100 experiments:",
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
    W_t)^-1, and a mistake with the column d is noticed from (z + 1.64) / |d_free| on (see
    `scores`). White noise, the robot file's parameters and no error of the model: no
    experiment does better.

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
        covariance = np.diag(np.maximum(GUESSED * np.sqrt((effort**2).mean(axis=0)), 1e-12) ** 2)
        text = (
            f"the robot file gives no effort noise: {100 * GUESSED:.0f} % of each motor's rms "
            "effort was assumed"
        )
        notices = (Notice(rule="assumed noise", level="info", text=text),)
    problem = model.regression(moved, effort, base, covariance=covariance / periods)
    noise = np.sqrt(noise_variance(problem))
    sigma, condition = _sigmas(problem)
    log = Source(
        motion=moved,
        effort=effort,
        dead_band=np.zeros(len(model.home)),
        part=problem,
        periodic=periodic,
        name=source,
    ).shortened(MOST_SAMPLES)
    fewer = len(moved) / max(len(log.motion), 1)  # averaged samples are less noisy
    standing = Standing(
        Evidence(model=model, base=base, values=values, logs=(log,)),
        noise=noise / np.sqrt(fewer),
    )
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
        limits=limits_of(standing, white=True),
        notices=notices,
    )


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
