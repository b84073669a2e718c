"""An empty feasible set, explained: which samples contradict each other and how large the bound would have to be."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import IntArray
from gough.core.errors import InconsistentData, InvalidInput
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.strips import Programme, Strips, Vertex, orthants, proves_empty, strips

_NAMED = 10  # equations spelled out in a message


def explain(problem: BoundedProblem) -> InconsistentData:
    """Return the error for a problem that is known to have no feasible parameter vector.

    Returns:
        Carries `samples` (pairs of sample and row index), `factor` (error bounds times this fit) and `certified`
        (whether interval arithmetic proves the contradiction of these samples; it cannot if the prior is unbounded).
    """
    equations = problem.equations
    try:
        boxes = list(orthants(problem, problem.prior))
    except InvalidInput:
        return InconsistentData("no parameter vector in the prior fits all samples within the error bound; which "
                                "samples contradict each other cannot be said while the prior leaves so many signs "
                                "open", samples=())
    polytopes = [strips(equations, box) for box in boxes]
    centers = [_center(polytope) for polytope in polytopes]
    factor = min(center.inflation for center in centers)
    conflicts = [_irreducible(polytope, center) for polytope, center in zip(polytopes, centers)]
    members = np.unique(np.concatenate([rows for rows, _ in conflicts]))
    pairs = [(int(equations.sample[k]), int(equations.row[k])) for k in members]
    names = ", ".join(problem.describe(*pair) for pair in pairs[:_NAMED]) + (", ..." if len(pairs) > _NAMED else "")
    return InconsistentData(
        f"no parameter vector in the prior fits all samples within the error bound; {len(pairs)} equations contradict "
        f"each other or the prior: {names}; bounds {factor:.6g} times as large would fit: widen the bound or the "
        "prior, or remove outliers", samples=tuple(pairs), factor=factor, certified=all(sure for _, sure in conflicts))


def _center(polytope: Strips) -> Vertex:
    return Programme(polytope).minimise(np.zeros(polytope.over.shape[1]), None)


def _irreducible(polytope: Strips, center: Vertex) -> tuple[IntArray, bool]:
    """Return equations that contradict each other inside the box, each of them needed, and whether that is proven.

    The multipliers of the smallest inflation of the bounds belong to at most p + 1 equations that no parameter vector
    satisfies together (Farkas, Helly); those that can go without ending the contradiction do.
    """
    rows = np.unique(center.half_spaces % len(polytope))
    certified = proves_empty(polytope, center)
    for row in rows.tolist():
        rest = rows[rows != row]
        if not len(rest):
            break
        part = polytope.take(rest)
        smaller = _center(part)
        if smaller.inflation > 1:
            rows, certified = rest, proves_empty(part, smaller)
    return rows, certified
