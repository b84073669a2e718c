"""Bounded-error estimation (P03): boxes that contain every parameter vector the data allow.

State the problem as `BoundedProblem` and enclose its feasible set with
`ExactBox` (smallest box, certified, valid for a given number of
outliers), `TrimmedBox` (outliers removed by a heuristic) or
`GaussSeidel` (the paper).
"""

from __future__ import annotations

from typing import Literal

from gough.bounding.exact_box import ExactBox
from gough.bounding.gauss_seidel import GaussSeidel
from gough.bounding.problem import BoundedProblem
from gough.bounding.trimmed_box import TrimmedBox
from gough.core.errors import InvalidInput, nearest
from gough.fitting.estimate import Enclosure

__all__ = [
    "SOLVERS",
    "BoundedProblem",
    "ExactBox",
    "GaussSeidel",
    "Solver",
    "TrimmedBox",
    "enclose",
]

Solver = Literal["exact", "trimmed", "gauss-seidel"]
SOLVERS = ("exact", "trimmed", "gauss-seidel")


def enclose(problem: BoundedProblem, solver: Solver = "exact", outliers: int = 0) -> Enclosure:
    """Enclose the feasible set with a solver given by name.

    Args:
        problem: Equations, error bounds and prior.
        solver: One of `SOLVERS`.
        outliers: How many equations may violate their bound; not for
            Gauss-Seidel.
    """
    if solver not in SOLVERS:
        raise InvalidInput(f"no method '{solver}'{nearest(solver, SOLVERS)}", method=solver)
    if solver == "exact":
        return ExactBox(outliers=outliers).fit(problem)
    if solver == "trimmed":
        return TrimmedBox(outliers=outliers).fit(problem)
    if outliers:
        raise InvalidInput("interval Gauss-Seidel knows no outliers; use the exact box")
    return GaussSeidel().fit(problem)
