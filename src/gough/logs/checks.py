"""Checks of recorded samples: gaps, saturation, quantisation, dead channels, velocities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.notices import Notice
from gough.core.statistics import robust_scale
from gough.core.units import conversion
from gough.logs.messages import log_notice, refused
from gough.logs.recording import Channels, Recording

# samples on both sides of a change of a position that belong to the
# motion
CHANGE_REACH = 2
# of a sampling step; smaller deviations count as an even clock
JITTER_RATIO = 0.01
GAP_STEPS = 1.5  # sampling steps; after a longer one samples are missing
MAX_BRIDGED_STEPS = 10.5  # sampling steps; longer gaps are not interpolated
# Samples, and times as long as usual, that a channel may keep its value
# while the robot moves.
MAX_CONSTANT_RUN = 20
SATURATED_RUN = 5  # consecutive samples at the extreme
# how much more often the extreme is taken than the values next to it
SATURATED_RATIO = 3.0
# of a coarse converter, over which the slope beside a constant run is
# taken
EDGE_STEPS = 2
# of a sampling step; filters need steps that differ by less
EVEN_CLOCK_RATIO = 0.05
# Times as many samples as usual that may have one time stamp: more, and
# the clock hung.
MAX_EQUAL_STAMPS_RATIO = 4.0
MIN_COMPARED_SAMPLES = 50
# Windows over which a velocity is integrated and compared with the
# change of the position: this fraction of the log, and at least so many
# samples.
COMPARED_WINDOW = 0.005
MIN_COMPARED_WINDOW = 10
# Correlation of changes and integrals from which both are of the same
# joint.
SAME_JOINT_CORRELATION = 0.9
# Factor between both from which a unit, a gear ratio or the clock is
# wrong; delays and filters of a drive change it by some percent.
VELOCITY_MISMATCH_RATIO = 1.2
# Times the limit of a motor from which an effort is questioned: peaks
# exceed what a file states.
BEYOND_LIMIT_RATIO = 1.2
# guessed in this order
VELOCITY_UNITS = {"rad": ("rad/s", "deg/s", "rpm"), "m": ("m/s", "mm/s")}


def inspected(recording: Recording) -> Recording:
    """Return the recording with notices on its clock and channels, unless it has them already."""
    if recording.inspected:
        return recording
    motion = joint_motion(recording.position)
    notices = [*recording.notices, *inspect_clock(recording.time, "time")]
    for kind, channels in recording.groups():
        notices += inspect_group(kind, channels, motion)
    if recording.velocity is not None:
        notices += inspect_velocities(recording)
    return replace(recording, notices=tuple(notices), inspected=True)


class JointMotion(NamedTuple):
    """When the actuated joints move."""

    position: FloatArray  # (t, a)
    # samples within `CHANGE_REACH` of a change of each position, (t, a)
    changes: BoolArray
    # samples where some joint moves by more than its noise, (t,)
    travels: BoolArray

    def at(self, samples: IntArray) -> JointMotion:
        """Return the motion at other samples, (s,)."""
        return JointMotion(self.position[samples], self.changes[samples], self.travels[samples])


def joint_motion(position: FloatArray) -> JointMotion:
    """Return when joints move, from their positions, (t, a)."""
    n_changes = np.zeros(position.shape, int)  # until each sample
    np.cumsum(np.diff(position, axis=0) != 0, axis=0, out=n_changes[1:])
    sample = np.arange(len(position))
    last = np.minimum(sample + CHANGE_REACH + 1, len(sample) - 1)
    first = np.maximum(sample - CHANGE_REACH, 0)
    changes = n_changes[last] > n_changes[first]
    travels = changes.any(axis=1) & travelling(position).any(axis=1)
    return JointMotion(position, changes, np.asarray(travels))


def inspect_group(kind: str, channels: Channels, motion: JointMotion) -> Iterator[Notice]:
    """Yield the notices on the columns of one kind.

    Args:
        kind: Of the columns; saturation is sought only in what is
            measured or driven.
        channels: The columns, sampled as the motion.
        motion: Of the actuated joints.
    """
    driven = kind in ("position", "velocity", "effort", "current")
    moving: BoolArray = np.asarray(motion.travels & driven)
    first: dict[bytes, str] = {}
    for j, name in enumerate(channels.names):
        channel = f"{name}.{kind}"
        values = channels.values[:, j]
        unit = channels.units[j]
        if kind in ("effort", "current"):
            position = motion.position[:, j]
            yield from inspect_channel(values, channel, unit, moving, position)
            changes = motion.changes[:, j]
            yield from inspect_constant_runs(values, channel, unit, changes, position)
        else:
            yield from inspect_channel(values, channel, unit, moving)
        twin = first.setdefault(values.tobytes(), channel)
        if twin != channel and np.ptp(values) > 0:
            yield log_notice(
                "duplicated",
                channel,
                f"all {len(values)} samples are those of {twin}",
                "check whether one channel was recorded twice",
                level="warning",
                samples=len(values),
            )


def inspect_clock(time: FloatArray, channel: str) -> Iterator[Notice]:
    """Yield jitter, gaps and drift of time stamps.

    Jitter is the standard deviation of the steps around their median; a
    gap is a step above 1.5 medians; drift is the largest distance of
    the stamps from a straight line through them, where gaps and jitter
    do not explain it.
    """
    if len(time) < 3:
        return
    steps = np.diff(time)
    step = float(np.median(steps))
    gaps = np.flatnonzero(steps > GAP_STEPS * step)
    if len(gaps):
        worst = int(gaps[np.argmax(steps[gaps])])
        lost = int(np.sum(np.round(steps[gaps] / step) - 1))
        yield log_notice(
            "gap",
            channel,
            f"{len(gaps)} gap(s), about {lost} sample(s) lost; the largest, "
            f"{steps[worst] * 1e3:.4g} ms, after sample {worst} (t = {time[worst]:.4f} s) where "
            f"{step * 1e3:.4g} ms are usual",
            count=len(gaps),
            largest=steps[worst],
            sample=worst,
            lost=lost,
        )
    even = steps[steps <= GAP_STEPS * step]
    jitter = float(np.std(even))
    if jitter > JITTER_RATIO * step:
        yield log_notice(
            "jitter",
            channel,
            f"steps vary between {even.min() * 1e3:.4g} and {even.max() * 1e3:.4g} ms "
            f"(standard deviation {jitter * 1e3:.3g} ms), filters need an even clock",
            std=jitter,
            smallest=even.min(),
            largest=even.max(),
        )
    if not len(gaps):
        index = np.arange(len(time)) - (len(time) - 1) / 2
        slope = float(index @ (time - time.mean()) / (index @ index))
        drift = float(np.abs(time - time.mean() - slope * index).max())
        if drift > 0.5 * step and drift > 6 * jitter:
            yield log_notice(
                "drift",
                channel,
                f"the clock runs unevenly: stamps are up to {drift * 1e3:.3g} ms "
                f"({drift / step:.1f} samples) off a steady rate",
                largest=drift,
            )


def spread_equal_stamps(time: FloatArray) -> tuple[FloatArray, int]:
    """Return time stamps of which equal ones are put evenly before the next, and their number.

    The clocks of some programs are coarser than their samples, and some
    write a sample twice. Stamps that go backwards, or of which far more
    than usual are equal, are returned as they are.
    """
    steps = np.diff(time)
    if not (np.isfinite(steps).all() and (steps >= 0).all()) or (steps > 0).all():
        return time, 0
    starts = np.concatenate([[0], np.flatnonzero(steps) + 1])
    lengths = np.diff(np.append(starts, len(time)))
    if len(starts) < 3 or lengths.max() > MAX_EQUAL_STAMPS_RATIO * np.median(lengths):
        return time, 0
    stamps = time[starts]
    usual = float(np.median(np.diff(stamps)))
    until_next = np.minimum(np.append(np.diff(stamps), usual), usual)
    place = np.arange(len(time)) - np.repeat(starts, lengths)
    spread = np.repeat(stamps, lengths) + place * np.repeat(until_next / lengths, lengths)
    return spread, len(time) - len(starts)


def inspect_channel(
    values: FloatArray,
    channel: str,
    unit: str,
    moving: BoolArray | bool = True,
    position: FloatArray | None = None,
) -> Iterator[Notice]:
    """Yield notices if a channel is dead, quantised, or saturated while `moving`, (t,).

    A clipped signal spends more samples at its limit than in the band
    beside it, 2 % of the range or three quantisation steps; a smooth
    one spends about as long there as at its turning point. And it stays
    there longer than anywhere else: the friction of a slow joint is
    constant for as long, and a coarse converter shows it as one value.
    An effort behind a coarse converter must also hide a peak.

    Args:
        values: Of the channel, (t,).
        channel: Its name.
        unit: Of the values.
        moving: Samples where the robot moves, (t,).
        position: Of the joint, if the channel is its effort, (t,).
    """
    low = float(values.min())
    high = float(values.max())
    if low == high:
        yield log_notice(
            "dead",
            channel,
            f"all {len(values)} samples are {low:.6g} {unit}",
            "check whether the channel is connected",
            level="warning",
            value=low,
            samples=len(values),
        )
        return
    step = quantisation_step(values)
    if step is not None:
        yield log_notice(
            "quantisation",
            channel,
            f"values come in steps of {step:.3g} {unit}",
            step=step,
            range=high - low,
        )
    width = max(0.02 * (high - low), 3.5 * (step or 0.0))
    for extreme, word in ((low, "smallest"), (high, "largest")):
        hit = (values == extreme) & moving
        count = int(hit.sum())
        beside = int(np.sum((np.abs(values - extreme) <= width) & moving)) - count
        if count < SATURATED_RUN or count <= SATURATED_RATIO * beside:
            continue
        run = _longest_run(values, hit)
        between = (values > low) & (values < high) & moving
        if run < SATURATED_RUN or run <= SATURATED_RATIO * _longest_run(values, between):
            continue
        if position is not None and step and not _hides_a_peak(values, hit, step, position):
            continue
        yield log_notice(
            "saturation",
            channel,
            f"constant at its {word} value {extreme:.6g} {unit} for {run} consecutive samples "
            f"({count} in all) while the robot moves",
            "if the drive saturated, cut these samples out",
            level="warning",
            value=extreme,
            count=count,
            longest=run,
        )


def _hides_a_peak(
    values: FloatArray, at_limit: BoolArray, step: float, position: FloatArray
) -> bool:
    """Return whether an effort would have gone on beyond its extreme in one of its runs there.

    A coarse converter shows friction as one value for as long as a
    joint moves one way. A clipped effort comes to its limit and leaves
    it with a slope, that over the last steps beside the run; a parabola
    with these slopes at its ends is slope * length / 4 high. Where the
    joint turns around, friction causes such slopes, and a run without
    an end shows none.

    Args:
        values: Of the effort, (t,).
        at_limit: Samples at the extreme while the robot moves, (t,).
        step: Of the converter.
        position: Of the joint, (t,).
    """
    borders = np.flatnonzero(np.diff(at_limit.astype(int))) + 1
    starts = borders[at_limit[borders]]
    ends = borders[~at_limit[borders]]
    if at_limit[0]:
        ends = ends[1:]  # of a run without a beginning
    starts = starts[: len(ends)]  # a run without an end is the last one
    limit = values[at_limit][0]
    away = np.flatnonzero(np.abs(values - limit) > (EDGE_STEPS - 0.5) * step)
    number = np.searchsorted(away, starts)  # of the first sample away behind each start
    inside = (number > 0) & (number < len(away))
    starts = starts[inside]
    ends = ends[inside]
    number = number[inside]
    slowest = np.maximum(starts - away[number - 1], away[number] - ends + 1)
    hidden_steps = EDGE_STEPS / slowest * (ends - starts) / 4
    long_enough = (hidden_steps > MIN_HIDDEN_STEPS) & (ends - starts >= SATURATED_RUN)
    for k in np.flatnonzero(long_enough):
        if not (_turns_around(position, int(starts[k])) or _turns_around(position, int(ends[k]))):
            return True
    return False


def _longest_run(values: FloatArray, chosen: BoolArray) -> int:
    """Return the largest number of consecutive chosen samples with the same value."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    return int(np.add.reduceat(chosen.astype(int), starts).max(initial=0))


# Fraction of its range that a joint has to travel while an effort is
# constant, for the effort to be dead: positions at rest change by
# noise, too.
MIN_TRAVEL = 0.01


# Quantisation steps by which an effort should have changed while it was
# constant. Over a fraction of a joint's range an effort changes by
# about that fraction of its own.
MIN_HIDDEN_STEPS = 3.0


# A joint turns around where it is slower than this fraction of its top
# speed, measured from so many samples before to so many behind.
REVERSAL_SPEED = 0.02
REVERSAL_SAMPLES = 5


def _ends_abruptly(values: FloatArray, first: int, step: float) -> bool:
    """Return whether a constant run ends with a jump of more than one step.

    While an effort is dead, the true one moves on. How a run begins
    proves nothing: a joint that starts to move has a jump of friction
    there. A run without an end is judged by its beginning.
    """
    changes = np.flatnonzero(values[first:] != values[first])
    if len(changes):
        jump = abs(values[first + changes[0]] - values[first])
    elif first > 0:
        jump = abs(values[first] - values[first - 1])
    else:
        return False
    return bool(jump > 1.5 * step)


def inspect_constant_runs(
    values: FloatArray, channel: str, unit: str, moving: BoolArray, position: FloatArray
) -> Iterator[Notice]:
    """Yield a notice if an effort is dead for some time: constant between its extremes.

    A command may be constant while its joint is at rest, so only
    samples where this joint moves are counted: twenty of them, and
    twenty times as many as a value usually lasts (commands that are
    held, coarse converters). A quantised effort that changes slowly
    leaves its value by one step, a dead one by more; and a joint that
    hardly travels may leave it within one. Where the joint turns
    around, friction makes it leave its value by more.
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    lengths = np.add.reduceat(moving.astype(int), starts)
    longest = int(lengths.max())
    usual = (int(lengths.sum()) - longest) / max(1, len(lengths) - 1)
    long_runs = np.flatnonzero(lengths >= MAX_CONSTANT_RUN * max(1, usual))
    for k in long_runs[np.argsort(-lengths[long_runs], kind="stable")]:
        run = int(lengths[k])
        first = int(starts[k])
        if not _is_dead(values, first, position):
            continue
        yield log_notice(
            "dead",
            channel,
            f"constant at {values[first]:.6g} {unit} for {run} samples from sample {first} on "
            "while its joint moves",
            "if it was not measured there, cut these samples out",
            level="warning",
            value=values[first],
            samples=run,
            sample=first,
        )
        return


def _is_dead(values: FloatArray, first: int, position: FloatArray) -> bool:
    """Return whether an effort should have changed during its constant run, but did not."""
    if not values.min() < values[first] < values.max():
        return False
    end = first + int(np.argmax(np.append(values[first:] != values[first], True)))
    travel = float(np.ptp(position[first:end])) / max(float(np.ptp(position)), TINY)
    if travel <= MIN_TRAVEL:
        return False
    step = quantisation_step(values) or 0.0
    should_change = travel * float(np.ptp(values)) > MIN_HIDDEN_STEPS * step
    if not should_change or _turns_around(position, end):
        return False
    return _ends_abruptly(values, first, step)


def _turns_around(position: FloatArray, sample: int) -> bool:
    """Return whether a joint stops or reverses at a sample: friction jumps there."""
    last = len(position) - 1
    if sample > last:
        return False
    first = max(sample - REVERSAL_SAMPLES, 0)
    travel = abs(position[min(sample + REVERSAL_SAMPLES, last)] - position[first])
    fastest = np.abs(position[2 * REVERSAL_SAMPLES :] - position[: -2 * REVERSAL_SAMPLES])
    return bool(travel <= REVERSAL_SPEED * fastest.max(initial=0.0))


# Levels from which a lattice is no chance, and the largest number of
# steps between the two nearest of them.
MIN_LATTICE_LEVELS = 20
MAX_LATTICE_DIVISOR = 8
MIN_LATTICE_STEP = 1e-7  # of the range: finer steps are digits of a file
MIN_SPACING = 1e-10  # of the range: levels are rounded to 1e-12 of it
LATTICE_TOLERANCE = 0.1  # of a step, by which any level may be off


def quantisation_step(values: FloatArray) -> float | None:
    """Return the spacing of the values a channel takes, or None if they look continuous.

    Neighbouring values of a quantised signal are whole steps apart,
    those of a continuous one anything. The step is the mean of the
    smallest gaps (up to 1.6 of their 5 % quantile), accepted if these
    vary by less than 30 % where those of a continuous signal vary by 58
    %: this also finds an encoder step that is no multiple of the last
    digit printed, and one so fine that not every value is visited.
    """
    low = float(values.min())
    high = float(values.max())
    levels = np.unique(np.round((values - low) / max(high - low, np.finfo(float).tiny), 12))
    if len(levels) < 3:
        return None
    if len(levels) <= 0.95 * len(values):
        spacing = np.diff(levels)
        near = spacing[spacing <= 1.6 * np.quantile(spacing, 0.05)]
        mean = float(near.mean())
        if near.std() < 0.3 * mean and mean > MIN_SPACING:
            return mean * (high - low)
    step = _lattice_step(levels)
    return None if step is None else step * (high - low)


def _lattice_step(levels: FloatArray) -> float | None:
    """Return the step of which all levels in [0, 1] are multiples, or None.

    Few of many steps are visited where a short motion repeats: then
    neighbours are many steps apart, but every level is still a whole
    number of them.
    """
    if len(levels) < MIN_LATTICE_LEVELS:
        return None
    smallest = float(np.diff(levels).min())
    for divisor in range(1, MAX_LATTICE_DIVISOR + 1):
        step = smallest / divisor
        if step < MIN_LATTICE_STEP:
            return None
        numbers = np.round(levels / step)
        step = float(levels @ numbers / (numbers @ numbers))
        if float(np.abs(levels / step - np.round(levels / step)).max()) < LATTICE_TOLERANCE:
            return step
    return None


def check_gaps(time: FloatArray, source: str, first: int = 0) -> float:
    """Return the mean of the steps that are no gaps; refuse gaps too long to interpolate. [s]"""
    steps = np.diff(time)
    usual = float(np.median(steps))
    where = int(np.argmax(steps))
    if steps[where] > MAX_BRIDGED_STEPS * usual:
        raise refused(
            source,
            f"no samples for {steps[where]:.4g} s after sample {first + where} "
            f"(t = {time[where]:.4f} s), where {usual * 1e3:.4g} ms are usual; too long to "
            "interpolate: cut the log there and use the pieces as logs of their own",
            sample=first + where,
            gap=float(steps[where]),
        )
    return float(steps[steps <= GAP_STEPS * usual].mean())


class UnusualStep(NamedTuple):
    """The step of a clock that differs most from the usual one."""

    sample: int  # number of the sample before it
    deviation: float  # relative difference from the median of the steps


def most_unusual_step(time: FloatArray) -> UnusualStep:
    """Return the step of a clock, (t,), that differs most from the usual one."""
    interval = np.diff(time)
    deviation = np.abs(interval / np.median(interval) - 1.0)
    sample = int(deviation.argmax())
    return UnusualStep(sample, float(deviation[sample]))


def is_even(time: FloatArray) -> bool:
    """Return whether all steps of a clock are within `EVEN_CLOCK_RATIO` of the usual one."""
    return most_unusual_step(time).deviation <= EVEN_CLOCK_RATIO


def check_even(recording: Recording, first: int = 0) -> float:
    """Return the sampling rate; refuse a clock that is not even. [Hz]

    Filters and transforms need an even clock. `first` is the number of
    the first sample.
    """
    rate = recording.rate
    sample, deviation = most_unusual_step(recording.time)
    if deviation > EVEN_CLOCK_RATIO:
        raise refused(
            recording.source,
            f"the step after sample {first + sample} (t = {recording.time[sample]:.4f} s) "
            f"differs by {deviation:.1%} from the usual one; state a rate in the description to "
            f"put the samples on an even clock, {rate:.6g} Hz for example",
            sample=first + sample,
            deviation=deviation,
        )
    return rate


# Over this many samples on both sides a joint has to travel by more
# than so many steps of its encoder and standard deviations of its
# noise, to move and not to be at rest with a noisy encoder.
TRAVEL_REACH = 10
TRAVEL_RESOLUTION_STEPS = 2.5
TRAVEL_DEVIATIONS = 6.0


@np.errstate(over="ignore", invalid="ignore")  # damaged files hold numbers near the largest
def travelling(position: FloatArray) -> BoolArray:
    """Return a mask of the samples at which each joint travels, beyond its noise, (t, a).

    The standard deviation of noise is that of second differences over
    the root of six: those of a sampled motion are small.
    """
    if len(position) < 3:
        return np.zeros(position.shape, bool)
    noise = robust_scale(np.diff(position, 2, axis=0)) / np.sqrt(6)
    steps = np.array([quantisation_step(column) or 0.0 for column in position.T])
    sample = np.arange(len(position))
    last = np.minimum(sample + TRAVEL_REACH, len(sample) - 1)
    first = np.maximum(sample - TRAVEL_REACH, 0)
    travel = np.minimum(np.abs(position[last] - position), np.abs(position - position[first]))
    return np.asarray(
        travel > np.maximum(TRAVEL_RESOLUTION_STEPS * steps, TRAVEL_DEVIATIONS * noise)
    )


def velocity_ratio(time: FloatArray, position: FloatArray, velocity: FloatArray) -> float:
    """Return a recorded velocity over the derivative of a position; NaN if they are unrelated.

    The velocity is integrated over short windows, as a position would
    be differentiated with its noise.

    Args:
        time: Time stamps, (t,). [s]
        position: Of a joint, (t,).
        velocity: Recorded as that of the joint, (t,).
    """
    finite = np.isfinite(time) & np.isfinite(position) & np.isfinite(velocity)
    if int(finite.sum()) < MIN_COMPARED_SAMPLES:
        return float("nan")
    time = time[finite]
    position = position[finite]
    velocity = velocity[finite]
    window = max(MIN_COMPARED_WINDOW, int(COMPARED_WINDOW * len(time)))
    mean_velocity = (velocity[1:] + velocity[:-1]) / 2
    integral = np.concatenate([[0.0], np.cumsum(mean_velocity * np.diff(time))])
    travelled = position[window:] - position[:-window]
    integrated = integral[window:] - integral[:-window]
    scale = float(np.linalg.norm(travelled) * np.linalg.norm(integrated))
    if not (np.isfinite(scale) and scale > 0):
        return float("nan")
    correlation = float(travelled @ integrated) / scale
    if abs(correlation) < SAME_JOINT_CORRELATION:
        return float("nan")
    return float(np.sign(correlation) * np.linalg.norm(integrated) / np.linalg.norm(travelled))


def inspect_velocities(recording: Recording) -> Iterator[Notice]:
    """Yield a warning for each joint whose recorded velocity contradicts its position."""
    if recording.velocity is None:
        return
    for j, joint in enumerate(recording.joints):
        ratio = velocity_ratio(recording.time, recording.position[:, j], recording.velocity[:, j])
        if 1 / VELOCITY_MISMATCH_RATIO <= ratio <= VELOCITY_MISMATCH_RATIO or np.isnan(ratio):
            continue
        yield log_notice(
            "velocity",
            f"{joint}.velocity",
            f"is {ratio:.4g} times the derivative of the position",
            "check units, signs and gear ratios of position and velocity, and the unit of time",
            level="warning",
            ratio=ratio,
        )


def common_velocity_unit(ratios: Sequence[float], units: Sequence[str]) -> str | None:
    """Return the unit in which all velocities are the derivatives of their positions.

    Args:
        ratios: Recorded numbers over the derivatives of the positions
            in SI units; NaN if not known.
        units: Candidates.

    Returns:
        None if there is no such unit, or if no ratio is known.
    """
    known = [ratio for ratio in ratios if not np.isnan(ratio)]
    for unit in units:
        in_unit = [ratio * conversion(unit) for ratio in known]
        fits = [1 / VELOCITY_MISMATCH_RATIO <= r <= VELOCITY_MISMATCH_RATIO for r in in_unit]
        if known and all(fits):
            return unit
    return None
