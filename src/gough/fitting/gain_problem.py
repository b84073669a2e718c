"""Currents in, drive gains out: the problem of BG13 section 4, scaled by a payload that was
weighed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InconsistentData, InvalidInput, NotIdentifiable, nearest
from gough.core.names import Parameter, index_of, parameters
from gough.core.notices import Notice
from gough.core.record import Record
from gough.fitting.block_statistics import BlockStatistics, Residual
from gough.fitting.estimate import Estimate
from gough.fitting.problem import LinearProblem, fix_parameters, statistics_of
from gough.fitting.regression import Regression, concatenate
from gough.fitting.solve import solve

LOOSE = 0.5  # relative standard deviation beyond which a gain counts as not determined


@dataclass(frozen=True, kw_only=True, eq=False)
class GainProblem(Record):
    """V g - W chi - W_ul chi_ul = W_kl chi_kl in unloaded and loaded samples: BG13 (33), its last
    column moved over.

    Args:
        problem: That equation as a regression (or its block statistics): columns -W (base
            parameters), V (gains, named `<motor>.gain`), -W_ul (unknown payload parameters). Its
            effort is that of the known payload, zero in unloaded samples. Row units are those of
            effort.
        motors: Names, (a,). Without an effort map, motor j belongs to row j.
        effort_map: Closure map of the actuated coordinates, transposed, (t, r, a), for robots with
            more motors than
            rows: column a of V is map_a current_a. None where each row is a motor.
        fixed: Gains taken as known, by parameter name.
    """

    problem: LinearProblem
    motors: tuple[str, ...]
    effort_map: FloatArray | None = None
    fixed: Mapping[str, float] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = field(
        init=False
    )  # all unknowns: base parameters, gains, payload
    units: tuple[str, ...] = field(init=False)
    rows: tuple[str, ...] = field(init=False)
    row_units: tuple[str, ...] = field(init=False)  # efforts

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
                    "factors"
                )
            check_shape(self.effort_map, (*sampled.effort.shape, len(self.motors)), "effort map")
        elif len(self.motors) != len(self.problem.rows):
            raise InvalidInput(
                f"{len(self.motors)} motors but {len(self.problem.rows)} rows; robots with more "
                f"motors "
                "than rows need the effort map"
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
        return fix_parameters(self.problem, self.fixed) if self.fixed else self.problem

    def gain_values(self, values: FloatArray) -> FloatArray:
        """Return all gains, unknown and fixed, motor by motor, (a,), given the unknowns, (p,)."""
        return self._values_of(self.all_gains, values)

    def _values_of(self, names: Sequence[str], values: FloatArray) -> FloatArray:
        table = dict(zip(self.parameters, values)) | dict(self.fixed)
        return np.array([table[name] for name in names])

    def select(self, parameters: Sequence[str]) -> GainProblem:
        """Keep some parameters, always with every gain; the others are taken as zero."""
        every = self.problem.parameters
        kept = sorted({index_of(every, name) for name in (*parameters, *self.all_gains)})
        return replace(self, problem=self.problem.select([every[i] for i in kept]))

    def statistics(self, *, joint: bool = False) -> BlockStatistics:
        """Return factors of the equation, fixed gains moved to the effort."""
        return self.reduced.statistics(joint=joint)

    def sampled(self) -> Regression | None:
        """Return the equation sample by sample, fixed gains moved to the effort; None where it was
        condensed.
        """
        return self.reduced.sampled()

    def residual_statistics(self, values: FloatArray) -> Residual:
        """Return what unknowns (p,) leave of the efforts V g."""
        statistics = self.problem.statistics()
        every = self._values_of(statistics.parameters, values)
        gains = np.where([name in self.all_gains for name in statistics.parameters], every, 0.0)
        n = np.append(every, -1.0)
        sums = np.full(len(self.rows), np.nan) if statistics.sums is None else statistics.sums @ n
        return Residual.of(
            residual_norm=np.linalg.norm(statistics.factors @ n, axis=1),
            effort_norm=np.linalg.norm(statistics.factors[:, :, :-1] @ gains, axis=1),
            residual_sum=sums,
            samples=statistics.samples,
            n_valid=statistics.n_valid,
        )

    def in_factors(self) -> GainProblem:
        """Return the problem as triangular factors: all its estimators need where each row is a
        motor.
        """
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
        unloaded: Base parameters only, effort = currents. [row units: those of the currents]
        loaded: The same parameters plus those of the payload, effort = currents.
        known: Payload parameters that were measured, e.g. {"payload.m": 1.983}; the others are
            estimated.
        effort_units: Of the rows, one or per row.
        motors: Names of the motors; default the rows.
        motor_units: Of the motors' efforts, (a,); default those of the rows.
        currents, effort_map: (t, a) and (t, r, a) of both, where the rows are not motors.
    """
    rows = unloaded.rows
    payload = tuple(name for name in loaded.parameters if name not in unloaded.parameters)
    lost = [name for name in unloaded.parameters if name not in loaded.parameters]
    if rows != loaded.rows or lost or unloaded.row_units != loaded.row_units:
        raise InvalidInput(
            "unloaded and loaded recordings are not of the same robot: "
            + (f"'{lost[0]}' is missing from the loaded one" if lost else "rows or units differ")
        )
    if not payload:
        raise InvalidInput(
            "the loaded regression has no payload parameters of its own; expected e.g. 'payload.m'"
        )
    for name, value in known.items():
        if name not in payload:
            raise InvalidInput(
                f"'{name}' is not a payload parameter{nearest(name, payload)}", name=name
            )
        if not np.isfinite(value):
            raise InvalidInput(f"known payload parameter '{name}' is {value}", name=name)
    if not any(known.values()):
        raise InvalidInput(
            "the known payload is zero, so nothing sets the scale of the gains; weigh the payload "
            "and "
            f"give its mass, e.g. {payload[0]}"
        )
    if (currents is None) != (effort_map is None):
        raise InvalidInput(
            "give currents and effort map together, for robots whose rows are not motors"
        )
    names = tuple(rows if motors is None else motors)
    unknown = tuple(name for name in payload if name not in known)
    units = (effort_units,) * len(rows) if isinstance(effort_units, str) else tuple(effort_units)
    recorded = (unloaded.row_units[0],) * len(names) if currents is not None else unloaded.row_units
    driven = motor_units or (*units, *(units[-1:] * (len(names) - len(units))))
    gain_units = tuple(
        f"{unit} per unit" if per == "1" else f"{unit}/{per}" for unit, per in zip(driven, recorded)
    )
    parts, maps = [], []
    for i, part in enumerate((unloaded, loaded)):
        t, r = part.effort.shape
        current = part.effort if currents is None else np.asarray(currents[i], dtype=float)
        mapping = (
            np.broadcast_to(np.eye(r), (t, r, r))
            if effort_map is None
            else np.asarray(effort_map[i], float)
        )
        check_shape(current, (t, len(names)), "currents")
        check_shape(mapping, (t, r, len(names)), "effort map")
        columns, effort = np.zeros((t, r, len(unknown))), np.zeros((t, r))
        if i == 1:
            columns = part.select(unknown).regressor
            effort = part.select(tuple(known)).regressor @ np.array(list(known.values()))
        parts.append(
            replace(
                part,
                effort=effort,
                row_units=units,
                covariance=None,
                replicates=None,
                regressor=np.concatenate(
                    [
                        -part.select(unloaded.parameters).regressor,
                        mapping * current[:, None, :],
                        -columns,
                    ],
                    axis=2,
                ),
                parameters=(
                    *unloaded.parameters,
                    *(Parameter.gain(name) for name in names),
                    *unknown,
                ),
                units=(*unloaded.units, *gain_units, *loaded.select(unknown).units),
            )
        )
        maps.append(mapping)
    if not parts[1].effort.any():
        raise InvalidInput(
            "the known payload acts on no row of the loaded recording; nothing sets the scale of "
            "the "
            "gains"
        )
    return GainProblem(
        problem=concatenate(parts),
        motors=names,
        effort_map=None if effort_map is None else np.concatenate(maps),
    )


def current_maps(problem: GainProblem, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return D_j (r, p + 1, p) and n_j (r, p + 1): the current of row j has residual A_j n_j and
    derivative A_j D_j.

    With A_j = [X_j y_j] of the reduced problem and n = [values; -1], the current of motor j misses
    the model by A_j n / g_j; its derivative by a parameter is A_j e_k / g_j and by its gain -A_j (n
    without the gain) / g_j^2, which is -(current of the model) / g_j: free of the noise of the
    currents.
    """
    gains, p = problem.gain_values(values), len(values)
    n = np.append(values, -1.0)
    others = np.array([name not in problem.gains for name in problem.parameters], dtype=float)
    maps = np.zeros((len(gains), p + 1, p))
    maps[:, :p] = np.diag(others) / gains[:, None, None]
    for j, name in enumerate(problem.all_gains):
        if name in problem.gains:
            column = problem.parameters.index(name)
            maps[j, :, column] = -n / gains[j] ** 2
            maps[j, column, column] = 0.0
    return maps, n / gains[:, None]


def rough_solution(problem: GainProblem) -> FloatArray:
    """Return a consistent place to start from, (p,): gains by plain least squares, the others given
    these gains.

    Gains are biased towards zero here, as noisy currents are columns; gains of exactly zero are
    replaced by the largest.
    """
    gains = np.zeros(0)
    if problem.gains:
        whole = solve(statistics_of(problem).factors, problem.parameters).values
        gains = whole[[problem.parameters.index(name) for name in problem.gains]]
        top = np.abs(gains).max()
        gains = np.where(np.abs(gains) < 1e-6 * top, top, gains)
    given = problem.fix(dict(zip(problem.gains, gains)))
    return given._values_of(
        problem.parameters, solve(given.statistics().factors, given.parameters).values
    )


def open_gains(problem: GainProblem, error: NotIdentifiable) -> list[str]:
    """Return the gains a rank error names, or raise it if other parameters depend on each other
    too.
    """
    dependent = error.numbers.get("dependent")
    if not isinstance(dependent, list) or not dependent or not set(dependent) <= set(problem.gains):
        raise error
    return [str(name) for name in dependent]


def determine_gains(
    problem: GainProblem,
    nominal: Mapping[str, float],
    fit: Callable[[GainProblem], Estimate | Sequence[str]],
) -> Estimate:
    """Fit, and fix the gains the data leave open at their nominal values by motor; never return a
    wild number.

    The fit returns an estimate, or the gains that have no effect of their own.
    """
    if not isinstance(problem, GainProblem):
        raise InvalidInput(f"drive gains need a GainProblem, not {type(problem).__name__}")
    for motor, gain in nominal.items():
        if motor not in problem.motors:
            raise InvalidInput(
                f"nominal gain of unknown motor '{motor}'{nearest(motor, problem.motors)}",
                name=motor,
            )
        if not np.isfinite(gain) or gain == 0:
            raise InvalidInput(
                f"nominal gain of '{motor}' is {gain}, expected a number other than zero",
                name=motor,
            )
    notices: list[Notice] = []
    while True:
        estimate = fit(problem)
        if isinstance(estimate, Estimate):
            spread = dict(zip(estimate.parameters, estimate.relative_noise_std))
            worst = max((spread[name] for name in problem.gains), default=0.0)
            loose = {
                name: f"relative standard deviation {100 * spread[name]:.0f} %"
                for name in problem.gains
                if spread[name] > LOOSE and (spread[name] == worst or name.owner not in nominal)
            }
            if not loose:
                break
        else:
            loose = {
                name: "its scale cannot be told from the parameters it moves"
                for name in parameters(estimate)
            }
        open_ = [name for name in loose if name.owner not in nominal]
        if open_:
            reasons = "; ".join(f"{name} ({loose[name]})" for name in open_)
            raise NotIdentifiable(
                f"these data cannot determine {reasons}; move so that the payload loads these "
                f"motors "
                "(gravity or strong acceleration), take a heavier payload, or give their nominal "
                "gains",
                gains=open_,
            )
        chosen = {name: float(nominal[name.owner]) for name in loose}
        for name, nominal_gain in chosen.items():
            notices.append(
                Notice(
                    rule="gain",
                    level="info",
                    where=name,
                    text=f"cannot be determined from these data ({loose[name]}): fixed at the "
                    f"nominal {nominal_gain:g}; other standard errors do not contain its error",
                    numbers={"nominal": nominal_gain},
                )
            )
        problem = problem.fix({str(name): value for name, value in chosen.items()})
    negative = [name for name in problem.gains if estimate[name] < 0]
    if negative and len(negative) == len(problem.gains):
        raise InconsistentData(
            "all drive gains come out negative: loaded and unloaded recordings are swapped, or the "
            "currents count against the joints; swap the recordings or the sign of the currents",
            gains=negative,
        )
    for name in negative:
        notices.append(
            Notice(
                rule="gain",
                level="info",
                where=name,
                text="is negative: positive current drives this joint backwards",
            )
        )
    return replace(estimate, notices=(*notices, *estimate.notices))
