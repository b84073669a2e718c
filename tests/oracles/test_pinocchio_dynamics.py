"""Forward dynamics of closed chains against constrained dynamics built on Pinocchio alone."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from gough.core.errors import InvalidInput
from gough.engine import Model, random_motion
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Closure, Frame, Joint, Mechanism
from gough.virtual.pinocchio_plant import ConstrainedTree
from tests_support import model_of

ROBOTS = (
    "palida",
    "orthoglide",
    "h4",
    "stewart",
    "delta",
    "five_bar",
    "redundant",
    "upv",
    "serial6",
)


INERTIA = {
    "m": 1.2,
    "mx": 0.1,
    "my": 0.05,
    "mz": -0.04,
    "Ixx": 0.03,
    "Iyy": 0.05,
    "Izz": 0.06,
    "Ixy": 0.002,
}
TERMS = {"ia": 0.02, "fv": 0.3, "fs": 0.2, "off": 0.1, "k": 0.5}


def chain(
    starts: tuple[float, ...],
    lengths: tuple[float, ...],
    rolls: tuple[float, ...],
    motors: int,
    closure: Closure,
) -> Mechanism:
    """Return a serial chain of revolute joints whose end is closed onto the base."""
    joints = tuple(
        Joint(
            name=f"j{i}",
            kind="revolute",
            parent="base" if i == 0 else f"b{i - 1}",
            child=f"b{i}",
            placement=Placement.xyz_rpy((lengths[i], 0.0, 0.0), (rolls[i], 0.0, 0.0)),
            actuated=i < motors,
            terms=tuple(TERMS),
            values=TERMS,
            start=start,
        )
        for i, start in enumerate(starts)
    )
    return Mechanism(
        name=closure.name,
        bodies=tuple(Body(name=f"b{i}", values=INERTIA) for i in range(len(starts))),
        joints=joints,
        closures=(closure,),
        gravity=(0.5, -9.81, 1.0),
    )


def closed(name: str) -> Mechanism:
    """Return a robot with one closure of a kind the bundled robots do not use."""
    end = Placement.xyz_rpy((0.4, 0, 0))
    if name == "revolute":  # a planar four-bar, its closure seen from below
        return chain(
            (1.2, -1.0, -1.5),
            (0, 0.2, 0.5),
            (0, 0, 0),
            1,
            Closure(
                name=name,
                kind="revolute",
                a=Frame(body="b2", placement=end),
                b=Frame(body="base", placement=Placement.xyz_rpy((0.55, 0.1, 0), (np.pi, 0, 0))),
            ),
        )
    if name == "weld":
        return chain(
            (1.2, -1.0, -1.5, 0.4),
            (0, 0.2, 0.5, 0.4),
            (0, 0, 0, 0),
            1,
            Closure(
                name=name,
                kind="weld",
                a=Frame(body="b3"),
                b=Frame(body="base", placement=Placement.xyz_rpy((0.55, 0.1, 0), (0, 0, 0.3))),
            ),
        )
    return chain(
        (0.3, -0.4, 0.5, 0.2, -0.3),
        (0, 0.2, 0.3, 0.2, 0.1),
        (0.2, 1.3, -0.9, 1.1, -1.2),
        3,
        Closure(
            name=name,
            kind="parallel",
            a=Frame(body="b4", placement=Placement.xyz_rpy((0.4, 0, 0), (0.8, 0, 0))),
            b=Frame(body="b0", placement=Placement.xyz_rpy((0, 0, 0), (0.4, 0.1, 0))),
        ),
    )


def accelerations(model: Model, payload: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows' accelerations by the engine and by Pinocchio at random closed configurations
    and efforts.
    """
    count = 25
    motion = random_motion(model, count, seed=3)
    tau = 20 * np.random.default_rng(1).standard_normal((count, len(model.actuated)))
    load, band = model.load(payload), np.full(len(model.home), 1e-3)
    rows = list(model.independent)
    ours = model.forward_dynamics(motion.q, motion.qd[:, rows], tau, load=load, dead_band=band)
    tree = ConstrainedTree(model, model.mechanism.standard.values, load, band)
    order = tree.coordinates
    theirs = np.empty_like(motion.q)
    theirs[:, order] = [
        tree.acceleration(q[order], qd[order], effort)
        for q, qd, effort in zip(motion.q, motion.qd, tau)
    ]
    return ours, theirs[:, rows]


@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_equal_constrained_dynamics_with_payload_and_friction(name: str) -> None:
    model = model_of(name)
    payloads = model.mechanism.payloads
    ours, theirs = accelerations(model, payloads[0].name if payloads else None)
    assert np.abs(ours).max() > 1.0
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("kind", ["revolute", "weld", "parallel"])
def test_other_closures_equal_constrained_dynamics(kind: str) -> None:
    ours, theirs = accelerations(Model(closed(kind)), None)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-8)


def test_the_oracle_itself_agrees_with_pinocchios_own_constrained_dynamics() -> None:
    """Point closures are native to Pinocchio: its proximal solver must give what our saddle-point
    system gives.
    """
    model = model_of("palida")
    mechanism = model.mechanism
    frictionless = model.standard_values(
        {n: 0.0 for n in mechanism.standard.names if n.kind in ("fs", "fv")}
    )
    tree = ConstrainedTree(model, frictionless, np.zeros(10), np.ones(24))
    motion = random_motion(model, 5, seed=4)
    pin_model, data = tree._model, tree._model.createData()
    constraints = pin.StdVec_RigidConstraintModel()
    for closure in mechanism.closures:
        ends = []
        for frame in (closure.a, closure.b):
            joint = next(j.name for j in mechanism.joints if j.child == frame.body)
            placed = pin.SE3.Identity()
            for step, value in frame.placement.steps:
                axis = np.eye(3)["xyz".index(step[1])]
                placed = placed * (
                    pin.SE3(np.eye(3), value * axis)
                    if step[0] == "T"
                    else pin.SE3(pin.AngleAxis(float(value), axis).matrix(), np.zeros(3))
                )
            ends += [pin_model.getJointId(joint), placed]
        constraints.append(
            pin.RigidConstraintModel(
                pin.ContactType.CONTACT_3D, pin_model, *ends, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
            )
        )
    datas = pin.StdVec_RigidConstraintData()
    for constraint in constraints:
        datas.append(constraint.createData())
    pin.initConstraintDynamics(pin_model, data, constraints, datas)
    settings = pin.ProximalSettings(1e-13, 1e-13, 1e-10, 50)
    order, tau = tree.coordinates, np.zeros((5, 24))
    tau[:, list(model.actuated)] = np.random.default_rng(0).standard_normal((5, 6))
    for q, qd, effort in zip(motion.q, motion.qd, tau):
        theirs = pin.constraintDynamics(
            pin_model, data, q[order], qd[order], effort[order], constraints, datas, settings
        )
        ours = tree.acceleration(q[order], qd[order], effort[list(model.actuated)])
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-6)


def test_bodies_that_cannot_exist_are_refused_by_pinocchio_plant() -> None:
    model = model_of("five_bar")
    values = model.standard_values({"tool.m": -0.1})
    with pytest.raises(InvalidInput, match=r"'tool' has the mass -0\.1 kg"):
        ConstrainedTree(model, values, np.zeros(10), np.ones(6))
