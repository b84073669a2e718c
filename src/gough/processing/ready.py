"""A recording as the robot's: its joints in order, an even clock, whole periods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.errors import InvalidRecording, nearest
from gough.engine import Model
from gough.logs.checks import check_even, inspected
from gough.logs.finding import Finding
from gough.logs.periods import estimate_period, resample_to_period
from gough.logs.recording import Recording
from gough.logs.resampling import resample_evenly
from gough.mechanism import Mechanism
from gough.processing.averaging import unsettled_periods
from gough.processing.settings import Processing

REPEATS = 0.05  # of the motion that may differ from one period to the next for it to count as repeated
SHOWN = 20000  # samples in which a repetition is looked for


def on_motor_side(recording: Recording, mechanism: Mechanism) -> Recording:
    """Return the recording on the motors' side of transmissions, where its columns are called after the joints.

    With q_joints = B q_motors, positions are B^-1 q_joints and efforts B^T of those of the joints, unless the
    transmission says that they are the motors' already.
    """
    for gear in mechanism.transmissions:
        if not set(gear.joints) <= set(recording.joints):
            continue
        columns = [recording.joints.index(name) for name in gear.joints]
        back = {"positions": np.linalg.inv(gear.matrix).T, "efforts": gear.matrix}
        changed: dict[str, Any] = {}
        for kind, side in (("position", "positions"), ("velocity", "positions"), ("reference", "positions"),
                           ("effort", "efforts")):
            values = getattr(recording, kind)
            if values is not None and getattr(gear, side) == "joints":
                changed[kind] = np.array(values)
                changed[kind][:, columns] = values[:, columns] @ back[side]
        names, units = list(recording.joints), list(recording.position_units)
        for column, motor in zip(columns, gear.motors):
            names[column] = motor
            if gear.positions == "joints" and units[column] == mechanism.joint(recording.joints[column]).unit:
                units[column] = mechanism.joint(motor).unit
        recording = replace(recording, joints=tuple(names), position_units=tuple(units), **changed)
    return recording


def matched(recording: Recording, model: Model) -> Recording:
    """Return the recording with its joints in the robot's order.

    Raises:
        InvalidRecording: The joints, their units or the payload are not the robot's.
    """
    mechanism = model.mechanism
    recording = on_motor_side(recording, mechanism)
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
    if recording.effort is None and recording.current is None:
        raise InvalidRecording(f"{recording.source}: there is neither effort nor current; add such columns")
    if order == list(range(len(order))):
        return recording
    changed = {kind: getattr(recording, kind)[:, order]
               for kind in ("position", "velocity", "reference", "effort", "current")
               if getattr(recording, kind) is not None}
    current_units = tuple(recording.current_units[i] for i in order) if recording.current_units else ()
    return replace(recording, joints=mechanism.actuated, position_units=units, current_units=current_units, **changed)


def ready(model: Model, recording: Recording, settings: Processing) -> Recording:
    """Return the recording in the robot's order, on an even clock, in whole periods if it has any; findings say what.

    Arrays are inspected here as files are when they are read.

    Raises:
        InvalidRecording: As `matched`; an effort that never changes; or a gap in the clock too long to interpolate.
    """
    recording = inspected(matched(recording, model))
    _check_alive(recording)
    recording = _on_even_clock(recording)
    if recording.period_samples is None:
        recording = _looked_for_periods(recording, use=settings.repeats == "found")
    period = recording.period_samples
    if period is None or recording.period_count < 2 or settings.method in ("time", "raw"):
        return recording
    return _whole_and_settled(recording, period)


def _whole_and_settled(recording: Recording, period: int) -> Recording:
    """Return periods that are whole and repeat each other, with a finding about those that are not."""
    whole = recording.whole_periods()
    over, early = len(recording) - len(whole), unsettled_periods(whole)
    left = whole.period_count - early
    notes = list(recording.quality)
    if over:
        notes.append(Finding(kind="incomplete", channel=recording.source, numbers={"samples": over, "period": period},
                             message=f"the last period stops after {over} of {period} samples and was left out; "
                                     f"{left} whole ones are averaged"))
    if early:
        notes.append(Finding(kind="transient", channel=recording.source, numbers={"periods": early},
                             message=f"the motion still settles in the first {early} of {left + early} periods, left "
                                     f"out; {left} are averaged"))
    return replace(whole.take(slice(early * period, None)), quality=tuple(notes)) if over or early else recording


def _check_alive(recording: Recording) -> None:
    """Refuse efforts or currents that never change: no estimator can make anything of such a row."""
    signal = recording.effort if recording.effort is not None else recording.current
    if signal is None or not len(signal):
        return
    dead = [name for name, reach in zip(recording.joints, np.ptp(signal, axis=0)) if reach == 0]
    if dead:
        kind = "effort" if recording.effort is not None else "current"
        value = float(signal[0, recording.joints.index(dead[0])])
        raise InvalidRecording(
            f"{recording.source}: all {len(signal)} samples of {', '.join(f'{name}.{kind}' for name in dead)} are "
            f"{value:.6g}; is the channel connected? Record it, or name the right column in the description",
            source=recording.source, joint=dead[0])


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


def _looked_for_periods(recording: Recording, *, use: bool) -> Recording:
    """Say that a motion repeats although no period is stated; use it if asked."""
    seconds = repetition(recording)
    if seconds is None:
        return recording
    if use:
        return resample_to_period(recording, estimate_period(recording, seconds))
    note = Finding(kind="period", channel=recording.source, numbers={"seconds": seconds},
                   message=f"the motion repeats every {seconds:.4g} s although no period is stated; stating it lets "
                           "periods be averaged, and noise be told from motion")
    return replace(recording, quality=(*recording.quality, note))


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
    r = np.fft.irfft(power)[:n // 2] / (n - np.arange(n // 2))
    low = int(np.argmax(r < 0.5 * r[0])) if (r < 0.5 * r[0]).any() else n  # beyond the peak at zero
    if low >= n // 2 - 1:
        return None
    lag = low + int(np.argmax(r[low:] > 0.98 * r[low:].max()))
    lag += int(np.argmax(r[lag:lag + max(low, 2)]))
    left = np.sqrt(np.mean((x[lag:] - x[:-lag]) ** 2, axis=0) / 2)
    return float(lag * every / recording.rate) if left.max() < REPEATS else None
