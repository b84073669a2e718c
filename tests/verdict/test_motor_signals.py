"""Motor signals: shifts, low-passes, other clocks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from gough.verdict.faults import rotated, tilt_axes
from gough.verdict.motor_signals import MotorSignals


def made_signals(periodic: bool = True) -> tuple[MotorSignals, np.ndarray]:
    time = np.arange(400) * 0.01
    values = np.sin(2 * np.pi * time / 4.0)[:, None] * np.array([1.0, 2.0])
    signals = MotorSignals(
        time=time,
        position=values,
        velocity=values,
        acceleration=values,
        effort=values,
        gravity=np.zeros(3),
        periodic=periodic,
        deviations=np.stack([values, -values]),
        lag=np.zeros(2),
    )
    return signals, values


@pytest.mark.parametrize("periodic", [True, False])
def test_a_shift_takes_values_from_later(periodic: bool) -> None:
    signals, values = made_signals(periodic)
    later = np.sin(2 * np.pi * (signals.time + 0.023) / 4.0)[:, None] * np.array([1.0, 2.0])
    np.testing.assert_allclose(signals.shifted(values, 0.023)[:390], later[:390], atol=1e-6)
    rate = signals.rate_of_change(values)[5:390, 0]
    expected = np.pi / 2 * np.cos(np.pi / 2 * signals.time[5:390])
    np.testing.assert_allclose(rate, expected, atol=1e-3)


def test_a_faster_motion_is_that_of_the_stretched_clock() -> None:
    signals, values = made_signals()
    fast = signals.faster(2.0)
    np.testing.assert_allclose(fast.position, values)
    np.testing.assert_allclose(fast.velocity, 2 * values)  # q(2 t)' = 2 q'(2 t)
    np.testing.assert_allclose(fast.acceleration, 4 * values)
    wide = signals.with_motion(lambda motion: motion * [3.0, 1.0])
    for changed in (wide.position, wide.velocity, wide.acceleration):
        np.testing.assert_allclose(changed, values * [3.0, 1.0])


def test_a_change_of_efforts_is_made_to_their_noise_without_its_offset() -> None:
    signals, values = made_signals()
    changed = signals.with_effort(lambda effort: 3 * effort + 5)
    np.testing.assert_allclose(changed.effort, 3 * values + 5)
    np.testing.assert_allclose(changed.deviations, 3 * signals.deviations, atol=1e-12)


@pytest.mark.parametrize("periodic", [True, False])
def test_a_low_pass_is_what_an_integrator_gives(periodic: bool) -> None:
    """Explicit Euler, 200 steps a sample, of T y' + y = x along lines between the samples."""
    signals, values = made_signals(periodic)
    square = np.sign(np.sin(np.pi * signals.time))
    values = values + np.array([0.0, 0.3]) * square[:, None]
    filtered = replace(signals, lag=np.array([0.0, 0.05])).low_passed(values)
    np.testing.assert_array_equal(filtered[:, 0], values[:, 0])
    run = np.concatenate([values[:, 1]] * (2 if periodic else 1))
    y = run[0]
    expected = [y]
    for start, end in itertools.pairwise(run):
        for x in np.linspace(start, end, 200, endpoint=False):
            y += (x - y) * signals.step / 200 / 0.05
        expected.append(y)
    np.testing.assert_allclose(filtered[:, 1], expected[-len(values) :], atol=5e-3)


@pytest.mark.parametrize("gravity", [(0, -9.81, 0), (0, 0, -9.8), (1.0, -2.0, 3.0)])
def test_axes_of_tilt_are_level_and_unit(gravity: tuple[float, float, float]) -> None:
    axes = tilt_axes(np.array(gravity, dtype=float))
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(axes @ np.array(gravity), 0, atol=1e-12)


def test_a_quarter_turn_about_z_takes_x_to_y() -> None:
    turned = rotated(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, np.pi / 2]))
    np.testing.assert_allclose(turned, [0.0, 1.0, 0.0], atol=1e-12)
