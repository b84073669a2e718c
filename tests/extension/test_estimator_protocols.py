"""Estimators state the problem they need as a type; what cannot be used is refused clearly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import gough
from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import LeastSquares
from gough.fitting.problem import SimulationProblem
from gough.fitting.regression import Regression
from gough.logs.recording import Recording


class NeedsWords:
    needs = "simulation"

    def fit(self, problem: object) -> object:
        return problem


class NeedsAnything:
    needs = dict

    def fit(self, problem: object) -> object:
        return problem


class ReturnsValues:
    def fit(self, problem: Regression) -> object:
        return problem.effort


@dataclass(frozen=True)
class Simulates:
    """Fits start values and simulates each log with them once."""

    needs: ClassVar[type] = SimulationProblem

    def fit(self, problem: Any) -> Estimate:
        estimate = LeastSquares().fit(problem.regression)
        values = dict(zip(estimate.parameters, estimate.values.tolist()))
        simulations = problem.simulate(values)
        assert len(simulations) == len(problem.recordings)
        return replace(estimate, method="simulated")


@pytest.mark.parametrize(
    ("estimator", "text"),
    [
        (NeedsWords(), "NeedsWords needs 'simulation', expected a problem type"),
        (NeedsAnything(), "NeedsAnything needs dict, which identify does not offer"),
        (
            ReturnsValues(),
            "fit of the estimator ReturnsValues returned a ndarray, expected a gough",
        ),
        (object(), "expected one of ls, wls, gm"),
    ],
)
def test_an_estimator_that_cannot_be_used_is_refused_with_the_reason(
    estimator: Any, text: str, five_bar: Model, five_bar_log: Recording
) -> None:
    with pytest.raises(InvalidInput, match=text):
        gough.identify(five_bar, [five_bar_log], estimator=estimator)


def test_an_estimator_may_simulate_the_robot_along_its_logs(
    five_bar: Model, five_bar_log: Recording
) -> None:
    short = five_bar_log.take(slice(0, 1500))
    result = gough.identify(five_bar, [short], estimator=Simulates())
    assert result.estimate.method == "simulated"
