"""Linear programmes over the polytope of a bounded-error problem, solved by HiGHS.

Programmes over some ten thousand strips in a dozen dimensions are
solved with a few hundred of them, adding those that the solution
violates. The multipliers of the solution, accurate or not, give a
proof: see `Polytope.minimum`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gough.bounding.polytope import Polytope, Proof, equations_of
from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import NotConverged

_VIOLATION_TOLERANCE = 1e-9  # in units of the error bound
_HALF_SPACE_BATCH = 60  # violated half-spaces added at a time
_MAX_ADDING_ROUNDS = 500  # rounds of adding violated half-spaces
_HIGHS_OPTIONS = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "small_matrix_value": 1e-12,
}


class Vertex(NamedTuple):
    """Solution of a linear programme."""

    point: FloatArray  # (p,)
    inflation: float  # factor on the error bounds
    proof: Proof  # from the multipliers


class LinearProgram:
    """Linear programmes over the same polytope, each started from the solution of the last.

    Columns are the parameters and the inflation s of the bounds; rows are normal theta
    + (s - 1) bound >= offset, scaled to bounds of one and columns of largest entry one.

    Args:
        polytope: The set over which is minimised.
    """

    def __init__(self, polytope: Polytope) -> None:
        self.polytope = polytope
        n = len(polytope)
        p = polytope.normal.shape[1]
        bound = np.tile(polytope.bound, 2)
        relative_normal = np.abs(polytope.normal) / bound[:, None]
        largest = relative_normal.max(axis=0)
        self.scale = 1.0 / np.where(largest > 0, largest, 1.0)  # of the parameters, (p,)
        self.normal = polytope.normal * self.scale / bound[:, None]  # scaled, (2 n, p)
        self.offset = polytope.offset / bound + 1.0  # scaled, (2 n,)
        self._enabled = np.ones(n, bool)  # mask of the equations
        self._half_spaces = np.empty(0, np.int64)  # half-space of each row of the programme
        self._solver = _start_highs()
        low = polytope.box.lower / self.scale
        high = polytope.box.upper / self.scale
        self._solver.addVars(p + 1, np.append(low, 0.0), np.append(high, np.inf))
        evenly_spaced = np.linspace(0, n - 1, min(n, 4 * p)).astype(np.int64)
        with_largest_entry = relative_normal.argmax(axis=0) % n
        first = np.unique(np.concatenate([evenly_spaced, with_largest_entry]))
        self._add(np.concatenate([first, first + n]))

    @property
    def enabled(self) -> IntArray:
        """The equations that are enabled."""
        return np.flatnonzero(self._enabled)

    def enable(self, proofs: Sequence[Proof]) -> None:
        """Enable the equations of some proofs."""
        self._switch(proofs, True)

    def disable(self, proofs: Sequence[Proof]) -> None:
        """Disable the equations of some proofs: the next programmes are solved without them."""
        self._switch(proofs, False)

    def _switch(self, proofs: Sequence[Proof], enabled: bool) -> None:
        equations = equations_of(proofs)
        self._enabled[equations] = enabled
        affected = np.isin(self._half_spaces % len(self.polytope), equations)
        for row in np.flatnonzero(affected).tolist():
            lower = -np.inf
            if enabled:
                lower = float(self.offset[self._half_spaces[row]])
            self._solver.changeRowBounds(row, lower, np.inf)

    def _add(self, half_spaces: IntArray) -> None:
        entries = np.column_stack([self.normal[half_spaces], np.ones(len(half_spaces))])
        count, columns = entries.shape
        self._solver.addRows(
            count,
            self.offset[half_spaces],
            np.full(count, np.inf),
            entries.size,
            np.arange(count, dtype=np.int32) * columns,
            np.tile(np.arange(columns, dtype=np.int32), count),
            entries.ravel(),
        )
        self._half_spaces = np.concatenate([self._half_spaces, half_spaces])

    def smallest_inflation(self) -> Vertex:
        """Find the smallest factor on the error bounds with which some parameters satisfy all."""
        p = len(self.scale)
        objective = np.append(np.zeros(p), 1.0)
        return self._solve(objective, (0.0, np.inf), 1.0)

    def minimise(self, cost: FloatArray, inflation: float = 1.0) -> Vertex:
        """Minimise cost @ theta with the error bounds inflated by a factor."""
        scaled_cost = cost * self.scale
        unit = float(np.abs(scaled_cost).max()) or 1.0
        objective = np.append(scaled_cost / unit, 0.0)
        return self._solve(objective, (inflation, inflation), unit)

    def _solve(
        self,
        objective: FloatArray,
        inflation_limits: tuple[float, float],
        unit: float,
    ) -> Vertex:
        """Solve with a few half-spaces, adding violated ones until there are none."""
        p = len(self.scale)
        self._solver.changeColsCost(p + 1, np.arange(p + 1, dtype=np.int32), objective)
        self._solver.changeColBounds(p, *inflation_limits)
        for _ in range(_MAX_ADDING_ROUNDS):
            point, dual = self._run()
            violation = self.offset - self.normal @ point[:p] - point[p]
            violation[self._half_spaces] = 0.0  # already added: within the solver's tolerance
            violation[np.tile(~self._enabled, 2)] = 0.0
            violated = np.flatnonzero(violation > _VIOLATION_TOLERANCE)
            if not len(violated):
                proof = self._proof_from(dual * unit)
                return Vertex(point[:p] * self.scale, float(point[p]), proof)
            worst_first = np.argsort(violation[violated])[::-1]
            self._add(violated[worst_first[:_HALF_SPACE_BATCH]])
        raise NotConverged(
            f"linear programme still meets violated half-spaces after {_MAX_ADDING_ROUNDS} rounds"
        )

    def _run(self) -> tuple[FloatArray, FloatArray]:
        """Solve with the half-spaces added so far; return columns and multipliers."""
        self._solver.run()
        status = self._solver.getModelStatus()
        # "Unknown": the numbers are so large that the tolerance is
        # below their rounding; the multipliers still prove a bound.
        if status.name not in ("kOptimal", "kUnknown"):
            raise NotConverged(
                f"linear programme over {len(self._half_spaces)} half-spaces ended as "
                f"'{self._solver.modelStatusToString(status)}', expected an optimum"
            )
        solution = self._solver.getSolution()
        return np.asarray(solution.col_value), np.asarray(solution.row_dual)

    def _proof_from(self, dual: FloatArray) -> Proof:
        """Return the weights of equations from the multipliers of half-spaces."""
        n = len(self.polytope)
        active = np.flatnonzero(dual > 0)
        half_spaces = self._half_spaces[active]
        equations, position = np.unique(half_spaces % n, return_inverse=True)
        side = np.where(half_spaces < n, 1.0, -1.0)
        weights = np.bincount(position, side * dual[active], minlength=len(equations))
        return Proof(equations, weights / self.polytope.bound[equations])


def _start_highs() -> Any:
    """Return a HiGHS solver with the options used here."""
    import highspy  # here: it takes long to import

    solver = highspy.Highs()
    for option, setting in _HIGHS_OPTIONS.items():
        solver.setOptionValue(option, setting)
    return solver


def reduce_contradiction(polytope: Polytope, proof: Proof) -> Proof:
    """Leave out equations without which a contradiction remains.

    At most p + 1 equations are ever needed (Helly).
    """
    for equation in proof.equations.tolist():
        others = proof.equations[proof.equations != equation]
        if not len(others) or equation not in proof.equations:
            continue
        try:
            vertex = LinearProgram(polytope.take(others)).smallest_inflation()
        except NotConverged:
            continue
        smaller = Proof(others[vertex.proof.equations], vertex.proof.weights)
        as_certain = polytope.contradicted(smaller) or not polytope.contradicted(proof)
        if vertex.inflation > 1 and as_certain:
            proof = smaller
    return proof
