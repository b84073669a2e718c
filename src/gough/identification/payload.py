"""Identify the load of a robot whose own model is known, and when the load changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.core.display import rounded, text_table
from gough.core.errors import InvalidInput
from gough.core.names import INERTIAL, LOAD_PARAMETERS
from gough.core.notices import Notice, ResultLevel, level_of, notice_lines, ordered
from gough.core.options import Settings, merge_settings, nested, option, with_settings
from gough.core.progress import portion, report
from gough.core.record import Columns, Record
from gough.engine import Model, Robot, as_model
from gough.engine.columns import column_names
from gough.fitting.estimate import Estimate
from gough.fitting.load_changes import History, LoadBlocks, changes, history
from gough.fitting.load_fit import LoadProblem
from gough.fitting.regression import Regression
from gough.identification.experiment import match_logs
from gough.identification.load_friction import refuse_load_friction
from gough.identification.load_problem import Unloaded, load_problem, unloaded_robot
from gough.identification.load_unknowns import Load, LoadUnknowns
from gough.identification.result import Identification
from gough.identification.stated_values import contradiction
from gough.logs.carrying import divide_by_signal
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import MatchedLog, Processing, choose_processing, raised_cutoff

# Samples near a change are omitted if so many for each parameter
# remain.
MIN_SAMPLES_PER_LOAD_PARAMETER = 3
# One load does not explain a log if the residual is so many times that
# of the unloaded robot, and more than this fraction of the effort of
# the load.
MAX_LOAD_RESIDUAL_RATIO = 3.0
MAX_UNEXPLAINED_LOAD = 0.3


class Change(NamedTuple):
    """A change of the load at some time of a log."""

    log: str  # its name
    time: float  # on the clock of the log [s]
    within: float  # uncertainty of the time [s]
    before: Load
    after: Load  # until the next change


@dataclass(frozen=True, kw_only=True, eq=False)
class PayloadResult(Record):
    """The load of a robot, after the last change if there are any."""

    robot: str  # its name
    load: Load
    changes: tuple[Change, ...]  # of the load, in the order of time
    history: History  # the estimate in the course of the logs
    processing: Processing  # of the logs
    notices: tuple[Notice, ...]  # in their order
    settings: PayloadSettings  # of the search

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices; `ok` if there is only info."""
        return level_of(self.notices)

    @property
    def headline(self) -> str:
        """Robot, level and mass of the load in one sentence."""
        text = f"{self.robot}: {self.level.upper()} - load {self.load}"
        if self.changes:
            text += f" after {len(self.changes)} changes"
        return text

    @property
    def estimate(self) -> Estimate:
        """Values of the load with standard errors."""
        return self.load.estimate

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Parameters that the motion does not determine."""
        names = []
        for name, observed in zip(self.estimate.parameters, self.load.observed):
            if not observed:
                names.append(name)
        return tuple(names)

    def table(self) -> Columns:
        """Return the load by parameter."""
        rows = self.load.to_list()
        columns = {}
        for name in ("name", "value", "std", "unit", "observed"):
            columns[name] = [row[name] for row in rows]
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        changes = []
        for change in self.changes:
            loads = {
                "before": change.before.to_list(),
                "after": change.after.to_list(),
            }
            changes.append(change._asdict() | loads)
        history = dict(zip(INERTIAL, self.history.values.T.tolist()))
        return {
            "robot": self.robot,
            "level": self.level,
            "headline": self.headline,
            "samples": self.estimate.samples,
            "parameters": self.load.to_list(),
            "physical": self.load.physical,
            "unobserved_combinations": list(self.load.hidden),
            "observed_combinations": [entry._asdict() for entry in self.load.combinations],
            "changes": changes,
            "history": {"time": self.history.time.tolist(), **history},
            "processing": self.processing.to_dict(),
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def summary(self) -> str:
        """Return the load as plain text, with unobserved combinations, changes and notices."""
        rows = []
        for parameter in self.load.to_list():
            figures = ["-", "-", parameter["unit"], "not observed"]
            if parameter["observed"]:
                number, std = rounded(parameter["value"], parameter["std"])
                figures = [number, std, parameter["unit"], "yes"]
            rows.append([parameter["name"], *figures, f"{parameter['information']:.2g}"])
        lines = [
            self.headline,
            f"load about the platform frame, from {self.estimate.samples} samples",
            text_table(
                ["parameter", "value", "std. error", "unit", "observed?", "signal/noise"],
                rows,
            ),
        ]
        for entry in self.load.combinations:
            number, std = rounded(entry.value, entry.std)
            lines.append(
                f"determined on this motion: {entry.text} = {number} +- {std} {entry.unit}"
            )
        for combination in self.load.hidden:
            if combination not in INERTIAL:
                lines.append(f"not determined on this motion: {combination}")
        for change in self.changes:
            after = str(change.after).removeprefix("m ")
            lines.append(
                f"the load changes at {change.time:.4g} +- {change.within:.2g} s in {change.log}: "
                f"{change.before} before, {after} after"
            )
        return "\n".join([*lines, *notice_lines(self.notices)])


@dataclass(frozen=True, kw_only=True)
class PayloadSettings(Settings):
    """What is known of a load, and how logs are processed."""

    mass: float | None = option(
        None,
        "Mass of the load, if it was weighed: only the rest is sought.",
        unit="kg",
        above=0,
    )
    at: str | Sequence[float] | None = option(
        None,
        "Where its centre of mass is in the frame of the platform, if that is known: x,y,z.",
        unit="m",
    )
    reach: float | None = option(
        None,
        "How far it may extend from the platform's origin; the size of the robot by default. "
        "Together with the mass this bounds its first moments and inertias.",
        unit="m",
        above=0,
    )
    carrying: str | None = option(
        None,
        "Extra channel of the logs that is on while the load is carried, e.g. of a gripper or a "
        "vacuum sensor: only these samples are used.",
    )
    forgetting: float | None = option(
        None,
        "Time after which samples weigh only 1 / e. By default all that were recorded since the "
        "load last changed weigh the same.",
        unit="s",
        above=0,
    )
    processing: Processing = nested(Processing)

    @property
    def place(self) -> FloatArray | None:
        """Position of the centre of mass, (3,), if it is known. [m]"""
        if self.at is None:
            return None
        coordinates: Sequence[str | float] = self.at
        if isinstance(self.at, str):
            coordinates = self.at.split(",")
        try:
            place = np.array([float(coordinate) for coordinate in coordinates])
        except ValueError:
            place = np.zeros(0)
        if len(place) != 3 or not np.isfinite(place).all():
            raise InvalidInput(f"at is {self.at!r}, expected three numbers x,y,z", option="at")
        return place


@with_settings(PayloadSettings)
@one_blas_thread
def payload(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: PayloadSettings | None = None,
    *,
    result: Identification | None = None,
    values: ArrayLike | None = None,
    gains: Mapping[str, float] | None = None,
    **options: Any,
) -> PayloadResult:
    """Identify the load of a robot whose own model is known, on any trajectory.

    Args:
        model: The robot, also by name or path.
        recordings: Logs with the load, one after the other.
        settings: What is known of it; single options may be given by
            name instead.
        result: Identification of the unloaded robot: its parameters
            with their covariance, its processing and drive gains are
            used where others are not given.
        values: Standard parameters of the unloaded robot, (p,), taken
            as exact; the robot file's by default.
        gains: Drive gains for logs with currents.
        options: Settings by name.
    """
    chosen = merge_settings(PayloadSettings, settings, options)
    model = as_model(model)
    recordings = as_recordings(recordings)
    if chosen.carrying is not None:
        recordings = divide_by_signal(recordings, chosen.carrying).loaded
    refuse_load_friction(model, "a load")
    _ = chosen.place  # raises before logs are processed, if it is no place
    if not recordings:
        raise InvalidInput("there is no recording to find a load in")
    processing = chosen.processing
    cutoff_given = processing.cutoff is not None
    if result is not None:
        _check_robot(result, model)
        model = result.fitted(model)
        processing = result.processing_with(processing)
        gains = gains or result.gains
        cutoff_given = cutoff_given or result.settings.get("cutoff") is not None
    if values is not None:
        values = np.asarray(values, dtype=float)
    with portion(0.0, 0.1):
        logs = match_logs(model, recordings, processing)
    if not processing.complete:
        processing = choose_processing(model, logs, None, processing, gains=gains).processing
    unloaded = unloaded_robot(model, result, values)
    if result is not None and not cutoff_given:
        processing = _cutoff_with_load(model, logs, processing, unloaded, gains)
    report(0.2)
    problem = load_problem(model, logs, processing, unloaded, gains)
    report(0.6)
    unknowns = LoadUnknowns.of(
        model, problem.regression, mass=chosen.mass, place=chosen.place, reach=chosen.reach
    )
    loads, load_changes, load_history = _track_load(
        problem, unknowns, processing, chosen, recordings
    )
    exact = result is None or values is not None
    notices = [*_notices(loads[-1], exact=exact)]
    if result is not None:
        notices += _unexplained_notices(loads[-1].estimate, result, processing)
    if chosen.mass is not None and not load_changes:
        notices += _stated_mass_notices(model, problem, chosen, chosen.mass)
    return PayloadResult(
        robot=model.mechanism.name,
        load=loads[-1],
        processing=processing,
        settings=chosen,
        changes=tuple(load_changes),
        history=load_history,
        notices=ordered(notices),
    )


def _check_robot(result: Identification, model: Model) -> None:
    """Raise unless a result is one of this robot."""
    if result.robot != model.mechanism.name:
        raise InvalidInput(
            f"the result is a model of '{result.robot}', not of '{model.mechanism.name}'"
        )


def _cutoff_with_load(
    model: Model,
    logs: Sequence[MatchedLog],
    processing: Processing,
    unloaded: Unloaded,
    gains: Mapping[str, float] | None,
) -> Processing:
    """Return the settings with the cut-off at which robot and any load predict the logs best."""
    names = column_names(unloaded.base)
    return raised_cutoff(
        model,
        logs,
        (*names, *LOAD_PARAMETERS),
        processing,
        dict(zip(names, unloaded.values.tolist())),
        free=LOAD_PARAMETERS,
        gains=gains,
    )


def _stated_mass_notices(
    model: Model, problem: LoadProblem, settings: PayloadSettings, mass: float
) -> list[Notice]:
    """Warn if the load, with its mass identified, contradicts the stated mass. [kg]"""
    free = LoadUnknowns.of(
        model, problem.regression, mass=None, place=settings.place, reach=settings.reach
    )
    load = free.load(problem, *free.fit(problem))
    notice = contradiction(load.estimate, LOAD_PARAMETERS[0], mass)
    return [notice] if load.observed[0] and notice is not None else []


def _track_load(
    problem: LoadProblem,
    unknowns: LoadUnknowns,
    processing: Processing,
    settings: PayloadSettings,
    recordings: Sequence[Recording],
) -> tuple[list[Load], list[Change], History]:
    """Return the loads one after the other, the changes between them, and the history."""
    whole, prior = unknowns.fit(problem)
    clock = _clock(problem.regression)
    filter_time = _filter_time(problem.regression, clock, processing)
    blocks = LoadBlocks.of(unknowns.reduce(problem), whole.covariance, filter_time)
    cuts = changes(blocks, prior)
    if cuts:
        loads = []
        for samples in _samples_between(filter_time, blocks, cuts):
            block = problem.take(samples)
            loads.append(unknowns.load(block, *unknowns.fit(block)))
    else:
        loads = [unknowns.load(problem, whole, prior)]
    if settings.forgetting is not None:
        weight = np.exp((clock - clock[-1]) / settings.forgetting)
        loads[-1] = unknowns.load(problem, *unknowns.fit(problem, weight))
    load_changes = []
    for cut, (before, after) in zip(cuts, pairwise(loads)):
        edges = blocks.edges[cut - 1 : cut + 2].tolist()
        load_changes.append(_change(recordings, problem.regression, clock, edges, before, after))
    track = history(blocks, clock, prior, settings.forgetting)
    load_history = replace(
        track,
        values=unknowns.fixed + track.values @ unknowns.map.T,
        std=np.sqrt(track.std**2 @ (unknowns.map**2).T),
    )
    return loads, load_changes, load_history


def _clock(data: Regression) -> FloatArray:
    """Return the time of all samples, recordings one after the other, (t,). [s]"""
    assert data.time is not None
    clock = data.time.copy()
    if data.recording is not None:
        for at in np.flatnonzero(np.diff(data.recording)) + 1:
            clock[at:] += clock[at - 1] - clock[at]
    return clock


def _filter_time(data: Regression, clock: FloatArray, processing: Processing) -> FloatArray:
    """Return the time in units over which filters smear a change, (t,).

    The unit is a period where periods are averaged, else 2 / cut-off,
    else a sample.
    """
    if data.group is not None and processing.method in ("explicit", "implicit"):
        return data.group.astype(float)
    if processing.cutoff:
        return clock * processing.cutoff / 2
    return np.arange(float(len(clock)))


def _samples_between(
    filter_time: FloatArray, load_blocks: LoadBlocks, cuts: Sequence[int]
) -> list[IntArray]:
    """Return the samples between changes.

    Those over which filters smear a change are omitted if enough others
    remain.
    """
    end = len(filter_time)
    edges = [0, *(int(load_blocks.edges[cut]) for cut in cuts), end]
    blocks = []
    for start, stop in pairwise(edges):
        samples = np.arange(start, stop)
        clear = np.ones(len(samples), bool)
        if start > 0:
            clear &= filter_time[samples] >= filter_time[start] + 1
        if stop < end:
            clear &= filter_time[samples] <= filter_time[stop - 1] - 1
        enough = clear.sum() >= MIN_SAMPLES_PER_LOAD_PARAMETER * len(LOAD_PARAMETERS)
        blocks.append(samples[clear] if enough else samples)
    return blocks


def _change(
    recordings: Sequence[Recording],
    data: Regression,
    clock: FloatArray,
    edges: Sequence[int],
    before: Load,
    after: Load,
) -> Change:
    """Return the change at the second of three edges of pieces."""
    assert data.time is not None
    first, middle, last = edges
    log = recordings[0]
    if data.recording is not None:
        log = recordings[int(data.recording[middle])]
    time_before = clock[middle] - clock[first]
    time_after = clock[last - 1] - clock[middle]
    within = float(max(time_before, time_after))
    return Change(log.source, float(data.time[middle]), within, before, after)


def _unexplained_notices(
    load: Estimate, result: Identification, processing: Processing
) -> list[Notice]:
    """Warn if the residual with a load is far above that of the unloaded robot.

    Noise that a higher cut-off passes is allowed for.
    """
    used_cutoff = result.processing.cutoff
    widening = 1.0
    if used_cutoff and processing.cutoff:
        widening = max(1.0, processing.cutoff / used_cutoff) ** 0.5
    expected = np.maximum(widening * result.estimate.residual_rms, TINY)
    if len(expected) != len(load.residual_rms):
        return []
    ratio = load.residual_rms / expected
    unexplained = ratio * (load.residual_relative > MAX_UNEXPLAINED_LOAD)
    worst = int(np.argmax(unexplained))
    if unexplained[worst] < MAX_LOAD_RESIDUAL_RATIO:
        return []
    notice = Notice(
        rule="unexplained load",
        level="warning",
        where=load.rows[worst],
        text=f"one load does not explain the efforts: the residual is {ratio[worst]:.3g} times "
        f"that of the unloaded robot, and {100 * load.residual_relative[worst]:.3g} % of the "
        "effort of the load",
        advice="the load may change in these logs: give a signal that shows it as `carrying`, or "
        "cut the logs; or robot and model differ",
        numbers={"ratio": float(ratio[worst])},
    )
    return [notice]


def _notices(load: Load, *, exact: bool) -> Iterator[Notice]:
    """Yield the notices on a load; `exact` if the model of the unloaded robot has no errors."""
    yield from load.estimate.notices
    if exact:
        yield Notice(
            rule="unloaded robot",
            level="info",
            text="the model of the unloaded robot is taken as exact",
            advice="give an identified one: its standard errors are then included",
        )
    low, high = load.estimate.interval()[0]
    if load.observed[0] and low <= 0 <= high:
        limit = max(-low, high)
        yield Notice(
            rule="no load",
            level="info",
            text=f"no load is detected: its mass is zero within {limit:.2g} kg",
            numbers={"mass": limit},
        )
    if not load.physical:
        yield Notice(
            rule="physical consistency",
            level="warning",
            text="not physically consistent: no body has these parameters, by more than their "
            "standard errors",
            advice="check the unloaded model, the processing, and that the load is fixed to the "
            "platform",
        )
    if not any(load.observed):
        yield Notice(
            rule="not observed",
            level="warning",
            text="no parameter of the load is observed",
            advice="move the platform more",
        )
