"""Outliers: samples that neither the samples before nor those after them lead to.

They are found in each channel by itself, before any model, and excluded for all models alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.notices import Notice
from gough.logs.messages import log_notice
from gough.logs.neighbours import (
    PolynomialDistance,
    finest_resolution,
    lagrange_weights,
    least_usual_size,
    local_resolution,
    usual_size_at,
)
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
LINE_BEFORE = (-2, -1)  # samples that the line before a sample passes
LINE_AFTER = (1, 2)  # and the line after it
CLOCK_ROUNDINGS = 4.0  # by which the steps of an even clock differ
SCREEN_MARGIN = 0.999  # for rounding, of what is computed in two ways


def find_outliers(
    values: FloatArray, time: FloatArray, material: float | FloatArray = 0.0
) -> BoolArray:
    """Tell which samples of some channels are outliers, (t, k).

    Up to `MAX_OUTLIER_RUN` samples in a row are compared with the line through the two samples
    before them, with that through the two after them, and with the cubic through all four.
    Outliers are off all of them, to the same side, by `OUTLIER_RATIO` times what samples
    nearby are off the cubic: the step of a friction force lies on one of the lines.

    Args:
        values: Samples by channel, (t, k).
        time: Their instants, (t,). [s]
        material: Standard deviations of a channel that outliers are off, at least; (k,) if not
            of all channels.
    """
    outlier = np.zeros(values.shape, bool)
    if len(values) < MIN_OUTLIER_SAMPLES:
        return outlier
    screen = _Screen(time)
    deviations = material * values.std(axis=0)
    for j, column in enumerate(values.T):
        recorded = np.ascontiguousarray(column)
        least = max(float(deviations[j]), OUTLIER_RESOLUTIONS * finest_resolution(recorded))
        repaired = recorded
        for _ in range(OUTLIER_PASSES):  # a large one may hide others nearby
            more = _candidates(repaired, time, screen, least, recorded)
            more &= ~outlier[:, j]
            if not more.any():
                break
            outlier[:, j] |= more
            repaired = _interpolate_marked(recorded, time, outlier[:, j])
    outlier[:, outlier.mean(axis=0) > MAX_OUTLIER_FRACTION] = False
    return outlier


def _candidates(
    values: FloatArray, time: FloatArray, screen: _Screen, least: float, recorded: FloatArray
) -> BoolArray:
    """Tell which samples of a channel are far off what is around them, (t,).

    Args:
        values: Samples, (t,).
        least: That an outlier is off, at least.
        recorded: Samples as recorded, whose resolution matters, (t,).
    """
    marked = np.zeros(len(values), bool)
    runs = screen.far_runs(values, least)
    if not any(len(suspects.first) for suspects in runs):
        return marked
    resolution = local_resolution(recorded[:, None])[:, 0]
    lowest = np.maximum(OUTLIER_RESOLUTIONS * resolution, least)
    for length, suspects in enumerate(runs, start=1):
        threshold = np.maximum(OUTLIER_RATIO * suspects.usual, lowest[suspects.first])
        far = suspects.distance > SCREEN_MARGIN * threshold
        if not far.any():
            continue
        first = suspects.first[far]
        distance = _run_distance(values, time, first, length)
        far = distance > threshold[far]
        first = first[far]
        before = _run_distance(values, time, first - 1, length)
        after = _run_distance(values, time, first + 1, length)
        largest = (distance[far] >= before) & (distance[far] > after)
        for k in range(length):
            marked[first[largest] + k] = True
    return marked


class _Suspects(NamedTuple):
    """Runs of samples that may be outliers."""

    first: IntArray  # first sample of each run, (n,)
    distance: FloatArray  # of its ends from both lines, and of its first sample from the cubic
    usual: FloatArray  # usual distance of samples nearby from their cubics, (n,)


class _Screen:
    """Finds the few runs of samples of a log that may be outliers, on the log's clock.

    All samples are compared with both lines and the cubic by a lower bound of what is usual
    nearby. What is usual is computed only where they are further off than that.
    """

    def __init__(self, time: FloatArray) -> None:
        step = np.diff(time)
        rounding = CLOCK_ROUNDINGS * np.finfo(float).eps * float(np.abs(time).max())
        clock = None if float(np.ptp(step)) <= rounding else time
        self._line_before = PolynomialDistance(clock, LINE_BEFORE)
        self._line_after = PolynomialDistance(clock, LINE_AFTER)
        self._cubics = []
        for length in range(1, MAX_OUTLIER_RUN + 1):
            cubic = PolynomialDistance(clock, (*LINE_BEFORE, length, length + 1))
            self._cubics.append(cubic)

    def far_runs(self, values: FloatArray, least: float) -> list[_Suspects]:
        """Return the runs of 1, 2, ... samples that may be outliers.

        Args:
            values: Samples of a channel, (t,).
            least: That an outlier is off, at least.
        """
        line_before = self._line_before(values)  # of sample 2 on
        line_after = self._line_after(values)  # of sample 0 on
        off_cubic = np.zeros(len(values))
        off_cubic[2:-2] = self._cubics[0](values)
        bound = OUTLIER_RATIO * SCREEN_MARGIN * least_usual_size(off_cubic)
        np.maximum(bound, least * SCREEN_MARGIN, out=bound)
        runs = []
        for length, cubic in enumerate(self._cubics, start=1):
            nearest = off_cubic[2:-2].copy() if length == 1 else cubic(values)  # of sample 2 on
            np.minimum(nearest, line_before[: len(nearest)], out=nearest)
            np.minimum(nearest, line_after[length + 1 :], out=nearest)
            first = np.flatnonzero(nearest > bound[2 : 2 + len(nearest)]) + 2
            usual = usual_size_at(off_cubic, first)
            distance = nearest[first - 2]
            far = distance > OUTLIER_RATIO * SCREEN_MARGIN * usual
            runs.append(_Suspects(first[far], distance[far], usual[far]))
        return runs


def _interpolate_marked(values: FloatArray, time: FloatArray, marked: BoolArray) -> FloatArray:
    """Return a channel with marked samples on the line between those beside them, (t,)."""
    repaired = values.copy()
    repaired[marked] = np.interp(time[marked], time[~marked], values[~marked])
    return repaired


def _run_distance(values: FloatArray, time: FloatArray, first: IntArray, length: int) -> FloatArray:
    """Return how far some runs of samples are off what is around them, (n,).

    The smallest distance of the samples of a run from the line before it, the line after it and
    the cubic; zero if they lie to different sides of these, or too near to an end of the log.

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

    Their samples count as not measured, for all models. Notices of the returned recording
    state what was found.
    """
    groups = []
    material: list[float] = []  # of each channel
    for kind, channels in recording.groups():
        if kind in ("position", "effort", "current"):
            groups.append((kind, channels))
            least = 0.0 if kind == "position" else MATERIAL_EFFORT
            material += [least] * len(channels.names)
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
