"""Mobility of a mechanism: degrees of freedom and coordinates that determine the others."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import (
    InvalidMechanism,
    LoopNotClosed,
    SingularConfiguration,
)
from gough.engine.assembly import (
    FROM_START_VALUES,
    LOOP_TOLERANCE,
    assemble_start,
    find_fault,
    gauss_newton,
    idle_directions,
)
from gough.engine.elimination import choose_pivots
from gough.engine.loops import By, Loops, Partition, open_loops
from gough.engine.symbolic import equation_owners
from gough.mechanism.types import Closure, Mechanism

# Ratio of singular values of K_D below which a configuration along a
# motion is singular.
SINGULAR_RATIO = 1e-9
# The same for the reference configuration, and relative tolerance of
# ranks.
MOBILITY_RANK_TOLERANCE = 1e-7
# Number of configurations near the reference at which the rank of K is
# compared.
NEIGHBOUR_DRAWS = 24
# Distance of these from the reference. [rad or lengths of the robot]
NEIGHBOUR_DISTANCE = 0.05


def analyse_mobility(mechanism: Mechanism) -> Loops:
    """Close the loops of a mechanism at its start values and find its independent coordinates.

    If right angles of few digits (1.5708) reduce the mobility or let
    loops contradict each other, they are taken as exact right angles.
    """
    try:
        if not mechanism.closures or mechanism.idealised is mechanism:
            return _analyse(mechanism)
        return _analyse_as_printed(mechanism, _analyse(mechanism.idealised))
    except (LoopNotClosed, SingularConfiguration, InvalidMechanism) as error:
        if not mechanism.source:
            raise
        numbers = {"file": mechanism.source, **error.numbers}
        raise type(error)(f"{mechanism.source}: {error}", **numbers) from None


def _analyse_as_printed(mechanism: Mechanism, ideal: Loops) -> Loops:
    """Return the loops with the angles as printed, or those with exact right angles.

    The former are returned if they close near the ideal pose with the
    same mobility.
    """
    home, error = gauss_newton(open_loops(mechanism), ideal.home)
    if np.abs(error).max() < LOOP_TOLERANCE:
        with suppress(SingularConfiguration, InvalidMechanism):
            printed = _analyse(mechanism, (home, ideal.assembly))
            if printed.degrees_of_freedom == ideal.degrees_of_freedom:
                return printed
    assembly = f"{ideal.assembly}, with right angles for those printed with few digits"
    return replace(ideal, assembly=assembly)


def find_start_pose(mechanism: Mechanism, known: tuple[FloatArray, str] | None = None) -> Loops:
    """Close the loops of a mechanism whatever its motors; the loops have no partitions yet.

    Args:
        known: A closed configuration, (n,), and how it was found,
            instead of a search.
    """
    loops = open_loops(mechanism)
    home, assembly = known or assemble_start(loops)
    return replace(loops, home=home, neighbours=home[None], assembly=assembly)


def _analyse(mechanism: Mechanism, known: tuple[FloatArray, str] | None = None) -> Loops:
    """Return the loops with partitions; `known` as in `find_start_pose`."""
    loops = find_start_pose(mechanism, known)
    neighbours, mobility = _explore(loops)
    loops = replace(
        loops,
        home=neighbours[0],
        degrees_of_freedom=mobility,
        neighbours=neighbours,
    )
    motors = [mechanism.coordinates.index(name) for name in mechanism.actuated]
    if known is None:
        _refuse_immobile_motor(loops, motors)
    locked = _check_motors(loops)
    if locked:
        return _analyse_locked(loops, locked)
    partitions: dict[By, Partition] = {"actuated": _partition(loops, motors, "actuated")}
    task = [mechanism.coordinates.index(name) for name in mechanism.task]
    if _determines_the_rest(loops, task):
        partitions["task"] = _partition(loops, task, "task")
    dynamic: By = "task" if loops.redundant and "task" in partitions else "actuated"
    return replace(loops, partitions=partitions, dynamic=dynamic)


def _analyse_locked(loops: Loops, locked: tuple[str, ...]) -> Loops:
    """Return the loops of a mechanism with some joints locked where they are."""
    mechanism = loops.mechanism
    closures = list(mechanism.closures)
    for name in locked:
        position = float(loops.home[mechanism.coordinates.index(name)])
        lock = Closure(
            name=f"{name}_held",
            kind="coupling",
            coefficients={name: 1.0},
            constant=-position,
        )
        closures.append(lock)
    with_locks = replace(mechanism, closures=tuple(closures))
    return replace(_analyse(with_locks, (loops.home, loops.assembly)), locked=locked)


def _determines_the_rest(loops: Loops, task: list[int]) -> bool:
    """Return whether task coordinates can determine all others; not so beside a gripper."""
    mobility = loops.degrees_of_freedom
    if len(task) <= mobility:
        return len(task) == mobility
    ranks = [_rank(loops.free_motions(q)[:, task]) for q in loops.neighbours]
    return max(ranks) == mobility


def _rank(matrix: FloatArray) -> int:
    return int(np.linalg.matrix_rank(matrix, rtol=MOBILITY_RANK_TOLERANCE)) if matrix.size else 0


def _explore(loops: Loops) -> tuple[FloatArray, int]:
    """Return closed configurations, the reference first, and the mobility.

    A reference that was found by search moves a little if it is
    singular.
    """
    mechanism = loops.mechanism
    n = len(loops.home)
    if not mechanism.closures:
        return loops.home[None], n
    _, singular_values, directions = np.linalg.svd(loops.jacobian(loops.home))
    reference_rank = _rank(loops.jacobian(loops.home))
    free = directions[reference_rank:]
    neighbours = _neighbours(loops, free)
    ranks = [_rank(loops.jacobian(q)) for q in neighbours]
    generic_rank = max(ranks, default=reference_rank)
    if generic_rank > reference_rank and loops.assembly != FROM_START_VALUES:
        for q, rank in zip(neighbours, ranks):
            if rank == generic_rank and find_fault(loops, q, np.zeros(0)) is None:
                return _explore(replace(loops, home=q, assembly=FROM_START_VALUES))
    if generic_rank > reference_rank:
        raise SingularConfiguration(
            f"'{mechanism.name}' is singular at its start pose: {n - reference_rank} degrees of "
            f"freedom there, {n - generic_rank} nearby; move the start values away from this pose",
            singular_value=float(singular_values[generic_rank - 1] / singular_values[0]),
            sample=0,
            time=0.0,
        )
    if not free.size:
        raise InvalidMechanism(
            f"'{mechanism.name}' cannot move: {n} coordinates, {reference_rank} independent "
            "closure equations; remove a closure or add a joint"
        )
    return np.array([loops.home, *neighbours]), n - generic_rank


def _neighbours(loops: Loops, free: FloatArray) -> list[FloatArray]:
    """Return closed configurations near the reference.

    Args:
        free: Directions in which the reference can move, (m, n).
    """
    rng = np.random.default_rng(0)
    neighbours: list[FloatArray] = []
    for _ in range(NEIGHBOUR_DRAWS):
        step = rng.standard_normal(len(free)) @ free
        largest = max(np.abs(step).max(), 1e-12)
        start = loops.home + NEIGHBOUR_DISTANCE * loops.units * step / largest
        q, error = gauss_newton(loops, start)
        moved = np.abs((q - loops.home) / loops.units).max()
        if np.abs(error).max() < LOOP_TOLERANCE and moved < 0.5:
            neighbours.append(q)
    return neighbours


def _check_motors(loops: Loops) -> tuple[str, ...]:
    """Return joints without motor to lock: they turn bodies about their own centres of mass.

    Raises:
        InvalidMechanism: The robot has too many or too few motors.
    """
    mechanism = loops.mechanism
    mobility = loops.degrees_of_freedom
    motors = len(mechanism.actuated)
    if motors > mobility and not mechanism.redundant:
        raise InvalidMechanism(
            f"'{mechanism.name}' has {mobility} degrees of freedom but {motors} actuated joints; "
            "write 'redundant = true' if it really has more motors than it needs",
            degrees_of_freedom=mobility,
            actuated=motors,
        )
    passive = [i for i, joint in enumerate(mechanism.joints) if not joint.actuated]
    if motors >= mobility or not passive:
        return ()
    K = loops.jacobian(loops.home)[:, passive]
    motions = np.linalg.svd(K)[2][_rank(K) :]  # with the motors locked
    idle = idle_directions(loops, motions, passive)
    missing = mobility - motors
    if len(idle) >= missing:
        locked = sorted(passive[k] for k in _best_columns(idle, missing))
        return tuple(mechanism.coordinates[i] for i in locked)
    raise _too_few_motors(loops, motions, idle, passive)


def _too_few_motors(
    loops: Loops, motions: FloatArray, idle: FloatArray, passive: list[int]
) -> InvalidMechanism:
    """Return the error of a robot with too few motors; it names joints that still move.

    Args:
        motions: Motions of the passive coordinates with the motors
            locked, (s, passive).
        idle: Those without effect on the dynamics, (k, passive).
        passive: Coordinates without motor.
    """
    mechanism = loops.mechanism
    mobility = loops.degrees_of_freedom
    motors = len(mechanism.actuated)
    if len(idle):
        motions = motions - motions @ np.linalg.pinv(idle) @ idle
    sprung = np.array(["k" in mechanism.joints[i].terms for i in passive])
    motions = motions * np.where(sprung, 1e3, 1.0)  # name joints with springs first
    columns = _best_columns(motions, mobility - motors - len(idle))
    loose = tuple(mechanism.coordinates[passive[i]] for i in columns)
    verb = "moves" if len(loose) == 1 else "move"
    return InvalidMechanism(
        f"'{mechanism.name}' has {mobility} degrees of freedom but {motors} actuated joints; with "
        f"these held, {', '.join(loose)} still {verb}; mark more [[joint]] tables with "
        "'actuated = true' or add closures. Passive motion is not followed yet, even where "
        "springs hold it: that needs a recorded position and a spring (term k) of each of these",
        degrees_of_freedom=mobility,
        actuated=motors,
        loose=loose,
    )


def _partition(loops: Loops, candidates: list[int], by: By) -> Partition:
    """Choose independent coordinates among candidates, with closure equations and pivots.

    Of more candidates than degrees of freedom (motors, or coordinates
    of the platform) the best-conditioned ones are chosen.
    """
    n = len(loops.home)
    mobility = loops.degrees_of_freedom
    if len(candidates) > mobility:
        columns = _best_columns(loops.free_motions(loops.home)[:, candidates], mobility)
        candidates = sorted(candidates[i] for i in columns)
    dependent = [i for i in range(n) if i not in candidates]
    partition = Partition(candidates, dependent, [], ())
    margin = replace(loops, partitions={by: partition}).margin(loops.home, by)
    if not margin > MOBILITY_RANK_TOLERANCE:
        kind = "Type-1 (platform locked, motors move)"
        if by == "actuated":
            kind = "Type-2 (motors locked, platform moves)"
        raise SingularConfiguration(
            f"'{loops.mechanism.name}' is at a {kind} singularity at its start pose: the {by} "
            f"coordinates do not determine the others (singular value ratio {margin:.1e}); change "
            "the start pose",
            singular_value=margin,
            sample=0,
            time=0.0,
        )
    return _choose_equations(loops, partition, loops.neighbours)


def _choose_equations(loops: Loops, partition: Partition, samples: FloatArray) -> Partition:
    """Choose closure equations and pivots of a partition.

    The equations determine the dependent coordinates at the first
    sample; the pivots suit all samples, (s, n).
    """
    dependent = partition.dependent
    if not dependent:
        return partition
    first = loops.jacobian(samples[0])[:, dependent]
    rows = sorted(_best_columns(first.T, len(dependent)))
    jacobians = np.array([np.array(loops.equations(q)[1]) for q in samples])
    K = jacobians[:, rows][:, :, dependent]
    pivots = choose_pivots(K, (np.abs(K) > 0).any(axis=0))
    return replace(partition, rows=rows, pivots=pivots)


def with_pivots_for(loops: Loops, by: By, q: FloatArray, sample: int) -> Loops:
    """Return the loops with closure equations and pivots that suit a configuration.

    Args:
        q: The configuration, (n,).
        sample: Its number, for messages.
    """
    margin = loops.margin(q, by)
    with suppress(SingularConfiguration):
        if margin > SINGULAR_RATIO:
            partition = _choose_equations(loops, loops.partitions[by], q[None])
            return replace(loops, partitions={**loops.partitions, by: partition})
    raise SingularConfiguration(
        f"'{loops.mechanism.name}' is singular at sample {sample}: the {by} coordinates do not "
        f"determine the others (singular value ratio {margin:.1e}); keep the motion away from "
        "this configuration",
        sample=sample,
        time=float("nan"),
        singular_value=margin,
    )


def _refuse_immobile_motor(loops: Loops, motors: list[int]) -> None:
    """Raise if a motor cannot move in any pose nearby, and name the loops that lock it.

    Loops may close in several ways, and lock a motor in one of them
    only.
    """
    for q in loops.neighbours:
        speed = np.linalg.norm(loops.free_motions(q), axis=0)
        motors = [i for i in motors if not speed[i] > MOBILITY_RANK_TOLERANCE]
        if not motors:
            return
    mechanism = loops.mechanism
    K = loops.jacobian(loops.home)
    owner = np.array(equation_owners(mechanism))
    motor_alone = np.eye(len(loops.home))[motors[0]]
    locking: list[str] = []
    for k, closure in enumerate(mechanism.closures):
        others = K[owner != k]
        if _rank(np.vstack([others, motor_alone])) > _rank(others):
            locking.append(f"'{closure.name}'")
    name = mechanism.coordinates[motors[0]]
    raise SingularConfiguration(
        f"the motor '{name}' of '{mechanism.name}' cannot move, at the start pose or near it: "
        f"{', '.join(locking) or 'several loops'} hold it; check type and axis of the joints in "
        "these loops, or choose another motor",
        singular_value=0.0,
        sample=0,
        time=0.0,
        joint=name,
    )


def _best_columns(matrix: FloatArray, count: int) -> list[int]:
    """Return well-conditioned columns: repeatedly the longest one orthogonal to those chosen.

    Of equally long ones (equal legs) the first is chosen, whatever the
    rounding on this machine.
    """
    remainder = np.array(matrix)
    chosen: list[int] = []
    for _ in range(count):
        lengths = np.linalg.norm(remainder, axis=0)
        column = int(np.argmax(lengths >= (1 - 1e-9) * lengths.max()))
        chosen.append(column)
        direction = remainder[:, column] / lengths[column]
        remainder -= np.outer(direction, direction @ remainder)
    return chosen
