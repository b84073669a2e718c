"""The bounded-error problem: effort = regressor @ parameters + error with |error| <= bound.

Nothing else is assumed about the errors: P03 (20)-(25). The regressor
may be uncertain too: each of its entries then lies in an interval of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_finite,
    check_shapes,
    frozen,
)
from gough.core.errors import InvalidInput
from gough.core.intervals import Interval
from gough.core.names import Parameter, parameters
from gough.core.record import Record

_MAX_EQUATIONS_NAMED = 10  # equations listed in a message


@dataclass(frozen=True, eq=False)
class Equations:
    """n stacked equations: |effort - W theta| <= bound for some W in the regressor."""

    regressor: Interval  # (n, p)
    effort: FloatArray  # (n,) [row unit]
    bound: FloatArray  # (n,) [row unit]
    sample: IntArray  # index of the sample of each equation, (n,)
    row: IntArray  # index of the joint equation of that sample, (n,)

    @property
    def effort_interval(self) -> Interval:
        """[effort - bound, effort + bound], rounded outward, (n,)."""
        return Interval.around(self.effort, self.bound)

    @property
    def exact(self) -> bool:
        """Whether the regressor is a matrix without uncertainty."""
        return self.regressor.lower is self.regressor.upper

    def open_signs(self, box: Interval) -> list[int]:
        """Return the parameters with an uncertain column whose sign is not fixed by a box."""
        if self.exact:
            return []
        uncertain = (self.regressor.lower < self.regressor.upper).any(axis=0)
        contains_zero = (box.lower < 0) & (box.upper > 0)
        return [int(j) for j in np.flatnonzero(uncertain & contains_zero)]


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundedProblem(Record):
    """A bounded-error problem of t samples, r joint equations per sample and p parameters.

    The feasible set is (25) of P03:

        S = {theta in prior : for every sample and row some W in [lower, upper] has
             |effort - W theta| <= error_bound}

    Args:
        regressor_lower, regressor_upper: (t, r, p), equal where the
            regressor is exact.
        effort: (t, r). [N or N m]
        error_bound: Largest error, positive: one number, per row (r,),
            per sample (t, 1), or (t, r). [as effort]
        prior_lower, prior_upper: (p,), may be infinite.
        rows, row_units: Names and units of the joint equations, (r,).
        parameters, units: Names and units, (p,).
        used: Mask of the samples and rows that are used, (t, r), or
            None for all.
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
            raise InvalidInput(
                f"effort has shape {self.effort.shape}, expected (samples, rows), "
                f"at least one of each"
            )
        self._broadcast_error_bound()
        t, r = self.effort.shape
        p = len(self.parameters)
        check_shapes(
            self,
            rows=(r,),
            row_units=(r,),
            regressor_lower=(t, r, p),
            regressor_upper=(t, r, p),
            used=(t, r),
            prior_lower=(p,),
            prior_upper=(p,),
        )
        for name in ("regressor_lower", "regressor_upper", "effort"):
            check_finite(getattr(self, name), name)
        self._check_regressor()
        self._check_prior()
        if not np.asarray(self.used).any():
            raise InvalidInput("no equation is used: every sample and row is switched off")

    def _broadcast_error_bound(self) -> None:
        """Give every equation its error bound, (t, r), and check that it is positive."""
        t, r = self.effort.shape
        bound = self.error_bound
        try:
            object.__setattr__(self, "error_bound", frozen(np.broadcast_to(bound, (t, r))))
        except ValueError:
            raise InvalidInput(
                f"error_bound has shape {bound.shape}, expected one number, per row ({r},), "
                f"per sample ({t}, 1) or {(t, r)}",
                shape=bound.shape,
            ) from None
        valid = np.isfinite(bound) & (bound > 0)
        if not valid.all():
            invalid_bound = float(bound[~valid][0])
            raise InvalidInput(
                f"error_bound is {invalid_bound}, expected positive and finite: it is the largest "
                "error that effort and model can have together; zero would mean that both are "
                "exact",
                error_bound=invalid_bound,
            )

    def _check_regressor(self) -> None:
        crossed = np.argwhere(self.regressor_lower > self.regressor_upper)
        if len(crossed):
            index = tuple(int(i) for i in crossed[0])
            raise InvalidInput(
                f"regressor_lower exceeds regressor_upper at sample, row, column {index}",
                index=index,
            )

    def _check_prior(self) -> None:
        for name, low, high in zip(self.parameters, self.prior_lower, self.prior_upper):
            if not low <= high or low == np.inf or high == -np.inf:
                raise InvalidInput(
                    f"prior of '{name}' is [{low}, {high}], expected lower <= upper "
                    "(an infinite bound means nothing is known)",
                    name=name,
                )

    @property
    def prior(self) -> Interval:
        """The prior box Q, (p,)."""
        return Interval(self.prior_lower, self.prior_upper)

    @cached_property
    def equations(self) -> Equations:
        """The used joint equations, stacked sample by sample."""
        sample, row = np.nonzero(np.asarray(self.used))
        lower = self.regressor_lower[sample, row]
        upper = self.regressor_upper[sample, row]
        if np.array_equal(lower, upper):
            upper = lower  # marks the regressor as exact
        return Equations(
            regressor=Interval(lower, upper),
            effort=self.effort[sample, row],
            bound=self.error_bound[sample, row],
            sample=sample,
            row=row,
        )

    def without(self, pairs: Iterable[tuple[int, int]]) -> BoundedProblem:
        """Return the problem with some (sample, row) pairs switched off."""
        used = np.array(self.used)
        for sample, row in pairs:
            used[sample, row] = False
        return replace(self, used=used)

    def pairs_of(self, equations: IntArray) -> tuple[tuple[int, int], ...]:
        """Return equations as (sample, row) pairs."""
        samples = self.equations.sample[equations].tolist()
        rows = self.equations.row[equations].tolist()
        return tuple(zip(samples, rows))

    def list_pairs(self, pairs: tuple[tuple[int, int], ...]) -> str:
        """Return the first of some (sample, row) pairs as text for a message."""
        listed = pairs[:_MAX_EQUATIONS_NAMED]
        text = ", ".join(f"sample {sample} {self.rows[row]}" for sample, row in listed)
        if len(pairs) > len(listed):
            text += ", ..."
        return text
