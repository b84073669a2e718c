"""Averaging the periods of a repeated motion, and what their scatter says about the noise (AH09 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray, Value
from gough.core.errors import InvalidRecording
from gough.logs.finding import Finding
from gough.logs.recording import Recording

UNSETTLED = 3.0  # times the usual variance: by chance 1 in 1000 if a tenth of a period holds ten independent errors
REPEATED = 0.2  # of a joint's motion: where no joint differs by less from period to period, there is no period
ALIKE = 1e-4  # of a signal: what differs by less between periods is not looked at

@dataclass(frozen=True, kw_only=True, eq=False)
class PeriodAverage(Value):
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


def check_repeats(average: PeriodAverage) -> None:
    """Raise `InvalidRecording` if not one joint comes back after the period: then there is none, or another."""
    differ, moves = np.sqrt(np.diag(average.position_covariance)), average.recording.position.std(axis=0)
    if moves.any() and (differ >= REPEATED * moves).all():
        joint = int(np.argmax(moves))
        raise InvalidRecording(
            f"{average.recording.source}: the motion does not repeat after the {len(average)} samples of its period: "
            f"of {average.joints[joint]} the periods differ by {100 * differ[joint] / moves[joint]:.0f} % of its "
            "motion; give the right period, or none", source=average.recording.source, samples=len(average))


def unsettled_periods(recording: Recording) -> int:
    """Return how many periods at the beginning of whole ones are those of a motion that still settles.

    What dies out after a start is largest at first. A period is unsettled if in its first tenth a channel differs from
    the mean of the later periods with a mean square over `UNSETTLED` times the largest of: the median of its tenths,
    what later periods differ by among themselves, and `ALIKE` of the signal. Two periods are left in any case.
    """
    kinds = [kind for kind in ("position", "effort", "current") if getattr(recording, kind) is not None]
    periods = np.concatenate([recording.periods(kind) for kind in kinds], axis=2)
    tenth = max(1, periods.shape[1] // 10)
    for first in range(len(periods) - 2):
        later = periods[first + 1:]
        mean, least = later.mean(axis=0), (ALIKE * later.std(axis=(0, 1))) ** 2
        square = (periods[first] - mean) ** 2 * len(later) / (len(later) + 1)
        own = np.array([square[k:k + tenth].mean(axis=0) for k in range(0, len(mean), tenth)])
        other = ((later - mean) ** 2).sum(axis=0) / (len(later) - 1)
        usual = np.max([np.median(own, axis=0), other.mean(axis=0), other[:tenth].mean(axis=0), least], axis=0)
        if (own[0] <= UNSETTLED * usual).all():
            return first
    return max(len(periods) - 2, 0)


def _odd_periods(scatter: FloatArray, channels: list[str]) -> tuple[Finding, ...]:
    """Report periods that differ from the mean three times as much as is usual."""
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
                    "something touched the robot, cut it off"))
    return tuple(found)
