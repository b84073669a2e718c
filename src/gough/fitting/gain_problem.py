"""Estimation of drive gains from currents, scaled by a weighed payload: BG13 section 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import (
    InconsistentData,
    InvalidInput,
    NotIdentifiable,
    nearest,
)
from gough.core.names import Parameter, index_of, parameters
from gough.core.notices import Notice
from gough.core.record import Record
from gough.fitting.block_statistics import BlockStatistics, Residual
from gough.fitting.estimate import Estimate
from gough.fitting.problem import LinearProblem, fix_parameters, statistics_of
from gough.fitting.regression import Regression, concatenate
from gough.fitting.solve import solve

# relative standard error above which a gain is not determined
MAX_GAIN_RELATIVE_STD = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class GainProblem(Record):
    """V g - W chi - W_ul chi_ul = W_kl chi_kl in unloaded and loaded samples; BG13 (33).

    The last column of BG13 (33) is moved to the right-hand side.
    """

    # The equation as a regression or its block statistics: columns -W
    # (base parameters), V (gains, named `<motor>.gain`), -W_ul (unknown
    # payload parameters). Its effort is that of the known payload, zero
    # in unloaded samples. Row units are those of effort.
    problem: LinearProblem
    # names; without an effort map, motor j belongs to row j
    motors: tuple[str, ...]
    # Closure map of the actuated coordinates, transposed, for robots with more motors than rows:
    # column a of V is map_a current_a. None where each row is a motor. (t, r, a)
    effort_map: FloatArray | None = None
    # known gains by parameter name
    fixed: Mapping[str, float] = field(default_factory=dict)
    # base parameters, gains, payload
    parameters: tuple[Parameter, ...] = field(init=False)
    units: tuple[str, ...] = field(init=False)
    rows: tuple[str, ...] = field(init=False)
    row_units: tuple[str, ...] = field(init=False)  # of efforts

    def __post_init__(self) -> None:
        for name in ("parameters", "units", "rows", "row_units"):
            object.__setattr__(self, name, getattr(self.reduced, name))
        super().__post_init__()
        for gain in self.all_gains:
            index_of(self.problem.parameters, gain, "column")
        if self.effort_map is not None:
            sampled = self.problem.sampled()
            if sampled is None:
                raise InvalidInput(
                    "an effort map differs from sample to sample: give a regression, not its "
                    "block statistics"
                )
            check_shape(
                self.effort_map,
                (*sampled.effort.shape, len(self.motors)),
                "effort map",
            )
        elif len(self.motors) != len(self.problem.rows):
            raise InvalidInput(
                f"{len(self.motors)} motors but {len(self.problem.rows)} rows; robots with more "
                "motors than rows need the effort map"
            )

    @property
    def all_gains(self) -> tuple[Parameter, ...]:
        """Parameter names of all gains, motor by motor."""
        return tuple(Parameter.gain(motor) for motor in self.motors)

    @property
    def gains(self) -> tuple[Parameter, ...]:
        """Parameter names of the unknown gains."""
        return tuple(name for name in self.all_gains if name not in self.fixed)

    @cached_property
    def reduced(self) -> LinearProblem:
        """The problem with fixed gains moved to the effort."""
        if not self.fixed:
            return self.problem
        return fix_parameters(self.problem, self.fixed)

    def gain_values(self, values: FloatArray) -> FloatArray:
        """Return all gains, unknown and fixed, motor by motor, (a,), given the unknowns, (p,)."""
        return self._values_of(self.all_gains, values)

    def _values_of(self, names: Sequence[str], values: FloatArray) -> FloatArray:
        """Return the values of parameters, unknown or fixed, by name."""
        values_by_name = dict(zip(self.parameters, values)) | dict(self.fixed)
        return np.array([values_by_name[name] for name in names])

    def select(self, parameters: Sequence[str]) -> GainProblem:
        """Keep some parameters and all gains; the others are taken as zero."""
        all_parameters = self.problem.parameters
        columns = {index_of(all_parameters, name) for name in (*parameters, *self.all_gains)}
        names = [all_parameters[i] for i in sorted(columns)]
        return replace(self, problem=self.problem.select(names))

    def statistics(self, *, joint: bool = False) -> BlockStatistics:
        """Return block statistics of the equation, fixed gains moved to the effort."""
        return self.reduced.statistics(joint=joint)

    def sampled(self) -> Regression | None:
        """Return the equation sample by sample, or None if only its statistics are known.

        Fixed gains are moved to the effort.
        """
        return self.reduced.sampled()

    def residual_statistics(self, values: FloatArray) -> Residual:
        """Return the residual of unknowns (p,), relative to the efforts V g."""
        statistics = self.problem.statistics()
        all_values = self._values_of(statistics.parameters, values)
        is_gain = [name in self.all_gains for name in statistics.parameters]
        gains = np.where(is_gain, all_values, 0.0)
        n = np.append(all_values, -1.0)
        residual_sum = np.full(len(self.rows), np.nan)
        if statistics.sums is not None:
            residual_sum = statistics.sums @ n
        return Residual.of(
            residual_norm=np.linalg.norm(statistics.factors @ n, axis=1),
            effort_norm=np.linalg.norm(statistics.factors[:, :, :-1] @ gains, axis=1),
            residual_sum=residual_sum,
            samples=statistics.samples,
            n_valid=statistics.n_valid,
        )

    def in_factors(self) -> GainProblem:
        """Return the problem as block statistics, which suffice where each row is a motor."""
        return replace(self, problem=self.problem.statistics())

    def fix(self, gains: Mapping[str, float]) -> GainProblem:
        """Take some gains as known."""
        return replace(self, fixed={**self.fixed, **gains})


def gain_problem(
    unloaded: Regression,
    loaded: Regression,
    known: Mapping[str, float],
    *,
    effort_units: Sequence[str] | str = "N",
    motors: Sequence[str] | None = None,
    motor_units: Sequence[str] | None = None,
    currents: tuple[ArrayLike, ArrayLike] | None = None,
    effort_map: tuple[ArrayLike, ArrayLike] | None = None,
) -> GainProblem:
    """Build the problem from two regressions whose effort is the measured current; BG13 (31)-(33).

    Args:
        unloaded: Base parameters only, effort = currents. [row units:
            those of the currents]
        loaded: The same parameters plus those of the payload, effort =
            currents.
        known: Payload parameters that were measured, e.g. {"payload.m":
            1.983}; the others are estimated.
        effort_units: Of the rows, one or per row.
        motors: Names of the motors; default the rows.
        motor_units: Of the motors' efforts, (a,); default those of the
            rows.
        currents, effort_map: (t, a) and (t, r, a) of both, where the
            rows are not motors.
    """
    payload = tuple(name for name in loaded.parameters if name not in unloaded.parameters)
    _check_same_robot(unloaded, loaded)
    _check_known_payload(known, payload)
    if (currents is None) != (effort_map is None):
        raise InvalidInput(
            "give currents and effort map together, for robots whose rows are not motors"
        )
    n_rows = len(unloaded.rows)
    row_units = tuple(effort_units)
    if isinstance(effort_units, str):
        row_units = (effort_units,) * n_rows
    names = tuple(unloaded.rows if motors is None else motors)
    if not motor_units:
        missing = len(names) - len(row_units)
        motor_units = (*row_units, *(row_units[-1:] * missing))
    current_units = unloaded.row_units
    if currents is not None:
        current_units = (unloaded.row_units[0],) * len(names)
    gain_units = map(gain_unit, motor_units, current_units)
    unknown = tuple(name for name in payload if name not in known)
    columns = _GainColumns(
        base=unloaded.parameters,
        motors=names,
        unknown=unknown,
        units=(*unloaded.units, *gain_units, *loaded.select(unknown).units),
        row_units=row_units,
    )
    equations = []
    maps = []
    for i, (regression, carried) in enumerate(((unloaded, {}), (loaded, known))):
        current = regression.effort
        closure_map = np.broadcast_to(np.eye(n_rows), (len(regression), n_rows, n_rows))
        if currents is not None and effort_map is not None:
            current = np.asarray(currents[i], dtype=float)
            closure_map = np.asarray(effort_map[i], dtype=float)
        equations.append(columns.equations(regression, carried, current, closure_map))
        maps.append(closure_map)
    if not equations[1].effort.any():
        raise InvalidInput(
            "the known payload acts on no row of the loaded recording; nothing sets the scale of "
            "the gains"
        )
    return GainProblem(
        problem=concatenate(equations),
        motors=names,
        effort_map=None if effort_map is None else np.concatenate(maps),
    )


class _GainColumns(NamedTuple):
    """Columns of the equations of gains: base parameters, gains, unknown payload parameters."""

    base: tuple[Parameter, ...]
    motors: tuple[str, ...]
    unknown: tuple[Parameter, ...]  # payload parameters that are estimated
    units: tuple[str, ...]  # of all columns
    row_units: tuple[str, ...]  # of the efforts

    def equations(
        self,
        regression: Regression,
        known: Mapping[str, float],
        current: FloatArray,
        closure_map: FloatArray,
    ) -> Regression:
        """Return the equations of one recording; its known payload is the effort.

        Args:
            regression: Of the recording.
            known: Measured payload parameters; none if it was recorded
                without payload.
            current: Of the motors, (t, a).
            closure_map: From efforts of the motors to those of the
                rows, (t, r, a).
        """
        t, n_rows = regression.effort.shape
        check_shape(current, (t, len(self.motors)), "currents")
        check_shape(closure_map, (t, n_rows, len(self.motors)), "effort map")
        unknown_columns = np.zeros((t, n_rows, len(self.unknown)))
        effort = np.zeros((t, n_rows))
        if known:
            unknown_columns = regression.select(self.unknown).regressor
            effort = regression.select(tuple(known)).regressor @ np.array(list(known.values()))
        base_columns = regression.select(self.base).regressor
        gain_columns = closure_map * current[:, None, :]
        return replace(
            regression,
            effort=effort,
            row_units=self.row_units,
            covariance=None,
            replicates=None,
            regressor=np.concatenate([-base_columns, gain_columns, -unknown_columns], axis=2),
            parameters=(*self.base, *map(Parameter.gain, self.motors), *self.unknown),
            units=self.units,
        )


def _check_same_robot(unloaded: Regression, loaded: Regression) -> None:
    """Raise if the two regressions have different rows, units or base parameters."""
    prefix = "unloaded and loaded recordings are not of the same robot: "
    for name in unloaded.parameters:
        if name not in loaded.parameters:
            raise InvalidInput(f"{prefix}'{name}' is missing from the loaded one")
    if unloaded.rows != loaded.rows or unloaded.row_units != loaded.row_units:
        raise InvalidInput(f"{prefix}rows or units differ")


def _check_known_payload(known: Mapping[str, float], payload: Sequence[str]) -> None:
    """Raise if the known payload parameters cannot set the scale of the gains."""
    if not payload:
        raise InvalidInput(
            "the loaded regression has no payload parameters of its own; expected e.g. 'payload.m'"
        )
    for name, number in known.items():
        if name not in payload:
            raise InvalidInput(
                f"'{name}' is not a payload parameter{nearest(name, payload)}",
                name=name,
            )
        if not np.isfinite(number):
            raise InvalidInput(f"known payload parameter '{name}' is {number}", name=name)
    if not any(known.values()):
        raise InvalidInput(
            "the known payload is zero, so nothing sets the scale of the gains; weigh the payload "
            f"and give its mass, e.g. {payload[0]}"
        )


def gain_unit(effort_unit: str, current_unit: str) -> str:
    """Return the unit of a gain: effort per recorded unit, e.g. `N m/A` or `N m per %`."""
    if current_unit == "1":
        return f"{effort_unit} per unit"
    separator = "/" if current_unit.isalpha() else " per "
    return f"{effort_unit}{separator}{current_unit}"


def current_maps(problem: GainProblem, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return D_j (r, p + 1, p) and n_j (r, p + 1) of the residuals of the currents.

    The current of row j has the residual A_j n_j and the derivative A_j D_j, with A_j =
    [X_j y_j] of the reduced problem. With n = [values; -1], the residual of motor j is A_j
    n / g_j; its derivative by a parameter is A_j e_k / g_j and by its gain -A_j (n without
    the gain) / g_j^2, which is -(current of the model) / g_j: without the noise of the
    currents.
    """
    gains = problem.gain_values(values)
    p = len(values)
    n = np.append(values, -1.0)
    is_other = np.array([name not in problem.gains for name in problem.parameters])
    maps = np.zeros((len(gains), p + 1, p))
    maps[:, :p] = np.diag(is_other.astype(float)) / gains[:, None, None]
    for j, name in enumerate(problem.all_gains):
        if name in problem.gains:
            column = problem.parameters.index(name)
            maps[j, :, column] = -n / gains[j] ** 2
            maps[j, column, column] = 0.0
    return maps, n / gains[:, None]


def rough_solution(problem: GainProblem) -> FloatArray:
    """Return values to start from: gains by least squares, the others given these gains, (p,).

    Gains are biased towards zero here, as noisy currents are columns;
    gains of exactly zero are replaced by the largest.
    """
    gains = np.zeros(0)
    if problem.gains:
        values = solve(statistics_of(problem).factors, problem.parameters).values
        gains = values[[problem.parameters.index(name) for name in problem.gains]]
        largest = np.abs(gains).max()
        gains = np.where(np.abs(gains) < 1e-6 * largest, largest, gains)
    with_gains = problem.fix(dict(zip(problem.gains, gains)))
    other_values = solve(with_gains.statistics().factors, with_gains.parameters).values
    return with_gains._values_of(problem.parameters, other_values)


def open_gains(problem: GainProblem, error: NotIdentifiable) -> list[str]:
    """Return the gains that a rank error names; raise it if it names other parameters too."""
    dependent = error.numbers.get("dependent")
    if not isinstance(dependent, list) or not dependent or not set(dependent) <= set(problem.gains):
        raise error
    return [str(name) for name in dependent]


def determine_gains(
    problem: GainProblem,
    nominal: Mapping[str, float],
    fit: Callable[[GainProblem], Estimate | Sequence[str]],
) -> Estimate:
    """Fit, and fix gains that the data cannot determine at their nominal values.

    Args:
        problem: With unknown gains.
        nominal: Nominal gains by motor.
        fit: Returns an estimate, or the names of gains that are
            collinear with other parameters.

    Raises:
        NotIdentifiable: A gain that the data cannot determine has no
            nominal value.
        InconsistentData: All gains are negative.
    """
    if not isinstance(problem, GainProblem):
        raise InvalidInput(f"drive gains need a GainProblem, not {type(problem).__name__}")
    _check_nominal_gains(nominal, problem.motors)
    notices: list[Notice] = []
    while True:
        estimate = fit(problem)
        if isinstance(estimate, Estimate):
            reasons = _poorly_determined(problem, estimate, nominal)
            if not reasons:
                break
        else:
            reasons = {}
            for name in parameters(estimate):
                reasons[name] = "its scale is not distinguishable from the parameters it moves"
        without_nominal = [name for name in reasons if name.owner not in nominal]
        if without_nominal:
            text = "; ".join(f"{name} ({reasons[name]})" for name in without_nominal)
            raise NotIdentifiable(
                f"these data cannot determine {text}; move so that the payload loads these motors "
                "(gravity or strong acceleration), take a heavier payload, or give their nominal "
                "gains",
                gains=without_nominal,
            )
        for name, reason in reasons.items():
            nominal_gain = float(nominal[name.owner])
            problem = problem.fix({str(name): nominal_gain})
            notices.append(
                Notice(
                    rule="gain",
                    level="info",
                    where=name,
                    text=f"cannot be determined from these data ({reason}): fixed at the "
                    f"nominal {nominal_gain:g}; other standard errors do not contain its error",
                    numbers={"nominal": nominal_gain},
                )
            )
    notices += _negative_gain_notices(problem, estimate)
    return replace(estimate, notices=(*notices, *estimate.notices))


def _check_nominal_gains(nominal: Mapping[str, float], motors: Sequence[str]) -> None:
    """Raise if a nominal gain is not usable or its motor is not known."""
    for motor, gain in nominal.items():
        if motor not in motors:
            raise InvalidInput(
                f"nominal gain of unknown motor '{motor}'{nearest(motor, motors)}",
                name=motor,
            )
        if not np.isfinite(gain) or gain == 0:
            raise InvalidInput(
                f"nominal gain of '{motor}' is {gain}, expected a number other than zero",
                name=motor,
            )


def _poorly_determined(
    problem: GainProblem, estimate: Estimate, nominal: Mapping[str, float]
) -> dict[Parameter, str]:
    """Return why gains are not determined: the worst one, and all without a nominal value."""
    relative_std = dict(zip(estimate.parameters, estimate.relative_noise_std))
    worst = max((relative_std[name] for name in problem.gains), default=0.0)
    reasons = {}
    for name in problem.gains:
        ratio = relative_std[name]
        is_candidate = ratio == worst or name.owner not in nominal
        if ratio > MAX_GAIN_RELATIVE_STD and is_candidate:
            reasons[name] = f"relative standard deviation {100 * ratio:.0f} %"
    return reasons


def _negative_gain_notices(problem: GainProblem, estimate: Estimate) -> list[Notice]:
    """Return a notice for each negative gain; raise if all gains are negative."""
    negative = [name for name in problem.gains if estimate[name] < 0]
    if negative and len(negative) == len(problem.gains):
        raise InconsistentData(
            "all drive gains are negative: loaded and unloaded recordings are swapped, or the "
            "currents count against the joints; swap the recordings or the sign of the currents",
            gains=negative,
        )
    text = "is negative: positive current drives this joint backwards"
    return [Notice(rule="gain", level="info", where=name, text=text) for name in negative]
