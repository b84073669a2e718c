"""Plants whose accelerations come from another library, one tree for each variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.parameters import INERTIAL
from gough.engine.loops import By
from gough.engine.model import Model
from gough.virtual.joint_efforts import JointEfforts
from gough.virtual.plant import PlantSettings, Sample

# q, v, motor efforts (a,) -> accelerations.
Acceleration = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
# acceleration, q, v, efforts (3, a) over a step, its length -> q, v at
# its end, first acceleration.
Stepper = Callable[
    [Acceleration, FloatArray, FloatArray, FloatArray, float],
    tuple[FloatArray, FloatArray, FloatArray],
]


class TreeState(NamedTuple):
    """State of k trees with c coordinates."""

    q: FloatArray  # (k, c)
    v: FloatArray  # (k, c)
    internal: FloatArray  # internal states of joint terms, (k, x)


class Tree(Protocol):
    """One robot; q and v are its own coordinates, (c,) each."""

    # indices of the mechanism's coordinates that it has, in its order
    coordinates: list[int]
    terms: JointEfforts  # of these coordinates

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return accelerations (c,) under motor efforts (a,)."""

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, (a,) each."""

    def close(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return q and v projected onto the closures, and the closure error before."""


def midpoint(
    acceleration: Acceleration,
    q: FloatArray,
    v: FloatArray,
    effort: FloatArray,
    h: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return q and v a step later and the acceleration at its start, by the midpoint rule.

    Args:
        effort: Motor efforts at start, middle and end of the step, (3,
            a).
        h: Length of the step. [s]
    """
    a1 = acceleration(q, v, effort[0])
    v2 = v + h / 2 * a1
    a2 = acceleration(q + h / 2 * v, v2, effort[1])
    return q + h * v2, v + h * a2, a1


def runge_kutta(
    acceleration: Acceleration,
    q: FloatArray,
    v: FloatArray,
    effort: FloatArray,
    h: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the same as `midpoint`, by the classical rule of fourth order."""
    a1 = acceleration(q, v, effort[0])
    v2 = v + h / 2 * a1
    a2 = acceleration(q + h / 2 * v, v2, effort[1])
    v3 = v + h / 2 * a2
    a3 = acceleration(q + h / 2 * v2, v3, effort[1])
    v4 = v + h * a3
    a4 = acceleration(q + h * v3, v4, effort[2])
    q_end = q + h / 6 * (v + 2 * v2 + 2 * v3 + v4)
    v_end = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return q_end, v_end, a1


def body_inertias(
    model: Model, values: Mapping[str, float], load: FloatArray
) -> dict[str, FloatArray]:
    """Return ten inertial parameters by body, its payload included.

    Args:
        values: Standard parameters by name.
        load: Payload, (10 l,).
    """
    loads = model.split_load(load)
    inertias = {}
    for body in model.mechanism.bodies:
        parameters = np.array([values.get(f"{body.name}.{p}", 0.0) for p in INERTIAL])
        inertias[body.name] = parameters + loads.get(body.name, 0.0)
    return inertias


class TreePlant:
    """Trees, one for each variant. Coulomb friction is linear inside the dead band.

    Coordinates that the trees do not have (massless legs, force
    elements) follow from those of the platform or the motors.
    """

    def __init__(self, settings: PlantSettings, trees: Sequence[Tree], step: Stepper) -> None:
        self._settings = settings
        self._trees = trees
        self._step = step
        self._coordinates = list(trees[0].coordinates)
        self._q = np.repeat(settings.model.home[None], settings.n_variants, axis=0)
        self._by = self._closing_coordinates()

    def _closing_coordinates(self) -> By:
        """Return the coordinates of the trees from which all others follow."""
        model = self._settings.model
        candidates: tuple[By, ...] = ("task", "actuated")
        for by in candidates:
            partition = model.loops.partitions.get(by)
            if partition is not None and set(partition.independent) <= set(self._coordinates):
                return by
        raise InvalidInput(
            f"'{model.mechanism.name}' is driven by force elements and has no platform that "
            "determines its pose; use the pinocchio or gough plant"
        )

    def start(self, q: FloatArray, qd: FloatArray) -> TreeState:
        """Return the state at a configuration (k, n) with closed loops and a velocity (k, n)."""
        self._q = np.array(q)
        return TreeState(
            q=np.array(q[:, self._coordinates]),
            v=np.array(qd[:, self._coordinates]),
            internal=np.zeros((len(q), self._trees[0].terms.n_states)),
        )

    def read(self, state: TreeState) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, each (k, a)."""
        return self._read_motors(state.q, state.v)

    def _read_motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        positions = []
        velocities = []
        for k, tree in enumerate(self._trees):
            position, velocity = tree.motors(q[k], v[k])
            positions.append(position)
            velocities.append(velocity)
        return np.array(positions), np.array(velocities)

    def step(self, state: TreeState, effort: FloatArray) -> tuple[Sample, TreeState]:
        """Integrate over one controller period."""
        h = self._settings.period / self._settings.substeps
        q_end = np.empty_like(state.q)
        v_end = np.empty_like(state.v)
        internal_end = np.empty_like(state.internal)
        q_start = np.empty_like(state.q)
        v_start = np.empty_like(state.v)
        acceleration_start = np.empty_like(state.v)
        check = np.empty(len(self._trees))
        for k, tree in enumerate(self._trees):
            q, v, check[k] = tree.close(state.q[k], state.v[k])
            q_start[k] = q
            v_start[k] = v
            tree.terms.states = state.internal[k]
            for i in range(self._settings.substeps):
                step_effort = effort[2 * i : 2 * i + 3, k]
                q_next, v_next, a = self._step(tree.acceleration, q, v, step_effort, h)
                if i == 0:
                    acceleration_start[k] = a
                tree.terms.update_states((q, v), (q_next, v_next), h)
                q = q_next
                v = v_next
            q_end[k] = q
            v_end[k] = v
            internal_end[k] = tree.terms.states
        sample = self._sample(q_start, v_start, acceleration_start, check)
        return sample, TreeState(q_end, v_end, internal_end)

    def _sample(
        self,
        tree_q: FloatArray,
        velocity: FloatArray,
        acceleration: FloatArray,
        check: FloatArray,
    ) -> Sample:
        """Return the sample of all coordinates from that of the trees'."""
        model = self._settings.model
        rows = list(model.independent)
        q = self._q.copy()
        q[:, self._coordinates] = tree_q
        if len(self._coordinates) == q.shape[1]:
            order = [self._coordinates.index(i) for i in rows]
            return Sample(q, velocity[:, order], acceleration[:, order], check)
        q, check = model.kinematics.close_nearby(q, self._by)
        self._q = q.copy()
        independent = model.loops.partitions[self._by].independent
        order = [self._coordinates.index(i) for i in independent]
        qd, qdd = model.kinematics.rates(q, velocity[:, order], acceleration[:, order], self._by)
        q[:, list(model.actuated)] = self._read_motors(tree_q, velocity)[0]
        return Sample(q, qd[:, rows], qdd[:, rows], check)
