"""Constants of joint terms that are not linear, found by variable projection.

With constants c and coefficients chi the efforts are W(c) chi. For given c the best chi is linear,
so the search is over c alone (Golub and Pereyra): with r = y - W chi, orthogonal to W, and D =
(dW/dc) chi,

    d|r|^2 / dc = -2 D^T r exactly,    step = (D^T P D)^-1 D^T r,    P the projection off the
    columns of W,

which is Kaufman's Gauss-Newton step: that of the joint least-squares problem [W D]. The same
columns D beside W give the covariance of constants and coefficients together, by whichever rule an
estimator has for it.
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
from gough.engine.internal_states import COMPLEX_STEP_MATH, integrate_internal_states, joint_state
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.problem import Estimator
from gough.fitting.regression import Regression
from gough.identification.experiment import Experiment
from gough.mechanism.types import Mechanism
from gough.processing import ProcessedLog
from gough.processing.decimation import decimated

STEPS, HALVINGS = 60, 12  # of a search, and of one step of it; it converges in a few, or not at all
CLOSE = 1e-9  # of a constant: a step below ends the search
# a constant without bounds is sought within this factor of its start, a pitch within 2
SPREAD = 10.0
STARTS, WAVES = (
    7,
    400,
)  # tries along one constant; of a pitch four for each wave on the way, at most so many
VAGUE = 0.5  # of a constant: with a larger standard deviation the data do not determine it
STEP = 1e-30  # of a constant, along the imaginary axis: derivatives are exact to rounding


class TermColumns:
    """Joint terms along one processed log, of a model or the same robot with more terms, the
    mechanism.

    Args:
        members: Standard parameters of each column, tied ones summed.
        maps: The closure map of the log's samples, (t, n, m), if it is known already.
    """

    def __init__(
        self,
        model: Model,
        mechanism: Mechanism,
        processed: ProcessedLog,
        members: Sequence[Sequence[Parameter]],
        maps: FloatArray | None = None,
    ) -> None:
        self._model, self._mechanism, self._log, self._members = (
            model,
            mechanism,
            processed,
            members,
        )
        whole = model.kinematics.closure_map(processed.motion.q) if maps is None else maps
        joints = {mechanism.coordinates.index(name.owner) for group in members for name in group}
        self._maps = {j: np.ascontiguousarray(whole[:, j]) for j in joints}
        kept, known = len(model.mechanism.internal_states), processed.motion.extra_inputs
        self._channels = (
            {} if known is None else dict(zip(model.mechanism.channels, known[:, kept:].T))
        )
        transmitted = model.transmitted_effort(
            processed.motion,
            processed.dead_band,
            joints=mechanism.load_dependent,
            payload=processed.payload,
        )
        self._efforts = dict(zip(mechanism.load_dependent, transmitted.T))

    def at(self, constants: Mapping[str, Any], math: Any = np) -> Any:
        """Return the columns before decimation, (t, r, k), at values of constants by full name."""
        mechanism, motion, band = self._mechanism, self._log.motion, self._log.dead_band
        known = integrate_internal_states(
            mechanism,
            motion,
            band,
            channels=self._channels,
            periodic=self._log.periodic,
            constants=constants,
            math=math,
        )[0]
        columns = []
        for group in self._members:
            total: Any = 0.0
            for name in group:
                j = mechanism.coordinates.index(name.owner)
                state = joint_state(
                    mechanism,
                    motion,
                    j,
                    band,
                    term=name.kind,
                    extra_inputs=known,
                    constants=constants,
                    math=math,
                )
                state = replace(state, effort=self._efforts.get(j, 0.0))
                value = np.broadcast_to(mechanism.terms[name.kind].value(state), (len(motion),))
                total = total + self._maps[j] * value[:, None]
            columns.append(total)
        return np.stack(columns, axis=2)

    def regressor(self, constants: Mapping[str, float]) -> FloatArray:
        """Return the columns as a regression of the log has them, (s, r, k)."""
        return self.processed(self.at(constants))

    def with_derivatives(self, constants: Mapping[str, float], names: Sequence[str]) -> FloatArray:
        """Return the columns and their derivatives by constants, (1 + c, s, r, k)."""
        parts = [np.real(self.at(constants))]
        for name in names:
            stepped = {**constants, name: constants[name] + 1j * STEP}
            parts.append(np.imag(self.at(stepped, COMPLEX_STEP_MATH)) / STEP)
        flat = self.processed(np.concatenate(parts, axis=2))
        return np.stack(np.split(flat, len(parts), axis=2))

    def processed(self, columns: FloatArray) -> FloatArray:
        """Return columns after what the processing does to a regressor."""
        log, model = self._log, self._model
        if log.decimation == 1:
            return columns
        names = tuple(Parameter(f"column{k}") for k in range(columns.shape[2]))
        whole = Regression(
            regressor=columns,
            effort=np.zeros(columns.shape[:2]),
            rows=model.rows,
            row_units=model.row_units,
            parameters=names,
            units=("1",) * len(names),
            time=log.motion.time,
            sample=log.sample,
            mask=log.valid,
            group=log.group,
        )
        parts = decimated([whole], log.decimation, periodic=log.periodic)
        return np.concatenate([part.regressor for part in parts])


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedConstants:
    """Constants of joint terms found from data, by full name (`stribeck.speed`), SI.

    A standard error is infinite where data do not determine a constant; notices name those that
    ran to a bound, too.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    std: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the documented JSON form."""
        document = {}
        for name, constant in self.values.items():
            std = plain(self.std[name])
            document[name] = {"value": constant, "std": std, "unit": self.units[name]}
        return document

    def summary(self) -> str:
        """Return the constants as plain text."""
        rows = []
        for name, constant in self.values.items():
            rows.append([name, f"{constant:.6g}", f"{self.std[name]:.3g}", self.units[name]])
        return "Constants of joint terms\n" + text_table(["constant", "value", "std", "unit"], rows)


class ConstantSearch:
    """Variable projection of an experiment, over constants of its robot by full name."""

    def __init__(self, experiment: Experiment, names: Sequence[str]) -> None:
        self._mechanism, self.names = experiment.model.mechanism, tuple(names)
        model, problem, terms = experiment.model, experiment.problem, self._mechanism.terms
        families = {Parameter(name).owner for name in names}
        heads = dict(zip(experiment.base.names, column_names(experiment.base)))
        own = [heads[name] for name in problem.parameters]
        self.free = [
            k
            for k, head in enumerate(own)
            if head.kind in terms and terms[head.kind].family in families
        ]
        members = [model.resolve(own[k]) for k in self.free]
        self._logs = [
            TermColumns(model, self._mechanism, log, members) for log in experiment.processed
        ]
        weight = np.ones(len(problem.rows))
        for _ in range(5):  # rows weigh by what they leave, as in weighted least squares
            self._weight = (problem.valid * weight).reshape(-1, 1)
            W, y = self._stack(problem.regressor), problem.effort.reshape(-1) * self._weight[:, 0]
            left = y - W @ np.linalg.lstsq(W, y, rcond=1e-12)[0]
            rms = np.sqrt(
                (left.reshape(-1, len(weight)) ** 2).sum(axis=0) / np.maximum(problem.n_valid, 1)
            )
            weight = weight / np.maximum(rms, 1e-9 * np.abs(y).max() + np.finfo(float).tiny)
        self._weight = (problem.valid * weight).reshape(-1, 1)
        self._basis = np.linalg.qr(self._stack(np.delete(problem.regressor, self.free, axis=2)))[0]
        self._y = self._off(problem.effort[:, :, None])[:, 0]

    def _stack(self, columns: FloatArray) -> FloatArray:
        return np.asarray(columns.reshape(-1, columns.shape[2]) * self._weight)

    def _off(self, columns: FloatArray) -> FloatArray:
        """Return columns, (s, r, k), stacked and weighed, less what the columns without constants
        explain of them.
        """
        stacked = self._stack(columns)
        return np.asarray(stacked - self._basis @ (self._basis.T @ stacked))

    def cost(self, at: Mapping[str, float]) -> float:
        """Return the weighted squares that constants leave."""
        C = self._off(np.concatenate([log.regressor(at) for log in self._logs]))
        return float(((self._y - C @ np.linalg.lstsq(C, self._y, rcond=1e-10)[0]) ** 2).sum())

    def derivative(self, at: Mapping[str, float]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return D, (s, r, c), what is left, and the columns with constants, both as `cost` has
        them.
        """
        parts = np.concatenate([log.with_derivatives(at, self.names) for log in self._logs], axis=1)
        C = self._off(parts[0])
        chi = np.linalg.lstsq(C, self._y, rcond=1e-10)[0]
        return np.moveaxis(parts[1:] @ chi, 0, 2), self._y - C @ chi, C

    def step(self, at: Mapping[str, float]) -> FloatArray:
        """Return the Gauss-Newton step of the constants, relative to their size, (c,)."""
        D, left, C = self.derivative(at)
        D = self._off(D) * np.array([abs(at[name]) or 1.0 for name in self.names])
        off = D - C @ np.linalg.lstsq(C, D, rcond=1e-10)[0]
        return np.asarray(np.linalg.lstsq(off, left, rcond=1e-8)[0])

    def bounds(self, name: str) -> tuple[float, float]:
        """Return between what a constant is sought."""
        constant, factor = self._mechanism.constants[name], 2.0 if self._wavy(name) else SPREAD
        low, high = (
            sorted((constant.value / factor, constant.value * factor))
            if constant.value
            else (-1.0, 1.0)
        )
        return (
            low if constant.low == -np.inf else constant.low,
            high if constant.high == np.inf else constant.high,
        )

    def _wavy(self, name: str) -> bool:
        return any(
            term.is_periodic_in(key)
            for term in self._mechanism.terms.values()
            for key in term.constants
            if f"{term.family}.{key}" == name
        )

    def grid(self, name: str, reach: float) -> FloatArray:
        """Return values of a constant to start from: close enough for a wave over a reach of
        position.
        """
        low, high = self.bounds(name)
        if self._wavy(name) and low > 0:
            count = int(np.clip(4 * reach * (1 / low - 1 / high), STARTS, WAVES))
            return np.asarray(1 / np.linspace(1 / high, 1 / low, count))
        return np.geomspace(low, high, STARTS) if low > 0 else np.linspace(low, high, STARTS)

    def descend(self, at: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """Return squares left and constants after Gauss-Newton steps, halved while they do not
        help.
        """
        now, cost = dict(at), self.cost(at)
        for _ in range(STEPS):
            change = np.clip(self.step(now), -0.5, 1.0)
            for halving in range(HALVINGS):
                trial = {
                    name: float(
                        np.clip(
                            now[name] + d * 0.5**halving * (abs(now[name]) or 1.0),
                            *self.bounds(name),
                        )
                    )
                    for name, d in zip(self.names, change)
                }
                fresh = self.cost(trial)
                if fresh < cost:
                    break
            else:
                return cost, now
            moved = max(
                abs(trial[name] - now[name]) / (abs(now[name]) or 1.0) for name in self.names
            )
            now, cost = trial, fresh
            if moved < CLOSE:
                break
        return cost, now


def fit_constants(experiment: Experiment) -> dict[str, float]:
    """Return the constants of a robot's terms that explain an experiment best, by full name; none
    if none is free.

    Each is tried over its bounds while the others stay, densely where it is the pitch of a wave;
    the best start and the robot file's are then improved together.
    """
    constants = experiment.model.mechanism.constants
    start = {name: constant.value for name, constant in constants.items() if constant.fit}
    if not start:
        return {}
    search, motors = ConstantSearch(experiment, tuple(start)), list(experiment.model.actuated)
    reach = max(
        float(np.ptp(log.motion.q[:, motors], axis=0).max()) for log in experiment.processed
    )
    best = dict(start)
    for name in start:
        tried = [best[name], *search.grid(name, reach).tolist()]
        best[name] = min(tried, key=lambda value: search.cost({**best, name: value}))
    found = [search.descend(at) for at in ([best] if best == start else [best, start])]
    return min(found, key=lambda pair: pair[0])[1]


def with_constants(
    experiment: Experiment,
    problem: Regression,
    estimators: Mapping[str, Estimator],
    estimates: Mapping[str, Estimate],
    values: Mapping[str, float],
) -> tuple[dict[str, Estimate], FittedConstants]:
    """Return estimates whose covariance knows that constants were found from the same data, and the
    constants.

    The robot of the experiment has these values. Their standard deviations are those of the first
    estimator; where there is none, because drive gains were sought, those of Gauss-Markov, as if
    the gains were known.
    """
    search, units = (
        ConstantSearch(experiment, tuple(values)),
        {name: experiment.model.mechanism.constants[name].unit for name in values},
    )
    D, sound, notices = search.derivative(values)[0], [], []
    for k, (name, value) in enumerate(values.items()):
        low, high = search.bounds(name)
        at_bound = min(value - low, high - value) <= 1e-6 * (high - low)
        if at_bound or not np.abs(D[:, :, k]).max() > 0:
            why = f"ran to its bound {value:.4g}" if at_bound else "has no effect on the efforts"
            text = (
                f"the constant {why} {units[name]}; the data do not determine it, and standard "
                "errors of its term's coefficients hold for this value only"
            )
            notices.append(Notice(rule="constant", level="info", where=name, text=text))
        else:
            sound.append(k)
    names = tuple(Parameter(search.names[k]) for k in sound)
    wide = replace(
        problem,
        regressor=np.concatenate([problem.regressor, D[:, :, sound]], axis=2),
        parameters=(*problem.parameters, *names),
        units=(*problem.units, *(units[name] or "1" for name in names)),
    )
    made, std = dict(estimates), dict.fromkeys(values, np.inf)
    for name in estimates or ("",):
        try:
            joint = (estimators[name] if name else GaussMarkov()).fit(wide)
        except GoughError as error:
            text = f"standard errors hold for these constants, as if they were known: {error}"
            notices.append(Notice(rule="standard errors", level="info", where=name, text=text))
            continue
        own = joint.select(problem.parameters)
        if name:
            made[name] = replace(
                estimates[name],
                covariance=own.covariance,
                sources=own.sources,
                degrees_of_freedom=own.degrees_of_freedom,
                uncertainty=own.uncertainty,
            )
        if np.inf in std.values():
            std |= {
                constant: float(joint.std[len(problem.parameters) + k])
                for k, constant in enumerate(names)
            }
    for name in names:
        if std[name] > VAGUE * abs(values[name]):
            text = (
                f"the constant is {values[name]:.4g} +- {std[name]:.2g} {units[name]}: the data "
                "hardly determine it"
            )
            notices.append(Notice(rule="constant", level="info", where=name, text=text))
    return made, FittedConstants(values=dict(values), std=std, notices=tuple(notices), units=units)
