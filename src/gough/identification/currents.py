"""Currents in: the problem whose answer holds the drive gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.names import INERTIAL, Parameter
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression, concatenate
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.estimators.gains.gain_problem import GainProblem, gain_problem
from gough.logs.recording import Recording
from gough.processing import Processed, Processing, ProcessingChoice, choose_processing, process, regression


class CurrentsProblem(NamedTuple):
    """The problem of some logs with currents, the processed logs, and how they were processed."""

    problem: GainProblem
    processed: list[Processed]
    choice: ProcessingChoice


def payload_of(model: Model, loaded: Sequence[Recording],
               text: str | None) -> tuple[str | None, dict[str, float] | None]:
    """Return the payload that loaded logs carry, and what was measured of it, by kind, if that is said.

    Args:
        loaded: The logs.
        text: A name of the robot file, measured values (`mass=1.983`), both (`disc:m=1.983,mx=0`), or None.
    """
    name, measured = read_payload(text)
    if text is not None and not loaded:
        raise InvalidInput(f"'{text}' is what the loaded logs carry, and there are none; give them with `loaded`")
    if name is not None:
        return model.mechanism.payload(name).name, measured
    named = {r.payload for r in loaded if r.payload is not None}
    if len(named) > 1:
        raise InvalidInput(f"the loaded logs carry different payloads: {', '.join(sorted(named))}; identify one by one")
    if loaded and not named:
        raise InvalidInput("the loaded logs do not say which payload they carry; name it with `payload`, one of: "
                           f"{', '.join(p.name for p in model.mechanism.payloads) or '(the robot file has none)'}")
    return named.pop() if named else None, measured


def read_payload(text: str | None) -> tuple[str | None, dict[str, float] | None]:
    """Return name and measured values from `calibration`, `mass=1.983` or `calibration:m=1.9,mx=0`."""
    if text is None:
        return None, None
    name, _, rest = text.partition(":")
    if "=" in name:
        name, rest = "", text
    measured = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        try:
            measured["m" if key.strip() == "mass" else key.strip()] = float(value)
        except ValueError:
            raise InvalidInput(f"payload '{text}': '{item}' is not name=number, e.g. mass=1.983") from None
    if not all(np.isfinite(list(measured.values()))):
        raise InvalidInput(f"payload '{text}' has a number that is not finite")
    return name or None, measured or None


def check_currents(recordings: Sequence[Recording], loaded: Sequence[Recording]) -> None:
    """Raise unless there are unloaded and loaded logs, with currents."""
    if not recordings or not loaded:
        raise InvalidInput("drive gains need logs without payload and logs with a known one: `loaded`, and `payload` "
                           "to name it")
    for record in (*recordings, *loaded):
        if record.current is None:
            raise InvalidRecording(f"{record.source}: drive gains are found from currents, and there are none")
    for record in recordings:
        if record.payload is not None:
            raise InvalidInput(f"{record.source}: given as unloaded but it carries '{record.payload}'; "
                               "are loaded and unloaded logs swapped?")


def nominal_gains(model: Model, given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the drive gains that are known by motor: given ones, else the robot file's."""
    each = {name: (given or {}).get(name, model.mechanism.joint(name).gain) for name in model.mechanism.actuated}
    return {name: value for name, value in each.items() if value is not None}


def gains_of(estimate: Estimate, model: Model, given: Mapping[str, float] | None) -> dict[str, float]:
    """Return a drive gain for every motor: identified, or what is known of those the data do not determine."""
    found = {name.owner: float(value) for name, value in zip(estimate.parameters, estimate.values) if name.is_gain}
    return nominal_gains(model, given) | found


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
                     processing: Processing | None = None) -> CurrentsProblem:
    """Build BG13 (33) from unloaded and loaded logs with currents.

    A robot with more motors than degrees of freedom is taken without decimation: its motors share the load of a row in
    a way that changes from sample to sample.
    """
    given = known_payload(model, name, known)
    logs = [replace(record, effort=None) for record in (*recordings, *loaded)]
    choice = choose_processing(model, logs, base, processing)
    done = [process(model, log, choice.processing) for log in logs]
    shared = model.loops.redundant
    parts = [regression(model, replace(log, current=False), base, decimate=not shared) for log in done]
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
    problem = gain_problem(unloaded, mounted, missing, effort_units=model.row_units, **sharing)
    return CurrentsProblem(problem, done, choice)


def _shared_currents(model: Model, processed: Processed, part: Regression) -> tuple[FloatArray, FloatArray]:
    """Return the motors' currents at the samples of a regression, (t, a), and their levers on its rows, (t, r, a)."""
    assert part.sample is not None
    at = part.sample - processed.sample[0]
    maps = model.kinematics.closure_map(processed.motion.q[at])[:, list(model.actuated)]
    return processed.effort[at], maps.transpose(0, 2, 1)


def _current_units(recording: Recording, model: Model) -> tuple[str, ...]:
    """Return the unit of the current of each row; of robots whose rows are not motors, that of the first motor."""
    lookup = dict(zip(recording.joints, recording.current_units))
    return tuple(lookup.get(name, recording.current_units[0]) for name in model.rows)


def _stacked(parts: Sequence[Regression], names: Sequence[str], units: tuple[str, ...]) -> Regression:
    """Return the parts as one problem."""
    return concatenate([replace(part.select(names), row_units=units, replicates=None, covariance=None)
                        for part in parts])
