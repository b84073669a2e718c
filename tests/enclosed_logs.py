"""Logs whose truth is known and whose positions are rounded to steps: the H4 in closed form, others
by Pinocchio.
"""

from __future__ import annotations

import numpy as np

from gough.engine import Model
from gough.logs.recording import Recording
from tests_support import fourier

RATE, FREQUENCY, HARMONICS, PERIODS = 200.0, 0.5, 4, 2
COUNT = round(RATE / FREQUENCY)
TIME = np.arange(COUNT) / RATE


def h4_motors(pose: np.ndarray) -> np.ndarray:
    """Return the motors of the H4, P03 (3)-(8): |A - P - crank (cos q alpha - sin q z)| = L, lower
    crank, (..., 4).
    """
    crank, length, R, h, d = 0.26, 0.48, 0.14, 0.06, 0.06
    alpha = np.array([0, np.pi, 1.5 * np.pi, 1.5 * np.pi])
    P = np.array([[h + R, d, 0], [-h - R, d, 0], [-h, -d - R, 0], [h, -d - R, 0]])
    bar = (
        h
        * np.stack([np.cos(pose[..., 3]), np.sin(pose[..., 3]), 0 * pose[..., 3]], axis=-1)[
            ..., None, :
        ]
    )
    sign = np.array([1, -1, -1, 1])[:, None]
    side = d * np.array([[0, 1, 0], [0, 1, 0], [0, -1, 0], [0, -1, 0]])
    away = pose[..., None, :3] + sign * bar + side - P
    along = away[..., 0] * np.cos(alpha) + away[..., 1] * np.sin(alpha)
    reach = ((away**2).sum(axis=-1) + crank**2 - length**2) / (2 * crank)
    return np.arctan2(-away[..., 2], along) - np.arccos(reach / np.hypot(along, away[..., 2]))


def h4_truth(seed: int, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return motors and efforts of a period, (COUNT, 4) each: dq/dx and its rate by differences,
    P03 (14)-(18).
    """
    path = fourier(model, 0.5, FREQUENCY, seed=seed, harmonics=HARMONICS)

    def motors(time: np.ndarray) -> np.ndarray:
        return h4_motors(path.at(time)[0])

    step = 1e-4
    far, near, here, ahead, beyond = (motors(TIME + k * step) for k in (-2, -1, 0, 1, 2))
    qd = (far - 8 * near + 8 * ahead - beyond) / (12 * step)
    qdd = (-far + 16 * near - 30 * here + 16 * ahead - beyond) / (12 * step**2)
    pose, _, acceleration = path.at(TIME)
    J = np.stack(
        [(h4_motors(pose + e) - h4_motors(pose - e)) / 2e-6 for e in 1e-6 * np.eye(4)], axis=-1
    )
    value = model.mechanism.standard.as_dict()
    own = {
        term: np.array([value[f"leg{i}.motor.{term}"] for i in range(1, 5)])
        for term in ("ia", "fv", "fs")
    }
    force = np.concatenate(
        [
            value["platform.m"] * (acceleration[:, :3] - np.array([0, 0, -9.81])),
            value["platform.Izz"] * acceleration[:, 3:],
        ],
        axis=1,
    )
    platform = np.linalg.solve(J.transpose(0, 2, 1), force[:, :, None])[:, :, 0]
    return here, own["ia"] * qdd + own["fv"] * qd + own["fs"] * np.sign(qd) + platform


def pinocchio_truth(seed: int, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return motors and efforts of a period: Pinocchio's tree, its closures eliminated by their
    multipliers.
    """
    import pinocchio as pin
    from pin_tree import closure_rows, term_value, tree

    mechanism = model.mechanism
    motion = model.kinematics.motion(
        TIME, *fourier(model, 0.5, FREQUENCY, seed=seed, harmonics=HARMONICS).at(TIME), "task"
    )
    robot, ids, order = tree(mechanism)
    data, efforts = robot.createData(), []
    act = [order[i] for i in model.actuated]
    rest = [i for i in range(len(order)) if i not in act]
    for q, v, a in zip(motion.q, motion.qd, motion.qdd):
        position, velocity, acceleration, load = np.zeros((4, len(order)))
        position[order], velocity[order], acceleration[order] = q, v, a
        for i, joint in enumerate(mechanism.joints):
            load[order[i]] = sum(
                joint.values.get(term, 0.0) * term_value(term, q[i], v[i], a[i])
                for term in joint.terms
            )
        need = pin.rnea(robot, data, position, velocity, acceleration) + load
        K = closure_rows(mechanism, robot, data, ids, order, position, velocity)[1]
        efforts.append((need - K.T @ np.linalg.lstsq(K.T[rest], need[rest], rcond=None)[0])[act])
    return motion.q[:, list(model.actuated)], np.array(efforts)


def log_of(
    model: Model, truth: tuple[np.ndarray, np.ndarray], step: float, error: float, seed: int
) -> Recording:
    """Return a log: positions rounded to steps from a random zero, efforts off by less than an
    error.
    """
    rng = np.random.default_rng([seed, 1])
    zero = rng.uniform(0, step, len(model.actuated))
    position = np.tile(step * np.round((truth[0] + zero) / step) - zero, (PERIODS, 1))
    effort = np.tile(truth[1], (PERIODS, 1))
    units = tuple(model.mechanism.joint(name).unit for name in model.mechanism.actuated)
    return Recording(
        joints=model.mechanism.actuated,
        time=np.arange(len(position)) / RATE,
        position=position,
        position_units=units,
        effort=effort + rng.uniform(-error, error, effort.shape),
        period_samples=COUNT,
        source="made",
    )
