"""Averaging the periods of a repeated motion, and what their scatter says about the noise (AH09 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, kurtosis, normaltest, skew

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InvalidRecording
from gough.logs.finding import Finding
from gough.logs.recording import Recording

LAGS = 20  # of the whiteness test
MOST = 5000  # samples in the normality test; more would reject over departures too small to matter


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseCheck:
    """Is the noise of each channel Gaussian and white?

    Args:
        channels: Names, (k,).
        std: Standard deviation of a single sample, (k,). [unit of the channel]
        skewness: 0 for Gaussian noise, (k,).
        excess_kurtosis: 0 for Gaussian noise, (k,).
        normality: Probability of a departure this large if it is Gaussian (D'Agostino-Pearson on samples far enough
            apart to be independent), (k,); NaN where they are too few or all the same.
        autocorrelation: At lag 1, (k,).
        whiteness: Probability of autocorrelations this large if it is white (Ljung-Box), (k,).
    """

    channels: tuple[str, ...]
    std: FloatArray
    skewness: FloatArray
    excess_kurtosis: FloatArray
    normality: FloatArray
    autocorrelation: FloatArray
    whiteness: FloatArray

    def __post_init__(self) -> None:
        for name in ("std", "skewness", "excess_kurtosis", "normality", "autocorrelation", "whiteness"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def gaussian(self, level: float = 0.01) -> NDArray[np.bool_]:
        """Tell the channels where a Gaussian distribution is not rejected at this level, (k,)."""
        return np.asarray(self.normality >= level)

    def white(self, level: float = 0.01) -> NDArray[np.bool_]:
        """Tell the channels where white noise is not rejected at this level, (k,)."""
        return np.asarray(self.whiteness >= level)


@dataclass(frozen=True, kw_only=True, eq=False)
class PeriodAverage:
    """The mean period and the full covariance of what differs between periods.

    With k = 1 ... Nm periods of N samples, and x_i, y_j any two channels (AH09 3.2),

        mean = 1/Nm sum_k x_k,   cov(x_i, y_j) = 1/(N (Nm - 1)) sum_k (x_ik - mean_i)^T (y_jk - mean_j).

    Departure: AH09 prints 1/(N Nm - 1) for the efforts, which is low by (Nm - 1)/Nm. The cross-covariance of position
    and effort is kept too: feedback correlates them. All covariances are those of a single sample; the means have 1/Nm.

    Args:
        recording: The whole periods averaged.
        signal: `effort` or `current`, whichever was averaged as effort.
        time: Of the first period, (N,). [s]
        position: Mean positions, (N, a). [m or rad]
        effort: Mean efforts or currents, (N, a). [effort_units]
        effort_units: (a,).
        covariance: Of positions and efforts together, (2 a, 2 a).
        findings: Periods unlike the others.
    """

    recording: Recording
    signal: str
    time: FloatArray
    position: FloatArray
    effort: FloatArray
    effort_units: tuple[str, ...]
    covariance: FloatArray
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        for name in ("time", "position", "effort", "covariance"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.time)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the actuated joints, (a,)."""
        return self.recording.joints

    @property
    def rate(self) -> float:
        """Sampling rate. [Hz]"""
        return self.recording.rate

    @property
    def count(self) -> int:
        """Periods averaged."""
        return self.recording.period_count

    @property
    def position_periods(self) -> FloatArray:
        """Positions of each period, a view, (Nm, N, a). [m or rad]"""
        return self.recording.periods("position")

    @property
    def effort_periods(self) -> FloatArray:
        """Efforts or currents of each period, a view, (Nm, N, a). [effort_units]"""
        return self.recording.periods(self.signal)

    @property
    def position_covariance(self) -> FloatArray:
        """Of a single sample of the positions, (a, a). [m2, m rad, rad2]"""
        a = len(self.joints)
        return self.covariance[:a, :a]

    @property
    def effort_covariance(self) -> FloatArray:
        """Of a single sample of the efforts, (a, a). [product of effort_units]"""
        a = len(self.joints)
        return self.covariance[a:, a:]

    @property
    def cross_covariance(self) -> FloatArray:
        """Of a single sample of position i with effort j, (a, a)."""
        a = len(self.joints)
        return self.covariance[:a, a:]

    @property
    def mean_covariance(self) -> FloatArray:
        """Of the averaged positions and efforts together: covariance / Nm, (2 a, 2 a)."""
        return np.asarray(self.covariance / self.count)

    @cached_property
    def position_noise(self) -> NoiseCheck:
        """Distribution and colour of the position noise."""
        return check_noise(self.position_periods, tuple(f"{j}.position" for j in self.joints))

    @cached_property
    def effort_noise(self) -> NoiseCheck:
        """Distribution and colour of the effort noise."""
        return check_noise(self.effort_periods, tuple(f"{j}.{self.signal}" for j in self.joints))


def average_periods(recording: Recording) -> PeriodAverage:
    """Average the periods of a recording; positions with efforts, or with currents if there are no efforts.

    Raises:
        InvalidRecording: Not a whole number of periods, fewer than two, or no effort and no current.
    """
    signal = "effort" if recording.effort is not None else "current"
    if getattr(recording, signal) is None:
        raise InvalidRecording(f"{recording.source}: there is neither effort nor current to average")
    position, effort = recording.periods("position"), recording.periods(signal)
    count, n, a = position.shape
    if count < 2:
        raise InvalidRecording(
            f"{recording.source}: {count} period of {n} samples; averaging needs at least two to tell motion from "
            "noise",
            source=recording.source, periods=count)
    means = [position.mean(axis=0), effort.mean(axis=0)]
    covariance = np.zeros((2 * a, 2 * a))
    scatter = np.empty((count, 2 * a))
    for k in range(count):  # one period at a time: no copy of the whole record
        both = np.concatenate([position[k] - means[0], effort[k] - means[1]], axis=1)
        covariance += both.T @ both
        scatter[k] = np.sqrt(np.mean(both**2, axis=0))
    channels = [f"{j}.position" for j in recording.joints] + [f"{j}.{signal}" for j in recording.joints]
    return PeriodAverage(
        recording=recording, signal=signal, time=recording.time[:n], position=means[0], effort=means[1],
        effort_units=recording.effort_units if signal == "effort" else recording.current_units,
        covariance=covariance / (n * (count - 1)), findings=_odd_periods(scatter, channels))


def _odd_periods(scatter: FloatArray, channels: list[str]) -> tuple[Finding, ...]:
    """Report periods that differ from the mean three times as much as is usual, such as the first after a start."""
    if len(scatter) < 3:
        return ()
    usual = np.median(scatter, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(usual > 0, scatter / usual, 0.0)
    found = []
    for k in np.flatnonzero(ratio.max(axis=1) > 3.0):
        j = int(ratio[k].argmax())
        found.append(Finding(
            kind="transient", channel=channels[j], numbers={"period": float(k), "ratio": float(ratio[k, j])},
            message=f"period {k + 1} of {len(scatter)} is {ratio[k, j]:.1f} times as far from the mean as is usual; if "
                    "the motion was still settling, cut it off"))
    return tuple(found)


def check_noise(periods: FloatArray, channels: tuple[str, ...]) -> NoiseCheck:
    """Test what differs between periods for a Gaussian distribution and for whiteness.

    Autocorrelations come from products within periods, r_l = sum_ki d_k,i d_k,i+l / sum_ki d_k,i^2 with d the deviation
    from the mean period. These are as good as those of Nm - 1 independent records of N samples, so Ljung-Box reads
    Q = (Nm - 1) N (N + 2) sum_l r_l^2 / (N - l), chi-squared with as many degrees of freedom as lags.

    Args:
        periods: (Nm, N, k), at least two periods.
        channels: Names, (k,).
    """
    count, n, k = periods.shape
    mean = periods.mean(axis=0)
    lags = max(1, min(LAGS, n // 5))
    products = np.zeros((lags + 1, k))
    for period in periods:
        d = period - mean
        products += np.stack([np.einsum("ij,ij->j", d[:n - lag], d[lag:]) for lag in range(lags + 1)])
    alive = products[0] > 0
    r = np.divide(products, products[0], out=np.full_like(products, np.nan), where=alive)
    Q = (count - 1) * n * (n + 2) * np.sum(r[1:] ** 2 / (n - np.arange(1, lags + 1))[:, None], axis=0)
    shape = np.full((3, k), np.nan)
    for j in np.flatnonzero(alive):
        sample = _independent(periods[:-1, :, j] - mean[:, j], r[:, j])
        if len(sample) >= 20 and np.ptp(sample) > 0:
            shape[:, j] = skew(sample), kurtosis(sample), normaltest(sample).pvalue
    return NoiseCheck(
        channels=channels, std=np.sqrt(products[0] / (n * (count - 1))), skewness=shape[0], excess_kurtosis=shape[1],
        normality=shape[2], autocorrelation=r[1], whiteness=np.where(alive, chi2.sf(Q, lags), np.nan))


def _independent(deviations: FloatArray, r: FloatArray) -> FloatArray:
    """Return deviations far enough apart in time to be independent, at most `MOST`, (Nm - 1, N) -> (s,)."""
    positive = np.flatnonzero(r <= 0)
    last = int(positive[0]) if len(positive) else len(r)
    spacing = max(1, round(1 + 2 * float(r[1:last].sum())))  # the integrated autocorrelation time
    sample = deviations[:, ::spacing].ravel()
    return sample[::max(1, len(sample) // MOST)]
