"""A robot in one pose, moved by its motors or pulled at its platform; its loops may be open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from gough.core.arrays import FloatArray
from gough.core.errors import GoughError, InvalidMechanism, LoopNotClosed, SingularConfiguration
from gough.engine import Model
from gough.engine.kinematics import ClosedChain
from gough.engine.loops import LOOP_TOLERANCE, open_loops
from gough.mechanism.types import BASE, Frame, Mechanism

# step of the difference that gives the platform's Jacobian [rad or lengths of the robot]
PROBE = 1e-6
PULL = 0.1  # longest move of a motor at once [rad or lengths of the robot]
PULLS = 12  # moves at most for one pull of the handle, so that the picture follows the hand


class Gap(NamedTuple):
    """A loop that is not closed: the largest of its equations [m or rad], the points that should
    meet, if any [m].
    """

    closure: str
    size: float
    ends: FloatArray


@dataclass(frozen=True)
class Slider:
    """What one coordinate may be set to: the position limits, else half a turn or the robot's
    length to both sides.
    """

    name: str
    index: int
    low: float
    high: float
    unit: str


class Posture:
    """A robot in one pose.

    A robot that does not assemble is there too: in its start pose, every real joint free, with the
    reason in `problem`.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.problem = ""
        self.model: Model | None = None
        try:
            self.model = Model(mechanism)
            self.chain = self.model.kinematics
        except (LoopNotClosed, SingularConfiguration, InvalidMechanism) as error:
            self.problem = str(error)
            self.chain = ClosedChain(open_loops(mechanism))
        loops = self.chain.loops
        self.q = np.array(loops.home)
        self.tool = mechanism.flange if self.model is None else self.model.load_body
        sliders = []
        for i in (
            [i for i, joint in enumerate(mechanism.joints) if not joint.virtual]
            if self.model is None
            else loops.partitions["actuated"].independent
        ):
            joint, home = loops.mechanism.joints[i], float(loops.home[i])
            reach = np.pi if joint.kind == "revolute" else loops.length
            low, high = joint.limits.position or (home - reach, home + reach)
            sliders.append(
                Slider(joint.name, i, float(min(low, home)), float(max(high, home)), joint.unit)
            )
        self.sliders = tuple(sliders)
        self._moving = [slider.index for slider in sliders]

    @property
    def positions(self) -> FloatArray:
        """What the sliders show, (m,). [m or rad]"""
        return self.q[self._moving]

    def drive(self, positions: FloatArray) -> str:
        """Set the sliders' coordinates and close the loops; return why that fails, the pose then
        stays as it was.
        """
        if self.model is None:
            self.q[self._moving] = positions
            return ""
        try:
            self.q = self.chain.close_loops(np.asarray(positions, dtype=float)[None], start=self.q)[
                0
            ]
        except GoughError as error:
            return str(error)
        return ""

    def place(self) -> tuple[FloatArray, FloatArray]:
        """Return rotation (3, 3) and origin (3,) of the tool's body in the base frame."""
        rotations, origins = self._body(self.tool, self.q[None])
        return rotations[0], origins[0]

    def _body(self, name: str, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rotations (t, 3, 3) and origins (t, 3) of a body."""
        body = [body.name for body in self.chain.loops.mechanism.bodies].index(name)
        rotations, origins = self.chain.body_poses(np.ascontiguousarray(q))
        return rotations[:, body], origins[:, body]

    def pull(self, rotation: FloatArray, origin: FloatArray) -> str:
        """Bring the tool as near to a place as the motors and their limits let it; return why it
        stops early.

        Damped least squares: with J the tool's twist by the motors, dq = (J'J + d)^-1 J' e, so that
        what the tool cannot do (the rotation of a Delta's platform) is left, not enforced.
        """
        if self.model is None:
            return "the loops are open: the platform cannot be moved"
        units, length = self.chain.loops.units[self._moving], self.chain.loops.length
        low, high = np.array([(slider.low, slider.high) for slider in self.sliders]).T
        for _ in range(PULLS):
            try:
                E = self.chain.closure_map(self.q[None], "actuated")[0] * units
            except GoughError as error:
                return str(error)
            turns, places = self._body(self.tool, np.vstack([self.q, self.q + PROBE * E.T]))
            J = _twists(turns[0], places[0], turns[1:], places[1:], length).T / PROBE
            missing = _twists(turns[0], places[0], rotation[None], origin[None], length)[0]
            damping = 1e-6 * max(float(np.trace(J.T @ J)), 1e-12)
            step = np.linalg.solve(J.T @ J + damping * np.eye(len(units)), J.T @ missing)
            step *= min(1.0, PULL / max(float(np.abs(step).max()), 1e-12))
            target = np.clip(self.positions + step * units, low, high)
            if np.abs(target - self.positions).max() < 1e-9 * max(length, 1.0):
                break
            if trouble := self.drive(target):
                return trouble
        return ""

    def gaps(self) -> list[Gap]:
        """Return the loops that are not closed, the widest first; those a thousand times as narrow
        are rounding.
        """
        loops = self.chain.loops
        residual = np.abs(np.array(loops.equations(self.q)[0]).ravel())
        found, row = [], 0
        for closure in loops.mechanism.closures:
            mine = slice(row, row + closure.equations)
            row += closure.equations
            if not (residual[mine] * loops.weights[mine]).max() < LOOP_TOLERANCE:
                ends = np.array([self._point(frame) for frame in closure.frames]).reshape(-1, 3)
                found.append(Gap(closure.name, float(residual[mine].max()), ends))
        found.sort(key=lambda gap: -gap.size)
        return [gap for gap in found if gap.size > 1e-3 * found[0].size]

    def _point(self, frame: Frame) -> FloatArray:
        local = np.asarray(frame.placement.translation)
        if frame.body == BASE:
            return local
        rotations, origins = self._body(frame.body, self.q[None])
        return np.asarray(origins[0] + rotations[0] @ local)

    def describe(self) -> list[str]:
        """Return what to know of the pose: open loops, or distance to singularities, and motors at
        their limits.
        """
        if self.model is None:
            return [
                self.problem,
                *(
                    f"loop '{gap.closure}' is open by {gap.size:.3g} m (or rad)"
                    for gap in self.gaps()
                ),
            ]
        margins = self.chain.margins(self.q[None])
        lines = [
            f"Type-{k} singularity: margin {value:.3g}"
            for k, value in ((1, float(margins.type1[0])), (2, float(margins.type2[0])))
            if np.isfinite(value)
        ]
        for joint, value in zip(self.chain.loops.mechanism.joints, self.q):
            low, high = joint.limits.position or (-np.inf, np.inf)
            if not low <= value <= high:
                lines.append(
                    f"'{joint.name}' at {value:.4g} {joint.unit} is beyond its limits {low:g} to "
                    f"{high:g}"
                )
        return lines


def _twists(
    turn: FloatArray, place: FloatArray, to: FloatArray, at: FloatArray, length: float
) -> FloatArray:
    """Return the small motions from one frame to others: translation over length, then rotation
    vector, (k, 6).
    """
    return np.concatenate(
        [(at - place) / length, Rotation.from_matrix(to @ turn.T).as_rotvec()], axis=1
    )
