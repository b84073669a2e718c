"""Kinematics of a closed chain: all coordinates along one assembly branch, and their rates."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from inspect import unwrap
from typing import Any, Literal, cast

import casadi as ca
import numpy as np

from gough.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_finite,
    check_shape,
)
from gough.core.errors import InvalidInput, LoopNotClosed, SingularConfiguration
from gough.core.motion import Motion
from gough.engine.assembly import LOOP_TOLERANCE
from gough.engine.loops import MIN_FORCE_LENGTH, By, LoopExpressions, Loops
from gough.engine.mobility import with_pivots_for
from gough.engine.symbolic import body_transforms, equation_owners
from gough.kernels.kernel import Kernel, compiled

# Elimination with fixed pivots is trusted below this relative residual.
ELIMINATION_TOLERANCE = 1e-9
# Newton's method converges quadratically, so that more iterations would
# not help.
LOOP_NEWTON_ITERATIONS = 12
# Longest step along a branch. [rad or lengths of the robot]
LONGEST_BRANCH_STEP = 0.1
# Most steps of the guesses of anchors; a longer way ends at a poor
# guess, which is not used.
MAX_GUESS_STEPS = 100
# Configurations nearer than this are the same. [rad or lengths of the
# robot]
SAME_POSE_TOLERANCE = 1e-7
# Largest number of samples between two samples to which a branch is
# followed step by step.
ANCHOR_SPACING = 256
# Force elements shorter than this, in lengths of the robot, are named
# where loops do not close.
SHORT_FORCE_LENGTH = 1e-4


@dataclass(frozen=True, eq=False)
class Margins:
    """Distance to singularity, 0 is singular.

    It is the smallest over the largest singular value of the scaled
    K_D.
    """

    # platform locked, motors move: by task coordinates, (t,); NaN
    # without any
    type1: FloatArray
    # motors locked, platform moves: by actuated coordinates, (t,)
    type2: FloatArray


def evaluate_with_repivoting(
    kernel: Callable[..., Kernel],
    owner: Any,
    by: By,
    /,
    *inputs: FloatArray,
    **settings: Any,
) -> Any:
    """Return the outputs of a kernel whose last output is the check of an elimination.

    Where the check shows that the fixed order of elimination failed,
    the graph is built again with an order that suits the first such
    sample and evaluated by CasADi, and so on for the samples that this
    order does not suit either.

    Args:
        kernel: A function marked `compiled`.
        owner: Its first argument, whose `loops` are eliminated.
        by: Partition of the elimination.
        inputs: q (t, n), and the other inputs of the kernel.
        settings: The other arguments of the function.

    Returns:
        All outputs except the check.
    """
    *outputs, check = kernel(owner, **settings)(*inputs)
    finite = np.isfinite(inputs[0]).all(axis=1)
    failed = np.flatnonzero(~(check.reshape(-1) < ELIMINATION_TOLERANCE) & finite)
    while failed.size:
        repivoted = copy(owner)
        repivoted.loops = with_pivots_for(owner.loops, by, inputs[0][failed[0]], int(failed[0]))
        function = unwrap(kernel)(repivoted, **settings)
        suited = np.zeros(len(failed), dtype=bool)
        for k, sample in enumerate(failed.tolist()):
            *repeated, check = function(*_sample_of(inputs, sample))
            suited[k] = k == 0 or float(check) < ELIMINATION_TOLERANCE
            if suited[k]:
                for output, replacement in zip(outputs, repeated):
                    output[sample] = np.array(replacement).reshape(output.shape[1:])
        failed = failed[~suited]
    return outputs


def _sample_of(inputs: tuple[FloatArray, ...], sample: int) -> list[FloatArray]:
    """Return the inputs of one sample; those with one dimension are shared by all samples."""
    selected = list(inputs)
    for k, array in enumerate(inputs):
        if array.ndim > 1:
            selected[k] = array[sample]
    return selected


class ClosedChain:
    """The kinematics of a mechanism with closed loops, at many configurations at once."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self._n = len(loops.home)
        self._step_scale: dict[By, FloatArray] = {}
        self._change_weights = np.zeros(self._n)
        bounded = loops.loop_coordinates
        self._change_weights[bounded] = 1 / loops.units[bounded]

    @property
    def graph_key(self) -> str:
        """Digest of all that its graphs depend on, see `Loops.graph_key`."""
        return self.loops.graph_key

    @cached_property
    def motor_columns(self) -> list[int]:
        """Columns of recorded motors that poses are computed from, (m,).

        All motors, or as many as there are degrees of freedom.
        """
        motors = [i for i, joint in enumerate(self.loops.mechanism.joints) if joint.actuated]
        return [motors.index(i) for i in self.loops.partitions["actuated"].independent]

    @cached_property
    def pose_coordinates(self) -> By:
        """The coordinates of a pose: those of the task, if they determine all others."""
        return "task" if "task" in self.loops.partitions else "actuated"

    def pose_of(self, q: FloatArray) -> FloatArray:
        """Return the pose of configurations, (t, n) -> (t, m). [m or rad]"""
        independent = self.loops.partitions[self.pose_coordinates].independent
        return np.ascontiguousarray(q[:, list(independent)])

    def pose_map(self, q: FloatArray) -> FloatArray:
        """Return the map from changes of the independent motors to those of the pose, (t, m, m)."""
        motors = list(self.loops.partitions["actuated"].independent)
        motor_map = self.closure_map(q, self.pose_coordinates)[:, motors]
        return np.asarray(np.linalg.inv(motor_map), dtype=np.float64)

    def scaled_change(self, change: FloatArray) -> FloatArray:
        """Return the largest scaled change of a loop coordinate. [rad or lengths of the robot]

        Args:
            change: Change of all coordinates, (..., n).
        """
        # one row for each coordinate: NumPy reduces the first axis many
        # times faster than a short last one
        scaled = np.abs(np.moveaxis(change, -1, 0), order="C")
        scaled = (scaled.T * self._change_weights).T
        return np.asarray(scaled.max(axis=0, initial=0.0))

    def step_scale(self, by: By) -> FloatArray:
        """Return the change of each independent coordinate that deforms the loops by one, (m,).

        One is a radian, or the robot's length, of the fastest loop
        coordinate in the reference configuration. So a rotor behind a
        gear makes many turns. The scale is infinite for a coordinate
        that moves no loop. [m or rad]
        """
        if by not in self._step_scale:
            E = self.closure_map(self.loops.home[None], by)[0]
            fastest = self.scaled_change(E.T)
            scale = np.full(len(fastest), np.inf)
            self._step_scale[by] = np.divide(1.0, fastest, out=scale, where=fastest > 1e-9)
        return self._step_scale[by]

    @compiled
    def _closed(self, kind: Literal["step", "map", "rates"], by: By) -> ca.Function:
        """Return a kernel of the closed loops.

        Args:
            kind: `step`: q -> Newton step, its largest scaled change,
                and the largest residual as a fraction of the robot;
                `map`: q -> E and check; `rates`: q, v, a -> qd, qdd and
                check.
        """
        m = len(self.loops.partitions[by].independent)
        q = ca.SX.sym("q", self._n)
        closed = LoopExpressions(self.loops, by, q)
        if kind == "step":
            step = closed.newton_step()
            change = _largest(step * ca.DM(self._change_weights))
            residual = _largest(closed.residual * ca.DM(self.loops.weights))
            return ca.Function("step", [q], [step, change, residual])
        if kind == "map":
            return ca.Function("map", [q], [closed.closure_map, closed.check])
        v = ca.SX.sym("v", m)
        a = ca.SX.sym("a", m)
        return ca.Function("rates", [q, v, a], [*closed.rates(v, a), closed.check])

    @compiled
    def _equations(self) -> ca.Function:
        return self.loops.equations

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return K, the derivative of the closures by all coordinates, (t, c, n).

        Its unit is m or rad over the unit of q.
        """
        K = self._equations()(q)[1]
        return K.reshape(len(q), len(self.loops.weights), self._n)

    @compiled
    def _residual(self) -> ca.Function:
        """Return a kernel: q -> largest residual, in m or rad and as a fraction of the robot."""
        q = ca.SX.sym("q", self._n)
        phi = self.loops.equations(q)[0]
        weighted = phi * ca.DM(self.loops.weights)
        return ca.Function("residual", [q], [_largest(phi), _largest(weighted)])

    def residual(self, q: FloatArray) -> FloatArray:
        """Return the largest closure error of each sample, (t,). [m or rad]"""
        return self._residual()(q)[0][:, 0]

    @compiled
    def _poses(self) -> ca.Function:
        q = ca.SX.sym("q", self._n)
        poses = body_transforms(self.loops.mechanism, q)
        bodies = [poses[body.name] for body in self.loops.mechanism.bodies]
        rotations = ca.vertcat(*[ca.reshape(pose.rotation.T, 1, 9) for pose in bodies])
        origins = ca.vertcat(*[pose.translation.T for pose in bodies])
        return ca.Function("poses", [q], [ca.densify(rotations), ca.densify(origins)])

    def body_poses(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rotations (t, b, 3, 3) and origins (t, b, 3) of all bodies in the base frame."""
        rotation, origin = self._poses()(q)
        return rotation.reshape(len(q), len(self.loops.mechanism.bodies), 3, 3), origin

    def close_nearby(
        self, q: FloatArray, by: By, positions: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Close the loops of all samples at once, from guesses that are already near.

        Args:
            q: Guesses of all coordinates, (t, n); the independent ones
                stay.
            positions: Other positions of the independent coordinates,
                (t, m).

        Returns:
            Coordinates (t, n), and the largest residual of each sample
            as a fraction of the robot (t,), which is large where
            Newton's method failed.
        """
        q = np.array(q, dtype=float)
        if positions is not None:
            q[:, self.loops.partitions[by].independent] = positions
        if not self.loops.partitions[by].dependent:
            return q, np.zeros(len(q))
        kernel = self._closed(kind="step", by=by)
        active = np.arange(len(q))
        for _ in range(LOOP_NEWTON_ITERATIONS):
            all_active = len(active) == len(q)
            step, change, residual = kernel(q if all_active else q[active])
            change = change[:, 0]
            usable = np.isfinite(change) & (change < 2.0)  # longer steps leave the neighbourhood
            step[~usable] = 0.0
            if all_active:
                q += step
            else:
                q[active] += step
            # Quadratic convergence: if the residual before the step was
            # so small, the step has reduced it to rounding.
            active = active[usable & ~(residual[:, 0] < 1e-9)]
            if active.size == 0:
                break
        error = self._residual()(q)[1][:, 0]
        return q, np.where(np.isfinite(error), error, np.inf)

    def closure_map(self, q: FloatArray, by: By | None = None) -> FloatArray:
        """Return E, which maps independent velocities to all velocities, (t, n, m).

        qd = E qd_I, BG13 (7). Departure: redundant but consistent
        closures are allowed.
        """
        if by is None:
            by = self.loops.dynamic
        m = len(self.loops.partition_of(by).independent)
        (E,) = evaluate_with_repivoting(ClosedChain._closed, self, by, q, kind="map", by=by)
        return np.asarray(E.reshape(len(q), self._n, m))

    def rates(
        self,
        q: FloatArray,
        velocity: FloatArray,
        acceleration: FloatArray,
        by: By = "actuated",
    ) -> tuple[FloatArray, FloatArray]:
        """Return velocities and accelerations of all coordinates, (t, n) each.

        Args:
            q: All coordinates, loops closed, (t, n).
            velocity, acceleration: Of the independent coordinates, (t,
                m) each.
        """
        self.loops.partition_of(by)
        qd, qdd = evaluate_with_repivoting(
            ClosedChain._closed,
            self,
            by,
            q,
            velocity,
            acceleration,
            kind="rates",
            by=by,
        )
        return qd, qdd

    def margins(self, q: FloatArray) -> Margins:
        """Return the distance to Type-1 and Type-2 singularities of each sample."""
        return Margins(type1=self._margin(q, "task"), type2=self._margin(q, "actuated"))

    def _margin(self, q: FloatArray, by: By) -> FloatArray:
        """Return the distance to singularities of a partition, (t,); NaN if there is none."""
        if by not in self.loops.partitions:
            return np.full(len(q), np.nan)
        dependent = self.loops.partitions[by].dependent
        if not dependent:
            return np.ones(len(q))
        K = self.loops.scaled(self.jacobian(q))[:, :, dependent]
        finite = np.isfinite(K).all(axis=(1, 2))
        singular_values = np.linalg.svd(K[finite], compute_uv=False)
        margin = np.full(len(q), np.nan)
        margin[finite] = singular_values[:, -1] / singular_values[:, 0]
        return margin

    def close_loops(
        self,
        positions: FloatArray,
        by: By = "actuated",
        *,
        start: FloatArray | None = None,
        time: FloatArray | None = None,
    ) -> FloatArray:
        """Find all coordinates from the independent ones, along one assembly branch.

        A sequential pass follows the branch from the start through some
        samples, the anchors; the samples between are refined in
        parallel and the continuity of the motion is checked.

        Args:
            positions: Independent coordinates, (t, m). Redundant
                robots: all actuated (t, a); a well-conditioned subset
                is used. [m or rad]
            start: A configuration near the first sample, (n,), or near
                every sample, (t, n); the reference configuration by
                default.
            time: Sample times, for messages.

        Raises:
            LoopNotClosed: A position is out of reach, or the motion
                changes the branch.
            SingularConfiguration: The motion reaches a singularity.
        """
        positions = self._independent_positions(positions, by)
        count = len(positions)
        guess = np.array(self.loops.home if start is None else start, dtype=float)
        check_shape(guess, (self._n,) if guess.ndim == 1 else (count, self._n), "start")
        check_finite(guess, "start")
        if not self.loops.partitions[by].dependent:
            home = np.broadcast_to(self.loops.home, (count, self._n))
            return self.close_nearby(home, by, positions)[0]
        if guess.ndim == 1:
            return self._along(guess, positions, by, time)
        guess[:, self.loops.partitions[by].independent] = positions
        q, error = self.close_nearby(guess, by)
        change = self.scaled_change(q - guess)
        if (error < LOOP_TOLERANCE).all() and (change < 0.1).all():
            self._check_branch(q, by, time)
            return q
        first = np.array(start, dtype=float)[0]
        return self._along(first, positions, by, time)

    def _independent_positions(self, positions: FloatArray, by: By) -> FloatArray:
        """Return checked positions of the independent coordinates, (t, m)."""
        independent = self.loops.partition_of(by).independent
        positions = np.asarray(positions, dtype=float)
        n_motors = len(self.loops.mechanism.actuated)
        if by == "actuated" and positions.shape[1:] == (n_motors,):
            positions = positions[:, self.motor_columns]
        check_shape(positions, (None, len(independent)), f"{by} positions")
        if len(positions) == 0:
            raise InvalidInput(f"there are no {by} positions; the array is empty")
        check_finite(positions, f"{by} positions")
        return positions

    def _along(
        self,
        start: FloatArray,
        positions: FloatArray,
        by: By,
        time: FloatArray | None,
    ) -> FloatArray:
        """Follow a branch from a configuration (n,): first the anchors, then all samples."""
        moves = np.abs(np.diff(positions, axis=0)) / self.step_scale(by)
        travelled = np.concatenate([[0.0], np.cumsum(moves.max(axis=1))])
        marks = np.flatnonzero(np.diff(np.floor(travelled / LONGEST_BRANCH_STEP)) > 0) + 1
        regular = np.arange(0, len(positions), ANCHOR_SPACING)
        samples = np.unique(np.concatenate([[0], marks, regular, [len(positions) - 1]]))
        anchors = self._follow_anchors(start, positions, samples, by, time)
        t = np.arange(len(positions))
        last = max(len(samples) - 2, 0)
        before = np.clip(np.searchsorted(samples, t, side="left") - 1, 0, last)  # its anchor
        to_next = np.diff(anchors, axis=0, append=anchors[-1:])
        n_between = np.diff(samples, append=samples[-1] + 1)
        weight = (t - samples[before]) / n_between[before]
        guess = anchors[before]
        guess += weight[:, None] * to_next[before]
        guess[:, self.loops.partitions[by].independent] = positions
        q, error = self.close_nearby(guess, by)
        # Between anchors a branch deviates by a few hundredths at most;
        # other samples are followed step by step. Most often the motion
        # reverses between the anchors there.
        span = self.scaled_change(to_next)[before]
        deviation = self.scaled_change(q - guess)
        doubtful = np.flatnonzero(~(error < LOOP_TOLERANCE) | (deviation > 0.25 * span + 0.02))
        if doubtful.size:
            moved, accepted = self._move(anchors[before[doubtful]], positions[doubtful], by)
            q[doubtful[accepted]] = moved[accepted]
            doubtful = doubtful[~accepted]
        for sample in doubtful.tolist():
            k = np.searchsorted(samples, sample)
            if samples[k] == sample:
                q[sample] = anchors[k]
            else:
                q[sample] = self._reach(q[sample - 1], positions, sample, by, time)
        self._check_branch(q, by, time)
        return q

    def _follow_anchors(
        self,
        start: FloatArray,
        positions: FloatArray,
        samples: IntArray,
        by: By,
        time: FloatArray | None,
    ) -> FloatArray:
        """Return the configurations at the anchor samples, (k, n).

        All are first guessed together, with intermediate points where
        two are far from each other. A guess counts if short steps along
        the branch lead to it from the anchor before; the others are
        followed one by one.
        """
        targets = positions[samples]
        path, place = _subdivided(targets, self.step_scale(by))
        path_guesses = self._guess_anchors(start, path, by)
        guesses = path_guesses[place]
        linked = np.zeros(len(guesses), bool)
        if len(path) > 1:
            moved, accepted = self._move(path_guesses[:-1], path[1:], by)
            same = self.scaled_change(moved - path_guesses[1:]) < SAME_POSE_TOLERANCE
            steps = (np.abs(np.diff(path, axis=0)) / self.step_scale(by)).max(axis=1)
            short = steps <= LONGEST_BRANCH_STEP * (1 + SAME_POSE_TOLERANCE)
            linked[1:] = np.logical_and.reduceat(accepted & same & short, place[:-1])
        anchors = np.empty_like(guesses)
        previous = start
        on_guess = False  # the previous anchor is the guess
        first = 0  # sample after the previous anchor
        for k, sample in enumerate(samples.tolist()):
            if on_guess and linked[k]:
                reached = guesses[k]
            else:
                reached, fraction = self._follow(previous, targets[k], by)
                if fraction < 1.0:  # find the first sample that fails, not the anchor behind it
                    reached = previous
                    for between in range(first, sample + 1):
                        reached = self._reach(reached, positions, between, by, time)
                on_guess = bool(self.scaled_change(reached - guesses[k]) < SAME_POSE_TOLERANCE)
            anchors[k] = reached
            previous = reached
            first = sample + 1
        return anchors

    def _guess_anchors(self, start: FloatArray, targets: FloatArray, by: By) -> FloatArray:
        """Return configurations near targets (k, m), straight from the start, (k, n).

        Each step is a tangent prediction and one step of Newton's
        method, of all together.
        """
        independent = self.loops.partitions[by].independent
        q = np.repeat(start[None], len(targets), axis=0)
        total = targets - q[:, independent]
        distance = float((np.abs(total) / self.step_scale(by)).max())
        count = min(int(np.ceil(distance / LONGEST_BRANCH_STEP)), MAX_GUESS_STEPS)
        for k in range(count):
            remaining = (1 - (k + 1) / count) * total
            change = targets - remaining - q[:, independent]
            E = self._closed(kind="map", by=by)(q)[0].reshape(len(q), self._n, -1)
            q += (E @ change[:, :, None])[:, :, 0]
            step, largest, _ = self._closed(kind="step", by=by)(q)
            small = largest[:, 0] < LONGEST_BRANCH_STEP  # False for NaN
            q[small] += step[small]
            lost = ~np.isfinite(q).all(axis=1)
            q[lost] = start
        return self.close_nearby(q, by, targets)[0]

    def _reach(
        self,
        start: FloatArray,
        positions: FloatArray,
        sample: int,
        by: By,
        time: FloatArray | None,
    ) -> FloatArray:
        """Follow the branch to a sample; raise an error that explains why it cannot be reached."""
        reached, fraction = self._follow(start, positions[sample], by)
        if fraction < 1.0:
            raise self._open_loop(reached, positions[sample], by, sample, time)
        return reached

    def _follow(self, start: FloatArray, target: FloatArray, by: By) -> tuple[FloatArray, float]:
        """Move from a closed configuration to a target along its branch, in adaptive steps.

        Beyond a tenth of a radian, or of the robot's length, the
        tangent is a poor prediction: that is the longest step.
        Coordinates that move no loop (a rotor behind a gear) have no
        limit.

        Returns:
            The configuration reached (n,) and the fraction of the way,
                1 at the target.
        """
        independent = self.loops.partitions[by].independent
        q = np.array(start)
        origin = q[independent]
        distance = float((np.abs(target - origin) / self.step_scale(by)).max())
        longest = LONGEST_BRANCH_STEP / max(distance, LONGEST_BRANCH_STEP)
        fraction = 0.0
        step = longest
        while fraction < 1.0:
            goal = min(fraction + step, 1.0)
            position = origin + goal * (target - origin)
            moved, accepted = self._move(q[None], position[None], by)
            if accepted[0]:
                q = moved[0]
                fraction = goal
                step = min(2 * step, longest)
            else:
                step /= 4
                if step < 1e-7:
                    break
        return q, fraction

    def _move(self, start: FloatArray, target: FloatArray, by: By) -> tuple[FloatArray, BoolArray]:
        """Move closed configurations (t, n) to targets (t, m) in one step each.

        A step is accepted if Newton's method ends near the tangent
        prediction q + E dq_I; so a neighbouring branch is not accepted.

        Returns:
            The configurations reached (t, n), and which are accepted
                (t,).
        """
        independent = self.loops.partitions[by].independent
        E = self._closed(kind="map", by=by)(start)[0].reshape(len(start), self._n, -1)
        change = target - start[:, independent]
        guess = start + (E @ change[:, :, None])[:, :, 0]
        guess[:, independent] = target
        q, error = self.close_nearby(guess, by)
        moved = self.scaled_change(q - start)
        deviation = self.scaled_change(q - guess)
        near = deviation <= 0.25 * np.minimum(moved, 1.0) + 1e-9
        return q, (error < LOOP_TOLERANCE) & near

    def _open_loop(
        self,
        last: FloatArray,
        target: FloatArray,
        by: By,
        sample: int,
        time: FloatArray | None,
    ) -> Exception:
        """Return the error that explains why the loops do not close at a sample.

        Args:
            last: Configuration nearest to it on the branch, (n,).
            target: Positions of the independent coordinates at the
                sample, (m,).
        """
        loops = self.loops
        moment, when = _when(sample, time)
        name = self._short_force(last, SHORT_FORCE_LENGTH * loops.length)
        if name is not None:
            return SingularConfiguration(
                f"the force element '{name}' of '{loops.mechanism.name}' has no length {when}, so "
                "no direction; keep the motion away from there, or move one of its points",
                sample=sample,
                time=moment,
                singular_value=0.0,
                joint=name,
            )
        margin = loops.margin(last, by)
        if margin < 1e-2 * loops.margin(loops.home, by):
            loose = loops.least_constrained(last, by)
            return SingularConfiguration(
                f"'{loops.mechanism.name}' reaches a singularity {when}: the {by} coordinates stop "
                f"determining '{loose}' (singular value ratio {margin:.1e}); keep the motion away "
                "from it",
                sample=sample,
                time=moment,
                singular_value=margin,
                joint=loose,
            )
        tried = np.array(last)
        tried[loops.partitions[by].independent] = target
        phi = np.abs(np.array(loops.equations(tried)[0]).ravel())
        owner = equation_owners(loops.mechanism)[int(np.argmax(phi))]
        name = loops.mechanism.closures[owner].name
        return LoopNotClosed(
            f"loop '{name}' is open by {phi.max():.1e} m {when}; the position is out of reach, or "
            "check the start pose or the link lengths",
            loop=name,
            sample=sample,
            time=moment,
            residual=float(phi.max()),
        )

    def _short_force(self, q: FloatArray, shortest: float) -> str | None:
        """Return a force element that is shorter than a length at some configuration, if any.

        Args:
            q: Configurations, (..., n).
            shortest: The length. [m]
        """
        mechanism = self.loops.mechanism
        for name, closure in mechanism.forces.items():
            length = q[..., mechanism.coordinates.index(name)] - closure.constant
            if length.min() < shortest:
                return name
        return None

    def _check_branch(self, q: FloatArray, by: By, time: FloatArray | None) -> None:
        """Raise if samples lie on different assembly branches, or a force element has no length.

        Steps much larger than the motion of the independent coordinates
        are compared with E dq_I.
        """
        independent = self.loops.partitions[by].independent
        has_forces = bool(self.loops.mechanism.forces)
        if has_forces and self._short_force(q, MIN_FORCE_LENGTH) is not None:
            sample = 0
            while self._short_force(q[sample], MIN_FORCE_LENGTH) is None:
                sample += 1
            raise self._open_loop(q[sample], q[sample, independent], by, sample, time)
        moved = self.scaled_change(np.diff(q, axis=0))
        steps = np.abs(np.diff(q[:, independent], axis=0))
        driven = (steps / self.step_scale(by)).max(axis=1)
        suspects = np.flatnonzero((moved > 20 * driven + 1e-6) | (moved > 0.2))
        if suspects.size == 0:
            return
        actual = q[suspects + 1] - q[suspects]
        before = self.closure_map(q[suspects], by)
        after = self.closure_map(q[suspects + 1], by)
        predicted = np.einsum("tnm,tm->tn", 0.5 * (before + after), actual[:, independent])
        deviation = self.scaled_change(actual - predicted)
        wrong = deviation > 0.5 * self.scaled_change(actual) + 1e-6
        if wrong.any():
            sample = int(suspects[wrong][0]) + 1
            moment, when = _when(sample, time)
            raise LoopNotClosed(
                f"the loops jump to another assembly branch {when}; the motion between two samples "
                "is too large or passes a singularity",
                loop="",
                sample=sample,
                time=moment,
                residual=float(np.abs(actual[wrong][0]).max()),
            )

    def motion(
        self,
        time: FloatArray,
        position: FloatArray,
        velocity: FloatArray,
        acceleration: FloatArray,
        by: By = "actuated",
        *,
        start: FloatArray | None = None,
    ) -> Motion:
        """Return the motion of all coordinates from that of the independent ones.

        Args:
            time: Sample times, (t,). [s]
            position, velocity, acceleration: Of the independent
                coordinates, (t, m) each.
            start: As in `close_loops`.
        """
        check_finite(np.asarray(velocity, dtype=float), f"{by} velocities")
        check_finite(np.asarray(acceleration, dtype=float), f"{by} accelerations")
        q = self.close_loops(position, by, start=start, time=time)
        try:
            qd, qdd = self.rates(q, velocity, acceleration, by)
        except SingularConfiguration as error:
            moment = float(time[cast(int, error.sample)])
            raise SingularConfiguration(str(error), **(error.numbers | {"time": moment})) from None
        return Motion(
            coordinates=self.loops.mechanism.coordinates,
            time=time,
            q=q,
            qd=qd,
            qdd=qdd,
            closure_residual=self.residual(q),
        )


def _largest(column: ca.SX) -> ca.SX:
    """Return the largest magnitude of a column; zero if it is empty."""
    largest = ca.SX(0)
    for entry in ca.vertsplit(ca.densify(column)):
        largest = ca.fmax(largest, ca.fabs(entry))
    return ca.densify(largest)


def _subdivided(targets: FloatArray, scale: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return a path through targets in steps of a branch, and the place of each target in it.

    A jump that takes more than `MAX_GUESS_STEPS` is not divided: it
    cannot be followed so.

    Args:
        targets: Positions of the independent coordinates, (k, m).
        scale: Their changes that deform the loops by one, (m,).

    Returns:
        Points with straight lines between targets, (p, m), and indices,
            (k,).
    """
    distance = (np.abs(np.diff(targets, axis=0)) / scale).max(axis=1)
    n_steps = np.maximum(np.ceil(distance / LONGEST_BRANCH_STEP), 1.0)
    n_steps = np.where(n_steps > MAX_GUESS_STEPS, 1.0, n_steps).astype(np.int64)
    place = np.concatenate([[0], np.cumsum(n_steps)])
    path = np.empty((place[-1] + 1, targets.shape[1]))
    for k in range(targets.shape[1]):
        path[:, k] = np.interp(np.arange(len(path)), place, targets[:, k])
    path[place] = targets
    return path, place


def _when(sample: int, time: FloatArray | None) -> tuple[float, str]:
    """Return the time of a sample, NaN if it is not known, and sample and time in words."""
    if time is None:
        return float("nan"), f"at sample {sample}"
    return float(time[sample]), f"at sample {sample} (t = {time[sample]:.4g} s)"
