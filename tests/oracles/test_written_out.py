"""Robots written out by hand: logs made by formulas, without any code of the source.

A redundant robot with its drive gains, a constant inside a friction term, and a term that depends
on a recorded channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import least_squares

import gough
from gough.engine import Model, base_parameters
from gough.logs.recording import Recording
from gough.mechanism import parse_robot
from tests_support import model_of

Array = NDArray[np.float64]
GRAVITY = 9.81
RATE, PERIOD = 250.0, 2.0

# The planar robot `redundant`: three legs of two links for two degrees of freedom.
LINK = 0.22
BASE_ANGLES = np.radians([90.0, 210.0, 330.0])
BASE_RADIUS = 0.35
PROXIMAL = {"m": 0.70, "r": 0.10, "I": 3.5e-3}
DISTAL = {"m": 0.35, "r": 0.11, "I": 1.8e-3}
ROTOR, ELBOW_FRICTION, TOOL, DISC = 0.015, 0.01, 0.8, 1.0
VISCOUS = (0.10, 0.13, 0.12)
COULOMB = (0.8, 1.0, 0.6)
GAINS = np.array([0.9, 1.1, 1.3])  # [N m/A]


def waves(seed: int, count: int, size: float) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return time, and position, velocity and acceleration of random sines, (t, count) each."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(RATE * PERIOD)) / RATE
    motion = np.zeros((3, len(time), count))
    for k in range(1, 5):
        w = 2 * np.pi * k / PERIOD
        angle = w * time[:, None] + rng.uniform(0, 2 * np.pi, count)
        amplitude = size * rng.uniform(0.5, 1.0, count) / k
        motion += amplitude * np.array([np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)])
    return time, (motion[0], motion[1], motion[2])


def leg(k: int, tool: tuple[Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Return angles, and J^-T of leg k, and the torques it takes at motor and elbow."""
    p, v, a = tool
    base = BASE_RADIUS * np.array([np.cos(BASE_ANGLES[k]), np.sin(BASE_ANGLES[k])])
    d = p - base
    q2 = np.arccos(((d**2).sum(axis=1) - 2 * LINK**2) / (2 * LINK**2))
    first = np.arctan2(d[:, 1], d[:, 0]) - np.arctan2(LINK * np.sin(q2), LINK * (1 + np.cos(q2)))
    second = first + q2
    one = np.stack([np.cos(first), np.sin(first)], axis=1)
    two = np.stack([np.cos(second), np.sin(second)], axis=1)
    turned_one = np.stack([-one[:, 1], one[:, 0]], axis=1)
    turned_two = np.stack([-two[:, 1], two[:, 0]], axis=1)
    jacobian = LINK * np.stack([turned_one + turned_two, turned_two], axis=2)
    inverse = np.linalg.inv(jacobian)
    rate = np.einsum("tij,tj->ti", inverse, v)
    turning = LINK * (rate[:, :1] ** 2 * one + rate.sum(axis=1, keepdims=True) ** 2 * two)
    bend = np.einsum("tij,tj->ti", inverse, a + turning)
    q1 = np.unwrap(first - BASE_ANGLES[k])
    torque = two_link_torques(k, first, second, q2, rate, bend)
    q1 = q1 - 2 * np.pi * np.round((q1 - np.radians(142.7)) / (2 * np.pi)).mean()
    return np.stack([q1, q2], axis=1), rate, inverse.transpose(0, 2, 1), torque


def two_link_torques(
    k: int, first: Array, second: Array, q2: Array, rate: Array, bend: Array
) -> Array:
    """Return the torques of a planar arm of two links with rotor and friction, (t, 2)."""
    (v1, v2), (a1, a2) = rate.T, bend.T
    m2, r2 = DISTAL["m"], DISTAL["r"]
    coupling = m2 * LINK * r2
    elbow = DISTAL["I"] + m2 * r2**2
    motor = PROXIMAL["I"] + PROXIMAL["m"] * PROXIMAL["r"] ** 2 + ROTOR + elbow + m2 * LINK**2
    weight_two = GRAVITY * m2 * r2 * np.cos(second)
    weight_one = GRAVITY * (PROXIMAL["m"] * PROXIMAL["r"] + m2 * LINK) * np.cos(first)
    t1 = (motor + 2 * coupling * np.cos(q2)) * a1 + (elbow + coupling * np.cos(q2)) * a2
    t1 += -coupling * np.sin(q2) * (2 * v1 * v2 + v2**2) + weight_one + weight_two
    t1 += VISCOUS[k] * v1 + COULOMB[k] * np.sign(v1)
    t2 = (elbow + coupling * np.cos(q2)) * a1 + elbow * a2 + coupling * np.sin(q2) * v1**2
    t2 += weight_two + ELBOW_FRICTION * v2
    return np.stack([t1, t2], axis=1)


def redundant_robot(tool: tuple[Array, Array, Array], load: float = 0.0) -> tuple[Array, Array]:
    """Return the motors' angles and least torques along a motion of the tool, (t, 3) each."""
    force = (TOOL + load) * (tool[2] + np.array([0.0, GRAVITY]))
    angles, columns = [], []
    for k in range(3):
        q, _, transposed, torque = leg(k, tool)
        angles.append(q[:, 0])
        columns.append(transposed[:, :, 0])
        force = force + np.einsum("tij,tj->ti", transposed, torque)
    levers = np.stack(columns, axis=2)  # (t, 2, 3)
    torques = np.einsum("tki,ti->tk", np.linalg.pinv(levers), force)
    return np.stack(angles, axis=1), torques


def repeated(signal: Array, noise: float, rng: np.random.Generator, periods: int = 5) -> Array:
    tiled = np.tile(signal, (periods, 1))
    return tiled + noise * rng.standard_normal(tiled.shape)


def test_the_redundant_robot_is_the_one_written_out() -> None:
    time, tool = waves(0, 2, 0.02)
    angles, torques = redundant_robot(tool)
    model = model_of("redundant")
    motion = model.kinematics.motion(time, *tool, "task")
    np.testing.assert_allclose(motion.q[:, list(model.actuated)], angles, atol=1e-9)
    base = base_parameters(model)
    efforts = model.regressor(motion, base) @ base.values(model.values(base.standard))
    expected = model.project_to_rows(motion.q, torques)
    np.testing.assert_allclose(efforts, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("estimator", ["gm", "wls"])
def test_periods_without_noise_are_answered_exactly(estimator: str) -> None:
    """The scatter between periods, from which `gm` takes its weights, is then zero."""
    model = model_of("redundant")
    angles, torques = redundant_robot(waves(1, 2, 0.02)[1])
    rng = np.random.default_rng(0)
    log = Recording.from_arrays(
        list(model.mechanism.actuated),
        position=repeated(angles, 0.0, rng),
        effort=repeated(torques, 0.0, rng),
        rate=RATE,
        units={"position": "rad", "effort": "N m"},
        period_samples=int(RATE * PERIOD),
    )
    result = gough.identify(model, [log], estimator=estimator, cutoff=20.0)
    base = base_parameters(model)
    truth = base.values(model.values(base.standard))
    np.testing.assert_allclose(result.estimate.values, truth, atol=1e-9 * np.abs(truth).max())


@pytest.mark.slow
def test_drive_gains_of_a_redundant_robot_are_those_of_the_log_written_out() -> None:
    model = model_of("redundant")
    rng = np.random.default_rng(0)
    logs = []
    for seed, load in ((1, 0.0), (2, DISC)):
        angles, torques = redundant_robot(waves(seed, 2, 0.02)[1], load)
        logs.append(
            Recording.from_arrays(
                list(model.mechanism.actuated),
                position=repeated(angles, 1e-6, rng),
                current=repeated(torques / GAINS, 0.02, rng),
                rate=RATE,
                units={"position": "rad", "current": "A"},
                period_samples=int(RATE * PERIOD),
            )
        )
    result = gough.identify(
        model, logs[:1], loaded=logs[1:], payload="disc", estimator="gain_ml", cutoff=8.0
    )
    gains = list(result.drive_gains.values())
    values = np.array([gain["value"] for gain in gains])
    errors = np.array([gain["std"] for gain in gains])
    assert (np.abs(values - GAINS) < 4 * errors).all()
    assert values == pytest.approx(GAINS, rel=0.02)


RAIL = """
format = 1
name = "rail"
title = "A motor on a rail"
units = { length = "m", angle = "deg", mass = "kg" }

[[body]]
name = "carriage"
parameters = ["m"]
m = 2.0

[[joint]]
name = "slider"
type = "prismatic"
parent = "base"
child = "carriage"
axis = "x"
actuated = true
"""


def rail_log(
    effort: Array, position: Array, seed: int, extra: dict[str, Any] | None = None
) -> Recording:
    rng = np.random.default_rng(seed)
    signals: dict[str, Any] = {}
    units = {"position": "m", "effort": "N"}
    if extra is not None:
        signals["extra"] = extra
        units["extra"] = "degC"
    return Recording.from_arrays(
        ["slider"],
        position=position,
        effort=effort + 0.05 * rng.standard_normal(effort.shape),
        rate=RATE,
        units=units,
        **signals,
    )


def test_a_constant_inside_a_term_is_that_of_a_general_fit() -> None:
    """Stribeck friction: coefficients and speed by SciPy on exact velocities."""
    _, (position, velocity, acceleration) = waves(3, 1, 0.1)
    position, velocity, acceleration = (
        np.tile(x, (4, 1)) for x in (position, velocity, acceleration)
    )

    def effort(x: Array) -> Array:
        m, fv, fs, extra, speed = x
        friction = fs + extra * np.exp(-np.abs(velocity) / speed)
        return m * acceleration + fv * velocity + friction * np.sign(velocity)

    truth = np.array([1.5, 4.0, 5.0, 3.0, 0.1])
    log = rail_log(effort(truth), position, seed=0)
    moving = np.abs(velocity) > 0.02
    general = least_squares(lambda x: (effort(x) - log.effort)[moving], 0.8 * truth, x_scale=truth)
    text = (
        RAIL
        + """terms = ["fv", "fs", "stribeck"]
values = { fv = 3.0, fs = 4.0, stribeck = 1.0 }

[[term]]
name = "stribeck"
constants = { speed = { start = "0.3 m/s", low = "0.01 m/s", high = "2 m/s" } }
"""
    )
    result = gough.identify(
        Model(parse_robot(text, "rail.toml")), [log], estimator="wls", cutoff=20.0
    )
    assert result.constants.values["stribeck.speed"] == pytest.approx(general.x[4], rel=0.05)
    for name, k in (("carriage.m", 0), ("slider.fv", 1), ("slider.fs", 2), ("slider.stribeck", 3)):
        assert result.estimate[name] == pytest.approx(general.x[k], rel=0.05), name


def test_a_term_of_a_recorded_channel_is_that_of_plain_least_squares() -> None:
    """Viscous friction that falls with temperature: the columns written out."""
    _, (position, velocity, acceleration) = waves(4, 1, 0.1)
    position, velocity, acceleration = (
        np.tile(x, (4, 1)) for x in (position, velocity, acceleration)
    )
    temperature = np.linspace(15.0, 45.0, len(position))[:, None]
    columns = np.hstack(
        [acceleration, velocity, np.sign(velocity), velocity * (temperature - 20.0)]
    )
    truth = np.array([1.5, 6.0, 5.0, -0.08])
    log = rail_log(
        columns @ truth[:, None], position, seed=1, extra={"temperature": temperature[:, 0]}
    )
    moving = np.abs(velocity[:, 0]) > 0.02
    plain = np.linalg.lstsq(columns[moving], log.effort[moving, 0], rcond=None)[0]
    text = (
        RAIL
        + """terms = ["fv", "fs", "fv_temperature"]
values = { fv = 3.0, fs = 4.0, fv_temperature = 0.0 }
"""
    )
    result = gough.identify(
        Model(parse_robot(text, "rail.toml")), [log], estimator="wls", cutoff=20.0
    )
    names = ("carriage.m", "slider.fv", "slider.fs", "slider.fv_temperature")
    for name, expected, true in zip(names, plain, truth):
        assert result.estimate[name] == pytest.approx(expected, rel=0.02), name
        assert result.estimate[name] == pytest.approx(true, rel=0.03), name
