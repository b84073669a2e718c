"""How many parameters a mechanism's motion can tell apart: Pinocchio's tree, its closures and a
walk of our own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pinocchio as pin
from pin_tree import closure_rows, term_value, tree

from gough.core.parameters import INERTIAL
from gough.mechanism.types import Mechanism

ORDER = {
    "m": 0,
    "mx": 1,
    "my": 1,
    "mz": 1,
}  # power of a length in a parameter; moments of inertia 2


class Walker:
    """Free motions of a closed chain as null vectors of its closures, in coordinates of size one.

    Args:
        mechanism: The robot.
        home: All coordinates with the loops closed, (n,).
        length: Its size. [m]
        fast: How many times as fast as the others some coordinates move: rotors behind gears.
    """

    def __init__(
        self, mechanism: Mechanism, home: np.ndarray, length: float, fast: Mapping[str, float]
    ) -> None:
        self.mechanism, self.home, self.length = mechanism, home, length
        self.robot, self.ids, self.order = tree(mechanism)
        self.data = self.robot.createData()
        self.unit = np.array(
            [
                fast.get(j.name, 1.0) * (1.0 if j.kind == "revolute" else length)
                for j in mechanism.joints
            ]
        )
        values = np.linalg.svd(self.closures(home, 0 * home)[1] * self.unit, compute_uv=False)
        self.rank = int((values > 1e-9 * values[0]).sum()) if values.size else 0
        self.margin = values[self.rank - 1] if self.rank else 0.0

    def closures(self, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how far closures are open (c,), K (c, n) and (dK/dt) qd (c,), rows of one size."""
        position, velocity = np.zeros((2, len(q)))
        position[self.order], velocity[self.order] = q, qd
        phi, K, drift = closure_rows(
            self.mechanism, self.robot, self.data, self.ids, self.order, position, velocity
        )
        K = K[:, self.order]
        rows: list[float] = []
        for closure in self.mechanism.closures:
            own = np.abs(
                K[len(rows)] * self.unit
            ).max()  # of a coupling, whose coefficients are constant
            rows += {
                "point": [self.length] * 3,
                "distance": [self.length**2],
                "weld": [self.length] * 3 + [1.0] * 3,
                "revolute": [self.length] * 3 + [1.0] * 2,
                "parallel": [1.0] * 2,
            }.get(closure.kind, [own])
        return phi / rows, K / np.array(rows)[:, None], drift / rows

    def free(self, q: np.ndarray) -> np.ndarray:
        """Return orthonormal free motions (n, m) in units of `unit`."""
        if not self.mechanism.closures:
            return np.eye(len(q))
        return np.linalg.svd(self.closures(q, 0 * q)[1] * self.unit)[2][self.rank :].T

    def closed(self, q: np.ndarray) -> np.ndarray:
        """Return the nearest configuration with the loops closed, by Gauss-Newton steps."""
        for _ in range(4 if self.mechanism.closures else 0):
            phi, K, _ = self.closures(q, 0 * q)
            q = q - self.unit * np.linalg.lstsq(K * self.unit, phi, rcond=1e-9)[0]
        return q

    def sample(
        self, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return a configuration reached from home along free motions, velocities, accelerations
        and the free motions.

        One to eight steps, each of 0.05 rad (or lengths of the robot) for the coordinate that moves
        most, as long as the closures stay half as far from losing rank as they are at home.
        """
        q = self.home.copy()
        way = rng.standard_normal(len(q))
        for _ in range(int(rng.integers(1, 9))):
            N = self.free(q)
            way = N @ (N.T @ way)
            after = self.closed(q + 0.05 * self.unit * way / np.abs(way).max())
            if (
                self.rank
                and np.linalg.svd(self.closures(after, 0 * q)[1] * self.unit, compute_uv=False)[
                    self.rank - 1
                ]
                < self.margin / 2
            ):
                break
            q = after
        N = self.free(q)
        pace = np.sqrt(
            max(np.linalg.norm(self.mechanism.gravity), 1e-3) / self.length
        )  # all terms of one size
        qd = pace * self.unit * (N @ rng.standard_normal(N.shape[1]))
        qdd = pace**2 * self.unit * (N @ rng.standard_normal(N.shape[1]))
        if self.mechanism.closures:
            _, K, drift = self.closures(q, qd)
            qdd -= self.unit * np.linalg.lstsq(K * self.unit, drift, rcond=1e-10)[0]
        return q, qd, qdd, N

    def columns(self, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
        """Return the tree's regressor of the standard parameters, (n, p)."""
        position, velocity, acceleration = np.zeros((3, len(q)))
        position[self.order], velocity[self.order], acceleration[self.order] = q, qd, qdd
        full = pin.computeJointTorqueRegressor(
            self.robot, self.data, position, velocity, acceleration
        )[self.order]
        found = np.zeros((len(q), len(self.mechanism.standard)))
        for k, name in enumerate(self.mechanism.standard.names):
            owner, _, kind = name.rpartition(".")
            if kind in INERTIAL:
                column = 10 * (self.ids[owner] - 1) + INERTIAL.index(kind)
                found[:, k] = full[:, column] / self.length ** ORDER.get(kind, 2)
            else:
                i = self.mechanism.coordinates.index(owner)
                found[i, k] = term_value(kind, q[i], qd[i], qdd[i])
        return found


def structural_rank(
    mechanism: Mechanism, home: np.ndarray, length: float, fast: Mapping[str, float] | None = None
) -> tuple[int, float]:
    """Return the rank of the closed chain's regressor over random motion, and the gap behind it."""
    walker, rng = Walker(mechanism, home, length, fast or {}), np.random.default_rng(11)
    count = 2 * len(mechanism.standard) // walker.free(home).shape[1] + 20
    blocks = []
    for _ in range(count):
        q, qd, qdd, N = walker.sample(rng)
        blocks.append((N * walker.unit[:, None]).T @ walker.columns(q, qd, qdd))
    W = np.concatenate(blocks)
    size = np.linalg.norm(W, axis=0)
    inertial = np.array([name.rpartition(".")[2] in INERTIAL for name in mechanism.standard.names])
    natural = np.where(inertial, size[inertial].max(initial=0.0), size)
    W = W[:, size > 1e-9 * natural]
    for _ in range(3):
        W = W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-9 * np.abs(W).max())
        W = W / np.linalg.norm(W, axis=0)
    values = np.linalg.svd(W, compute_uv=False)
    values = np.append(values, 1e-16 * values[0])
    rank = int(np.argmax(values[:-1] / np.maximum(values[1:], 1e-16 * values[0]))) + 1
    return rank, float(values[rank - 1] / values[rank])
