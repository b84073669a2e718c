"""Random trees and random planar and spatial loops: the engine must not only work on the robots it
was tried on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from gough.core.errors import GoughError
from gough.core.parameters import INERTIAL
from gough.engine import Model, base_parameters, random_motion
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Closure, Frame, Joint, Mechanism

sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))
from pin_tree import constrained_acceleration, placed, tree

FEW = settings(
    max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def random_body(rng: np.random.Generator, name: str) -> Body:
    """A physical body: a cloud of point masses."""
    points = 0.2 * rng.standard_normal((6, 3))
    masses = rng.uniform(0.1, 1.0, 6)
    first = masses @ points
    inertia = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points))
    values = dict(
        zip(
            INERTIAL,
            [
                masses.sum(),
                *first,
                inertia[0, 0],
                inertia[0, 1],
                inertia[1, 1],
                inertia[0, 2],
                inertia[1, 2],
                inertia[2, 2],
            ],
        )
    )
    return Body(name=name, values=values)


def random_placement(rng: np.random.Generator, planar: bool) -> Placement:
    if planar:
        return Placement((("Tx", rng.uniform(0.2, 0.5)), ("Rz", rng.uniform(-0.4, 0.4))))
    rpy, xyz = rng.uniform(-1, 1, 3), rng.uniform(-0.4, 0.4, 3)
    return Placement.xyz_rpy(tuple(xyz), tuple(rpy))


def random_tree(
    rng: np.random.Generator, parents: list[int], actuated: set[int], planar: bool = False
) -> Mechanism:
    bodies, joints = [], []
    for i, parent in enumerate(parents):
        bodies.append(random_body(rng, f"b{i}"))
        kind = "revolute" if planar or rng.random() < 0.7 else "prismatic"
        joints.append(
            Joint(
                name=f"j{i}",
                kind=kind,
                parent="base" if parent < 0 else f"b{parent}",
                child=f"b{i}",
                axis="z" if planar else "xyz"[rng.integers(3)],
                placement=random_placement(rng, planar),
                actuated=i in actuated,
                start=float(rng.uniform(-0.5, 0.5)),
                terms=("ia", "fv", "fs", "off", "k"),
                values={t: float(rng.uniform(0.1, 1)) for t in ("ia", "fv", "fs", "off", "k")},
            )
        )
    return Mechanism(
        name="random", bodies=tuple(bodies), joints=tuple(joints), gravity=(0.3, -9.0, 2.0)
    )


@FEW
@given(seed=st.integers(0, 10**6), parents=st.lists(st.integers(0, 10), min_size=1, max_size=7))
def test_random_trees_equal_pinocchio(seed: int, parents: list[int]) -> None:
    rng = np.random.default_rng(seed)
    chain = [p % (i + 1) - 1 for i, p in enumerate(parents)]
    mechanism = random_tree(rng, chain, set(range(len(chain))))
    model = Model(mechanism)
    motion = random_motion(model, 4, seed=seed)
    effort = model.inverse_dynamics(motion)
    import pinocchio as pin

    robot, _, order = tree(mechanism)
    data = robot.createData()
    for t in range(4):
        x = np.zeros((3, len(order)))
        x[0, order], x[1, order], x[2, order] = motion.q[t], motion.qd[t], motion.qdd[t]
        expected = pin.rnea(robot, data, *x)[order].copy()
        for i, joint in enumerate(mechanism.joints):
            q, qd, qdd = motion.q[t, i], motion.qd[t, i], motion.qdd[t, i]
            v = joint.values
            expected[i] += (
                v["ia"] * qdd + v["fv"] * qd + v["fs"] * np.sign(qd) + v["off"] + v["k"] * q
            )
        np.testing.assert_allclose(effort[t], expected, atol=1e-9 * np.abs(expected).max())


def closed(mechanism: Mechanism, ends: tuple[int, int], kind: str) -> Mechanism:
    """Close a loop between two bodies where they happen to be at the start configuration."""
    import pinocchio as pin

    robot, ids, order = tree(mechanism)
    data = robot.createData()
    q = np.zeros(len(order))
    q[order] = [joint.start for joint in mechanism.joints]
    pin.forwardKinematics(robot, data, q)
    a, b = (f"b{i}" for i in ends)
    tip = placed(Placement((("Tx", 0.3), ("Ty", 0.1))))
    gap = data.oMi[ids[b]].inverse() * (data.oMi[ids[a]] * tip)
    rpy = pin.rpy.matrixToRpy(gap.rotation)
    closure = Closure(
        name="loop",
        kind=kind,
        a=Frame(body=a, placement=Placement((("Tx", 0.3), ("Ty", 0.1)))),
        b=Frame(body=b, placement=Placement.xyz_rpy(tuple(gap.translation), tuple(rpy))),
    )
    return Mechanism(
        name="random",
        bodies=mechanism.bodies,
        joints=mechanism.joints,
        closures=(closure,),
        gravity=mechanism.gravity,
    )


def check_closed_chain(model: Model, seed: int) -> None:
    """Loops closed, closure map right, efforts right: against finite differences and Pinocchio."""
    motion = random_motion(model, 4, seed=seed, reach=0.3)
    mechanism, rows = model.mechanism, list(model.independent)
    assert motion.closure_residual.max() < 1e-10
    E = model.kinematics.closure_map(motion.q)
    np.testing.assert_allclose(
        np.einsum("tnm,tm->tn", E, motion.qd[:, rows]),
        motion.qd,
        atol=1e-9 * np.abs(motion.qd).max(),
    )
    effort = model.inverse_dynamics(motion)
    for t in range(4):
        applied = np.zeros(len(mechanism.joints))
        applied[list(model.actuated)] = effort[t]
        for i, joint in enumerate(mechanism.joints):
            v, q, qd = joint.values, motion.q[t, i], motion.qd[t, i]
            applied[i] -= v["fv"] * qd + v["fs"] * np.sign(qd) + v["off"] + v["k"] * q
        theirs = constrained_acceleration(mechanism, motion.q[t], motion.qd[t], applied)
        scale = np.abs(motion.qdd[t]).max()
        np.testing.assert_allclose(theirs / scale, motion.qdd[t] / scale, atol=1e-7)
    base = base_parameters(model)
    W = model.regressor(motion, base.standard) @ model.values(base.standard)
    reduced = model.regressor(motion, base) @ base.values(model.values(base.standard))
    np.testing.assert_allclose(reduced, W, atol=1e-7 * np.abs(W).max())


def margin_or_skip(mechanism: Mechanism) -> Model:
    try:
        model = Model(mechanism)
    except GoughError:
        assume(False)
    assume(model.loops.margin(model.home, "actuated") > 0.02)
    return model


@FEW
@given(seed=st.integers(0, 10**6), left=st.integers(1, 2), right=st.integers(2, 3))
def test_random_planar_loops(seed: int, left: int, right: int) -> None:
    """A planar loop written with spatial closures: the out-of-plane equation is redundant but
    consistent.
    """
    rng = np.random.default_rng(seed)
    parents = [-1, *range(left - 1), -1, *range(left, left + right - 1)]
    n = left + right
    mechanism = closed(
        random_tree(rng, parents, set(range(n - 2)), planar=True), (left - 1, n - 1), "point"
    )
    check_closed_chain(margin_or_skip(mechanism), seed)


def spatial_loop(seed: int, kind: str, freedom: int) -> Mechanism:
    """Return a loop of so many degrees of freedom, closed by one closure of a kind."""
    rng = np.random.default_rng(seed)
    equations = {"point": 3, "revolute": 5, "parallel": 2, "weld": 6}[kind]
    n = equations + freedom
    left = max(1, n // 2)
    parents = [-1, *range(left - 1), -1, *range(left, n - 1)]
    actuated = set(rng.permutation(n)[:freedom].tolist())
    return closed(random_tree(rng, parents, actuated), (left - 1, n - 1), kind)


@pytest.mark.parametrize(
    ("kind", "freedom", "seed"),
    [("point", 2, 0), ("revolute", 2, 1), ("parallel", 1, 3), ("weld", 1, 2)],
)
def test_a_random_spatial_loop_of_each_kind(kind: str, freedom: int, seed: int) -> None:
    check_closed_chain(Model(spatial_loop(seed, kind, freedom)), seed)


@pytest.mark.long
@FEW
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["point", "revolute", "parallel", "weld"]),
    freedom=st.integers(1, 2),
)
def test_random_spatial_loops(seed: int, kind: str, freedom: int) -> None:
    check_closed_chain(margin_or_skip(spatial_loop(seed, kind, freedom)), seed)
