"""Exchanged channels and factors of time: said where the logs do not show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism import load_robot, parse_robot
from gough.processing import Processing
from gough.verdict.detectable import limits_notice
from gough.verdict.diagnose import DiagnoseSettings, evidence_from
from gough.verdict.evidence import Evidence
from gough.verdict.search import Search
from gough.verdict.stage import Stage
from gough.verdict.unnoticed import unnoticed_faults
from tests_support import fourier

RATE = 100.0  # [Hz]
# Two horizontal axes that do not act on each other.
TWO_AXES = """
format = 1
name = "two_axes"
[units]
length = "m"
angle = "rad"
mass = "kg"
[[body]]
name = "first"
parameters = ["mx", "Izz"]
mx = 0.5
Izz = 0.3
[[body]]
name = "second"
parameters = ["mx", "Izz"]
mx = 0.0
Izz = 0.1
[[joint]]
name = "a"
type = "revolute"
parent = "base"
child = "first"
rpy = [0, 1.5707963267948966, 0]
actuated = true
terms = ["fv", "fs"]
values = { fv = 0.5, fs = 1.0 }
[[joint]]
name = "b"
type = "revolute"
parent = "base"
child = "second"
rpy = [0, 1.5707963267948966, 0]
actuated = true
terms = ["fv", "fs"]
values = { fv = 0.5, fs = 1.0 }
"""


def texts(evidence: Evidence) -> list[str]:
    search = Search(evidence, with_discrete=False)
    return [fault.text for fault in unnoticed_faults(evidence, search.labels, 1000)]


@pytest.fixture(scope="module")
def delta_log() -> tuple[Model, Recording]:
    """A Delta whose legs differ by a tenth."""
    model = Model(load_robot("delta"))
    time = np.arange(400) / RATE
    trajectory = fourier(model, 0.7, 0.5, seed=3, harmonics=5)
    motion = model.kinematics.motion(time, *trajectory.at(time), "task")
    names = model.mechanism.standard.names
    rng = np.random.default_rng(0)
    values = model.values(names) * np.exp(0.1 * rng.standard_normal(len(names)))
    effort = model.inverse_dynamics(motion, values)
    effort = effort + 0.005 * effort.std() * rng.standard_normal(effort.shape)
    log = Recording(
        joints=model.mechanism.actuated,
        time=time,
        position=motion.q[:, list(model.actuated)],
        position_units=("rad", "rad", "rad"),
        effort=effort,
    )
    return model, log


def test_exchanged_legs_of_a_delta_are_its_mirror_image(delta_log: tuple[Model, Recording]) -> None:
    """The model fits a log with two legs exchanged as well as the right one, to 1 %."""
    model, log = delta_log
    order = [1, 0, 2]
    assert log.effort is not None
    mirrored = replace(log, position=log.position[:, order], effort=log.effort[:, order])
    errors = []
    for each in (log, mirrored):
        evidence, _ = evidence_from(model, [each], (), DiagnoseSettings())
        assert "the channels of leg1.motor and leg2.motor are swapped" in texts(evidence)
        labels = Search(evidence, with_discrete=False).labels
        errors.append(Stage(evidence, labels).error)
    assert errors[1] == pytest.approx(errors[0], rel=0.01)


def test_a_clock_at_half_the_rate_may_not_show_but_exchanged_channels_do(
    clean: Evidence, make_log: Callable[..., Recording], five_bar: Model
) -> None:
    """At twice the pace other inertias explain a slow motion, but not a fast one."""
    clock = ["times are 2 times too long", "times are 2 times too short"]
    assert texts(clean) == clock
    log = make_log(2)
    slow = replace(log, time=2 * log.time)
    evidence, _ = evidence_from(five_bar, [slow], (), DiagnoseSettings())
    assert texts(evidence) == clock


@pytest.mark.parametrize(("unbalance", "hidden"), [(0.0, True), (0.2, False)])
def test_the_unit_of_an_angle_does_not_show_at_a_balanced_axis(
    unbalance: float, hidden: bool
) -> None:
    """Other inertias and frictions explain angles in degrees; the weight of a pendulum does not."""
    model = Model(parse_robot(TWO_AXES, "two_axes"))
    time = np.arange(800) / RATE
    angles = []
    for first, second in ((0.25, 1.9), (0.35, 1.6)):
        angles.append(0.8 * np.sin(2 * np.pi * first * time) + 0.4 * np.cos(5 * second * time))
    q = np.stack(angles, axis=1)
    qd = np.gradient(q, time, axis=0)
    motion = model.kinematics.motion(time, q, qd, np.gradient(qd, time, axis=0), "actuated")
    values = model.standard_values({"second.mx": unbalance})
    effort = model.inverse_dynamics(motion, values)
    rng = np.random.default_rng(1)
    effort = effort + 0.005 * effort.std(axis=0) * rng.standard_normal(effort.shape)
    log = Recording(
        joints=model.mechanism.actuated,
        time=time,
        position=motion.q,
        position_units=("rad", "rad"),
        effort=effort,
    )
    evidence, _ = evidence_from(
        model, [log], (), DiagnoseSettings(processing=Processing(cutoff=10))
    )
    assert ("the position of b is 57.2958 times too large" in texts(evidence)) == hidden
    assert "the position of a is 57.2958 times too large" not in texts(evidence)


def test_the_notice_lists_what_would_not_be_noticed() -> None:
    (notice,) = limits_notice([], unnoticed=["the channels of a and b are swapped"])
    assert notice.text.endswith(
        "one factor on all efforts; that the channels of a and b are swapped"
    )
