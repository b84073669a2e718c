"""Logs with fewer samples: averaged over neighbours, or some samples as they were recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.fitting.regression import Regression
from gough.verdict.fitted_log import FittedLog


@dataclass(frozen=True, kw_only=True)
class _Neighbours:
    """Groups of neighbouring samples of a log."""

    count: int  # groups
    length: int  # samples in each, an odd number: the middle is a sample

    @property
    def n_samples(self) -> int:
        """Samples in all groups."""
        return self.count * self.length

    @property
    def middle(self) -> IntArray:
        """Number of the middle sample of each group, (count,)."""
        return np.arange(self.count) * self.length + self.length // 2

    def means(self, values: FloatArray) -> FloatArray:
        """Return the mean of each group, (t, ...) -> (count, ...)."""
        groups = values[: self.n_samples].reshape(self.count, self.length, *values.shape[1:])
        return np.asarray(groups.mean(axis=1))

    def at_all_samples(self, values: FloatArray | BoolArray, samples: IntArray) -> FloatArray:
        """Return values at some samples, (k, ...), at all of them, zero elsewhere, (t, ...)."""
        inside = samples < self.n_samples
        full = np.zeros((self.n_samples, *values.shape[1:]))
        full[samples[inside]] = values[inside]
        return full


def averaged(log: FittedLog, max_samples: int) -> FittedLog:
    """Average neighbouring samples to at most `max_samples`; decimated logs stay as they are.

    Efforts are means over groups, motion and regressor those of their
    middles: what is slow stays, and white noise stays white. An
    equation is valid where all of its group are.
    """
    length = -(-len(log.motion) // max_samples) // 2 * 2 + 1
    if length < 2 or log.decimation > 1:
        return log
    neighbours = _Neighbours(count=len(log.motion) // length, length=length)
    deviations = log.deviations
    if deviations is not None:
        deviations = np.array([neighbours.means(each) for each in deviations])
    return replace(
        log,
        motion=log.motion.take(neighbours.middle),
        regression=_averaged_regression(log, neighbours),
        samples=None,
        effort=neighbours.means(log.effort),
        deviations=deviations,
    )


def _averaged_regression(log: FittedLog, neighbours: _Neighbours) -> Regression:
    """Return the regression of a log with its efforts averaged over neighbours."""
    regression = log.regression
    samples = log.sample_numbers
    covariance = regression.covariance
    if covariance is not None:
        covariance = None if covariance.ndim == 3 else covariance / neighbours.length
    replicates = regression.replicates
    if replicates is not None:
        means = []
        for each in replicates:
            means.append(neighbours.means(neighbours.at_all_samples(each, samples)))
        replicates = np.array(means)
    middle = neighbours.middle
    regressor = neighbours.at_all_samples(regression.regressor, samples)[middle]
    effort = neighbours.means(neighbours.at_all_samples(regression.effort, samples))
    valid_fraction = neighbours.means(neighbours.at_all_samples(regression.valid, samples))
    return replace(
        regression,
        regressor=regressor,
        effort=effort,
        mask=valid_fraction == 1,
        time=log.motion.time[middle],
        group=None,
        sample=None,
        recording=None,
        covariance=covariance,
        replicates=replicates,
    )


def with_some_samples(log: FittedLog, index: IntArray) -> FittedLog:
    """Return some samples of the regression, numbered (k,), with efforts as recorded."""
    samples = log.sample_numbers[index]
    regression = log.regression.take(index)
    plain = replace(
        regression,
        covariance=None,
        replicates=None,
        group=None,
        sample=None,
        recording=None,
        time=log.motion.time[samples],
    )
    thin = replace(
        log,
        motion=log.motion.take(samples),
        effort=log.effort[samples],
        regression=plain,
        samples=None,
        deviations=None,
        decimation=1,
        averaged_equations=None,
        lag=None,
    )
    same = thin.with_signals(thin.signals)
    assert same is not None, "the loops of a processed log are closed"
    return same
