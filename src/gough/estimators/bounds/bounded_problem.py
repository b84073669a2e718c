"""The bounded-error problem: effort = regressor @ parameters + error, |error| <= bound, nothing else assumed.

P03 (20)-(25). The regressor may be uncertain too: each of its entries then lies in an interval of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray, Value, check_finite, check_shapes, frozen
from gough.core.errors import InvalidInput
from gough.core.intervals import Interval
from gough.core.names import Parameter, parameters


@dataclass(frozen=True, eq=False)
class Equations:
    """n equations one below the other: |effort - W theta| <= bound for some W in the regressor."""

    regressor: Interval  # (n, p)
    effort: FloatArray  # (n,) [row unit]
    bound: FloatArray  # (n,) [row unit]
    sample: IntArray  # that each came from, (n,)
    row: IntArray  # of that sample, (n,)

    @property
    def effort_interval(self) -> Interval:
        """[y - e, y + e], rounded outward, (n,)."""
        return Interval.around(self.effort, self.bound)

    @property
    def exact(self) -> bool:
        """Whether the regressor is one matrix."""
        return self.regressor.lower is self.regressor.upper

    def open_signs(self, box: Interval) -> list[int]:
        """Return the parameters whose column is uncertain and whose sign a box leaves open."""
        uncertain = not self.exact and (self.regressor.lower < self.regressor.upper).any(axis=0)
        return [int(j) for j in np.flatnonzero(uncertain & (box.lower < 0) & (box.upper > 0))]


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundedProblem(Value):
    """t samples, r equation rows, p parameters; the feasible set is (25) of P03.

        S = {theta in prior : for every sample and row some W in [lower, upper] has |effort - W theta| <= error_bound}

    Args:
        regressor_lower, regressor_upper: (t, r, p), equal where the regressor is exact.
        effort: (t, r). [N or N m]
        error_bound: Largest error, positive: one number, per row (r,), per sample (t, 1), or (t, r). [as effort]
        prior_lower, prior_upper: (p,), may be infinite.
        rows, row_units: Names and units of the equation rows, (r,).
        parameters, units: Names and units, (p,).
        used: Which samples and rows count, (t, r), or None for all.
    """

    regressor_lower: FloatArray
    regressor_upper: FloatArray
    effort: FloatArray
    error_bound: FloatArray
    prior_lower: FloatArray
    prior_upper: FloatArray
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    used: BoolArray | None = None

    def __post_init__(self) -> None:
        if self.used is None:
            object.__setattr__(self, "used", np.ones(np.shape(self.effort), bool))
        super().__post_init__()
        object.__setattr__(self, "parameters", parameters(self.parameters, self.units))
        if self.effort.ndim != 2 or not self.effort.size:
            raise InvalidInput(f"effort has shape {self.effort.shape}, expected (samples, rows), at least one of each")
        (t, r), p, bound = self.effort.shape, len(self.parameters), self.error_bound
        try:
            object.__setattr__(self, "error_bound", frozen(np.broadcast_to(bound, (t, r))))
        except ValueError:
            raise InvalidInput(f"error_bound has shape {bound.shape}, expected one number, per row ({r},), per sample "
                               f"({t}, 1) or {(t, r)}", shape=bound.shape) from None
        if not (np.isfinite(bound) & (bound > 0)).all():
            worst = float(bound[~(np.isfinite(bound) & (bound > 0))][0])
            raise InvalidInput(f"error_bound is {worst}, expected positive and finite: it is the largest error that "
                               "effort and model can have together; zero would mean that both are exact",
                               error_bound=worst)
        check_shapes(self, rows=(r,), row_units=(r,), regressor_lower=(t, r, p), regressor_upper=(t, r, p),
                     used=(t, r), prior_lower=(p,), prior_upper=(p,))
        for name in ("regressor_lower", "regressor_upper", "effort"):
            check_finite(getattr(self, name), name)
        if not (self.regressor_lower <= self.regressor_upper).all():
            where = tuple(int(i) for i in np.argwhere(self.regressor_lower > self.regressor_upper)[0])
            raise InvalidInput(f"regressor_lower exceeds regressor_upper at sample, row, column {where}", index=where)
        for name, low, high in zip(self.parameters, self.prior_lower, self.prior_upper):
            if not low <= high or low == np.inf or high == -np.inf:
                raise InvalidInput(f"prior of '{name}' is [{low}, {high}], expected lower <= upper "
                                   "(an infinite bound means nothing is known)", name=name)
        if not np.asarray(self.used).any():
            raise InvalidInput("no equation is used: every sample and row is switched off")

    @property
    def prior(self) -> Interval:
        """The prior box Q, (p,)."""
        return Interval(self.prior_lower, self.prior_upper)

    @cached_property
    def equations(self) -> Equations:
        """The used rows one below the other, sample by sample."""
        sample, row = np.nonzero(np.asarray(self.used))
        lower, upper = self.regressor_lower[sample, row], self.regressor_upper[sample, row]
        return Equations(Interval(lower, lower if np.array_equal(lower, upper) else upper), self.effort[sample, row],
                         self.error_bound[sample, row], sample, row)

    def without(self, pairs: Iterable[tuple[int, int]]) -> BoundedProblem:
        """Switch off some (sample, row) pairs."""
        used = np.array(self.used)
        for sample, row in pairs:
            used[sample, row] = False
        return replace(self, used=used)
