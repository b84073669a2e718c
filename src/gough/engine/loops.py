"""Closed loops of a mechanism: independent coordinates, and how the others follow from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import plain
from gough.core.errors import InvalidInput, InvalidMechanism
from gough.engine.assembly import number
from gough.engine.elimination import Pivots, solve
from gough.engine.symbolic import (
    Transform,
    body_transforms,
    closure_ends,
    closure_equations,
    equation_owners,
)
from gough.kernels.kernel import hash_of_package
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Mechanism

By = Literal["actuated", "task"]
# Weight of |E u| in the check of an elimination: it exceeds the
# tolerance 1e-9 where a dependent coordinate is 1e8 times as fast as
# the independent ones.
SPEED_CHECK_WEIGHT = 1e-17
# Packages whose source graphs of a robot depend on, beside that of the
# code generator.
GRAPH_PACKAGES = ("gough.core", "gough.mechanism", "gough.engine")
# Length of a force element below which its direction is only rounding.
# [m]
MIN_FORCE_LENGTH = 1e-9


@dataclass(frozen=True, eq=False)
class Partition:
    """A choice of independent coordinates; lists of indices serve NumPy and CasADi alike."""

    independent: list[int]  # independent coordinates, (m,)
    dependent: list[int]  # the others, (n - m,)
    # Closure equations that determine the dependent coordinates, (n -
    # m,); the other equations are redundant but consistent.
    rows: list[int]
    pivots: Pivots  # elimination order of K[rows, dependent]


@dataclass(frozen=True, eq=False)
class Loops:
    """The closed loops of a mechanism in its reference configuration."""

    mechanism: Mechanism
    # reference configuration: all coordinates, loops closed, (n,) [m or
    # rad]
    home: FloatArray
    neighbours: FloatArray  # closed configurations near the reference, (s, n)
    # characteristic length that makes angles and lengths comparable [m]
    length: float
    # q -> closure residual (c,) and its Jacobian K (c, n)
    equations: ca.Function
    # coordinates in nonlinear closures; the loops bound their motion
    loop_coordinates: list[int]
    degrees_of_freedom: int = 0  # n - rank K
    # By actuated coordinates, and by task coordinates if these
    # determine the others. If a platform has more coordinates than
    # degrees of freedom, as many of them are independent.
    partitions: dict[By, Partition] = field(default_factory=dict)
    # partition whose coordinates are the rows of the dynamics
    dynamic: By = "actuated"
    assembly: str = ""  # how the reference configuration was found, in words
    # Joints without motor that are locked: they turn bodies about their
    # own centres of mass.
    locked: tuple[str, ...] = ()

    @cached_property
    def graph_key(self) -> str:
        """Digest of all that graphs of the closed chain depend on: robot, elimination, source.

        It is empty if the robot has a kind of closure that is not
        Gough's own, whose code may change unnoticed.
        """
        for closure in self.mechanism.closures:
            if not CLOSURES[closure.kind].is_built_in:
                return ""
        mechanism = replace(self.mechanism, title="", reference="", source="")
        chain = {
            "mechanism": mechanism,
            "terms": mechanism.terms,
            "home": self.home,
            "length": self.length,
            "partitions": self.partitions,
            "dynamic": self.dynamic,
        }
        source = [hash_of_package(package) for package in GRAPH_PACKAGES]
        text = json.dumps([plain(chain), source, ca.CasadiMeta.version()])
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def units(self) -> FloatArray:
        """One radian, or the robot's length, for each coordinate, (n,). [m or rad]"""
        units = np.ones(len(self.mechanism.joints))
        for i, joint in enumerate(self.mechanism.joints):
            if joint.kind != "revolute":
                units[i] = self.length
        return units

    @cached_property
    def weights(self) -> FloatArray:
        """Factors that make a closure residual [m or rad] a fraction of the robot, (c,)."""
        kinds = {joint.name: joint.kind for joint in self.mechanism.joints}
        per_length = 1 / self.length
        weights: list[float] = []
        for closure in self.mechanism.closures:
            revolute = all(kinds[joint] == "revolute" for joint in closure.coefficients)
            joints = 1.0 if revolute else per_length
            by_unit = {"rad": 1.0, "m": per_length, "joints": joints}
            weights += [by_unit[unit] for unit in CLOSURES[closure.kind].units]
        return np.array(weights)

    def partition_of(self, by: By) -> Partition:
        """Return the partition by actuated or by task coordinates.

        Raises:
            InvalidInput: The robot cannot be driven by these
                coordinates.
        """
        if by not in self.partitions:
            raise InvalidInput(
                f"'{self.mechanism.name}' cannot be driven by its {by} coordinates: it has "
                f"{len(self.mechanism.task)} of them and {self.degrees_of_freedom} degrees of "
                "freedom; use the actuated coordinates"
            )
        return self.partitions[by]

    def names(self, by: By) -> tuple[str, ...]:
        """Return the independent coordinates of a partition; none if there is no such partition."""
        if by not in self.partitions:
            return ()
        independent = self.partitions[by].independent
        return tuple(self.mechanism.coordinates[i] for i in independent)

    def partition_driven_by(self, coordinates: Sequence[str]) -> By:
        """Return the partition whose independent coordinates a trajectory of these moves."""
        if coordinates and tuple(coordinates) == self.names("task"):
            return "task"
        return "actuated"

    @cached_property
    def redundant(self) -> bool:
        """Whether the robot has more motors than degrees of freedom."""
        return len(self.mechanism.actuated) > self.degrees_of_freedom

    def scaled(self, jacobian: FloatArray) -> FloatArray:
        """Return K without dimensions, (..., c, n): columns times `units`, rows times `weights`."""
        return jacobian * (self.weights[:, None] * self.units)

    def residual(self, q: FloatArray) -> FloatArray:
        """Return the closure residual at one configuration, as fractions of the robot, (c,)."""
        return np.array(self.equations(q)[0]).ravel() * self.weights

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return scaled K at one configuration, (c, n)."""
        return self.scaled(np.array(self.equations(q)[1]))

    def free_motions(self, q: FloatArray) -> FloatArray:
        """Return the directions in which a configuration can move, (m, n).

        They are the null space of scaled K, in radians or lengths of
        the robot.
        """
        _, _, directions = np.linalg.svd(self.jacobian(q))
        return np.asarray(directions[len(q) - self.degrees_of_freedom :])

    def margin(self, q: FloatArray, by: By) -> float:
        """Return the distance to singularity of a partition at one configuration; 0 is singular.

        It is the smallest over the largest singular value of scaled
        K_D.
        """
        dependent = self.partitions[by].dependent
        if not dependent:
            return 1.0
        singular_values = np.linalg.svd(self.jacobian(q)[:, dependent], compute_uv=False)
        return float(singular_values[-1] / singular_values[0])

    def least_constrained(self, q: FloatArray, by: By) -> str:
        """Return the dependent coordinate that moves most with the independent ones locked.

        Args:
            q: A configuration at or near a singularity, (n,).
        """
        dependent = self.partitions[by].dependent
        _, _, directions = np.linalg.svd(self.jacobian(q)[:, dependent])
        fastest = int(np.argmax(np.abs(directions[-1])))
        return self.mechanism.coordinates[dependent[fastest]]

    def twists(self, body: str, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the pose of a frame, (4, 4), and its velocities in all free motions, (6, k).

        The pose is that in the reference configuration. Velocities are
        those there and nearby: in the reference configuration, where an
        arm may be stretched, directions may be missing.

        Args:
            body: Body that carries the frame.
            at: Pose of the frame on the body, (4, 4).
        """
        n = len(self.home)
        q = ca.SX.sym("q", n)
        mounting = Transform(ca.SX(at[:3, :3]), ca.SX(at[:3, 3]))
        frame = body_transforms(self.mechanism, q)[body] @ mounting
        outputs = [
            ca.densify(frame.rotation),
            ca.densify(frame.translation),
            frame.jacobian(q),
        ]
        evaluate = ca.Function("frame", [q], outputs)
        rotation, translation, _ = evaluate(self.home)
        pose = np.eye(4)
        pose[:3, :3] = np.array(rotation)
        pose[:3, 3:] = np.array(translation)
        configurations = self.neighbours[:4]
        if not self.mechanism.closures:
            change = np.random.default_rng(0).uniform(-1, 1, (3, n))
            nearby = self.home + 0.1 * self.units * change
            configurations = np.vstack([self.home, nearby])
        velocities = []
        for configuration in configurations:
            jacobian = np.array(evaluate(configuration)[2])
            directions = self.free_motions(configuration) * self.units
            velocities.append(jacobian @ directions.T)
        return pose, np.hstack(velocities)


def open_loops(mechanism: Mechanism) -> Loops:
    """Return the loops of a mechanism at its start values, closed or not, without partitions."""
    q = ca.SX.sym("q", len(mechanism.joints))
    phi = closure_equations(mechanism, q)
    equations = ca.Function("closures", [q], [phi, ca.densify(ca.jacobian(phi, q))])
    start = np.array([joint.start for joint in mechanism.joints])
    residual = np.array(equations(start)[0]).ravel()
    owners = equation_owners(mechanism)
    for (
        name,
        closure,
    ) in mechanism.forces.items():  # their coordinates follow from the others
        i = mechanism.coordinates.index(name)
        equation = owners.index(mechanism.closures.index(closure))
        length = float(residual[equation] + start[i] - closure.constant)
        if not length > MIN_FORCE_LENGTH:
            raise InvalidMechanism(
                f"[[force]] '{name}' has the length {length:.1e} m at the start pose: its points "
                "coincide and it has no direction; move one of them, or the start pose",
                force=name,
                length=length,
            )
        start[i] += residual[equation]
    nonlinear = [r for r in range(phi.shape[0]) if ca.depends_on(ca.jacobian(phi[r], q), q)]
    pattern = ca.jacobian(phi[nonlinear], q).sparsity()
    return Loops(
        mechanism=mechanism,
        home=start,
        neighbours=start[None],
        equations=equations,
        length=_characteristic_length(mechanism, start),
        loop_coordinates=sorted(set(pattern.get_triplet()[1])),
    )


def _characteristic_length(mechanism: Mechanism, q: FloatArray) -> float:
    """Return the rms distance of body origins and closure points from their mean. [m]"""
    poses = body_transforms(mechanism, ca.SX(ca.DM(q)))
    places = list(poses.values())
    for closure in mechanism.closures:
        for frame, end in zip(closure.frames, closure_ends(closure, poses)):
            if frame.body != BASE:
                places.append(end)
    points = np.array([number(place.translation).ravel() for place in places])
    squares = ((points - points.mean(axis=0)) ** 2).sum(axis=1)
    length = float(np.sqrt(squares.mean()))
    # If all points coincide, as in a spherical wrist, any length will
    # do.
    return length if length > 1e-9 else 1e-3


class LoopExpressions:
    """The closed chain as expressions of q, for one partition.

        qd = E v,  qdd = E a + e,  E = [1; -K_D^-1 K_I],  e_D = -K_D^-1 (dK/dt) qd

    With K in fractions of the robot and u moving every independent
    coordinate by a radian or the robot's length, the check is |K E u| /
    (|K| |E u|), which is rounding if the fixed pivots suit and larger
    if they do not, plus a small multiple of |E u| that matters only
    where the closures lose rank: elimination may solve singular
    equations exactly.

    Attributes:
        q: Symbols of all coordinates, (n,).
        partition: The partition.
        residual, jacobian: phi (c,) and K (c, n) of all closures.
        closure_map: E, (n, m).
        check: Error of the elimination; 0 without closures.
    """

    def __init__(self, loops: Loops, by: By, q: ca.SX) -> None:
        self.q = q
        self.partition = loops.partitions[by]
        self.residual = closure_equations(loops.mechanism, q)
        self.jacobian = ca.jacobian(self.residual, q)
        independent = self.partition.independent
        dependent = self.partition.dependent
        rows = self.partition.rows
        self.closure_map = ca.SX(q.shape[0], len(independent))
        self.check = ca.SX(0)
        for k, i in enumerate(independent):
            self.closure_map[i, k] = 1
        if dependent:
            self.closure_map[dependent, :] = self._solve(-self.jacobian[rows, independent])
            velocity = self.closure_map @ ca.DM(loops.units[independent])
            K = ca.DM(np.diag(loops.weights[rows])) @ self.jacobian[rows, :]
            scale = ca.sqrt(ca.sumsqr(ca.fabs(K) @ ca.fabs(velocity)))
            speed = ca.sqrt(ca.sumsqr(velocity / ca.DM(loops.units)))
            error = ca.sqrt(ca.sumsqr(K @ velocity)) / scale
            self.check = error + SPEED_CHECK_WEIGHT * speed

    def _solve(self, right: ca.SX) -> ca.SX:
        """Return K_D^-1 right."""
        partition = self.partition
        K = self.jacobian[partition.rows, partition.dependent]
        return solve(K, right, partition.pivots)

    def rates(self, velocity: ca.SX, acceleration: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return velocities and accelerations of all coordinates, (n,) each."""
        # Dense, because the velocity of a coordinate may be
        # structurally zero.
        qd = ca.densify(self.closure_map @ velocity)
        qdd = ca.densify(self.closure_map @ acceleration)
        dependent = self.partition.dependent
        if dependent:
            v = ca.SX.sym("v", self.q.shape[0])
            residual_rate = self.jacobian[self.partition.rows, :] @ v
            bias = ca.substitute(ca.jtimes(residual_rate, self.q, v), v, qd)
            qdd[dependent] += self._solve(-bias)
        return qd, qdd

    def newton_step(self) -> ca.SX:
        """Return the Newton step of the dependent coordinates that closes the loops, (n,)."""
        step = ca.SX(self.q.shape[0], 1)
        if self.partition.dependent:
            step[self.partition.dependent] = self._solve(-self.residual[self.partition.rows])
        return step
