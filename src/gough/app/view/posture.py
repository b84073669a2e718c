"""A robot in one pose, moved by its motors or at its platform; its loops may be open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from gough.core.arrays import FloatArray
from gough.core.errors import (
    GoughError,
    InvalidMechanism,
    LoopNotClosed,
    SingularConfiguration,
)
from gough.engine import Model
from gough.engine.assembly import LOOP_TOLERANCE
from gough.engine.kinematics import ClosedChain
from gough.engine.loops import open_loops
from gough.mechanism.types import BASE, Frame, Mechanism

# Step of the difference that gives the platform's Jacobian. [rad or
# lengths of the robot]
JACOBIAN_STEP = 1e-6
# largest move of a motor in one iteration [rad or lengths of the robot]
MAX_MOTOR_STEP = 0.1
# for one pull of the handle, so that the picture follows the hand
PULL_ITERATIONS = 12
PULL_DAMPING = 1e-6  # of the least squares, relative to the trace of J^T J
# gaps smaller than this fraction of the largest are rounding
GAP_ROUNDING = 1e-3


class Gap(NamedTuple):
    """A loop that is not closed."""

    closure: str
    size: float  # the largest residual of its equations [m or rad]
    # the points that should coincide, if any, (2, 3) or (0, 3) [m]
    ends: FloatArray


@dataclass(frozen=True)
class Slider:
    """The range of one coordinate.

    The position limits, else half a turn or the robot's length on both
    sides.
    """

    name: str
    index: int  # of the coordinate
    low: float  # [m or rad]
    high: float  # [m or rad]
    unit: str  # of the coordinate


class Posture:
    """A robot in one pose.

    A robot whose loops cannot be closed is shown in its start pose with
    all real joints free.

    Attributes:
        model: None if the loops cannot be closed.
        problem: Why they cannot be closed; empty if they can.
        q: The configuration, (n,).
        tool: Body of the tool.
        sliders: Of the motors, or of all real joints.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.problem = ""
        self.model: Model | None = None
        try:
            self.model = Model(mechanism)
            self.chain = self.model.kinematics
        except (
            LoopNotClosed,
            SingularConfiguration,
            InvalidMechanism,
        ) as error:
            self.problem = str(error)
            self.chain = ClosedChain(open_loops(mechanism))
        loops = self.chain.loops
        self.q = np.array(loops.home)
        if self.model is None:
            self.tool = mechanism.flange
            real = [i for i, joint in enumerate(mechanism.joints) if not joint.virtual]
            self._moving = real
        else:
            self.tool = self.model.load_body
            self._moving = list(loops.partitions["actuated"].independent)
        self.sliders = tuple(self._slider(i) for i in self._moving)

    def _slider(self, index: int) -> Slider:
        """Return the slider of a coordinate; its range contains the start pose."""
        loops = self.chain.loops
        joint = loops.mechanism.joints[index]
        home = float(loops.home[index])
        reach = np.pi if joint.kind == "revolute" else loops.length
        low, high = joint.limits.position or (home - reach, home + reach)
        return Slider(
            name=joint.name,
            index=index,
            low=float(min(low, home)),
            high=float(max(high, home)),
            unit=joint.unit,
        )

    @property
    def positions(self) -> FloatArray:
        """Coordinates of the sliders, (m,). [m or rad]"""
        return self.q[self._moving]

    def drive(self, positions: FloatArray) -> str:
        """Set the coordinates of the sliders and close the loops.

        Returns:
            Why that fails; the pose does not change then. Empty if it
                succeeds.
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
        names = [body.name for body in self.chain.loops.mechanism.bodies]
        index = names.index(name)
        rotations, origins = self.chain.body_poses(np.ascontiguousarray(q))
        return rotations[:, index], origins[:, index]

    def pull(self, rotation: FloatArray, origin: FloatArray) -> str:
        """Bring the tool as near to a pose as the motors and their limits allow.

        Damped least squares: with J the tool's twist by the motors, dq
        = (J'J + d)^-1 J' e, so that motions that the tool cannot make
        (the rotation of a Delta's platform) remain as error.

        Args:
            rotation: Of the tool in the base frame, (3, 3).
            origin: Of the tool in the base frame, (3,). [m]

        Returns:
            Why it stops early; empty if it does not.
        """
        if self.model is None:
            return "the loops are open: the platform cannot be moved"
        units = self.chain.loops.units[self._moving]
        low = np.array([slider.low for slider in self.sliders])
        high = np.array([slider.high for slider in self.sliders])
        smallest_move = 1e-9 * max(self.chain.loops.length, 1.0)
        for _ in range(PULL_ITERATIONS):
            try:
                step = self._motor_step(rotation, origin, units)
            except GoughError as error:
                return str(error)
            target = np.clip(self.positions + step * units, low, high)
            if np.abs(target - self.positions).max() < smallest_move:
                break
            if problem := self.drive(target):
                return problem
        return ""

    def _motor_step(
        self, rotation: FloatArray, origin: FloatArray, units: FloatArray
    ) -> FloatArray:
        """Return one step of the motors towards a pose of the tool, in their units, (m,).

        Args:
            units: A radian or the length of the robot for each motor,
                (m,).
        """
        length = self.chain.loops.length
        E = self.chain.closure_map(self.q[None], "actuated")[0] * units
        nearby = np.vstack([self.q, self.q + JACOBIAN_STEP * E.T])
        rotations, origins = self._body(self.tool, nearby)
        twists = _twists(rotations[0], origins[0], rotations[1:], origins[1:], length)
        J = twists.T / JACOBIAN_STEP
        error = _twists(rotations[0], origins[0], rotation[None], origin[None], length)[0]
        damping = PULL_DAMPING * max(float(np.trace(J.T @ J)), 1e-12)
        step = np.linalg.solve(J.T @ J + damping * np.eye(len(units)), J.T @ error)
        largest = max(float(np.abs(step).max()), 1e-12)
        return np.asarray(step * min(1.0, MAX_MOTOR_STEP / largest))

    def gaps(self) -> list[Gap]:
        """Return the loops that are not closed, the widest first, without rounding errors."""
        loops = self.chain.loops
        residuals = np.abs(np.array(loops.equations(self.q)[0]).ravel())
        gaps: list[Gap] = []
        row = 0
        for closure in loops.mechanism.closures:
            rows = slice(row, row + closure.equations)
            row += closure.equations
            residual = residuals[rows]
            if not (residual * loops.weights[rows]).max() < LOOP_TOLERANCE:
                ends = np.array([self._point(frame) for frame in closure.frames])
                gaps.append(Gap(closure.name, float(residual.max()), ends.reshape(-1, 3)))
        gaps.sort(key=lambda gap: -gap.size)
        return [gap for gap in gaps if gap.size > GAP_ROUNDING * gaps[0].size]

    def _point(self, frame: Frame) -> FloatArray:
        """Return the origin of a frame in the base frame, (3,). [m]"""
        local = np.asarray(frame.placement.translation)
        if frame.body == BASE:
            return local
        rotations, origins = self._body(frame.body, self.q[None])
        return np.asarray(origins[0] + rotations[0] @ local)

    def describe(self) -> list[str]:
        """Return lines about the pose: open loops, or singularities and exceeded limits."""
        if self.model is None:
            lines = [self.problem]
            for gap in self.gaps():
                lines.append(f"loop '{gap.closure}' is open by {gap.size:.3g} m (or rad)")
            return lines
        lines = []
        margins = self.chain.margins(self.q[None])
        for number, margin in (
            (1, float(margins.type1[0])),
            (2, float(margins.type2[0])),
        ):
            if np.isfinite(margin):
                lines.append(f"Type-{number} singularity: margin {margin:.3g}")
        for joint, position in zip(self.chain.loops.mechanism.joints, self.q):
            low, high = joint.limits.position or (-np.inf, np.inf)
            if not low <= position <= high:
                lines.append(
                    f"'{joint.name}' at {position:.4g} {joint.unit} is beyond its limits {low:g} "
                    f"to {high:g}"
                )
        return lines


def _twists(
    rotation: FloatArray,
    origin: FloatArray,
    rotations: FloatArray,
    origins: FloatArray,
    length: float,
) -> FloatArray:
    """Return the small motions from one frame to k others, (k, 6).

    Translation over length, then rotation vector.
    """
    translations = (origins - origin) / length
    rotation_vectors = Rotation.from_matrix(rotations @ rotation.T).as_rotvec()
    return np.concatenate([translations, rotation_vectors], axis=1)
