"""The load a robot carries, found from a log sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.core.names import LOAD
from gough.core.options import Settings, nested, option, settle, takes
from gough.core.regression import Regression, concatenate
from gough.core.text import text_table
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.estimators.linear.solve import solve
from gough.estimators.load.load_filter import LoadFilter, LoadHistory
from gough.estimators.load.recursive import Observability
from gough.identification.experiment import in_efforts
from gough.identification.result import Identification
from gough.logs.recording import Recording
from gough.processing import Processed, Processing, choose_processing, process, regression

WINDOW = 0.02  # left out about velocity reversals unless given: what a stiff controller rings for [s]


@dataclass(frozen=True, kw_only=True, eq=False)
class PayloadResult:
    """A load's ten inertial parameters about the platform frame.

    Args:
        robot: Name.
        estimate: Values with standard deviations.
        observability: What the motion has not shown.
        history: The filter after each sample.
        time: Of the samples filtered, (t,). [s]
        settings: How it was found.
    """

    robot: str
    estimate: Estimate
    observability: Observability
    history: LoadHistory
    time: FloatArray
    settings: PayloadSettings

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Parameters the motion so far does not show."""
        return self.observability.unobserved

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        e = self.estimate
        return {
            "robot": self.robot, "samples": e.samples,
            "parameters": [{"name": n.kind, "value": float(v), "std": float(s), "unit": u,
                            "observed": n not in self.unobserved}
                           for n, v, s, u in zip(e.parameters, e.values, e.std, e.units)],
            "unobserved_combinations": list(self.observability.texts()), "notes": list(e.notes)}

    def summary(self) -> str:
        """Return the load as plain text, then the combinations the motion does not show."""
        facts = self.to_dict()
        rows = [[p["name"], f"{p['value']:.5g}", f"{p['std']:.2g}", p["unit"],
                 "yes" if p["observed"] else "not observable"] for p in facts["parameters"]]
        return "\n".join([
            f"{self.robot}: load about the platform frame, from {facts['samples']} samples",
            text_table(["parameter", "value", "std", "unit", "seen?"], rows),
            # What is not seen alone stands in the table.
            *(f"not seen on this motion: {text}" for text in facts["unobserved_combinations"] if text not in LOAD)])


@dataclass(frozen=True, kw_only=True)
class PayloadSettings(Settings):
    """What a load can be, and how logs are processed."""

    mass: float | None = option(
        None, "How heavy a load may be; by default what the log shows, and three standard deviations more. It says "
        "what first moments and inertias a load can have at all, and so which of them count as observed.", unit="kg",
        above=0)
    reach: float | None = option(None, "How far it may extend; the size of the robot by default.", unit="m", above=0)
    processing: Processing = nested(Processing)


@takes(PayloadSettings)
@one_blas_thread
def payload(model: Model, recordings: Sequence[Recording], settings: PayloadSettings | None = None, *,
            result: Identification | None = None, values: ArrayLike | None = None,
            gains: Mapping[str, float] | None = None, **options: Any) -> PayloadResult:
    """Find the load of a robot whose own model is known, on any trajectory.

    Args:
        model: The robot.
        recordings: Logs with the load.
        settings: What a load can be; single options may be given by name instead.
        result: Identification of the unloaded robot: its parameters, processing and drive gains are used where others
            are not given.
        values: Standard parameters of the unloaded robot, (p,); the robot file's by default.
        gains: Drive gains for logs with currents.
        options: See `PayloadSettings`.

    Raises:
        InvalidInput: No recording, a result of another robot, or a mass or reach that is not positive.
    """
    chosen = settle(PayloadSettings, settings, options)
    if not recordings:
        raise InvalidInput("there is no recording to find a load in")
    if result is not None:
        if result.robot != model.mechanism.name:
            raise InvalidInput(f"the result is a model of '{result.robot}', not of '{model.mechanism.name}'")
        chosen = replace(chosen, processing=result.processing_with(chosen.processing))
        values = result.standard(model) if values is None else values
        gains = gains or result.gains
    used = choose_processing(model, recordings, None, chosen.processing, gains=gains).processing
    done, _ = in_efforts(model, [process(model, recording, used) for recording in recordings], gains)
    parts = [_load_regression(model, processed, values) for processed in done]
    problem = parts[0] if len(parts) == 1 else concatenate(parts)
    problem = _with_noise(problem)
    size = chosen.reach or model.loops.length
    history = LoadFilter(mass=chosen.mass or _heaviest(model, problem, size), reach=size).run(problem)
    assert problem.time is not None
    return PayloadResult(robot=model.mechanism.name, estimate=history.estimate, observability=history.observability,
                         history=history, time=problem.time, settings=chosen)


def _load_regression(model: Model, processed: Processed, values: ArrayLike | None) -> Regression:
    """Return the regression of the load alone: effort minus that of the unloaded robot."""
    own = model.inverse_dynamics(processed.motion, values, dead_band=processed.dead_band)
    alone = replace(processed, effort=processed.effort - own, payload="load",
                    replicates=None if processed.replicates is None else processed.replicates - own)
    part = regression(model, alone, LOAD)
    assert part.mask is not None
    keep = part.mask.all(axis=1)
    return part.take(np.flatnonzero(keep)) if keep.sum() >= 20 else part


def _heaviest(model: Model, problem: Regression, reach: float) -> float:
    """Return the mass a log shows and three standard deviations more; ten times all its efforts at most. [kg]"""
    gravity = float(np.linalg.norm(model.mechanism.gravity)) or 1.0
    most = max(10 * float(np.abs(problem.effort).sum(axis=1).max()) / gravity, 1e-3)
    start = LoadFilter(mass=most, reach=reach).start(problem.parameters)
    rows = problem.whitened().stacked().reshape(-1, len(problem.parameters) + 1)
    first = solve(np.concatenate([start.factor[:-1], rows]), problem.parameters)
    mass = problem.parameters.index(LOAD[0])
    return float(np.clip(abs(first.values[mass]) + 3 * np.linalg.norm(first.root[mass]), 1e-3, most))


def _with_noise(problem: Regression) -> Regression:
    """Give the regression a noise covariance: what least squares cannot explain."""
    W = problem.regressor.reshape(-1, problem.regressor.shape[2])
    scale = np.maximum(np.linalg.norm(W, axis=0), 1e-300)
    solution = np.linalg.lstsq(W / scale, problem.effort.reshape(-1), rcond=1e-9)[0]
    residual = (problem.effort.reshape(-1) - (W / scale) @ solution).reshape(problem.effort.shape)
    covariance = residual.T @ residual / max(len(residual) - W.shape[1] / len(problem.rows), 1)
    floor = 1e-12 * max(float((problem.effort**2).mean()), 1e-12)
    return replace(problem, covariance=covariance + floor * np.eye(len(covariance)))
