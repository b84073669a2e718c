"""Find a pose to start from and a frequency, draw random starts, solve, verify on a finer grid,
tighten and repeat.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

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
from gough.engine.limits import Limit, measure
from gough.engine.loops import CLOSED, By
from gough.engine.model import Model
from gough.excitation.problem import DesignProblem, Point
from gough.excitation.solver import InteriorPoint, Progress, Stopped, interior_point

# verification samples per grid sample, or all samples of the controller if these are more
FINER = 10
MARGIN = 1e-4  # kept from each limit for what happens between verification samples
ROUNDS = 8  # of tightening, before the trajectory is shrunk as a whole
ROOM = 1e-3  # a trajectory moves some coordinate by at least this part of its range
INSIDE = 0.98  # a start uses at most this part of each limit
# random trajectories kept of five times as many; their order over frequencies is that of optimised
# ones
STARTS = 2
# a lower frequency is preferred where it costs less than this factor of the standard deviations
ENOUGH = 1.1
OCTAVES = 6  # how far from the first guess to look, up and down


# Trajectories that keep all limits on the fine grid, extremes of each normalised quantity over all
# of them (o, 2), and
# the objective after each step.
Verified = tuple[tuple[Fourier, ...], FloatArray, tuple[float, ...]]


def extremes(
    model: Model,
    trajectory: Fourier,
    limits: Sequence[Limit],
    *,
    by: By,
    samples: int,
    load: FloatArray,
) -> FloatArray:
    """Return smallest and largest of each limited quantity over a period, normalised to [-1, 1],
    (o, 2).

    The loops are closed anew from home, efforts have the exact sign of the velocity.
    """
    time = np.arange(samples) / samples * trajectory.period
    motion = model.kinematics.motion(time, *trajectory.at(time), by)
    found = measure(model, limits, motion, load=load)
    return np.stack([found.min(axis=0), found.max(axis=0)], axis=1)


def find_centre(
    model: Model, limits: Sequence[Limit], *, by: By, loads: Sequence[FloatArray], seed: int
) -> FloatArray:
    """Return a configuration inside all limits with every load: home, or the best of random ones.

    Efforts are those of creeping in several directions, because Coulomb friction is there in the
    slowest motion.
    """
    creeping = 1e-9 * np.random.default_rng(seed).standard_normal(
        (8, model.degrees_of_freedom)
    )  # [m/s or rad/s]

    def worst(q: FloatArray) -> FloatArray:
        used = []
        for direction in creeping:  # one log each, as friction may remember the direction before
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
            used += [np.abs(measure(model, limits, motion, load=load)) for load in loads]
        return np.asarray(np.max(used, axis=0))

    home = worst(model.home[None])[0]
    if home.max() < INSIDE:
        return model.home
    candidates = _random_poses(model, limits, by, seed)
    found = worst(candidates).max(axis=1)
    best = int(np.argmin(found))
    if found[best] < INSIDE:
        return np.asarray(candidates[best])
    limit = limits[int(np.argmax(home))]
    raise InfeasibleDesign(
        f"'{model.mechanism.name}' cannot even creep inside its limits: the {limit} is used to "
        f"{100 * home.max():.0f} % at home, and the best of {len(candidates)} poses uses some "
        f"limit to "
        f"{100 * found[best]:.0f} %; relax this limit, lighten the load or change the start pose",
        limit=str(limit),
        used=float(home.max()),
    )


def _random_poses(model: Model, limits: Sequence[Limit], by: By, seed: int) -> FloatArray:
    """Return assembled configurations with the independent coordinates anywhere in their ranges,
    home among them.
    """
    count, home = 256, model.home[model.loops.partitions[by].independent]
    ranges = {
        limit.name: (limit.lower, limit.upper) for limit in limits if limit.quantity == "position"
    }
    low, high = np.array(
        [ranges.get(name, (x - 0.5, x + 0.5)) for name, x in zip(model.loops.names(by), home)]
    ).T
    target = low + (high - low) * np.random.default_rng(seed).uniform(
        0.05, 0.95, (count, len(home))
    )
    q, good = np.repeat(model.home[None], count, axis=0), np.ones(count, dtype=bool)
    for fraction in np.linspace(0.1, 1.0, 10):
        q, error = model.kinematics.close_nearby(q, by, home + fraction * (target - home))
        good &= error < CLOSED
        q[~good] = model.home
    return np.concatenate([model.home[None], q[good]])


def random_starts(problem: DesignProblem, count: int, seed: int) -> list[Point]:
    """Return feasible random trajectories, the most informative of five times as many, best first.

    Each is a random direction from the centre, followed until the first limit is nearly reached.
    """
    rng, rest = np.random.default_rng(seed), _at_rest(problem)
    if np.abs(rest.constraints).max() >= 1:
        limit = problem.limits[int(np.abs(rest.constraints).max(axis=0).argmax())]
        raise InfeasibleDesign(
            f"the {limit} is already exceeded at rest; relax it", limit=str(limit)
        )
    problem.fix_bands(_grow(problem, problem.random_direction(rng), rest))
    found: list[Point] = []
    for _ in range(5 * count):
        direction = problem.random_direction(rng)
        point = _grow(problem, direction, rest)
        if np.isfinite(point.objective) and np.abs(point.variables).max() > ROOM:
            found.append(point)
    if not found:
        raise _no_start(problem, rest, point, direction)
    return sorted(found, key=lambda point: point.objective)[:count]


def start_from(problem: DesignProblem, trajectories: Sequence[Fourier]) -> Point:
    """Return the start that follows earlier trajectories as far as the limits allow."""
    return _grow(problem, problem.variables_of(trajectories), _at_rest(problem))


def _at_rest(problem: DesignProblem) -> Point:
    rest = problem.evaluate(np.zeros(problem.size))
    if rest is None:
        raise InfeasibleDesign(
            f"'{problem.model.mechanism.name}' cannot be evaluated at its centre pose"
        )
    return rest


def _grow(problem: DesignProblem, direction: FloatArray, rest: Point) -> Point:
    """Follow a direction until a limit is nearly reached; small steps keep the loops on their
    branch.
    """
    point, size, factor = rest, 1e-6, 4.0
    while size < 1e4 and factor > 1.05:
        trial = problem.evaluate(size * factor * direction, point)
        if trial is None or not np.abs(trial.constraints).max() < INSIDE:
            factor = np.sqrt(factor)
            continue
        point, size = trial, size * factor
    return point


def _no_start(
    problem: DesignProblem, rest: Point, grown: Point, direction: FloatArray
) -> InfeasibleDesign | NotIdentifiable:
    """Explain why no random trajectory is of use, from one that was grown as far as it goes."""
    name, count = problem.model.mechanism.name, len(problem.base)
    stuck = bool(np.abs(grown.variables).max() <= ROOM)
    if stuck:  # which limit would the smallest trajectory exceed most?
        grown = problem.evaluate(2 * ROOM / np.abs(direction).max() * direction, rest) or grown
    limit = problem.limits[int(np.abs(grown.constraints - rest.constraints).max(axis=0).argmax())]
    if stuck:
        return InfeasibleDesign(
            f"the limits of '{name}' leave no room to move: the {limit} stops every trajectory; "
            "relax this limit or lower the frequency",
            limit=str(limit),
        )
    return NotIdentifiable(
        f"no random trajectory of '{name}' informs about all {count} parameters, the {limit} stops "
        f"it first; use more "
        "harmonics, relax this limit or ask for fewer parameters",
        parameters=count,
        limit=str(limit),
    )


def informative_frequency(
    problem_at: Callable[[float], DesignProblem], first: float, seed: int
) -> float:
    """Return the lowest frequency of those that tell most per recorded time, within a tenth of the
    best.

    A slow trajectory leaves accelerations unused, a fast one is stopped by them before it has gone
    anywhere. Between them information has a broad maximum, 2 to 8 times above the frequency at
    which full swings meet the first limit (five_bar, delta, orthoglide, palida); standard
    deviations fall by up to 4. Candidates are judged by random trajectories grown until a limit is
    met, by octaves up and down from the first guess, then by half octaves.
    """
    scores: dict[float, float] = {}

    def score(steps: float) -> float:
        """Return the logarithm of the mean standard deviation after unit recording time; infinite
        if none fits.
        """
        if steps not in scores:
            problem = problem_at(first * 2**steps)
            seconds = sum(
                part.weight * part.samples for part in problem.parts
            )  # in controller samples
            try:
                best = random_starts(problem, STARTS, seed)[0].objective
                scores[steps] = best / (2 * len(problem.base)) + np.log(seconds) / 2
            except (InfeasibleDesign, NotIdentifiable):
                scores[steps] = np.inf
        return scores[steps]

    best = 0.0
    for direction in (1.0, -1.0):
        while abs(best) < OCTAVES and score(best + direction) < score(best):
            best += direction
    for steps in (best - 0.5, best + 0.5):
        score(steps)
    least = min(scores.values())
    if not np.isfinite(least):
        return first
    return first * 2 ** min(
        steps for steps, value in scores.items() if value <= least + np.log(ENOUGH)
    )


def solve_and_verify(
    problem: DesignProblem,
    starts: Sequence[Point],
    settings: InteriorPoint,
    rate: float,
    progress: Progress | None,
) -> tuple[Verified, bool]:
    """Solve from every start; the best that can be verified is the answer.

    Also tells whether somebody stopped it.

    An interrupt ends the search, not the verification: the best so far is then drawn inside the
    limits.
    """
    steps = itertools.count(1)

    def report(_: int, value: float, violation: float) -> None:
        if progress is not None:
            progress(next(steps), value, violation)

    solved: list[tuple[Point, tuple[float, ...]]] = []
    stopped = False
    try:
        for start in starts:
            solved.append(interior_point(problem, start, -1.0, 1.0, settings, report))
    except Stopped as stop:
        solved.append((stop.point, stop.history))
        settings, stopped = replace(settings, iterations=0), True
    failures: list[InfeasibleDesign] = []
    for point, history in sorted(solved, key=lambda item: item[0].objective):
        try:
            return _tighten(problem, point, history, settings, rate, report), stopped
        except InfeasibleDesign as error:
            failures.append(error)
    raise failures[0]


def _tighten(
    problem: DesignProblem,
    point: Point,
    history: tuple[float, ...],
    settings: InteriorPoint,
    rate: float,
    report: Progress,
) -> Verified:
    """Verify a solution; where limits are exceeded between samples, narrow them and solve again
    from inside.

    After so many rounds, draw the trajectory towards the centre until the fine grid agrees.
    """
    bounds = np.tile([-1.0, 1.0], (len(problem.limits), 1))
    for _ in range(ROUNDS):
        trajectories, seen = _verify(problem, point, rate)
        excess = np.maximum(seen * [-1, 1] - (1 - MARGIN), 0)
        report(0, point.objective, float(np.maximum(seen * [-1, 1] - 1, 0).max()))
        if excess.max() <= 0:
            return trajectories, seen, history
        bounds = bounds - np.array([-1, 1]) * np.minimum(1.2 * excess + MARGIN * (excess > 0), 0.3)
        inside = _shrink(problem, point, bounds)
        point, more = interior_point(
            problem,
            inside,
            bounds[:, 0],
            bounds[:, 1],
            settings,
            report,
            barrier=10 * settings.tolerance / problem.size,
        )
        history = history + more
    for size in np.linspace(1.0, 0.0, 101)[:-1]:
        trial = problem.evaluate(size * point.variables, point)
        if trial is not None:
            trajectories, seen = _verify(problem, trial, rate)
            if np.abs(seen).max() <= 1:
                return trajectories, seen, history
    limit = problem.limits[int(np.argmax(np.abs(seen).max(axis=1)))]
    raise InfeasibleDesign(
        f"no trajectory keeps the {limit} between samples as well; relax this limit or lower the "
        "frequency",
        limit=str(limit),
    )


def _shrink(problem: DesignProblem, point: Point, bounds: FloatArray) -> Point:
    """Draw a point towards the centre until it is strictly inside the bounds."""
    (lower, upper), near = bounds.T, point
    for size in 0.97 ** np.arange(1, 200):
        trial = problem.evaluate(size * point.variables, near)
        if (
            trial is not None
            and (trial.constraints > lower).all()
            and (trial.constraints < upper).all()
        ):
            return trial
        near = trial or near
    limit = problem.limits[int(np.argmin(bounds[:, 1] - bounds[:, 0]))]
    raise InfeasibleDesign(
        f"the {limit} leaves no room once it is tightened for what happens between samples; relax "
        "this limit or use more samples",
        limit=str(limit),
    )


def _verify(
    problem: DesignProblem, point: Point, rate: float
) -> tuple[tuple[Fourier, ...], FloatArray]:
    """Return the trajectories on the controller's clock and the extremes of each limit over all of
    them.
    """
    trajectories = tuple(t.on_rate(rate) for t in problem.trajectories(point.variables))
    found = []
    for part, trajectory in zip(problem.parts, trajectories):
        try:
            samples = max(FINER * part.samples, round(rate * trajectory.period))
            found.append(
                extremes(
                    problem.model,
                    trajectory,
                    problem.limits,
                    by=problem.by,
                    samples=samples,
                    load=problem.model.load(part.payload),
                )
            )
        except (LoopNotClosed, SingularConfiguration) as error:
            raise InfeasibleDesign(
                f"the trajectory found cannot be followed from home ({error}); ask for a larger "
                f"distance to "
                "singularities or narrower position limits"
            ) from error
    both = np.concatenate(found, axis=1)
    return trajectories, np.stack([both.min(axis=1), both.max(axis=1)], axis=1)
