"""Currents in: the problem whose answer holds the drive gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.names import INERTIAL, Parameter
from gough.core.parameters import BaseParameters
from gough.core.regression import concatenate
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.estimators.gains.gain_problem import GainProblem, gain_problem
from gough.identification.experiment import Experiment, assemble
from gough.logs.recording import Recording
from gough.processing import Processed, Processing, ProcessingChoice, choose_processing, process, regression


class CurrentsProblem(NamedTuple):
    """Logs with currents, and the problem that they state: an `Experiment` as long as the drive gains are not known."""

    model: Model
    base: BaseParameters
    recordings: list[Recording]
    choice: ProcessingChoice
    processed: list[Processed]
    problem: GainProblem
    known: Mapping[str, float]

    def in_efforts(self, estimate: Estimate, nominal: Mapping[str, float]) -> Experiment:
        """Return the logs in efforts, with drive gains that were found, or nominal ones that the data do not tell."""
        found = {name.owner: float(value) for name, value in zip(estimate.parameters, estimate.values) if name.is_gain}
        return assemble(self.model, self.recordings, self.processed, self.base, self.choice,
                        gains={**nominal, **found}, known=self.known)


def payload_of(model: Model, loaded: Sequence[Recording],
               text: str | None) -> tuple[str | None, dict[str, float] | None]:
    """Return the payload that loaded logs carry, and what was measured of it, by kind, if that is said.

    Args:
        text: A name of the robot file, measured values (`mass=1.983`), both (`disc:m=1.983,mx=0`), or None.
    """
    name, _, rest = (text or "").partition(":")
    if "=" in name:
        name, rest = "", text or ""
    measured = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        try:
            measured["m" if key.strip() == "mass" else key.strip()] = float(value)
        except ValueError:
            raise InvalidInput(f"payload '{text}': '{item}' is not name=number, e.g. mass=1.983") from None
    if not all(np.isfinite(list(measured.values()))):
        raise InvalidInput(f"payload '{text}' has a number that is not finite")
    if text is not None and not loaded:
        raise InvalidInput(f"'{text}' is what the loaded logs carry, and there are none; give them with `loaded`")
    if name:
        return model.mechanism.payload(name).name, measured or None
    named = sorted({r.payload for r in loaded if r.payload is not None})
    if len(named) > 1:
        raise InvalidInput(f"the loaded logs carry different payloads: {', '.join(named)}; identify one by one")
    if loaded and not named:
        raise InvalidInput("the loaded logs do not say which payload they carry; name it with `payload`, one of: "
                           f"{', '.join(p.name for p in model.mechanism.payloads) or '(the robot file has none)'}")
    return named[0] if named else None, measured or None


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


def known_payload(model: Model, name: str, measured: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return known parameters of a payload by full name (`payload.calibration.m`): measured, or the robot file's."""
    payload = model.mechanism.payload(name)
    values = {p: float(payload.values.get(p, 0.0)) for p in payload.known} if measured is None else dict(measured)
    for parameter in values:
        if parameter not in INERTIAL:
            raise InvalidInput(f"no payload parameter '{parameter}'{nearest(parameter, INERTIAL)}")
    if not values.get("m", 1.0) > 0:
        raise InvalidInput(f"the payload mass is {values['m']} kg; a payload of zero mass sets no scale: weigh it")
    return {Parameter.of_payload(name, p): v for p, v in values.items()}


def currents_problem(model: Model, recordings: Sequence[Recording], loaded: Sequence[Recording],
                     known: Mapping[str, float], base: BaseParameters, *,
                     processing: Processing | None = None) -> CurrentsProblem:
    """Build BG13 (33) from unloaded and loaded logs with currents, and known payload parameters by full name.

    A robot with more motors than degrees of freedom is taken without decimation: its motors share the load of a row in
    a way that changes from sample to sample.
    """
    count, shared, every = len(recordings), model.loops.redundant, [*recordings, *loaded]
    logs = [replace(record, effort=None) for record in every]
    choice = choose_processing(model, logs, base, processing)
    done = [process(model, log, choice.processing) for log in logs]
    parts = [regression(model, replace(log, current=False), base, decimate=not shared) for log in done]
    # Of robots whose rows are not motors the unit is that of the first motor.
    lookup = dict(zip(recordings[0].joints, recordings[0].current_units))
    units = tuple(lookup.get(name, recordings[0].current_units[0]) for name in model.rows)
    robot = [n for n in base.names if n.payload is None]
    whole = [*robot, *(n for n in base.names if n.payload is not None)]
    unloaded, mounted = (concatenate([replace(part.select(names), row_units=units, replicates=None, covariance=None)
                                      for part in own]) for own, names in ((parts[:count], robot),
                                                                           (parts[count:], whole)))
    sharing: dict[str, Any] = {}
    if shared:  # the motors' currents, (t, a), and their levers on the rows, (t, r, a), at the samples of each part
        each = []
        for log, part in zip(done, parts):
            assert part.sample is not None
            at = part.sample - log.sample[0]
            maps = model.kinematics.closure_map(log.motion.q[at])[:, list(model.actuated)]
            each.append((log.effort[at], maps.transpose(0, 2, 1)))
        currents, levers = ((np.concatenate([pair[k] for pair in each[:count]]),
                             np.concatenate([pair[k] for pair in each[count:]])) for k in range(2))
        motors = model.mechanism.actuated
        sharing = {"motors": motors, "motor_units": [model.mechanism.joint(name).effort_unit for name in motors],
                   "currents": currents, "effort_map": levers}
    problem = gain_problem(unloaded, mounted, {n: v for n, v in known.items() if n in mounted.parameters},
                           effort_units=model.row_units, **sharing)
    return CurrentsProblem(model, base, every, choice, done, problem, known)
