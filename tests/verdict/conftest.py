"""Logs of a five-bar whose values differ from its file by about a tenth, made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gough.engine import Model
from gough.logs.recording import Recording
from gough.verdict.diagnose import DiagnoseSettings, evidence_from
from gough.verdict.evidence import Evidence
from tests_support import fourier

RATE = 125.0  # [Hz]
PERIODS = 4
FREQUENCY = 0.2  # [Hz]
EFFORT_NOISE = 0.02  # [N m]
POSITION_NOISE = 2e-5  # [rad]

MakeLog = Callable[..., Recording]


@pytest.fixture(scope="session")
def true_values(five_bar: Model) -> np.ndarray:
    """Standard parameters of the robot behind the logs: 10 % off the file's."""
    names = five_bar.mechanism.standard.names
    rng = np.random.default_rng(7)
    return five_bar.values(names) * np.exp(0.1 * rng.standard_normal(len(names)))


@pytest.fixture(scope="session")
def make_log(five_bar: Model, true_values: np.ndarray) -> MakeLog:
    """Return a function that makes a log by inverse dynamics, with noise."""
    time = np.arange(round(PERIODS * RATE / FREQUENCY)) / RATE

    def make(
        seed: int, *, plant: Model = five_bar, payload: float = 0.0, noise_seed: int = 0
    ) -> Recording:
        trajectory = fourier(five_bar, 0.8, FREQUENCY, seed=seed, harmonics=16)
        one_period = time[: round(RATE / FREQUENCY)]
        motion = plant.kinematics.motion(one_period, *trajectory.at(one_period), "task")
        load = np.zeros(len(plant.load_columns))
        load[0] = payload
        effort = plant.inverse_dynamics(motion, true_values, load=load)
        rng = np.random.default_rng([seed, noise_seed])
        position = np.tile(motion.q[:, list(plant.actuated)], (PERIODS, 1))
        effort = np.tile(effort, (PERIODS, 1))
        return Recording(
            joints=plant.mechanism.actuated,
            time=time,
            position=position + POSITION_NOISE * rng.standard_normal(position.shape),
            position_units=("rad", "rad"),
            effort=effort + EFFORT_NOISE * rng.standard_normal(effort.shape),
            period_samples=len(one_period),
            source=f"log {seed}",
        )

    return make


@pytest.fixture(scope="session")
def logs(make_log: MakeLog) -> tuple[Recording, Recording]:
    """Two logs of different motions."""
    return make_log(0), make_log(1)


@pytest.fixture(scope="session")
def clean(five_bar: Model, logs: tuple[Recording, Recording]) -> Evidence:
    """What the verdict sees of both logs."""
    return evidence_from(five_bar, logs, (), DiagnoseSettings())[0]


@pytest.fixture(scope="session")
def without_periods(logs: tuple[Recording, Recording]) -> tuple[Recording, Recording]:
    """The same logs, with no period declared."""
    first, second = logs
    return replace(first, period_samples=None), replace(second, period_samples=None)
