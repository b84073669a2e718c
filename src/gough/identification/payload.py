"""The load a robot carries: what logs show of it, how surely, and when it changes."""

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
from gough.core.inertia import INERTIA_ENTRIES, parallel_axes
from gough.core.names import INERTIAL, LOAD_PARAMETERS
from gough.core.notices import Notice, notice_lines, ordered
from gough.core.options import Settings, merge_settings, nested, option, with_settings
from gough.core.record import Columns, Record
from gough.engine import Model, Robot, as_model
from gough.engine.columns import column_names
from gough.fitting.estimate import Estimate, UncertaintyComponent, build_estimate
from gough.fitting.load_fit import (
    History,
    LoadFit,
    LoadProblem,
    Pieces,
    changes,
    fit,
    history,
    in_words,
    seen,
)
from gough.fitting.noise_information import OBSERVED
from gough.fitting.pseudo_inertia import pseudo_inertia
from gough.fitting.regression import Regression
from gough.identification.experiment import match_logs
from gough.identification.load_friction import refuse_load_friction
from gough.identification.load_problem import load_problem, unloaded_robot
from gough.identification.result import Identification
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import Processing, choose_processing, raised_cutoff

# a parameter is observed once its standard deviation is below this share of what a load can have
HALF = 0.5
FEWEST = 3  # samples for each parameter, below which nothing of a stretch is left out
SIGMAS = 2.0  # by which a load must miss what bodies can be, to be called impossible
# until the heaviest load and what is hidden of it agree: to a thousandth, if that is less than 4/5
PASSES = 30
POWER = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])  # of length in the units of a load's parameters


@dataclass(frozen=True, kw_only=True, eq=False)
class Load:
    """A load's ten inertial parameters about the platform frame, over some time."""

    # of those not observed zero, as uncertain as a load can be; information is over that, too
    estimate: Estimate
    observed: tuple[bool, ...]  # which of them the motion shows, or were given, (10,)
    hidden: tuple[str, ...]  # combinations that the motion does not show, in words
    physical: bool  # some body has such parameters, as far as the standard deviations tell

    def to_list(self) -> list[dict[str, Any]]:
        """Return the parameters in the documented JSON form."""
        e = self.estimate
        assert e.information is not None
        figures = {
            "value": e.values,
            "std": e.std,
            "model_std": e.sources[-1].std,
            "interval": e.interval(),
        }
        return [
            {
                "name": name.kind,
                "unit": unit,
                "observed": seen,
                "information": float(e.information[k]),
            }
            | {key: figure[k].tolist() if seen else None for key, figure in figures.items()}
            for k, (name, unit, seen) in enumerate(zip(e.parameters, e.units, self.observed))
        ]

    def __str__(self) -> str:
        mass = rounded(float(self.estimate.values[0]), float(self.estimate.std[0]))
        return f"m {mass[0]} +- {mass[1]} kg" if self.observed[0] else "m not observed"


class Change(NamedTuple):
    """Another load from some time on, on the clock of a log, and how well that is known. [s]"""

    log: str
    time: float
    within: float
    before: Load
    after: Load  # until the next change


@dataclass(frozen=True, kw_only=True, eq=False)
class PayloadResult(Record):
    """What a robot carries, in the end if that has changed."""

    robot: str
    load: Load
    changes: tuple[Change, ...]
    history: History  # what was known of it in the course of the logs
    processing: Processing  # of the logs
    notices: tuple[Notice, ...]  # in their order
    settings: PayloadSettings

    @property
    def estimate(self) -> Estimate:
        """Values with standard deviations of what it carries."""
        return self.load.estimate

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Parameters the motion does not show."""
        return tuple(
            name for name, seen in zip(self.estimate.parameters, self.load.observed) if not seen
        )

    def table(self) -> Columns:
        """Return the load by parameter."""
        rows = self.load.to_list()
        return {
            name: [row[name] for row in rows]
            for name in ("name", "value", "std", "unit", "observed")
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "robot": self.robot,
            "samples": self.estimate.samples,
            "parameters": self.load.to_list(),
            "physical": self.load.physical,
            "unobserved_combinations": list(self.load.hidden),
            "changes": [
                c._asdict() | {"before": c.before.to_list(), "after": c.after.to_list()}
                for c in self.changes
            ],
            "history": {"time": self.history.time.tolist()}
            | dict(zip(INERTIAL, self.history.values.T.tolist())),
            "processing": self.processing.to_dict(),
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def summary(self) -> str:
        """Return the load as plain text, then the combinations the motion does not show, changes
        and notices.
        """
        rows = [
            [
                p["name"],
                *(
                    (*rounded(p["value"], p["std"]), p["unit"], "yes")
                    if p["observed"]
                    else ("-", "-", p["unit"], "not observed")
                ),
                f"{p['information']:.2g}",
            ]
            for p in self.load.to_list()
        ]
        return "\n".join(
            [
                f"{self.robot}: load about the platform frame, from {self.estimate.samples} "
                f"samples",
                text_table(["parameter", "value", "std", "unit", "seen?", "over noise"], rows),
                *(
                    f"not seen on this motion: {text}"
                    for text in self.load.hidden
                    if text not in INERTIAL
                ),
                *(
                    f"the load changes at {c.time:.4g} +- {c.within:.2g} s in {c.log}: {c.before} "
                    f"before, "
                    f"{str(c.after).removeprefix('m ')} after"
                    for c in self.changes
                ),
                *notice_lines(self.notices),
            ]
        )


@dataclass(frozen=True, kw_only=True)
class PayloadSettings(Settings):
    """What is known of a load, and how logs are processed."""

    mass: float | None = option(
        None, "Mass of the load, if it was weighed: only the rest is sought.", unit="kg", above=0
    )
    at: str | Sequence[float] | None = option(
        None,
        "Where its centre of mass is in the frame of the platform, if that is known: x,y,z.",
        unit="m",
    )
    reach: float | None = option(
        None,
        "How far it may extend from the platform's origin; the size of the robot by default. With "
        "the mass it "
        "says what first moments and inertias a load can have at all.",
        unit="m",
        above=0,
    )
    forgetting: float | None = option(
        None,
        "Memory: what is older counts 1 / e. By default all that was recorded since the load last "
        "changed "
        "counts alike.",
        unit="s",
        above=0,
    )
    processing: Processing = nested(Processing)

    @property
    def place(self) -> FloatArray | None:
        """Where the centre of mass is, (3,), if that is known. [m]"""
        if self.at is None:
            return None
        try:
            place = np.array(
                [float(x) for x in (self.at.split(",") if isinstance(self.at, str) else self.at)]
            )
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
    """Find the load of a robot whose own model is known, on any trajectory.

    Args:
        recordings: Logs with the load, one after the other.
        settings: What is known of it; single options may be given by name instead.
        result: Identification of the unloaded robot: its parameters with their covariance, its
            processing and drive gains are used where others are not given.
        values: Standard parameters of the unloaded robot, (p,), taken as exact; the robot file's by
            default.
        gains: Drive gains for logs with currents.
    """
    chosen = merge_settings(PayloadSettings, settings, options)
    model, recordings, used = as_model(model), as_recordings(recordings), chosen.processing
    refuse_load_friction(model, "a load")
    _ = chosen.place  # refused before logs are processed, if it is no place
    if not recordings:
        raise InvalidInput("there is no recording to find a load in")
    if result is not None:
        if result.robot != model.mechanism.name:
            raise InvalidInput(
                f"the result is a model of '{result.robot}', not of '{model.mechanism.name}'"
            )
        model, used, gains = (
            result.fitted(model),
            result.processing_with(used),
            gains or result.gains,
        )
    logs = match_logs(model, recordings, used)
    if not used.complete:
        used = choose_processing(model, logs, None, used, gains=gains).processing
    unloaded = unloaded_robot(
        model, result, None if values is None else np.asarray(values, dtype=float)
    )
    if (
        result is not None
        and chosen.processing.cutoff is None
        and result.settings.get("cutoff") is None
    ):
        names = column_names(unloaded.base)
        used = raised_cutoff(
            model,
            logs,
            (*names, *LOAD_PARAMETERS),
            used,
            dict(zip(names, unloaded.values.tolist())),
            free=LOAD_PARAMETERS,
            gains=gains,
        )
    problem = load_problem(model, logs, used, unloaded, gains)
    sought = _Sought.of(model, problem.regression, chosen)
    whole, prior = sought.found(problem)
    clock = _clock(problem.regression)
    zone = _zone(problem.regression, clock, used)
    pieces = Pieces.of(sought.asked(problem), whole.covariance, zone)
    cuts = changes(pieces, prior)
    parts = [problem.take(part) for part in _apart(zone, pieces, cuts)] if cuts else []
    loads = [sought.load(part, *sought.found(part)) for part in parts] or [
        sought.load(problem, whole, prior)
    ]
    if chosen.forgetting is not None:
        weight = np.exp((clock - clock[-1]) / chosen.forgetting)
        loads[-1] = sought.load(problem, *sought.found(problem, weight))
    track = history(pieces, clock, prior, chosen.forgetting)
    return PayloadResult(
        robot=model.mechanism.name,
        load=loads[-1],
        processing=used,
        settings=chosen,
        changes=tuple(
            _change(
                recordings,
                problem.regression,
                clock,
                pieces.edges[cut - 1 : cut + 2].tolist(),
                *both,
            )
            for cut, both in zip(cuts, pairwise(loads))
        ),
        history=replace(
            track,
            values=sought.fixed + track.values @ sought.map.T,
            std=np.sqrt((track.std**2) @ (sought.map**2).T),
        ),
        notices=ordered(_notices(loads[-1], exact=result is None or values is not None)),
    )


class _Sought(NamedTuple):
    """What is sought of a load: ten = fixed + map @ unknowns, (10,) and (10, p)."""

    fixed: FloatArray
    map: FloatArray
    mass: float  # how heavy it may be at most [kg]
    known: bool  # that is its mass
    reach: float  # how far it may extend [m]

    @classmethod
    def of(cls, model: Model, data: Regression, settings: PayloadSettings) -> _Sought:
        """Return what is left to seek once mass or place are known."""
        point, place = np.eye(10)[0], settings.place  # a kilogram at the place
        if place is not None:
            point[1:4] = place
            point[4:] = [parallel_axes(1.0, place)[i, j] for i, j in INERTIA_ENTRIES]
        free = np.eye(10)[:, 1 if place is None else 4 :]
        gravity = float(np.linalg.norm(model.mechanism.gravity)) or 1.0
        most = max(10 * float(np.abs(data.effort).sum(axis=1).max()) / gravity, 1e-12)
        known = settings.mass is not None
        return cls(
            point * (settings.mass or 0.0),
            free if known else np.column_stack([point, free]),
            settings.mass or most,
            known,
            settings.reach or model.loops.length,
        )

    def prior(self, mass: float) -> FloatArray:
        """Return how large the unknowns of a load of that mass can be, (p,); the mass itself is
        any.
        """
        own = () if self.known else (self.mass,)
        return np.append(own, mass * self.reach ** POWER[len(own) - self.map.shape[1] :])

    def asked(self, problem: LoadProblem) -> LoadProblem:
        """Return a problem of ten parameters as one of the unknowns."""
        p = self.map.shape[1]
        matrix = np.zeros((11, p + 1))
        matrix[:10, :p], matrix[:10, p], matrix[10, p] = self.map, -self.fixed, 1.0
        names = [LOAD_PARAMETERS[int(np.argmax(column != 0))] for column in self.map.T]
        return replace(
            problem,
            noise=matrix.T @ problem.noise @ matrix,
            regression=problem.regression.transform(matrix, names, [name.unit for name in names]),
        )

    def found(
        self, problem: LoadProblem, weight: FloatArray | None = None
    ) -> tuple[LoadFit, FloatArray]:
        """Return the fit of the unknowns, and how large these can be given the mass that the data
        show.

        The heaviest load is the mass found, three standard deviations of its noise and of the
        model, and what is hidden of a load that heavy: each follows from the other.
        """
        asked, prior = self.asked(problem), self.prior(self.mass)
        found = fit(asked, prior, weight)
        if self.known:
            return found, prior
        known = float(found.uncertainty.covariance[0, 0] - (found.seen.hidden[0] ** 2).sum())
        growth = np.sqrt(max(known, 0.0)) / max(float(np.linalg.norm(found.seen.root[0])), TINY)
        for _ in range(PASSES):
            so_far = seen(found.grams[0], found.grams[1], prior)
            noise, hidden = (
                float(np.linalg.norm(part[0])) for part in (so_far.root, so_far.hidden)
            )
            heaviest = abs(so_far.values[0]) + 3 * growth * noise + hidden
            prior = self.prior(float(np.clip(heaviest, 1e-9 * self.mass, self.mass)))
        return fit(asked, prior, weight), prior

    def load(self, problem: LoadProblem, found: LoadFit, prior: FloatArray) -> Load:
        """Return the load of a fit of the unknowns, and of how large these can be."""
        values, covariance = (
            self.fixed + self.map @ found.seen.values,
            self.map @ found.uncertainty.covariance @ self.map.T,
        )
        part = self.map**2 * np.diag(found.uncertainty.covariance)
        freedom = np.min(np.where(part > 0, found.uncertainty.degrees_of_freedom, np.inf), axis=1)
        source = UncertaintyComponent(
            kind="model",
            std=np.sqrt(self.map**2 @ found.model_std**2),
            degrees_of_freedom=np.asarray(np.inf),
        )
        estimate = build_estimate(
            problem.regression,
            values,
            replace(
                found.uncertainty,
                covariance=covariance,
                degrees_of_freedom=freedom,
                sources=(source,),
            ),
            method="load beyond the unloaded robot",
            condition_number=float("nan"),
            noise_covariance=found.covariance,
        )
        most, ratio = np.sqrt(self.map**2 @ prior**2), found.seen.ratio(self.map)
        shown = (most == 0) | ((estimate.std <= HALF * most) & (ratio >= OBSERVED))
        return Load(
            estimate=replace(estimate, information=ratio),
            observed=tuple(shown.tolist()),
            hidden=tuple(in_words(INERTIAL, row) for row in found.seen.directions @ self.map.T),
            physical=_possible(values, covariance, self.reach),
        )


def _possible(values: FloatArray, covariance: FloatArray, reach: float) -> bool:
    """Tell whether a body can have these parameters: no direction e has e^T J e below zero by
    `SIGMAS`.
    """
    scale = reach ** -POWER.astype(float)
    axes = np.linalg.eigh(pseudo_inertia(values * scale))[1].T
    slopes = (
        np.einsum("ei,pij,ej->ep", axes, pseudo_inertia(np.eye(10)), axes) * scale
    )  # J is linear
    std = np.sqrt(np.einsum("ep,pq,eq->e", slopes, covariance, slopes))
    return not bool((slopes @ values < -SIGMAS * std).any())


def _clock(data: Regression) -> FloatArray:
    """Return the time of all samples, recordings one after the other, (t,). [s]"""
    assert data.time is not None
    clock = data.time.copy()
    if data.recording is not None:
        for at in np.flatnonzero(np.diff(data.recording)) + 1:
            clock[at:] += clock[at - 1] - clock[at]
    return clock


def _zone(data: Regression, clock: FloatArray, processing: Processing) -> FloatArray:
    """Return the time in units of what filters smear a change over, (t,): a period averaged, or 2 /
    cut-off.
    """
    if data.group is not None and processing.method in ("explicit", "implicit"):
        return data.group.astype(float)
    return clock * processing.cutoff / 2 if processing.cutoff else np.arange(float(len(clock)))


def _apart(zone: FloatArray, pieces: Pieces, cuts: Sequence[int]) -> list[IntArray]:
    """Return the samples between changes, without those that a change is smeared over if enough are
    left.
    """
    found = []
    for start, stop in pairwise([0, *(int(pieces.edges[cut]) for cut in cuts), len(zone)]):
        own = np.arange(start, stop)
        clear = own[
            ((start == 0) | (zone[own] >= zone[start] + 1))
            & ((stop == len(zone)) | (zone[own] <= zone[stop - 1] - 1))
        ]
        found.append(clear if len(clear) >= FEWEST * len(LOAD_PARAMETERS) else own)
    return found


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
    first, at, last = edges
    log = recordings[0 if data.recording is None else int(data.recording[at])]
    within = float(max(clock[at] - clock[first], clock[last - 1] - clock[at]))
    return Change(log.source, float(data.time[at]), within, before, after)


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
