"""Terms with memory: lags along a log, over its blocks, in the plants, in the C code, and recorded
channels.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.app.identify import identify
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.motion import Motion
from gough.engine import Model, base_parameters
from gough.engine.internal_states import COMPLEX_STEP_MATH, integrate_internal_states
from gough.logs.readers import read_recording
from gough.logs.recording import Channels, Recording
from gough.mechanism import parse_robot, robot_text
from gough.processing import Processing, process, regression, regression_blocks
from gough.virtual import record, simulate
from tests_support import c_efforts, fourier

TEXT = (
    robot_text("five_bar")[0]
    .replace('terms = ["ia", "fv", "fs"]', 'terms = ["ia", "fv", "fs", "fs_time", "fs_distance"]')
    .replace('fs = "$fs" }', 'fs = "$fs", fs_time = 0.4, fs_distance = 0.3 }')
)
TEMPERATURE = TEXT.replace('"fs_time", "fs_distance"', '"fv_temperature"').replace(
    "fs_time = 0.4, fs_distance = 0.3", "fv_temperature = 0.02"
)


@pytest.fixture(scope="module")
def robot() -> Model:
    return Model(parse_robot(TEXT, "five_bar.toml"))


@pytest.fixture(scope="module")
def motion(robot: Model) -> Motion:
    return simulate(robot, fourier(robot, 0.3, 0.5), periods=2, rate=500).motion()


def lagged(sign: np.ndarray, way: np.ndarray) -> np.ndarray:
    """One sample after the other."""
    w = sign.astype(float).copy()
    for k in range(1, len(sign)):
        keep = np.exp(-way[k - 1])
        w[k] = keep * w[k - 1] + (1 - keep) * (sign[k] + sign[k - 1]) / 2
    return w


def test_columns_are_the_lags_of_the_sign(robot: Model, motion: Motion) -> None:
    W = robot.regressor(motion, ["left.motor.fs_time", "left.motor.fs_distance"])[:, 0]
    j = motion.column("left.motor")
    sign = np.sign(motion.qd[:, j])
    np.testing.assert_allclose(W[:, 0], lagged(sign, np.diff(motion.time) / 0.1), atol=1e-12)
    np.testing.assert_allclose(
        W[:, 1], lagged(sign, np.abs(np.diff(motion.q[:, j])) / 0.02), atol=1e-12
    )
    assert np.abs(W[:, 0] - sign).max() > 0.5


def test_pieces_carry_the_past_along(robot: Model, motion: Motion) -> None:
    band = np.full(len(motion.coordinates), 0.01)
    whole = integrate_internal_states(robot.mechanism, motion, band)[0]
    filter_state, parts = None, []
    for part in (slice(0, 1), slice(1, 130), slice(130, 700), slice(700, None)):
        extra, filter_state = integrate_internal_states(
            robot.mechanism, motion.take(part), band, filter_state=filter_state
        )
        parts.append(extra)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-13)


def test_a_period_joins_its_own_end(robot: Model, motion: Motion) -> None:
    band, n = np.full(len(motion.coordinates), 0.01), len(motion) // 2
    lap = motion.take(slice(0, n))
    around = integrate_internal_states(robot.mechanism, lap, band, periodic=True)[0]
    q, qd = np.tile(lap.q, (9, 1)), np.tile(lap.qd, (9, 1))
    laps = replace(
        lap,
        time=np.arange(9 * n) / 500.0,
        q=q,
        qd=qd,
        qdd=np.zeros_like(q),
        closure_residual=np.zeros(9 * n),
    )
    np.testing.assert_allclose(
        around, integrate_internal_states(robot.mechanism, laps, band)[0][-n:], atol=1e-10
    )
    assert around.shape == (n, 4)


def test_a_complex_step_gives_the_derivative_by_a_constant(robot: Model, motion: Motion) -> None:
    band = np.full(len(motion.coordinates), 0.01)

    def at(value: complex) -> np.ndarray:
        constants = {"fs_time.time": 0.1 + value, "fs_distance.distance": 0.02 + 0.2 * value}
        return integrate_internal_states(
            robot.mechanism, motion, band, constants=constants, math=COMPLEX_STEP_MATH
        )[0]

    exact = np.imag(at(1e-30j)) / 1e-30
    np.testing.assert_allclose(
        exact, np.real(at(1e-5) - at(-1e-5)) / 2e-5, atol=1e-4 * np.abs(exact).max()
    )


def test_a_log_read_in_blocks_gives_the_same_columns(
    robot: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = record(simulate(robot, fourier(robot, 0.3, 0.5), periods=4, rate=500), seed=2)
    log = replace(log, period_samples=None)
    settings = Processing(
        method="time", cutoff=20.0, window=0.0, dead_band=0.01, decimation=4, joints_at_rest=()
    )
    base = base_parameters(robot)
    whole = regression(robot, process(robot, log, settings), base)
    monkeypatch.setattr("gough.processing.pipeline.FILTERED_SAMPLES", 500)
    parts = list(regression_blocks(robot, log, base, settings))
    assert len(parts) > 3
    np.testing.assert_allclose(
        np.concatenate([part.regressor for part in parts]), whole.regressor, atol=1e-8
    )


@pytest.mark.parametrize("plant", ["gough", "pinocchio", "mujoco"])
def test_every_plant_remembers(robot: Model, plant: str) -> None:
    """Efforts of the simulated motion are those of the inverse dynamics, once the start is
    forgotten.
    """
    if plant != "gough":
        pytest.importorskip(plant)
    tour = fourier(robot, 0.3, 0.5)
    done = simulate(robot, tour, plant=plant, periods=1, rate=500, lead_in=0)
    along = done.motion()
    expected = robot.inverse_dynamics(along, dead_band=done.dead_band)
    plain = robot.inverse_dynamics(
        along,
        robot.standard_values(
            {
                f"{leg}.motor.{term}": 0.0
                for leg in ("left", "right")
                for term in ("fs_time", "fs_distance")
            }
        ),
        dead_band=done.dead_band,
    )
    late = slice(len(along) // 2, None)
    assert np.abs(expected - plain)[late].max() > 0.5
    assert np.abs(done.effort[0] - expected)[late].max() < 0.02


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_code_remembers(robot: Model, motion: Motion, tmp_path: Path) -> None:
    found = c_efforts(robot, motion, tmp_path, dead_band=0.02, period=0.002)
    np.testing.assert_allclose(found, robot.inverse_dynamics(motion, dead_band=0.02), atol=1e-8)


def warm(log: Recording, degrees: np.ndarray) -> Recording:
    return replace(
        log, extra=Channels(names=("temperature",), units=("degC",), values=degrees[:, None])
    )


def test_a_recorded_temperature_is_part_of_the_columns(tmp_path: Path) -> None:
    model = Model(parse_robot(TEMPERATURE, "five_bar.toml"))
    log = replace(
        record(simulate(model, fourier(model, 0.3, 0.5), periods=3, rate=500), seed=2),
        period_samples=None,
    )
    degrees = np.linspace(20.0, 60.0, len(log))
    settings = Processing(
        method="time", cutoff=20.0, window=0.0, dead_band=0.01, decimation=1, joints_at_rest=()
    )
    with pytest.raises(
        InvalidRecording,
        match="terms fv_temperature depend on the channel 'temperature', which was n",
    ):
        process(
            model,
            replace(log, extra=Channels(names=(), units=(), values=np.zeros((len(log), 0)))),
            settings,
        )
    done = process(model, warm(log, degrees), settings)
    W = regression(model, done, ["left.motor.fv", "left.motor.fv_temperature"]).regressor[:, 0]
    np.testing.assert_allclose(W[:, 1], W[:, 0] * (degrees[done.sample] - 20.0), atol=1e-12)
    path = warm(log, degrees).save(tmp_path / "log.csv")
    assert "temperature.extra [degC]" in path.read_text()
    np.testing.assert_array_equal(read_recording(path).channels["temperature"], degrees)


def test_virtual_logs_at_two_temperatures_tell_its_effect(tmp_path: Path) -> None:
    model = Model(parse_robot(TEMPERATURE, "five_bar.toml"))
    logs = [
        record(
            simulate(
                model,
                fourier(model, 0.3, 0.5),
                periods=2,
                rate=500,
                channels={"temperature": degrees},
            ),
            seed=k,
        )
        for k, degrees in enumerate((20.0, 60.0))
    ]
    logs = [read_recording(log.save(tmp_path / f"{k}.csv")) for k, log in enumerate(logs)]
    estimate = identify(model, logs).estimate
    name = "left.motor.fv_temperature"
    assert abs(estimate[name] - 0.02) < 3 * estimate.std[estimate.parameters.index(name)] < 0.01
    with pytest.raises(
        InvalidInput, match="no term of 'five_bar' depends on a channel 'temprature'; did you mean"
    ):
        simulate(model, fourier(model, 0.3, 0.5), channels={"temprature": 1.0})
