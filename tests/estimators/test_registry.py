"""Estimators by name, and those nobody has heard of."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.core.regression import Regression
from gough.estimators.estimate import Estimate, Source, Spread, assemble
from gough.estimators.linear.least_squares import LeastSquares
from gough.estimators.problem import Problem
from gough.estimators.registry import ESTIMATORS, estimator, needs
from gough.estimators.selection.selection import essential_parameters


def problem() -> Regression:
    rng = np.random.default_rng(0)
    W = rng.normal(size=(80, 2, 3))
    return Regression(regressor=W, effort=W @ [1.0, 2.0, 0.01] + 0.1 * rng.normal(size=(80, 2)), rows=("x", "y"),
                      row_units=("N", "N"), parameters=("a", "b", "c"), units=("kg",) * 3)


@dataclass(frozen=True)
class Median:
    """Least absolute deviations by a few reweighted passes: an estimator from outside."""

    passes: int = 50

    def fit(self, problem: Problem) -> Estimate:
        samples = problem.sampled()
        assert samples is not None
        W, y = samples.regressor.reshape(-1, len(problem.parameters)), samples.effort.reshape(-1)
        values = np.linalg.lstsq(W, y, rcond=None)[0]
        for _ in range(self.passes):
            weight = 1 / np.sqrt(np.maximum(np.abs(y - W @ values), 1e-6))
            values = np.linalg.lstsq(W * weight[:, None], y * weight, rcond=None)[0]
        covariance = np.linalg.inv(W.T @ W) * np.var(y - W @ values) * np.pi / 2
        source = Source(kind="white", std=np.sqrt(np.diag(covariance)), degrees_of_freedom=np.asarray(100.0))
        return assemble(problem, values, Spread(covariance=covariance, kind="white", sources=(source,),
                                                degrees_of_freedom=source.degrees_of_freedom),
                        method="least absolute deviations", condition_number=1.0)


def test_every_name_leads_to_frozen_settings_without_data() -> None:
    for name, entry in ESTIMATORS.items():
        assert estimator(name) is entry
        assert is_dataclass(entry)
        with pytest.raises(AttributeError):
            setattr(entry, fields(entry)[0].name, None)


def test_linear_ones_answer_a_problem_by_name_alone() -> None:
    for name, entry in ESTIMATORS.items():
        if not needs(entry):
            assert np.abs(estimator(name).fit(problem()).values - [1.0, 2.0, 0.01]).max() < 0.1
    assert {name for name in ESTIMATORS if needs(ESTIMATORS[name]) == "gains"} == {"tls", "tls_paper", "gain_ml"}
    assert needs(ESTIMATORS["feasible"]) == "model"


def test_an_estimator_from_outside_is_as_good_as_one_of_ours() -> None:
    mine: Any = Median()
    assert estimator(mine) is mine
    assert needs(mine) == ""
    found = mine.fit(problem())
    assert np.abs(found.values - LeastSquares().fit(problem()).values).max() < 0.05
    np.testing.assert_allclose(found.residual_rms, 0.1, rtol=0.3)
    assert essential_parameters(problem(), mine, ratio=10.0).removed == ("c",)
    assert Estimate.from_dict(found.to_dict()).summary() == found.summary()


def test_unknown_names_and_things_are_refused() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'gm'"):
        estimator("gmm")
    with pytest.raises(InvalidInput, match="int has none"):
        estimator(3)  # type: ignore[arg-type]
