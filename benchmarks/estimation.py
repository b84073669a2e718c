"""Estimators on condensed data beside statsmodels, and the online filter."""

from __future__ import annotations

import sys
import time

import numpy as np
import statsmodels.api as sm

from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.load_fit import observe_load
from gough.fitting.regression import Regression


def problem(samples: int, rows: int = 6, parameters: int = 48) -> tuple[Regression, np.ndarray]:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((samples, rows, parameters))
    true = rng.standard_normal(parameters)
    noise = np.linspace(0.1, 2.0, rows)
    y = W @ true + noise * rng.standard_normal((samples, rows))
    return Regression(
        regressor=W,
        effort=y,
        rows=tuple(f"r{j}" for j in range(rows)),
        row_units=("N",) * rows,
        parameters=tuple(f"p{k}" for k in range(parameters)),
        units=("kg",) * parameters,
    ), noise


def main(samples: int = 15_000) -> list[tuple[str, str, str, str]]:
    """Return rows: what, Gough, peer, remark."""
    rows = []
    data, noise = problem(samples)
    condensed = data.statistics()
    started = time.perf_counter()
    ours = WeightedLeastSquares(uncertainty="white").fit(condensed)
    t_ours = time.perf_counter() - started
    W, y = data.regressor.reshape(-1, 48), data.effort.reshape(-1)
    weights = np.tile(1 / noise**2, samples)
    started = time.perf_counter()
    theirs = sm.WLS(y, W, weights=weights).fit()
    t_peer = time.perf_counter() - started
    rows.append(
        (
            f"weighted least squares, {6 * samples:,} equations, 48 parameters, condensed before",
            f"{t_ours * 1e3:.1f} ms (weights iterated)",
            f"{t_peer * 1e3:.0f} ms (statsmodels, weights given)",
            f"{t_peer / t_ours:.0f} times; largest difference "
            f"{np.abs(ours.values - theirs.params).max():.1e}",
        )
    )
    rng = np.random.default_rng(1)
    W = rng.standard_normal((samples // 3, 6, 10))
    effort = W @ np.arange(1.0, 11.0) + rng.standard_normal((samples // 3, 6))
    gram, prior = np.zeros((11, 11)), np.full(10, 50.0)
    started = time.perf_counter()
    for k in range(len(W)):
        sample = np.column_stack([W[k], effort[k]])
        gram = gram + sample.T @ sample
        found = observe_load(gram, np.zeros((11, 11)), prior)
    rate = len(W) / (time.perf_counter() - started)
    rows.append(
        (
            "ten load parameters, six legs, solved after every sample",
            f"{rate / 1e3:.1f} kHz",
            "-",
            f"largest error {np.abs(found.values - np.arange(1.0, 11.0)).max():.2f}",
        )
    )
    return rows


if __name__ == "__main__":
    for row in main(300 if "--small" in sys.argv else 15_000):
        print(" | ".join(row))
