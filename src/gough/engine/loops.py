"""Which coordinates are independent, and how the others follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, InvalidMechanism
from gough.engine.assembly import CLOSED as CLOSED, number
from gough.engine.elimination import Pivots, solve
from gough.engine.symbolic import (
    Transform,
    body_transforms,
    closure_ends,
    closure_equations,
    equation_owners,
)
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Mechanism

By = Literal["actuated", "task"]
# a dependent coordinate 1e8 times as fast as the independent ones is looked at again
GROWTH = 1e-17
SHORTEST = 1e-9  # length of a force element below which rounding makes its direction [m]


@dataclass(frozen=True, eq=False)
class Partition:
    """A choice of independent coordinates, as lists of indices, which NumPy and CasADi take as
    such.

    Args:
        independent: (m,).
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
        partitions: By actuated, and by task coordinates where these determine the rest: by as many
            of them as there are degrees of freedom, if the platform has more coordinates than that.
        dynamic: The partition whose coordinates are the rows of the dynamics.
        neighbours: Other assembled configurations near home, (s, n).
        length: Characteristic length that makes angles and lengths comparable. [m]
        equations: q -> closure residual (c,) and its Jacobian K (c, n).
        loop_coordinates: Coordinates in nonlinear closures; the loops bound their motion.
        assembly: How home was found, in words.
        locked: Joints without a motor that are locked: all they do is turn bodies about their own
            centres of mass.
    """

    mechanism: Mechanism
    home: FloatArray
    neighbours: FloatArray
    length: float
    equations: ca.Function
    loop_coordinates: list[int]
    degrees_of_freedom: int = 0
    partitions: dict[By, Partition] = field(default_factory=dict)
    dynamic: By = "actuated"
    assembly: str = ""
    locked: tuple[str, ...] = ()

    @cached_property
    def units(self) -> FloatArray:
        """One radian, or the robot's length, for each coordinate, (n,). [m or rad]"""
        return np.array(
            [1.0 if joint.kind == "revolute" else self.length for joint in self.mechanism.joints]
        )

    @cached_property
    def weights(self) -> FloatArray:
        """What makes a closure residual [m or rad] a fraction of the robot, (c,)."""
        kinds, weights = {joint.name: joint.kind for joint in self.mechanism.joints}, list[float]()
        for closure in self.mechanism.closures:
            turning = all(kinds[joint] == "revolute" for joint in closure.coefficients)
            units = {
                "rad": 1.0,
                "m": 1 / self.length,
                "joints": 1.0 if turning else 1 / self.length,
            }
            weights += [units[unit] for unit in CLOSURES[closure.kind].units]
        return np.array(weights)

    def partition_of(self, by: By) -> Partition:
        """Return which coordinates are independent; `InvalidInput` if the robot cannot be driven by
        such.
        """
        if by not in self.partitions:
            raise InvalidInput(
                f"'{self.mechanism.name}' cannot be driven by its {by} coordinates: it has "
                f"{len(self.mechanism.task)} "
                f"of them and {self.degrees_of_freedom} degrees of freedom; use the actuated "
                f"coordinates"
            )
        return self.partitions[by]

    def names(self, by: By) -> tuple[str, ...]:
        """Return the independent coordinates of a partition; none if the robot has no such
        partition.
        """
        part = self.partitions.get(by)
        return (
            () if part is None else tuple(self.mechanism.coordinates[i] for i in part.independent)
        )

    def partition_driven_by(self, coordinates: Sequence[str]) -> By:
        """Return which partition a trajectory of these coordinates moves."""
        return "task" if coordinates and tuple(coordinates) == self.names("task") else "actuated"

    @property
    def redundant(self) -> bool:
        """More motors than degrees of freedom."""
        return len(self.mechanism.actuated) > self.degrees_of_freedom

    def scaled(self, jacobian: FloatArray) -> FloatArray:
        """Make K dimensionless: prismatic columns times, rows that are lengths over the
        characteristic length.
        """
        return jacobian * (self.weights[:, None] * self.units)

    def residual(self, q: FloatArray) -> FloatArray:
        """Return what the closures are open by at one configuration, as fractions of the robot,
        (c,).
        """
        return np.array(self.equations(q)[0]).ravel() * self.weights

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return scaled K at one configuration, (c, n)."""
        return self.scaled(np.array(self.equations(q)[1]))

    def free_motions(self, q: FloatArray) -> FloatArray:
        """Return the directions in which a configuration can move, (m, n).

        [rad or lengths of the robot]
        """
        return np.asarray(np.linalg.svd(self.jacobian(q))[2][len(q) - self.degrees_of_freedom :])

    def margin(self, q: FloatArray, by: By) -> float:
        """Return the smallest over the largest singular value of scaled K_D at one configuration: 0
        is singular.
        """
        part = self.partitions[by]
        if not part.dependent:
            return 1.0
        values = np.linalg.svd(self.jacobian(q)[:, part.dependent], compute_uv=False)
        return float(values[-1] / values[0])

    def least_constrained(self, q: FloatArray, by: By) -> str:
        """Return the dependent coordinate that moves most where the independent ones are locked at
        a singularity.
        """
        part = self.partitions[by]
        direction = np.linalg.svd(self.jacobian(q)[:, part.dependent])[2][-1]
        return self.mechanism.coordinates[part.dependent[int(np.argmax(np.abs(direction)))]]

    def twists(self, body: str, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the pose of a frame at home, (4, 4), and its velocities there and nearby in all
        free motions, (6, k).

        Nearby, since at home, where an arm may be stretched, some directions may be missing.
        """
        q = ca.SX.sym("q", len(self.home))
        frame = body_transforms(self.mechanism, q)[body] @ Transform(
            ca.SX(at[:3, :3]), ca.SX(at[:3, 3])
        )
        here = ca.Function(
            "frame",
            [q],
            [ca.densify(frame.rotation), ca.densify(frame.translation), frame.jacobian(q)],
        )
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3:] = (np.array(x) for x in here(self.home)[:2])
        near = self.home + 0.1 * self.units * np.random.default_rng(0).uniform(
            -1, 1, (3, len(self.home))
        )
        points = self.neighbours[:4] if self.mechanism.closures else (self.home, *near)
        return pose, np.hstack(
            [np.array(here(x)[2]) @ (self.free_motions(x) * self.units).T for x in points]
        )


def open_loops(mechanism: Mechanism) -> Loops:
    """Return the loops of a mechanism at its start values, closed or not; it has no independent
    coordinates yet.
    """
    q = ca.SX.sym("q", len(mechanism.joints))
    phi = closure_equations(mechanism, q)
    equations = ca.Function("closures", [q], [phi, ca.densify(ca.jacobian(phi, q))])
    start = np.array([joint.start for joint in mechanism.joints])
    gaps, owners = np.array(equations(start)[0]).ravel(), equation_owners(mechanism)
    for name, closure in mechanism.forces.items():  # their coordinates follow from the others
        i, gap = (
            mechanism.coordinates.index(name),
            gaps[owners.index(mechanism.closures.index(closure))],
        )
        length = float(gap + start[i] - closure.constant)
        if not length > SHORTEST:
            raise InvalidMechanism(
                f"[[force]] '{name}' has the length {length:.1e} m at the start pose: its points "
                f"coincide and it has "
                "no direction; move one of them, or the start pose",
                force=name,
                length=length,
            )
        start[i] += gap
    bends = [r for r in range(phi.shape[0]) if ca.depends_on(ca.jacobian(phi[r], q), q)]
    pattern = ca.jacobian(phi[bends], q).sparsity()
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
    places = [
        *poses.values(),
        *(
            end
            for closure in mechanism.closures
            for frame, end in zip(closure.frames, closure_ends(closure, poses))
            if frame.body != BASE
        ),
    ]
    points = np.array([number(place.translation).ravel() for place in places])
    size = float(np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
    return (
        size if size > 1e-9 else 1e-3
    )  # all in one point, as in a spherical wrist: any length will do


class Closed:
    """The closed chain as expressions of q, for one partition.

        qd = E v,  qdd = E a + e,  E = [1; -K_D^-1 K_I],  e_D = -K_D^-1 (dK/dt) qd

    With K in fractions of the robot and u moving every independent coordinate by a radian or the
    robot's length, the check is |K E u| / (|K| |E u|), rounding if the fixed pivots served and
    larger where they did not, plus a share of |E u| that counts only where the closures lose rank:
    elimination may solve singular equations exactly.

    Attributes:
        residual, jacobian: phi and K of all closures.
        closure_map: E.
    """

    def __init__(self, loops: Loops, by: By, q: ca.SX) -> None:
        self.q, self.partition = q, loops.partitions[by]
        self.residual = closure_equations(loops.mechanism, q)
        self.jacobian = ca.jacobian(self.residual, q)
        self.closure_map, self.check = ca.SX(q.shape[0], len(self.partition.independent)), ca.SX(0)
        own, D, rows = self.partition.independent, self.partition.dependent, self.partition.rows
        for k, i in enumerate(own):
            self.closure_map[i, k] = 1
        if D:
            self.closure_map[D, :] = self._solve(-self.jacobian[rows, own])
            total = self.closure_map @ ca.DM(loops.units[own])
            used = ca.DM(np.diag(loops.weights[rows])) @ self.jacobian[rows, :]
            scale = ca.sqrt(ca.sumsqr(ca.fabs(used) @ ca.fabs(total)))
            growth = ca.sqrt(ca.sumsqr(total / ca.DM(loops.units)))
            self.check = ca.sqrt(ca.sumsqr(used @ total)) / scale + GROWTH * growth

    def _solve(self, right: ca.SX) -> ca.SX:
        """Return K_D^-1 right."""
        part = self.partition
        return solve(self.jacobian[part.rows, part.dependent], right, part.pivots)

    def rates(self, velocity: ca.SX, acceleration: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return velocities and accelerations of all coordinates."""
        # dense, as a coordinate may stand still
        qd, qdd = (ca.densify(self.closure_map @ x) for x in (velocity, acceleration))
        if self.partition.dependent:
            v = ca.SX.sym("v", self.q.shape[0])
            rate = ca.substitute(
                ca.jtimes(self.jacobian[self.partition.rows, :] @ v, self.q, v), v, qd
            )
            qdd[self.partition.dependent] += self._solve(-rate)
        return qd, qdd

    def newton_step(self) -> ca.SX:
        """Return the step of all coordinates that closes the loops to first order, independent ones
        fixed.
        """
        step = ca.SX(self.q.shape[0], 1)
        if self.partition.dependent:
            step[self.partition.dependent] = self._solve(-self.residual[self.partition.rows])
        return step
