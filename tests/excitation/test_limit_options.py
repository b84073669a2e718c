"""Limits of a design as they are written on a command line and in a study."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gough.app.studies.limit_options import parse_limits
from gough.core.errors import InvalidInput
from gough.engine import as_model
from gough.engine.limits import collect_limits


@pytest.fixture(scope="module")
def five_bar():
    return as_model("five_bar")


def test_limits_are_read_in_si_or_with_a_unit(five_bar) -> None:
    texts = ["left.motor.velocity=90 deg/s", "left.motor.position=-0.5:0.25", "effort=3"]
    limits = parse_limits(texts, five_bar)
    assert limits["left.motor"].velocity == pytest.approx(math.pi / 2)
    assert limits["left.motor"].position == (-0.5, 0.25)
    assert limits["left.motor"].effort == limits["right.motor"].effort == 3.0
    assert limits["right.motor"].velocity is None
    used = {(limit.quantity, limit.name): limit.upper for limit in collect_limits(five_bar, limits)}
    assert used["effort", "right.motor"] == 3.0
    assert used["position", "left.motor"] == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("left.motor.velocity", "expected NAME"),
        ("left.motor.speed=2", "expected NAME"),
        ("left.moter.velocity=2", r"no coordinate 'left\.moter'.*left\.motor"),
        ("velocity=2 mm", "'mm' is no unit of this velocity"),
        ("velocity=1:2", "expected one number"),
        ("position=1", "expected LOW:HIGH"),
        ("position=1:-1", "not below the higher"),
        ("effort=-3", "above zero"),
        ("effort=x", "expected one number"),
    ],
)
def test_a_limit_that_cannot_be_read_is_refused(text, message, five_bar) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_limits([text], five_bar)


def test_a_design_keeps_the_limits_that_were_given(five_bar) -> None:
    from gough.app.studies.study_file import run_step

    options = {"starts": 1, "iterations": 8, "frequency": 0.5, "harmonics": 2}
    words = {"robot": "five_bar", "limit": ["velocity=0.3"], **options}
    found = run_step("design", words)
    time = np.linspace(0.0, found.trajectory.period, 400)
    position, velocity, acceleration = found.trajectory.at(time)
    by = "actuated" if found.trajectory.coordinates == five_bar.mechanism.actuated else "task"
    motion = five_bar.kinematics.motion(time, position, velocity, acceleration, by)
    columns = [five_bar.mechanism.coordinates.index(name) for name in five_bar.mechanism.actuated]
    fastest = np.abs(motion.qd[:, columns]).max()
    assert 0.2 < fastest <= 0.3 * (1 + 1e-6)
