"""Messages about feasible sets that are empty or nearly so."""

from __future__ import annotations

from math import ceil

import numpy as np

from gough.bounding.linear_program import LinearProgram, reduce_contradiction
from gough.bounding.polytope import equations_of, linearise, split_signs
from gough.bounding.problem import BoundedProblem
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.notices import Notice

# Error bounds over the smallest that fit below which a box is doubtful.
# Tuned on a hexapod: at 1.001 its boxes excluded 7 to 14 of 24
# parameters.
_AMPLE_BOUND_RATIO = 1.2


def format_rounded_up(factor: float) -> str:
    """Format a factor with three digits, rounded up."""
    last_digit = 10.0 ** (np.floor(np.log10(max(factor, 1e-300))) - 2)
    return f"{ceil(factor / last_digit * (1 - 1e-12)) * last_digit:.3g}"


def warn_if_nearly_empty(ratio: float) -> list[Notice]:
    """Warn if error bounds only a little smaller would leave the feasible set empty.

    Args:
        ratio: Smallest factor on the error bounds at which some
            parameters still fit.
    """
    if ratio * _AMPLE_BOUND_RATIO <= 1:
        return []
    notice = Notice(
        rule="nearly empty",
        level="warning",
        text=f"the set is nearly empty: {format_rounded_up(ratio)} times the error bounds would be "
        "the smallest that fit anything; such a box is small because the data almost contradict "
        "each other, and bounds that are a little too small exclude the truth",
        advice="take them from the accuracy of sensors and model, not from what fits",
        numbers={"ratio": ratio},
    )
    return [notice]


def explain_contradiction(problem: BoundedProblem) -> InconsistentData:
    """Return the error for a problem that is known to have no feasible parameter vector.

    It carries `samples` (pairs of sample and row index), `factor` (no
    smaller one on the error bounds fits; not one to use) and
    `certified` (whether interval arithmetic proves the contradiction;
    it cannot if the prior is unbounded).
    """
    equations = problem.equations
    summary = "no parameter vector in the prior fits all samples within the error bound"
    proofs = []
    inflations = []
    certified = True
    try:
        # every set of signs has a contradiction of its own
        for _, box in split_signs(equations, problem.prior):
            polytope = linearise(equations, box)
            vertex = LinearProgram(polytope).smallest_inflation()
            proof = reduce_contradiction(polytope, vertex.proof)
            inflations.append(vertex.inflation)
            proofs.append(proof)
            certified = certified and polytope.contradicted(proof)
    except (InvalidInput, NotConverged) as error:
        return InconsistentData(
            f"{summary}; the samples that contradict each other could not be determined: {error}",
            samples=(),
        )
    factor = min(inflations)
    pairs = problem.pairs_of(np.unique(equations_of(proofs)))
    return InconsistentData(
        f"{summary}; {len(pairs)} equations contradict each other or the prior: "
        f"{problem.list_pairs(pairs)}; whatever the parameters, some error is about "
        f"{format_rounded_up(factor)} times its bound. Check the model, the prior and outliers, "
        "and take the error bound from the accuracy of sensors and model: a bound that just fits "
        "encloses hardly anything and excludes the truth",
        samples=pairs,
        factor=factor,
        certified=certified,
    )
