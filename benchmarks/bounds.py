"""Boxes for 20,000 equations in 14 parameters: time, and how far the proven bounds are from the
attained ones.

Then 1,000 small problems with outliers just beyond the bound and far beyond it: how often a box
misses the truth.

The large problem has the shape and the numbers of the H4 (P03 Table 2, bound 1.5 N m, priors [0,
2], noise 0.3 N m): four motors with rotor inertia, viscous and Coulomb friction each, a common mass
and inertia.
Run: python benchmarks/bounds.py [--misses] [--small]
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from time import perf_counter

import numpy as np
from scipy.optimize import linprog

from gough.bounding.solve import BoundedProblem, ExactBox, GaussSeidel, TrimmedBox
from gough.bounding.verify import verify
from gough.core.arrays import frozen
from gough.core.errors import InconsistentData
from gough.fitting.regression import Regression

TRUTH = np.array(
    [
        0.0141,
        0.0120,
        0.0153,
        0.0213,
        1.0492,
        0.0030,
        0.1636,
        0.0560,
        0.0930,
        0.0917,
        1.1453,
        1.0950,
        0.7222,
        0.9932,
    ]
)
NAMES = (
    *(f"ia{j}" for j in range(1, 5)),
    "m",
    "I",
    *(f"fv{j}" for j in range(1, 5)),
    *(f"fs{j}" for j in range(1, 5)),
)
UNITS = ("kg m2",) * 4 + ("kg", "kg m2") + ("N m s/rad",) * 4 + ("N m",) * 4


def recording(samples: int, seed: int = 0) -> tuple[Regression, np.ndarray]:
    """Return a regression of the H4's shape on a Fourier motion, and the joint velocities, (t,
    4).
    """
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / 1000  # [s]
    omega = 2 * np.pi * 0.4 * np.arange(1, 6)  # [rad/s]
    a, b = rng.standard_normal((2, 4, 5)) * 0.3 / np.arange(1, 6)
    sine, cosine = np.sin(np.outer(time, omega)), np.cos(np.outer(time, omega))
    q = sine @ a.T - cosine @ b.T
    qd = cosine @ (a * omega).T + sine @ (b * omega).T
    qdd = -sine @ (a * omega**2).T + cosine @ (b * omega**2).T
    jacobian = 0.26 * np.stack([np.cos(q + 0.3 * i) for i in range(3)], axis=-1)  # (t, 4, 3)
    acceleration = np.einsum("tji,tj->ti", jacobian, qdd) + np.array([0.0, 0.0, 9.81])
    regressor = np.zeros((samples, 4, 14))
    for j in range(4):
        regressor[:, j, j], regressor[:, j, 6 + j], regressor[:, j, 10 + j] = (
            qdd[:, j],
            qd[:, j],
            np.sign(qd[:, j]),
        )
    regressor[:, :, 4] = np.einsum("tji,ti->tj", jacobian, acceleration)
    regressor[:, :, 5] = 5 * np.sin(q) * qdd.sum(axis=1, keepdims=True)
    effort = regressor @ TRUTH + 0.3 * rng.standard_normal((samples, 4)).clip(-4, 4)  # [N m]
    rows = tuple(f"motor{j}" for j in range(1, 5))
    return Regression(
        regressor=regressor,
        effort=effort,
        rows=rows,
        row_units=("N m",) * 4,
        parameters=NAMES,
        units=UNITS,
    ), qd


def small_problem(
    seed: int, reach: tuple[float, float]
) -> tuple[BoundedProblem, np.ndarray, np.ndarray]:
    """Return 100 equations in 4 parameters, the truth, and which equations are wrong: errors of 0.5
    + `reach`.
    """
    rng = np.random.default_rng(seed)
    regressor, truth = rng.standard_normal((100, 1, 4)), rng.uniform(0.2, 1.8, 4)
    wrong = np.zeros((100, 1), bool)
    wrong[rng.choice(100, 1 + seed % 4, replace=False)] = True
    error = rng.uniform(-0.5, 0.5, (100, 1))
    error[wrong] = rng.choice([-1, 1], wrong.sum()) * (0.5 + rng.uniform(*reach, wrong.sum()))
    names = tuple(f"p{j}" for j in range(4))
    data = Regression(
        regressor=regressor,
        effort=regressor @ truth + error,
        rows=("a",),
        row_units=("N",),
        parameters=names,
        units=("kg",) * 4,
    )
    return problem_of(data, 0.5), truth, wrong


def misses(problems: int = 500) -> None:
    """Print how many of 2 x 500 boxes miss the truth, and their widths beside the box of the right
    equations alone.
    """
    print(
        f"\n{problems} problems each: 100 equations, 4 parameters, 1 to 4 wrong equations, as many "
        f"allowed"
    )
    print(f"{'':42s} {'missed':>9s} {'refused':>9s} {'median width / right equations only':>38s}")
    for kind, reach in (
        ("mild (1 to 1.6 bounds)", (0.0, 0.3)),
        ("gross (5 to 20 bounds)", (2.0, 9.5)),
    ):
        missed, refused = {"guaranteed": 0, "trimmed": 0}, {"guaranteed": 0, "trimmed": 0}
        ratio: dict[str, list[float]] = {"guaranteed": [], "trimmed": []}
        for seed in range(problems):
            problem, truth, wrong = small_problem(seed, reach)
            best = ExactBox().fit(replace(problem, used=~wrong)).width
            for name, method in (("guaranteed", ExactBox), ("trimmed", TrimmedBox)):
                try:
                    box = method(outliers=int(wrong.sum())).fit(problem)
                except InconsistentData:
                    refused[name] += 1
                    continue
                missed[name] += not box.contains(truth)
                ratio[name].append(float(np.exp(np.mean(np.log(box.width / best)))))
        for name in missed:
            print(
                f"{kind + ', ' + name:42s} {missed[name]:9d} {refused[name]:9d} "
                f"{np.median(ratio[name]):38.2f}"
            )


def problem_of(data: Regression, error_bound: float) -> BoundedProblem:
    """State the bounded-error problem of a regression with all parameters between 0 and 2."""
    p, exact = len(data.parameters), frozen(data.regressor)
    return BoundedProblem(
        regressor_lower=exact,
        regressor_upper=exact,
        effort=data.effort,
        error_bound=np.array(error_bound),
        prior_lower=np.zeros(p),
        prior_upper=np.full(p, 2.0),
        rows=data.rows,
        row_units=data.row_units,
        parameters=data.parameters,
        units=data.units,
    )


def main(samples: int = 5000) -> None:
    """Print one line for each method."""
    regression, qd = recording(samples)
    problem = problem_of(regression, 1.5)
    lower, upper = regression.regressor.copy(), regression.regressor.copy()
    for j in range(4):
        slow = np.abs(qd[:, j]) < 0.2
        lower[slow, j, 10 + j], upper[slow, j, 10 + j] = -1.0, 1.0
    uncertain = replace(problem, regressor_lower=lower, regressor_upper=upper)
    rng = np.random.default_rng(1)
    effort = np.array(regression.effort)
    gross = rng.random(effort.shape) < 0.1
    effort[gross] += rng.choice([-1, 1], gross.sum()) * rng.uniform(3, 15, gross.sum())
    spoilt = replace(problem, effort=effort)
    exact = ExactBox().fit(problem)
    print(f"{problem.effort.size} equations, {len(NAMES)} parameters")
    print(
        f"{'method':42s} {'time [s]':>9s} {'truth inside':>12s} {'width / exact':>13s} "
        f"{'relative gap':>12s}"
    )
    for name, method, case in (
        ("Gauss-Seidel, preconditioned (P03)", GaussSeidel(), problem),
        ("exact box", ExactBox(), problem),
        ("exact box, sign(qd) uncertain below 0.2", ExactBox(), uncertain),
        (f"{gross.sum()} gross outliers, guaranteed", ExactBox(outliers=int(gross.sum())), spoilt),
        (
            f"{gross.sum()} gross outliers, trimmed (heuristic)",
            TrimmedBox(outliers=int(gross.sum())),
            spoilt,
        ),
    ):
        start = perf_counter()
        box = method.fit(case)
        seconds = perf_counter() - start
        ratio = float(np.exp(np.mean(np.log(box.width / exact.width))))
        print(
            f"{name:42s} {seconds:9.3f} {box.contains(TRUTH)!s:>12s} {ratio:13.3f} "
            f"{box.certificate.get('relative_gap', float('nan')):12.1e}"
        )
        if "proof" in box.certificate:
            text, start = json.dumps(box.to_dict()), perf_counter()
            verify(json.loads(text))
            print(
                f"{'  checked in fractions':42s} {perf_counter() - start:9.3f}   "
                f"{len(text) / 1e6:.2f} MB"
            )
    equations = problem.equations
    W, y, e = equations.regressor.lower, equations.effort, equations.bound
    start = perf_counter()
    sides, limits = np.vstack([W, -W]), np.concatenate([y + e, e - y])
    ends = [
        sign * linprog(sign * np.eye(14)[j], A_ub=sides, b_ub=limits, bounds=(0, 2)).fun
        for j in range(14)
        for sign in (1, -1)
    ]
    seconds = perf_counter() - start
    apart = max(
        np.abs(np.array(ends[::2]) - exact.lower).max(),
        np.abs(np.array(ends[1::2]) - exact.upper).max(),
    )
    print(
        f"{'scipy linprog, all rows, no proof':42s} {seconds:9.3f} {'':12s} differs by at most "
        f"{apart:.1e}"
    )


if __name__ == "__main__":
    small = "--small" in sys.argv
    if "--misses" not in sys.argv:
        main(100 if small else 5000)
    misses(1 if small else 500)
