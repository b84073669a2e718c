"""Drive gains without a payload: from logs in efforts and others in currents, or relative ones.

A log in currents c has efforts K c. With W theta the efforts of the
model, noise being in the currents,

    c = W theta / K + noise,

and logs of the same robot in efforts, or the same parameters in the
rows of several motors, determine K together with theta. Near a gain
K_0, with y = K_0 c,

    y = W theta - (W theta / K_0) (K - K_0) + noise,

so each gain is one more column of the regression, as long as theta and
K_0 follow the solution. Without any log in efforts all gains, masses
and friction have a common factor that no log shows: the gain of one
motor is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.display import join_names
from gough.core.errors import InvalidInput, NotConverged
from gough.core.names import Parameter
from gough.core.notices import Notice
from gough.engine import Model
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression, concatenate
from gough.identification.currents import gain_units
from gough.identification.experiment import Experiment, rebuilt_with
from gough.logs.recording import Recording
from gough.processing.matching import known_gains, on_motor_side

MAX_GAIN_STEPS = 100
GAIN_TOLERANCE = 1e-8  # relative change of all gains that ends the search
# Fraction of a gain's column that no other column explains; below it,
# it is not determined
MIN_GAIN_FRACTION = 1e-6
MAX_GAIN_FACTOR = 2.0  # by which a gain changes in one step


@dataclass(frozen=True, kw_only=True)
class JointGains:
    """Drive gains found together with the parameters of the robot."""

    experiment: Experiment  # its logs in efforts by these gains
    problem: Regression  # with a column for each gain that is determined
    # by motor, those that were kept too [effort over recorded unit]
    gains: Mapping[str, float]
    notices: tuple[Notice, ...]  # on what is not determined

    def completed(self, estimate: Estimate) -> Estimate:
        """Return an estimate of the problem with gains instead of their differences."""
        values = estimate.values.copy()
        for k, name in enumerate(estimate.parameters):
            if name.is_gain:
                values[k] += self.gains[name.owner]
        return replace(estimate, values=values)


def find_gains(experiment: Experiment) -> JointGains:
    """Find the drive gains of logs with currents together with the robot's parameters.

    Args:
        experiment: Logs in efforts, those with currents by first
            guesses of the gains.

    Raises:
        InvalidInput: No log has currents, or rows are not motors.
        NotConverged: Gains and parameters do not settle.
    """
    motors = experiment.model.mechanism.actuated
    if not experiment.gains:
        raise InvalidInput("drive gains were asked for, but all logs have efforts")
    if tuple(experiment.model.rows) != tuple(motors):
        raise InvalidInput(
            "drive gains without a payload need one equation for each motor; use `loaded` logs "
            "with a weighed payload for robots with more motors than degrees of freedom"
        )
    first = np.array([experiment.gains[motor] for motor in motors])
    with_currents = [log.effort is None for log in experiment.recordings]
    kept = [] if not all(with_currents) else [0]
    regressions = list(experiment.regressions)
    gains = first.copy()
    units = gain_units(experiment.model, experiment.recordings)
    names = {}
    for k, motor in enumerate(motors):
        if k not in kept:
            names[k] = Parameter(Parameter.gain(motor), units[motor])
    columns = _determined(regressions, with_currents, first, names)
    free = list(columns)
    for _ in range(MAX_GAIN_STEPS):
        scaled = _scaled(regressions, with_currents, gains / first)
        problem = _with_gain_columns(scaled, with_currents, gains, columns)
        values = weighted_fit(problem.statistics()).values
        change = values[len(values) - len(free) :] / gains[free]
        limited = np.clip(change, 1 / MAX_GAIN_FACTOR - 1, MAX_GAIN_FACTOR - 1)
        gains[free] *= 1 + limited
        if np.abs(change).max(initial=0.0) < GAIN_TOLERANCE:
            break
    else:
        raise NotConverged(
            "drive gains and parameters do not settle; give better first gains with `gains`, or "
            "logs in efforts",
            change=float(np.abs(change).max()),
        )
    by_motor = dict(zip(motors, gains.tolist()))
    final = rebuilt_with(experiment, gains=by_motor)
    return JointGains(
        experiment=final,
        problem=_with_gain_columns(final.regressions, with_currents, gains, columns),
        gains=by_motor,
        notices=_notices(motors, kept, [k for k in names if k not in columns], by_motor),
    )


def first_gains(
    model: Model, recordings: Sequence[Recording], given: Mapping[str, float] | None
) -> dict[str, float]:
    """Return first guesses of the drive gains: given, of the robot file, or from the logs.

    With logs in efforts and others in currents the guess is the ratio
    of their rms values. If all logs have currents, the gain of the
    first motor must be known, and is the guess of those that are not.

    Raises:
        InvalidInput: All logs have currents, and the gain of the first
            motor is not known.
    """
    gains = known_gains(model, given)
    motors = model.mechanism.actuated
    missing = [motor for motor in motors if motor not in gains]
    if not missing:
        return gains
    in_order = [on_motor_side(recording, model.mechanism) for recording in recordings]
    efforts = [log for log in in_order if log.effort is not None]
    currents = [log for log in in_order if log.effort is None and log.current is not None]
    if not currents:
        return gains
    if not efforts and motors[0] in missing:
        raise InvalidInput(
            f"all logs hold currents, and the drive gain of '{motors[0]}' is not known; give it "
            "with `gains`, the others are found relative to it; or add a log in efforts"
        )
    for motor in missing:
        gains[motor] = gains.get(motors[0], 1.0)
        if efforts:
            effort = _mean_power(efforts, "effort", motor)
            current = _mean_power(currents, "current", motor)
            gains[motor] = float(np.sqrt(effort / max(current, TINY)))
    return gains


def _mean_power(recordings: Sequence[Recording], kind: str, motor: str) -> float:
    """Return the mean square of the efforts or currents of a motor over some logs."""
    squares = []
    for recording in recordings:
        samples = getattr(recording, kind)[:, recording.joints.index(motor)]
        squares.append(float(np.mean(samples**2)))
    return float(np.mean(squares))


def _scaled(
    regressions: Sequence[Regression], with_currents: Sequence[bool], factor: FloatArray
) -> list[Regression]:
    """Return the regressions with the efforts of logs with currents times a factor (r,)."""
    scaled = []
    for block, in_currents in zip(regressions, with_currents):
        effort = block.effort * factor if in_currents else block.effort
        scaled.append(replace(block, effort=effort, replicates=None, covariance=None))
    return scaled


def _with_gain_columns(
    regressions: Sequence[Regression],
    with_currents: Sequence[bool],
    gains: FloatArray,
    columns: Mapping[int, Parameter],
) -> Regression:
    """Return all logs with a column for the difference of a gain to its value, by motor."""
    problem = concatenate(regressions)
    values = weighted_fit(problem.statistics()).values
    names = list(columns.values())
    units = [name.unit for name in names]
    blocks = []
    for block, in_currents in zip(regressions, with_currents):
        added = np.zeros((*block.effort.shape, len(columns)))
        if in_currents:
            predicted = block.regressor @ values
            for k, motor in enumerate(columns):
                added[:, motor, k] = -predicted[:, motor] / gains[motor]
        blocks.append(block.with_columns(added, names, units))
    return concatenate(blocks)


def _determined(
    regressions: Sequence[Regression],
    with_currents: Sequence[bool],
    gains: FloatArray,
    names: Mapping[int, Parameter],
) -> dict[int, Parameter]:
    """Return those of some gains that the logs determine, by motor."""
    plain = _scaled(regressions, with_currents, np.ones(len(gains)))
    problem = _with_gain_columns(plain, with_currents, gains, names)
    rows = problem.regressor[problem.valid]
    norm = np.linalg.norm(rows, axis=0)
    triangle = np.linalg.qr(rows / np.where(norm > 0, norm, 1.0), mode="r")
    unexplained = np.abs(np.diag(triangle))[len(norm) - len(names) :]
    determined = {}
    for (motor, name), fraction in zip(names.items(), unexplained):
        if fraction > MIN_GAIN_FRACTION:
            determined[motor] = name
    return determined


def _notices(
    motors: Sequence[str],
    kept: Sequence[int],
    undetermined: Sequence[int],
    gains: Mapping[str, float],
) -> tuple[Notice, ...]:
    """Return notices on what the logs do not determine."""
    notices = []
    for motor in kept:
        name = motors[motor]
        text = (
            f"all logs have currents: gains are relative to that of this motor, {gains[name]:.4g}, "
            "which was given; one factor common to all gains, masses and friction is not determined"
        )
        advice = "a log in efforts or a weighed payload (`loaded`) determines it"
        notices.append(
            Notice(rule="drive gains", level="info", where=name, text=text, advice=advice)
        )
    if undetermined:
        text = (
            "these gains are not determined, as their motors share no parameter with others; the "
            "given ones were used"
        )
        where = join_names([motors[motor] for motor in undetermined])
        notices.append(Notice(rule="drive gains", level="info", where=where, text=text))
    return tuple(notices)
