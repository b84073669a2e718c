"""Closing the loops from a start pose that may not close them: the nearest branch inside the
position limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidMechanism, LoopNotClosed
from gough.engine.symbolic import Transform, body_transforms, closure_ends, equation_owners
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import Closure

if TYPE_CHECKING:
    from gough.engine.loops import Loops

Failure = LoopNotClosed | InvalidMechanism
GIVEN = "from the start values"
CLOSED = 1e-10  # a loop is closed below this residual [rad, or lengths of the robot]
# Starts are drawn in boxes about the pose so far, the nearer ones first. [rad, or lengths of the
# robot]
REACHES = (0.3, 1.0, 3.0)
DRAWS = 12  # a box
ROUNDED = 1e-5  # what is left where lengths and angles were printed with five digits
# A centre of mass this near the axis, in lengths of the robot: motors feel a hundredth of the
# body's weight at most.
# Rods drawn in CAD have theirs on the axis to 1e-15.
IDLE = 1e-2
NEARLY = 1e-6  # loops closed so far are closed this well before the next one is added


def assemble_start(loops: Loops) -> tuple[FloatArray, str]:
    """Return a pose near the start values that closes the loops, (n,), and how it was found, in
    words.

    Newton steps come first, with the platform held, else the motors, else nothing. Where they end
    open, outside the limits or with welds half a turn apart, one loop after the other is closed,
    together with those before, by bounded least squares from poses drawn about the one so far; of
    those that close, in the smallest box that has any, the one nearest to the start is taken.
    """
    start, joints = loops.home, loops.mechanism.joints
    failed: list[Failure] = []
    for held in ([j.virtual for j in joints], [j.actuated for j in joints], [False] * len(joints)):
        home, error = gauss_newton(loops, start, ~np.array(held))
        wrong = wrong_with(loops, home, error)
        if wrong is None:
            return home, GIVEN
        failed.append(wrong)
    search = _Search(loops)
    for held in ([j.actuated for j in joints], [False] * len(joints)):
        pose, found = search.run(np.array(held))
        if found:
            branches = sum(
                all(np.abs((a - b) / loops.units).max() > 1e-3 for b in found[:k])
                for k, a in enumerate(found)
            )
            most = int(np.argmax(np.abs((pose - start) / loops.units)))
            return pose, (
                f"by search from {search.tried} starts, the nearest of {branches} poses found; "
                f"'{joints[most].name}' moved most, by {pose[most] - start[most]:.3g} "
                f"{joints[most].unit}"
            )
    for wrong in failed:
        if isinstance(wrong, InvalidMechanism):  # limits are in the way
            raise wrong
    nearest = wrong_with(loops, pose, loops.residual(pose))
    at = dict(zip(loops.mechanism.coordinates, pose.tolist()))
    told = ", ".join(f"{name} = {value:.4g}" for name, value in list(at.items())[:12])
    raise LoopNotClosed(
        f"{nearest}; nearest pose found: {told}{', ...' if len(at) > 12 else ''}",
        **{**getattr(nearest, "numbers", {}), "pose": at},
    )


class _Search:
    """Closes one loop after the other from drawn poses."""

    def __init__(self, loops: Loops) -> None:
        """Write the closures as fractions of the robot, with what leads away from solutions that
        are not meant.
        """
        self.loops, self.tried, self.rng = loops, 0, np.random.default_rng(0)
        self.ways = [_moves(loops, closure) for closure in loops.mechanism.closures]
        q = ca.SX.sym("q", len(loops.home))
        rows, owner = (
            [ca.DM(loops.weights) * loops.equations(q)[0]],
            equation_owners(loops.mechanism),
        )
        poses = body_transforms(loops.mechanism, q)
        for k, closure in enumerate(loops.mechanism.closures):
            guide = CLOSURES[closure.kind].branch_guide
            if guide is not None:
                rows.append(guide(*closure_ends(closure, poses)))
                owner.append(k)
        stacked = ca.densify(ca.vertcat(*rows))
        self.equations = ca.Function("guided", [q], [stacked, ca.densify(ca.jacobian(stacked, q))])
        self.owner = np.array(owner)

    def run(self, held: BoolArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return the closed pose nearest to the start and all that were found; if none, one that is
        nearly closed.

        What carries a loop as a whole stays where it is, as do coordinates that are held.
        """
        start, units = self.loops.home, self.loops.units
        involved, before = np.any(self.ways, axis=0) & ~held, held
        pose, found = start, list[FloatArray]()
        for k, moves in enumerate(self.ways):
            for reach in (0.0, *REACHES):
                found = []
                for draw in range(DRAWS if reach else 1):
                    free = moves & ~(before if draw % 2 else held)
                    drawn = pose + reach * units * self.rng.uniform(-1, 1, len(start)) * free
                    found += self._closed(k, involved, drawn)
                if found:
                    pose = min(
                        found, key=lambda home: float(np.linalg.norm((home - start) / units))
                    )
                    break
            if not found:
                return self._bounded(len(self.ways), pose, involved)[0], []
            before = before | moves
        return pose, found

    def _closed(self, k: int, involved: BoolArray, drawn: FloatArray) -> list[FloatArray]:
        """Close the loops up to number k from a drawn pose; nothing where that fails."""
        self.tried += 1
        home, error = self._bounded(k, drawn, involved)
        if k < len(self.ways) - 1:
            return [home] if np.abs(error).max() < NEARLY else []
        home, error = gauss_newton(self.loops, home, involved, iterations=30)
        home = _unwound(self.loops, home)
        return [home] if wrong_with(self.loops, home, error) is None else []

    def _bounded(self, k: int, start: FloatArray, free: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the pose of least squares inside the limits near a start, and what loops up to
        number k lack there.
        """
        from scipy.optimize import least_squares  # here: it takes long to import

        loops, rows = self.loops, self.owner <= k
        low, high = np.array(
            [joint.limits.position or (-np.inf, np.inf) for joint in loops.mechanism.joints]
        ).T
        room = 1e-9 * np.minimum(high - low, 1.0)
        whole = np.clip(start, low + room, high - room)

        def at(values: FloatArray, output: int) -> FloatArray:
            whole[free] = values
            return np.array(self.equations(whole)[output])[rows]

        found = least_squares(
            lambda x: at(x, 0).ravel(),
            whole[free],
            jac=lambda x: at(x, 1)[:, free],
            bounds=(low[free], high[free]),
            x_scale=loops.units[free],
            max_nfev=60,
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
        )
        whole[free] = found.x
        return whole, np.asarray(found.fun)


def _moves(loops: Loops, closure: Closure) -> BoolArray:
    """Tell which coordinates move the two sides of a closure against each other, (n,)."""
    carriers = {joint.child: k for k, joint in enumerate(loops.mechanism.joints)}
    found = np.array([joint.name in closure.coefficients for joint in loops.mechanism.joints])
    for frame in closure.frames:
        body = frame.body
        while body in carriers:
            found[carriers[body]] ^= True  # what carries both sides moves neither
            body = loops.mechanism.joints[carriers[body]].parent
    return found


def wrong_with(loops: Loops, home: FloatArray, error: FloatArray) -> Failure | None:
    """Return what is wrong with a pose: an open loop, a branch that is not meant, a limit exceeded;
    or nothing.
    """
    mechanism = loops.mechanism
    if error.size and not np.abs(error).max() < CLOSED:
        worst = int(np.argmax(np.where(np.isfinite(error), np.abs(error), np.inf)))
        residual = float(np.abs(error / loops.weights)[worst])
        name = mechanism.closures[equation_owners(mechanism)[worst]].name
        cure = (
            "its equations are more than it needs and contradict each other in their last digits: "
            "give lengths and "
            "angles with more digits, or close it with fewer equations"
            if np.abs(error).max() < ROUNDED
            else "check the keys 'start' of the joints or the link lengths"
        )
        return LoopNotClosed(
            f"[[closure]] '{name}': this loop of '{mechanism.name}' stays open by {residual:.2e} m "
            f"(or rad) when "
            f"assembled from the start values; {cure}",
            loop=name,
            residual=residual,
        )
    poses = body_transforms(mechanism, ca.SX(ca.DM(home)))
    for closure in mechanism.closures:
        ends = [
            Transform(number(end.rotation), number(end.translation))
            for end in closure_ends(closure, poses)
        ]
        mistaken = CLOSURES[closure.kind].wrong_branch
        if mistaken and (text := mistaken(*ends)):
            return LoopNotClosed(
                f"[[closure]] '{closure.name}': this loop of '{mechanism.name}' assembles with "
                f"{text};"
                " change the keys 'start' of its joints",
                loop=closure.name,
                residual=np.pi,
            )
    for joint, value in zip(mechanism.joints, home):
        low, high = joint.limits.position or (-np.inf, np.inf)
        if not low - 1e-3 * (high - low) <= value <= high + 1e-3 * (high - low):
            return InvalidMechanism(
                f"'{mechanism.name}' assembles with '{joint.name}' at {value:.4g} {joint.unit}, "
                f"outside its position "
                f"limits {low:g} to {high:g}; check the keys 'start' of the joints, the link "
                f"lengths or the limits",
                joint=joint.name,
                position=float(value),
            )
    return None


def _unwound(loops: Loops, home: FloatArray) -> FloatArray:
    """Turn joints back by whole turns towards the start, where nothing counts their turns."""
    counted = {name for closure in loops.mechanism.closures for name in closure.coefficients}
    free = np.array(
        [
            joint.kind == "revolute" and joint.limits.position is None and joint.name not in counted
            for joint in loops.mechanism.joints
        ]
    )
    turns = np.round((home - loops.home) / (2 * np.pi))
    return np.asarray(home - 2 * np.pi * turns * free)


def gauss_newton(
    loops: Loops, start: FloatArray, free: BoolArray | None = None, iterations: int = 200
) -> tuple[FloatArray, FloatArray]:
    """Close the loops near a start by damped least-norm Newton steps; all coordinates move unless
    `free` says.

    Returns the configuration (n,) and the closure residuals as fractions of the robot (c,).
    """
    q = np.array(start, dtype=float)
    move = np.ones(len(q), dtype=bool) if free is None else free
    error = loops.residual(q)
    for _ in range(iterations):
        if error.size == 0 or np.abs(error).max() < 1e-14:
            break
        step = np.linalg.lstsq(loops.jacobian(q)[:, move], -error, rcond=1e-9)[0]
        scale = min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-300))
        while True:
            trial = q.copy()
            trial[move] += scale * step * loops.units[move]
            new = loops.residual(trial)
            if np.linalg.norm(new) < np.linalg.norm(error) or scale < 1e-4:
                break
            scale /= 2
        if np.linalg.norm(new) >= np.linalg.norm(error):
            break
        q, error = trial, new
    return q, error


def idle_directions(loops: Loops, null: FloatArray, passive: list[int]) -> FloatArray:
    """Return those motions with the motors held that move no centre of mass, (k, n): rods turning
    about themselves.

    They are among the motions `null` (s, passive) of the passive coordinates that keep the loops
    closed.
    """
    mechanism = loops.mechanism
    q = ca.SX.sym("q", len(loops.home))
    poses, centres = body_transforms(mechanism, q), list[ca.SX]()
    for body in mechanism.bodies:
        m = float(body.values.get("m", 0.0))
        if m > 0 or body.parameters:
            local = np.array([body.values.get(key, 0.0) for key in ("mx", "my", "mz")]) / (m or 1.0)
            centres.append(poses[body.name].translation + poses[body.name].rotation @ ca.DM(local))
    moved = (
        ca.densify(ca.jacobian(ca.vertcat(*centres), q)) if centres else ca.SX(0, len(loops.home))
    )
    effect = np.array(ca.Function("centres", [q], [moved])(loops.home)) * loops.units / loops.length
    _, values, vt = np.linalg.svd(effect[:, passive] @ null.T)
    still = np.concatenate([values, np.zeros(len(null) - len(values))]) < IDLE
    return np.asarray(vt[still] @ null)


def number(expression: ca.SX) -> Any:
    """Return the value of a constant expression."""
    return np.array(ca.DM(ca.densify(expression)))
