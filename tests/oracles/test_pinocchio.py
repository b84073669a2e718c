"""Gough's trees and closed chains against Pinocchio."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from gough.core.parameters import INERTIAL
from gough.engine import random_motion
from gough.mechanism import bundled_robots
from tests_support import model_of

sys.path.insert(0, str(Path(__file__).parent))
from pin_tree import constrained_acceleration, term_value, tree

ROBOTS = [name for name, _ in bundled_robots()]
MASSLESS = {"stewart", "h4"}  # a massless body makes the tree's mass matrix singular


@pytest.mark.parametrize("name", ROBOTS)
def test_body_poses_equal_pinocchio(name: str) -> None:
    model = model_of(name)
    motion = random_motion(model, 5, seed=1)
    rotation, origin = model.kinematics.body_poses(motion.q)
    robot, ids, order = tree(model.mechanism)
    data = robot.createData()
    for t in range(5):
        position = np.zeros(len(order))
        position[order] = motion.q[t]
        pin.forwardKinematics(robot, data, position)
        for b, body in enumerate(model.mechanism.bodies):
            np.testing.assert_allclose(
                rotation[t, b], data.oMi[ids[body.name]].rotation, atol=1e-13
            )
            np.testing.assert_allclose(
                origin[t, b], data.oMi[ids[body.name]].translation, atol=1e-13
            )


@pytest.mark.parametrize("name", ROBOTS)
def test_projected_tree_regressor_equals_pinocchio(name: str) -> None:
    """E^T times Pinocchio's regressor of the open tree is the regressor of the closed chain."""
    model = model_of(name)
    motion = random_motion(model, 5, seed=2)
    robot, ids, order = tree(model.mechanism)
    data = robot.createData()
    names = [
        f"{body.name}.{p}"
        for body in model.mechanism.bodies
        for p in INERTIAL
        if p in body.parameters
    ]
    ours = model.regressor(motion, names)
    E = model.kinematics.closure_map(motion.q)
    for t in range(5):
        position, velocity, acceleration = np.zeros((3, len(order)))
        position[order], velocity[order], acceleration[order] = (
            motion.q[t],
            motion.qd[t],
            motion.qdd[t],
        )
        full = pin.computeJointTorqueRegressor(robot, data, position, velocity, acceleration)[order]
        for k, name_k in enumerate(names):
            body, _, parameter = name_k.rpartition(".")
            column = full[:, 10 * (ids[body] - 1) + INERTIAL.index(parameter)]
            scale = max(1.0, np.abs(ours[t]).max())
            np.testing.assert_allclose(
                ours[t, :, k], E[t].T @ column, atol=1e-10 * scale, err_msg=name_k
            )


@pytest.mark.parametrize("name", [n for n in ROBOTS if n not in MASSLESS])
def test_constrained_forward_dynamics_returns_our_accelerations(name: str) -> None:
    model = model_of(name)
    motion = random_motion(model, 6, seed=4)
    mechanism = model.mechanism
    effort = model.inverse_dynamics(motion)
    for t in range(6):
        tree_effort = np.zeros(len(mechanism.joints))
        tree_effort[list(model.actuated)] = effort[t]
        for i, joint in enumerate(mechanism.joints):
            for term in joint.terms:
                if term != "ia":  # friction, offset and springs are applied forces for Pinocchio
                    q, qd = motion.q[t, i], motion.qd[t, i]
                    tree_effort[i] -= joint.values.get(term, 0.0) * term_value(term, q, qd, 0.0)
        theirs = constrained_acceleration(mechanism, motion.q[t], motion.qd[t], tree_effort)
        scale = np.abs(motion.qdd[t]).max()
        np.testing.assert_allclose(theirs / scale, motion.qdd[t] / scale, atol=1e-8)
