"""Errors of the geometry as faults: base and platform points, link lengths, axes."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from gough.core.arrays import FloatArray
from gough.engine.geometry import GeometricError, geometric_errors, geometry_sensitivity
from gough.verdict.evidence import Evidence
from gough.verdict.faults import Fault
from gough.verdict.fitted_log import FittedLog

GEOMETRY = "geometry"
# Sensitivities are computed at so many samples a correlation time and
# interpolated by cubics: of a Delta they are right to 1e-5, of a
# five-bar and a PaLiDA with Coulomb friction in passive joints, which
# jumps, to 4e-3 and 2e-2 (medians; with twice as many samples to 1e-3
# and 1e-2).
SAMPLES_PER_CORRELATION_TIME = 4
MIN_GEOMETRY_SAMPLES = 100
MAX_GEOMETRY_SAMPLES = 800
# Largest error that is named, in lengths of the robot or radians:
# nobody misses a larger one.
MAX_GEOMETRY_ERROR = 0.05
# Of the size, which is found to first order. Points, lengths and axes
# that were 10 mm or 3 degrees off were found 1 to 14 % too small or too
# large on drawn robots.
FIRST_ORDER_ERROR = 0.1


class _Sensitivities:
    """Sensitivities of logs to all errors, computed once for each log."""

    def __init__(self, errors: tuple[GeometricError, ...]) -> None:
        self.errors = errors
        self._columns: dict[int, tuple[FittedLog, FloatArray]] = {}

    def of(self, log: FittedLog) -> FloatArray:
        """Return the derivative of the rows' efforts by the errors, (k, r, t)."""
        known = self._columns.get(id(log))
        if known is not None and known[0] is log:
            return known[1]
        columns = self._computed(log)
        self._columns[id(log)] = (log, columns)
        return columns

    def _computed(self, log: FittedLog) -> FloatArray:
        from scipy.interpolate import CubicSpline  # here: it takes long to import

        time = np.asarray(log.motion.time)
        wanted = SAMPLES_PER_CORRELATION_TIME * (time[-1] - time[0]) / log.correlation_time
        count = int(np.clip(wanted, MIN_GEOMETRY_SAMPLES, MAX_GEOMETRY_SAMPLES))
        samples = np.unique(np.linspace(0, len(time) - 1, min(count, len(time))).astype(int))
        chi, load = log.fitted.parameters(log.payload)
        coarse = geometry_sensitivity(
            log.model,
            log.motion.take(samples),
            self.errors,
            chi,
            load=load,
            dead_band=log.dead_band,
            effort=log.effort[samples],
        )
        spline = CubicSpline(time[samples], coarse.transpose(0, 2, 1).reshape(len(samples), -1))
        # evaluated one interval after the other, with the samples of a
        # column side by side
        columns = np.empty((spline.c.shape[2], len(time)))
        for k, (start, stop) in enumerate(pairwise([*samples[:-1].tolist(), len(time)])):
            powers = np.vander(time[start:stop] - time[start], spline.c.shape[0])
            np.matmul(spline.c[:, k].T, powers.T, out=columns[:, start:stop])
        return columns.reshape(coarse.shape[2], coarse.shape[1], len(time))


def _column(log: FittedLog, place: str, number: int, sensitivities: _Sensitivities) -> FloatArray:
    return np.asarray(sensitivities.of(log)[number].T)


def geometry_faults(evidence: Evidence) -> list[Fault]:
    """Return the errors of the geometry that are no homing offsets, as faults."""
    errors = tuple(error for error in geometric_errors(evidence.model) if error.homing is None)
    sensitivities = _Sensitivities(errors)
    length = evidence.model.loops.length
    faults = []
    for number, error in enumerate(errors):
        faults.append(
            Fault(
                name=GEOMETRY,
                places=partial(_place, name=error.name),
                unit=error.unit,
                columns=partial(_column, number=number, sensitivities=sensitivities),
                scopes=("all logs",),
                in_robot_file=True,
                first_order_error=FIRST_ORDER_ERROR,
                max_size=MAX_GEOMETRY_ERROR * (length if error.unit == "m" else 1.0),
                text="the robot file is off by {size} in: {place}",
                advice="measure it and correct the robot file: the size holds if nothing else is "
                "wrong; efforts name gross errors of the geometry, they do not calibrate",
            )
        )
    return faults


def _place(evidence: Evidence, name: str) -> tuple[str, ...]:
    return (name,)
