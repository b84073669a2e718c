"""Twist and wrench of a platform against the geometry of its hinges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from platform_signals import platform_signals
from scipy.spatial.transform import Rotation

from gough.core.errors import InvalidRecording
from gough.engine import Model
from gough.logs.recording import Recording
from tests_support import model_of


def polar(radius: float, degrees: list[float], z: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    return np.stack(
        [radius * np.cos(angle), radius * np.sin(angle), np.full(len(degrees), z)], axis=1
    )


ROBOTS = {  # hinges at the base, hinges on the platform, order of the angles, home height
    "stewart": (
        polar(0.6, [7.5, 112.5, 127.5, 232.5, 247.5, 352.5], 0.0),
        polar(0.4, [52.5, 67.5, 172.5, 187.5, 292.5, 307.5], 0.0),
        "zyx",
        0.76385,
    ),
    "palida": (
        polar(0.4, [-10, 10, 110, 130, 230, 250], 0.0),
        polar(0.085, [-50, 50, 70, 170, 190, 290], 0.1174),
        "xyz",
        -0.67181,
    ),
}


def turning(t: np.ndarray, order: str, z: float) -> tuple[np.ndarray, np.ndarray]:
    angles = 0.12 * np.stack([np.sin(2 * t), np.cos(3 * t), np.sin(t + 1)], axis=1)
    position = np.stack([0.05 * np.sin(t), 0.04 * np.cos(2 * t), z + 0.03 * np.sin(3 * t)], axis=1)
    R = Rotation.from_euler(
        order.upper(), angles[:, ["xyz".index(axis) for axis in order]]
    ).as_matrix()
    return np.concatenate([position, angles], axis=1), R


def legs(
    base: np.ndarray, top: np.ndarray, pose: np.ndarray, R: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return levers R a and legs from base to platform, each (t, 6, 3)."""
    lever = np.einsum("tij,aj->tai", R, top)
    return lever, lever + pose[:, None, :3] - base


@pytest.mark.parametrize("name", ROBOTS)
def test_pose_twist_and_wrench_follow_from_the_hinges(name: str) -> None:
    base, top, order, z = ROBOTS[name]
    model = model_of(name)
    t, h = np.arange(0, 2, 0.01), 1e-6
    pose, R = turning(t, order, z)
    ahead, back = turning(t + h, order, z), turning(t - h, order, z)
    lever, span = legs(base, top, pose, R)
    length = np.linalg.norm(span, axis=2)
    along = span / length[:, :, None]
    rate = (
        np.linalg.norm(legs(base, top, *ahead)[1], axis=2)
        - np.linalg.norm(legs(base, top, *back)[1], axis=2)
    ) / (2 * h)
    force = np.random.default_rng(0).normal(0, 100, (len(t), 6))
    log = Recording(
        joints=model.mechanism.actuated,
        time=t,
        position=length,
        position_units=("m",) * 6,
        velocity=rate,
        effort=force,
    )
    found = platform_signals(model, log)
    np.testing.assert_allclose(found.pose, pose, atol=1e-10)
    np.testing.assert_allclose(found.twist[:, :3], (ahead[0] - back[0])[:, :3] / (2 * h), atol=1e-7)
    spin = (ahead[1] - back[1]) / (2 * h) @ R.transpose(0, 2, 1)
    omega = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
    np.testing.assert_allclose(found.twist[:, 3:], omega, atol=1e-7)
    np.testing.assert_allclose(
        found.wrench[:, :3], (along * force[:, :, None]).sum(axis=1), atol=1e-9
    )
    np.testing.assert_allclose(
        found.wrench[:, 3:], np.cross(lever, along * force[:, :, None]).sum(axis=1), atol=1e-9
    )


def test_missing_velocities_or_a_platform_of_less_freedom_are_clear_errors(
    five_bar: Model, five_bar_log: Recording
) -> None:
    with pytest.raises(
        InvalidRecording, match="2 motors and the task coordinates x, y; expected six"
    ):
        platform_signals(five_bar, five_bar_log)
    model = model_of("stewart")
    home = np.tile(model.home[list(model.actuated)], (3, 1))
    log = Recording(
        joints=model.mechanism.actuated,
        time=np.arange(3) / 1000,
        position=home,
        position_units=("m",) * 6,
        effort=np.zeros((3, 6)),
    )
    with pytest.raises(InvalidRecording, match="no velocities"):
        platform_signals(model, log)
    with pytest.raises(InvalidRecording, match="no efforts"):
        platform_signals(
            model,
            replace(
                log,
                velocity=np.zeros((3, 6)),
                effort=None,
                current=np.zeros((3, 6)),
                current_units=("A",) * 6,
            ),
        )
