"""Plants whose accelerations come from another library: one tree for each trial, stepped one after
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.parameters import INERTIAL
from gough.engine.loops import By
from gough.engine.model import Model
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Mechanism
from gough.virtual.plant import PlantSettings, Sample

# Position and velocity of the trees' coordinates, (k, c) each, and what their terms remember, (k,
# x).
TreeState = tuple[FloatArray, FloatArray, FloatArray]
Acceleration = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
Stepper = Callable[
    [Acceleration, FloatArray, FloatArray, FloatArray, float],
    tuple[FloatArray, FloatArray, FloatArray],
]

SUBSTITUTED = 2  # times
_STATES = (
    (0.0, 0.0, 0.0),
    (0.7, 1.3, 1.0),
    (-0.4, -0.9, -1.0),
)  # (q, qd, sign) at which a term's weight is looked at


class Tree(Protocol):
    """One robot; q and v are its own coordinates, (c,) each."""

    coordinates: list[int]  # the mechanism's coordinates that it has, in its order
    terms: JointEfforts  # of these coordinates

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return accelerations (c,) under motor efforts (a,)."""

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, (a,) each."""

    def settle(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return q and v brought back onto the closures once a period, and how far they were."""


def midpoint(
    acceleration: Acceleration,
    q: FloatArray,
    v: FloatArray,
    effort: FloatArray,
    h: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return q, v a step later and the acceleration at its start; efforts (3, a) over the step."""
    first = acceleration(q, v, effort[0])
    middle = v + h / 2 * first
    return q + h * middle, v + h * acceleration(q + h / 2 * v, middle, effort[1]), first


def runge_kutta(
    acceleration: Acceleration,
    q: FloatArray,
    v: FloatArray,
    effort: FloatArray,
    h: float,
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


def body_inertias(
    model: Model, values: Mapping[str, float], load: FloatArray
) -> dict[str, FloatArray]:
    """Return ten inertial parameters by body, its payload (10 l,) included."""
    loads = model.split_load(load)
    return {
        body.name: np.array([values.get(f"{body.name}.{p}", 0.0) for p in INERTIAL])
        + loads.get(body.name, 0.0)
        for body in model.mechanism.bodies
    }


class TreePlant:
    """Trees, one for each trial. Coulomb friction is linear inside the dead band, as in
    `GoughPlant`.

    Coordinates that the trees do not have (massless legs, force elements) follow from the
    platform's or the motors'.
    """

    def __init__(self, settings: PlantSettings, trees: Sequence[Tree], step: Stepper) -> None:
        self._settings, self._trees, self._step = settings, trees, step
        self._own = list(trees[0].coordinates)
        self._q = np.repeat(settings.model.home[None], settings.n_variants, axis=0)
        ways: tuple[By, ...] = ("task", "actuated")
        parts = settings.model.loops.partitions
        told = [by for by in ways if by in parts and set(parts[by].independent) <= set(self._own)]
        if not told:
            raise InvalidInput(
                f"'{settings.model.mechanism.name}' is driven by force elements and has no "
                f"platform "
                "that tells its pose; use the pinocchio or gough plant"
            )
        self._by = told[0]

    def start(self, q: FloatArray, qd: FloatArray) -> TreeState:
        self._q = np.array(q)
        return (
            np.array(q[:, self._own]),
            np.array(qd[:, self._own]),
            np.zeros((len(q), self._trees[0].terms.size)),
        )

    def read(self, state: TreeState) -> tuple[FloatArray, FloatArray]:
        position, velocity = zip(
            *(tree.motors(q, v) for tree, q, v in zip(self._trees, *state[:2]))
        )
        return np.array(position), np.array(velocity)

    def step(self, state: TreeState, effort: FloatArray) -> tuple[Sample, TreeState]:
        h = self._settings.period / self._settings.substeps
        samples, after = [], []
        for k, tree in enumerate(self._trees):
            q, v, check = tree.settle(state[0][k], state[1][k])
            tree.terms.lags = state[2][k]
            start, first = (q, v), None
            for i in range(self._settings.substeps):
                before = q, v
                q, v, a = self._step(tree.acceleration, q, v, effort[2 * i : 2 * i + 3, k], h)
                tree.terms.remember(before, (q, v), h)
                first = a if first is None else first
            samples.append((*start, first, check))
            after.append((q, v, tree.terms.lags))
        closed, rates, accelerations, checks = map(np.array, zip(*samples))
        q, v, lags = map(np.array, zip(*after))
        return self._sample(closed, rates, accelerations, checks), (q, v, lags)

    def _sample(
        self, own: FloatArray, velocity: FloatArray, acceleration: FloatArray, check: FloatArray
    ) -> Sample:
        """Return the sample of all coordinates from that of the trees'."""
        model, rows, q = (
            self._settings.model,
            list(self._settings.model.independent),
            self._q.copy(),
        )
        q[:, self._own] = own
        if len(self._own) == q.shape[1]:
            order = [self._own.index(i) for i in rows]
            return Sample(q, velocity[:, order], acceleration[:, order], check)
        q, check = model.kinematics.close_nearby(q, self._by)
        self._q = q.copy()
        order = [self._own.index(i) for i in model.loops.partitions[self._by].independent]
        qd, qdd = model.kinematics.rates(q, velocity[:, order], acceleration[:, order], self._by)
        q[:, list(model.actuated)] = self.read((own, velocity, own[:, :0]))[0]
        return Sample(q, qd[:, rows], qdd[:, rows], check)


class JointEfforts:
    """The joint terms of some coordinates: `rotor` qdd plus what a call with q and qd returns.

    Lags are held over a step of the integrator and follow after it: exact to first order in its
    length. The transmitted effort u of a motor is its effort less the friction of its joint:
    u + f(u) = tau, solved by u = tau / (1 + f(u) / u): at once where f is in proportion to u.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        values: Mapping[str, float],
        coordinates: Sequence[int],
        dead_band: FloatArray,
    ) -> None:
        joints = [mechanism.joints[i] for i in coordinates]
        self.rotor = np.zeros(len(joints))
        self._band = np.maximum(dead_band[list(coordinates)], 1e-300)
        self._names = [joint.name for joint in joints]
        self._mechanism, self._joints = mechanism, joints
        self._terms: list[tuple[JointTerm, Any, FloatArray, slice]] = []
        self._driven = [
            (k, mechanism.actuated.index(mechanism.coordinates[i]))
            for k, i in enumerate(coordinates)
            if i in mechanism.load_dependent
        ]  # places here and among the motors
        self.size = 0
        for name, term in mechanism.terms.items():
            at = [k for k, joint in enumerate(joints) if name in joint.terms]
            groups = (
                [np.array([k]) for k in at]
                if term.lags or term.other_joints
                else [np.array(at)]
                if at
                else []
            )
            for own in (
                groups
            ):  # joints that share a term are evaluated together, unless each has its own past
                first = joints[own[0]]
                absent = [
                    o
                    for o in term.other_joints
                    if mechanism.resolve_joint(first, o).name not in self._names
                ]
                if absent:
                    raise InvalidInput(
                        f"the term '{name}' of joint '{first.name}' depends on '{absent[0]}', "
                        f"which "
                        "this plant does not have; use the gough plant",
                        joint=first.name,
                        term=name,
                    )
                coefficient = np.array([values.get(f"{joints[k].name}.{name}", 0.0) for k in own])
                self.rotor[own] += _weight(term, first.name) * coefficient
                self._terms.append(
                    (term, own, coefficient, slice(self.size, self.size + len(term.lags)))
                )
                self.size += len(term.lags)
        self.lags = np.zeros(self.size)

    def _state(
        self,
        q: FloatArray,
        qd: FloatArray,
        at: Any,
        lags: FloatArray,
        passed: FloatArray | None = None,
    ) -> JointState:
        sign = np.minimum(np.maximum(qd[at] / self._band[at], -1.0), 1.0)

        def other(name: str) -> JointState:
            near = self._mechanism.resolve_joint(self._joints[int(at[0])], name)
            return self._state(q, qd, np.array([self._names.index(near.name)]), lags)

        return JointState(
            q=q[at],
            qd=qd[at],
            qdd=0.0,
            sign=sign,
            math=np,
            lags=list(lags),
            other=other,
            effort=0.0 if passed is None else passed[at],
        )

    def __call__(self, q: FloatArray, qd: FloatArray, effort: FloatArray) -> FloatArray:
        """Return the efforts without acceleration under motor efforts (a,), (c,)."""

        def total(terms: Sequence[Any], passed: FloatArray | None = None) -> FloatArray:
            found = np.zeros(len(q))
            for term, at, coefficient, own in terms:
                found[at] += coefficient * term.value(
                    self._state(q, qd, at, self.lags[own], passed)
                )
            return found

        if not self._driven:
            return total(self._terms)
        loaded = [entry for entry in self._terms if entry[0].load_dependent]
        left = -total(
            [entry for entry in self._terms if entry[0].dissipative and not entry[0].load_dependent]
        )
        for k, motor in self._driven:
            left[k] += effort[motor]
        passed = left
        for _ in range(SUBSTITUTED):
            share = np.divide(
                total(loaded, passed), passed, out=np.zeros(len(q)), where=passed != 0
            )
            passed = left / (1 + share)
        return total(self._terms, passed)

    def remember(
        self, before: tuple[FloatArray, FloatArray], after: tuple[FloatArray, FloatArray], h: float
    ) -> None:
        """Let the lags follow over a step from one position and velocity to another."""
        lags = self.lags.copy()
        for term, at, _, own in self._terms if self.size else ():
            for k, lag in enumerate(term.lags):
                states = [self._state(*x, at, lags[own]) for x in (before, after)]
                mean = (
                    sum(float(np.squeeze(term.value(state, lag.operands[0]))) for state in states)
                    / 2
                )
                way = float(np.abs(after[0] - before[0])[at[0]]) if term.lag_is_distance(lag) else h
                keep = np.exp(-way / term.value(states[0], lag.operands[1]))
                lags[own.start + k] = keep * lags[own.start + k] + (1 - keep) * mean
        self.lags = lags


def _weight(term: JointTerm, joint: str) -> float:
    """Return what a term multiplies the acceleration with, if that is a constant."""

    def at(q: float, qd: float, qdd: float, sign: float) -> float:
        state = JointState(
            q=np.float64(q),
            qd=np.float64(qd),
            qdd=qdd,
            sign=sign,
            math=np,
            other=lambda name: state,
        )
        return float(term.value(state))

    with np.errstate(all="ignore"):  # a term may exist only on one side of zero
        values = np.array(
            [[at(q, qd, qdd, sign) for qdd in (0.0, 1.0, 2.0)] for q, qd, sign in _STATES]
        )
    weights = np.diff(values, axis=1)
    weights = weights[np.isfinite(weights)]
    if weights.size and np.ptp(weights) > 1e-12 * np.abs(weights).max():
        raise InvalidInput(
            f"the term '{term.name}' of joint '{joint}' weighs the acceleration by position or "
            "velocity; only the gough plant can simulate that",
            joint=joint,
            term=term.name,
        )
    return float(weights[0]) if weights.size else 0.0
