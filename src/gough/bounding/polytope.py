"""The feasible set of a bounded-error problem as a polytope, and bounds that hold despite rounding.

Each equation is a pair of half-spaces (the strip (24) of P03). Any
non-negative weights of some half-spaces give a bound of a linear
function by weak duality; evaluated in interval arithmetic over a box it
is rigorous (Neumaier & Shcherbina 2004, Jansson 2004).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gough.bounding.problem import Equations
from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidInput
from gough.core.intervals import Interval, down, product

# parameters of open sign that are split at zero: 2^6 polytopes
_MAX_SIGNS_SPLIT = 6


class Proof(NamedTuple):
    """A weighted sum of equations that proves a bound; checking it needs no solver."""

    equations: IntArray  # (k,)
    # (k,), positive for W theta >= effort - bound, negative for W theta
    # <= effort + bound
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Polytope:
    """{theta in box : normal theta >= offset}, two half-spaces for each of n equations.

    Half-space k < n is W theta >= effort - bound of equation k,
    half-space n + k is its W theta <= effort + bound.
    """

    normal: FloatArray  # (2 n, p)
    # (2 n,), rounded so that the half-space is never too small
    offset: FloatArray
    bound: FloatArray  # (n,)
    box: Interval  # (p,)

    def __len__(self) -> int:
        return len(self.bound)

    def take(self, equations: IntArray | BoolArray) -> Polytope:
        """Return the polytope of some of the equations, in the same box."""
        index = np.arange(len(self))[equations]
        half_spaces = np.concatenate([index, index + len(self)])
        return Polytope(
            self.normal[half_spaces],
            self.offset[half_spaces],
            self.bound[index],
            self.box,
        )

    def excess(self, point: FloatArray) -> FloatArray:
        """Return the error of both sides of each equation at a point, in error bounds, (2, n).

        An equation is violated where this exceeds one.
        """
        distance = self.offset - self.normal @ point
        relative = distance / np.tile(self.bound, 2) + 1.0
        return relative.reshape(2, -1)

    def minimum(self, proof: Proof, cost: FloatArray) -> float:
        """Return a lower bound of cost @ theta over the polytope; it holds for any weights.

        For lambda >= 0 and G theta >= g,

            c theta = (c - lambda G) theta + lambda G theta
                   >= min over the box of (c - lambda G) theta  +  lambda g.
        """
        is_lower_side = proof.weights > 0
        chosen = np.where(is_lower_side, proof.equations, proof.equations + len(self))
        weights = np.abs(proof.weights)[None]
        combined_normal = product(weights, Interval.point(self.normal[chosen]))[0]
        combined_offset = product(weights, Interval.point(self.offset[chosen]))[0]
        reduced_cost = Interval.point(cost) - combined_normal
        minimum = combined_offset + (reduced_cost * self.box).sum()
        return float(minimum.lower)

    def contradicted(self, proof: Proof) -> bool:
        """Check whether a proof shows that no point of the box satisfies its equations.

        It does if it bounds 0 theta from below by a positive number
        (Farkas).
        """
        return self.minimum(proof, np.zeros(self.normal.shape[1])) > 0


def linearise(equations: Equations, box: Interval) -> Polytope:
    """Return the smallest polytope around the parameters in a box that satisfy every equation.

    Some G in [L, U] has G theta >= g exactly if

        sum_j max(L_j theta_j, U_j theta_j) >= g.

    Where the box fixes the sign of theta_j that term is linear.
    Elsewhere it lies below its chord over the box, slope theta_j +
    intercept.
    """
    lower = equations.regressor.lower
    upper = equations.regressor.upper
    effort = equations.effort_interval
    offset = np.concatenate([effort.lower, -effort.upper])
    if equations.exact:
        return Polytope(np.vstack([lower, -lower]), offset, equations.bound, box)
    low = np.vstack([lower, -upper])
    high = np.vstack([upper, -lower])
    normal = np.where(box.lower >= 0, high, low)
    for j in equations.open_signs(box):
        a = box.lower[j]
        b = box.upper[j]
        if not np.isfinite(b - a):
            raise InvalidInput(
                f"column {j} of the regressor is uncertain and its parameter is in [{a}, {b}]: "
                "give a finite prior or one that fixes its sign"
            )
        chord = (high[:, j] * b - low[:, j] * a) / (b - a)
        slope = np.where(low[:, j] < high[:, j], chord, low[:, j])
        normal[:, j] = slope
        at_a = (Interval.point(low[:, j]) - Interval.point(slope)) * Interval.point(a)
        at_b = (Interval.point(high[:, j]) - Interval.point(slope)) * Interval.point(b)
        intercept = np.maximum(at_a.upper, at_b.upper)
        offset = down(offset - intercept)
    return Polytope(normal, offset, equations.bound, box)


def equations_of(proofs: Iterable[Proof]) -> IntArray:
    """Return all equations that some proofs use."""
    return np.concatenate([np.empty(0, np.int64), *(proof.equations for proof in proofs)])


def split_signs(equations: Equations, box: Interval) -> Iterator[tuple[dict[int, int], Interval]]:
    """Split a box at zero along the parameters with an uncertain column and an open sign.

    Of more than six such parameters, those with the most uncertain
    columns are split. Yields the sign of each parameter that was split,
    and that piece of the box.
    """
    uncertainty = {}
    for j in equations.open_signs(box):
        column_width = equations.regressor.upper[:, j] - equations.regressor.lower[:, j]
        reach = min(-box.lower[j], box.upper[j])
        uncertainty[j] = float(column_width.max() * reach)
    most_uncertain = sorted(uncertainty, key=lambda j: -uncertainty[j])
    split = sorted(most_uncertain[:_MAX_SIGNS_SPLIT])
    for signs in itertools.product((-1, 1), repeat=len(split)):
        lower = box.lower.copy()
        upper = box.upper.copy()
        for j, sign in zip(split, signs):
            if sign > 0:
                lower[j] = 0.0
            else:
                upper[j] = 0.0
        yield dict(zip(split, signs)), Interval(lower, upper)
