"""How a mechanism can move: its loops assembled, its degrees of freedom, coordinates that determine
the others.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidMechanism, LoopNotClosed, SingularConfiguration
from gough.engine.assembly import (
    CLOSED,
    GIVEN,
    assemble_start,
    gauss_newton,
    idle_directions,
    wrong_with,
)
from gough.engine.elimination import choose_pivots
from gough.engine.loops import By, Loops, Partition, open_loops
from gough.engine.symbolic import equation_owners
from gough.mechanism.types import Closure, Mechanism

SINGULAR = 1e-9  # ratio of singular values of K_D taken as singular


def analyse_mobility(mechanism: Mechanism) -> Loops:
    """Assemble a mechanism from its start values and find its mobility and independent coordinates.

    Where right angles of few digits (1.5708) take away mobility, or let loops contradict each
    other, they are right.
    """
    try:
        if not mechanism.closures or mechanism.idealised is mechanism:
            return _analyse(mechanism)
        return _as_printed(mechanism, _analyse(mechanism.idealised))
    except (LoopNotClosed, SingularConfiguration, InvalidMechanism) as error:
        if not mechanism.source:
            raise
        raise type(error)(
            f"{mechanism.source}: {error}", **{"file": mechanism.source, **error.numbers}
        ) from None


def _as_printed(mechanism: Mechanism, ideal: Loops) -> Loops:
    """Return the loops with their angles as printed, if they close near the ideal pose and move in
    as many ways.
    """
    loops = open_loops(mechanism)
    home, error = gauss_newton(loops, ideal.home)
    if np.abs(error).max() < CLOSED:
        with suppress(SingularConfiguration, InvalidMechanism):
            found = _analyse(mechanism, (home, ideal.assembly))
            if found.degrees_of_freedom == ideal.degrees_of_freedom:
                return found
    return replace(
        ideal, assembly=f"{ideal.assembly}, with right angles for those printed with few digits"
    )


def find_start_pose(mechanism: Mechanism, known: tuple[FloatArray, str] | None = None) -> Loops:
    """Close the loops of a mechanism whatever its motors, or take a home that is known and how it
    was found.
    """
    loops = open_loops(mechanism)
    home, assembly = known or assemble_start(loops)
    return replace(loops, home=home, neighbours=home[None], assembly=assembly)


def _analyse(mechanism: Mechanism, known: tuple[FloatArray, str] | None = None) -> Loops:
    loops = find_start_pose(mechanism, known)
    neighbours, mobility = _explore(loops)
    loops = replace(loops, home=neighbours[0], degrees_of_freedom=mobility, neighbours=neighbours)
    motors, task = (
        [mechanism.coordinates.index(name) for name in names]
        for names in (mechanism.actuated, mechanism.task)
    )
    if known is None:
        _refuse_stuck(loops, motors)
    held = _check_motors(loops)
    if held:
        closures = [
            Closure(
                name=f"{name}_held",
                kind="coupling",
                coefficients={name: 1.0},
                constant=-float(loops.home[mechanism.coordinates.index(name)]),
            )
            for name in held
        ]
        fewer = replace(mechanism, closures=(*mechanism.closures, *closures))
        return replace(_analyse(fewer, (loops.home, loops.assembly)), locked=held)
    partitions: dict[By, Partition] = {"actuated": _partition(loops, motors, "actuated")}
    ranks = (_rank(loops.free_motions(q)[:, task]) for q in loops.neighbours)
    if len(task) == mobility or (
        len(task) > mobility and max(ranks) == mobility
    ):  # fewer beside a gripper
        partitions["task"] = _partition(loops, task, "task")
    dynamic: By = "task" if loops.redundant and "task" in partitions else "actuated"
    return replace(loops, partitions=partitions, dynamic=dynamic)


def _rank(matrix: FloatArray) -> int:
    return int(np.linalg.matrix_rank(matrix, rtol=1e-7)) if matrix.size else 0


def _explore(loops: Loops) -> tuple[FloatArray, int]:
    """Return assembled configurations, home first, and the mobility there; a home found by search
    may move a little.
    """
    mechanism, n = loops.mechanism, len(loops.home)
    if not mechanism.closures:
        return loops.home[None], n
    rng = np.random.default_rng(0)
    _, values, vt = np.linalg.svd(loops.jacobian(loops.home))
    rank_home = _rank(loops.jacobian(loops.home))
    free = vt[rank_home:]
    found, ranks = [], []
    for _ in range(24):
        step = rng.standard_normal(len(free)) @ free
        q, error = gauss_newton(
            loops, loops.home + 0.05 * loops.units * step / max(np.abs(step).max(), 1e-12)
        )
        if np.abs(error).max() < CLOSED and np.abs((q - loops.home) / loops.units).max() < 0.5:
            found.append(q)
            ranks.append(_rank(loops.jacobian(q)))
    generic = max(ranks, default=rank_home)
    if (
        generic > rank_home and loops.assembly != GIVEN
    ):  # found by search: what is beside it is as good
        for q, rank in zip(found, ranks):
            if rank == generic and wrong_with(loops, q, np.zeros(0)) is None:
                return _explore(replace(loops, home=q, assembly=GIVEN))
    if generic > rank_home:
        raise SingularConfiguration(
            f"'{mechanism.name}' is singular at its start pose: {n - rank_home} degrees of freedom "
            f"there, "
            f"{n - generic} nearby; move the start values away from this pose",
            singular_value=float(values[generic - 1] / values[0]),
            sample=0,
            time=0.0,
        )
    if not free.size:
        raise InvalidMechanism(
            f"'{mechanism.name}' cannot move: {n} coordinates, {rank_home} independent closure "
            "equations; remove a closure or add a joint"
        )
    return np.array([loops.home, *found]), n - generic


def _check_motors(loops: Loops) -> tuple[str, ...]:
    """Return joints without a motor to be held: all they do is turn bodies about their own centres
    of mass.
    """
    mechanism, mobility = loops.mechanism, loops.degrees_of_freedom
    motors = len(mechanism.actuated)
    if motors > mobility and not mechanism.redundant:
        raise InvalidMechanism(
            f"'{mechanism.name}' has {mobility} degrees of freedom but {motors} actuated joints; "
            f"write "
            "'redundant = true' if it really has more motors than it needs",
            degrees_of_freedom=mobility,
            actuated=motors,
        )
    passive = [i for i, joint in enumerate(mechanism.joints) if not joint.actuated]
    if motors >= mobility or not passive:
        return ()
    K = loops.jacobian(loops.home)[:, passive]
    null = np.linalg.svd(K)[2][_rank(K) :]
    idle = idle_directions(loops, null, passive)
    if motors + len(idle) >= mobility:
        return tuple(
            mechanism.coordinates[i]
            for i in sorted(passive[k] for k in _best_columns(idle, mobility - motors))
        )
    away = null - null @ np.linalg.pinv(idle) @ idle if len(idle) else null
    away = away * [
        1e3 if "k" in mechanism.joints[i].terms else 1.0 for i in passive
    ]  # springs are named first
    loose = [
        mechanism.coordinates[passive[i]]
        for i in _best_columns(away, mobility - motors - len(idle))
    ]
    raise InvalidMechanism(
        f"'{mechanism.name}' has {mobility} degrees of freedom but {motors} actuated joints; with "
        f"these held, "
        f"{', '.join(loose)} still {'moves' if len(loose) == 1 else 'move'}; mark more [[joint]] "
        f"tables with "
        "'actuated = true' or add closures. Passive motion is not followed yet, even where springs "
        "hold it: that needs "
        "a recorded position and a spring (term k) of each of these",
        degrees_of_freedom=mobility,
        actuated=motors,
        loose=tuple(loose),
    )


def _partition(loops: Loops, candidates: list[int], by: By) -> Partition:
    """Choose independent coordinates among candidates, the closure rows that fix the rest, and the
    pivots.
    """
    n, m = len(loops.home), loops.degrees_of_freedom
    if (
        len(candidates) > m
    ):  # more motors, or platform coordinates, than freedom: the best-conditioned of them
        candidates = sorted(
            candidates[i] for i in _best_columns(loops.free_motions(loops.home)[:, candidates], m)
        )
    part = Partition(candidates, [i for i in range(n) if i not in candidates], [], ())
    margin = replace(loops, partitions={by: part}).margin(loops.home, by)
    if not margin > 1e-7:
        kind = (
            "Type-2 (motors locked, platform moves)"
            if by == "actuated"
            else "Type-1 (platform locked, motors move)"
        )
        raise SingularConfiguration(
            f"'{loops.mechanism.name}' is at a {kind} singularity at its start pose: the {by} "
            f"coordinates do not "
            f"determine the others (singular value ratio {margin:.1e}); change the start pose",
            singular_value=margin,
            sample=0,
            time=0.0,
        )
    return _ordered(loops, part, loops.neighbours)


def _ordered(loops: Loops, part: Partition, samples: FloatArray) -> Partition:
    """Choose closure rows that determine the dependent coordinates at the first sample, and pivots
    that suit all.
    """
    D = part.dependent
    if not D:
        return part
    rows = sorted(_best_columns(loops.jacobian(samples[0])[:, D].T, len(D)))
    K = np.array([np.array(loops.equations(q)[1]) for q in samples])[:, rows][:, :, D]
    return replace(part, rows=rows, pivots=choose_pivots(K, (np.abs(K) > 0).any(axis=0)))


def with_pivots_for(loops: Loops, by: By, q: FloatArray, sample: int) -> Loops:
    """Return the loops with rows and pivots that suit a configuration; its number is for
    messages.
    """
    margin = loops.margin(q, by)
    with suppress(SingularConfiguration):
        if margin > SINGULAR:
            return replace(
                loops,
                partitions={**loops.partitions, by: _ordered(loops, loops.partitions[by], q[None])},
            )
    raise SingularConfiguration(
        f"'{loops.mechanism.name}' is singular at sample {sample}: the {by} coordinates do not "
        f"determine the others "
        f"(singular value ratio {margin:.1e}); keep the motion away from this configuration",
        sample=sample,
        time=float("nan"),
        singular_value=margin,
    )


def _refuse_stuck(loops: Loops, motors: list[int]) -> None:
    """Raise where a motor cannot move in any pose nearby, and name the loops without which it
    could.
    """
    for q in loops.neighbours:
        moving = np.linalg.norm(loops.free_motions(q), axis=0)
        motors = [i for i in motors if not moving[i] > 1e-7]
        if not motors:
            return
    mechanism, K = loops.mechanism, loops.jacobian(loops.home)
    owner, alone = np.array(equation_owners(mechanism)), np.eye(len(loops.home))[motors[0]]
    freeing = [
        f"'{closure.name}'"
        for k, closure in enumerate(mechanism.closures)
        if _rank(np.vstack([K[owner != k], alone])) > _rank(K[owner != k])
    ]
    name = mechanism.coordinates[motors[0]]
    # loops may close in several ways, and hold a motor in one of them only
    raise SingularConfiguration(
        f"the motor '{name}' of '{mechanism.name}' cannot move, at the start pose or near it: "
        f"{', '.join(freeing) or 'several loops'} hold it; check type and axis of the joints in "
        f"these loops, or choose "
        "another motor",
        singular_value=0.0,
        sample=0,
        time=0.0,
        joint=name,
    )


def _best_columns(matrix: FloatArray, count: int) -> list[int]:
    """Return columns far from dependent: again and again the longest once those before are
    projected out.

    Of equally long ones (equal legs) the first, whatever the rounding on this machine.
    """
    rest, chosen = np.array(matrix), []
    for _ in range(count):
        lengths = np.linalg.norm(rest, axis=0)
        column = int(np.argmax(lengths >= (1 - 1e-9) * lengths.max()))
        chosen.append(column)
        direction = rest[:, column] / lengths[column]
        rest -= np.outer(direction, direction @ rest)
    return chosen
