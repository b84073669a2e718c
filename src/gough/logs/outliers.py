"""Outliers: samples that neither the samples before nor those after them lead to.

They are found in each channel by itself, before any model, and excluded for all models alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.notices import Notice
from gough.logs.messages import log_notice
from gough.logs.neighbours import local_resolution, usual_size
from gough.logs.recording import Recording

MAX_OUTLIER_RUN = 3  # samples in a row
# Times the usual distance of a sample from its neighbours' lines; of Gaussian noise none in 1e12.
OUTLIER_RATIO = 15.0
OUTLIER_RESOLUTIONS = 8.0  # and times the resolution of the channel
# Standard deviations of an effort: smaller outliers do not matter, as efforts are not
# differentiated.
MATERIAL_EFFORT = 0.2
OUTLIER_PASSES = 3
MIN_OUTLIER_SAMPLES = 50  # of a log, below which none is sought
MAX_OUTLIER_FRACTION = 0.1  # of a channel; more of them are its nature


def find_outliers(values: FloatArray, time: FloatArray, material: float = 0.0) -> BoolArray:
    """Tell which samples of some channels are outliers, (t, k).

    Up to `MAX_OUTLIER_RUN` samples in a row are compared with the line through the two samples
    before them, with that through the two after them, and with the cubic through all four.
    Outliers are off all of them, to the same side, by `OUTLIER_RATIO` times what samples
    nearby are off the cubic: the step of a friction force lies on one of the lines.

    Args:
        values: Samples by channel, (t, k).
        time: Their instants, (t,). [s]
        material: Standard deviations of the channel that outliers are off, at least.
    """
    outlier = np.zeros(values.shape, bool)
    if len(values) < MIN_OUTLIER_SAMPLES:
        return outlier
    least = np.maximum(
        OUTLIER_RESOLUTIONS * local_resolution(values), material * values.std(axis=0)
    )
    repaired = values
    for _ in range(OUTLIER_PASSES):  # a large one may hide others nearby
        more = _candidates(repaired, time, least) & ~outlier
        if not more.any():
            break
        outlier |= more
        repaired = interpolate_marked(values, time, outlier)
    outlier[:, outlier.mean(axis=0) > MAX_OUTLIER_FRACTION] = False
    return outlier


def _candidates(values: FloatArray, time: FloatArray, least: FloatArray) -> BoolArray:
    """Tell which samples are far off what is around them, `least` or more, (t, k).

    Few samples are far off the line through the two before them. Only these, and the samples
    beside them, are compared with the other line and the cubic.
    """
    marked = np.zeros(values.shape, bool)
    off_line = np.abs(_off_line_before(values, time))
    columns = np.flatnonzero((off_line > least).any(axis=0))
    if columns.size == 0:
        return marked
    channels = np.ascontiguousarray(values[:, columns])
    threshold = np.maximum(
        OUTLIER_RATIO * usual_size(_off_cubic(channels, time)), least[:, columns]
    )
    far_off_line = off_line[:, columns] > threshold
    far_first, far_column = np.nonzero(far_off_line)
    for length in range(1, MAX_OUTLIER_RUN + 1):
        inside = (far_first >= 2) & (far_first + length + 1 < len(values))
        first = far_first[inside]
        column = far_column[inside]
        around = first + np.array([[-2], [-1], [length], [length + 1]])
        off_cubic = np.abs(_off_polynomial(channels, time, around, first, column))
        far = off_cubic > threshold[first, column]
        first = first[far]
        column = column[far]
        distance = _run_distance(channels, time, first, column, length)
        far = distance > threshold[first, column]
        first = first[far]
        column = column[far]
        before = _run_distance(channels, time, first - 1, column, length)
        after = _run_distance(channels, time, first + 1, column, length)
        largest = (distance[far] >= before) & (distance[far] > after)
        for k in range(length):
            marked[first[largest] + k, columns[column[largest]]] = True
    return marked


def interpolate_marked(values: FloatArray, time: FloatArray, marked: BoolArray) -> FloatArray:
    """Return channels with marked samples on the line between those beside them, (t, k)."""
    repaired = values.copy()
    for j in np.flatnonzero(marked.any(axis=0)):
        mask = marked[:, j]
        repaired[mask, j] = np.interp(time[mask], time[~mask], values[~mask, j])
    return repaired


def _off_line_before(values: FloatArray, time: FloatArray) -> FloatArray:
    """Return the distance of each sample from the line through the two before it, (t, k)."""
    step = np.diff(time)
    ratio = step[1:] / step[:-1]
    increment = np.diff(values, axis=0)
    off = np.zeros(values.shape)
    off[2:] = increment[1:] - ratio[:, None] * increment[:-1]
    return off


def _off_cubic(values: FloatArray, time: FloatArray) -> FloatArray:
    """Return the distance of each sample from the cubic through two on both sides, (t, k)."""
    sample = np.arange(2, len(values) - 2)
    around = sample + np.array([[-2], [-1], [1], [2]])
    off = np.zeros(values.shape)
    off[2:-2] = values[2:-2]
    for weight, place in zip(_lagrange_weights(time, around, sample), (0, 1, 3, 4)):
        off[2:-2] -= weight[:, None] * values[place : place + len(sample)]
    return off


def _run_distance(
    values: FloatArray, time: FloatArray, first: IntArray, column: IntArray, length: int
) -> FloatArray:
    """Return how far some runs of samples are off what is around them, (n,).

    The smallest distance of the samples of a run from the line before it, the line after it and
    the cubic; zero if they lie to different sides of these, or too near to an end of the log.

    Args:
        first: First sample of each run, (n,).
        column: Its column, (n,).
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
            off = _off_polynomial(values, time, np.array(points), sample, column)
            smallest = np.minimum(smallest, np.abs(off))
            signs += np.sign(off)
    one_side = np.abs(signs) == 3 * length
    return np.where(inside & one_side, smallest, 0.0)


def _off_polynomial(
    values: FloatArray, time: FloatArray, around: IntArray, sample: IntArray, column: IntArray
) -> FloatArray:
    """Return the distance of samples from the polynomials through others of their columns, (n,).

    Args:
        around: Samples that the polynomials pass, (p, n).
        sample: Those whose distance is returned, (n,).
        column: Of each of them, (n,).
    """
    weights = _lagrange_weights(time, around, sample)
    return np.asarray(values[sample, column] - (weights * values[around, column]).sum(axis=0))


def _lagrange_weights(time: FloatArray, around: IntArray, sample: IntArray) -> FloatArray:
    """Return the weights of samples in the polynomial through them at others, (p, n).

    Args:
        around: Samples that the polynomial passes, (p, n).
        sample: Where it is evaluated, (n,).
    """
    weights = np.ones(around.shape)
    instant = time[sample]
    others = time[around]
    for i, weight in enumerate(weights):
        for k in range(len(around)):
            if k != i:
                weight *= (instant - others[k]) / (others[i] - others[k])
    return weights


def without_outliers(recording: Recording) -> Recording:
    """Return the recording with outliers of positions, efforts and currents interpolated.

    Their samples count as not measured, for all models. Notices of the returned recording
    state what was found.
    """
    bad = np.zeros(len(recording), bool)
    repaired: dict[str, Any] = {}
    notices = []
    for kind, channels in recording.groups():
        if kind not in ("position", "effort", "current"):
            continue
        material = 0.0 if kind == "position" else MATERIAL_EFFORT
        outlier = find_outliers(channels.values, recording.time, material)
        if not outlier.any():
            continue
        repaired[kind] = interpolate_marked(channels.values, recording.time, outlier)
        shift = np.abs(channels.values - repaired[kind]).max(axis=0)
        for j in np.flatnonzero(outlier.any(axis=0)):
            channel = f"{channels.names[j]}.{kind}"
            notices.append(_notice(recording, channel, outlier[:, j], float(shift[j])))
        bad |= outlier.any(axis=1)
    if not repaired:
        return recording
    measured = ~bad if recording.measured is None else recording.measured & ~bad
    notices = [*recording.notices, *notices]
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
