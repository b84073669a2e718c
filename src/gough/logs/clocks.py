"""The true instants of samples: host stamps, repeated rows and lost rows.

A program that logs a robot often stamps rows with its own clock while
the controller samples evenly. Rows are then repeated (no new sample had
arrived) or lost (two had), and stamps are late by as much as the
program was. The motion shows it: between neighbouring rows all moving
joints advance by the same whole number of usual steps, 0, 1, 2, ...
Either clock is judged by how smooth the positions are on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.notices import Notice
from gough.core.signals import (
    PolynomialDistance,
    local_resolution,
    median_around,
    power_density,
    running,
    weighted_window,
)
from gough.core.statistics import robust_scale
from gough.logs.checks import EVEN_CLOCK_RATIO, GAP_STEPS, JITTER_RATIO, is_even
from gough.logs.messages import log_notice
from gough.logs.recording import Recording

STEP_REACH = 8  # rows on each side whose median increment is the usual step
# A joint moves clearly if its usual step is so many times what steps
# nearby differ by.
CLEAR_STEP_RATIO = 10.0
# and so many times the resolution of its positions
CLEAR_STEP_RESOLUTIONS = 3.0
# Fraction of a step by which a joint's advance may differ from a whole
# number of steps.
WHOLE_STEP_TOLERANCE = 0.25
SINGLE_STEP_TOLERANCE = 0.1  # the same of a joint that moves alone
MAX_REPEATED_RUN = 10  # rows; longer ones are taken as rest
# Positions on controller time have to be so much smoother than on stamps to replace these:
# below both noise and rounding decide.
SMOOTHER_RATIO = 0.8
# Rows repeated or lost, and cycles between stamps and controller time
# at most, from which even stamps are those of a program that reads the
# controller at a rate of its own.
MIN_BEAT_ROWS = 10
MAX_BEAT_CYCLES = 1.5
MIN_STEP_RATIO = 0.05  # of a usual step: the least between two rows
# of the largest deviation from a smooth motion: less is rest
REST_DEVIATION_RATIO = 1e-6
# of a step: standard deviation expected where the motion shows nothing
MAX_LATENESS = 0.3
# times what is usual: a joint that differs so much says nothing of time
DISAGREEING_RATIO = 5.0
# the deviations of a log of 200 Hz fell to 20, 7, 5, 4 %
JITTER_ITERATIONS = 4
JITTER_SEGMENT = 256  # samples of its spectrum
TONE_BINS = 3  # frequencies of it that a tone fills
# of the power of the lateness that may be at so few frequencies
MAX_TONE_FRACTION = 0.5
# Weights of the cubic through nine samples, fitted by least squares, at
# the middle one.
LOCAL_CUBIC = np.array([-21, 14, 39, 54, 59, 54, 39, 14, -21]) / 231
HALF_CUBIC = len(LOCAL_CUBIC) // 2
MIN_CLOCK_SAMPLES = 16  # rows, below which stamps are not questioned
# steps between rows across which smoothness is not judged
MAX_NEIGHBOUR_STEPS = 3.0
NEIGHBOUR_PLACES = (-2, -1, 1, 2)  # of the two samples before and after one


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSteps:
    """How many usual steps the motion advances between neighbouring rows."""

    # 0 of a repeated row, 1, or more where rows were lost, (t - 1,)
    count: IntArray
    known: BoolArray  # the motion determines it, (t - 1,)
    # rows that repeat the one before them while the robot moves, (t,)
    repeated: BoolArray

    @property
    def lost(self) -> int:
        """Number of rows that are missing."""
        return int((self.count[self.known] - 1).clip(min=0).sum())


def row_steps(recording: Recording) -> RowSteps:
    """Count the steps between neighbouring rows from the motion of all joints.

    The usual step of a joint is the median of its increments nearby. A
    joint moves clearly if that is `CLEAR_STEP_RATIO` times the median
    deviation from it. The count is known if the joints that move
    clearly advance by one whole number, two of them each for itself, or
    one of them closely if the stamps are uneven; where one joint moves
    behind even stamps, only a row is accepted as repeated whose efforts
    or currents repeat too.
    """
    increments = np.diff(recording.position, axis=0)
    still = (increments == 0).all(axis=1)
    usual, deviation = _usual_steps(increments, still)
    resolution = local_resolution(recording.position, np.append(False, still))
    resolution = np.maximum(resolution[:-1], resolution[1:])
    speed = np.abs(usual)
    clear = (speed > CLEAR_STEP_RATIO * deviation) & (speed > CLEAR_STEP_RESOLUTIONS * resolution)
    n_clear = clear.sum(axis=1)
    scale = np.maximum(np.maximum(deviation, resolution), np.finfo(float).tiny ** 0.25)
    weight = np.where(clear, 1 / scale**2, 0.0)
    power = np.where(n_clear, (weight * usual**2).sum(axis=1), 1.0)
    advance = (weight * usual * increments).sum(axis=1) / power
    count = np.round(advance).astype(int)
    tolerance = WHOLE_STEP_TOLERANCE * np.maximum(count, 1)
    difference = np.abs(increments - count[:, None] * usual)
    misfit = np.sqrt((weight * difference**2).sum(axis=1) / power)
    agrees = clear & (difference < tolerance[:, None] * speed)
    n_agree = agrees.sum(axis=1)
    known = (misfit < tolerance) & (n_agree >= 2) & (count >= 0)
    if not is_even(recording.time):
        known |= (misfit < SINGLE_STEP_TOLERANCE) & (n_agree == 1) & (count >= 0)
    known &= (count != 0) | still
    # a row that was read late is a long step beside a short one, and
    # nothing is lost
    whole = (np.abs(advance - np.round(advance)) < WHOLE_STEP_TOLERANCE) | (n_clear == 0)
    known &= (count <= 1) | running(np.minimum, whole, 5)
    effort = recording.effort
    if effort is None:
        effort = recording.current
    repeats = np.zeros_like(still)
    if effort is not None:
        repeats = (n_clear == 1) & still & (np.diff(effort, axis=0) == 0).all(axis=1)
    count[repeats] = 0
    known |= repeats
    known &= (count != 0) | _stops_at_once(still, advance)
    count[~known] = 1
    repeated = np.concatenate([[False], known & (count == 0)])
    return RowSteps(count=count, known=known, repeated=repeated)


def _stops_at_once(still: BoolArray, advance: FloatArray) -> BoolArray:
    """Return which rows at rest have whole steps of the motion on both sides, (t,).

    A robot that stops becomes slower before and is slow after; a row
    that was read twice interrupts the motion at its speed.

    Args:
        still: Rows in which no joint advances.
        advance: Of each row, in usual steps.
    """
    moves_on = advance > 1 - WHOLE_STEP_TOLERANCE
    number = np.arange(len(still))
    before = np.maximum.accumulate(np.where(still, -1, number))
    after = np.minimum.accumulate(np.where(still, len(still), number)[::-1])[::-1]
    whole_before = (before < 0) | moves_on[np.maximum(before, 0)]
    whole_after = (after == len(still)) | moves_on[np.minimum(after, len(still) - 1)]
    return np.asarray(whole_before & whole_after)


def _usual_steps(increments: FloatArray, still: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of the increments nearby and the median deviation from it, (t, a) each.

    Rows that repeat the one before do not count, unless so many follow
    each other that the robot may be at rest.

    Args:
        increments: Of the positions, (t, a).
        still: Where all of them are zero, (t,).
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], still.astype(np.int8), [0]])))
    length = edges[1::2] - edges[::2]  # of runs of rows at rest
    repeats = still.copy()
    repeats[still] = np.repeat(length, length) <= MAX_REPEATED_RUN
    rows = np.flatnonzero(~repeats)
    usual = median_around(increments[rows], STEP_REACH)
    deviation = median_around(np.abs(increments[rows] - usual), STEP_REACH)
    nearest_row = np.clip(np.searchsorted(rows, np.arange(len(increments))), 0, len(rows) - 1)
    return usual[nearest_row], deviation[nearest_row]


def with_true_instants(recording: Recording) -> Recording:
    """Return the rows of a recording at the instants they were sampled, without repeated rows.

    Even stamps of rows one step apart are kept. So are others unless
    positions are clearly smoother on controller time: whole steps of an
    even clock, counted by the motion where it shows them and by the
    stamps elsewhere. If all joints then still run ahead and behind
    together, rows were read early and late, and their instants are
    those that the motion shows. Notices of the returned recording state
    what was found.
    """
    if len(recording) < MIN_CLOCK_SAMPLES:
        return recording
    steps = row_steps(recording)
    kept = ~steps.repeated
    notices = []
    if not kept.all():
        notices.append(_repeated_notice(kept))
    time = recording.time[kept]
    position = recording.position[kept]
    if (steps.count != 1).any() or not is_even(recording.time):
        ticks, period = _controller_ticks(recording.time, steps)
        on_ticks = ticks[kept] * period
        gain = _smoothness_ratio(position, on_ticks, time)
        if gain < SMOOTHER_RATIO:
            notices.append(_controller_notice(recording, steps, period, gain))
            time = on_ticks + float(np.median(time - on_ticks))
    jitter = _sampling_jitter(position, time)
    if jitter is not None:
        notices.append(_jitter_notice(jitter, time))
        time = _increasing(time + jitter)
    if not notices:
        return recording
    return replace(
        recording.take(kept),
        time=time,
        period_samples=recording.period_samples,
        notices=(*recording.notices, *notices),
    )


def _increasing(time: FloatArray) -> FloatArray:
    """Return times with at least `MIN_STEP_RATIO` of a usual step between neighbours."""
    least = MIN_STEP_RATIO * float(np.median(np.diff(time))) * np.arange(len(time))
    return np.asarray(np.maximum.accumulate(time - least) + least)


def _sampling_jitter(position: FloatArray, time: FloatArray) -> FloatArray | None:
    """Return by how much rows were sampled after their times, (t,) [s]; None if they were not.

    A row that is late by e lies v e ahead of the smooth motion in every
    joint, v being its velocity. The lateness that all joints but one
    show must explain most of the deviation of that one,
    `SMOOTHER_RATIO`; it must be more than an even clock may have, and
    look like noise: a motion that is not smooth has tones or is slow.
    And positions have to be smoother at these instants: where all
    joints start together, a fast motion looks late as well.
    """
    step = float(np.median(np.diff(time)))
    n_even = round((time[-1] - time[0]) / step) + 1
    if position.shape[1] < 2 or n_even > 2 * len(time):
        return None
    even = np.linspace(time[0], time[-1], n_even)
    lateness = np.zeros(len(time))
    instants = time
    for iteration in range(JITTER_ITERATIONS):
        deviation, velocity = _off_smooth_motion(position, instants, even)
        velocity[:HALF_CUBIC] = 0.0  # at the ends nothing is known of lateness
        velocity[-HALF_CUBIC:] = 0.0
        if iteration == 0 and not _is_shared(deviation, velocity, step):
            return None
        lateness = lateness + _common_lateness(deviation, velocity, step)
        instants = _increasing(time + lateness)
    smoother = _smoothness_ratio(position, instants, time)
    if smoother >= SMOOTHER_RATIO:
        return None
    return lateness


def _off_smooth_motion(
    position: FloatArray, time: FloatArray, even: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return how far positions are off a smooth motion, and its velocities, (t, a) each.

    The positions are brought onto an even clock and smoothed by local
    cubics.
    """
    tolerance = EVEN_CLOCK_RATIO * (even[1] - even[0])
    if len(even) == len(time) and np.abs(even - time).max() < tolerance:
        smooth = weighted_window(position, LOCAL_CUBIC)
        return position - smooth, np.gradient(smooth, even, axis=0)
    from scipy.interpolate import CubicSpline  # here, because it takes long to import

    resampled = CubicSpline(time, position)(even)
    smooth_at = CubicSpline(even, weighted_window(resampled, LOCAL_CUBIC))
    instants = np.clip(time, even[0], even[-1])
    return position - smooth_at(instants), smooth_at(instants, 1)


def _common_lateness(deviation: FloatArray, velocity: FloatArray, step: float) -> FloatArray:
    """Return the lateness of each row that fits all joints best, (t,). [s]

    A weighted mean of what the joints show, without those that differ
    from its weighted median by much more than is usual: a position may
    jump alone.
    """
    prior = (MAX_LATENESS * step) ** -2
    scale = _usual_deviation(deviation)
    middle = _weighted_median(deviation, velocity, scale)
    residual = deviation - velocity * middle[:, None]
    agrees = np.abs(residual) <= DISAGREEING_RATIO * _usual_deviation(residual)
    weight = agrees * (velocity / scale) ** 2
    pull = agrees * velocity * deviation / scale**2
    return np.asarray(pull.sum(axis=1) / (weight.sum(axis=1) + prior))


def _usual_deviation(deviation: FloatArray) -> FloatArray:
    """Return the median of |deviation| of each joint, without rests, where it is zero, (a,)."""
    scale = np.ones(deviation.shape[1])
    for j, column in enumerate(np.abs(deviation).T):
        moving = column[column > REST_DEVIATION_RATIO * column.max()]
        if len(moving):
            scale[j] = np.median(moving)
    return scale


def _weighted_median(deviation: FloatArray, velocity: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the median of deviation / velocity over joints, weight |velocity| / scale, (t,)."""
    moving = velocity != 0
    ratio = np.divide(deviation, velocity, out=np.zeros_like(deviation), where=moving)
    order = np.argsort(ratio, axis=1)
    weight = np.take_along_axis(np.abs(velocity) / scale, order, axis=1)
    below = np.cumsum(weight, axis=1) - weight / 2
    middle = np.abs(below - weight.sum(axis=1, keepdims=True) / 2).argmin(axis=1)
    chosen = np.take_along_axis(order, middle[:, None], axis=1)
    return np.asarray(np.take_along_axis(ratio, chosen, axis=1)[:, 0])


def _is_shared(deviation: FloatArray, velocity: FloatArray, step: float) -> bool:
    """Return whether joints deviate from a smooth motion as rows do that were sampled late."""
    scale = _usual_deviation(deviation)
    weight = (velocity / scale) ** 2
    prior = (MAX_LATENESS * step) ** -2
    pull = velocity * deviation / scale**2
    others = weight.sum(axis=1, keepdims=True) - weight + prior
    lateness = (pull.sum(axis=1, keepdims=True) - pull) / others
    before = np.abs(deviation).mean(axis=0)
    after = np.abs(deviation - velocity * lateness).mean(axis=0)
    moving = before > 0
    if moving.sum() < 2:
        return False
    ratio = np.exp(np.log(after[moving] / before[moving]).mean())
    if ratio >= SMOOTHER_RATIO:
        return False
    common = _common_lateness(deviation, velocity, step)
    if robust_scale(common) < JITTER_RATIO * step:
        return False
    segment = min(len(common), JITTER_SEGMENT)
    _, power = power_density(common, segment)
    tone = np.sort(power)[-TONE_BINS:].sum()
    return bool(tone < MAX_TONE_FRACTION * power.sum())


def _controller_ticks(time: FloatArray, steps: RowSteps) -> tuple[FloatArray, float]:
    """Return the number of the controller's cycle of each row, (t,), and its length. [s]

    Where the motion does not show how many cycles passed between two
    rows, the stamps do. Even stamps with lost or repeated rows may
    count rows; then a row takes one cycle. Or a program reads the
    newest sample at a rate of its own: then rows are repeated or lost
    so regularly that the stamps never get away from the cycles.
    """
    interval = np.diff(time)
    nominal = float(np.median(interval))
    even = is_even(time)
    n_irregular = int((steps.known & (steps.count != 1)).sum())
    if even and n_irregular < MIN_BEAT_ROWS:
        return _tick_numbers(time, steps, nominal), nominal
    period = nominal
    for _ in range(3):
        ticks = _tick_numbers(time, steps, period)
        centred = ticks - ticks.mean()
        period = float(centred @ (time - time.mean()) / (centred @ centred))
    ticks = _tick_numbers(time, steps, period)
    if not even or np.ptp(time - ticks * period) < MAX_BEAT_CYCLES * period:
        return ticks, period
    return _tick_numbers(time, steps, nominal), nominal


def _tick_numbers(time: FloatArray, steps: RowSteps, period: float) -> FloatArray:
    """Return the number of the controller's cycle of each row, (t,)."""
    advance = np.where(steps.known, steps.count, 0).astype(float)
    unknown = np.flatnonzero(~steps.known)
    edges = np.flatnonzero(np.diff(unknown) > 1) + 1
    for run in np.split(unknown, edges):
        if not len(run):
            continue
        elapsed = time[run + 1] - time[run[0]]
        least = np.arange(1, len(run) + 1)  # each row has a cycle of its own
        numbers = np.maximum.accumulate(np.round(elapsed / period) - least).clip(min=0) + least
        advance[run] = np.diff(numbers, prepend=0.0)
    return np.concatenate([[0.0], np.cumsum(advance)])


def _smoothness_ratio(position: FloatArray, ticks: FloatArray, stamps: FloatArray) -> float:
    """Return how rough positions are on ticks, as a fraction of what they are on stamps.

    Only samples are compared near which the two clocks differ.
    """
    tick_steps = np.diff(ticks)
    stamp_steps = np.diff(stamps)
    usual = float(np.median(tick_steps))
    differs = np.abs(tick_steps - stamp_steps) > EVEN_CLOCK_RATIO * usual
    long_steps = np.maximum(tick_steps, stamp_steps) > MAX_NEIGHBOUR_STEPS * usual
    compared = _any_of_four(differs) & ~_any_of_four(long_steps)
    if not compared.any():
        return 1.0
    rough_on_ticks = PolynomialDistance(ticks, NEIGHBOUR_PLACES)(position)[compared].mean(axis=0)
    rough_on_stamps = PolynomialDistance(stamps, NEIGHBOUR_PLACES)(position)[compared].mean(axis=0)
    rounding = np.median(local_resolution(position), axis=0) + TINY
    ratio = (rough_on_ticks + rounding) / (rough_on_stamps + rounding)
    return float(np.exp(np.log(ratio).mean()))


def _any_of_four(steps: BoolArray) -> BoolArray:
    """Return whether a step nearby is marked, for each sample but two at each end, (t - 4,)."""
    return np.asarray(steps[:-3] | steps[1:-2] | steps[2:-1] | steps[3:])


def _repeated_notice(kept: BoolArray) -> Notice:
    count = int((~kept).sum())
    return log_notice(
        "repeated",
        "time",
        f"{count} of {len(kept)} rows ({count / len(kept):.1%}) repeat the positions of the row "
        "before while the robot moves; excluded",
        count=count,
        first=int(np.argmin(kept)),
    )


def _jitter_notice(jitter: FloatArray, time: FloatArray) -> Notice:
    step = float(np.median(np.diff(time)))
    deviation = float(np.std(jitter))
    return log_notice(
        "late samples",
        "time",
        f"all joints are ahead or behind together by {deviation / step:.1%} of a sampling step "
        f"(standard deviation; {np.abs(jitter).max() * 1e3:.3g} ms at most): rows were sampled "
        "early and late, and were put at the instants that the motion shows",
        "log the controller's own time with each row",
        std=deviation,
        largest=np.abs(jitter).max(),
    )


def _controller_notice(recording: Recording, steps: RowSteps, period: float, gain: float) -> Notice:
    interval = np.diff(recording.time)
    late = int((interval > GAP_STEPS * period).sum())
    return log_notice(
        "controller time",
        "time",
        f"time stamps come in steps of {interval.min() * 1e3:.4g} to {interval.max() * 1e3:.4g} "
        f"ms, but the motion in whole steps of {period * 1e3:.6g} ms ({steps.lost} rows lost, "
        f"{late} stamps late): these were used, and positions are {1 / max(gain, 1e-6):.3g} times "
        "as smooth",
        "log the controller's own time with each row",
        period=period,
        lost=steps.lost,
        late=late,
        smoothness=gain,
    )
