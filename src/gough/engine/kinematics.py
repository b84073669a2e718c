"""Positions, velocities and accelerations of all coordinates of a closed chain; motions along one
branch of it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from inspect import unwrap
from typing import Any, Literal, cast

import casadi as ca
import numpy as np

from gough.core.arrays import BoolArray, FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput, LoopNotClosed, SingularConfiguration
from gough.core.motion import Motion
from gough.engine.assembly import LOOP_TOLERANCE
from gough.engine.loops import MIN_FORCE_LENGTH, By, LoopExpressions, Loops
from gough.engine.mobility import with_pivots_for
from gough.engine.symbolic import body_transforms, equation_owners
from gough.kernels.kernel import Kernel, compiled

ELIMINATION_TOLERANCE = 1e-9  # elimination without pivoting is trusted below this relative residual
ITERATIONS = 12  # of Newton's method; it converges quadratically, so that more would not help
STRIDE = 0.1  # longest move at once along a branch [rad or lengths of the robot]
# of the robot: shorter force elements are named where the loops cannot be followed
NO_LENGTH = 1e-4


@dataclass(frozen=True, eq=False)
class Margins:
    """Distance to singularity: smallest over largest singular value of the scaled K_D; 0 is
    singular.

    Args:
        type1: With the task coordinates independent (platform locked, motors move), (t,); NaN if
            there are none.
        type2: With the actuated coordinates independent (motors locked, platform moves), (t,).
    """

    type1: FloatArray
    type2: FloatArray


def evaluate_with_repivoting(
    kernel: Callable[..., Kernel], owner: Any, by: By, /, *inputs: FloatArray, **settings: Any
) -> Any:
    """Return the outputs but the last of a kernel of q (t, n) and more, whose last output is a
    check.

    Where the check says that the fixed order of elimination failed, the graph is written again with
    an order that suits the first such sample and evaluated by CasADi; and so on for those that this
    order does not suit either.

    Args:
        kernel: A function marked `compiled`.
        owner: Its first argument, whose `loops` are eliminated by a partition.
        settings: Its other arguments.
    """
    *results, check = kernel(owner, **settings)(*inputs)
    left = np.flatnonzero(
        ~(check.reshape(-1) < ELIMINATION_TOLERANCE) & np.isfinite(inputs[0]).all(axis=1)
    )
    while left.size:
        other = copy(owner)
        other.loops = with_pivots_for(owner.loops, by, inputs[0][left[0]], int(left[0]))
        function = unwrap(kernel)(other, **settings)
        found = [function(*(x[k] if x.ndim > 1 else x for x in inputs)) for k in left]
        served = np.array(
            [k == 0 or float(values[-1]) < ELIMINATION_TOLERANCE for k, values in enumerate(found)]
        )
        for number, result in enumerate(results):
            again = np.array(
                [np.array(values[number]).reshape(result.shape[1:]) for values in found]
            )
            result[left[served]] = again[served]
        left = left[~served]
    return results


class ClosedChain:
    """The kinematics of an assembled mechanism with its loops closed, at many configurations at
    once.
    """

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self._size = len(loops.home)
        self._strides: dict[By, FloatArray] = {}

    def scaled_change(self, change: FloatArray) -> FloatArray:
        """Return the largest change (..., n) of a coordinate that bends the loops.

        [rad or lengths of the robot]
        """
        bending = self.loops.loop_coordinates
        return np.asarray(
            np.abs(change[..., bending] / self.loops.units[bending]).max(axis=-1, initial=0.0)
        )

    def step_scale(self, by: By) -> FloatArray:
        """Return what each independent coordinate moves by while the loops bend by one, at home,
        (m,). [m or rad]

        One: a radian, or the robot's length, of the coordinate in the loops that is fastest. So
        behind a gear a rotor makes many turns. Infinite for a coordinate that bends no loop.
        """
        if by not in self._strides:
            E = self.closure_map(self.loops.home[None], by)[0]
            fastest = np.array([self.scaled_change(column) for column in E.T])
            self._strides[by] = np.divide(
                1.0, fastest, out=np.full(len(fastest), np.inf), where=fastest > 1e-9
            )
        return self._strides[by]

    @compiled
    def _closed(self, kind: Literal["step", "map", "rates"], by: By) -> ca.Function:
        """Return q -> Newton's step and the residual, q -> E and a check, or q, v, a -> qd, qdd and
        a check.
        """
        m = len(self.loops.partitions[by].independent)
        q, v, a = ca.SX.sym("q", self._size), ca.SX.sym("v", m), ca.SX.sym("a", m)
        closed = LoopExpressions(self.loops, by, q)
        if kind == "step":
            return ca.Function("step", [q], [closed.newton_step(), ca.densify(closed.residual)])
        if kind == "map":
            return ca.Function("map", [q], [closed.closure_map, closed.check])
        return ca.Function("rates", [q, v, a], [*closed.rates(v, a), closed.check])

    @compiled
    def _equations(self) -> ca.Function:
        return self.loops.equations

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return K, the derivative of the closures by all coordinates, (t, c, n).

        [m or rad / unit of q]
        """
        return self._equations()(q)[1].reshape(len(q), len(self.loops.weights), self._size)

    def residual(self, q: FloatArray) -> FloatArray:
        """Return the largest closure error of each sample, (t,). [m or rad]"""
        return np.asarray(np.abs(self._equations()(q)[0]).max(axis=1, initial=0.0))

    @compiled
    def _poses(self) -> ca.Function:
        q = ca.SX.sym("q", self._size)
        poses = body_transforms(self.loops.mechanism, q)
        bodies = [poses[body.name] for body in self.loops.mechanism.bodies]
        return ca.Function(
            "poses",
            [q],
            [
                ca.densify(ca.vertcat(*[ca.reshape(p.rotation.T, 1, 9) for p in bodies])),
                ca.densify(ca.vertcat(*[p.translation.T for p in bodies])),
            ],
        )

    def body_poses(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rotations (t, bodies, 3, 3) and origins (t, bodies, 3) of all bodies in the base
        frame.
        """
        rotation, origin = self._poses()(q)
        return rotation.reshape(len(q), len(self.loops.mechanism.bodies), 3, 3), origin

    def close_nearby(
        self, q: FloatArray, by: By, positions: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Close the loops of all samples at once from a guess (t, n) that is already near; the
        independent ones stay.

        Returns coordinates (t, n), with other `positions` (t, m) of the independent ones if given,
        and the largest residual of each sample as a fraction of the robot (t,); samples that failed
        keep a large one.
        """
        q = np.array(q, dtype=float)
        if positions is not None:
            q[:, self.loops.partitions[by].independent] = positions
        if not self.loops.partitions[by].dependent:
            return q, np.zeros(len(q))
        kernel, active = self._closed(kind="step", by=by), np.arange(len(q))
        for _ in range(ITERATIONS):
            step, phi = kernel(q[active])
            size = self.scaled_change(step)
            usable = np.isfinite(size) & (size < 2.0)  # a larger step has left the neighbourhood
            step[~usable] = 0.0
            q[active] += step
            # Quadratic convergence: once the residual is this small, the step just taken ends at
            # rounding.
            active = active[usable & ~(np.abs(phi * self.loops.weights).max(axis=1) < 1e-9)]
            if active.size == 0:
                break
        error = np.abs(kernel(q)[1] * self.loops.weights).max(axis=1)
        return q, np.where(np.isfinite(error), error, np.inf)

    def closure_map(self, q: FloatArray, by: By | None = None) -> FloatArray:
        """Map independent velocities to those of all coordinates: E of qd = E qd_I, (t, n, m), BG13
        (7).

        Departure: redundant but consistent closures are allowed.
        """
        by = self.loops.dynamic if by is None else by
        size = len(self.loops.partition_of(by).independent)
        (E,) = evaluate_with_repivoting(ClosedChain._closed, self, by, q, kind="map", by=by)
        return np.asarray(E.reshape(len(q), self._size, size))

    def rates(
        self, q: FloatArray, velocity: FloatArray, acceleration: FloatArray, by: By = "actuated"
    ) -> tuple[FloatArray, FloatArray]:
        """Return velocities and accelerations of all coordinates from those of the independent
        ones, each (t, n).
        """
        self.loops.partition_of(by)
        qd, qdd = evaluate_with_repivoting(
            ClosedChain._closed, self, by, q, velocity, acceleration, kind="rates", by=by
        )
        return qd, qdd

    def margins(self, q: FloatArray) -> Margins:
        """Return the distance to Type-1 and Type-2 singularities of each sample."""
        result = {}
        for by in ("task", "actuated"):
            part = self.loops.partitions.get(by)
            result[by] = np.full(len(q), np.nan if part is None or part.dependent else 1.0)
            if part is not None and part.dependent:
                K = self.loops.scaled(self.jacobian(q))[:, :, part.dependent]
                good = np.isfinite(K).all(axis=(1, 2))
                values = np.linalg.svd(K[good], compute_uv=False)
                result[by][good] = values[:, -1] / values[:, 0]
        return Margins(type1=result["task"], type2=result["actuated"])

    def close_loops(
        self,
        positions: FloatArray,
        by: By = "actuated",
        *,
        start: FloatArray | None = None,
        time: FloatArray | None = None,
    ) -> FloatArray:
        """Find all coordinates from the independent ones, on one branch.

        A coarse sequential pass follows the branch from the start; the samples between are refined
        in parallel and the continuity of the result is checked.

        Args:
            positions: Independent coordinates, (t, m). Redundant robots: all actuated (t, a); a
                well-conditioned subset is used. [m or rad]
            start: A configuration near the first sample, (n,), or near every sample, (t, n); home
                by default.
            time: Sample times, for messages.
        """
        independent = self.loops.partition_of(by).independent
        positions = np.asarray(positions, dtype=float)
        motors = [i for i, joint in enumerate(self.loops.mechanism.joints) if joint.actuated]
        if by == "actuated" and positions.shape[1:] == (len(motors),):
            positions = positions[:, [motors.index(i) for i in independent]]
        check_shape(positions, (None, len(independent)), f"{by} positions")
        if len(positions) == 0:
            raise InvalidInput(f"there are no {by} positions; the array is empty")
        check_finite(positions, f"{by} positions")
        previous = np.array(self.loops.home if start is None else start, dtype=float)
        check_shape(
            previous, (self._size,) if previous.ndim == 1 else (len(positions), self._size), "start"
        )
        check_finite(previous, "start")
        if not self.loops.partitions[by].dependent:
            return self.close_nearby(
                np.broadcast_to(self.loops.home, (len(positions), self._size)), by, positions
            )[0]
        if previous.ndim == 2:
            guess = previous.copy()
            guess[:, independent] = positions
            q, error = self.close_nearby(guess, by)
            if (error < LOOP_TOLERANCE).all() and self.scaled_change(q - guess).max() < 0.1:
                self._check_branch(q, by, time)
                return q
            previous = previous[0]
        return self._along(previous, positions, by, time)

    def _along(
        self, previous: FloatArray, positions: FloatArray, by: By, time: FloatArray | None
    ) -> FloatArray:
        """Follow a branch from a configuration, (n,): first anchors on it one by one, then all that
        lies between.
        """
        independent = self.loops.partitions[by].independent
        coarse = self._coarse(positions, by)
        anchors = np.empty((len(coarse), self._size))
        for k, sample in enumerate(coarse):
            reached, fraction = self._follow(previous, positions[sample], by)
            if fraction < 1.0:  # find the first sample that fails, not the anchor behind it
                reached = previous
                for between in range(int(coarse[k - 1]) + 1 if k else 0, int(sample) + 1):
                    reached = self._reach(reached, positions, between, by, time)
            anchors[k] = previous = reached
        t = np.arange(len(positions))
        right = np.clip(np.searchsorted(coarse, t, side="left"), min(1, len(coarse) - 1), None)
        left = np.maximum(right - 1, 0)
        weight = ((t - coarse[left]) / np.maximum(coarse[right] - coarse[left], 1))[:, None]
        guess = anchors[left] * (1 - weight) + anchors[right] * weight
        guess[:, independent] = positions
        q, error = self.close_nearby(guess, by)
        span = self.scaled_change(anchors[right] - anchors[left])
        # Between anchors a branch bends by a few hundredths at most; more is followed step by step.
        doubtful = np.flatnonzero(
            ~(error < LOOP_TOLERANCE) | (self.scaled_change(q - guess) > 0.25 * span + 0.02)
        )
        if doubtful.size:  # most often where the motion turns round between two anchors
            found, good = self._move(anchors[left[doubtful]], positions[doubtful], by)
            q[doubtful[good]] = found[good]
            doubtful = doubtful[~good]
        for sample in doubtful.tolist():
            at = np.searchsorted(coarse, sample)
            q[sample] = (
                anchors[at]
                if coarse[at] == sample
                else self._reach(q[sample - 1], positions, sample, by, time)
            )
        self._check_branch(q, by, time)
        return q

    def _reach(
        self, start: FloatArray, positions: FloatArray, sample: int, by: By, time: FloatArray | None
    ) -> FloatArray:
        """Follow the branch to a sample; raise what explains why that cannot be."""
        reached, fraction = self._follow(start, positions[sample], by)
        if fraction < 1.0:
            raise self._open_loop(reached, positions[sample], by, sample, time)
        return reached

    def _coarse(self, positions: FloatArray, by: By) -> np.ndarray:
        """Return sample indices at which the branch is followed step by step: small moves, at most
        256 apart.
        """
        moves = np.abs(np.diff(positions, axis=0)) / self.step_scale(by)
        travelled = np.concatenate([[0.0], np.cumsum(moves.max(axis=1))])
        bins = np.floor(travelled / STRIDE)
        marks = np.flatnonzero(np.diff(bins) > 0) + 1
        regular = np.arange(0, len(positions), 256)
        return np.unique(np.concatenate([[0], marks, regular, [len(positions) - 1]]))

    def _follow(self, start: FloatArray, target: FloatArray, by: By) -> tuple[FloatArray, float]:
        """Move from an assembled configuration to a target along its branch, with steps as small as
        it takes.

        Beyond a tenth of a radian, or of the robot's length, the tangent says too little: that is
        the longest step. Coordinates that bend no loop (a rotor behind a gear) may move as far as
        they like. Returns the configuration reached and the fraction of the way, 1 if the target
        was reached.
        """
        independent = self.loops.partitions[by].independent
        q = np.array(start)
        origin = q[independent]
        longest = STRIDE / max(float((np.abs(target - origin) / self.step_scale(by)).max()), STRIDE)
        done, step = 0.0, longest
        while done < 1.0:
            goal = min(done + step, 1.0)
            found, good = self._move(q[None], (origin + goal * (target - origin))[None], by)
            if good[0]:
                q, done, step = found[0], goal, min(2 * step, longest)
            else:
                step /= 4
                if step < 1e-7:
                    break
        return q, done

    def _move(self, start: FloatArray, target: FloatArray, by: By) -> tuple[FloatArray, BoolArray]:
        """Move assembled configurations (t, n) to targets (t, m) at once; return where that led and
        what is accepted.

        That is where Newton lands near the tangent prediction q + E dq_I; so a neighbouring branch
        is not.
        """
        independent = self.loops.partitions[by].independent
        tangent = self._closed(kind="map", by=by)(start)[0].reshape(len(start), self._size, -1)
        guess = start + (tangent @ (target - start[:, independent])[:, :, None])[:, :, 0]
        guess[:, independent] = target
        found, error = self.close_nearby(guess, by)
        moved, off = self.scaled_change(found - start), self.scaled_change(found - guess)
        return found, (error < LOOP_TOLERANCE) & (off <= 0.25 * np.minimum(moved, 1.0) + 1e-9)

    def _open_loop(
        self, last: FloatArray, target: FloatArray, by: By, sample: int, time: FloatArray | None
    ) -> Exception:
        """Explain why a sample could not be assembled: `last` is as near as the branch goes."""
        loops = self.loops
        moment, when = _when(sample, time)
        if name := self._without_length(last, NO_LENGTH * loops.length):
            return SingularConfiguration(
                f"the force element '{name}' of '{loops.mechanism.name}' has no length {when}, so "
                f"no direction; keep "
                "the motion away from there, or move one of its points",
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
                f"determining "
                f"'{loose}' (singular value ratio {margin:.1e}); keep the motion away from it",
                sample=sample,
                time=moment,
                singular_value=margin,
                joint=loose,
            )
        tried = np.array(last)
        tried[loops.partitions[by].independent] = target
        phi = np.abs(np.array(loops.equations(tried)[0]).ravel())
        name = loops.mechanism.closures[equation_owners(loops.mechanism)[int(np.argmax(phi))]].name
        return LoopNotClosed(
            f"loop '{name}' is open by {phi.max():.1e} m {when}; the position is out of reach, or "
            f"check the start "
            "pose or the link lengths",
            loop=name,
            sample=sample,
            time=moment,
            residual=float(phi.max()),
        )

    def _without_length(self, q: FloatArray, shortest: float) -> str | None:
        """Return a force element that is shorter than that at some configuration (..., n), if there
        is one.
        """
        mechanism = self.loops.mechanism
        for name, closure in mechanism.forces.items():
            if (q[..., mechanism.coordinates.index(name)] - closure.constant).min() < shortest:
                return name
        return None

    def _check_branch(self, q: FloatArray, by: By, time: FloatArray | None) -> None:
        """Raise if consecutive samples lie on different assembly branches, or a force element has
        no length.

        Steps much larger than the motion of the independent coordinates are compared with E dq_I.
        """
        independent = self.loops.partitions[by].independent
        if self._without_length(q, MIN_FORCE_LENGTH):
            sample = next(k for k in range(len(q)) if self._without_length(q[k], MIN_FORCE_LENGTH))
            raise self._open_loop(q[sample], q[sample, independent], by, sample, time)
        moved = self.scaled_change(np.diff(q, axis=0))
        driven = (np.abs(np.diff(q[:, independent], axis=0)) / self.step_scale(by)).max(axis=1)
        suspects = np.flatnonzero((moved > 20 * driven + 1e-6) | (moved > 0.2))
        if suspects.size == 0:
            return
        actual = q[suspects + 1] - q[suspects]
        mean = 0.5 * (self.closure_map(q[suspects], by) + self.closure_map(q[suspects + 1], by))
        predicted = np.einsum("tnm,tm->tn", mean, actual[:, independent])
        wrong = self.scaled_change(actual - predicted) > 0.5 * self.scaled_change(actual) + 1e-6
        if wrong.any():
            sample = int(suspects[wrong][0]) + 1
            moment, when = _when(sample, time)
            raise LoopNotClosed(
                f"the loops jump to another assembly branch {when}; the motion between two samples "
                f"is too large or "
                "passes a singularity",
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
        """Return the motion of all coordinates from that of the independent ones, (t, m) each.

        It starts near a configuration, home by default.
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


def _when(sample: int, time: FloatArray | None) -> tuple[float, str]:
    """Return the time of a sample, NaN if it is not known, and both in words."""
    if time is None:
        return float("nan"), f"at sample {sample}"
    return float(time[sample]), f"at sample {sample} (t = {time[sample]:.4g} s)"
