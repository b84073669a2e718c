"""Whether an explanation predicts better than none: one test of its gain over blocks.

The gain is the mean over joints of log(error without / error with the
explanation), where each block is predicted by a fit that left it out.
The errors of a joint are those of all blocks together, so that blocks
in which it hardly moves weigh little; the standard error comes from the
differences between blocks. An explanation is accepted if its gain
exceeds what chance gives the best of all explanations that were tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.statistics import student_quantile
from gough.fitting.autocorrelation import long_run_covariance

# Probability that any of the explanations that were tried is accepted
# by chance.
FAMILY_WISE_ERROR = 0.01


def required_t(n_tried: int, n_blocks: float) -> float:
    """Return the Student quantile that the t of the best of several explanations has to exceed.

    Corrected by Bonferroni for the number of explanations.
    """
    chance = FAMILY_WISE_ERROR / max(n_tried, 1)
    return float(student_quantile(1 - chance, n_blocks - 1))


class GainTest(NamedTuple):
    """The gain of an explanation against what chance may give."""

    gain: float  # mean over joints of log(error without / error with)
    t: float  # gain over its standard error
    # Student quantile, corrected for the number of explanations
    required_t: float

    @property
    def accepted(self) -> bool:
        """Whether the gain is more than chance."""
        return self.t > self.required_t


def gain_test(without: FloatArray, with_explanation: FloatArray, n_tried: int) -> GainTest:
    """Test the gain of one of several explanations.

    The influence of block b on the logarithm of the total error S of a
    joint is s_b / S, so that the standard error of the gain is that of
    the sum of the differences of these fractions. It is widened where
    neighbouring blocks are correlated. The quantile is corrected by
    Bonferroni.

    Args:
        without: Squared errors without the explanation by block and
            joint, (b, r).
        with_explanation: The same with the explanation, (b, r).
        n_tried: Number of explanations that were tried.
    """
    n_blocks = len(without)
    total_without = np.maximum(without.sum(axis=0), TINY)
    total_with = np.maximum(with_explanation.sum(axis=0), TINY)
    gain = float(0.5 * np.log(total_without / total_with).mean())
    if n_blocks < 2:
        return GainTest(gain, 0.0, np.inf)
    fractions = without / total_without - with_explanation / total_with
    influence = 0.5 * fractions.mean(axis=1)  # sums to zero
    variance = float(influence @ influence) * n_blocks / (n_blocks - 1)
    standard_error = np.sqrt(variance * _correlation_inflation(influence))
    t = float(gain / max(standard_error, TINY))
    return GainTest(gain, t, required_t(n_tried, n_blocks))


def _correlation_inflation(influence: FloatArray) -> float:
    """Return the factor of the variance of a sum whose neighbouring terms are correlated.

    It is that of Newey and West (1987) with the usual number of lags;
    never below one.
    """
    n_lags = int(4 * (len(influence) / 100) ** (2 / 9))
    variance, _, _ = long_run_covariance(influence[:, None], lags=n_lags, prewhiten=False)
    power = max(float(influence @ influence), TINY)
    return max(float(variance[0, 0]) / power, 1.0)
