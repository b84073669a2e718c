"""Closing the loops from a start pose that may not close them.

The result is the nearest assembly branch inside the position limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidMechanism, LoopNotClosed
from gough.engine.symbolic import (
    Transform,
    body_transforms,
    closure_ends,
    equation_owners,
)
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import Closure

if TYPE_CHECKING:
    from gough.engine.loops import Loops

Failure = LoopNotClosed | InvalidMechanism
FROM_START_VALUES = "from the start values"
# A loop is closed below this residual. [rad, or lengths of the robot]
LOOP_TOLERANCE = 1e-10
# Starts of a search are drawn in boxes of these half widths around the
# pose so far, the smaller boxes first. [rad, or lengths of the robot]
SEARCH_BOXES = (0.3, 1.0, 3.0)
DRAWS_PER_BOX = 12
# Residual below which lengths and angles printed with five digits
# explain an open loop.
PRINTED_DIGITS_RESIDUAL = 1e-5
# A body is idle if its centre of mass is this near its axis, in lengths
# of the robot: motors feel a hundredth of its weight at most. Rods
# drawn in CAD have theirs on the axis to 1e-15.
IDLE_OFFSET = 1e-2
# A search closes loops this well before it adds the next loop. [rad, or
# lengths of the robot]
SEARCH_TOLERANCE = 1e-6
# Coordinates named in the message of a loop that stays open.
SHOWN_COORDINATES = 12


def assemble_start(loops: Loops) -> tuple[FloatArray, str]:
    """Return a pose near the start values that closes the loops, (n,), and how it was found.

    Newton steps are tried first, with the platform locked, else the
    motors, else nothing. If they end open, outside the limits or with
    welds half a turn apart, the loops are closed one after the other,
    each together with those before, by bounded least squares from poses
    drawn around the one so far. Of the poses that close, in the
    smallest box that has any, the one nearest to the start is returned.

    Raises:
        LoopNotClosed: No closed pose was found.
        InvalidMechanism: The loops close only outside the position
            limits.
    """
    joints = loops.mechanism.joints
    platform = np.array([joint.virtual for joint in joints])
    motors = np.array([joint.actuated for joint in joints])
    nothing = np.zeros(len(joints), dtype=bool)
    failures: list[Failure] = []
    for locked in (platform, motors, nothing):
        home, error = gauss_newton(loops, loops.home, ~locked)
        fault = find_fault(loops, home, error)
        if fault is None:
            return home, FROM_START_VALUES
        failures.append(fault)
    search = _Search(loops)
    for locked in (motors, nothing):
        pose, closed = search.run(locked)
        if closed:
            return pose, search.describe(pose, closed)
    for fault in failures:
        if isinstance(fault, InvalidMechanism):  # the position limits are in the way
            raise fault
    raise _not_closed(loops, pose)


def _not_closed(loops: Loops, pose: FloatArray) -> LoopNotClosed:
    """Return the error of loops that stay open; `pose` is the nearest pose found, (n,)."""
    fault = find_fault(loops, pose, loops.residual(pose))
    position = dict(zip(loops.mechanism.coordinates, pose.tolist()))
    shown = [f"{name} = {number:.4g}" for name, number in position.items()]
    text = ", ".join(shown[:SHOWN_COORDINATES])
    if len(shown) > SHOWN_COORDINATES:
        text += ", ..."
    numbers = {**getattr(fault, "numbers", {}), "pose": position}
    return LoopNotClosed(f"{fault}; nearest pose found: {text}", **numbers)


class _Search:
    """Closes one loop after the other from random poses.

    The closures are written as fractions of the robot, with additional
    equations that lead away from branches that are not meant.
    """

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.tried = 0  # number of starts
        self.rng = np.random.default_rng(0)
        closures = loops.mechanism.closures
        self.moving = [_moving_coordinates(loops, closure) for closure in closures]
        q = ca.SX.sym("q", len(loops.home))
        equations = [ca.DM(loops.weights) * loops.equations(q)[0]]
        owner = equation_owners(loops.mechanism)
        poses = body_transforms(loops.mechanism, q)
        for k, closure in enumerate(closures):
            guide = CLOSURES[closure.kind].branch_guide
            if guide is not None:
                equations.append(guide(*closure_ends(closure, poses)))
                owner.append(k)
        stacked = ca.densify(ca.vertcat(*equations))
        jacobian = ca.densify(ca.jacobian(stacked, q))
        self.equations = ca.Function("guided", [q], [stacked, jacobian])
        self.owner = np.array(owner)

    def run(self, locked: BoolArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return the closed pose nearest to the start and all closed poses that were found.

        Without a closed pose the first is one that is nearly closed.
        Coordinates that carry a loop as a whole stay where they are.

        Args:
            locked: Coordinates that stay where they are, (n,).
        """
        involved = np.any(self.moving, axis=0) & ~locked
        fixed = locked  # with the coordinates of the loops closed so far
        pose = self.loops.home
        closed: list[FloatArray] = []
        for k, moving in enumerate(self.moving):
            choices = (moving & ~locked, moving & ~fixed)
            closed = self._close_loop(k, pose, involved, choices)
            if not closed:
                return self._bounded(len(self.moving), pose, involved)[0], []
            pose = min(closed, key=self._distance)
            fixed = fixed | moving
        return pose, closed

    def _close_loop(
        self,
        k: int,
        pose: FloatArray,
        involved: BoolArray,
        choices: tuple[BoolArray, BoolArray],
    ) -> list[FloatArray]:
        """Return poses that close the loops up to number k, from the smallest box that has any.

        Args:
            pose: Pose that closes the loops before, (n,).
            involved: Coordinates that may move, (n,).
            choices: Coordinates that are drawn, alternately one or the
                other, (n,) each.
        """
        for box in (0.0, *SEARCH_BOXES):
            closed: list[FloatArray] = []
            for draw in range(DRAWS_PER_BOX if box else 1):
                change = self.rng.uniform(-1, 1, len(pose)) * choices[draw % 2]
                closed += self._closed(k, involved, pose + box * self.loops.units * change)
            if closed:
                return closed
        return []

    def _distance(self, pose: FloatArray) -> float:
        """Return the distance of a pose from the start. [rad, or lengths of the robot]"""
        return float(np.linalg.norm((pose - self.loops.home) / self.loops.units))

    def describe(self, pose: FloatArray, closed: list[FloatArray]) -> str:
        """Return in words how a pose was found; arguments as `run` returned them."""
        units = self.loops.units
        distinct: list[FloatArray] = []
        for k, candidate in enumerate(closed):
            distances = [np.abs((candidate - other) / units).max() for other in closed[:k]]
            if all(distance > 1e-3 for distance in distances):
                distinct.append(candidate)
        change = pose - self.loops.home
        most = int(np.argmax(np.abs(change / units)))
        joint = self.loops.mechanism.joints[most]
        return (
            f"by search from {self.tried} starts, the nearest of {len(distinct)} poses found; "
            f"'{joint.name}' moved most, by {change[most]:.3g} {joint.unit}"
        )

    def _closed(self, k: int, involved: BoolArray, start: FloatArray) -> list[FloatArray]:
        """Return the pose that closes the loops up to number k near a start; none if that fails."""
        self.tried += 1
        home, error = self._bounded(k, start, involved)
        if k < len(self.moving) - 1:
            return [home] if np.abs(error).max() < SEARCH_TOLERANCE else []
        home, error = gauss_newton(self.loops, home, involved, iterations=30)
        home = _unwind(self.loops, home)
        return [home] if find_fault(self.loops, home, error) is None else []

    def _bounded(self, k: int, start: FloatArray, free: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the pose of least squares inside the position limits, and its residual.

        Args:
            k: Number of the last loop whose equations count.
            start: Start of the iteration, (n,).
            free: Coordinates that move, (n,).
        """
        from scipy.optimize import least_squares  # here because its import takes long

        joints = self.loops.mechanism.joints
        equations = self.owner <= k
        unlimited = (-np.inf, np.inf)
        low, high = np.array([joint.limits.position or unlimited for joint in joints]).T
        inset = 1e-9 * np.minimum(high - low, 1.0)
        pose = np.clip(start, low + inset, high - inset)

        def evaluate(positions: FloatArray, output: int) -> FloatArray:
            pose[free] = positions
            return np.array(self.equations(pose)[output])[equations]

        solution = least_squares(
            lambda x: evaluate(x, 0).ravel(),
            pose[free],
            jac=lambda x: evaluate(x, 1)[:, free],
            bounds=(low[free], high[free]),
            x_scale=self.loops.units[free],
            max_nfev=60,
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
        )
        pose[free] = solution.x
        return pose, np.asarray(solution.fun)


def _moving_coordinates(loops: Loops, closure: Closure) -> BoolArray:
    """Return which coordinates move the two sides of a closure relative to each other, (n,)."""
    joints = loops.mechanism.joints
    carrier = {joint.child: k for k, joint in enumerate(joints)}
    moving = np.array([joint.name in closure.coefficients for joint in joints])
    for frame in closure.frames:
        body = frame.body
        while body in carrier:
            moving[carrier[body]] ^= True  # a joint that carries both sides moves neither
            body = joints[carrier[body]].parent
    return moving


def find_fault(loops: Loops, home: FloatArray, error: FloatArray) -> Failure | None:
    """Return the fault of a pose: an open loop, a wrong branch or an exceeded limit, if any.

    Args:
        home: The pose, (n,).
        error: Its closure residual as fractions of the robot, (c,).
    """
    if error.size and not np.abs(error).max() < LOOP_TOLERANCE:
        return _open_loop(loops, error)
    return _wrong_branch(loops, home) or _exceeded_limit(loops, home)


def _open_loop(loops: Loops, error: FloatArray) -> LoopNotClosed:
    """Return the error of the loop that is most open."""
    mechanism = loops.mechanism
    worst = int(np.argmax(np.where(np.isfinite(error), np.abs(error), np.inf)))
    residual = float(np.abs(error / loops.weights)[worst])
    name = mechanism.closures[equation_owners(mechanism)[worst]].name
    cure = "check the keys 'start' of the joints or the link lengths"
    if np.abs(error).max() < PRINTED_DIGITS_RESIDUAL:
        cure = (
            "its equations are more than it needs and contradict each other in their last digits: "
            "give lengths and angles with more digits, or close it with fewer equations"
        )
    return LoopNotClosed(
        f"[[closure]] '{name}': this loop of '{mechanism.name}' stays open by {residual:.2e} m "
        f"(or rad) when assembled from the start values; {cure}",
        loop=name,
        residual=residual,
    )


def _wrong_branch(loops: Loops, home: FloatArray) -> LoopNotClosed | None:
    """Return the error of a loop that closes on a branch that is not meant, if any."""
    mechanism = loops.mechanism
    poses = body_transforms(mechanism, ca.SX(ca.DM(home)))
    for closure in mechanism.closures:
        wrong_branch = CLOSURES[closure.kind].wrong_branch
        if wrong_branch is None:
            continue
        ends = []
        for end in closure_ends(closure, poses):
            ends.append(Transform(number(end.rotation), number(end.translation)))
        text = wrong_branch(*ends)
        if text:
            return LoopNotClosed(
                f"[[closure]] '{closure.name}': this loop of '{mechanism.name}' assembles with "
                f"{text}; change the keys 'start' of its joints",
                loop=closure.name,
                residual=np.pi,
            )
    return None


def _exceeded_limit(loops: Loops, home: FloatArray) -> InvalidMechanism | None:
    """Return the error of a position limit that a pose exceeds, if any."""
    mechanism = loops.mechanism
    for joint, position in zip(mechanism.joints, home):
        if joint.limits.position is None:
            continue
        low, high = joint.limits.position
        tolerance = 1e-3 * (high - low)
        if not low - tolerance <= position <= high + tolerance:
            return InvalidMechanism(
                f"'{mechanism.name}' assembles with '{joint.name}' at {position:.4g} {joint.unit}, "
                f"outside its position limits {low:g} to {high:g}; check the keys 'start' of the "
                "joints, the link lengths or the limits",
                joint=joint.name,
                position=float(position),
            )
    return None


def _unwind(loops: Loops, home: FloatArray) -> FloatArray:
    """Turn joints back by whole turns towards the start, unless a coupling or limit counts them."""
    coupled: set[str] = set()
    for closure in loops.mechanism.closures:
        coupled.update(closure.coefficients)
    free = np.zeros(len(home), dtype=bool)
    for i, joint in enumerate(loops.mechanism.joints):
        unlimited = joint.kind == "revolute" and joint.limits.position is None
        free[i] = unlimited and joint.name not in coupled
    turns = np.round((home - loops.home) / (2 * np.pi))
    return np.asarray(home - 2 * np.pi * turns * free)


def gauss_newton(
    loops: Loops,
    start: FloatArray,
    free: BoolArray | None = None,
    iterations: int = 200,
) -> tuple[FloatArray, FloatArray]:
    """Close the loops near a start by damped Newton steps of least norm.

    Args:
        start: All coordinates, (n,).
        free: Coordinates that move, (n,); all by default.

    Returns:
        The configuration (n,) and the closure residual as fractions of
            the robot (c,).
    """
    q = np.array(start, dtype=float)
    if free is None:
        free = np.ones(len(q), dtype=bool)
    error = loops.residual(q)
    for _ in range(iterations):
        if error.size == 0 or np.abs(error).max() < 1e-14:
            break
        step = np.linalg.lstsq(loops.jacobian(q)[:, free], -error, rcond=1e-9)[0]
        scale = min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-300))
        while True:
            trial = q.copy()
            trial[free] += scale * step * loops.units[free]
            trial_error = loops.residual(trial)
            improved = np.linalg.norm(trial_error) < np.linalg.norm(error)
            if improved or scale < 1e-4:
                break
            scale /= 2
        if np.linalg.norm(trial_error) >= np.linalg.norm(error):
            break
        q = trial
        error = trial_error
    return q, error


def idle_directions(loops: Loops, motions: FloatArray, passive: list[int]) -> FloatArray:
    """Return motions that move no centre of mass, (k, passive): rods that spin about their axes.

    Args:
        motions: Motions of the passive coordinates that keep the loops
            closed with the motors locked, (s, passive).
        passive: Coordinates without motor.
    """
    mechanism = loops.mechanism
    n = len(loops.home)
    q = ca.SX.sym("q", n)
    poses = body_transforms(mechanism, q)
    centres: list[ca.SX] = []
    for body in mechanism.bodies:
        mass = float(body.values.get("m", 0.0))
        if mass > 0 or body.parameters:
            first_moment = np.array([body.values.get(key, 0.0) for key in ("mx", "my", "mz")])
            centre = ca.DM(first_moment / (mass or 1.0))
            pose = poses[body.name]
            centres.append(pose.translation + pose.rotation @ centre)
    jacobian = ca.SX(0, n)
    if centres:
        jacobian = ca.densify(ca.jacobian(ca.vertcat(*centres), q))
    at_reference = np.array(ca.Function("centres", [q], [jacobian])(loops.home))
    effect = at_reference * loops.units / loops.length
    _, singular_values, directions = np.linalg.svd(effect[:, passive] @ motions.T)
    magnitude = np.zeros(len(motions))
    magnitude[: len(singular_values)] = singular_values
    return np.asarray(directions[magnitude < IDLE_OFFSET] @ motions)


def number(expression: ca.SX) -> Any:
    """Return the value of a constant expression."""
    return np.array(ca.DM(ca.densify(expression)))
