"""Currents in: the problem whose answer holds the drive gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest
from gough.core.names import INERTIAL, Parameter
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression, concatenate
from gough.engine import Model
from gough.estimators.gains.gain_problem import GainProblem, gain_problem
from gough.identification.experiment import kept_samples
from gough.logs.recording import Recording
from gough.processing import Processed, Processing, process, regression
from gough.processing.reversals import reversal_window


def known_payload(model: Model, name: str, known: Mapping[str, float] | None) -> dict[str, float]:
    """Return the known parameters of a payload by full name (`payload.calibration.m`)."""
    payload = model.mechanism.payload(name)
    values = {p: float(payload.values.get(p, 0.0)) for p in payload.known} if known is None else dict(known)
    for parameter in values:
        if parameter not in INERTIAL:
            raise InvalidInput(f"no payload parameter '{parameter}'{nearest(parameter, INERTIAL)}")
    if not values.get("m", 1.0) > 0:
        raise InvalidInput(f"the payload mass is {values['m']} kg; a payload of zero mass sets no scale: weigh it")
    return {Parameter.of_payload(name, p): v for p, v in values.items()}


def currents_problem(model: Model, recordings: Sequence[Recording], loaded: Sequence[Recording], name: str,
                     known: Mapping[str, float] | None, base: BaseParameters, *,
                     processing: Processing | None = None, window: float | None = None,
                     ) -> tuple[GainProblem, list[Processed], float]:
    """Build BG13 (33) from unloaded and loaded logs with currents.

    A robot with more motors than degrees of freedom is taken without decimation: its motors share the load of a row in
    a way that changes from sample to sample.

    Returns:
        The problem, the processed logs in that order, and the window about reversals [s].
    """
    given = known_payload(model, name, known)
    done = [process(model, replace(record, effort=None), processing) for record in (*recordings, *loaded)]
    shared = model.loops.redundant
    parts = [regression(model, replace(log, current=False), base, decimate=not shared) for log in done]
    strict = window is not None
    if window is None:
        window = 0.0 if all(p.parallel for p in done) else _current_window(model, done, parts)
    parts = [kept_samples(model, p, part, window, strict) for p, part in zip(done, parts)]
    count = len(recordings)
    units = _current_units(recordings[0], model)
    robot = [n for n in base.names if n.payload is None]
    unloaded = _stacked(parts[:count], robot, units)
    mounted = _stacked(parts[count:], [*robot, *(n for n in base.names if n.payload is not None)], units)
    missing = {n: v for n, v in given.items() if n in mounted.parameters}
    sharing: dict[str, Any] = {}
    if shared:
        each = [_shared_currents(model, log, part) for log, part in zip(done, parts)]
        both = [tuple(np.concatenate([pair[k] for pair in run]) for run in (each[:count], each[count:]))
                for k in range(2)]
        motors = model.mechanism.actuated
        sharing = {"motors": motors, "motor_units": [model.mechanism.joint(name).effort_unit for name in motors],
                   "currents": both[0], "effort_map": both[1]}
    return gain_problem(unloaded, mounted, missing, effort_units=model.row_units, **sharing), done, window


def _shared_currents(model: Model, processed: Processed, part: Regression) -> tuple[FloatArray, FloatArray]:
    """Return the motors' currents at the samples of a regression, (t, a), and their levers on its rows, (t, r, a)."""
    assert part.time is not None
    at = np.searchsorted(processed.motion.time, part.time)
    maps = model.kinematics.closure_map(processed.motion.q[at])[:, list(model.actuated)]
    return processed.effort[at], maps.transpose(0, 2, 1)


def _current_units(recording: Recording, model: Model) -> tuple[str, ...]:
    """Return the unit of the current of each row; of robots whose rows are not motors, that of the first motor."""
    lookup = dict(zip(recording.joints, recording.current_units))
    return tuple(lookup.get(name, recording.current_units[0]) for name in model.rows)


def _stacked(parts: Sequence[Regression], names: Sequence[str], units: tuple[str, ...]) -> Regression:
    """Return the parts as one problem, several stretches in each so that scatter between them can be seen."""
    chosen = []
    for part in parts:
        group = part.group if part.group is not None else np.arange(len(part)) * 10 // max(len(part), 1)
        chosen.append(replace(part.select(names), row_units=units, group=group, replicates=None, covariance=None))
    return concatenate(chosen)


def _current_window(model: Model, processed: Sequence[Processed], parts: Sequence[Regression]) -> float:
    """Find the reversal window of logs with currents: each row fitted on its own, so gains do not matter."""
    windows = [0.0]
    for p, part in zip(processed, parts):
        residual = np.empty_like(part.effort)
        for j in range(len(part.rows)):
            W = part.regressor[:, j]
            scale = np.maximum(np.linalg.norm(W, axis=0), 1e-300)
            solution = np.linalg.lstsq(W / scale, part.effort[:, j], rcond=1e-8)[0]
            residual[:, j] = part.effort[:, j] - (W / scale) @ solution
        windows.append(reversal_window(model, p.motion, part, residual))
    return max(windows)
