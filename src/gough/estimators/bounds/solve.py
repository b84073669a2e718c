"""Bounded-error estimation (P03): boxes that contain every parameter vector the data allow.

State the problem as `BoundedProblem` and enclose its feasible set with `ExactBox` (smallest box, certified, with
outliers if they must be reckoned with), `TrimmedBox` (outliers removed by a heuristic) or `GaussSeidel` (the paper).
"""

from __future__ import annotations

from typing import Literal

from gough.core.errors import InvalidInput, nearest
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.exact_box import ExactBox
from gough.estimators.bounds.gauss_seidel import GaussSeidel
from gough.estimators.bounds.outliers import TrimmedBox
from gough.estimators.estimate import Enclosure

__all__ = ["SOLVERS", "BoundedProblem", "ExactBox", "GaussSeidel", "Solver", "TrimmedBox", "enclose"]

Solver = Literal["exact", "trimmed", "gauss-seidel"]
SOLVERS = ("exact", "trimmed", "gauss-seidel")


def enclose(problem: BoundedProblem, solver: Solver = "exact", outliers: int = 0) -> Enclosure:
    """Enclose the feasible set by a named solver, reckoning with outliers where it can."""
    if solver not in SOLVERS:
        raise InvalidInput(f"no method '{solver}'{nearest(solver, SOLVERS)}", method=solver)
    if solver == "gauss-seidel":
        if outliers:
            raise InvalidInput("interval Gauss-Seidel knows no outliers; use the exact box")
        return GaussSeidel().fit(problem)
    return (ExactBox if solver == "exact" else TrimmedBox)(outliers=outliers).fit(problem)
