"""Linear regressions with certified values: NIST StRD, Longley and Filip (public domain).

National Institute of Standards and Technology, Statistical Reference Datasets,
https://www.itl.nist.gov/div898/strd/lls/lls.shtml. Where no solver can reach the certified digits
because the regressor is rounded to doubles, the second opinion is Gauss's elimination in fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gough.core.arrays import FloatArray
from gough.fitting.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.fitting.regression import Regression

estimators = pytest.mark.parametrize(
    "estimator",
    [
        LeastSquares(uncertainty="white"),
        WeightedLeastSquares(uncertainty="white"),
        GaussMarkov(uncertainty="white"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)

# GNP deflator, GNP, unemployed, armed forces, population, year; total employment
LONGLEY = np.array(
    [
        [83.0, 234289, 2356, 1590, 107608, 1947, 60323],
        [88.5, 259426, 2325, 1456, 108632, 1948, 61122],
        [88.2, 258054, 3682, 1616, 109773, 1949, 60171],
        [89.5, 284599, 3351, 1650, 110929, 1950, 61187],
        [96.2, 328975, 2099, 3099, 112075, 1951, 63221],
        [98.1, 346999, 1932, 3594, 113270, 1952, 63639],
        [99.0, 365385, 1870, 3547, 115094, 1953, 64989],
        [100.0, 363112, 3578, 3350, 116219, 1954, 63761],
        [101.2, 397469, 2904, 3048, 117388, 1955, 66019],
        [104.6, 419180, 2822, 2857, 118734, 1956, 67857],
        [108.4, 442769, 2936, 2798, 120445, 1957, 68169],
        [110.8, 444546, 4681, 2637, 121950, 1958, 66513],
        [112.6, 482704, 3813, 2552, 123366, 1959, 68655],
        [114.2, 502601, 3931, 2514, 125368, 1960, 69564],
        [115.7, 518173, 4806, 2572, 127852, 1961, 69331],
        [116.9, 554894, 4007, 2827, 130081, 1962, 70551],
    ]
)
LONGLEY_VALUES = np.array(
    [
        -3482258.63459582,
        15.0618722713733,
        -0.358191792925910e-01,
        -2.02022980381683,
        -1.03322686717359,
        -0.511041056535807e-01,
        1829.15146461355,
    ]
)
LONGLEY_STANDARD_ERRORS = np.array(
    [
        890420.383607373,
        84.9149257747669,
        0.334910077722432e-01,
        0.488399681651699,
        0.214274163161675,
        0.226073200069370,
        455.478499142212,
    ]
)

# x, y of a polynomial of tenth degree
FILIP = """
-6.860120914 0.8116
-4.324130045 0.9072
-4.358625055 0.9052
-4.358426747 0.9039
-6.955852379 0.8053
-6.661145254 0.8377
-6.355462942 0.8667
-6.118102026 0.8809
-7.115148017 0.7975
-6.815308569 0.8162
-6.519993057 0.8515
-6.204119983 0.8766
-5.853871964 0.8885
-6.109523091 0.8859
-5.79832982 0.8959
-5.482672118 0.8913
-5.171791386 0.8959
-4.851705903 0.8971
-4.517126416 0.9021
-4.143573228 0.909
-3.709075441 0.9139
-3.499489089 0.9199
-6.300769497 0.8692
-5.953504836 0.8872
-5.642065153 0.89
-5.031376979 0.891
-4.680685696 0.8977
-4.329846955 0.9035
-3.928486195 0.9078
-8.56735134 0.7675
-8.363211311 0.7705
-8.107682739 0.7713
-7.823908741 0.7736
-7.522878745 0.7775
-7.218819279 0.7841
-6.920818754 0.7971
-6.628932138 0.8329
-6.323946875 0.8641
-5.991399828 0.8804
-8.781464495 0.7668
-8.663140179 0.7633
-8.473531488 0.7678
-8.247337057 0.7697
-7.971428747 0.77
-7.676129393 0.7749
-7.352812702 0.7796
-7.072065318 0.7897
-6.774174009 0.8131
-6.478861916 0.8498
-6.159517513 0.8741
-6.835647144 0.8061
-6.53165267 0.846
-6.224098421 0.8751
-5.910094889 0.8856
-5.598599459 0.8919
-5.290645224 0.8934
-4.974284616 0.894
-4.64454848 0.8957
-4.290560426 0.9047
-3.885055584 0.9129
-3.408378962 0.9209
-3.13200249 0.9219
-8.726767166 0.7739
-8.66695597 0.7681
-8.511026475 0.7665
-8.165388579 0.7703
-7.886056648 0.7702
-7.588043762 0.7761
-7.283412422 0.7809
-6.995678626 0.7961
-6.691862621 0.8253
-6.392544977 0.8602
-6.067374056 0.8809
-6.684029655 0.8301
-6.378719832 0.8664
-6.065855188 0.8834
-5.752272167 0.8898
-5.132414673 0.8964
-4.811352704 0.8963
-4.098269308 0.9074
-3.66174277 0.9119
-3.2644011 0.9228
"""
FILIP_VALUES = np.array(
    [
        -1467.48961422980,
        -2772.17959193342,
        -2316.37108160893,
        -1127.97394098372,
        -354.478233703349,
        -75.1242017393757,
        -10.8753180355343,
        -1.06221498588947,
        -0.670191154593408e-01,
        -0.246781078275479e-02,
        -0.402962525080404e-04,
    ]
)
FILIP_STANDARD_ERRORS = np.array(
    [
        298.084530995537,
        559.779865474950,
        466.477572127796,
        227.204274477751,
        71.6478660875927,
        15.2897178747400,
        2.23691159816033,
        0.221624321934227,
        0.142363763154724e-01,
        0.535617408889821e-03,
        0.896632837373868e-05,
    ]
)


def problem(regressor: FloatArray, effort: FloatArray) -> Regression:
    p = regressor.shape[1]
    return Regression(
        regressor=regressor[:, None],
        effort=effort[:, None],
        rows=("y",),
        row_units=("N",),
        parameters=tuple(f"b{k}" for k in range(p)),
        units=("1",) * p,
    )


@pytest.fixture(scope="module")
def longley() -> Regression:
    return problem(np.column_stack([np.ones(len(LONGLEY)), LONGLEY[:, :-1]]), LONGLEY[:, -1])


@pytest.fixture(scope="module")
def filip() -> Regression:
    x, y = np.array([line.split() for line in FILIP.split("\n") if line], float).T
    return problem(np.vander(x, 11, increasing=True), y)


def digits(values: FloatArray, expected: FloatArray) -> float:
    """Return the number of correct decimal digits of the worst value."""
    error = np.abs(values / expected - 1)
    return float(-np.log10(error.max() + 1e-17))


def exact_solution(regression: Regression) -> FloatArray:
    """Solve the normal equations in fractions, without any rounding."""
    stacked = [[Fraction(v) for v in row] for row in regression.stacked()[:, 0].tolist()]
    columns = list(zip(*stacked))
    gram = []
    for column in columns[:-1]:
        gram.append([sum(a * b for a, b in zip(column, other)) for other in columns])
    p = len(gram)
    for k in range(p):
        pivot = gram[k][k]
        gram[k] = [entry / pivot for entry in gram[k]]
        for i in range(p):
            if i != k:
                factor = gram[i][k]
                gram[i] = [a - factor * b for a, b in zip(gram[i], gram[k])]
    return np.array([float(row[-1]) for row in gram])


@estimators
def test_longley_has_twelve_certified_digits(estimator: Any, longley: Regression) -> None:
    estimate = estimator.fit(longley)
    assert digits(estimate.values, LONGLEY_VALUES) > 12
    assert digits(estimate.std, LONGLEY_STANDARD_ERRORS) > 9


def test_filip_has_all_digits_that_doubles_can_hold(filip: Regression) -> None:
    """The powers rounded to doubles have an exact solution that agrees to 7.9 certified digits."""
    exact = exact_solution(filip)
    attainable = digits(exact, FILIP_VALUES)
    assert 7.8 < attainable < 8.0
    for estimator in (LeastSquares, WeightedLeastSquares, GaussMarkov):
        estimate = estimator(uncertainty="white").fit(filip)
        assert digits(estimate.values, exact) > 11
        assert digits(estimate.values, FILIP_VALUES) > attainable - 0.01
        assert digits(estimate.std, FILIP_STANDARD_ERRORS) > 6


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_refined_weights_are_those_of_the_rows(correlation: float) -> None:
    """Two rows of other noise, some equations not valid: refinement moves nothing visible.

    The long problem repeats the short one, which makes it too long to be refined.
    """
    rng = np.random.default_rng(3)
    covariance = np.array([[1.0, 10 * correlation], [10 * correlation, 100.0]])
    regressor = rng.normal(size=(40, 2, 3))
    noise = rng.standard_normal((40, 2)) @ np.linalg.cholesky(covariance).T
    mask = rng.uniform(size=(40, 2)) > 0.2
    repeats = [1, 30]
    values = []
    for count in repeats:
        regression = Regression(
            regressor=np.tile(regressor, (count, 1, 1)),
            effort=np.tile(regressor @ [1.0, 2.0, 3.0] + noise, (count, 1)),
            rows=("a", "b"),
            row_units=("N", "N"),
            parameters=("p", "q", "r"),
            units=("1", "1", "1"),
            mask=np.tile(mask, (count, 1)),
        )
        values.append(
            GaussMarkov(covariance=covariance, uncertainty="white").fit(regression).values
        )
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)
