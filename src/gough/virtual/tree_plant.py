"""Plants whose accelerations come from another library: one tree for each trial, stepped one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from gough.core.arrays import FloatArray
from gough.virtual.plant import PlantSettings, Sample

TreeState = tuple[FloatArray, FloatArray]  # position and velocity of the trees' coordinates, each (k, c)
Acceleration = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
Stepper = Callable[[Acceleration, FloatArray, FloatArray, FloatArray, float], tuple[FloatArray, FloatArray, FloatArray]]


class Tree(Protocol):
    """One robot; q and v are its own coordinates, (c,) each."""

    @property
    def coordinates(self) -> Sequence[int]:
        """The mechanism's coordinates that it has, in its order."""

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return accelerations (c,) under motor efforts (a,)."""

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, (a,) each."""

    def settle(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return configuration and velocity brought back onto the closures once a period, and how far they were."""


def midpoint(acceleration: Acceleration, q: FloatArray, v: FloatArray, effort: FloatArray, h: float,
             ) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return position and velocity a step later, and the acceleration at its start; efforts (3, a) over the step."""
    first = acceleration(q, v, effort[0])
    middle = v + h / 2 * first
    return q + h * middle, v + h * acceleration(q + h / 2 * v, middle, effort[1]), first


def runge_kutta(acceleration: Acceleration, q: FloatArray, v: FloatArray, effort: FloatArray, h: float,
                ) -> tuple[FloatArray, FloatArray, FloatArray]:
    """As `midpoint`, by the classical rule of fourth order."""
    a1 = acceleration(q, v, effort[0])
    v2 = v + h / 2 * a1
    a2 = acceleration(q + h / 2 * v, v2, effort[1])
    v3 = v + h / 2 * a2
    a3 = acceleration(q + h / 2 * v2, v3, effort[1])
    v4 = v + h * a3
    a4 = acceleration(q + h * v3, v4, effort[2])
    return q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), a1


class TreePlant:
    """Trees, one for each trial. Coulomb friction is linear inside the dead band, as in `GoughPlant`.

    Coordinates that the trees do not have (massless legs) follow from the platform's.

    Args:
        settings: What the trees were built from.
        trees: One for each trial.
        step: Integrator.
    """

    def __init__(self, settings: PlantSettings, trees: Sequence[Tree], step: Stepper) -> None:
        self._settings, self._trees, self._step = settings, trees, step
        self._own = list(trees[0].coordinates)
        self._q = np.repeat(settings.model.home[None], settings.trials, axis=0)

    def start(self, q: FloatArray, qd: FloatArray) -> TreeState:
        """Return the state."""
        self._q = np.array(q)
        return np.array(q[:, self._own]), np.array(qd[:, self._own])

    def read(self, state: TreeState) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors."""
        position, velocity = zip(*(tree.motors(q, v) for tree, q, v in zip(self._trees, *state)))
        return np.array(position), np.array(velocity)

    def step(self, state: TreeState, effort: FloatArray) -> tuple[Sample, TreeState]:
        """Advance by one controller period."""
        steps = self._settings.substeps
        closed, after = (tuple(np.empty_like(x) for x in state) for _ in range(2))
        first, check = np.empty_like(state[0]), np.empty(len(self._trees))
        for k, tree in enumerate(self._trees):
            q, v, check[k] = tree.settle(state[0][k], state[1][k])
            closed[0][k], closed[1][k] = q, v
            for i in range(steps):
                q, v, a = self._step(tree.acceleration, q, v, effort[2 * i:2 * i + 3, k], self._settings.period / steps)
                if i == 0:
                    first[k] = a
            after[0][k], after[1][k] = q, v
        return self._sample(closed[0], closed[1], first, check), (after[0], after[1])

    def _sample(self, own: FloatArray, velocity: FloatArray, acceleration: FloatArray, check: FloatArray) -> Sample:
        model, q = self._settings.model, self._q.copy()
        q[:, self._own] = own
        if len(self._own) < q.shape[1]:
            q, check = model.kinematics._newton(q, "task")
            self._q = q.copy()
            order = [self._own.index(i) for i in model.loops.partitions["task"].independent]
            qd, qdd = model.kinematics.rates(q, velocity[:, order], acceleration[:, order], "task")
            q[:, list(model.actuated)] = self.read((own, velocity))[0]
            rows = list(model.independent)
            return Sample(q, qd[:, rows], qdd[:, rows], check)
        order = [self._own.index(i) for i in model.independent]
        return Sample(q, velocity[:, order], acceleration[:, order], check)
