"""The rules that need the logs: known noise, directions that matter, hypotheses that make a result
wrong.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gough.fitting.least_squares import GaussMarkov
from gough.fitting.regression import Regression
from gough.identification.diagnosis import Diagnosis, Mistake
from gough.verdict import judge
from gough.verdict.diagnosis.hypotheses import HYPOTHESES
from gough.verdict.judge import (
    expected_error,
    fault_notices,
    known_noise,
    noise_bounds,
    warn_if_a_fault_explains_the_residual,
)
from gough.verdict.rules import misfit, squared_memory

ROWS, UNITS = ("a", "b"), ("N", "N")


def part(covariance: np.ndarray | None) -> Regression:
    return Regression(
        regressor=np.ones((3, 2, 1)),
        effort=np.ones((3, 2)),
        rows=ROWS,
        row_units=UNITS,
        parameters=("p.m",),
        units=("kg",),
        covariance=covariance,
    )


def test_the_noise_of_several_logs_is_the_mean_of_their_powers() -> None:
    each = np.stack([np.diag([4.0, 1.0]), np.diag([16.0, 1.0]), np.diag([16.0, 1.0])])
    np.testing.assert_allclose(
        known_noise([part(np.diag([4.0, 9.0])), part(each)]), np.sqrt([(4 + 12) / 2, (9 + 1) / 2])
    )
    assert known_noise([part(np.eye(2)), part(None)]) is None
    assert known_noise([]) is None


def moved(error: np.ndarray) -> tuple[Regression, SimpleNamespace]:
    """A motion of 1 and 2 Hz at 100 Hz, predicted but for an error, (t,), in one row; the other row
    is exact.
    """
    time = np.arange(6000) / 100
    said = np.stack(
        [np.sin(2 * np.pi * time) + 0.5 * np.cos(4 * np.pi * time), np.cos(2 * np.pi * time)],
        axis=1,
    )
    own = Regression(
        regressor=said[:, :, None],
        effort=said + error[:, None] * [1.0, 0.0],
        rows=ROWS,
        row_units=UNITS,
        parameters=("p.m",),
        units=("kg",),
        time=time,
    )
    return own, SimpleNamespace(predict=lambda part: part.regressor[:, :, 0])


@pytest.mark.parametrize(
    ("memory", "least", "most"),
    [
        (0.0, (0.27, 0.3), (0.3, 0.33)),
        (0.6, (0.1, 0.2), (0.29, 0.4)),
        (-0.6, (0.1, 0.2), (0.29, 0.4)),
    ],
)
def test_noise_shows_beyond_the_band_of_the_motion(
    memory: float, least: tuple, most: tuple
) -> None:
    """Of 0.3: white noise is found, red and blue noise lie between what is least and most."""
    rng, noise = np.random.default_rng(3), np.zeros(6000)
    for k in range(1, 6000):
        noise[k] = memory * noise[k - 1] + 0.3 * np.sqrt(1 - memory**2) * rng.standard_normal()
    own, estimate = moved(noise)
    found = noise_bounds([own, own], estimate)  # type: ignore[arg-type]
    assert found is not None
    for (low, high), bound in zip((least, most), found):
        assert low <= bound[0] <= high
        assert bound[1] == pytest.approx(0.0, abs=1e-12)


def test_an_error_of_the_model_is_not_taken_for_noise() -> None:
    time = np.arange(6000) / 100
    for error in (
        np.sin(2 * np.pi * time + 1),
        np.sign(np.sin(2 * np.pi * time)),
    ):  # a wrong mass, wrong friction
        own, estimate = moved(0.3 * error)
        found = noise_bounds([own], estimate)  # type: ignore[arg-type]
        assert found is not None
        assert found[0][0] < 0.06
        assert found[1][0] < 0.16  # the harmonics of a square wave have 19 % of its power


def test_a_motion_that_fills_the_band_tells_nothing_of_noise_and_repetitions_tell_all() -> None:
    own, estimate = moved(np.zeros(6000))
    fast = replace(own, regressor=np.random.default_rng(0).standard_normal(own.regressor.shape))
    assert noise_bounds([fast], estimate) is None  # type: ignore[arg-type]
    assert noise_bounds([own, fast], estimate) is None  # type: ignore[arg-type]
    assert noise_bounds([], estimate) is None  # type: ignore[arg-type]
    known = noise_bounds([part(np.diag([4.0, 9.0]))], estimate)  # type: ignore[arg-type]
    assert known is not None
    np.testing.assert_allclose(known, [[2.0, 3.0]] * 2)


def test_the_error_to_expect_is_noise_and_what_sigmas_allow() -> None:
    """Sigmas of 0.3 and 0.4; rows are 1 and 2 times the first parameter, and the second row counts
    in two samples.
    """
    W = np.zeros((4, 2, 2))
    W[:, 0, 0], W[:2, 1, 0], W[2:, 1, 1] = 1.0, 2.0, 10.0
    mask = np.array([[True, True], [True, True], [True, False], [True, False]])
    own = Regression(
        regressor=W,
        effort=np.ones((4, 2)),
        rows=ROWS,
        row_units=UNITS,
        parameters=("p.m", "q.m"),
        units=("kg", "kg"),
        mask=mask,
    )
    estimate = SimpleNamespace(
        parameters=("q.m", "p.m"), covariance=np.array([[0.16, 0.05], [0.05, 0.09]])
    )
    found = expected_error([own], estimate, np.array([0.4, 0.0]))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, [0.5, 0.6])
    np.testing.assert_allclose(expected_error([own], estimate, None), [0.3, 0.6])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*HYPOTHESES, "effort delay", "missing offset"])
def test_only_what_is_there_or_not_is_an_error(name: str) -> None:
    found = fault_notices(
        Diagnosis(robot="r", mistakes=(Mistake(name=name, place="a", text="t", advice="cure"),))
    )
    level = "error" if name in HYPOTHESES else "warning"
    assert [(n.rule, n.level, n.advice) for n in found] == [(name, level, "cure")]


@pytest.mark.parametrize(
    ("moved", "effect", "speaks"),
    [(1.0, 0.009, False), (1.2, 0.009, True), (1.0, 0.011, True), (1.2, 0.011, True)],
)
def test_a_direction_speaks_if_it_moves_a_parameter_or_an_effort(
    monkeypatch: pytest.MonkeyPatch, moved: float, effect: float, speaks: bool
) -> None:
    """One suspicion of size 2 that moves the second of two parameters, whose sigma is 0.5, by so
    many sigmas.
    """
    fitted = SimpleNamespace(size=np.array([2.0]), sigma=np.array([0.1]), share=0.3)
    standing = SimpleNamespace(
        evidence=SimpleNamespace(base=SimpleNamespace(names=("p.m", "q.m")), views=[None]),
        ranked=lambda: [(SimpleNamespace(columns=(7,)), fitted)],
        effect=lambda columns, size: effect,
        chance=lambda suspicion, fitted: 1e-5,
        scores=SimpleNamespace(taken_in=lambda column: np.array([0.0, moved * 0.5 / 2.0])),
    )
    estimate = SimpleNamespace(parameters=("q.m", "p.m"), std=np.array([0.5, 1e-9]))
    monkeypatch.setattr(judge, "words", lambda *_: "a delay")
    found = warn_if_a_fault_explains_the_residual(standing, estimate)  # type: ignore[arg-type]
    assert bool(found) == speaks
    if found:
        assert found[0].numbers == {
            "chance": 1e-5,
            "fraction": 0.3,
            "change": pytest.approx(moved),
        }
        assert found[0].level == "warning"


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_memory_is_that_of_a_mean_square(rho: float) -> None:
    """Autocorrelation rho^l: 1 + 2 sum rho^2l = (1 + rho^2) / (1 - rho^2)."""
    noise = np.random.default_rng(0).standard_normal((6, 20000))
    for k in range(1, noise.shape[1]):
        noise[:, k] = rho * noise[:, k - 1] + np.sqrt(1 - rho**2) * noise[:, k]
    assert squared_memory(noise) == pytest.approx((1 + rho**2) / (1 - rho**2), rel=0.1)


def test_a_misfit_pays_for_the_parameters_that_were_fitted() -> None:
    """Twelve parameters on thirty-two equations: unpaid, the residual of a right model has 0.6 of
    its noise.
    """
    ratio = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        W = rng.standard_normal((16, 2, 12))
        each = W @ np.ones(12) + rng.standard_normal((6, 16, 2))
        names = tuple(f"p{k}.m" for k in range(12))
        own = Regression(
            regressor=W,
            effort=each.mean(axis=0),
            rows=ROWS,
            row_units=UNITS,
            parameters=names,
            units=("kg",) * 12,
            replicates=each,
        )
        found = misfit(
            own,
            GaussMarkov(iterations=1).fit(
                Regression(
                    regressor=W,
                    effort=own.effort,
                    rows=ROWS,
                    row_units=UNITS,
                    parameters=names,
                    units=("kg",) * 12,
                )
            ),
        )
        assert found is not None
        ratio.append(found.ratio)
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.12)
