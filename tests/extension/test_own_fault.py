"""A fault that is no part of Gough: it is found, measured and named like those of the package."""

from __future__ import annotations

from collections.abc import Iterator

import my_gough
import numpy as np
import pytest

from gough.engine import Model
from gough.logs.recording import Recording
from gough.verdict.diagnose import diagnose
from tests_support import fourier, registries_restored

RATE = 125.0  # [Hz]
FALL = 0.005  # of the gain [1/s]


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    with registries_restored():
        my_gough.register()
        yield


def make_log(model: Model, seed: int, fall: float) -> Recording:
    """Return a log in which the gain of one motor falls."""
    trajectory = fourier(model, 0.8, 0.05, seed=seed, harmonics=16)
    time = np.arange(round(20.0 * RATE)) / RATE
    motion = model.kinematics.motion(time, *trajectory.at(time), "task")
    values = 1.1 * model.values(model.mechanism.standard.names)
    effort = model.inverse_dynamics(motion, values)
    effort[:, 1] *= 1 - fall * time
    rng = np.random.default_rng(seed)
    position = motion.q[:, list(model.actuated)]
    return Recording(
        joints=model.mechanism.actuated,
        time=time,
        position=position + 2e-5 * rng.standard_normal(position.shape),
        position_units=("rad", "rad"),
        effort=effort + 0.02 * rng.standard_normal(effort.shape),
        source=f"log {seed}",
    )


def test_it_is_named_and_measured_where_it_is(five_bar: Model) -> None:
    logs = [make_log(five_bar, seed, FALL) for seed in range(2)]
    (fault,) = diagnose(five_bar, logs).faults
    assert (fault.name, fault.place) == ("falling gain", "right.motor")
    assert fault.text.startswith("the gain of right.motor falls by ")
    assert fault.advice == "let the drive of right.motor cool down"
    assert abs(fault.size[0] - FALL) < 4 * fault.std[0]


def test_it_is_not_named_where_it_is_not(five_bar: Model) -> None:
    logs = [make_log(five_bar, seed, 0.0) for seed in range(2)]
    assert diagnose(five_bar, logs).faults == ()
