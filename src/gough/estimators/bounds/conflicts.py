"""How near to empty a feasible set is, and which samples contradict each other if it is empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil

import numpy as np

from gough.core.arrays import IntArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.intervals import Interval
from gough.estimators.bounds.bounded_problem import BoundedProblem, Equations
from gough.estimators.bounds.polytope import Programme, irreducible, linearised

_NAMED = 10  # equations spelled out in a message
_SPLIT = 6  # parameters of open sign that are split at zero: 2^6 polytopes
_AMPLE = 1.2  # bounds over the smallest that fit: at 1.001 the boxes of a hexapod excluded 7 to 14 of 24 parameters


def orthants(equations: Equations, box: Interval) -> Iterator[tuple[dict[int, int], Interval]]:
    """Split a box at zero along parameters whose column is uncertain and whose sign it leaves open.

    Of more than six those are split whose columns are the least certain.

    Yields:
        The sign of each parameter that was split, and the part of the box.
    """
    doubt = {j: float((equations.regressor.upper[:, j] - equations.regressor.lower[:, j]).max()
                      * min(-box.lower[j], box.upper[j])) for j in equations.open_signs(box)}
    split = sorted(sorted(doubt, key=lambda j: -doubt[j])[:_SPLIT])
    for signs in product((-1, 1), repeat=len(split)):
        low, high = box.lower.copy(), box.upper.copy()
        for j, sign in zip(split, signs):
            (low if sign > 0 else high)[j] = 0.0
        yield dict(zip(split, signs)), Interval(low, high)


def named(problem: BoundedProblem, equations: IntArray | Sequence[int]) -> tuple[tuple[tuple[int, int], ...], str]:
    """Return equations as (sample, row) pairs, and in words."""
    every = problem.equations
    pairs = tuple((int(every.sample[k]), int(every.row[k])) for k in equations)
    words = ", ".join(f"sample {sample} {problem.rows[row]}" for sample, row in pairs[:_NAMED])
    return pairs, words + (", ..." if len(pairs) > _NAMED else "")


def upward(factor: float) -> str:
    """Return a factor with three digits, never smaller than it is."""
    unit = 10.0 ** (np.floor(np.log10(max(factor, 1e-300))) - 2)
    return f"{ceil(factor / unit * (1 - 1e-12)) * unit:.3g}"


def verge(ratio: float) -> list[str]:
    """Return the warning for error bounds of which `ratio` times would still fit, if they are nearly too small."""
    if ratio * _AMPLE <= 1:
        return []
    return [f"the set is nearly empty: {upward(ratio)} times the error bounds would be the smallest that fit anything. "
            "Such a box is small because the data almost contradict each other, and bounds that are a little too small "
            "exclude the truth: take them from what sensors and model can be off by, not from what fits"]


def explain(problem: BoundedProblem) -> InconsistentData:
    """Return the error for a problem that is known to have no feasible parameter vector.

    Returns:
        Carries `samples` (pairs of sample and row index), `factor` (no smaller factor on the error bounds fits; not one
        to use) and `certified` (whether interval arithmetic proves the contradiction of these samples; it cannot if the
        prior is unbounded).
    """
    equations = problem.equations
    what = "no parameter vector in the prior fits all samples within the error bound"
    try:
        polytopes = [linearised(equations, box) for _, box in orthants(equations, problem.prior)]
        centers = [Programme(polytope).smallest_inflation() for polytope in polytopes]
        proofs = [irreducible(polytope, center.proof) for polytope, center in zip(polytopes, centers)]
    except (InvalidInput, NotConverged) as error:
        return InconsistentData(f"{what}; which samples contradict each other cannot be said: {error}", samples=())
    factor = min(center.inflation for center in centers)
    pairs, words = named(problem, np.unique(np.concatenate([proof.equations for proof in proofs])))
    return InconsistentData(
        f"{what}; {len(pairs)} equations contradict each other or the prior: {words}; whatever the parameters, some "
        f"error is about {upward(factor)} times its bound. Check the model, the prior and outliers, and take the "
        "error bound from what sensors and model can be off by: a bound that just fits encloses hardly anything and "
        "excludes the truth", samples=pairs, factor=factor,
        certified=all(proof.contradicts(polytope) for polytope, proof in zip(polytopes, proofs)))
