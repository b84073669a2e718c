"""Robots that differ from the others of their kind: few false alarms, and none missed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from gough.fleets.outliers import OutlyingRobots, find_outlying_robots

ROBOTS = 12
COVARIANCE = np.diag([1.0, 4.0, 0.25])
FAULTS = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])  # change of the estimate by each


def look_at(values: np.ndarray, level: float = 0.05) -> OutlyingRobots:
    """Return the outlying robots of estimates (n, p) that all have one covariance."""
    covariances = np.broadcast_to(COVARIANCE, (len(values), 3, 3))
    histories: list[Any] = []
    for row in values:
        estimate = SimpleNamespace(values=row, covariance=COVARIANCE)
        histories.append(SimpleNamespace(estimate=estimate))
    return find_outlying_robots(histories, covariances, FAULTS, level)


def fleet_of_equals(seed: int) -> np.ndarray:
    """Return the estimates of robots that are alike, (n, p)."""
    noise = np.random.default_rng(seed).standard_normal((ROBOTS, 3))
    return noise @ np.sqrt(COVARIANCE)


def test_robots_that_are_alike_are_seldom_called_outlying() -> None:
    """In 1 fleet of 20; without a correction for robots and faults it would be in most."""
    alarms = sum(bool(look_at(fleet_of_equals(seed)).distances) for seed in range(12))
    assert alarms <= 3


def test_a_robot_with_a_fault_is_found() -> None:
    values = fleet_of_equals(0)
    values[7] += 12.0 * FAULTS[1]
    assert list(look_at(values).distances) == [7]


def small_fleet(seed: int, size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return estimates of eight robots, two with other faults, their covariances and the faults."""
    rng = np.random.default_rng(seed)
    n_robots = 8
    n_parameters = 8
    root = rng.standard_normal((n_parameters, n_parameters))
    covariance = root @ root.T / n_parameters + 0.05 * np.eye(n_parameters)
    scatter = rng.uniform(0, 0.5, n_parameters)  # of the robots about their kind
    weight = np.linalg.inv(covariance + np.diag(scatter**2))
    faults = rng.standard_normal((4, n_parameters))
    faults /= np.sqrt(np.einsum("kp,pq,kq->k", faults, weight, faults))[:, None]
    noise = rng.standard_normal((n_robots, n_parameters)) @ np.linalg.cholesky(covariance).T
    values = 100.0 + noise + scatter * rng.standard_normal((n_robots, n_parameters))
    values[2] += size * faults[0]
    values[5] -= size * faults[2]
    return values, np.broadcast_to(covariance, (n_robots, *covariance.shape)), faults


def test_two_robots_with_faults_do_not_mask_each_other_in_a_small_fleet() -> None:
    for seed in range(20):
        values, covariances, faults = small_fleet(seed, 20.0)
        histories: list[Any] = []
        for row in values:
            histories.append(SimpleNamespace(estimate=SimpleNamespace(values=row)))
        found = find_outlying_robots(histories, covariances, faults, 0.01)
        assert sorted(found.distances) == [2, 5], seed
