"""Invalid equations are those with the friction of a joint that reverses or rests, no others."""

from __future__ import annotations

import numpy as np
import pytest

from gough.core.motion import Motion
from gough.engine import Model
from gough.engine.base import random_motion
from gough.mechanism import parse_robot
from gough.processing import Processing
from gough.processing.valid_equations import (
    position_noise,
    rows_with_coulomb,
    unknown_signs,
    valid_equations,
)
from tests_support import model_of


def test_inside_the_dead_band_and_near_it_nothing_is_known() -> None:
    speed = np.array([3.0, 2.0, 0.5, 0.2, 0.1, 0.2, 2.0, 3.0, 3.0, 3.0])[:, None]
    spoilt = unknown_signs(speed, np.array([0.3]), 0)[:, 0]
    assert np.flatnonzero(spoilt).tolist() == [3, 4, 5]
    spoilt = unknown_signs(speed, np.array([0.3]), 2)[:, 0]
    assert np.flatnonzero(spoilt).tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_a_reversal_spoils_its_neighbours_only_with_a_window() -> None:
    speed = np.linspace(1.0, -1.0, 20)[:, None]  # passes zero between samples 9 and 10
    assert not unknown_signs(speed, np.zeros(1), 0).any()
    for reach in (1, 3):
        assert np.flatnonzero(unknown_signs(speed, np.zeros(1), reach)).tolist() == list(
            range(9 - reach, 11 + reach)
        )


def test_a_standstill_ends_later_by_what_filters_smear_and_a_reversal_does_not() -> None:
    speed = np.concatenate(
        [np.full(20, 2.0), np.zeros(15), np.full(20, 2.0), np.zeros(3), np.full(20, -2.0)]
    )[:, None]
    spoilt = unknown_signs(speed, np.array([0.3]), 0, smear=4)[:, 0]
    assert np.flatnonzero(spoilt).tolist() == [*range(16, 39), 55, 56, 57]
    assert Processing(cutoff=5.0).smeared_samples(1000.0) == 100
    assert Processing().smeared_samples(1000.0) == 0


def test_half_a_sample_is_rounded_alike_in_all_pieces_of_a_log() -> None:
    """20 Hz of 500 Hz smear 12.5 samples; the rate of a piece is 500 Hz up to rounding."""
    settings = Processing(cutoff=20.0, window=0.005)
    rates = 500.0 * (1 + np.array([-1e-9, 0.0, 1e-9]))
    assert len({settings.smeared_samples(rate) for rate in rates}) == 1
    assert len({settings.excluded_samples(rate) for rate in rates}) == 1


def test_windows_reach_around_the_ends_of_a_period() -> None:
    speed = np.array([1.0, 1, 1, 1, -1, -1, -1, -1])[
        :, None
    ]  # the second reversal is where the period begins again
    once = unknown_signs(speed, np.zeros(1), 1)[:, 0]
    again = unknown_signs(speed, np.zeros(1), 1, periodic=True)[:, 0]
    assert np.flatnonzero(once).tolist() == [2, 3, 4, 5]
    assert np.flatnonzero(again).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_motor_spoils_its_own_row_and_a_passive_joint_those_it_moves_with() -> None:
    delta, palida = model_of("delta"), model_of("palida")
    for model in (delta, palida):
        rows = rows_with_coulomb(model)
        for k, name in enumerate(model.rows):
            own = rows[model.mechanism.coordinates.index(name)]
            assert np.flatnonzero(own).tolist() == [k]
    robot = palida.mechanism
    passive = [
        i for i, joint in enumerate(robot.joints) if robot.has_coulomb(joint) and not joint.actuated
    ]
    assert len(passive) == 12
    assert rows_with_coulomb(palida)[passive].all()


def test_a_motor_that_is_no_row_spoils_the_rows_it_is_in() -> None:
    """Three motors drive two degrees of freedom."""
    model = model_of("redundant")
    rows = rows_with_coulomb(model)[list(model.actuated)]
    assert rows.shape == (3, 2)
    assert rows.any(axis=1).all()
    assert sorted(rows.sum(axis=1).tolist())[-1] == 2


COUPLED = (
    """
format = 1
name = "wrist"
[units]
length = "m"
angle = "rad"
mass = "kg"
"""
    + "".join(
        f"""
[[body]]
name = "b{k}"
m = 1.0
com = [0.1, 0, 0]
about = "com"
[[joint]]
name = "q{k}"
type = "revolute"
parent = "{"base" if k == 1 else f"b{k - 1}"}"
child = "b{k}"
xyz = [0.2, 0, 0]
actuated = true
terms = ["fv"]
"""
        for k in (1, 2, 3)
    )
    + """
[[body]]
name = "rotor"
parameters = []
[[joint]]
name = "motor"
type = "revolute"
parent = "base"
child = "rotor"
terms = ["fs"]
[[closure]]
name = "gear"
kind = "coupling"
coefficients = { motor = 1, q2 = -1, q3 = -1 }
"""
)


def test_a_motor_geared_to_two_joints_spoils_their_rows_only() -> None:
    model = Model(parse_robot(COUPLED, "wrist"))
    motion = random_motion(model, 50, seed=1)
    motor = motion.column("motor")
    band = float(np.median(np.abs(motion.qd[:, motor])))
    slow = np.abs(motion.qd[:, motor]) < band
    counts = valid_equations(model, motion, Processing(dead_band={"motor": band}))
    np.testing.assert_array_equal(counts, np.column_stack([np.ones(50, bool), ~slow, ~slow]))


def test_joints_that_hardly_ever_move_may_be_told_to_count(five_bar: Model) -> None:
    motion = random_motion(five_bar, 40, seed=2)
    rest = np.array(motion.qd)
    rest[:, motion.column("left.motor")] = 0.0
    motion = Motion(
        coordinates=motion.coordinates,
        time=motion.time,
        q=motion.q,
        qd=rest,
        qdd=motion.qdd,
        closure_residual=motion.closure_residual,
    )
    bands = {"left.motor": 1e-3, "right.motor": 0.0}
    left = five_bar.rows.index("left.motor")
    assert not valid_equations(five_bar, motion, Processing(dead_band=bands))[:, left].any()
    assert valid_equations(
        five_bar, motion, Processing(dead_band=bands, joints_at_rest=("left.motor",))
    ).all()


def test_a_joint_without_coulomb_friction_spoils_nothing() -> None:
    model = Model(parse_robot(COUPLED.replace('terms = ["fs"]', 'terms = ["fv"]'), "wrist"))
    motion = random_motion(model, 20, seed=1)
    settings = Processing(dead_band=1e9, window=5 / motion.rate)
    assert valid_equations(model, motion, settings).all()


def test_position_noise_is_at_least_that_of_rounding() -> None:
    """A ramp of one step per sample has no third differences but those of floating point."""
    step = 1e-3
    ramp = step * np.arange(200.0)[:, None]
    assert position_noise(ramp)[0] == pytest.approx(step / np.sqrt(12))
    noisy = ramp + 1e-2 * np.random.default_rng(0).standard_normal((200, 1))
    assert position_noise(noisy)[0] == pytest.approx(1e-2, rel=0.2)
