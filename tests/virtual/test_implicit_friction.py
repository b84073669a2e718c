"""Coulomb friction at steps that do not resolve its dead band: closed forms, fine steps, rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from moving_robots import excitation

from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.mechanism.types import Body, Joint, Mechanism
from gough.virtual import GoughPlant, PlantSettings, simulate
from gough.virtual.plant import count_substeps, friction_rate
from tests_support import model_of

MASS = 2.0  # of the cart [kg]
FRICTION = 10.0  # of its slide [N]
PERIOD = 1e-3  # [s]


def cart() -> Model:
    """Return a mass on a slide with Coulomb friction."""
    slide = Joint(
        name="slide",
        kind="prismatic",
        parent="base",
        child="cart",
        actuated=True,
        terms=("fs", "fv"),
        values={"fs": FRICTION, "fv": 0.0},
    )
    return Model(
        Mechanism(
            name="cart",
            bodies=(Body(name="cart", values={"m": MASS}),),
            joints=(slide,),
            gravity=(0.0, 0.0, 0.0),
        )
    )


def settings_of(model: Model, band: FloatArray | float, substeps: int = 1) -> PlantSettings:
    return PlantSettings(
        model=model,
        values=model.standard_values()[None],
        load=model.load()[None],
        dead_band=np.broadcast_to(band, (len(model.home),)).astype(float),
        period=PERIOD,
        substeps=substeps,
    )


def run_cart(band: float, velocity: float, effort: float, samples: int) -> FloatArray:
    """Return position and velocity of the cart at all samples, (t, 2)."""
    plant = GoughPlant(settings_of(cart(), band))
    state = plant.start(np.zeros((1, 1)), np.full((1, 1), velocity))
    states = []
    for _ in range(samples):
        states.append(state[0])
        _, state = plant.step(state, np.full((3, 1, 1), effort))
    return np.array(states)


@pytest.mark.parametrize("band", [1e-9, 1e-6, 1e-4])
def test_a_sliding_cart_stops_where_its_energy_is_spent_and_stays(band: float) -> None:
    """It stops after m v / fs = 61.4 ms and m v^2 / (2 fs) = 9.4 mm, between two samples."""
    velocity = 0.307
    states = run_cart(band, velocity, 0.0, 200)
    distance = MASS * velocity**2 / (2 * FRICTION)
    at_rest = states[63:]
    np.testing.assert_allclose(at_rest[:, 0], distance, atol=1e-3 * distance)
    assert np.abs(at_rest[:, 1]).max() <= 1e-3 * band
    assert np.ptp(at_rest[:, 0]) <= 1e-3 * band


@pytest.mark.parametrize("z", [0.1, 1.0, 5.0, 200.0])
def test_one_joint_inside_its_band_decays_by_the_approximation_of_exp(z: float) -> None:
    band = FRICTION * PERIOD / (MASS * z)
    states = run_cart(band, 0.5 * band, 0.0, 6)
    ratio = states[1:, 1] / states[:-1, 1]
    expected = 1 / (1 + z + z**2 / 2 + z**3 / 6)
    np.testing.assert_allclose(ratio, expected, rtol=1e-5)


@pytest.mark.parametrize("band", [1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("effort", [-9.0, 4.0, 9.9])
def test_friction_holds_a_cart_against_smaller_forces_without_chatter(
    band: float, effort: float
) -> None:
    """Inside the band it creeps at band * effort / fs, with a velocity that never swings."""
    velocity = run_cart(band, 0.0, effort, 60)[:, 1]
    creep = band * effort / FRICTION
    assert velocity[-1] == pytest.approx(creep, rel=1e-6)
    towards = np.sign(creep) * np.diff(velocity)
    assert (towards >= -1e-10 * band).all()


@pytest.mark.parametrize("drive", [11.0, 25.0, 100.0])
def test_a_force_beyond_friction_reverses_a_cart_as_the_closed_form_says(drive: float) -> None:
    """Friction turns round with the velocity, between two samples."""
    start = -0.0127
    samples = 40
    velocity = run_cart(1e-6, start, drive, samples)[-1, 1]
    stopping = -start * MASS / (drive + FRICTION)
    remaining = (samples - 1) * PERIOD - stopping
    expected = remaining * (drive - FRICTION) / MASS
    largest_error = 0.2 * PERIOD * FRICTION / MASS
    assert velocity == pytest.approx(expected, abs=largest_error)


def open_loop(model: Model, substeps: int, band: FloatArray, efforts: FloatArray) -> FloatArray:
    """Return q at all samples of a robot that starts at rest under given motor efforts, (t, n)."""
    plant = GoughPlant(settings_of(model, band, substeps))
    state = plant.start(model.home[None], np.zeros((1, len(model.home))))
    positions = []
    for effort in efforts:
        held = np.broadcast_to(effort, (2 * substeps + 1, 1, len(effort)))
        sample, state = plant.step(state, held)
        positions.append(sample.q[0])
    return np.array(positions)


def test_the_error_falls_with_the_square_of_the_step() -> None:
    """Motors and passive joints of a five-bar stick, break away and reverse."""
    model = model_of("five_bar")
    band = np.full(len(model.home), 5e-3)
    time = np.arange(300) * PERIOD
    holding = model.bias(model.home[None], np.zeros((1, 2)))[0]
    efforts = holding + 4.0 * np.sin(2 * np.pi * 8 * time)[:, None] * [1.0, -0.6]
    reference = open_loop(model, 64, band, efforts)
    assert np.abs(reference - model.home).max() > 0.01  # it moves
    errors = []
    for substeps in (1, 2, 4):
        positions = open_loop(model, substeps, band, efforts)
        errors.append(np.abs(positions - reference).max())
    assert errors[0] < 1e-4
    assert errors[2] < errors[0] / 6


def test_friction_takes_energy_from_a_robot_until_all_its_joints_rest() -> None:
    model = model_of("five_bar")
    level = Model(replace(model.mechanism, gravity=(0.0, 0.0, 0.0)))
    settings = settings_of(level, 1e-4)
    plant = GoughPlant(settings)
    velocity = np.array([[2.0, -1.0]])
    qd, _ = level.kinematics.rates(
        level.home[None], velocity, np.zeros_like(velocity), level.loops.dynamic
    )
    state = plant.start(level.home[None], qd)
    energies = []
    for _ in range(400):
        sample, state = plant.step(state, np.zeros((3, 1, 2)))
        mass = level.mass_matrix(sample.q)[0]
        energies.append(0.5 * sample.velocity[0] @ mass @ sample.velocity[0])
    energy = np.array(energies)
    assert (np.diff(energy) <= 0).all()
    assert energy[-1] < 1e-9 * energy[0]


def test_one_step_in_a_millisecond_is_the_default_and_keeps_loops_closed() -> None:
    model = model_of("palida")
    tour = excitation(model, period=0.3, reach=0.05)
    by_default = simulate(model, tour, lead_in=0)
    one_step = simulate(model, tour, lead_in=0, substeps=1)
    fine = simulate(model, tour, lead_in=0, substeps=10)
    np.testing.assert_array_equal(by_default.q, one_step.q)
    assert by_default.loop_error.max() < 1e-14
    assert np.abs(by_default.q - fine.q).max() < 1e-5  # a third of the encoders' noise


def test_a_batch_of_64_equals_a_robot_alone() -> None:
    model = model_of("five_bar")
    tour = excitation(model, period=0.2, reach=0.05)
    alone = simulate(model, tour, lead_in=0)
    values = np.tile(model.standard_values(), (64, 1))
    batch = simulate(model, tour, lead_in=0, values=values)
    for k in range(64):
        np.testing.assert_array_equal(batch.q[k], alone.q[0])
        np.testing.assert_array_equal(batch.effort[k], alone.effort[0])


def test_only_friction_outside_the_sign_asks_for_steps() -> None:
    """fv / m = 4000 / 2 = 2000 1/s: a millisecond needs 2 steps of at most 1.2 / 2000 s."""
    model = cart()
    values = model.standard_values({"slide.fv": 4000.0})[None]
    load = model.load()[None]
    band = np.array([1e-6])
    rate = friction_rate(model, values, load, band, model.home[None], coulomb=False)
    assert rate == pytest.approx(2000.0)
    assert count_substeps(rate, PERIOD, fewest=1) == 2
    assert count_substeps(1.0, PERIOD, fewest=1) == 1
