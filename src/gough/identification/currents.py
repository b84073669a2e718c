"""Logs with currents, and the problem of drive gains and parameters that they state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.gain_problem import GainProblem, gain_problem, gain_unit
from gough.fitting.regression import Regression, concatenate
from gough.identification.experiment import (
    Experiment,
    build_experiment,
    match_logs,
)
from gough.logs.recording import Recording
from gough.processing import (
    MatchedLog,
    ProcessedLog,
    Processing,
    choose_processing,
    regression,
)
from gough.processing.choice import ProcessingChoice
from gough.processing.processed_log import process_log


class CurrentsProblem(NamedTuple):
    """Logs with currents and their problem: an `Experiment` whose drive gains are not yet known."""

    model: Model
    base: BaseParameters
    choice: ProcessingChoice
    processed: list[ProcessedLog]  # unloaded logs, then loaded ones
    problem: GainProblem
    known: Mapping[str, float]  # measured payload parameters, by full name

    def in_efforts(self, estimate: Estimate, nominal: Mapping[str, float]) -> Experiment:
        """Return the logs in efforts, with the estimated drive gains, else the nominal ones."""
        gains = dict(nominal)
        for name, gain in zip(estimate.parameters, estimate.values.tolist()):
            if name.is_gain:
                gains[name.owner] = gain
        return build_experiment(
            self.model,
            self.processed,
            self.base,
            self.choice,
            gains=gains,
            known=self.known,
        )


def check_currents(recordings: Sequence[Recording], loaded: Sequence[Recording]) -> None:
    """Raise unless there are unloaded and loaded logs, with currents."""
    if not recordings or not loaded:
        raise InvalidInput(
            "drive gains need logs without payload and logs with a known one: `loaded`, and "
            "`payload` to name it"
        )
    for record in (*recordings, *loaded):
        if record.current is None:
            raise InvalidRecording(
                f"{record.source}: drive gains are found from currents, and there are none"
            )
    for record in recordings:
        if record.payload is not None:
            raise InvalidInput(
                f"{record.source}: given as unloaded but it carries '{record.payload}'; "
                "are loaded and unloaded logs swapped?"
            )


def match_currents(
    model: Model, recordings: Sequence[Recording], processing: Processing
) -> list[MatchedLog]:
    """Match recordings to the robot, with their currents and not their efforts."""
    currents = [replace(recording, effort=None) for recording in recordings]
    matched = match_logs(model, currents, processing)
    return [replace(log, recorded=recorded) for log, recorded in zip(matched, recordings)]


def currents_problem(
    model: Model,
    logs: Sequence[MatchedLog],
    known: Mapping[str, float],
    base: BaseParameters,
    *,
    n_unloaded: int,
    processing: Processing,
) -> CurrentsProblem:
    """Build the problem of drive gains and parameters, BG13 (33), from logs with currents.

    A robot with more motors than degrees of freedom is not decimated:
    the fractions of the load that its motors bear change from sample to
    sample.

    Args:
        model: The robot.
        logs: Unloaded logs, then loaded ones, as `match_currents`
            returns them.
        known: Known payload parameters, by full name.
        base: Base parameters.
        n_unloaded: Number of logs without payload.
        processing: Settings; what they leave open is chosen.
    """
    choice = choose_processing(model, logs, base, processing)
    processed = [process_log(model, log, choice.processing) for log in logs]
    redundant = model.loops.redundant
    regressions = []
    for log in processed:
        in_currents = replace(log, current=False)
        regressions.append(regression(model, in_currents, base, decimate=not redundant))

    units = _current_units(model, logs[0].recorded)
    robot_names = [name for name in base.names if name.payload is None]
    payload_names = [name for name in base.names if name.payload is not None]
    unloaded = _joined(regressions[:n_unloaded], robot_names, units)
    mounted = _joined(regressions[n_unloaded:], [*robot_names, *payload_names], units)
    mounted_known = {name: known[name] for name in known if name in mounted.parameters}
    if redundant:
        currents, levers = _motor_currents(model, processed, regressions)
        motors = model.mechanism.actuated
        problem = gain_problem(
            unloaded,
            mounted,
            mounted_known,
            effort_units=model.row_units,
            motors=motors,
            motor_units=[model.mechanism.joint(name).effort_unit for name in motors],
            currents=_split(currents, n_unloaded),
            effort_map=_split(levers, n_unloaded),
        )
    else:
        problem = gain_problem(unloaded, mounted, mounted_known, effort_units=model.row_units)
    return CurrentsProblem(model, base, choice, processed, problem, known)


def gain_units(model: Model, recordings: Sequence[Recording]) -> dict[str, str]:
    """Return the unit of the drive gain of each motor; empty if efforts were recorded."""
    units: dict[str, str] = {}
    for recording in recordings:
        for joint, current_unit in zip(recording.joints, recording.current_units):
            effort_unit = model.mechanism.joint(joint).effort_unit
            units.setdefault(joint, gain_unit(effort_unit, current_unit))
    return units


def _current_units(model: Model, recording: Recording) -> tuple[str, ...]:
    """Return the current unit of each row; that of the first motor where a row is no motor."""
    unit_by_joint = dict(zip(recording.joints, recording.current_units))
    first_unit = recording.current_units[0]
    return tuple(unit_by_joint.get(name, first_unit) for name in model.rows)


def _joined(
    regressions: Sequence[Regression],
    names: Sequence[Parameter],
    units: tuple[str, ...],
) -> Regression:
    """Concatenate some columns of regressions of currents, without their repetitions."""
    blocks = []
    for block in regressions:
        columns = block.select(names)
        blocks.append(replace(columns, row_units=units, replicates=None, covariance=None))
    return concatenate(blocks)


def _motor_currents(
    model: Model,
    processed: Sequence[ProcessedLog],
    regressions: Sequence[Regression],
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the motors' currents, (t, a), and their levers on the rows, (t, r, a), by log."""
    currents = []
    levers = []
    for log, block in zip(processed, regressions):
        assert block.sample is not None
        samples = block.sample - log.sample[0]
        closure_map = model.kinematics.closure_map(log.motion.q[samples])
        motor_map = closure_map[:, list(model.actuated)]
        currents.append(log.effort[samples])
        levers.append(motor_map.transpose(0, 2, 1))
    return currents, levers


def _split(arrays: Sequence[FloatArray], n_unloaded: int) -> tuple[FloatArray, FloatArray]:
    """Concatenate arrays of the unloaded logs, and those of the loaded ones."""
    return np.concatenate(arrays[:n_unloaded]), np.concatenate(arrays[n_unloaded:])
