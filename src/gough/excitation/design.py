"""The design of optimal excitation trajectories: AH09 section 4, exact gradients, any robot."""

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
from gough.core.errors import InvalidInput
from gough.core.files import write_json
from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.parameters import BaseParameters
from gough.core.record import Columns, Record
from gough.core.trajectory import Fourier
from gough.engine.base import TIE_LEGS, base_parameters
from gough.engine.columns import column_names
from gough.engine.limits import REGULARITY_BOUND, Limit, collect_limits
from gough.engine.loops import By
from gough.engine.model import Model, Robot, as_model
from gough.excitation.criteria import Criterion, criterion_value
from gough.excitation.problem import DesignProblem
from gough.excitation.search import (
    find_centre,
    informative_frequency,
    random_starts,
    solve_and_verify,
    start_from,
)
from gough.excitation.solver import InteriorPoint, Progress
from gough.excitation.trajectory_form import TrajectoryForm
from gough.mechanism import Limits

# grid samples per period of the highest harmonic
GRID_SAMPLES_PER_HARMONIC = 24
MAX_FUNDAMENTAL_PERIOD = 60.0  # of the first frequency [s]
# a limit used to at least this fraction is active
ACTIVE_LIMIT_FRACTION = 0.98
INFORMATION_BLOCK = 2048  # samples of the regressor kept in memory at once


@dataclass(frozen=True, kw_only=True)
class DesignSettings(Settings):
    """Settings of a design: form of the trajectory, criterion, search."""

    harmonics: int = option(5, "Harmonics of each coordinate.", least=1)
    frequency: float | None = option(
        None,
        "Fundamental, moved until a period is a whole number of controller samples; by default the "
        "one with the most information per recorded time.",
        unit="Hz",
        above=0,
    )
    coordinates: By | None = option(
        None,
        "Coordinates of the Fourier series; task by default where the robot has such coordinates.",
    )
    criterion: Criterion = option(
        "d",
        "What to minimise: d, -ln det of the information; cond, condition number; a, trace of the "
        "covariance; e, its largest eigenvalue.",
    )
    at_rest: bool = option(False, "Start and end each period with zero velocity and acceleration.")
    optimise_frequency: bool = option(
        False, "Let the frequency vary; then information per time is compared."
    )
    tie_legs: bool = option(False, TIE_LEGS)
    singularity: float = option(
        REGULARITY_BOUND,
        "Distance kept from singularities: smallest |det dq_act/dx| over that of the reference "
        "configuration, and smallest inverse of this ratio; 0 to ignore.",
        least=0,
    )
    samples: int | None = option(
        None,
        f"Grid samples per period; {GRID_SAMPLES_PER_HARMONIC} per period of the highest harmonic "
        "by default.",
        least=1,
    )
    starts: int = option(
        4,
        "Optimisations from different random trajectories; the best is kept.",
        least=1,
    )
    seed: int = option(0, "Seed of the random generator.", least=0)
    iterations: int = option(300, "Maximum number of steps of each optimisation.", least=1)
    tolerance: float = option(
        0.002, "How far from its local minimum the objective may end.", above=0
    )


@dataclass(frozen=True, kw_only=True)
class Run(Settings):
    """One trajectory of an experiment: several are designed jointly, their information adds up.

    A slow run excites friction, a fast one inertia (P03 4.1); runs with
    and without payload make payload and platform distinguishable (BG13
    (29)).
    """

    frequency: float | None = option(
        None, "Fundamental; that of the design by default.", unit="Hz", above=0
    )
    harmonics: int | None = option(None, "Harmonics; those of the design by default.", least=1)
    payload: str | None = option(None, "Name of the payload carried.")
    periods: int = option(1, "How often it will be run.", least=1)
    start: Fourier | None = option(
        None, "An earlier trajectory to continue from; its frequency is kept."
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Design(Record):
    """Trajectories that keep all limits, and how good they are."""

    trajectories: tuple[Fourier, ...]  # one per run
    runs: tuple[Run, ...]  # one for each trajectory
    # The criterion at the controller's samples over all periods of all
    # runs, with the exact sign of the velocity.
    value: float
    condition_number: float  # of the regressor, AH09 (21), at the same samples
    violations: int  # limits exceeded on the verification grid: always 0
    active: tuple[str, ...]  # limits that are used to 98 % or more
    limits: tuple[Limit, ...]  # those of the robot, with the changes asked for
    usage: FloatArray  # largest used fraction of each limit, (o,)
    base: BaseParameters  # the parameters it informs about
    evaluations: int  # of objective and constraints
    seconds: float  # compilation included
    settings: DesignSettings  # of the design
    # Objective after each step of the best start, on the coarse grid;
    # its logarithm unless d.
    history: tuple[float, ...]
    # the search was interrupted; this is the best so far
    stopped: bool = False

    @property
    def trajectory(self) -> Fourier:
        """The trajectory of the first run."""
        return self.trajectories[0]

    def table(self) -> Columns:
        """Return each limit, and the largest fraction of it that the trajectories use."""
        return {
            "limit": [str(limit) for limit in self.limits],
            "used": self.usage.tolist(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the figures of the design by name, for JSON."""
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
        """Write the first trajectory and the settings of the design as JSON, atomically."""
        write_json(
            path,
            self.trajectory.to_dict() | {"settings": self.settings.to_dict()},
        )

    def summary(self) -> str:
        """Return the figures of the design as text."""
        lines = [
            f"criterion {self.settings.criterion}: {self.value:.6g}, condition number "
            f"{self.condition_number:.4g}, {len(self.base)} parameters",
            f"{self.evaluations} evaluations, {self.seconds:.1f} s, {self.violations} violations",
        ]
        for run, trajectory in zip(self.runs, self.trajectories):
            line = (
                f"{trajectory.harmonics} harmonics of {trajectory.frequency:.5g} Hz, period "
                f"{trajectory.period:.5g} s"
            )
            if run.payload:
                line += f", with '{run.payload}'"
            lines.append(line)
        if self.stopped:
            lines.append("stopped before its end: the best so far, which keeps all limits")
        if self.active:
            lines.append("active limits:")
            lines += [f"  {name}" for name in self.active]
        else:
            lines.append("no active limits")
        return "\n".join(lines)


def first_frequency(
    model: Model, harmonics: int = 5, limits: Mapping[str, Limits] | None = None
) -> float:
    """Return the fundamental at which the highest harmonic at full amplitude meets a motor limit.

    The search of `informative_frequency` begins there. A motor that
    swings by half its range r to both sides reaches its velocity limit
    v at v / (2 pi r) and its acceleration limit a at sqrt(a / r) / (2
    pi); without an acceleration limit, a is its effort limit over its
    inertia in the reference configuration. The lowest of these over all
    motors is the highest harmonic. (PaLiDA: 1.59 Hz; AH09 found 1.62
    Hz.) Without any limit: 1 Hz. No period is longer than a minute.
    """
    half = {(limit.quantity, limit.name): limit.half for limit in collect_limits(model, limits)}
    mass_matrix = model.mass_matrix(model.home[None])[0]
    inertias = dict(zip(model.rows, mass_matrix.diagonal()))
    slowest = np.inf  # [rad/s]
    for name in model.mechanism.actuated:
        reach = half.get(("position", name), 1.0)  # [m or rad]
        velocity = half.get(("velocity", name), np.inf)
        acceleration = half.get(("acceleration", name))
        if acceleration is None:
            effort = half.get(("effort", name), np.inf)
            inertia = inertias.get(name, 0.0)
            acceleration = effort / inertia if inertia > 0 else np.inf
        slowest = min(slowest, velocity / reach, np.sqrt(acceleration / reach))
    highest_harmonic = float(slowest / (2 * np.pi)) if slowest < np.inf else 1.0
    return max(highest_harmonic / harmonics, 1 / MAX_FUNDAMENTAL_PERIOD)


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

    The variables are all Fourier coefficients (AH09 (19)) and, if
    asked, the fundamental frequency. Constraints are AH09 (20), efforts
    from a-priori parameters, limits of pose, task rates and twist, and
    the distance to singularities. Coulomb friction is smoothed while
    optimising; the result is verified on a grid ten times finer with
    the exact sign, limits exceeded there are tightened. An interrupt
    (Ctrl-C) keeps the best so far.

    Args:
        settings: How to design; single options may be given by name
            instead.
        runs: Trajectories designed jointly; one without payload by
            default.
        limits: By coordinate, `platform.translation` or
            `platform.rotation`, in place of the robot file's.
        base: Parameters to be identified; by default the base
            parameters of the experiment.
        covariance: Of the motor efforts, (a, a); from the robot's noise
            by default.
        progress: Called after each step with its number, the objective
            and the largest violation seen (relative).

    Raises:
        InfeasibleDesign: No trajectory keeps the limits; names the
            limit in the way.
        NotIdentifiable: No trajectory of this form informs about all
            parameters.
    """
    start_time = time.perf_counter()
    chosen = merge_settings(DesignSettings, settings, options)
    model = as_model(model)
    rate = model.mechanism.noise.rate
    study = _DesignStudy(model, chosen, runs, limits, base, covariance)
    problem = study.problem(study.frequency(limits), chosen.criterion, chosen.optimise_frequency)
    starts = random_starts(problem, chosen.starts, chosen.seed)
    if study.earlier:
        starts = [start_from(problem, study.earlier), *starts[:-1]]
    solver = InteriorPoint(iterations=chosen.iterations, tolerance=chosen.tolerance)
    verified, stopped = solve_and_verify(problem, starts, solver, rate, progress)
    usage = np.abs(verified.extremes).max(axis=1)
    factor = study.information_factor(verified.trajectories)
    condition_number = criterion_value("cond", factor)
    value = condition_number
    if chosen.criterion != "cond":
        whitened = study.information_factor(verified.trajectories, study.covariance)
        value = criterion_value(chosen.criterion, whitened)
    active = []
    for limit, used in zip(study.limits, usage):
        if used >= ACTIVE_LIMIT_FRACTION:
            active.append(str(limit))
    return Design(
        trajectories=verified.trajectories,
        runs=study.runs,
        violations=int((usage > 1).sum()),
        value=value,
        condition_number=condition_number,
        active=tuple(active),
        limits=study.limits,
        usage=usage,
        base=study.base,
        evaluations=problem.evaluations,
        seconds=time.perf_counter() - start_time,
        settings=chosen,
        history=verified.history,
        stopped=stopped,
    )


class _DesignStudy:
    """What a design is asked for, checked and with its defaults; builds the design problems."""

    def __init__(
        self,
        model: Model,
        settings: DesignSettings,
        runs: Sequence[Run] | None,
        limits: Mapping[str, Limits] | None,
        base: BaseParameters | None,
        covariance: ArrayLike | None,
    ) -> None:
        self.model = model
        self.settings = settings
        self.by = settings.coordinates or _default_coordinates(model)
        model.loops.partition_of(self.by)  # raises if there is none
        self.runs = tuple(runs) if runs else (Run(),)
        self.earlier = [run.start for run in self.runs if run.start is not None]
        self.limits = collect_limits(model, limits, singularity=settings.singularity or None)
        _check_bounded(model, self.limits, self.by)
        if base is None:
            payloads = tuple(dict.fromkeys(run.payload for run in self.runs if run.payload))
            base = base_parameters(model, tie_legs=settings.tie_legs, payloads=payloads)
        self.base = _static_parameters(model, base)
        self.covariance = _check_covariance(model, covariance)
        loads = [model.load(run.payload) for run in self.runs]
        self.centre = find_centre(model, self.limits, by=self.by, loads=loads, seed=settings.seed)

    def frequency(self, limits: Mapping[str, Limits] | None) -> float:
        """Return the fundamental asked for, that of an earlier trajectory, or the best. [Hz]"""
        if self.settings.frequency:
            return self.settings.frequency
        if self.earlier:
            return self.earlier[0].frequency
        first = first_frequency(self.model, self.settings.harmonics, limits)
        return informative_frequency(self.problem, first, self.settings.seed)

    def problem(
        self,
        frequency: float,
        criterion: Criterion = "d",
        free_frequency: bool = False,
    ) -> DesignProblem:
        """Return the design problem with a fundamental for runs that have none of their own."""
        forms = [self._form(run, frequency, free_frequency) for run in self.runs]
        return DesignProblem(
            self.model,
            forms,
            by=self.by,
            criterion=criterion,
            base=self.base,
            limits=self.limits,
            covariance=self.covariance,
            centre=self.centre,
        )

    def _form(self, run: Run, frequency: float, free_frequency: bool) -> TrajectoryForm:
        """Return the form of a run's trajectory, its period a whole number of samples."""
        rate = self.model.mechanism.noise.rate
        period_samples = max(round(rate / (run.frequency or frequency)), 1)
        fundamental = rate / period_samples
        harmonics = run.harmonics or self.settings.harmonics
        grid_samples = self.settings.samples or GRID_SAMPLES_PER_HARMONIC * harmonics
        return TrajectoryForm(
            harmonics=harmonics,
            frequency=fundamental,
            payload=run.payload,
            weight=run.periods * rate / fundamental / grid_samples,
            samples=grid_samples,
            at_rest=self.settings.at_rest,
            free_frequency=free_frequency,
        )

    def information_factor(
        self,
        trajectories: Sequence[Fourier],
        covariance: FloatArray | None = None,
    ) -> FloatArray:
        """Return the `information_factor` of trajectories for the runs of this design."""
        return information_factor(
            self.model,
            trajectories,
            self.base,
            runs=self.runs,
            covariance=covariance,
        )


def _default_coordinates(model: Model) -> By:
    return "task" if "task" in model.loops.partitions else "actuated"


def _static_parameters(model: Model, base: BaseParameters) -> BaseParameters:
    """Return the parameters without those of terms with internal states or recorded channels.

    No design excites these on purpose.
    """
    terms = model.mechanism.terms
    static = []
    for name, index in zip(base.names, base.independent):
        term = terms.get(base.standard[index].kind)
        if term is None or not (term.lags or term.channels):
            static.append(name)
    return base if len(static) == len(base) else base.select(static)


def _check_covariance(model: Model, covariance: ArrayLike | None) -> FloatArray:
    """Return the covariance of the motor efforts, (a, a), the robot's by default."""
    if covariance is None:
        covariance = effort_covariance(model)
    matrix = np.asarray(covariance, dtype=float)
    check_shape(matrix, (len(model.actuated), len(model.actuated)), "effort covariance")
    symmetric = np.isfinite(matrix).all() and np.allclose(matrix, matrix.T)
    if not symmetric or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise InvalidInput(
            f"the effort covariance is {matrix.tolist()}, expected a symmetric positive definite "
            "matrix"
        )
    return matrix


def effort_covariance(model: Model) -> FloatArray:
    """Return the covariance of the motor efforts by the robot's noise, (a, a); ones without."""
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

    Args:
        runs: Payload and periods of each trajectory; one period without
            payload by default.
        covariance: Sigma, covariance of the motor efforts, (a, a); the
            unit matrix by default.
    """
    names = column_names(base)
    rate = model.mechanism.noise.rate
    if covariance is None:
        covariance = np.eye(len(model.actuated))
    factor = np.zeros((0, len(names)))
    for run, trajectory in zip(runs or [Run()] * len(trajectories), trajectories):
        times = np.arange(round(trajectory.period * rate)) / rate
        by = model.loops.partition_driven_by(trajectory.coordinates)
        motion = model.kinematics.motion(times, *trajectory.at(times), by)
        informed = np.array([name.payload in (None, run.payload) for name in names])
        weights = informed * np.sqrt(run.periods)
        no_effort = np.zeros((len(times), len(model.actuated)))
        regression = model.regression(motion, no_effort, base, covariance=covariance)
        for block in regression.blocks(INFORMATION_BLOCK):
            whitened = (block.whitened().regressor * weights).reshape(-1, len(names))
            factor = np.asarray(np.linalg.qr(np.vstack([factor, whitened]), mode="r"))
    return factor


def _check_bounded(model: Model, limits: Sequence[Limit], by: By) -> None:
    """Raise if the limits would let some coordinate move without bound."""
    limited = {limit.name for limit in limits if limit.quantity in ("position", "velocity")}
    if set(model.mechanism.actuated) <= limited:
        return
    for name in model.loops.names(by):
        if name not in limited:
            raise InvalidInput(
                f"neither position nor velocity of '{name}' is limited, so its best motion is "
                "without bound; give a limit in the robot file or pass limits",
                name=name,
            )
