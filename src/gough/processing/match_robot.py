"""A recording as the robot's: its joints in order, an even clock, whole periods that repeat each
other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gough.core.errors import InvalidRecording, nearest
from gough.core.notices import Notice
from gough.engine import Model
from gough.logs.checks import check_even, inspected
from gough.logs.periods import estimate_period, resample_evenly, resample_to_period
from gough.logs.recording import JOINT_KINDS, Recording
from gough.mechanism import Mechanism
from gough.processing.settings import Processing

# of the motion that may differ from one period to the next for it to count as repeated
REPEATS = 0.05
SHOWN = 20000  # samples in which a repetition is looked for
# times the usual variance: by chance 1 in 1000 if a tenth of a period holds ten independent errors
UNSETTLED = 3.0
ALIKE = 1e-4  # of a signal: what differs by less between periods is not looked at


def on_motor_side(recording: Recording, mechanism: Mechanism) -> Recording:
    """Return the recording on the motors' side of transmissions, where its columns are called after
    the joints.

    With q_joints = B q_motors, positions are B^-1 q_joints and efforts B^T of those of the joints,
    unless the transmission says that they are the motors' already.
    """
    for gear in mechanism.transmissions:
        if not set(gear.joints) <= set(recording.joints):
            continue
        columns = [recording.joints.index(name) for name in gear.joints]
        back = np.linalg.inv(gear.matrix).T
        maps = (
            dict.fromkeys(("position", "velocity", "reference"), back)
            if gear.positions == "joints"
            else {}
        )
        maps |= {"effort": gear.matrix} if gear.efforts == "joints" else {}
        changed: dict[str, Any] = {}
        for kind, matrix in maps.items():
            values = getattr(recording, kind)
            if values is not None:
                changed[kind] = np.array(values)
                changed[kind][:, columns] = values[:, columns] @ matrix
        names, units = list(recording.joints), list(recording.position_units)
        for column, motor in zip(columns, gear.motors):
            if gear.positions == "joints" and units[column] == mechanism.joint(names[column]).unit:
                units[column] = mechanism.joint(motor).unit
            names[column] = motor
        recording = replace(recording, joints=tuple(names), position_units=tuple(units), **changed)
    return recording


def matched(recording: Recording, model: Model) -> Recording:
    """Return the recording with its joints in the robot's order; refuse joints, units and payloads
    of another.
    """
    mechanism = model.mechanism
    recording = on_motor_side(recording, mechanism)
    source, motors = recording.source, mechanism.actuated
    for name in motors:
        if name not in recording.joints:
            raise InvalidRecording(
                f"{source}: no column for the actuated joint '{name}' of '{mechanism.name}'"
                f"{nearest(name, recording.joints)}; the log is of another robot, or its columns "
                f"want renaming",
                source=source,
                joint=name,
            )
    for name, unit in zip(recording.joints, recording.position_units):
        if name not in motors:
            raise InvalidRecording(
                f"{source}: column '{name}' is no actuated joint of '{mechanism.name}'"
                f"{nearest(name, motors)}",
                source=source,
                joint=name,
            )
        if unit != mechanism.joint(name).unit:
            raise InvalidRecording(
                f"{source}: '{name}' is recorded in {unit}, but the robot's joint moves in "
                f"{mechanism.joint(name).unit}",
                source=source,
                joint=name,
            )
    if recording.payload is not None:
        mechanism.payload(recording.payload)
    signal_of(recording)
    if recording.joints == motors:
        return recording
    order = [recording.joints.index(name) for name in motors]
    changed: dict[str, Any] = {
        kind: getattr(recording, kind)[:, order]
        for kind in JOINT_KINDS
        if getattr(recording, kind) is not None
    }
    for units in ("position_units", "current_units"):
        changed[units] = tuple(
            getattr(recording, units)[i] for i in order if getattr(recording, units)
        )
    return replace(recording, joints=motors, **changed)


def signal_of(recording: Recording) -> Literal["effort", "current"]:
    """Return which of them says what the motors did: efforts, or currents where there are none."""
    if recording.effort is None and recording.current is None:
        raise InvalidRecording(
            f"{recording.source}: there is neither effort nor current; add such columns"
        )
    return "current" if recording.effort is None else "effort"


def ready(model: Model, recording: Recording, settings: Processing) -> Recording:
    """Return the recording in the robot's order, on an even clock, in whole periods if it has any;
    notices say what.

    Arrays are inspected here as files are when they are read.
    """
    recording = inspected(matched(recording, model))
    _check_alive(recording)
    try:
        check_even(recording)
    except InvalidRecording as uneven:
        recording = resample_evenly(recording)
        recording = _noted(
            recording,
            "resampled",
            f"put on an even clock of {recording.rate:.6g} Hz, linear between samples; the "
            f"step after sample {uneven.numbers['sample']} was {uneven.numbers['deviation']:.1%} "
            f"off the mean",
            rate=recording.rate,
        )
    if recording.period_samples is None and (seconds := repetition(recording)) is not None:
        if settings.repeats == "found":
            recording = resample_to_period(recording, estimate_period(recording, seconds))
        else:
            recording = _noted(
                recording,
                "period",
                f"the motion repeats every {seconds:.4g} s although no period is stated",
                "state it: periods are then averaged, and noise is separated from motion",
                seconds=seconds,
            )
    period = recording.period_samples
    if period is None or recording.period_count < 2 or settings.method in ("time", "raw"):
        return recording
    whole = recording.whole_periods()
    over, early = len(recording) - len(whole), unsettled_periods(whole)
    left = whole.period_count - early
    if over:
        recording = _noted(
            recording,
            "incomplete",
            f"the last period stops after {over} of {period} samples and was left out; {left} "
            "whole ones are averaged",
            samples=over,
            period=period,
        )
    if early:
        recording = _noted(
            recording,
            "transient",
            f"the motion still settles in the first {early} of {left + early} periods, left "
            f"out; {left} are averaged",
            periods=early,
        )
    return recording.take(slice(early * period, len(whole))) if over or early else recording


def _noted(
    recording: Recording, rule: str, text: str, advice: str = "", **numbers: float
) -> Recording:
    notice = Notice(
        rule=rule,
        level="info",
        where=recording.source,
        text=text,
        advice=advice,
        numbers=numbers,
    )
    return replace(recording, notices=(*recording.notices, notice))


def _check_alive(recording: Recording) -> None:
    """Refuse efforts or currents that never change: no estimator can make anything of such a
    row.
    """
    kind, joints = signal_of(recording), recording.joints
    signal = getattr(recording, kind)
    dead = [k for k in range(len(joints)) if len(signal) and np.ptp(signal[:, k]) == 0]
    if dead:
        raise InvalidRecording(
            f"{recording.source}: all {len(signal)} samples of "
            f"{', '.join(f'{joints[k]}.{kind}' for k in dead)} are "
            f"{signal[0, dead[0]]:.6g}; is the channel connected? Record it, or name the right "
            f"column in the "
            "description",
            source=recording.source,
            joint=joints[dead[0]],
        )


def repetition(recording: Recording) -> float | None:
    """Return the time after which all positions repeat to `REPEATS` of their spread, or None. [s]

    The first high peak of the autocorrelation is the candidate; the positions shifted by it decide.
    """
    every = max(1, len(recording) // SHOWN)
    x = recording.position[::every]
    x = (x - x.mean(axis=0))[:, np.ptp(x, axis=0) > 0]
    n = len(x)
    if n < 16 or not x.shape[1]:
        return None
    x = x / x.std(axis=0)
    power = (np.abs(np.fft.rfft(x, 2 * n, axis=0)) ** 2).sum(axis=1)
    r = np.fft.irfft(power)[: n // 2] / (n - np.arange(n // 2))
    low = int(np.argmax(r < 0.5 * r[0])) if (r < 0.5 * r[0]).any() else n  # beyond the peak at zero
    if low >= n // 2 - 1:
        return None
    lag = low + int(np.argmax(r[low:] > 0.98 * r[low:].max()))
    lag += int(np.argmax(r[lag : lag + max(low, 2)]))
    left = np.sqrt(np.mean((x[lag:] - x[:-lag]) ** 2, axis=0) / 2)
    return float(lag * every / recording.rate) if left.max() < REPEATS else None


def unsettled_periods(recording: Recording) -> int:
    """Return how many periods at the beginning of whole ones are those of a motion that still
    settles.

    A period is unsettled if in its first tenth a channel differs from the mean of the later periods
    with a mean square over `UNSETTLED` times the largest of: the median of its tenths, what later
    periods differ by among themselves, and `ALIKE` of the signal. Two periods are left in any case.
    """
    kinds = [
        kind for kind in ("position", "effort", "current") if getattr(recording, kind) is not None
    ]
    periods = np.concatenate([recording.periods(kind) for kind in kinds], axis=2)
    tenth = max(1, periods.shape[1] // 10)
    for first in range(len(periods) - 2):
        later = periods[first + 1 :]
        mean, least = later.mean(axis=0), (ALIKE * later.std(axis=(0, 1))) ** 2
        square = (periods[first] - mean) ** 2 * len(later) / (len(later) + 1)
        own = np.array([square[k : k + tenth].mean(axis=0) for k in range(0, len(mean), tenth)])
        other = ((later - mean) ** 2).sum(axis=0) / (len(later) - 1)
        usual = np.max(
            [np.median(own, axis=0), other.mean(axis=0), other[:tenth].mean(axis=0), least], axis=0
        )
        if (own[0] <= UNSETTLED * usual).all():
            return first
    return max(len(periods) - 2, 0)
