"""Closed chains against MuJoCo without finite differences.

Positions, velocities and accelerations of all coordinates are ours, turned into MuJoCo's by the
kinematics of Euler angles; MuJoCo says whether they keep its constraints, and what efforts its tree
needs. By virtual work the motors give E^T of these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from gough.app.studies.robot_import import close_tree, lock_joints
from gough.engine import Model
from gough.formats.read import read_tree
from gough.formats.robot_description import Description
from gough.mechanism import parse_robot

X, Y, Z = np.eye(3)


@dataclass(frozen=True)
class Difference:
    """The largest differences, as fractions of the largest of what they are differences of."""

    position: float
    velocity: float
    acceleration: float
    effort: float


def compare(
    text: str, lock: tuple[str, ...] = (), reach: float = 0.1, count: int = 3
) -> Difference:
    """Compare a model, some of its joints held, with MuJoCo on random motions about its start."""
    tree = read_tree(text, "model.xml")
    if lock:
        tree = lock_joints(tree, "model.xml", list(lock))
    done, _ = close_tree(tree, "model.xml")
    mechanism = parse_robot(done.text, "model.xml")
    model = Model(
        replace(
            mechanism,
            joints=tuple(
                replace(j, values={key: v for key, v in j.values.items() if key != "fs"})
                for j in mechanism.joints
            ),
        )
    )
    robot = mujoco.MjModel.from_xml_string(text)
    rng = np.random.default_rng(0)
    motors, units = model.actuated, model.loops.units[model.actuated]
    drawn = reach * rng.uniform(-1, 1, (count, 3, len(motors))) * units * [[1], [10], [50]]
    motion = model.kinematics.motion(
        np.arange(float(count)), model.home[motors] + drawn[:, 0], drawn[:, 1], drawn[:, 2]
    )
    efforts, maps = model.inverse_dynamics(motion), model.kinematics.closure_map(motion.q)
    worst = np.zeros(4)
    for q, qd, qdd, E, effort in zip(motion.q, motion.qd, motion.qdd, maps, efforts):
        worst = np.maximum(worst, _sample(robot, model, done, (q, qd, qdd), E, effort))
    return Difference(*map(float, worst))


def _sample(
    robot: Any,
    model: Model,
    done: Description,
    state: tuple[np.ndarray, ...],
    E: np.ndarray,
    effort: np.ndarray,
) -> np.ndarray:
    data = mujoco.MjData(robot)
    columns = np.zeros((robot.nv, E.shape[1]))
    coordinates = {name: i for i, name in enumerate(model.mechanism.coordinates)}
    for j in range(robot.njnt):
        joint = robot.joint(j)
        at, dof = joint.qposadr[0], joint.dofadr[0]
        own = [coordinates[name] for name in done.coordinates.get(joint.name, ())]
        if not own:  # held where the model is written
            continue
        if joint.type[0] >= 2:
            data.qpos[at], data.qvel[dof], data.qacc[dof] = (x[own[0]] for x in state)
            columns[dof] = E[own[0]]
            continue
        free = joint.type[0] == mujoco.mjtJoint.mjJNT_FREE
        if free:
            data.qpos[at : at + 3] = state[0][own[:3]]
            data.qvel[dof : dof + 3], data.qacc[dof : dof + 3] = (
                state[1][own[:3]],
                state[2][own[:3]],
            )
            columns[dof : dof + 3] = E[own[:3]]
            at, dof, own = at + 3, dof + 3, own[3:]
        turn = _turn(robot, model, done, joint.bodyid[0], state[0])
        data.qpos[at : at + 4] = np.roll(turn.as_quat(), 1)
        rates, accelerations, map_rows = (
            np.zeros((3, *x.shape[1:])) for x in (state[1], state[2], E)
        )
        for name, i in (
            (name, coordinates[name]) for name in done.coordinates[joint.name][-len(own) :]
        ):
            k = "xyz".index(name[-1])
            rates[k], accelerations[k], map_rows[k] = state[1][i], state[2][i], E[i]
        jacobian, drift = _euler(turn, rates)
        data.qvel[dof : dof + 3] = jacobian @ rates
        data.qacc[dof : dof + 3] = jacobian @ accelerations + drift
        columns[dof : dof + 3] = jacobian @ map_rows
    speed, acceleration = data.qvel.copy(), data.qacc.copy()
    robot.opt.disableflags = 0
    mujoco.mj_fwdPosition(robot, data)
    held = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    J = data.efc_J.reshape(-1, robot.nv)[held]
    position = np.abs(data.efc_pos[held]).max() / model.loops.length
    size = np.abs(J).max() * np.abs(columns).max()
    velocity = max(
        np.abs(J @ columns).max() / size,
        np.abs(J @ speed).max() / np.abs(J).max() / np.abs(speed).max(),
    )
    robot.opt.disableflags = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    mujoco.mj_inverse(robot, data)
    theirs = columns.T @ data.qfrc_inverse
    mujoco.mj_rnePostConstraint(robot, data)
    gaps = [_apart(robot, data, k) for k in range(robot.neq)]
    rows = model.project_to_rows(state[0][None], effort[None])[0]
    return np.array(
        [
            position,
            velocity,
            max(gaps) / np.abs(acceleration).max(),
            np.abs(rows - theirs).max() / np.abs(theirs).max(),
        ]
    )


def _turn(robot: Any, model: Model, done: Description, body: int, q: np.ndarray) -> Rotation:
    """The turn of a ball or free joint: from the body as it is drawn to the body as it is."""
    names = [each.name for each in model.mechanism.bodies]
    poses = dict(zip(names, model.kinematics.body_poses(q[None])[0][0])) | {"base": np.eye(3)}

    def of(name: str) -> Rotation:
        carrier, at = done.bodies[name]
        return Rotation.from_matrix(poses[carrier] @ at[:3, :3])

    parent = of(robot.body(robot.body_parentid[body]).name)
    drawn = Rotation.from_quat(np.roll(robot.body_quat[body], -1))
    joint = robot.body_jntadr[body]
    if robot.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
        return of(robot.body(body).name)
    return (parent * drawn).inv() * of(robot.body(body).name)


def _euler(turn: Rotation, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return w = J rates in the turned frame for R = Rx Ry Rz, and dJ/dt rates.

    w = Rz^T (Ry^T x dx + y dy) + z dz, and d(Rz^T u)/dt = Rz^T du/dt - dz z x (Rz^T u).
    """
    _, pitch, yaw = turn.as_euler("XYZ")
    back_y, back_z = (
        Rotation.from_rotvec(-angle * axis).as_matrix() for angle, axis in ((pitch, Y), (yaw, Z))
    )
    jacobian = np.column_stack([back_z @ back_y @ X, back_z @ Y, Z])
    tilted = -rates[1] * np.cross(Y, back_y @ X) * rates[0]
    carried = back_z @ (back_y @ X * rates[0] + Y * rates[1])
    return jacobian, back_z @ tilted - rates[2] * np.cross(Z, carried)


def _apart(robot: Any, data: Any, equality: int) -> float:
    """Return the relative acceleration of the ends of an equality; zero for joints and tendons."""
    kind, ends = (
        int(robot.eq_type[equality]),
        (robot.eq_obj1id[equality], robot.eq_obj2id[equality]),
    )
    weld = kind == int(mujoco.mjtEq.mjEQ_WELD)
    if not weld and kind != int(mujoco.mjtEq.mjEQ_CONNECT):
        return 0.0
    sites = int(robot.eq_objtype[equality]) == int(mujoco.mjtObj.mjOBJ_SITE)
    anchors, found = robot.eq_data[equality][:6].reshape(2, 3), []
    turns = [data.xmat[end].reshape(3, 3) for end in ends] if not sites else []
    for k, end in enumerate(ends):
        spin, moving = np.zeros(6), np.zeros(6)  # angular, then linear
        what = mujoco.mjtObj.mjOBJ_SITE if sites else mujoco.mjtObj.mjOBJ_XBODY
        mujoco.mj_objectVelocity(robot, data, what, end, spin, 0)
        mujoco.mj_objectAcceleration(robot, data, what, end, moving, 0)
        arm = np.zeros(3) if sites else turns[k] @ anchors[k]
        if weld and not sites:  # its anchor is on the second body
            arm = data.xpos[ends[1]] + turns[1] @ anchors[0] - data.xpos[end]
        w, alpha = spin[:3], moving[:3]
        point = moving[3:] + np.cross(alpha, arm) + np.cross(w, np.cross(w, arm))
        found.append(np.concatenate([point, alpha if weld else np.zeros(3)]))
    return float(np.abs(found[0] - found[1]).max())
