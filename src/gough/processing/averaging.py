"""Average the periods of a repeated motion; noise and harmonics from their scatter (AH09 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.notices import Notice
from gough.core.record import Record
from gough.core.signals import weighted_window
from gough.logs.checks import quantisation_step
from gough.logs.recording import Recording

# The motion has no period if every joint differs between periods by
# more than this fraction of it.
MAX_PERIOD_DIFFERENCE = 0.2
# A period is reported if it is so many times as far from the mean as is
# usual.
ODD_PERIOD_RATIO = 3.0
# Periods times neighbouring harmonics that the noise of a harmonic is
# estimated from.
NOISE_DEGREES_OF_FREEDOM = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class PeriodAverage(Record):
    """The mean period and the full covariance of what differs between periods.

    With k = 1 ... Nm periods of N samples, and x_i, y_j any two
    channels (AH09 3.2),

        mean = 1/Nm sum_k x_k,   cov(x_i, y_j) = 1/(N (Nm - 1)) sum_k (x_ik - mean_i)^T
        (y_jk - mean_j).

    Departure: AH09 prints 1/(N Nm - 1) for the efforts, which is low by
    (Nm - 1)/Nm. The cross-covariance of position and effort is kept
    too: feedback correlates them. All covariances are those of a single
    sample; the means have 1/Nm.
    """

    recording: Recording  # the whole periods averaged
    count: int  # their number
    rate: float  # of sampling [Hz]
    time: FloatArray  # of the first period, (N,) [s]
    position: FloatArray  # means, (N, a) [m or rad]
    # means of efforts, or of currents without these, (N, a)
    effort: FloatArray
    position_covariance: FloatArray  # (a, a)
    effort_covariance: FloatArray  # (a, a)
    cross_covariance: FloatArray  # position i with effort j, (a, a)
    # variance of rounding of positions that averaging does not reduce,
    # (a,) [m2 or rad2]
    rounding_variance: FloatArray
    # the same of efforts or currents, (a,)
    effort_rounding_variance: FloatArray
    notices: tuple[Notice, ...] = ()  # about periods unlike the others

    def __len__(self) -> int:
        return len(self.position)

    @property
    def mean_effort_covariance(self) -> FloatArray:
        """Covariance of the errors of the mean efforts, (a, a)."""
        rounding = np.diag(self.effort_rounding_variance)
        return np.asarray(self.effort_covariance / self.count + rounding)

    @property
    def mean_position_variance(self) -> FloatArray:
        """Variance of the errors of the mean positions, (a,). [m2 or rad2]"""
        scatter = np.diag(self.position_covariance) / self.count
        return np.maximum(scatter, self.rounding_variance)


def _repeated_rounding(signals: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the variance of rounding that is the same in every period, (t, a) -> (a,).

    Noise of less than half a step does not make it differ between
    periods.
    """
    steps = np.array([quantisation_step(column) or 0.0 for column in signals.T])
    rounding = steps**2 / 12.0
    deviation = np.sqrt(np.diag(covariance))
    hidden_by_rounding = deviation < steps / 2
    return np.asarray(np.where(hidden_by_rounding, rounding, 0.0))


def average_periods(recording: Recording) -> PeriodAverage:
    """Average the periods of a recording of whole ones.

    Efforts are averaged beside the positions, or currents if there are
    no efforts.
    """
    signal = recording.motor_signal
    position = recording.periods("position")
    effort = recording.periods(signal)
    count, n, a = position.shape
    if count < 2:
        raise InvalidRecording(
            f"{recording.source}: {count} period of {n} samples; averaging needs at least two to "
            "tell motion from noise",
            source=recording.source,
            periods=count,
        )
    mean_position = position.mean(axis=0)
    mean_effort = effort.mean(axis=0)
    covariance = np.zeros((2 * a, 2 * a))
    scatter = np.empty((count, 2 * a))
    for k in range(count):  # one period at a time: no copy of the whole record
        position_deviation = position[k] - mean_position
        effort_deviation = effort[k] - mean_effort
        deviation = np.concatenate([position_deviation, effort_deviation], axis=1)
        covariance += deviation.T @ deviation / (n * (count - 1))
        scatter[k] = np.sqrt(np.mean(deviation**2, axis=0))
    channels = [f"{joint}.position" for joint in recording.joints]
    channels += [f"{joint}.{signal}" for joint in recording.joints]
    position_covariance = covariance[:a, :a]
    effort_covariance = covariance[a:, a:]
    recorded_effort = getattr(recording, signal)
    return PeriodAverage(
        recording=recording,
        count=count,
        rate=recording.rate,
        time=recording.time[:n],
        position=mean_position,
        effort=mean_effort,
        position_covariance=position_covariance,
        effort_covariance=effort_covariance,
        cross_covariance=covariance[:a, a:],
        rounding_variance=_repeated_rounding(recording.position, position_covariance),
        effort_rounding_variance=_repeated_rounding(recorded_effort, effort_covariance),
        notices=_odd_periods(scatter, channels),
    )


def _odd_periods(scatter: FloatArray, channels: Sequence[str]) -> tuple[Notice, ...]:
    """Return notices of periods that differ much more from the mean than others.

    Args:
        scatter: rms difference of each period from the mean, (periods,
            channels).
    """
    count = len(scatter)
    if count <= 2:
        return ()
    usual = np.median(scatter, axis=0)
    ratio = np.zeros_like(scatter)
    np.divide(scatter, usual, out=ratio, where=usual > 0)
    largest = ratio.max(axis=1)
    notices = []
    for period in np.flatnonzero(largest > ODD_PERIOD_RATIO).tolist():
        channel = int(ratio[period].argmax())
        worst = float(ratio[period, channel])
        notice = Notice(
            rule="transient",
            level="info",
            where=channels[channel],
            text=f"period {period + 1} of {count} is {worst:.1f} times as far from the mean "
            "as is usual",
            advice="if something touched the robot, cut it off",
            numbers={"period": period, "ratio": worst},
        )
        notices.append(notice)
    return tuple(notices)


def check_repeats(average: PeriodAverage) -> None:
    """Raise `InvalidRecording` if no joint comes back after the period."""
    log = average.recording
    difference = np.sqrt(np.diag(average.position_covariance))
    amplitude = log.position.std(axis=0)
    moves = amplitude.any()
    differs = difference >= MAX_PERIOD_DIFFERENCE * amplitude
    if moves and differs.all():
        joint = int(np.argmax(amplitude))
        percent = 100 * difference[joint] / amplitude[joint]
        raise InvalidRecording(
            f"{log.source}: the motion does not repeat after the {len(average)} samples of its "
            f"period: of {log.joints[joint]} the periods differ by {percent:.0f} % of its motion; "
            "give the right period, or none",
            source=log.source,
            samples=len(average),
        )


def pose_cutoff(pose: FloatArray, scatter: FloatArray, rate: float, rounding: FloatArray) -> float:
    """Return the highest harmonic of a mean pose (N, m) that Akaike's criterion keeps. [Hz]

    With X_k the DFT of the mean pose at harmonic k and v_k the variance of its coordinates,
    from the scatter between periods, keeping harmonic k raises the log-likelihood by sum
    |X_k|^2 / v_k and costs 2 real parameters a coordinate: the harmonics kept are those up
    to argmax_K sum_k<=K (sum |X_k|^2 / v_k - 2 m). Poses are used since inverse kinematics
    adds harmonics of its own.
    Departure: coordinates are taken as independent, since with a full covariance of few
    periods the leakage of a transient that moves all of them looks like harmonics.

    Args:
        pose: Mean pose, (N, m).
        scatter: Difference of each period from the mean one, (Nm, N,
            m).
        rate: Sampling rate. [Hz]
        rounding: Variance of sensor errors that are the same in every
            period, (m,).
    """
    count, n, m = scatter.shape
    bins = (n - 1) // 2
    X = np.fft.rfft(pose, axis=0)[1 : bins + 1]
    D = np.fft.rfft(scatter, axis=1)[:, 1 : bins + 1]
    variance = (np.abs(D) ** 2).sum(axis=0) / (count * (count - 1))
    odd_width = -(-NOISE_DEGREES_OF_FREEDOM // (count - 1)) | 1
    width = min(max(1, odd_width), max(bins, 1))
    v = weighted_window(variance, np.full(width, 1 / width))
    floor = (1e-10 * np.abs(X).max(axis=0, initial=0.0)) ** 2 + TINY
    gain = (np.abs(X) ** 2 / (v + n * rounding + floor)).sum(axis=1)
    total = np.cumsum(gain - 2 * m)
    if not bins or total.max() <= 0:
        raise InvalidInput(
            "no harmonic of the motion stands out of the noise; choose the cut-off yourself"
        )
    return float((int(np.argmax(total)) + 1) * rate / n)
