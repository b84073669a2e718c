"""Which coordinates are independent, and how the others follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidMechanism, LoopNotClosed, SingularConfiguration
from gough.engine.assembly import CLOSED as CLOSED
from gough.engine.assembly import GIVEN, assemble_start, gauss_newton, idle_directions, number, wrong_with
from gough.engine.elimination import Pivots, choose_pivots, solve
from gough.engine.symbolic import Transform, body_transforms, closure_equations, fixed_transform
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Mechanism
from gough.mechanism.types import Closure as LoopClosure

By = Literal["actuated", "task"]
GROWTH = 1e-17  # a dependent coordinate 1e8 times as fast as the independent ones is looked at again
SHORTEST = 1e-9  # length of a force element below which rounding makes its direction [m]


@dataclass(frozen=True, eq=False)
class Partition:
    """A choice of independent coordinates.

    Indices are lists, which NumPy and CasADi take as such.

    Args:
        independent: Their indices, (m,).
        dependent: The others, (n - m,).
        rows: Closure equations that determine them, (n - m,); the rest is redundant but consistent.
        pivots: Elimination order of K[rows, dependent].
    """

    independent: list[int]
    dependent: list[int]
    rows: list[int]
    pivots: Pivots


@dataclass(frozen=True, eq=False)
class Loops:
    """The closed loops of a mechanism, assembled at home.

    Args:
        home: All coordinates with the loops closed, (n,). [m or rad]
        degrees_of_freedom: n - rank K.
        partitions: By actuated, and by task coordinates where these determine the rest: by as many of them as there are
            degrees of freedom, if the platform has more coordinates than that.
        dynamic: The partition whose coordinates are the rows of the dynamics.
        neighbours: Other assembled configurations near home, (s, n).
        length: Characteristic length that makes angles and lengths comparable. [m]
        equations: q -> closure residual (c,) and its Jacobian K (c, n).
        bending: Coordinates in closures that are not linear: what moves on them is bounded by the loops.
        assembly: How home was found, in words.
        held: Joints without a motor that are held: all they do is turn bodies about their own centres of mass.
    """

    mechanism: Mechanism
    home: FloatArray
    degrees_of_freedom: int
    partitions: dict[By, Partition]
    dynamic: By
    neighbours: FloatArray
    length: float
    equations: ca.Function
    bending: list[int] = field(default_factory=list)
    assembly: str = ""
    held: tuple[str, ...] = ()

    @cached_property
    def units(self) -> FloatArray:
        """One radian, or the robot's length, for each coordinate, (n,). [m or rad]"""
        return np.array([1.0 if joint.kind == "revolute" else self.length for joint in self.mechanism.joints])

    @cached_property
    def weights(self) -> FloatArray:
        """What makes a closure residual [m or rad] a fraction of the robot, (c,)."""
        return row_scale(self.mechanism, self.length) / self.length

    def names(self, by: By) -> tuple[str, ...]:
        """Return the independent coordinates of a partition; none if the robot has no such partition."""
        part = self.partitions.get(by)
        return () if part is None else tuple(self.mechanism.coordinates[i] for i in part.independent)

    def led_by(self, coordinates: Sequence[str]) -> By:
        """Return which partition a trajectory of these coordinates moves."""
        return "task" if coordinates and tuple(coordinates) == self.names("task") else "actuated"

    @property
    def redundant(self) -> bool:
        """More motors than degrees of freedom."""
        return len(self.mechanism.actuated) > self.degrees_of_freedom

    def scaled(self, jacobian: FloatArray) -> FloatArray:
        """Make K dimensionless: prismatic columns times, rows that are lengths over the characteristic length."""
        return jacobian * self.weights[:, None] * self.units

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return scaled K at one configuration, (c, n)."""
        return self.scaled(np.array(self.equations(q)[1]))

    def free_motions(self, q: FloatArray) -> FloatArray:
        """Return the directions in which a configuration can move, (m, n). [rad or lengths of the robot]"""
        if not self.mechanism.closures:
            return np.eye(len(q))
        return np.asarray(np.linalg.svd(self.jacobian(q))[2][len(q) - self.degrees_of_freedom:])

    def margin(self, q: FloatArray, by: By) -> float:
        """Return the smallest over the largest singular value of scaled K_D at one configuration: 0 is singular."""
        part = self.partitions[by]
        if not part.dependent:
            return 1.0
        values = np.linalg.svd(self.jacobian(q)[:, part.dependent], compute_uv=False)
        return float(values[-1] / values[0])

    def loosest(self, q: FloatArray, by: By) -> str:
        """Return the dependent coordinate that moves most where the independent ones are locked at a singularity."""
        part = self.partitions[by]
        direction = np.linalg.svd(self.jacobian(q)[:, part.dependent])[2][-1]
        return self.mechanism.coordinates[part.dependent[int(np.argmax(np.abs(direction)))]]

    def twists(self, body: str, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the pose of a frame at home, (4, 4), and its velocities there and nearby in all free motions, (6, k).

        Nearby, since at home, where an arm may be stretched, some directions may be missing.
        """
        q = ca.SX.sym("q", len(self.home))
        frame = body_transforms(self.mechanism, q)[body] @ Transform(ca.SX(at[:3, :3]), ca.SX(at[:3, 3]))
        here = ca.Function("frame", [q], [
            ca.densify(x) for x in (frame.rotation, frame.translation, ca.vertcat(*frame.jacobian(q)))])
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3:] = (np.array(x) for x in here(self.home)[:2])
        near = self.home + 0.1 * self.units * np.random.default_rng(0).uniform(-1, 1, (3, len(self.home)))
        points = self.neighbours[:4] if self.mechanism.closures else (self.home, *near)
        return pose, np.hstack([np.array(here(x)[2]) @ (self.free_motions(x) * self.units).T for x in points])

    def loop_name(self, equation: int) -> str:
        """Return the closure an equation belongs to."""
        for closure in self.mechanism.closures:
            if equation < closure.equations:
                return closure.name
            equation -= closure.equations
        raise IndexError(equation)


def row_scale(mechanism: Mechanism, length: float) -> FloatArray:
    """Return the length for closure rows that are angles, one for those that are lengths."""
    scale = {"m": 1.0, "rad": length}
    kinds = {joint.name: joint.kind for joint in mechanism.joints}
    rows: list[float] = []
    for closure in mechanism.closures:
        turning = all(kinds[joint] == "revolute" for joint in closure.coefficients)
        own = scale | {"joints": length if turning else 1.0}
        rows += [own[unit] for unit in CLOSURES[closure.kind].units]
    return np.array(rows)


def close_loops(mechanism: Mechanism) -> Loops:
    """Assemble a mechanism from its start values and find its mobility and independent coordinates.

    Raises:
        LoopNotClosed: The loops do not assemble from the start values.
        SingularConfiguration: The assembled pose, or the architecture, is singular.
        InvalidMechanism: The number of motors does not fit the mobility.
    """
    try:
        return _close_loops(mechanism)
    except (LoopNotClosed, SingularConfiguration, InvalidMechanism) as error:
        if not mechanism.source:
            raise
        raise type(error)(f"{mechanism.source}: {error}", **{"file": mechanism.source, **error.numbers}) from None


def assemble(mechanism: Mechanism) -> Loops:
    """Close the loops of a mechanism whatever its motors: all there is before mobility is looked at."""
    loops = open_loops(mechanism)
    home, assembly = assemble_start(loops)
    return replace(loops, home=home, neighbours=home[None], assembly=assembly)


def open_loops(mechanism: Mechanism) -> Loops:
    """Return the loops of a mechanism at its start values, closed or not; it has no independent coordinates yet."""
    q = ca.SX.sym("q", len(mechanism.joints))
    phi = closure_equations(mechanism, q)
    equations = ca.Function("closures", [q], [phi, ca.densify(ca.jacobian(phi, q))])
    start = _start(mechanism, equations)
    bends = [r for r in range(phi.shape[0]) if ca.depends_on(ca.jacobian(phi[r], q), q)]
    pattern = ca.jacobian(phi[bends], q).sparsity()
    return Loops(mechanism=mechanism, home=start, degrees_of_freedom=0, partitions={}, dynamic="actuated",
                 neighbours=start[None], length=_characteristic_length(mechanism, start), equations=equations,
                 bending=sorted(set(pattern.get_triplet()[1])))


def _close_loops(mechanism: Mechanism, assembled: Loops | None = None) -> Loops:
    loops = assemble(mechanism) if assembled is None else replace(
        open_loops(mechanism), home=assembled.home, neighbours=assembled.home[None], assembly=assembled.assembly)
    neighbours, mobility = _explore(loops)
    loops = replace(loops, home=neighbours[0], degrees_of_freedom=mobility, neighbours=neighbours)
    held = _check_motors(loops)
    if held:
        closed = _close_loops(replace(mechanism, closures=(*mechanism.closures, *held)), loops)
        return replace(closed, held=tuple(name for closure in held for name in closure.coefficients))
    index = {name: i for i, name in enumerate(mechanism.coordinates)}
    partitions: dict[By, Partition] = {}
    partitions["actuated"] = _partition(loops, [index[a] for a in mechanism.actuated], "actuated")
    task = [index[a] for a in mechanism.task]
    if len(task) == mobility or (len(task) > mobility and _span(loops, task)):
        partitions["task"] = _partition(loops, task, "task")
    dynamic: By = "task" if loops.redundant and "task" in partitions else "actuated"
    return replace(loops, partitions=partitions, dynamic=dynamic)


def _start(mechanism: Mechanism, equations: ca.Function) -> FloatArray:
    """Return the start values of all coordinates (n,): those of the file, and of force elements what follows from
    them.
    """
    start = np.array([joint.start for joint in mechanism.joints])
    rows = [closure.name for closure in mechanism.closures for _ in range(closure.equations)]
    gaps = np.array(equations(start)[0]).ravel()
    for name, closure in mechanism.forces.items():
        i, row = mechanism.coordinates.index(name), rows.index(name)
        _check_length(name, float(gaps[row] + start[i] - closure.constant), "at the start pose")
        start[i] += gaps[row]
    return start


def _check_length(name: str, length: float, where: str) -> None:
    if not length > SHORTEST:
        raise InvalidMechanism(f"[[force]] '{name}' has the length {length:.1e} m {where}: its points coincide and it "
                               "has no direction; move one of them, or the start pose", force=name, length=length)


def _characteristic_length(mechanism: Mechanism, q: FloatArray) -> float:
    """Return the rms distance of body origins and closure points from their mean. [m]"""
    poses = body_transforms(mechanism, ca.SX(ca.DM(q)))
    points = [number(pose.translation).ravel() for pose in poses.values()]
    for closure in mechanism.closures:
        for frame in closure.frames:
            if frame.body != BASE:
                end = poses[frame.body] @ fixed_transform(frame.placement)
                points.append(number(end.translation).ravel())
    spread = np.array(points) - np.mean(points, axis=0)
    size = float(np.sqrt((spread**2).sum(axis=1).mean()))
    return size if size > 1e-9 else 1e-3  # all in one point, as in a spherical wrist: any length will do


def _rank(values: NDArray[Any]) -> int:
    return int((values > 1e-7 * max(values[0], 1e-300)).sum()) if values.size else 0


def _explore(loops: Loops) -> tuple[FloatArray, int]:
    """Return assembled configurations, home first, and the mobility there; a home found by search may move a little."""
    mechanism, n = loops.mechanism, len(loops.home)
    if not mechanism.closures:
        return loops.home[None], n
    rng = np.random.default_rng(0)
    _, values, vt = np.linalg.svd(loops.jacobian(loops.home))
    rank_home = _rank(values)
    free = vt[rank_home:]
    found, ranks = [], []
    for _ in range(24):
        step = rng.standard_normal(len(free)) @ free
        q, error = gauss_newton(loops, loops.home + 0.05 * loops.units * step / max(np.abs(step).max(), 1e-12))
        if np.abs(error).max() < CLOSED and np.abs((q - loops.home) / loops.units).max() < 0.5:
            found.append(q)
            ranks.append(_rank(np.linalg.svd(loops.jacobian(q), compute_uv=False)))
    generic = max(ranks, default=rank_home)
    if generic > rank_home and loops.assembly != GIVEN:  # found by search: what is beside it is as good
        for q, rank in zip(found, ranks):
            if rank == generic and wrong_with(loops, q, np.zeros(0)) is None:
                return _explore(replace(loops, home=q, assembly=GIVEN))
    if generic > rank_home:
        raise SingularConfiguration(
            f"'{mechanism.name}' is singular at its start pose: {n - rank_home} degrees of freedom there, "
            f"{n - generic} nearby; move the start values away from this pose",
            singular_value=float(values[generic - 1] / values[0]), sample=0, time=0.0)
    if not free.size:
        raise InvalidMechanism(f"'{mechanism.name}' cannot move: {n} coordinates, {rank_home} independent closure "
                               "equations; remove a closure or add a joint")
    return np.array([loops.home, *found]), n - generic


def _check_motors(loops: Loops) -> list[LoopClosure]:
    """Return what holds joints that turn bodies about their own centres of mass and have no motor."""
    mechanism, mobility = loops.mechanism, loops.degrees_of_freedom
    motors = len(mechanism.actuated)
    if motors > mobility and not mechanism.redundant:
        raise InvalidMechanism(
            f"'{mechanism.name}' has {mobility} degrees of freedom but {motors} actuated joints; write "
            "'redundant = true' if it really has more motors than it needs",
            degrees_of_freedom=mobility, actuated=motors)
    passive = [i for i, joint in enumerate(mechanism.joints) if not joint.actuated]
    if motors >= mobility or not passive:
        return []
    _, values, vt = np.linalg.svd(loops.jacobian(loops.home)[:, passive])
    null = vt[_rank(values):]
    idle = idle_directions(loops, null, passive)
    if motors + len(idle) >= mobility:
        chosen = [passive[i] for i in _best_columns(idle, mobility - motors)]
        return [LoopClosure(name=f"{mechanism.coordinates[i]}_held", kind="coupling", constant=-float(loops.home[i]),
                            coefficients={mechanism.coordinates[i]: 1.0}) for i in sorted(chosen)]
    away = null - null @ np.linalg.pinv(idle) @ idle if len(idle) else null
    loose = [mechanism.coordinates[passive[i]] for i in _best_columns(away, mobility - motors - len(idle))]
    raise InvalidMechanism(
        f"'{mechanism.name}' has {mobility} degrees of freedom but {motors} actuated joints; with these held, "
        f"{', '.join(loose)} still move; mark more [[joint]] tables with 'actuated = true' or add closures. Passive "
        "motion is not followed yet, even where springs hold it: that needs a recorded position and a spring (term k) "
        "of each of these",
        degrees_of_freedom=mobility, actuated=motors, loose=tuple(loose))


def _partition(loops: Loops, candidates: list[int], by: By) -> Partition:
    """Choose independent coordinates among candidates, the closure rows that fix the rest, and the pivots."""
    n, m = len(loops.home), loops.degrees_of_freedom
    if len(candidates) > m:  # more motors, or platform coordinates, than freedom: the best-conditioned of them
        candidates = sorted(candidates[i] for i in _best_columns(loops.free_motions(loops.home)[:, candidates], m))
    dependent = [i for i in range(n) if i not in candidates]
    if not dependent:
        return Partition(candidates, [], [], ())
    samples = np.array([np.array(loops.equations(q)[1]) for q in loops.neighbours])
    home = loops.jacobian(loops.home)[:, dependent]
    values = np.linalg.svd(home, compute_uv=False)
    if not values[-1] > 1e-7 * values[0]:
        kind = "Type-2 (motors locked, platform moves)" if by == "actuated" else "Type-1 (platform locked, motors move)"
        raise SingularConfiguration(
            f"'{loops.mechanism.name}' is at a {kind} singularity at its start pose: the {by} coordinates do not "
            f"determine the others (singular value ratio {values[-1] / values[0]:.1e}); change the start pose",
            singular_value=float(values[-1]), sample=0, time=0.0)
    rows = list(range(len(home)))
    if len(rows) > len(dependent):
        rows = sorted(_best_columns(home.T, len(dependent)))
    pattern = (np.abs(samples) > 0).any(axis=0)
    pivots = choose_pivots(samples[:, rows][:, :, dependent], pattern[np.ix_(rows, dependent)])
    return Partition(candidates, dependent, rows, pivots)


def _span(loops: Loops, candidates: list[int]) -> bool:
    """Return whether candidates move in as many ways as the robot; those of a platform beside a gripper do not."""
    ranks = (_rank(np.linalg.svd(loops.free_motions(q)[:, candidates], compute_uv=False)) for q in loops.neighbours)
    return max(ranks) == loops.degrees_of_freedom


def _best_columns(matrix: FloatArray, count: int) -> list[int]:
    """Return columns far from dependent: again and again the longest once those before are projected out.

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


@dataclass(frozen=True, eq=False)
class Closure:
    """Expressions of the closed chain for one partition.

    qd = E v,  qdd = E a + e,  E = [1; -K_D^-1 K_I],  e_D = -K_D^-1 (dK/dt) qd.
    """

    partition: Partition
    jacobian: ca.SX
    residual: ca.SX
    closure_map: ca.SX
    check: ca.SX
    q: ca.SX

    def rates(self, velocity: ca.SX, acceleration: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return velocities and accelerations of all coordinates."""
        E = self.closure_map
        qd, qdd = ca.densify(E @ velocity), ca.densify(E @ acceleration)  # a coordinate may stand still
        part = self.partition
        if part.dependent:
            v = ca.SX.sym("v", self.q.shape[0])
            rate = ca.substitute(ca.jtimes(self.jacobian[part.rows, :] @ v, self.q, v), v, qd)
            extra = solve(self.jacobian[part.rows, part.dependent], -rate, part.pivots)
            qdd[part.dependent] = qdd[part.dependent] + extra
        return qd, qdd

    def newton_step(self) -> ca.SX:
        """Return the step of all coordinates that closes the loops to first order, independent ones fixed."""
        step = ca.SX(self.q.shape[0], 1)
        part = self.partition
        if part.dependent:
            step[part.dependent] = solve(self.jacobian[part.rows, part.dependent], -self.residual[part.rows],
                                         part.pivots)
        return step


def closure_expressions(loops: Loops, by: By, q: ca.SX) -> Closure:
    """Write the closed chain for one partition.

    With K in fractions of the robot and u moving every independent coordinate by a radian or the robot's length, the
    check is |K E u| / (|K| |E u|), rounding if the fixed pivots served and larger where they did not, plus a share of
    |E u| that counts only where the closures lose rank: elimination may solve singular equations exactly.
    """
    part = loops.partitions[by]
    n, m = q.shape[0], len(part.independent)
    phi = closure_equations(loops.mechanism, q)
    jacobian = ca.jacobian(phi, q)
    closure_map = ca.SX(n, m)
    for k, i in enumerate(part.independent):
        closure_map[i, k] = 1
    check = ca.SX(0)
    if part.dependent:
        rows, D = part.rows, part.dependent
        closure_map[D, :] = solve(jacobian[rows, D], -jacobian[rows, part.independent], part.pivots)
        total = closure_map @ ca.DM(loops.units[part.independent])
        used = ca.DM(np.diag(loops.weights[rows])) @ jacobian[rows, :]
        scale = ca.sqrt(ca.sumsqr(ca.fabs(used) @ ca.fabs(total)))
        growth = ca.sqrt(ca.sumsqr(total / ca.DM(loops.units)))
        check = ca.sqrt(ca.sumsqr(used @ total)) / scale + GROWTH * growth
    return Closure(part, jacobian, phi, closure_map, check, q)
