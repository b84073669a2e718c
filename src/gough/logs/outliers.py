"""Outliers of all channels, and jumps of positions, from the signals alone.

Outliers are samples that neither the samples before nor those after
them lead to. They are found in each channel by itself, before any
model, and excluded for all models alike. A jump is a position that
steps alone, as when an encoder loses counts or wraps. Whether counts
were really lost is for the residual of a model to confirm: it then has
a step that stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.notices import Notice
from gough.core.signals import (
    WINDOWS_AT_ONCE,
    PolynomialDistance,
    lagrange_weights,
    least_usual_size,
    local_resolution,
    running,
    usual_size,
)
from gough.logs.checks import GAP_STEPS, is_even
from gough.logs.messages import log_notice
from gough.logs.recording import Recording

MAX_OUTLIER_RUN = 3  # samples in a row
# Times the usual distance of a sample from its neighbours' lines; of
# Gaussian noise none in 1e12.
OUTLIER_RATIO = 15.0
OUTLIER_RESOLUTIONS = 8.0  # and times the resolution of the channel
# Standard deviations of an effort: smaller outliers do not matter, as
# efforts are not differentiated.
MATERIAL_EFFORT = 0.2
OUTLIER_PASSES = 3
MIN_OUTLIER_SAMPLES = 50  # of a log, below which none is sought
MAX_OUTLIER_FRACTION = 0.1  # of a channel; more of them are its nature
LINE_BEFORE = (-2, -1)  # samples that the line before a sample passes
LINE_AFTER = (1, 2)  # and the line after it
CLOCK_ROUNDINGS = 4.0  # by which the steps of an even clock differ
SCREEN_MARGIN = 0.999  # for rounding, of what is computed in two ways
MIN_JUMP_SAMPLES = 16  # of a log, below which none is sought
# Times what increments nearby usually differ from the motion; of noise
# none in 1e12.
JUMP_RATIO = 15.0
JUMP_RESOLUTIONS = 3.0  # and times the resolution of the channel
# Other channels step at the same time if they do by so many times what
# is usual for them.
SHARED_JUMP_RATIO = 5.0
JUMP_WINDOW = 10  # samples that a cubic and a step are fitted to
# Fraction of what a cubic does not explain that a cubic with a step may leave:
# a start, a stop or an impact leaves more.
MAX_UNEXPLAINED = 0.1
MIN_JUMP_RANGE = 1e-6  # of the range of a position: no encoder counts finer
# Times the local motion that a joint jumps which moves alone: a lost
# row looks alike.
ALONE_MOTION_RATIO = 2.0
# relative: jumps of one size to this are those of one counter
WRAP_TOLERANCE = 0.02
TURN = 2 * np.pi


def find_outliers(
    values: FloatArray, time: FloatArray, material: float | FloatArray = 0.0
) -> BoolArray:
    """Return which samples of some channels are outliers, (t, k).

    Up to `MAX_OUTLIER_RUN` samples in a row are compared with the line
    through the two samples before them, with that through the two after
    them, and with the cubic through all four. Outliers are off all of
    them, to the same side, by `OUTLIER_RATIO` times what samples nearby
    are off the cubic: the step of a friction force lies on one of the
    lines.

    Args:
        values: Samples by channel, (t, k).
        time: Their instants, (t,). [s]
        material: Standard deviations of a channel that outliers are
            off, at least; (k,) if not of all channels.
    """
    outlier = np.zeros(values.shape, bool)
    if len(values) < MIN_OUTLIER_SAMPLES:
        return outlier
    search = _OutlierSearch(time)
    deviations = material * values.std(axis=0)
    for j, column in enumerate(values.T):
        recorded = np.ascontiguousarray(column)
        resolution = local_resolution(recorded[:, None])[:, 0]
        least = np.maximum(OUTLIER_RESOLUTIONS * resolution, deviations[j])
        repaired = recorded
        for _ in range(OUTLIER_PASSES):  # a large one may hide others nearby
            more = search.outliers(repaired, least) & ~outlier[:, j]
            if not more.any():
                break
            outlier[:, j] |= more
            repaired = _interpolate_marked(recorded, time, outlier[:, j])
    outlier[:, outlier.mean(axis=0) > MAX_OUTLIER_FRACTION] = False
    return outlier


class _OutlierSearch:
    """Finds the samples of a channel that are far off what is around them, on the log's clock.

    All samples are compared with both lines and the cubic by a lower
    bound of what is usual nearby. What is usual, and the distances of
    all samples of a run, are computed only where the ends of a run are
    further off than that.
    """

    def __init__(self, time: FloatArray) -> None:
        self._time = time
        step = np.diff(time)
        rounding = CLOCK_ROUNDINGS * np.finfo(float).eps * float(np.abs(time).max())
        clock: FloatArray | None = time
        if float(np.ptp(step)) <= rounding:  # even: one set of weights for all samples
            clock = None
        self._line_before = PolynomialDistance(clock, LINE_BEFORE)
        self._line_after = PolynomialDistance(clock, LINE_AFTER)
        self._cubics = []
        for length in range(1, MAX_OUTLIER_RUN + 1):
            cubic = PolynomialDistance(clock, (*LINE_BEFORE, length, length + 1))
            self._cubics.append(cubic)

    def outliers(self, values: FloatArray, least: FloatArray) -> BoolArray:
        """Return which samples of a channel are outliers, (t,).

        Args:
            values: Samples, (t,).
            least: That an outlier is off, at least, (t,).
        """
        line_before = self._line_before(values)  # of sample 2 on
        line_after = self._line_after(values)  # of sample 0 on
        off_cubic = np.zeros(len(values))
        off_cubic[2:-2] = self._cubics[0](values)
        bound = OUTLIER_RATIO * SCREEN_MARGIN * least_usual_size(off_cubic)
        np.maximum(bound, least * SCREEN_MARGIN, out=bound)
        marked = np.zeros(len(values), bool)
        for length, cubic in enumerate(self._cubics, start=1):
            nearest = off_cubic[2:-2].copy()  # of sample 2 on
            if length > 1:
                nearest = cubic(values)
            np.minimum(nearest, line_before[: len(nearest)], out=nearest)
            np.minimum(nearest, line_after[length + 1 :], out=nearest)
            first = np.flatnonzero(nearest > bound[2 : 2 + len(nearest)]) + 2
            threshold = np.maximum(OUTLIER_RATIO * usual_size(off_cubic, first), least[first])
            suspect = nearest[first - 2] > SCREEN_MARGIN * threshold
            first = first[suspect]
            if not len(first):
                continue
            distance = _run_distance(values, self._time, first, length)
            before = _run_distance(values, self._time, first - 1, length)
            after = _run_distance(values, self._time, first + 1, length)
            largest = (distance >= before) & (distance > after)
            first = first[largest & (distance > threshold[suspect])]
            for k in range(length):
                marked[first + k] = True
        return marked


def _interpolate_marked(values: FloatArray, time: FloatArray, marked: BoolArray) -> FloatArray:
    """Return a channel with marked samples on the line between those beside them, (t,)."""
    repaired = values.copy()
    repaired[marked] = np.interp(time[marked], time[~marked], values[~marked])
    return repaired


def _run_distance(values: FloatArray, time: FloatArray, first: IntArray, length: int) -> FloatArray:
    """Return how far some runs of samples are off what is around them, (n,).

    The smallest distance of the samples of a run from the line before
    it, the line after it and the cubic; zero if they lie to different
    sides of these, or too near to an end of the log.

    Args:
        first: First sample of each run, (n,).
        length: Samples of a run.
    """
    inside = (first >= 2) & (first + length + 1 < len(values))
    begin = np.where(inside, first, 2)
    before = [begin - 2, begin - 1]
    after = [begin + length, begin + length + 1]
    smallest = np.full(len(first), np.inf)
    signs = np.zeros(len(first))
    for k in range(length):
        sample = begin + k
        for points in (before, after, before + after):
            off = _off_polynomial(values, time, np.array(points), sample)
            smallest = np.minimum(smallest, np.abs(off))
            signs += np.sign(off)
    one_side = np.abs(signs) == 3 * length
    return np.where(inside & one_side, smallest, 0.0)


def _off_polynomial(
    values: FloatArray, time: FloatArray, around: IntArray, sample: IntArray
) -> FloatArray:
    """Return the distance of samples from the polynomials through others, (n,).

    Args:
        around: Samples that the polynomials pass, (p, n).
        sample: Those whose distance is returned, (n,).
    """
    weights = lagrange_weights(time, around, sample)
    return np.asarray(values[sample] - (weights * values[around]).sum(axis=0))


def without_outliers(recording: Recording) -> Recording:
    """Return the recording with outliers of positions, efforts and currents interpolated.

    Their samples count as not measured, for all models. Notices of the
    returned recording state what was found.
    """
    groups = []
    material: list[float] = []  # of each channel
    least_deviations = {"position": 0.0, "effort": MATERIAL_EFFORT, "current": MATERIAL_EFFORT}
    for kind, channels in recording.groups():
        if kind in least_deviations:
            groups.append((kind, channels))
            material += [least_deviations[kind]] * len(channels.names)
    values = np.concatenate([channels.values for _, channels in groups], axis=1)
    outlier = find_outliers(values, recording.time, np.array(material))
    if not outlier.any():
        return recording
    repaired: dict[str, Any] = {}
    notices = list(recording.notices)
    first = 0  # column of the first channel of a kind
    for kind, channels in groups:
        values = channels.values.copy()
        for j, name in enumerate(channels.names):
            marked = outlier[:, first + j]
            if marked.any():
                values[:, j] = _interpolate_marked(values[:, j], recording.time, marked)
                shift = float(np.abs(values[:, j] - channels.values[:, j]).max())
                notices.append(_notice(recording, f"{name}.{kind}", marked, shift))
                repaired[kind] = values
        first += len(channels.names)
    measured = np.asarray(~outlier.any(axis=1))
    if recording.measured is not None:
        measured &= recording.measured
    return replace(recording, **repaired, measured=measured, notices=tuple(notices))


def _notice(recording: Recording, channel: str, outlier: BoolArray, shift: float) -> Notice:
    first = int(np.argmax(outlier))
    return log_notice(
        "outliers",
        channel,
        f"{int(outlier.sum())} sample(s) far from those before and after them, by {shift:.4g} at "
        f"most, first at {recording.time[first]:.4f} s; excluded",
        count=int(outlier.sum()),
        largest=shift,
        first=recording.time[first],
    )


@dataclass(frozen=True, kw_only=True)
class Jump:
    """A step of one position that its motion and the other joints do not explain."""

    joint: str  # name of the motor or passive joint
    unit: str  # `m` or `rad`
    sample: int  # number of the first sample behind it
    time: float  # of that sample [s]
    # beyond the motion; one turn of the counter if it wraps [m or rad]
    size: float
    # usual size of what was measured as `size` nearby [m or rad]
    deviation: float
    wraps: bool  # the counter starts again


def find_jumps(recording: Recording) -> tuple[Jump, ...]:
    """Return the jumps of positions in the order of time.

    A cubic with a step in the middle is fitted to `JUMP_WINDOW` samples
    of one position. The position jumps there if the step is
    `JUMP_RATIO` times what is usual nearby, more than the resolution,
    and explains what the cubic alone does not, while no other joint
    steps with it and the times between the samples are usual. Samples
    that were not measured are left out. Apply it to rows on their true
    instants (`gough.logs.clocks`), before they are resampled:
    interpolation hides the resolution of positions.
    """
    if len(recording) < MIN_JUMP_SAMPLES:
        return ()
    _, _, position = _positions(recording)
    step, explained = _fitted_steps(position, recording.time)
    least = JUMP_RESOLUTIONS * local_resolution(position)[1:]
    magnitude = np.abs(step)
    bound = JUMP_RATIO * least_usual_size(magnitude, JUMP_WINDOW // 2)
    suspect = (magnitude > np.maximum(bound, least)).any(axis=1)
    rows = np.flatnonzero(suspect)
    if not len(rows):
        return ()
    return _jumps_at(rows, recording, step, explained[rows], least[rows])


def _jumps_at(
    rows: IntArray, recording: Recording, step: FloatArray, explained: BoolArray, least: FloatArray
) -> tuple[Jump, ...]:
    """Return the jumps at some of the steps between samples.

    Args:
        rows: Numbers of the steps that may be jumps, (n,).
        recording: The log.
        step: Fitted between each two samples, (t - 1, a).
        explained: Whether the step explains its window, (n, a).
        least: Smallest jump that the resolution shows, (n, a).
    """
    names, units, position = _positions(recording)
    magnitude = np.abs(step)
    highest_nearby = running(np.maximum, magnitude, JUMP_WINDOW + 1)[rows]
    increments = np.diff(position, axis=0)
    motion = usual_size(np.abs(increments), rows)
    usual = usual_size(magnitude, rows, JUMP_WINDOW // 2)
    increments = increments[rows]
    step = step[rows]
    magnitude = magnitude[rows]
    large = magnitude > np.maximum(JUMP_RATIO * usual, least)
    large &= magnitude > MIN_JUMP_RANGE * np.ptp(position, axis=0)
    if recording.measured is not None or not is_even(recording.time):
        large &= _usual_intervals(recording)[rows, None]
    large &= magnitude >= highest_nearby
    alone = (magnitude > np.maximum(SHARED_JUMP_RATIO * usual, least)).sum(axis=1) <= 1
    moves = motion > np.maximum(SHARED_JUMP_RATIO * usual, least)
    others_move = moves.sum(axis=1, keepdims=True) > moves
    # the lost or repeated row of a joint that moves alone looks like a
    # jump
    no_lost_row = others_move | (magnitude > ALONE_MOTION_RATIO * motion)
    lost = large & alone[:, None] & explained & no_lost_row
    jumps = []
    for j in np.flatnonzero(large.any(axis=0)):
        too_large = increments[large[:, j], j]
        turn = _turn(too_large, float(np.ptp(position[:, j])), units[j])
        wraps = large[:, j] & (np.abs(np.abs(increments[:, j]) - turn) < 0.2 * turn)
        for k in np.flatnonzero(wraps | lost[:, j]):
            sample = int(rows[k]) + 1
            size = step[k, j]
            if wraps[k]:
                size = np.sign(increments[k, j]) * turn
            jumps.append(
                Jump(
                    joint=names[j],
                    unit=units[j],
                    sample=sample,
                    time=float(recording.time[sample]),
                    size=float(size),
                    deviation=float(usual[k, j]),
                    wraps=bool(wraps[k]),
                )
            )
    return tuple(sorted(jumps, key=lambda jump: jump.sample))


def _positions(recording: Recording) -> tuple[list[str], list[str], FloatArray]:
    """Return names, units and samples of the positions of motors and passive joints, (t, k)."""
    names = list(recording.joints)
    units = list(recording.position_units)
    position = recording.position
    if recording.passive is not None:
        names += recording.passive.names
        units += recording.passive.units
        position = np.concatenate([position, recording.passive.values], axis=1)
    return names, units, position


def _fitted_steps(position: FloatArray, time: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the step between each two samples, (t - 1, a), and whether it explains the window.

    A cubic and a step are fitted to `JUMP_WINDOW` samples around it by
    least squares. It explains the window if at most `MAX_UNEXPLAINED`
    of the squares that a cubic leaves stay.
    """
    half = JUMP_WINDOW // 2
    step = np.zeros((len(position) - 1, position.shape[1]))
    explained = np.zeros(step.shape, bool)
    positions = sliding_window_view(position, JUMP_WINDOW, axis=0)  # (s, a, w)
    if is_even(time):  # in steps; the same for all windows
        times = np.arange(float(JUMP_WINDOW))[None]
    else:
        times = sliding_window_view(time / float(np.median(np.diff(time))), JUMP_WINDOW)
    unit_step = (np.arange(JUMP_WINDOW) >= half).astype(float)
    for start in range(0, len(positions), WINDOWS_AT_ONCE):
        windows = positions[start : start + WINDOWS_AT_ONCE]
        windows = windows - windows.mean(axis=2, keepdims=True)
        moment = times
        if len(times) > 1:
            moment = times[start : start + WINDOWS_AT_ONCE]
        moment = moment - moment[:, half - 1 : half + 1].mean(axis=1, keepdims=True)
        cubics = np.stack([moment**0, moment, moment**2, moment**3], axis=2)
        basis = np.linalg.qr(cubics)[0]  # orthonormal columns, (s, w, 4), or (1, w, 4) if even
        residual_step = unit_step - np.einsum("swp,sp->sw", basis, unit_step @ basis)
        power = (residual_step**2).sum(axis=1)[:, None]
        signal = (windows @ residual_step[:, :, None])[:, :, 0]
        coefficients = windows @ basis
        total = (windows**2).sum(axis=2) - (coefficients**2).sum(axis=2)
        total = total.clip(min=0.0)  # that a cubic alone does not explain, (s, a)
        remaining = total - signal**2 / power
        first = start + half - 1
        middles = slice(first, first + len(windows))
        step[middles] = signal / power
        explained[middles] = remaining < MAX_UNEXPLAINED * total
    return step, explained


def _usual_intervals(recording: Recording) -> BoolArray:
    """Return which steps have measured samples and usual times around them, (t - 1,)."""
    interval = np.diff(recording.time)
    good = interval < GAP_STEPS * float(np.median(interval))
    if recording.measured is not None:
        good &= recording.measured[1:] & recording.measured[:-1]
    return np.asarray(~running(np.maximum, ~good, 5, "constant"))


def _turn(steps: FloatArray, span: float, unit: str) -> float:
    """Return after what a counter starts again; infinite if it does not.

    Whole turns, or steps of one size up and down that is the range of
    the position.

    Args:
        steps: Increments that are too large.
        span: Range of the position.
        unit: Of the position.
    """
    size = np.abs(steps)
    large = size > 0.5 * size.max(initial=0.0)
    if not large.any():
        return np.inf
    middle = float(np.median(size[large]))
    turns = round(middle / TURN)
    if unit == "rad" and turns >= 1 and abs(middle / TURN - turns) < WRAP_TOLERANCE * turns:
        return turns * TURN
    up_and_down = bool((steps[large] > 0).any() and (steps[large] < 0).any())
    scatter = float(np.median(np.abs(size[large] - middle)))
    whole_range = span < (1 + WRAP_TOLERANCE) * middle
    if up_and_down and whole_range and large.sum() > 2 and scatter < WRAP_TOLERANCE * middle:
        return middle
    return np.inf


def jump_notices(jumps: Sequence[Jump]) -> Iterator[Notice]:
    """Yield a notice for each joint whose position jumps: a counter that wraps, or lost counts."""
    for joint in dict.fromkeys(jump.joint for jump in jumps):
        wraps = [jump for jump in jumps if jump.joint == joint and jump.wraps]
        steps = [jump for jump in jumps if jump.joint == joint and not jump.wraps]
        if wraps:
            turn = abs(wraps[0].size)
            yield log_notice(
                "wrap",
                f"{joint}.position",
                f"jumps {len(wraps)} time(s) by about {turn:.6g} {wraps[0].unit}, its whole range: "
                "the counter wraps",
                "write unwrap = true in the description",
                count=len(wraps),
                size=turn,
                sample=wraps[0].sample,
            )
        if steps:
            largest = max(steps, key=lambda jump: abs(jump.size))
            yield log_notice(
                "jump",
                f"{joint}.position",
                f"jumps {len(steps)} time(s) alone, by {largest.size:.4g} {largest.unit} at most, "
                f"first at {steps[0].time:.4f} s",
                "check whether encoder counts were lost",
                count=len(steps),
                size=largest.size,
                sample=steps[0].sample,
                time=steps[0].time,
            )
