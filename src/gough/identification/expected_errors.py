"""Standard errors to expect from what was recorded, or from a log that will be recorded."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.display import POORLY_KNOWN_RATIO, join_names, relative, rounded, text_table
from gough.core.errors import NotIdentifiable
from gough.core.notices import Notice, ResultLevel, level_of, notice_lines, ordered
from gough.core.record import Columns, Record
from gough.engine import Robot, as_model, base_parameters
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.regression import Regression
from gough.fitting.selection import WeakDirection, weak_directions
from gough.identification.diagnosis import Limit, limits_table
from gough.identification.experiment import Experiment, in_efforts, prepare
from gough.identification.position_noise import perturbed_pairs
from gough.identification.validation import WEAK_CONDITION, noise_variance
from gough.logs.readers import Log, as_recordings
from gough.processing import Processing, regression

# over the largest: along it nothing is observed
NEGLIGIBLE_SINGULAR_VALUE = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpectedErrors(Record):
    """Standard errors of the base parameters from one log, (b,)."""

    robot: str  # its name
    source: str  # the trajectory or log
    samples: int  # of the log
    periods: int  # whole periods in it; 0 without a period
    rows: tuple[str, ...]  # joint equations, (r,)
    # standard deviation of the effort noise in the equations, periods
    # averaged or low-passed, (r,)
    noise: FloatArray
    parameters: tuple[str, ...]  # base parameters
    units: tuple[str, ...]  # of the parameters
    values: FloatArray  # of the robot file
    # standard errors; infinite where the motion does not show a
    # parameter
    std: FloatArray
    # of the whitened regressor with columns of unit length
    condition_number: float
    # combinations that the motion hardly excites
    weak: tuple[WeakDirection, ...]
    limits: tuple[Limit, ...] = ()  # smallest faults that are detected
    notices: tuple[Notice, ...] = ()  # in their order

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices; `ok` if there is only info."""
        return level_of(self.notices)

    @property
    def headline(self) -> str:
        """Robot, level, log and number of well known parameters in one sentence."""
        n_known = int((self.std < POORLY_KNOWN_RATIO * np.abs(self.values)).sum())
        repeated = f" in {self.periods} periods" if self.periods else ""
        return (
            f"{self.robot}: {self.level.upper()} - {self.source}, {self.samples} samples"
            f"{repeated}: {n_known} of {len(self.std)} parameters to better than "
            f"{100 * POORLY_KNOWN_RATIO:.0f} %"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        parameters = []
        for k, name in enumerate(self.parameters):
            std = float(self.std[k])
            parameters.append(
                {
                    "name": name,
                    "unit": self.units[k],
                    "value": float(self.values[k]),
                    "std": std if np.isfinite(std) else None,
                }
            )
        condition = self.condition_number
        return {
            "robot": self.robot,
            "level": self.level,
            "headline": self.headline,
            "source": self.source,
            "samples": self.samples,
            "periods": self.periods,
            "noise": dict(zip(self.rows, self.noise.tolist())),
            "condition_number": condition if np.isfinite(condition) else None,
            "parameters": parameters,
            "weak": [asdict(weak) for weak in self.weak],
            "limits": [limit.to_dict() for limit in self.limits],
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def table(self) -> Columns:
        """Return the standard error to expect by parameter."""
        return {
            "parameter": self.parameters,
            "robot file": self.values,
            "std": self.std,
            "unit": self.units,
        }

    def summary(self) -> str:
        """Return the standard errors as plain text, with weak directions and detection limits."""
        rows = []
        for name, value, std, unit in zip(self.parameters, self.values, self.std, self.units):
            rows.append([name, *rounded(value, std), relative(value, std), unit])
        header = ["parameter", "robot file", "std. error", "relative", "unit"]
        lines = [
            self.headline,
            *notice_lines(self.notices),
            "",
            text_table(header, rows),
            "",
            "Weakest directions:",
        ]
        for weak in self.weak:
            lines.append(f"  {weak.direction}")
        if self.limits:
            lines += [
                "",
                "Faults that are detected in 95 of 100 such logs:",
                limits_table(self.limits),
            ]
        return "\n".join(lines)


@one_blas_thread
def expected_errors(
    model: Robot,
    log: Log,
    *,
    tie_legs: bool = False,
    processing: Processing | None = None,
) -> ExpectedErrors:
    """Return the standard errors that noise gives the parameters identified from a log.

    The log is processed as `identify` does, so periods, samples, rests
    and excluded equations are its own, and so is the noise. In a
    periodic log it is what differs between periods: with its covariance
    Sigma of the mean, W^T Sigma^-1 W is inverted, and the effect of
    position noise, drawn again, is added. Without periods the residual
    is noise, and its autocorrelation is in the standard errors. Errors
    of the model are not.

    Args:
        model: The robot, also by name or path.
        log: The log, read or as path or DataFrame.
        tie_legs: Take what the robot file ties as equal across legs.
        processing: Of the log; chosen by default.
    """
    model = as_model(model)
    (recording,) = as_recordings(log)
    base = base_parameters(model, tie_legs=tie_legs)
    experiment = prepare(model, [recording], base, processing=processing)
    processed = experiment.processed[0]
    block = experiment.regressions[0]
    std, condition, noise = _standard_errors(experiment)
    periods = processed.periods if processed.periodic else 0
    expected = ExpectedErrors(
        robot=model.mechanism.name,
        source=recording.source,
        samples=len(recording),
        periods=periods,
        rows=block.rows,
        noise=noise,
        parameters=base.names,
        units=base.units,
        values=base.values(model.values(base.standard)),
        std=std,
        condition_number=condition,
        weak=weak_directions(block),
    )
    return replace(expected, notices=ordered(_notices(expected)))


def _standard_errors(experiment: Experiment) -> tuple[FloatArray, float, FloatArray]:
    """Return standard errors (b,), condition number, and the noise of a row's equations, (r,)."""
    block = experiment.regressions[0]
    try:
        estimate = GaussMarkov().fit(experiment.problem)
    except NotIdentifiable:
        covariance = block.covariance
        if covariance is None:
            covariance = _residual_covariance(block)
        std, condition = _white_errors(block.whitened(covariance))
        return std, condition, np.sqrt(noise_variance(replace(block, covariance=covariance)))
    components = {component.kind: component.std for component in estimate.sources}
    if block.covariance is None:
        std = components.get("hac", components["white"])
        assert estimate.noise_covariance is not None
        noise = np.sqrt(np.diag(estimate.noise_covariance))
        return std, estimate.condition_number, noise
    std = np.hypot(components["white"], _position_errors(experiment, estimate))
    return std, estimate.condition_number, np.sqrt(noise_variance(block))


def _residual_covariance(block: Regression) -> FloatArray:
    """Return the diagonal covariance of the residual where not all parameters are observed."""
    residual = block.residual(weighted_fit(block.statistics()).values)
    power = (residual**2 * block.valid).sum(axis=0) / np.maximum(block.n_valid, 1)
    return np.diag(np.maximum(power, np.finfo(float).tiny))


def _white_errors(whitened: Regression) -> tuple[FloatArray, float]:
    """Return standard errors, infinite where nothing is observed, and the condition number."""
    stacked = whitened.regressor.reshape(-1, len(whitened.parameters))
    length = np.linalg.norm(stacked, axis=0)
    unit = np.where(length > 0, length, 1.0)
    _, singular_values, vectors = np.linalg.svd(stacked / unit, full_matrices=False)
    observed = singular_values > NEGLIGIBLE_SINGULAR_VALUE * singular_values[0]
    variance = ((vectors[observed] / singular_values[observed, None]) ** 2).sum(axis=0)
    hidden = (vectors[~observed] ** 2).sum(axis=0) > NEGLIGIBLE_SINGULAR_VALUE
    std = np.where(hidden | (length == 0), np.inf, np.sqrt(variance) / unit)
    condition = np.inf
    if singular_values[-1] > 0:
        condition = float(singular_values[0] / singular_values[-1])
    return std, condition


def _position_errors(experiment: Experiment, estimate: Estimate) -> FloatArray:
    """Return the standard errors by position noise of a periodic log, (b,).

    Noise that changes the regressor by dW changes the estimate by about -W^+
    dW chi.
    """
    log = experiment.processed[0]
    block = experiment.regressions[0]
    whitened = block.whitened().regressor.reshape(-1, len(estimate))
    inverse = np.linalg.pinv(whitened)
    shifts = []
    for _, perturbed in perturbed_pairs(log, np.random.default_rng(0)):
        noisy, _ = in_efforts(experiment.model, [perturbed], experiment.gains)
        after = regression(experiment.model, noisy[0], experiment.base)
        change = (after.regressor - block.regressor) @ estimate.values
        equations = replace(block, effort=change).whitened().effort
        shifts.append(inverse @ equations.reshape(-1))
    return np.asarray(np.sqrt(np.mean(np.square(shifts), axis=0)))


def _notices(expected: ExpectedErrors) -> list[Notice]:
    """Warn of parameters that the motion does not show."""
    notices = []
    hidden = [name for name, std in zip(expected.parameters, expected.std) if not np.isfinite(std)]
    if hidden:
        notices.append(
            Notice(
                rule="not observed",
                level="warning",
                text=f"the motion does not show {len(hidden)} parameters: {join_names(hidden)}",
                advice="let `gough design` find a motion",
                numbers={"count": len(hidden)},
            )
        )
    elif expected.condition_number >= WEAK_CONDITION:
        notices.append(
            Notice(
                rule="condition number",
                level="warning",
                text=f"the condition number is {expected.condition_number:.3g}, expected below "
                f"{WEAK_CONDITION:g}: the motion hardly distinguishes some parameters",
                advice="see the weakest directions",
                numbers={"condition": expected.condition_number},
            )
        )
    return notices
