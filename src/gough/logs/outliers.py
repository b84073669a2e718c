"""Outliers: samples that neither the samples before nor those after them lead to.

They are found in each channel by itself, before any model, and excluded for all models alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
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
    """Tell which samples are far off what is around them, `least` or more, (t, k)."""
    marked = np.zeros(values.shape, bool)
    usual = usual_size(_distances(values, time, 1)[1])
    for length in range(1, MAX_OUTLIER_RUN + 1):
        distance = _distances(values, time, length)[0]
        far = distance > np.maximum(OUTLIER_RATIO * usual, least)
        first = _local_maximum(distance, far)
        for k in range(length):
            marked[k:] |= first[: len(first) - k]
    return marked


def interpolate_marked(values: FloatArray, time: FloatArray, marked: BoolArray) -> FloatArray:
    """Return channels with marked samples on the line between those beside them, (t, k)."""
    repaired = values.copy()
    for j in np.flatnonzero(marked.any(axis=0)):
        mask = marked[:, j]
        repaired[mask, j] = np.interp(time[mask], time[~mask], values[~mask, j])
    return repaired


def _distances(values: FloatArray, time: FloatArray, length: int) -> tuple[FloatArray, FloatArray]:
    """Return how far the run that begins at each sample is off what is around it, (t, k) each.

    The smallest distance of its samples from the two lines and the cubic, zero if they lie to
    different sides of these; and the distance of its first sample from the cubic.
    """
    n = len(values) - length - 3  # runs with two samples before and after
    before = [0, 1]
    after = [length + 2, length + 3]
    smallest = np.full((n, values.shape[1]), np.inf)
    signs = np.zeros((n, values.shape[1]))
    off_cubic = np.zeros(values.shape)
    for place in range(2, length + 2):
        sample = values[place : place + n]
        for around in (before, after, before + after):
            off = sample - _interpolated(values, time, around, place, n)
            smallest = np.minimum(smallest, np.abs(off))
            signs += np.sign(off)
        if place == 2:
            off_cubic[2 : 2 + n] = off
    distance = np.zeros(values.shape)
    distance[2 : 2 + n] = np.where(np.abs(signs) == 3 * length, smallest, 0.0)
    return distance, off_cubic


def _interpolated(
    values: FloatArray, time: FloatArray, around: list[int], place: int, n: int
) -> FloatArray:
    """Return the polynomial through samples at some places of n windows at another, (n, k)."""
    middle = time[place : place + n]
    predicted = np.zeros((n, values.shape[1]))
    for i in around:
        weight = np.ones(n)
        for k in around:
            if k != i:
                weight *= (middle - time[k : k + n]) / (time[i : i + n] - time[k : k + n])
        predicted += weight[:, None] * values[i : i + n]
    return predicted


def _local_maximum(magnitude: FloatArray, far: BoolArray) -> BoolArray:
    """Return the candidates that are the largest among themselves and their neighbours."""
    padded = np.pad(magnitude, ((1, 1), (0, 0)))
    return np.asarray(far & (magnitude >= padded[:-2]) & (magnitude > padded[2:]))


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
