"""Estimators by name: one entry each. An object that is not here can be passed itself."""

from __future__ import annotations

from gough.core.errors import InvalidInput, nearest
from gough.estimators.gains.maximum_likelihood import MaximumLikelihoodGains
from gough.estimators.gains.total_least_squares import TotalLeastSquares
from gough.estimators.linear.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.estimators.linear.robust import Robust
from gough.estimators.physical.feasible import Feasible
from gough.estimators.problem import Estimator

ESTIMATORS: dict[str, Estimator] = {
    "ls": LeastSquares(),
    "wls": WeightedLeastSquares(),
    "gm": GaussMarkov(),
    "robust": Robust(),
    "feasible": Feasible(),
    "tls": TotalLeastSquares(),
    "tls_paper": TotalLeastSquares(scaling="none"),
    "gain_ml": MaximumLikelihoodGains(),
}


def estimator(chosen: str | Estimator) -> Estimator:
    """Return an estimator by its name, or the object itself.

    Raises:
        InvalidInput: No such name, or an object without `fit`.
    """
    if isinstance(chosen, str):
        if chosen not in ESTIMATORS:
            raise InvalidInput(f"no estimator '{chosen}'{nearest(chosen, ESTIMATORS)}", name=chosen)
        return ESTIMATORS[chosen]
    if not callable(getattr(chosen, "fit", None)):
        raise InvalidInput(f"an estimator has a method fit(problem); {type(chosen).__name__} has none")
    return chosen


def needs(chosen: Estimator) -> str:
    """Return what more than a linear problem an estimator takes: 'gains', 'model', or nothing."""
    return str(getattr(chosen, "needs", ""))
