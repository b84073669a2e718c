"""Noise as asked, quantisation, currents, seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from moving_robots import excitation

from gough.core.errors import InvalidInput
from gough.mechanism.types import Noise
from gough.virtual import Simulation, record, simulate
from tests_support import model_of


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    model = model_of("orthoglide")
    return simulate(
        model,
        excitation(model, period=2.0, reach=0.5),
        controller="pid+",
        periods=4,
        rate=1000,
        dead_band=0.02,
    )


def test_effort_noise_has_the_covariance_asked_for(simulation: Simulation) -> None:
    noise = Noise(effort=3.0, correlation=0.4)
    wanted = noise.effort_covariance(3)
    np.testing.assert_allclose(wanted, [[9, 3.6, 3.6], [3.6, 9, 3.6], [3.6, 3.6, 9]])
    drawn = np.concatenate(
        [
            record(simulation, noise=noise, seed=s).current * simulation.gains
            - simulation.mean_effort[0]
            for s in range(3)
        ]
    )
    # 24000 samples: standard error of a variance is sqrt(2 / N) = 0.9 %, of a covariance a little
    # less.
    np.testing.assert_allclose(np.cov(drawn.T), wanted, atol=0.04 * 9)
    lagged = np.mean(drawn[1:] * drawn[:-1], axis=0) / 9
    assert np.abs(lagged).max() < 0.025  # white


def test_a_full_covariance_may_be_given(simulation: Simulation) -> None:
    wanted = np.array([[4.0, -1.0, 0.5], [-1.0, 2.0, 0.0], [0.5, 0.0, 1.0]])
    recording = record(simulation, noise=Noise(), covariance=wanted, seed=5)
    drawn = recording.current * simulation.gains - simulation.mean_effort[0]
    np.testing.assert_allclose(np.cov(drawn.T), wanted, atol=0.2)
    with pytest.raises(InvalidInput, match="positive semi-definite"):
        record(simulation, covariance=-wanted)


def test_position_noise_and_encoder_steps_are_visible(simulation: Simulation) -> None:
    resolution = 6e-6
    stepped = record(simulation, noise=Noise(resolution=resolution)).position
    counts = stepped / resolution
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    error = stepped - simulation.position[0]
    assert np.abs(error).max() <= resolution / 2 * (1 + 1e-9)
    assert error.std() == pytest.approx(resolution / np.sqrt(12), rel=0.03)
    noisy = record(simulation, noise=Noise(position=2e-5)).position - simulation.position[0]
    assert noisy.std() == pytest.approx(2e-5, rel=0.03)


def test_without_noise_the_record_is_the_truth(simulation: Simulation) -> None:
    recording = record(simulation, noise=Noise())
    np.testing.assert_array_equal(recording.position, simulation.position[0])
    np.testing.assert_allclose(
        recording.current * simulation.gains, simulation.mean_effort[0], rtol=1e-12
    )
    command = record(simulation, noise=Noise(), average=False)
    np.testing.assert_allclose(command.current * simulation.gains, simulation.effort[0], rtol=1e-12)


def test_robots_with_gains_record_currents_and_others_efforts(simulation: Simulation) -> None:
    recording = record(simulation)
    assert recording.effort is None
    assert recording.current_units == ("1", "1", "1")
    model = model_of("five_bar")
    plain = record(simulate(model, excitation(model), rate=500, lead_in=0))
    assert plain.current is None
    assert plain.effort is not None


def test_same_seed_same_bytes(simulation: Simulation, tmp_path: Path) -> None:
    paths = [
        record(simulation, seed=s).save(tmp_path / f"{i}.csv") for i, s in enumerate((7, 7, 8))
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes() != paths[2].read_bytes()


def test_recordings_know_period_payload_and_reference() -> None:
    model = model_of("five_bar")
    simulation = simulate(
        model, excitation(model, period=0.5), payload="disc", rate=500, periods=2, sampling=250
    )
    recording = record(simulation, velocity_noise=0.0)
    assert recording.period_samples == 125
    assert recording.period_count == 2
    assert recording.payload == "disc"
    np.testing.assert_array_equal(recording.reference, simulation.reference)
    np.testing.assert_allclose(recording.velocity, simulation.velocity[0], atol=1e-12)
    assert recording.rate == pytest.approx(250)


def test_impossible_noise_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"correlation -0\.6; expected at least zero, and -0\.5 to 1"
    ):
        Noise(effort=1.0, correlation=-0.6).effort_covariance(3)
    model = model_of("five_bar")
    simulation = simulate(model, excitation(model, period=0.2, reach=0.05), rate=500, lead_in=0)
    with pytest.raises(InvalidInput, match="position noise -1"):
        record(simulation, noise=Noise(position=-1.0))
