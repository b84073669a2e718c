"""Looking at a recording before believing it: clocks, gaps, saturation, quantisation, dead channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidRecording
from gough.logs.finding import Finding
from gough.logs.recording import Channels, Recording

JITTER = 0.01  # of a sampling step; below this stamps count as even
GAP = 1.5  # sampling steps; a longer one means that samples are missing
BRIDGE = 10.5  # sampling steps; what would be interpolated over a longer one is no data
STUCK = 20  # samples, and times as long as usual, that a channel may keep its value while the robot moves
JUMP = 8.0  # times the steps about it; noise on noise reaches 4 in a million samples
SATURATED_RUN = 5  # samples in a row at the extreme
SATURATED_RATIO = 3.0  # how much more often the extreme is taken than the values next to it


def inspect(recording: Recording) -> tuple[Finding, ...]:
    """Return what is worth knowing about the samples, channel by channel."""
    found = list(inspect_clock(recording.time, "time"))
    moving = moving_joints(recording.position)
    for kind, channels in recording.groups():
        found += inspect_group(kind, channels, moving)
    return tuple(found)


def inspected(recording: Recording) -> Recording:
    """Return the recording with what `inspect` finds among its findings, unless a reader has put it there."""
    if recording.inspected:
        return recording
    return replace(recording, quality=recording.quality + inspect(recording), inspected=True)


def inspect_group(kind: str, channels: Channels, moving: NDArray[np.bool_]) -> list[Finding]:
    """Return what is worth knowing about the columns of one kind; saturation only of what is measured or driven.

    `moving` are the samples where each actuated joint moves, (t, a).
    """
    driven = kind in ("position", "velocity", "effort", "current")
    use: NDArray[np.bool_] = np.asarray(moving.any(axis=1)) & driven
    found: list[Finding] = []
    for j, (values, name, unit) in enumerate(zip(channels.values.T, channels.names, channels.units)):
        found += inspect_channel(values, f"{name}.{kind}", unit, use)
        if kind in ("effort", "current"):
            found += inspect_stretches(values, f"{name}.{kind}", unit, moving[:, j])
        if kind in ("position", "passive"):
            found += inspect_jumps(values, f"{name}.{kind}", unit)
    return found + _twins(kind, channels)


def _twins(kind: str, channels: Channels) -> list[Finding]:
    """Return the columns that hold the same samples as another one: a copy, not a measurement."""
    first: dict[bytes, str] = {}
    found = []
    for values, name in zip(channels.values.T, channels.names):
        if values.min() == values.max():
            continue
        twin = first.setdefault(values.tobytes(), name)
        if twin != name:
            found.append(Finding(kind="duplicated", channel=f"{name}.{kind}", numbers={"samples": len(values)},
                                 message=f"all {len(values)} samples are those of {twin}.{kind}; is one channel "
                                         "recorded twice?"))
    return found


def inspect_jumps(values: FloatArray, channel: str, unit: str) -> list[Finding]:
    """Return whether a position jumps: an encoder that starts again after a turn, or counts that were lost.

    A step is a jump if it differs from the four steps about it by more than `JUMP` times the largest of them and the
    usual step together: a mechanism does not go that far within one sample and on as before. Jumps of one size, up and
    down, are those of a counter that starts again.
    """
    steps = np.diff(values)
    if len(steps) < 16:
        return []
    about = np.lib.stride_tricks.sliding_window_view(np.pad(steps, 2, mode="edge"), 5)[:, [0, 1, 3, 4]]
    odd = np.abs(steps - np.median(about, axis=1))
    moved = np.abs(steps[steps != 0])
    if not len(moved):
        return []
    jumps = np.flatnonzero(odd > JUMP * (np.abs(about).max(axis=1) + np.median(moved)))
    if not len(jumps):
        return []
    sizes = np.abs(steps[jumps])
    numbers = {"count": len(jumps), "size": float(np.median(sizes)), "sample": int(jumps[0])}
    if np.ptp(sizes) < 0.2 * sizes.max() and sizes.min() > 0.8 * np.ptp(values):
        return [Finding(kind="wrap", channel=channel, numbers=numbers,
                        message=f"jumps {len(jumps)} time(s) by about {np.median(sizes):.6g} {unit}, its whole range: "
                                "the counter starts again; say unwrap = true in the description")]
    return [Finding(kind="jump", channel=channel, numbers=numbers,
                    message=f"jumps {len(jumps)} time(s), by {sizes.max():.4g} {unit} at most, first after sample "
                            f"{jumps[0]}; were counts lost?")]


def inspect_clock(time: FloatArray, channel: str) -> tuple[Finding, ...]:
    """Return jitter, gaps and drift of time stamps.

    Jitter is the standard deviation of the steps around their median; a gap is a step above 1.5 medians; drift is
    the largest distance of the stamps from a straight line through them, where gaps and jitter do not explain it.
    """
    if len(time) < 3:
        return ()
    steps = np.diff(time)
    step = float(np.median(steps))
    found = []
    gaps = np.flatnonzero(steps > GAP * step)
    if len(gaps):
        worst = int(gaps[np.argmax(steps[gaps])])
        lost = int(np.sum(np.round(steps[gaps] / step) - 1))
        found.append(Finding(
            kind="gap", channel=channel,
            numbers={"count": len(gaps), "largest": steps[worst], "sample": worst, "lost": lost},
            message=f"{len(gaps)} gap(s), about {lost} sample(s) lost; the largest, {steps[worst] * 1e3:.4g} ms, after "
                    f"sample {worst} (t = {time[worst]:.4f} s) where {step * 1e3:.4g} ms are usual"))
    even = steps[steps <= GAP * step]
    jitter = float(np.std(even))
    if jitter > JITTER * step:
        found.append(Finding(
            kind="jitter", channel=channel, numbers={"std": jitter, "smallest": even.min(), "largest": even.max()},
            message=f"steps vary between {even.min() * 1e3:.4g} and {even.max() * 1e3:.4g} ms (standard deviation "
                    f"{jitter * 1e3:.3g} ms); filters need an even clock"))
    if not len(gaps):
        index = np.arange(len(time)) - (len(time) - 1) / 2
        slope = float(index @ (time - time.mean()) / (index @ index))
        drift = float(np.abs(time - time.mean() - slope * index).max())
        if drift > 0.5 * step and drift > 6 * jitter:
            found.append(Finding(
                kind="drift", channel=channel, numbers={"largest": drift},
                message=f"the clock runs unevenly: stamps are up to {drift * 1e3:.3g} ms ({drift / step:.1f} samples) "
                        "off a steady rate"))
    return tuple(found)


def inspect_channel(values: FloatArray, channel: str, unit: str, moving: NDArray[np.bool_] | None = None
                    ) -> tuple[Finding, ...]:
    """Return whether a channel is dead, quantised, or saturated where the robot is `moving`, (t,); all by default."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return (Finding(kind="dead", channel=channel, numbers={"value": low, "samples": len(values)},
                        message=f"all {len(values)} samples are {low:.6g} {unit}; is the channel connected?"),)
    found = []
    step = quantisation_step(values)
    if step is not None:
        found.append(Finding(kind="quantisation", channel=channel, numbers={"step": step, "range": high - low},
                             message=f"values come in steps of {step:.3g} {unit}"))
    for extreme, word in ((low, "smallest"), (high, "largest")):
        run, count, beside = _at_extreme(values, extreme, step, moving)
        if run >= SATURATED_RUN and count > SATURATED_RATIO * beside:
            found.append(Finding(
                kind="saturation", channel=channel, numbers={"value": extreme, "count": count, "longest": run},
                message=f"flat at its {word} value {extreme:.6g} {unit} for {run} samples in a row ({count} in all) "
                        "while the robot moves; if the drive saturated, cut these samples out"))
    return tuple(found)


def inspect_stretches(values: FloatArray, channel: str, unit: str, moving: NDArray[np.bool_]) -> list[Finding]:
    """Return whether an effort is dead for a part of the log: the same value between its extremes for long.

    A command may stand still with its joint, so only samples where this joint moves count. Long is twenty of them, and
    twenty times as long as a value usually lasts (commands that are held, coarse converters).
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    lengths = np.add.reduceat(moving.astype(int), starts)
    longest = int(np.argmax(lengths))
    run, first = int(lengths[longest]), int(starts[longest])
    usual = (int(lengths.sum()) - run) / max(1, len(lengths) - 1)
    if run < max(STUCK, STUCK * usual) or values[first] in (values.min(), values.max()):
        return []
    return [Finding(kind="dead", channel=channel, numbers={"value": values[first], "samples": run, "sample": first},
                    message=f"stands at {values[first]:.6g} {unit} for {run} samples from sample {first} on while its "
                            "joint moves; if it was not measured there, cut these samples out")]


def quantisation_step(values: FloatArray) -> float | None:
    """Return the spacing of the values a channel takes, or None if they look continuous.

    Neighbouring values of a quantised signal are whole steps apart, those of a continuous one anything. The step is
    the mean of the smallest gaps (up to 1.6 of their 5 % quantile), accepted if these vary by less than 30 % where
    those of a continuous signal vary by 58 %: this also finds an encoder step that is no multiple of the last digit
    printed, and one so fine that not every value is visited.
    """
    low, high = float(values.min()), float(values.max())
    levels = np.unique(np.round((values - low) / max(high - low, np.finfo(float).tiny), 12))
    if len(levels) < 3 or len(levels) > 0.95 * len(values):
        return None
    spacing = np.diff(levels)
    near = spacing[spacing <= 1.6 * np.quantile(spacing, 0.05)]
    mean = float(near.mean())
    return mean * (high - low) if near.std() < 0.3 * mean else None


def check_gaps(time: FloatArray, source: str, first: int = 0) -> float:
    """Return the mean of the steps that are no gaps, for a clock whose gaps are short enough to interpolate. [s]

    Raises:
        InvalidRecording: A gap of more than ten usual steps: the filters would take invented samples for data.
    """
    steps = np.diff(time)
    usual = float(np.median(steps))
    where = int(np.argmax(steps))
    if steps[where] > BRIDGE * usual:
        raise InvalidRecording(
            f"{source}: no samples for {steps[where]:.4g} s after sample {first + where} (t = {time[where]:.4f} s), "
            f"where {usual * 1e3:.4g} ms are usual; too long to interpolate: cut the log there and use the pieces "
            "as logs of their own", source=source, sample=first + where, gap=float(steps[where]))
    return float(steps[steps <= GAP * usual].mean())


def check_even(recording: Recording, first: int = 0) -> float:
    """Return the sampling rate of a recording whose clock is even; `first` is the number of its first sample. [Hz]

    Raises:
        InvalidRecording: Steps differ by more than 5 % of a step: filters and transforms need an even clock.
    """
    rate = recording.rate
    worst = float(np.abs(np.diff(recording.time) * rate - 1.0).max())
    if worst > 0.05:
        where = int(np.abs(np.diff(recording.time) * rate - 1.0).argmax())
        raise InvalidRecording(
            f"{recording.source}: the step after sample {first + where} (t = {recording.time[where]:.4f} s) differs by "
            f"{worst:.1%} from the mean {1e3 / rate:.4g} ms; state a rate in the description to put "
            "the samples on an even clock",
            source=recording.source, sample=first + where, deviation=worst)
    return rate


def moving_joints(position: FloatArray) -> NDArray[np.bool_]:
    """Tell the samples near which each actuated position changes, (t, a)."""
    return np.stack([moving_samples(column[:, None]) for column in position.T], axis=1)


def moving_samples(position: FloatArray, reach: int = 2) -> NDArray[np.bool_]:
    """Tell the samples within `reach` of one where some actuated position changes, (t, a) -> (t,)."""
    changes = np.flatnonzero(np.any(np.diff(position, axis=0) != 0, axis=1))
    edges = np.zeros(len(position) + 1, int)
    np.add.at(edges, np.maximum(changes - reach, 0), 1)
    np.add.at(edges, np.minimum(changes + 1 + reach, len(position)), -1)
    return np.cumsum(edges[:-1]) > 0


def _at_extreme(values: FloatArray, extreme: float, step: float | None,
                moving: NDArray[np.bool_] | None) -> tuple[int, int, int]:
    """Return the longest run at the extreme, the samples there, and those in the band beside it.

    The band is 2 % of the range or three quantisation steps: a smooth signal spends about as long there as at its
    turning point, a clipped one spends more at the limit.
    """
    use = np.ones(len(values), bool) if moving is None else moving
    hit = (values == extreme) & use
    width = max(0.02 * float(np.ptp(values)), 3.5 * (step or 0.0))
    beside = int(np.sum((np.abs(values - extreme) <= width) & use)) - int(hit.sum())
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hit.astype(np.int8), [0]])))
    run = int((edges[1::2] - edges[::2]).max()) if len(edges) else 0
    return run, int(hit.sum()), beside
