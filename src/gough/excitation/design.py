"""Optimal excitation trajectories: AH09 section 4 with exact gradients, for any robot."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.blas import one_blas_thread
from gough.core.errors import InfeasibleDesign, InvalidInput
from gough.core.files import write_json
from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.parameters import BaseParameters
from gough.core.record import Record
from gough.core.trajectory import Fourier, Sampled, ease
from gough.engine.base import TIE_LEGS, base_parameters
from gough.engine.columns import column_names
from gough.engine.limits import SINGULARITY, Limit, collect_limits, measure
from gough.engine.loops import By
from gough.engine.model import Model, Robot, as_model
from gough.excitation.criteria import Criterion, criterion_value
from gough.excitation.problem import DesignProblem, Part
from gough.excitation.search import (
    find_centre,
    informative_frequency,
    random_starts,
    solve_and_verify,
    start_from,
)
from gough.excitation.solver import InteriorPoint, Progress
from gough.mechanism import Limits

GRID = 24  # grid samples per period of the highest harmonic
LONGEST = 60.0  # longest usual period [s]
ACTIVE = 0.98  # a limit that is used to this part is called active
SETTLING = 1  # periods at full pace before those worth recording
EASING = 16.0  # longest ramp tried [periods]


def runnable(model: Model, trajectory: Fourier, periods: int) -> Sampled:
    """Return a trajectory at the controller's samples, eased in and out of rest, with the motors
    beside the platform.

    Only the pace rises from rest and falls back, over half a period or, where a limit would be
    exceeded, longer. Between are `periods` whole periods at full pace, and one before them for the
    controller to settle.
    """
    rate, length = model.mechanism.noise.rate, 0.5  # [Hz], [periods]
    limits = collect_limits(model, singularity=None)
    while length <= EASING:
        runs = replace(trajectory, periods=periods + SETTLING + int(np.ceil(length)))
        eased = ease(runs, round(length * trajectory.period * rate) / rate)
        time = eased.times(rate)
        motion = model.kinematics.motion(
            time, *eased.at(time), model.loops.partition_driven_by(trajectory.coordinates)
        )
        used = np.abs(measure(model, limits, motion))
        if not len(limits) or used.max() <= 1 + 1e-9:
            names = tuple(dict.fromkeys((*trajectory.coordinates, *model.mechanism.actuated)))
            columns = [motion.column(name) for name in names]
            return Sampled(
                coordinates=names,
                units=tuple(model.mechanism.joint(name).unit for name in names),
                robot=model.mechanism.name,
                time=time,
                position=motion.q[:, columns],
                velocity=motion.qd[:, columns],
                acceleration=motion.qdd[:, columns],
            )
        length *= 1.5
    worst = limits[int(np.argmax(used.max(axis=0)))]
    raise InfeasibleDesign(
        f"the {worst} is exceeded while the trajectory is eased in from rest, however slowly; "
        "design a trajectory that starts and ends at rest",
        limit=str(worst),
    )


@dataclass(frozen=True, kw_only=True)
class DesignSettings(Settings):
    """How a trajectory is designed: its form, its criterion, the search."""

    harmonics: int = option(5, "Harmonics of each coordinate.", least=1)
    frequency: float | None = option(
        None,
        "Fundamental, moved until a period is a whole number of controller samples; by default the "
        "one that "
        "tells most per recorded time.",
        unit="Hz",
        above=0,
    )
    coordinates: By | None = option(
        None, "Whose Fourier series; task by default where the robot has such coordinates."
    )
    criterion: Criterion = option(
        "d",
        "What to minimise: d, -ln det of the information; cond, condition number; a, trace of the "
        "covariance; e, "
        "its largest eigenvalue.",
    )
    at_rest: bool = option(False, "Start and end each period with zero velocity and acceleration.")
    optimise_frequency: bool = option(
        False, "Let the frequency vary; then information per time is compared."
    )
    tie_legs: bool = option(False, TIE_LEGS)
    singularity: float = option(
        SINGULARITY,
        "Smallest |det dq_act/dx| relative to home, and inverse of the largest; 0 to ignore.",
        least=0,
    )
    samples: int | None = option(
        None,
        f"Grid samples per period; {GRID} per period of the highest harmonic by default.",
        least=1,
    )
    starts: int = option(
        4, "Optimisations from different random trajectories; the best is kept.", least=1
    )
    seed: int = option(0, "Seed of the random generator.", least=0)
    iterations: int = option(300, "Most steps of each optimisation.", least=1)
    tolerance: float = option(
        0.002, "How far from its local minimum the objective may end.", above=0
    )


@dataclass(frozen=True, kw_only=True)
class Run(Settings):
    """One trajectory of an experiment: several are designed jointly, their information adds up.

    A slow run shows friction, a fast one inertia (P03 4.1); runs with and without payload tell them
    apart (BG13 (29)).
    """

    frequency: float | None = option(
        None, "Fundamental; that of the design by default.", unit="Hz", above=0
    )
    harmonics: int | None = option(None, "Harmonics; those of the design by default.", least=1)
    payload: str | None = option(None, "Name of the payload carried.")
    periods: int = option(1, "How often it will be run.", least=1)
    start: Fourier | None = option(
        None, "An earlier trajectory to go on from; its frequency is kept."
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Design(Record):
    """Trajectories that keep all limits, and how good they are."""

    trajectories: tuple[Fourier, ...]  # one per run
    runs: tuple[Run, ...]
    # the criterion at the controller's samples over all periods of all runs, exact sign of the
    # velocity
    value: float
    condition_number: float  # of the regressor, AH09 (21), at the same samples
    violations: int  # limits exceeded on the verification grid: always 0
    active: tuple[str, ...]  # limits that are used to 98 % or more
    limits: tuple[Limit, ...]
    usage: FloatArray  # largest part of each limit that is used, (o,)
    base: BaseParameters  # the parameters it informs about
    evaluations: int  # of objective and constraints
    seconds: float  # compilation included
    settings: DesignSettings
    history: tuple[
        float, ...
    ]  # objective after each step of the best start, on the coarse grid; its log unless d
    stopped: bool = False  # somebody stopped the search; this is the best so far

    @property
    def trajectory(self) -> Fourier:
        return self.trajectories[0]

    def to_dict(self) -> dict[str, Any]:
        """Return what a machine wants to know of the result."""
        return {
            "criterion": self.settings.criterion,
            "value": self.value,
            "condition_number": self.condition_number,
            "parameters": len(self.base),
            "violations": self.violations,
            "active": list(self.active),
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "stopped": self.stopped,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the first trajectory as JSON, with the settings it was designed by; whole or not at
        all.
        """
        write_json(path, self.trajectory.to_dict() | {"settings": self.settings.to_dict()})

    def summary(self) -> str:
        lines = [
            f"criterion {self.settings.criterion}: {self.value:.6g}, condition number "
            f"{self.condition_number:.4g}, {len(self.base)} parameters",
            f"{self.evaluations} evaluations, {self.seconds:.1f} s, {self.violations} violations",
        ]
        for run, trajectory in zip(self.runs, self.trajectories):
            lines.append(
                f"{trajectory.harmonics} harmonics of {trajectory.frequency:.5g} Hz, period "
                f"{trajectory.period:.5g} s" + (f", with '{run.payload}'" if run.payload else "")
            )
        lines += (
            ["stopped before its end: the best so far, which keeps all limits"]
            if self.stopped
            else []
        )
        lines += (
            ["active limits:", *(f"  {name}" for name in self.active)]
            if self.active
            else ["no active limits"]
        )
        return "\n".join(lines)


def first_frequency(
    model: Model, harmonics: int = 5, limits: Mapping[str, Limits] | None = None
) -> float:
    """Return a fundamental frequency at which the highest harmonic at full swing meets the motors'
    first limit.

    The search of `informative_frequency` begins there. A motor that swings by half its range r to
    both sides reaches its velocity limit v at v / (2 pi r) and its acceleration limit a at sqrt(a /
    r) / (2 pi); without an acceleration limit its effort limit over its inertia at home is taken.
    The lowest of these over all motors is the highest harmonic. (PaLiDA: 1.59 Hz; AH09 found 1.62
    Hz.) Without any limit: 1 Hz. No period is longer than a minute.
    """
    half = {(limit.quantity, limit.name): limit.half for limit in collect_limits(model, limits)}
    inertias = dict(zip(model.rows, model.mass_matrix(model.home[None])[0].diagonal()))
    corners = []  # [rad/s]
    for name in model.mechanism.actuated:
        reach, inertia = half.get(("position", name), 1.0), inertias.get(name, 0.0)  # [m or rad]
        usual = half.get(("effort", name), np.inf) / inertia if inertia > 0 else np.inf
        acceleration = half.get(("acceleration", name), usual)
        corners += [half.get(("velocity", name), np.inf) / reach, np.sqrt(acceleration / reach)]
    slowest = min(corners)
    return max(float(slowest / (2 * np.pi) if slowest < np.inf else 1.0) / harmonics, 1 / LONGEST)


@with_settings(DesignSettings)
@one_blas_thread
def design(
    model: Robot,
    settings: DesignSettings | None = None,
    *,
    runs: Sequence[Run] | None = None,
    limits: Mapping[str, Limits] | None = None,
    base: BaseParameters | None = None,
    covariance: ArrayLike | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Design:
    """Find the most informative Fourier trajectories inside the limits of a robot.

    The variables are all Fourier coefficients (AH09 (19)) and, if asked, the fundamental frequency.
    Constraints are AH09 (20), efforts from a-priori parameters, limits of pose, task rates and
    twist, and the distance to singularities. Coulomb friction is smoothed while optimising; the
    result is verified on a grid ten times finer with the exact sign, limits exceeded there are
    tightened. An interrupt (Ctrl-C) keeps the best so far.

    Args:
        settings: How to design; single options may be given by name instead.
        runs: Trajectories designed jointly; one without payload by default.
        limits: By coordinate, `platform.translation` or `platform.rotation`, in place of the robot
            file's.
        base: Parameters to be identified; by default the base parameters of the experiment.
        covariance: Of the motor efforts, (a, a); from the robot's noise by default.
        progress: Called after each step with its number, the objective and the largest violation
            seen (relative).

    Raises:
        InfeasibleDesign: No trajectory keeps the limits; names the limit in the way.
        NotIdentifiable: No trajectory of this form informs about all parameters.
    """
    began = time.perf_counter()
    chosen, model = merge_settings(DesignSettings, settings, options), as_model(model)
    by: By = chosen.coordinates or ("task" if "task" in model.loops.partitions else "actuated")
    model.loops.partition_of(by)  # raises if there is none
    wanted = tuple(runs) if runs else (Run(),)
    bounds = collect_limits(model, limits, singularity=chosen.singularity or None)
    _check_bounded(model, bounds, by)
    if base is None:
        payloads = tuple(dict.fromkeys(run.payload for run in wanted if run.payload is not None))
        base = base_parameters(model, tie_legs=chosen.tie_legs, payloads=payloads)
    terms, heads = model.mechanism.terms, [base.standard[i] for i in base.independent]
    # What depends on a past or on a recorded channel is not designed for.
    designed = [
        name
        for name, head in zip(base.names, heads)
        if head.kind not in terms or not (terms[head.kind].lags or terms[head.kind].channels)
    ]
    base = base if len(designed) == len(base) else base.select(designed)
    noise = effort_covariance(model) if covariance is None else np.asarray(covariance, dtype=float)
    check_shape(noise, (len(model.actuated), len(model.actuated)), "effort covariance")
    if not (
        np.isfinite(noise).all()
        and np.allclose(noise, noise.T)
        and np.linalg.eigvalsh(noise)[0] > 0
    ):
        raise InvalidInput(
            f"the effort covariance is {noise.tolist()}, expected a symmetric positive definite "
            f"matrix"
        )
    rate = model.mechanism.noise.rate
    centre = find_centre(
        model, bounds, by=by, loads=[model.load(run.payload) for run in wanted], seed=chosen.seed
    )

    def problem_at(usual: float, criterion: Criterion = "d", free: bool = False) -> DesignProblem:
        parts = []
        for run in wanted:
            h = run.harmonics or chosen.harmonics
            f = rate / max(round(rate / (run.frequency or usual)), 1)
            grid = chosen.samples or GRID * h
            parts.append(
                Part(
                    harmonics=h,
                    frequency=f,
                    payload=run.payload,
                    weight=run.periods * rate / f / grid,
                    samples=grid,
                    at_rest=chosen.at_rest,
                    free_frequency=free,
                )
            )
        return DesignProblem(
            model,
            parts,
            by=by,
            criterion=criterion,
            base=base,
            limits=bounds,
            covariance=noise,
            centre=centre,
        )

    earlier = [run.start for run in wanted if run.start is not None]
    frequency = chosen.frequency or (earlier[0].frequency if earlier else None)
    if frequency is None:
        frequency = informative_frequency(
            problem_at, first_frequency(model, chosen.harmonics, limits), chosen.seed
        )
    problem = problem_at(frequency, chosen.criterion, chosen.optimise_frequency)
    starts = random_starts(problem, chosen.starts, chosen.seed)
    if earlier:
        starts = [start_from(problem, earlier), *starts[:-1]]
    search = InteriorPoint(iterations=chosen.iterations, tolerance=chosen.tolerance)
    (trajectories, seen, history), stopped = solve_and_verify(
        problem, starts, search, rate, progress
    )
    usage = np.abs(seen).max(axis=1)
    white, plain = (
        information_factor(model, trajectories, base, runs=wanted, covariance=sigma)
        for sigma in (noise, None)
    )
    return Design(
        trajectories=trajectories,
        runs=wanted,
        violations=int((usage > 1).sum()),
        value=criterion_value(chosen.criterion, plain if chosen.criterion == "cond" else white),
        condition_number=criterion_value("cond", plain),
        active=tuple(str(limit) for limit, used in zip(bounds, usage) if used >= ACTIVE),
        limits=bounds,
        usage=usage,
        base=base,
        evaluations=problem.evaluations,
        seconds=time.perf_counter() - began,
        settings=chosen,
        history=history,
        stopped=stopped,
    )


def effort_covariance(model: Model) -> FloatArray:
    """Return the covariance of the motor efforts that the robot's noise describes, or ones if it
    has none, (a, a).
    """
    noise = model.mechanism.noise
    return replace(noise, effort=noise.effort or 1.0).effort_covariance(len(model.actuated))


def information_factor(
    model: Model,
    trajectories: Sequence[Fourier],
    base: BaseParameters,
    *,
    runs: Sequence[Run] | None = None,
    covariance: FloatArray | None = None,
) -> FloatArray:
    """Return a triangular R with R^T R = Psi^T Sigma^-1 Psi at the controller's samples, (b, b).

    Each trajectory is run for one period without payload by default; Sigma of the motor efforts,
    (a, a), is ones.
    """
    names, rate = column_names(base), model.mechanism.noise.rate
    noise = np.eye(len(model.actuated)) if covariance is None else covariance
    factor = np.zeros((0, len(names)))
    for run, trajectory in zip(runs or [Run()] * len(trajectories), trajectories):
        times = np.arange(round(trajectory.period * rate)) / rate
        motion = model.kinematics.motion(
            times, *trajectory.at(times), model.loops.partition_driven_by(trajectory.coordinates)
        )
        mask = np.array([n.payload in (None, run.payload) for n in names]) * np.sqrt(run.periods)
        nothing = np.zeros((len(times), len(model.actuated)))
        for block in model.regression(motion, nothing, base, covariance=noise).blocks(2048):
            white = block.whitened().regressor * mask
            factor = np.asarray(
                np.linalg.qr(np.vstack([factor, white.reshape(-1, len(names))]), mode="r")
            )
    return factor


def _check_bounded(model: Model, limits: Sequence[Limit], by: By) -> None:
    """Raise if the limits would let some coordinate move without bound."""
    held = {limit.name for limit in limits if limit.quantity in ("position", "velocity")}
    motors = set(model.mechanism.actuated) <= held
    for i in model.loops.partitions[by].independent:
        name = model.mechanism.coordinates[i]
        if name not in held and not motors:
            raise InvalidInput(
                f"neither position nor velocity of '{name}' is limited, so its best motion is "
                f"without "
                "bound; give a limit in the robot file or pass limits",
                name=name,
            )
