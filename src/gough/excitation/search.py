"""The search for a trajectory: centre, frequency and starts, then solve, verify and tighten."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import (
    InfeasibleDesign,
    LoopNotClosed,
    NotIdentifiable,
    SingularConfiguration,
)
from gough.core.motion import Motion
from gough.core.trajectory import Fourier
from gough.engine.assembly import LOOP_TOLERANCE
from gough.engine.limits import Limit, measure
from gough.engine.loops import By
from gough.engine.model import Model
from gough.excitation.problem import DesignPoint, DesignProblem
from gough.excitation.solver import (
    InteriorPoint,
    Progress,
    SearchStopped,
    interior_point,
)

# Verification samples per grid sample; all samples of the controller if
# these are more.
VERIFICATION_REFINEMENT = 10
# kept from each limit for peaks between verification samples
VERIFICATION_MARGIN = 1e-4
TIGHTENING_ROUNDS = 8  # after these the trajectory is shrunk as a whole
# of the excess; a little more than needed saves rounds
TIGHTENING_FACTOR = 1.2
# of the distance from the centre of a limit, in one round
MAX_TIGHTENING = 0.3
# of a useful trajectory, relative to the range of some coordinate
MIN_AMPLITUDE = 1e-3
START_LIMIT_FRACTION = 0.98  # a start uses at most this fraction of each limit
RANDOM_POSES = 256
CREEPING_DIRECTIONS = 8
CREEPING_VELOCITY = 1e-9  # [m/s or rad/s]
CANDIDATES_PER_START = 5  # random trajectories of which the best is kept
# Starts by which a frequency is scored: two rank the frequencies as
# optimised trajectories do.
STARTS_PER_FREQUENCY = 2
# A lower frequency is preferred if it increases standard deviations by
# less than this factor.
FREQUENCY_TIE_RATIO = 1.1
MAX_FREQUENCY_OCTAVES = 6  # searched up and down from the first guess


class VerifiedDesign(NamedTuple):
    """Trajectories that keep all limits on the fine grid."""

    trajectories: tuple[Fourier, ...]
    # smallest and largest of each normalised quantity, (o, 2)
    extremes: FloatArray
    history: tuple[float, ...]  # objective after each step


def find_extremes(
    model: Model,
    trajectory: Fourier,
    limits: Sequence[Limit],
    *,
    by: By,
    samples: int,
    load: FloatArray,
) -> FloatArray:
    """Return smallest and largest of each limited quantity over a period, (o, 2).

    Normalised so that [-1, 1] is allowed. The loops are closed again
    from the reference configuration, and efforts have the exact sign of
    the velocity.
    """
    time = np.arange(samples) / samples * trajectory.period
    motion = model.kinematics.motion(time, *trajectory.at(time), by)
    quantities = measure(model, limits, motion, load=load)
    return np.stack([quantities.min(axis=0), quantities.max(axis=0)], axis=1)


def find_centre(
    model: Model,
    limits: Sequence[Limit],
    *,
    by: By,
    loads: Sequence[FloatArray],
    seed: int,
) -> FloatArray:
    """Return a configuration inside all limits with every load, (n,).

    The reference configuration, or the best of random ones. Efforts are
    those of very slow motions in several directions, because Coulomb
    friction acts in the slowest motion.

    Raises:
        InfeasibleDesign: All configurations exceed some limit.
    """
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((CREEPING_DIRECTIONS, model.degrees_of_freedom))
    velocities = CREEPING_VELOCITY * directions
    home_usage = _creeping_usage(model, limits, model.home[None], by, velocities, loads)[0]
    if home_usage.max() < START_LIMIT_FRACTION:
        return model.home
    candidates = _random_poses(model, limits, by, seed)
    usage = _creeping_usage(model, limits, candidates, by, velocities, loads).max(axis=1)
    best = int(np.argmin(usage))
    if usage[best] < START_LIMIT_FRACTION:
        return np.asarray(candidates[best])
    limit = limits[int(np.argmax(home_usage))]
    raise InfeasibleDesign(
        f"'{model.mechanism.name}' cannot stay inside its limits even in very slow motion: at the "
        f"reference configuration the {limit} is used to {100 * home_usage.max():.0f} %, and at "
        f"the best of {len(candidates)} poses some limit is used to {100 * usage[best]:.0f} %; "
        "relax this limit, reduce the load or change the start pose",
        limit=str(limit),
        used=float(home_usage.max()),
    )


def _creeping_usage(
    model: Model,
    limits: Sequence[Limit],
    q: FloatArray,
    by: By,
    velocities: FloatArray,
    loads: Sequence[FloatArray],
) -> FloatArray:
    """Return the largest used fraction of each limit at configurations q, (t, o).

    Args:
        velocities: Of the independent coordinates, one for each
            direction, (k, m).
    """
    usages = []
    for direction in velocities:  # separate motions, as friction may have an internal state
        velocity = np.tile(direction, (len(q), 1))
        qd, _ = model.kinematics.rates(q, velocity, np.zeros_like(velocity), by)
        motion = Motion(
            coordinates=model.mechanism.coordinates,
            time=np.arange(len(q), dtype=float),
            q=q,
            qd=qd,
            qdd=np.zeros_like(q),
            closure_residual=np.zeros(len(q)),
        )
        for load in loads:
            usages.append(np.abs(measure(model, limits, motion, load=load)))
    return np.asarray(np.max(usages, axis=0))


def _random_poses(model: Model, limits: Sequence[Limit], by: By, seed: int) -> FloatArray:
    """Return the reference configuration and random ones with closed loops, (k, n).

    Independent coordinates are drawn from the inner 90 % of their
    ranges. Their targets are reached in ten steps, which keeps the
    loops on their branch.
    """
    home = model.home[model.loops.partitions[by].independent]
    ranges = {}
    for limit in limits:
        if limit.quantity == "position":
            ranges[limit.name] = (limit.lower, limit.upper)
    names = model.loops.names(by)
    bounds = [ranges.get(name, (x - 0.5, x + 0.5)) for name, x in zip(names, home)]
    low, high = np.array(bounds).T
    rng = np.random.default_rng(seed)
    fractions = rng.uniform(0.05, 0.95, (RANDOM_POSES, len(home)))
    target = low + (high - low) * fractions
    q = np.repeat(model.home[None], RANDOM_POSES, axis=0)
    closed = np.ones(RANDOM_POSES, dtype=bool)
    for fraction in np.linspace(0.1, 1.0, 10):
        q, error = model.kinematics.close_nearby(q, by, home + fraction * (target - home))
        closed &= error < LOOP_TOLERANCE
        q[~closed] = model.home
    return np.concatenate([model.home[None], q[closed]])


def random_starts(problem: DesignProblem, count: int, seed: int) -> list[DesignPoint]:
    """Return feasible random trajectories, the most informative of five times as many, best first.

    Each is a random direction from the centre, followed until the first
    limit is nearly reached.

    Raises:
        InfeasibleDesign: A limit is exceeded at rest, or stops every
            trajectory.
        NotIdentifiable: No trajectory informs about all parameters.
    """
    rng = np.random.default_rng(seed)
    rest = _evaluate_at_rest(problem)
    usage = np.abs(rest.constraints).max(axis=0)
    if usage.max() >= 1:
        limit = problem.limits[int(usage.argmax())]
        raise InfeasibleDesign(
            f"the {limit} is already exceeded at rest; relax it",
            limit=str(limit),
        )
    problem.set_friction_bands(_grow(problem, problem.random_direction(rng), rest))
    starts: list[DesignPoint] = []
    for _ in range(CANDIDATES_PER_START * count):
        direction = problem.random_direction(rng)
        point = _grow(problem, direction, rest)
        if np.isfinite(point.objective) and np.abs(point.variables).max() > MIN_AMPLITUDE:
            starts.append(point)
    if not starts:
        raise _explain_no_start(problem, rest, point, direction)
    starts.sort(key=lambda start: start.objective)
    return starts[:count]


def start_from(problem: DesignProblem, trajectories: Sequence[Fourier]) -> DesignPoint:
    """Return earlier trajectories as a start, scaled to what the limits allow."""
    return _grow(problem, problem.variables_of(trajectories), _evaluate_at_rest(problem))


def _evaluate_at_rest(problem: DesignProblem) -> DesignPoint:
    """Return the point of a robot that rests at the centre."""
    rest = problem.evaluate(np.zeros(problem.size))
    if rest is None:
        raise InfeasibleDesign(
            f"'{problem.model.mechanism.name}' cannot be evaluated at its centre pose"
        )
    return rest


def _grow(problem: DesignProblem, direction: FloatArray, rest: DesignPoint) -> DesignPoint:
    """Follow a direction until a limit is nearly reached; small steps keep the loops' branch."""
    point = rest
    amplitude = 1e-6
    factor = 4.0
    while amplitude < 1e4 and factor > 1.05:
        candidate = problem.evaluate(amplitude * factor * direction, point)
        if candidate is not None and np.abs(candidate.constraints).max() < START_LIMIT_FRACTION:
            point = candidate
            amplitude = amplitude * factor
        else:
            factor = np.sqrt(factor)
    return point


def _explain_no_start(
    problem: DesignProblem,
    rest: DesignPoint,
    grown: DesignPoint,
    direction: FloatArray,
) -> InfeasibleDesign | NotIdentifiable:
    """Return the error that says why no random trajectory is useful.

    Args:
        grown: One of them, grown as far as the limits allow.
        direction: The direction in which it was grown, (x,).
    """
    name = problem.model.mechanism.name
    cannot_move = bool(np.abs(grown.variables).max() <= MIN_AMPLITUDE)
    if cannot_move:  # the limit that the smallest useful trajectory would exceed most
        smallest = 2 * MIN_AMPLITUDE / np.abs(direction).max() * direction
        grown = problem.evaluate(smallest, rest) or grown
    usage = np.abs(grown.constraints - rest.constraints).max(axis=0)
    limit = problem.limits[int(usage.argmax())]
    if cannot_move:
        return InfeasibleDesign(
            f"the limits of '{name}' allow no motion: the {limit} stops every trajectory; "
            "relax this limit or lower the frequency",
            limit=str(limit),
        )
    n_parameters = len(problem.base)
    return NotIdentifiable(
        f"no random trajectory of '{name}' informs about all {n_parameters} parameters, the "
        f"{limit} stops it first; use more harmonics, relax this limit or ask for fewer parameters",
        parameters=n_parameters,
        limit=str(limit),
    )


def informative_frequency(
    problem_at: Callable[[float], DesignProblem], first: float, seed: int
) -> float:
    """Return the lowest frequency whose information per recorded time is within 10 % of the best.

    A slow trajectory does not use the acceleration limits, a fast one
    reaches them with small amplitudes. Between them the information has
    a broad maximum, 2 to 8 times above the frequency at which full
    amplitudes meet the first limit (five_bar, delta, orthoglide,
    palida); standard deviations fall by up to 4. Candidates are scored
    by random trajectories grown until a limit is met: octaves up and
    down from the first guess, then half octaves.

    Args:
        problem_at: Returns the design problem at a frequency [Hz].
        first: First guess. [Hz]
    """
    scores: dict[float, float] = {}

    def score(octaves: float) -> float:
        if octaves not in scores:
            scores[octaves] = _log_standard_deviation(problem_at(first * 2**octaves), seed)
        return scores[octaves]

    best = 0.0
    for direction in (1.0, -1.0):
        while abs(best) < MAX_FREQUENCY_OCTAVES and score(best + direction) < score(best):
            best += direction
    score(best - 0.5)
    score(best + 0.5)
    least = min(scores.values())
    if not np.isfinite(least):
        return first
    acceptable = least + np.log(FREQUENCY_TIE_RATIO)
    return first * 2 ** min(octaves for octaves in scores if scores[octaves] <= acceptable)


def _log_standard_deviation(problem: DesignProblem, seed: int) -> float:
    """Return ln of the mean standard deviation after unit recording time; infinite if none fits.

    Time is counted in samples of the controller.
    """
    recorded = sum(form.weight * form.samples for form in problem.forms)
    try:
        best = random_starts(problem, STARTS_PER_FREQUENCY, seed)[0]
    except (InfeasibleDesign, NotIdentifiable):
        return float("inf")
    return float(best.objective / (2 * len(problem.base)) + np.log(recorded) / 2)


def solve_and_verify(
    problem: DesignProblem,
    starts: Sequence[DesignPoint],
    settings: InteriorPoint,
    rate: float,
    progress: Progress | None,
) -> tuple[VerifiedDesign, bool]:
    """Solve from every start and return the best solution that passes the verification.

    An interrupt ends the search, not the verification: the best point
    so far is then shrunk until it keeps the limits.

    Args:
        rate: Of the controller. [Hz]

    Returns:
        The design, and whether the search was interrupted.
    """
    step_numbers = itertools.count(1)

    def report(_: int, objective: float, violation: float) -> None:
        if progress is not None:
            progress(next(step_numbers), objective, violation)

    solutions: list[tuple[DesignPoint, tuple[float, ...]]] = []
    stopped = False
    try:
        for start in starts:
            solutions.append(interior_point(problem, start, -1.0, 1.0, settings, report))
    except SearchStopped as stop:
        solutions.append((stop.point, stop.history))
        settings = replace(settings, iterations=0)
        stopped = True
    solutions.sort(key=lambda solution: solution[0].objective)
    failures: list[InfeasibleDesign] = []
    for point, history in solutions:
        try:
            return _tighten(problem, point, history, settings, rate, report), stopped
        except InfeasibleDesign as error:
            failures.append(error)
    raise failures[0]


def _tighten(
    problem: DesignProblem,
    point: DesignPoint,
    history: tuple[float, ...],
    settings: InteriorPoint,
    rate: float,
    report: Progress,
) -> VerifiedDesign:
    """Verify a solution; narrow limits that are exceeded between samples and solve again.

    If the last round still exceeds a limit, the trajectory is shrunk as
    a whole.
    """
    signs = np.array([-1.0, 1.0])
    bounds = np.tile(signs, (len(problem.limits), 1))
    barrier = 10 * settings.tolerance / problem.size
    for _ in range(TIGHTENING_ROUNDS):
        trajectories, extremes = _verify(problem, point, rate)
        usage = extremes * signs
        excess = np.maximum(usage - (1 - VERIFICATION_MARGIN), 0)
        report(0, point.objective, float(np.maximum(usage - 1, 0).max()))
        if excess.max() <= 0:
            return VerifiedDesign(trajectories, extremes, history)
        tightening = TIGHTENING_FACTOR * excess + VERIFICATION_MARGIN * (excess > 0)
        bounds = bounds - signs * np.minimum(tightening, MAX_TIGHTENING)
        inside = _move_inside(problem, point, bounds)
        point, more_history = interior_point(
            problem,
            inside,
            bounds[:, 0],
            bounds[:, 1],
            settings,
            report,
            barrier=barrier,
        )
        history = history + more_history
    return _shrink_until_verified(problem, point, history, rate)


def _shrink_until_verified(
    problem: DesignProblem,
    point: DesignPoint,
    history: tuple[float, ...],
    rate: float,
) -> VerifiedDesign:
    """Scale a trajectory down in steps of 1 % until it keeps all limits on the fine grid."""
    for scale in np.linspace(1.0, 0.0, 101)[:-1]:
        candidate = problem.evaluate(scale * point.variables, point)
        if candidate is not None:
            trajectories, extremes = _verify(problem, candidate, rate)
            if np.abs(extremes).max() <= 1:
                return VerifiedDesign(trajectories, extremes, history)
    limit = problem.limits[int(np.argmax(np.abs(extremes).max(axis=1)))]
    raise InfeasibleDesign(
        f"no trajectory keeps the {limit} between samples as well; relax this limit or lower the "
        "frequency",
        limit=str(limit),
    )


def _move_inside(problem: DesignProblem, point: DesignPoint, bounds: FloatArray) -> DesignPoint:
    """Scale a point down until it is strictly inside the bounds (o, 2)."""
    lower, upper = bounds.T
    near = point
    for scale in 0.97 ** np.arange(1, 200):
        candidate = problem.evaluate(scale * point.variables, near)
        if candidate is None:
            continue
        above = (candidate.constraints > lower).all()
        below = (candidate.constraints < upper).all()
        if above and below:
            return candidate
        near = candidate
    limit = problem.limits[int(np.argmin(bounds[:, 1] - bounds[:, 0]))]
    raise InfeasibleDesign(
        f"the {limit} allows no motion once it is tightened for peaks between samples; relax this "
        "limit or use more samples",
        limit=str(limit),
    )


def _verify(
    problem: DesignProblem, point: DesignPoint, rate: float
) -> tuple[tuple[Fourier, ...], FloatArray]:
    """Return the trajectories at the controller's rate and the extremes of all limits, (o, 2)."""
    trajectories = []
    extremes = []
    for form, designed in zip(problem.forms, problem.trajectories(point.variables)):
        trajectory = designed.on_rate(rate)
        trajectories.append(trajectory)
        samples = max(
            VERIFICATION_REFINEMENT * form.samples,
            round(rate * trajectory.period),
        )
        try:
            trajectory_extremes = find_extremes(
                problem.model,
                trajectory,
                problem.limits,
                by=problem.by,
                samples=samples,
                load=problem.model.load(form.payload),
            )
        except (LoopNotClosed, SingularConfiguration) as error:
            raise InfeasibleDesign(
                f"the trajectory found cannot be followed from the reference configuration "
                f"({error}); ask for a larger distance to singularities or narrower position "
                "limits"
            ) from error
        extremes.append(trajectory_extremes)
    joined = np.concatenate(extremes, axis=1)
    return tuple(trajectories), np.stack([joined.min(axis=1), joined.max(axis=1)], axis=1)
