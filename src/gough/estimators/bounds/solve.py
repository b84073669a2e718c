"""Bounded-error estimation (P03): boxes that contain every parameter vector the data allow.

State the problem as `BoundedProblem`, enclose its feasible set with `GaussSeidel` (the paper) or `ExactBox` (smallest
box, certified), and see with `width_study` what a tighter or wider error bound would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InconsistentData, InvalidInput
from gough.estimators.bounds.bounded_problem import BoundedProblem, uncertain_signs
from gough.estimators.bounds.exact_box import ExactBox
from gough.estimators.bounds.gauss_seidel import GaussSeidel

__all__ = ["BoundedProblem", "ExactBox", "GaussSeidel", "WidthStudy", "uncertain_signs", "width_study"]


@dataclass(frozen=True, kw_only=True, eq=False)
class WidthStudy:
    """Boxes against the error bound; NaN where no parameter vector fits.

    Args:
        error_bounds: (k,). [row unit]
        parameters: Names, (p,).
        units: Their units, (p,).
        lower: (k, p).
        upper: (k, p).
    """

    error_bounds: FloatArray
    parameters: tuple[str, ...]
    units: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray

    @property
    def width(self) -> FloatArray:
        """upper - lower, (k, p)."""
        return np.asarray(self.upper - self.lower)

    @property
    def empty(self) -> FloatArray:
        """Where the bound was too tight for the data, (k,) of bool."""
        return np.asarray(np.isnan(self.lower).any(axis=1))


def width_study(problem: BoundedProblem, error_bounds: Sequence[float], method: ExactBox | GaussSeidel | None = None,
                ) -> WidthStudy:
    """Enclose the feasible set for each of several error bounds, the same for all samples and rows.

    P03 leaves "the influence of the prior error bounds on the posterior uncertainty" open; this is it.

    Args:
        problem: Its own error bound is not used.
        error_bounds: Positive. [row unit]
        method: `ExactBox()` if not given.
    """
    if not len(error_bounds):
        raise InvalidInput("no error bound to study")
    solver = ExactBox() if method is None else method
    shape = (len(error_bounds), len(problem.parameters))
    lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
    for k, bound in enumerate(error_bounds):
        try:
            box = solver.fit(replace(problem, error_bound=np.asarray(bound, dtype=float)))
        except InconsistentData:
            continue
        lower[k], upper[k] = box.lower, box.upper
    return WidthStudy(error_bounds=frozen(error_bounds), parameters=problem.parameters, units=problem.units,
                      lower=frozen(lower), upper=frozen(upper))
