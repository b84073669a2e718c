"""Robots whose parameters are unlike those of the other robots of the kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.statistics import robust_scale, student_quantile
from gough.fleets.hierarchy import Hierarchy, hierarchy
from gough.fleets.history import RobotHistory

# robots below which none is compared with the others
MIN_COMPARED_ROBOTS = 5


class OutlyingRobots(NamedTuple):
    """What most robots have in common, and those that are unlike them."""

    common: Hierarchy  # of the other robots
    distances: dict[int, float]  # by robot, in standard deviations


def find_outlying_robots(
    histories: Sequence[RobotHistory],
    covariances: FloatArray,
    sensitivities: FloatArray,
    level: float,
) -> OutlyingRobots:
    """Find robots far from the others in a direction in which a fault changes the estimate.

    The farthest robot is removed, the mean of the others estimated
    again, and so on up to a quarter of the fleet; all up to the last
    significant one are outliers (Rosner 1983, generalised ESD). Which
    one is the farthest is measured from the median with a robust
    scatter: in a small fleet one outlier changes mean and scatter so
    much that another robot may seem farther. So several outliers do not
    mask each other. The scatter in the test is that of a few robots:
    Student's t.

    Args:
        histories: The robots, n of them.
        covariances: Of errors of the estimates that robots do not
            share, (n, p, p): errors that all share cancel in the
            differences between robots.
        sensitivities: Change of the estimate by faults of unit
            magnitude, (k, p).
        level: Probability of any false alarm in a fleet in which all
            are alike.
    """
    n = len(histories)
    n_removed = 0
    if n > MIN_COMPARED_ROBOTS and len(sensitivities):
        n_removed = max(1, n // 4)
    values = np.array([history.estimate.values for history in histories])
    common = hierarchy(values, covariances)
    inside = list(range(n))
    removed: list[int] = []
    distances: list[float] = []
    outliers = OutlyingRobots(common, {})
    for _ in range(n_removed):
        distance = _robust_distances(values[inside], covariances[inside], sensitivities)
        farthest = inside[int(np.argmax(distance))]
        inside.remove(farthest)
        common = hierarchy(values[inside], covariances[inside])
        distance = _distances(values, covariances, common, sensitivities, inside)
        removed.append(farthest)
        distances.append(float(distance[farthest]))
        n_tests = 2 * len(sensitivities) * (len(inside) + 1)
        if distances[-1] > student_quantile(1 - level / n_tests, len(inside) - 1):
            outliers = OutlyingRobots(common, dict(zip(removed, distances)))
    return outliers


def robot_scatter(common: Hierarchy) -> FloatArray:
    """Return the standard deviation of one robot about the estimated mean, (p,)."""
    return np.hypot(common.between, common.common_std)


def _robust_distances(
    values: FloatArray, covariances: FloatArray, sensitivities: FloatArray
) -> FloatArray:
    """Return the distance of each robot from the median, in robust standard deviations, (n,)."""
    sampling_variance = np.median(np.diagonal(covariances, axis1=1, axis2=2), axis=0)
    deviation = values - np.median(values, axis=0)
    between = np.maximum(robust_scale(deviation) ** 2 - sampling_variance, 0.0)
    score = _scores(deviation, covariances + np.diag(between), sensitivities)
    scatter = np.maximum(robust_scale(score), 1.0)
    return np.asarray(np.max(np.abs(score) / scatter, axis=1))


def _distances(
    values: FloatArray,
    covariances: FloatArray,
    common: Hierarchy,
    sensitivities: FloatArray,
    inside: Sequence[int],
) -> FloatArray:
    """Return the distance of robots from the mean, in standard deviations, (n,).

    Robots need not scatter as D says: the standard deviation is at
    least the scatter of the robots inside.
    """
    covariance = covariances + np.diag(robot_scatter(common) ** 2)
    score = _scores(values - common.common, covariance, sensitivities)
    scatter = np.maximum(score[inside].std(axis=0, ddof=1), 1.0)
    return np.asarray(np.max(np.abs(score) / scatter, axis=1))


def _scores(deviation: FloatArray, covariance: FloatArray, sensitivities: FloatArray) -> FloatArray:
    """Return the magnitude of each fault over its standard error, (n, k).

    deviation = M g, with the covariance of the deviation, solved for
    each g alone.
    """
    n = len(deviation)
    M = np.broadcast_to(sensitivities.T, (n, *sensitivities.T.shape))
    weight = np.linalg.solve(covariance, M)  # (n, p, k)
    information = np.sqrt(np.einsum("npk,kp->nk", weight, sensitivities))
    return np.asarray(np.einsum("npk,np->nk", weight, deviation) / information)
