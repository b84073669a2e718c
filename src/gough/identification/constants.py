"""Fit constants of joint terms that are not linear, by variable projection.

With constants c and coefficients chi the efforts are W(c) chi. For
given c the best chi is linear, so the search is over c alone (Golub and
Pereyra): with r = y - W chi, orthogonal to W, and D = (dW/dc) chi,

    d|r|^2 / dc = -2 D^T r exactly,    step = (D^T P D)^-1 D^T r,

where P projects onto the complement of the columns of W. This is
Kaufman's Gauss-Newton step, that of the joint least-squares problem [W
D]. Fitting [W D] also gives the covariance of constants and
coefficients together, with any estimator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.documents import plain
from gough.core.errors import GoughError
from gough.core.names import Parameter
from gough.core.notices import Notice
from gough.engine import Model
from gough.engine.columns import column_names
from gough.engine.internal_states import (
    COMPLEX_STEP_MATH,
    integrate_internal_states,
    joint_state,
)
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.problem import Estimator
from gough.fitting.regression import Regression
from gough.identification.experiment import Experiment
from gough.mechanism.types import Mechanism
from gough.processing import ProcessedLog
from gough.processing.filters import decimated

# most Gauss-Newton steps; a search converges in a few, or not at all
CONSTANT_SEARCH_STEPS = 60
MAX_CONSTANT_HALVINGS = 12  # of one step
CONSTANT_STEP_TOLERANCE = 1e-9  # relative step that ends the search
# A constant without bounds is searched within this factor of its start
# value.
CONSTANT_RANGE_FACTOR = 10.0
PITCH_RANGE_FACTOR = 2.0  # the same for the pitch of a periodic term
CONSTANT_GRID_POINTS = 7  # start values along one constant
# start values of a pitch, for each wave along the motion
GRID_POINTS_PER_WAVE = 4
MAX_PITCH_GRID_POINTS = 400
# A constant whose relative standard error is larger is not determined
# by the data.
UNDETERMINED_CONSTANT_RATIO = 0.5
# of the range: a constant so close to its bound is at the bound
BOUND_TOLERANCE = 1e-6
COMPLEX_CONSTANT_STEP = 1e-30  # imaginary; derivatives are exact to rounding
CONSTANT_RCOND = 1e-10  # of the columns with constants
STEP_RCOND = 1e-8  # of the derivatives by the constants


class TermColumns:
    """Regressor columns of joint terms along one processed log.

    Args:
        model: The robot that the log was processed with.
        mechanism: The same robot, perhaps with more terms.
        processed: The log.
        members: Standard parameters of each column, tied ones summed.
        maps: The closure map of the log's samples, (t, n, m), if it is
            known already.
    """

    def __init__(
        self,
        model: Model,
        mechanism: Mechanism,
        processed: ProcessedLog,
        members: Sequence[Sequence[Parameter]],
        maps: FloatArray | None = None,
    ) -> None:
        self._model = model
        self._mechanism = mechanism
        self._log = processed
        self._members = members
        motion = processed.motion
        if maps is None:
            maps = model.kinematics.closure_map(motion.q)
        self._maps = {}
        for group in members:
            for name in group:
                j = mechanism.coordinates.index(name.owner)
                self._maps[j] = np.ascontiguousarray(maps[:, j])
        self._channels = {}
        if motion.extra_inputs is not None:
            n_states = len(model.mechanism.internal_states)
            channels = motion.extra_inputs[:, n_states:].T
            self._channels = dict(zip(model.mechanism.channels, channels))
        transmitted = model.transmitted_effort(
            motion,
            processed.dead_band,
            joints=mechanism.load_dependent,
            payload=processed.payload,
        )
        self._efforts = dict(zip(mechanism.load_dependent, transmitted.T))

    def at(self, constants: Mapping[str, Any], math: Any = np) -> Any:
        """Return the columns before decimation, (t, r, k), at values of constants by full name."""
        states = integrate_internal_states(
            self._mechanism,
            self._log.motion,
            self._log.dead_band,
            channels=self._channels,
            periodic=self._log.periodic,
            constants=constants,
            math=math,
        )[0]
        columns = []
        for group in self._members:
            column: Any = 0.0
            for name in group:
                column = column + self._term_effort(name, states, constants, math)
            columns.append(column)
        return np.stack(columns, axis=2)

    def _term_effort(
        self,
        name: Parameter,
        states: Any,
        constants: Mapping[str, Any],
        math: Any,
    ) -> Any:
        """Return the effort of a term with coefficient one, projected to the rows, (t, r)."""
        motion = self._log.motion
        j = self._mechanism.coordinates.index(name.owner)
        state = joint_state(
            self._mechanism,
            motion,
            j,
            self._log.dead_band,
            term=name.kind,
            extra_inputs=states,
            constants=constants,
            math=math,
        )
        state = replace(state, effort=self._efforts.get(j, 0.0))
        effort = self._mechanism.terms[name.kind].value(state)
        return self._maps[j] * np.broadcast_to(effort, (len(motion),))[:, None]

    def regressor(self, constants: Mapping[str, float]) -> FloatArray:
        """Return the columns as a regression of the log has them, (s, r, k)."""
        return self.decimated(self.at(constants))

    def with_derivatives(self, constants: Mapping[str, float], names: Sequence[str]) -> FloatArray:
        """Return the columns and their derivatives by constants, (1 + c, s, r, k)."""
        blocks = [np.real(self.at(constants))]
        for name in names:
            stepped = {
                **constants,
                name: constants[name] + 1j * COMPLEX_CONSTANT_STEP,
            }
            columns = self.at(stepped, COMPLEX_STEP_MATH)
            blocks.append(np.imag(columns) / COMPLEX_CONSTANT_STEP)
        flat = self.decimated(np.concatenate(blocks, axis=2))
        return np.stack(np.split(flat, len(blocks), axis=2))

    def decimated(self, columns: FloatArray) -> FloatArray:
        """Decimate columns as the regressor of the log is, (s, r, k)."""
        log = self._log
        if log.decimation == 1:
            return columns
        names = tuple(Parameter(f"column{k}") for k in range(columns.shape[2]))
        whole = Regression(
            regressor=columns,
            effort=np.zeros(columns.shape[:2]),
            rows=self._model.rows,
            row_units=self._model.row_units,
            parameters=names,
            units=("1",) * len(names),
            time=log.motion.time,
            sample=log.sample,
            mask=log.valid,
            group=log.group,
        )
        blocks = decimated([whole], log.decimation, periodic=log.periodic)
        return np.concatenate([block.regressor for block in blocks])


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedConstants:
    """Constants of joint terms fitted to data, by full name (`stribeck.speed`), SI.

    A standard error is infinite where the data do not determine a
    constant; notices name these and the constants at a bound.
    """

    # by full name, SI
    values: Mapping[str, float] = field(default_factory=dict)
    std: Mapping[str, float] = field(default_factory=dict)  # standard errors
    units: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the documented JSON form."""
        document = {}
        for name, constant in self.values.items():
            std = plain(self.std[name])
            document[name] = {
                "value": constant,
                "std": std,
                "unit": self.units[name],
            }
        return document

    def summary(self) -> str:
        """Return the constants as plain text."""
        rows = []
        for name, constant in self.values.items():
            rows.append(
                [
                    name,
                    f"{constant:.6g}",
                    f"{self.std[name]:.3g}",
                    self.units[name],
                ]
            )
        return "Constants of joint terms\n" + text_table(
            ["constant", "value", "std. error", "unit"], rows
        )


class ConstantSearch:
    """Search for constants of a robot's joint terms, by full name, that fit an experiment best.

    Equations are weighted as in weighted least squares. The columns
    without constants are projected out of efforts and other columns
    once.
    """

    def __init__(self, experiment: Experiment, names: Sequence[str]) -> None:
        self._mechanism = experiment.model.mechanism
        self.names = tuple(names)
        model = experiment.model
        problem = experiment.problem
        standard_names = dict(zip(experiment.base.names, column_names(experiment.base)))
        families = {Parameter(name).owner for name in names}
        self.free = []  # columns that depend on the constants
        members = []
        for k, name in enumerate(problem.parameters):
            term = self._mechanism.terms.get(standard_names[name].kind)
            if term is not None and term.family in families:
                self.free.append(k)
                members.append(model.resolve(standard_names[name]))
        self._logs = []
        for log in experiment.processed:
            self._logs.append(TermColumns(model, self._mechanism, log, members))
        row_weight = np.sqrt(weighted_fit(problem.statistics()).weights)
        self._weight = np.where(problem.valid, row_weight, 0.0).reshape(-1, 1)
        linear = np.delete(problem.regressor, self.free, axis=2)
        self._basis = np.linalg.qr(self._stack(linear))[0]
        self._y = self._project(problem.effort[:, :, None])[:, 0]

    def _stack(self, columns: FloatArray) -> FloatArray:
        """Return columns, (s, r, k), stacked and weighted, (s r, k)."""
        return np.asarray(columns.reshape(-1, columns.shape[2]) * self._weight)

    def _project(self, columns: FloatArray) -> FloatArray:
        """Return columns stacked, without what the columns free of constants explain of them."""
        stacked = self._stack(columns)
        return np.asarray(stacked - self._basis @ (self._basis.T @ stacked))

    def cost(self, at: Mapping[str, float]) -> float:
        """Return the weighted squared residual with given constants."""
        columns = self._project(np.concatenate([log.regressor(at) for log in self._logs]))
        chi = _least_squares(columns, self._y)
        return float(((self._y - columns @ chi) ** 2).sum())

    def derivative(self, at: Mapping[str, float]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return D, (s, r, c), and, projected as in `cost`, the residual and the columns."""
        blocks = [log.with_derivatives(at, self.names) for log in self._logs]
        stacked = np.concatenate(blocks, axis=1)
        columns = self._project(stacked[0])
        chi = _least_squares(columns, self._y)
        return (
            np.moveaxis(stacked[1:] @ chi, 0, 2),
            self._y - columns @ chi,
            columns,
        )

    def step(self, at: Mapping[str, float]) -> FloatArray:
        """Return the Gauss-Newton step of the constants, relative to their magnitude, (c,)."""
        derivative, residual, columns = self.derivative(at)
        scale = np.array([_magnitude(at[name]) for name in self.names])
        derivative = self._project(derivative) * scale
        projected = derivative - columns @ _least_squares(columns, derivative)
        return np.asarray(np.linalg.lstsq(projected, residual, rcond=STEP_RCOND)[0])

    def bounds(self, name: str) -> tuple[float, float]:
        """Return the range in which a constant is searched."""
        constant = self._mechanism.constants[name]
        factor = PITCH_RANGE_FACTOR if self._is_pitch(name) else CONSTANT_RANGE_FACTOR
        low = -1.0
        high = 1.0
        if constant.value:
            low, high = sorted((constant.value / factor, constant.value * factor))
        if constant.low != -np.inf:
            low = constant.low
        if constant.high != np.inf:
            high = constant.high
        return low, high

    def _is_pitch(self, name: str) -> bool:
        """Return whether a constant is the pitch of a periodic term."""
        for term in self._mechanism.terms.values():
            for key in term.constants:
                if f"{term.family}.{key}" == name and term.is_periodic_in(key):
                    return True
        return False

    def grid(self, name: str, travel: float) -> FloatArray:
        """Return start values of a constant; those of a pitch resolve each wave over the travel.

        Args:
            name: Full name of the constant.
            travel: Largest range of position of a motor in the logs. [m
                or rad]
        """
        low, high = self.bounds(name)
        if low <= 0:
            return np.linspace(low, high, CONSTANT_GRID_POINTS)
        if not self._is_pitch(name):
            return np.geomspace(low, high, CONSTANT_GRID_POINTS)
        n_points = GRID_POINTS_PER_WAVE * travel * (1 / low - 1 / high)
        n_points = int(np.clip(n_points, CONSTANT_GRID_POINTS, MAX_PITCH_GRID_POINTS))
        return np.asarray(1 / np.linspace(1 / high, 1 / low, n_points))

    def descend(self, at: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """Return cost and constants after Gauss-Newton steps, halved until the cost decreases."""
        constants = dict(at)
        cost = self.cost(at)
        for _ in range(CONSTANT_SEARCH_STEPS):
            step = np.clip(self.step(constants), -0.5, 1.0)
            for halving in range(MAX_CONSTANT_HALVINGS):
                moved = self._moved(constants, step * 0.5**halving)
                moved_cost = self.cost(moved)
                if moved_cost < cost:
                    break
            else:
                return cost, constants
            changes = []
            for name in self.names:
                change = abs(moved[name] - constants[name])
                changes.append(change / _magnitude(constants[name]))
            constants = moved
            cost = moved_cost
            if max(changes) < CONSTANT_STEP_TOLERANCE:
                break
        return cost, constants

    def _moved(self, constants: Mapping[str, float], step: FloatArray) -> dict[str, float]:
        """Return constants after a relative step, (c,), within their bounds."""
        moved = {}
        for name, change in zip(self.names, step):
            constant = constants[name] + change * _magnitude(constants[name])
            moved[name] = float(np.clip(constant, *self.bounds(name)))
        return moved


def _least_squares(columns: FloatArray, target: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.lstsq(columns, target, rcond=CONSTANT_RCOND)[0])


def _magnitude(constant: float) -> float:
    """Return the scale of a constant: its magnitude, one if it is zero."""
    return abs(constant) or 1.0


def fit_constants(experiment: Experiment) -> dict[str, float]:
    """Return the constants of joint terms that fit an experiment best, by full name.

    Only those that the robot file declares to be fitted, which must be
    some. Each is varied over a grid while the others are fixed; the
    best point and the values of the robot file are then improved by
    Gauss-Newton steps of all constants together.
    """
    start = dict(experiment.model.mechanism.fitted_constants)
    search = ConstantSearch(experiment, tuple(start))
    motors = list(experiment.model.actuated)
    travel = 0.0
    for log in experiment.processed:
        travel = max(travel, float(np.ptp(log.motion.q[:, motors], axis=0).max()))
    best = dict(start)
    for name in start:
        lowest_cost = search.cost(best)
        for candidate in search.grid(name, travel).tolist():
            varied = {**best, name: candidate}
            cost = search.cost(varied)
            if cost < lowest_cost:
                lowest_cost = cost
                best = varied
    cost, fitted = search.descend(best)
    if best != start:
        cost_from_start, fitted_from_start = search.descend(start)
        if cost_from_start < cost:
            return fitted_from_start
    return fitted


def with_constants(
    experiment: Experiment,
    problem: Regression,
    estimators: Mapping[str, Estimator],
    estimates: Mapping[str, Estimate],
    values: Mapping[str, float],
) -> tuple[dict[str, Estimate], FittedConstants]:
    """Return estimates whose covariance includes that of the fitted constants, and the constants.

    Standard errors of the constants are those of the first estimator;
    without any, because drive gains were identified, those of
    Gauss-Markov, as if the gains were known.

    Args:
        experiment: Logs of the robot with the fitted constants.
        problem: Its regression, or some columns of it.
        estimators: Estimators by name.
        estimates: Estimates of the problem by the name of their
            estimator.
        values: The fitted constants, by full name.
    """
    constants = experiment.model.mechanism.constants
    units = {name: constants[name].unit for name in values}
    search = ConstantSearch(experiment, tuple(values))
    derivative = search.derivative(values)[0]
    determined = []
    notices = []
    for k, name in enumerate(values):
        reason = _why_undetermined(values[name], search.bounds(name), derivative[:, :, k])
        if not reason:
            determined.append(k)
            continue
        text = (
            f"the constant {reason} {units[name]}; the data do not determine it, and standard "
            "errors of its term's coefficients hold for this value only"
        )
        notices.append(Notice(rule="constant", level="info", where=name, text=text))
    names = [search.names[k] for k in determined]
    derivative_units = [units[name] or "1" for name in names]
    extended = problem.with_columns(derivative[:, :, determined], names, derivative_units)
    joint_fits: dict[str, Estimate] = {}
    for key in estimates or ("",):
        estimator = estimators[key] if key else GaussMarkov()
        try:
            joint_fits[key] = estimator.fit(extended)
        except GoughError as error:
            text = f"standard errors hold for these constants, as if they were known: {error}"
            notices.append(Notice(rule="standard errors", level="info", where=key, text=text))
    widened = dict(estimates)
    for key in estimates:
        if key in joint_fits:
            joint = joint_fits[key].select(problem.parameters)
            widened[key] = _with_covariance_of(estimates[key], joint)
    std = dict.fromkeys(values, np.inf)
    if joint_fits:
        first = next(iter(joint_fits.values()))
        std |= dict(zip(names, first.std[len(problem.parameters) :].tolist()))
    for name in names:
        if std[name] > UNDETERMINED_CONSTANT_RATIO * abs(values[name]):
            text = (
                f"the constant is {values[name]:.4g} +- {std[name]:.2g} {units[name]}: the data "
                "hardly determine it"
            )
            notices.append(Notice(rule="constant", level="info", where=name, text=text))
    fitted = FittedConstants(values=dict(values), std=std, notices=tuple(notices), units=units)
    return widened, fitted


def _why_undetermined(constant: float, bounds: tuple[float, float], derivative: FloatArray) -> str:
    """Return why the data do not determine a constant, empty if they may."""
    low, high = bounds
    if min(constant - low, high - constant) <= BOUND_TOLERANCE * (high - low):
        return f"ran to its bound {constant:.4g}"
    if not np.abs(derivative).max() > 0:
        return "has no effect on the efforts"
    return ""


def _with_covariance_of(estimate: Estimate, other: Estimate) -> Estimate:
    """Return an estimate with the covariance of another one of the same parameters."""
    return replace(
        estimate,
        covariance=other.covariance,
        sources=other.sources,
        degrees_of_freedom=other.degrees_of_freedom,
        uncertainty=other.uncertainty,
    )
