"""From a recording to the motion of all coordinates and the efforts beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.engine import Model
from gough.engine.loops import By
from gough.logs.checks import check_even
from gough.logs.finding import Finding
from gough.logs.recording import Recording
from gough.logs.resampling import resample_evenly
from gough.processing.averaging import PeriodAverage, average_periods
from gough.processing.dead_band import position_noise, velocity_noise
from gough.processing.decimation import decimate_period, decimate_regression
from gough.processing.filters import Derivatives, default_filters, differentiate, edge_samples
from gough.processing.frequency import best_cutoff, fourier_fit, lowpass_periodic, rounding_variance

Method = Literal["auto", "explicit", "implicit", "time", "raw"]


@dataclass(frozen=True, kw_only=True)
class Processing:
    """How a recording becomes a motion.

    Args:
        method: `explicit`: average the periods, forward kinematics, DFT of the pose, ideal low-pass, j omega
            (AH09 3.3).
            `implicit`: least-squares Fourier fit of the pose at the nominal frequency (AH09 (17)-(18)).
            `time`: zero-phase Butterworth on the actuated positions and central differences (BG13, P03).
            `raw`: central differences of what was recorded. `auto`: explicit if there are at least two periods.
        cutoff: Low-pass cut-off; from the data by default. [Hz]
        decimation: Keep one of so many samples of regressor and effort, low-passed in parallel; from the data by
            default (`time`), none of the periodic methods. Reversals of friction then need no window, but `cutoff`
            should be well above rate / (2 decimation).
        dead_band: Velocity below which Coulomb terms are interpolated, for all joints or by joint; from the noise by
            default. [m/s or rad/s]
        harmonics, frequency: Of the implicit fit; the frequency [Hz] is that of the recorded period by default.
    """

    method: Method = "auto"
    cutoff: float | None = None
    decimation: int | None = None
    dead_band: float | Mapping[str, float] | None = None
    harmonics: int = 5
    frequency: float | None = None

    def __post_init__(self) -> None:
        if self.decimation is not None and self.decimation < 1:
            raise InvalidInput(f"decimation by {self.decimation}; expected a whole number from 1")


@dataclass(frozen=True, kw_only=True, eq=False)
class Processed:
    """A recording made ready for regression.

    Args:
        motion: Motion of all coordinates, (t, n).
        effort: Motor efforts, or currents as recorded if `current`, (t, a).
        current: The efforts are currents (or volts) that still want a drive gain.
        covariance: Noise of one sample of `effort`, (a, a), or None if unknown.
        replicates: Effort of each period, (k, t, a), or None.
        group: Period of each sample, (t,), or None.
        dead_band: Of the velocity sign for each coordinate, (n,). [m/s or rad/s]
        method, cutoff, decimation, periods: What was done.
        payload: Name of the payload carried, or None.
        findings: What reading and processing found.
        quality: Figures by name: closure residual, mismatch of further sensors. [m or rad]
        source: Where the samples come from.
    """

    motion: Motion
    effort: FloatArray
    current: bool
    covariance: FloatArray | None
    replicates: FloatArray | None
    group: IntArray | None
    dead_band: FloatArray
    method: str
    cutoff: float | None
    decimation: int
    periods: int
    payload: str | None
    findings: tuple[Finding, ...] = ()
    quality: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    average: PeriodAverage | None = None

    def __len__(self) -> int:
        return len(self.motion)

    @property
    def parallel(self) -> bool:
        """Regressor and effort are low-passed in parallel over whole periods: reversals need no window."""
        return self.average is not None and self.decimation > 1

    def with_gains(self, gains: FloatArray) -> Processed:
        """Return the same with currents turned into efforts by drive gains, (a,)."""
        if not self.current:
            return self
        scaled = None if self.covariance is None else self.covariance * np.outer(gains, gains)
        return replace(self, effort=self.effort * gains, current=False, covariance=scaled,
                       replicates=None if self.replicates is None else self.replicates * gains)


def matched(recording: Recording, model: Model) -> Recording:
    """Return the recording with its joints in the robot's order.

    Raises:
        InvalidRecording: The joints, their units or the payload are not the robot's.
    """
    mechanism = model.mechanism
    missing = [name for name in mechanism.actuated if name not in recording.joints]
    if missing:
        raise InvalidRecording(
            f"{recording.source}: no column for the actuated joint '{missing[0]}' of '{mechanism.name}'"
            f"{nearest(missing[0], recording.joints)}; the log is of another robot, or its columns want renaming",
            source=recording.source, joint=missing[0])
    foreign = [name for name in recording.joints if name not in mechanism.actuated]
    if foreign:
        raise InvalidRecording(
            f"{recording.source}: column '{foreign[0]}' is no actuated joint of '{mechanism.name}'"
            f"{nearest(foreign[0], mechanism.actuated)}", source=recording.source, joint=foreign[0])
    if recording.payload is not None:
        mechanism.payload(recording.payload)
    order = [recording.joints.index(name) for name in mechanism.actuated]
    units = tuple(recording.position_units[i] for i in order)
    for name, unit in zip(mechanism.actuated, units):
        if unit != mechanism.joint(name).unit:
            raise InvalidRecording(
                f"{recording.source}: '{name}' is recorded in {unit}, but the robot's joint moves in "
                f"{mechanism.joint(name).unit}", source=recording.source, joint=name)
    if order == list(range(len(order))):
        return recording
    changed = {kind: getattr(recording, kind)[:, order]
               for kind in ("position", "velocity", "reference", "effort", "current")
               if getattr(recording, kind) is not None}
    current_units = tuple(recording.current_units[i] for i in order) if recording.current_units else ()
    return replace(recording, joints=mechanism.actuated, position_units=units, current_units=current_units, **changed)


def process(model: Model, recording: Recording, settings: Processing | None = None) -> Processed:
    """Turn a recording into the motion of all coordinates, with efforts and noise beside it.

    Raises:
        InvalidRecording: Not this robot's log, no effort, or not processable as asked.
        LoopNotClosed, SingularConfiguration: The recorded positions leave the robot's branch.
    """
    chosen = Processing() if settings is None else settings
    recording = matched(recording, model)
    if recording.effort is None and recording.current is None:
        raise InvalidRecording(f"{recording.source}: there is neither effort nor current; add such columns")
    recording = _on_even_clock(recording)
    method = chosen.method
    if method == "auto":
        method = "explicit" if recording.period_count >= 2 else "time"
    if method in ("explicit", "implicit"):
        return _periodic(model, recording, chosen, method)
    return _timed(model, recording, chosen, method)


def _on_even_clock(recording: Recording) -> Recording:
    """Return the recording on an even clock, with a finding if it had none; lost samples are put back into periods."""
    try:
        check_even(recording)
    except InvalidRecording as uneven:
        even = resample_evenly(recording)
        note = Finding(kind="resampled", channel=recording.source, numbers={"rate": even.rate},
                       message=f"put on an even clock of {even.rate:.6g} Hz, linear between samples; the step after "
                               f"sample {uneven.numbers['sample']} was {uneven.numbers['deviation']:.1%} off the mean")
        return replace(even, quality=(*even.quality, note))
    return recording


def _periodic(model: Model, recording: Recording, settings: Processing, method: Method) -> Processed:
    """Average the periods; filter and differentiate the pose that forward kinematics gives."""
    rate = check_even(recording)
    average = average_periods(recording)
    chain = model.kinematics
    by: By = "task" if "task" in model.loops.partitions else "actuated"
    q = chain.assemble(average.position, "actuated", time=average.time)
    columns = list(model.loops.partitions[by].independent)
    pose = np.ascontiguousarray(q[:, columns])
    cutoff = settings.cutoff
    if method == "implicit":
        frequency = settings.frequency or rate / len(pose)
        smooth = fourier_fit(pose, average.time - average.time[0], frequency, settings.harmonics).at(
            average.time - average.time[0])
        cutoff = settings.harmonics * frequency
    else:
        cutoff = best_cutoff(average) if cutoff is None else cutoff
        smooth = lowpass_periodic(pose, rate, len(pose), cutoff)
    motion = chain.motion(average.time, smooth.position, smooth.velocity, smooth.acceleration, by, start=q)
    noise = np.sqrt(np.maximum(np.diag(average.position_covariance) / average.count, rounding_variance(average)))
    band = dead_band_of(model, motion, noise, rate, cutoff, settings)
    residual = q[:, list(model.actuated)] - motion.q[:, list(model.actuated)]
    current = recording.effort is None
    return Processed(
        motion=motion, effort=average.effort, current=current, covariance=average.effort_covariance / average.count,
        replicates=average.effort_periods, group=None, dead_band=band, method=method, cutoff=cutoff,
        decimation=settings.decimation or 1, periods=average.count, payload=recording.payload,
        findings=recording.quality + average.findings, source=recording.source,
        quality=_quality(model, recording, motion, q) | {"position left out by the filter": float(residual.std())},
        average=average)


def _timed(model: Model, recording: Recording, settings: Processing, method: Method) -> Processed:
    """Filter the actuated positions in time; forward kinematics after."""
    rate = check_even(recording)
    filters = default_filters(recording, cutoff=settings.cutoff, decimation=settings.decimation)
    cutoff = None if method == "raw" else filters.cutoff
    smooth = differentiate(recording.position, rate, cutoff, filters.order)
    edge = 0 if cutoff is None else min(edge_samples(rate, cutoff), len(recording) // 10)
    inside = slice(edge, len(recording) - edge)
    position, velocity, acceleration = (x[inside] for x in independent_columns(model, smooth))
    motion = model.kinematics.motion(recording.time[inside], position, velocity, acceleration, "actuated")
    noise = position_noise(recording.position)
    band = dead_band_of(model, motion, noise, rate, cutoff or 0.45 * rate, settings)
    effort = recording.effort if recording.effort is not None else recording.current
    assert effort is not None
    group = None
    if recording.period_count >= 2 and recording.period_samples is not None:
        group = np.arange(len(recording))[inside] // recording.period_samples
    return Processed(
        motion=motion, effort=effort[inside], current=recording.effort is None, covariance=None, replicates=None,
        group=group, dead_band=band, method=method, cutoff=cutoff, decimation=1 if method == "raw" else
        filters.decimation, periods=recording.period_count, payload=recording.payload, findings=recording.quality,
        source=recording.source, quality=_quality(model, recording.take(inside), motion, motion.q))


def independent_columns(model: Model, smooth: Derivatives) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return positions, velocities and accelerations of the independent actuated coordinates."""
    part = model.loops.partitions["actuated"].independent
    columns = [model.actuated.index(i) for i in part]
    return tuple(np.ascontiguousarray(x[:, columns])
                 for x in (smooth.position, smooth.velocity, smooth.acceleration))  # type: ignore[return-value]


def dead_band_of(model: Model, motion: Motion, noise: FloatArray, rate: float, cutoff: float,
               settings: Processing) -> FloatArray:
    """Return the dead bands given, or three standard deviations of the velocity noise carried through the closure."""
    given = settings.dead_band
    names = model.mechanism.coordinates
    if given is not None and not isinstance(given, Mapping):
        given = dict.fromkeys(names, given)
    for name, value in (given or {}).items():
        if name not in names:
            raise InvalidInput(f"dead band of '{name}', which is no joint{nearest(name, names)}")
        if not value >= 0:
            raise InvalidInput(f"the dead band is {value}; it must not be negative")
    part = model.loops.partitions["actuated"].independent
    speed = velocity_noise(noise[[model.actuated.index(i) for i in part]], rate, min(cutoff, 0.45 * rate))
    stride = max(1, len(motion) // 50)
    maps = model.kinematics.closure_map(motion.q[::stride], "actuated")
    band = 3 * np.sqrt(((maps * speed) ** 2).sum(axis=2).max(axis=0))
    return np.array([(given or {}).get(name, own) for name, own in zip(names, band.tolist())])


def _quality(model: Model, recording: Recording, motion: Motion, q: FloatArray) -> dict[str, float]:
    """Return closure residual and, where there are more sensors than needed, their rms mismatch."""
    figures = {"closure residual": float(motion.closure_residual.max())}
    if len(q) != len(recording):
        return figures
    for label, channels in (("pose", recording.pose), ("passive", recording.passive), ("mocap", recording.mocap)):
        if channels is None:
            continue
        for k, name in enumerate(channels.names):
            if name in motion.coordinates:
                gap = channels.values[:, k] - q[:, motion.column(name)]
                figures[f"{label} {name}"] = float(np.sqrt(np.mean(gap**2)))
    if model.loops.redundant:
        for k, i in enumerate(model.actuated):
            gap = recording.position[:, k] - q[:, i]
            figures[f"motor {model.mechanism.coordinates[i]}"] = float(np.sqrt(np.mean(gap**2)))
    return figures


def regression(model: Model, processed: Processed, parameters: BaseParameters | Sequence[str],
               *, decimate: bool = True) -> Regression:
    """Return the linear problem of a processed recording; with a payload its columns are those of the base.

    Columns named `payload.<name>.*` of payloads that this recording does not carry are zero (BG13 (29)).
    """
    if processed.current:
        raise InvalidRecording(f"{processed.source}: the log holds currents and the drive gains are not known; give "
                               "'gain' in the robot file, or identify the gains from a loaded and an unloaded log")
    problem = model.regression(processed.motion, processed.effort, parameters, dead_band=processed.dead_band,
                               covariance=processed.covariance)
    problem = without_absent_payloads(problem, processed.payload)
    replicates = processed.replicates
    if replicates is not None:
        replicates = np.stack([model.collect(processed.motion.q, period) for period in replicates])
    problem = replace(problem, replicates=replicates, group=processed.group)
    if decimate and processed.decimation > 1:
        whole = decimate_regression if processed.average is None else decimate_period
        problem = whole(problem, processed.decimation)
    return problem


def without_absent_payloads(problem: Regression, payload: str | None) -> Regression:
    """Return the problem with the columns of payloads that were not carried set to zero (BG13 (29))."""
    absent = [k for k, name in enumerate(problem.parameters) if name.payload not in (None, payload)]
    if not absent:
        return problem
    regressor = problem.regressor.copy()
    regressor[:, :, absent] = 0.0
    return replace(problem, regressor=regressor)
