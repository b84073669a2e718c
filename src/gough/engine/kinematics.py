"""Motions of a closed chain: all coordinates along one branch, sample after sample."""

from __future__ import annotations

from typing import cast

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput, LoopNotClosed, SingularConfiguration
from gough.core.motion import Motion
from gough.engine.assembly import CLOSED
from gough.engine.chain import Chain
from gough.engine.loops import SHORTEST, By

STRIDE = 0.1  # longest move at once along a branch [rad or lengths of the robot]
NO_LENGTH = 1e-4  # of the robot: shorter force elements are named where the loops cannot be followed


class ClosedChain(Chain):
    """A chain that is followed along its branches."""

    def assemble(self, positions: FloatArray, by: By = "actuated", *, start: FloatArray | None = None,
                 time: FloatArray | None = None) -> FloatArray:
        """Find all coordinates from the independent ones, on one branch.

        A coarse sequential pass follows the branch from the start; the samples between are refined in parallel and the
        continuity of the result is checked.

        Args:
            positions: Independent coordinates, (t, m). Redundant robots: all actuated (t, a); a well-conditioned
                subset is used. [m or rad]
            by: Which coordinates these are.
            start: A configuration near the first sample, (n,), or near every sample, (t, n); home by default.
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
        if not self.loops.partitions[by].dependent:
            q = np.empty((len(positions), self._size))
            q[:, independent] = positions
            return q
        previous = np.array(self.loops.home if start is None else start, dtype=float)
        check_shape(previous, (self._size,) if previous.ndim == 1 else (len(positions), self._size), "start")
        check_finite(previous, "start")
        if previous.ndim == 2:
            guess = previous.copy()
            guess[:, independent] = positions
            q, error = self.close(guess, by)
            if (error < CLOSED).all() and self.bent(q - guess).max() < 0.1:
                self._check_branch(q, by, time)
                return q
            previous = previous[0]
        coarse = self._coarse(positions, by)
        anchors = np.empty((len(coarse), self._size))
        for k, sample in enumerate(coarse):
            reached, fraction = self._follow(previous, positions[sample], by)
            if fraction < 1.0:  # find the first sample that fails, not the anchor behind it
                for between in range(int(coarse[k - 1]) + 1 if k else 0, int(sample) + 1):
                    reached, fraction = self._follow(previous, positions[between], by)
                    if fraction < 1.0:
                        raise self._open_loop(reached, positions[between], by, between, time)
                    previous = reached
            anchors[k] = previous = reached
        t = np.arange(len(positions))
        right = np.clip(np.searchsorted(coarse, t, side="left"), min(1, len(coarse) - 1), None)
        left = np.maximum(right - 1, 0)
        weight = ((t - coarse[left]) / np.maximum(coarse[right] - coarse[left], 1))[:, None]
        guess = anchors[left] * (1 - weight) + anchors[right] * weight
        guess[:, independent] = positions
        q, error = self.close(guess, by)
        span = self.bent(anchors[right] - anchors[left])
        # Between anchors a branch bends by a few hundredths at most; more is followed step by step.
        doubtful = np.flatnonzero(~(error < CLOSED) | (self.bent(q - guess) > 0.25 * span + 0.02))
        if doubtful.size:  # most often where the motion turns round between two anchors
            found, good = self._move(anchors[left[doubtful]], positions[doubtful], by)
            q[doubtful[good]] = found[good]
            doubtful = doubtful[~good]
        for sample in doubtful.tolist():
            if sample in coarse:
                q[sample] = anchors[np.searchsorted(coarse, sample)]
                continue
            reached, fraction = self._follow(q[sample - 1], positions[sample], by)
            if fraction < 1.0:
                raise self._open_loop(reached, positions[sample], by, sample, time)
            q[sample] = reached
        self._check_branch(q, by, time)
        return q

    def _coarse(self, positions: FloatArray, by: By) -> np.ndarray:
        """Return sample indices at which the branch is followed step by step: small moves, at most 256 apart."""
        moves = np.abs(np.diff(positions, axis=0)) / self.strides(by)
        travelled = np.concatenate([[0.0], np.cumsum(moves.max(axis=1))])
        bins = np.floor(travelled / STRIDE)
        marks = np.flatnonzero(np.diff(bins) > 0) + 1
        regular = np.arange(0, len(positions), 256)
        return np.unique(np.concatenate([[0], marks, regular, [len(positions) - 1]]))

    def _follow(self, start: FloatArray, target: FloatArray, by: By) -> tuple[FloatArray, float]:
        """Move from an assembled configuration to a target along its branch, with steps as small as it takes.

        Beyond a tenth of a radian, or of the robot's length, the tangent says too little: that is the longest step.
        Coordinates that bend no loop (a rotor behind a gear) may move as far as they like.

        Returns:
            The configuration reached and the fraction of the way, 1 if the target was reached.
        """
        independent = self.loops.partitions[by].independent
        q = np.array(start)
        origin = q[independent]
        longest = STRIDE / max(float((np.abs(target - origin) / self.strides(by)).max()), STRIDE)
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
        """Move assembled configurations (t, n) to targets (t, m) at once; return where that led and what is accepted.

        That is where Newton lands near the tangent prediction q + E dq_I; so a neighbouring branch is not.
        """
        independent = self.loops.partitions[by].independent
        tangent = self._closed("map", by)(start)[0].reshape(len(start), self._size, -1)
        guess = start + (tangent @ (target - start[:, independent])[:, :, None])[:, :, 0]
        guess[:, independent] = target
        found, error = self.close(guess, by)
        moved, off = self.bent(found - start), self.bent(found - guess)
        return found, (error < CLOSED) & (off <= 0.25 * np.minimum(moved, 1.0) + 1e-9)

    def _open_loop(self, last: FloatArray, target: FloatArray, by: By, sample: int,
                   time: FloatArray | None) -> Exception:
        """Explain why a sample could not be assembled: `last` is as near as the branch goes."""
        loops = self.loops
        moment, when = _when(sample, time)
        if name := self._without_length(last, NO_LENGTH * loops.length):
            return SingularConfiguration(
                f"the force element '{name}' of '{loops.mechanism.name}' has no length {when}, so no direction; keep "
                "the motion away from there, or move one of its points", sample=sample, time=moment, singular_value=0.0,
                joint=name)
        margin = loops.margin(last, by)
        if margin < 1e-2 * loops.margin(loops.home, by):
            loose = loops.loosest(last, by)
            return SingularConfiguration(
                f"'{loops.mechanism.name}' reaches a singularity {when}: the {by} coordinates stop determining "
                f"'{loose}' (singular value ratio {margin:.1e}); keep the motion away from it",
                sample=sample, time=moment, singular_value=margin, joint=loose)
        tried = np.array(last)
        tried[loops.partitions[by].independent] = target
        phi = np.abs(np.array(loops.equations(tried)[0]).ravel())
        name = loops.loop_name(int(np.argmax(phi)))
        return LoopNotClosed(
            f"loop '{name}' is open by {phi.max():.1e} m {when}; the position is out of reach, or check the start "
            "pose or the link lengths", loop=name, sample=sample, time=moment, residual=float(phi.max()))

    def _without_length(self, q: FloatArray, shortest: float) -> str | None:
        """Return a force element that is shorter than that at some configuration (..., n), if there is one."""
        mechanism = self.loops.mechanism
        for name, closure in mechanism.forces.items():
            if (q[..., mechanism.coordinates.index(name)] - closure.constant).min() < shortest:
                return name
        return None

    def _check_branch(self, q: FloatArray, by: By, time: FloatArray | None) -> None:
        """Raise if consecutive samples lie on different assembly branches, or a force element has no length.

        Steps much larger than the motion of the independent coordinates are compared with E dq_I.
        """
        independent = self.loops.partitions[by].independent
        if self._without_length(q, SHORTEST):
            sample = next(k for k in range(len(q)) if self._without_length(q[k], SHORTEST))
            raise self._open_loop(q[sample], q[sample, independent], by, sample, time)
        moved = self.bent(np.diff(q, axis=0))
        driven = (np.abs(np.diff(q[:, independent], axis=0)) / self.strides(by)).max(axis=1)
        suspects = np.flatnonzero((moved > 20 * driven + 1e-6) | (moved > 0.2))
        if suspects.size == 0:
            return
        actual = q[suspects + 1] - q[suspects]
        mean = 0.5 * (self.closure_map(q[suspects], by) + self.closure_map(q[suspects + 1], by))
        predicted = np.einsum("tnm,tm->tn", mean, actual[:, independent])
        wrong = self.bent(actual - predicted) > 0.5 * self.bent(actual) + 1e-6
        if wrong.any():
            sample = int(suspects[wrong][0]) + 1
            moment, when = _when(sample, time)
            raise LoopNotClosed(
                f"the loops jump to another assembly branch {when}; the motion between two samples is too large or "
                "passes a singularity", loop="", sample=sample, time=moment,
                residual=float(np.abs(actual[wrong][0]).max()))

    def motion(self, time: FloatArray, position: FloatArray, velocity: FloatArray, acceleration: FloatArray,
               by: By = "actuated", *, start: FloatArray | None = None) -> Motion:
        """Return the motion of all coordinates from that of the independent ones.

        Args:
            time: (t,). [s]
            position, velocity, acceleration: Of the independent coordinates, (t, m). [m or rad, per s, per s2]
            by: Which coordinates these are.
            start: A configuration near the first sample; home by default.
        """
        check_finite(np.asarray(velocity, dtype=float), f"{by} velocities")
        check_finite(np.asarray(acceleration, dtype=float), f"{by} accelerations")
        q = self.assemble(position, by, start=start, time=time)
        try:
            qd, qdd = self.rates(q, velocity, acceleration, by)
        except SingularConfiguration as error:
            moment = float(time[cast(int, error.sample)])
            raise SingularConfiguration(str(error), **(error.numbers | {"time": moment})) from None
        return Motion(coordinates=self.loops.mechanism.coordinates, time=time, q=q, qd=qd, qdd=qdd,
                      closure_residual=self.residual(q))


def _when(sample: int, time: FloatArray | None) -> tuple[float, str]:
    """Return the time of a sample, NaN if it is not known, and both in words."""
    if time is None:
        return float("nan"), f"at sample {sample}"
    return float(time[sample]), f"at sample {sample} (t = {time[sample]:.4g} s)"
