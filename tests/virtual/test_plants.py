"""The plants against closed forms, energy, an independent integrator, and each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from moving_robots import excitation, without
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Joint, Mechanism
from gough.virtual import GoughPlant, PlantSettings, simulate
from gough.virtual.mujoco_plant import mujoco_plant
from gough.virtual.pinocchio_plant import ConstrainedTree, pinocchio_plant
from gough.virtual.plant import Plant, count_substeps, friction_rate
from tests_support import model_of

PLANTS: tuple[Callable[[PlantSettings], Plant], ...] = (GoughPlant, pinocchio_plant, mujoco_plant)


def settings_of(
    model: Model,
    values: np.ndarray,
    period: float = 1e-3,
    substeps: int = 2,
    band: float = 1e-3,
    load: np.ndarray | None = None,
) -> PlantSettings:
    values = np.atleast_2d(values)
    return PlantSettings(
        model=model,
        values=values,
        load=np.zeros((len(values), 10)) if load is None else load,
        dead_band=np.full(len(model.home), band),
        period=period,
        substeps=substeps,
    )


def run(
    plant: Plant, q: np.ndarray, qd: np.ndarray, samples: int, motors: int, substeps: int
) -> np.ndarray:
    """Return all coordinates of the first trial while the motors are off, (t, n)."""
    state = plant.start(q, qd)
    effort = np.zeros((2 * substeps + 1, len(q), motors))
    out = []
    for _ in range(samples):
        sample, state = plant.step(state, effort)
        out.append(sample.q[0])
    return np.array(out)


def pendulum() -> Model:
    return Model(
        Mechanism(
            name="pendulum",
            bodies=(
                Body(
                    name="bob",
                    values={
                        "m": 1.3,
                        "mx": 1.3 * 0.7,
                        "Ixx": 0.01,
                        "Iyy": 1.3 * 0.49 + 0.015,
                        "Izz": 1.3 * 0.49 + 0.02,
                    },
                ),
            ),
            joints=(
                Joint(
                    name="hinge",
                    kind="revolute",
                    parent="base",
                    child="bob",
                    actuated=True,
                    placement=Placement((("Rz", -np.pi / 2),)),
                    start=1.0,
                ),
            ),
            gravity=(0, -9.81, 0),
        )
    )


@pytest.mark.parametrize("plant", PLANTS)
def test_a_pendulum_swings_as_the_elliptic_functions_say(
    plant: Callable[[PlantSettings], Plant],
) -> None:
    """theta = 2 asin(k sn(K - w t)), k = sin(theta0 / 2), w^2 = m g l / I."""
    model, amplitude = pendulum(), 2.0
    w, k = np.sqrt(1.3 * 9.81 * 0.7 / (1.3 * 0.49 + 0.02)), np.sin(1.0)
    time = np.arange(2000) * 1e-3
    theta = run(
        plant(settings_of(model, model.standard_values())),
        np.array([[amplitude]]),
        np.zeros((1, 1)),
        len(time),
        1,
        2,
    )[:, 0]
    expected = 2 * np.arcsin(k * ellipj(ellipk(k**2) - w * time, k**2)[0])
    # Runge-Kutta of fourth order for our plant and MuJoCo, the midpoint rule for Pinocchio's.
    np.testing.assert_allclose(theta, expected, atol=2e-6 if plant is pinocchio_plant else 1e-10)


def test_a_five_bar_falls_as_pinocchio_and_an_independent_integrator_say() -> None:
    model = model_of("five_bar")
    values = model.standard_values(without(model, "fs"))
    time = np.arange(250) * 1e-3
    q = run(
        GoughPlant(settings_of(model, values)), model.home[None], np.zeros((1, 6)), len(time), 2, 2
    )
    tree = ConstrainedTree(model, values, np.zeros(10), np.ones(6))
    order = np.argsort(tree.coordinates)

    def rate(_: float, x: np.ndarray) -> np.ndarray:
        q, v = x[:6][tree.coordinates], x[6:][tree.coordinates]
        return np.concatenate([x[6:], tree.acceleration(q, v, np.zeros(2))[order]])

    there = solve_ivp(
        rate,
        (0, time[-1]),
        np.concatenate([model.home, np.zeros(6)]),
        method="DOP853",
        t_eval=time,
        rtol=1e-12,
        atol=1e-12,
    )
    assert np.abs(q - model.home).max() > 0.2  # it does fall
    np.testing.assert_allclose(q, there.y[:6].T, atol=1e-9)


def energy(model: Model, q: np.ndarray, velocity: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return kinetic and potential energy, (t,); the latter from body poses and first moments.

    [J]
    """
    rotation, origin = model.kinematics.body_poses(q)
    table = dict(zip(model.mechanism.standard.names, values.tolist()))
    total = 0.5 * np.einsum("ti,tij,tj->t", velocity, model.mass_matrix(q, values), velocity)
    for b, body in enumerate(model.mechanism.bodies):
        mass, *first = (table.get(f"{body.name}.{p}", 0.0) for p in ("m", "mx", "my", "mz"))
        total -= (mass * origin[:, b] + rotation[:, b] @ np.array(first)) @ np.array(
            model.mechanism.gravity
        )
    return total


@pytest.mark.parametrize("name", ["five_bar", "palida", "redundant"])
def test_energy_is_conserved_without_friction_and_motors(name: str) -> None:
    model = model_of(name)
    values = model.standard_values(without(model, "fs", "fv", "off", "k"))
    plant = GoughPlant(settings_of(model, values))
    state = plant.start(model.home[None], np.zeros((1, len(model.home))))
    effort = np.zeros((5, 1, len(model.actuated)))
    q, v = [], []
    for _ in range(150):
        sample, state = plant.step(state, effort)
        q.append(sample.q[0])
        v.append(sample.velocity[0])
    level = energy(model, np.array(q), np.array(v), values)
    kinetic = (
        0.5 * np.array(v)[-1] @ model.mass_matrix(np.array(q)[-1:], values)[0] @ np.array(v)[-1]
    )
    assert kinetic > 0.1
    np.testing.assert_allclose(level, level[0], atol=1e-8 * kinetic)


def test_loops_stay_closed_over_a_minute() -> None:
    model = model_of("five_bar")
    tour = excitation(model, period=1.0, reach=0.6)
    simulation = simulate(
        model, tour, controller="pid", rate=200, periods=60, values=without(model, "fs"), substeps=2
    )
    assert simulation.seconds == pytest.approx(60.0)
    assert simulation.loop_error.max() < 1e-8


@pytest.mark.parametrize(
    ("name", "plant", "tolerance"),
    [
        ("palida", "pinocchio", 1e-7),
        ("h4", "pinocchio", 5e-7),
        ("redundant", "pinocchio", 1e-7),
        pytest.param("palida", "mujoco", 1e-7, marks=pytest.mark.long),
        ("stewart", "mujoco", 1e-11),
    ],
)
def test_independent_plants_give_the_same_trajectory(
    name: str, plant: str, tolerance: float
) -> None:
    """Without Coulomb friction the plants differ by their integrators: h = 0.5 ms, midpoint h^2,
    Runge-Kutta h^4.
    """
    model = model_of(name)
    tour = excitation(model, period=0.5 if name != "stewart" else 2.0, reach=0.1)
    payload = model.mechanism.payloads[0].name if model.mechanism.payloads else None
    options = {
        "controller": "pid+",
        "values": without(model, "fs"),
        "substeps": 4,
        "lead_in": 0,
        "payload": payload,
        "rate": 500,
    }
    ours = simulate(model, tour, **options)
    theirs = simulate(model, tour, plant=plant, **options)
    assert np.ptp(ours.position, axis=1).min() > 2e-3
    np.testing.assert_allclose(theirs.q, ours.q, atol=tolerance)
    assert theirs.loop_error.max() < 1e-8


@pytest.mark.parametrize("plant", ["pinocchio", "mujoco"])
def test_plants_agree_on_coulomb_friction_far_below_the_noise(plant: str) -> None:
    model = model_of("orthoglide")
    tour = excitation(model, period=0.5, reach=0.1)
    ours, theirs = (
        simulate(model, tour, controller="pid+", plant=p, lead_in=0, dead_band=5e-3, substeps=6)
        for p in ("gough", plant)
    )
    difference = np.sqrt(np.mean((ours.effort - theirs.effort) ** 2))
    assert difference < 0.02 * model.mechanism.noise.effort
    assert theirs.loop_error.max() < 1e-6  # MuJoCo's soft constraints: a tenth of an encoder step


def test_friction_holds_a_joint_within_its_band() -> None:
    """Below the Coulomb level a joint creeps at most at the dead band; above it accelerates."""
    model = Model(
        Mechanism(
            name="slide",
            bodies=(Body(name="cart", values={"m": 2.0}),),
            gravity=(0, 0, 0),
            joints=(
                Joint(
                    name="slide",
                    kind="prismatic",
                    parent="base",
                    child="cart",
                    actuated=True,
                    terms=("fs",),
                    values={"fs": 10.0},
                ),
            ),
        )
    )
    settings = settings_of(model, model.standard_values(), band=1e-2, substeps=2)
    plant = GoughPlant(settings)
    state = plant.start(np.zeros((1, 1)), np.zeros((1, 1)))
    for _ in range(200):
        _, state = plant.step(state, np.full((5, 1, 1), 6.0))
    assert plant.read(state)[1][0, 0] == pytest.approx(0.6 * 1e-2, rel=1e-6)
    for _ in range(100):
        _, state = plant.step(state, np.full((5, 1, 1), 14.0))
    assert plant.read(state)[1][0, 0] == pytest.approx(0.1 * (14 - 10) / 2, rel=0.06)


def test_substeps_follow_the_friction_rate() -> None:
    """fs / (band m) = 10 / (1e-3 2) = 5000 1/s: 1 ms needs 5 steps of at most 1.2 / 5000 s."""
    model = Model(
        Mechanism(
            name="slide",
            bodies=(Body(name="cart", values={"m": 2.0}),),
            joints=(
                Joint(
                    name="slide",
                    kind="prismatic",
                    parent="base",
                    child="cart",
                    actuated=True,
                    terms=("fs",),
                    values={"fs": 10.0},
                ),
            ),
        )
    )
    values, load, q = model.standard_values()[None], np.zeros((1, 10)), np.zeros((1, 1))
    rate = friction_rate(model, values, load, np.array([1e-3]), q)
    assert rate == pytest.approx(5000.0)
    assert count_substeps(rate, 1e-3) == 5
    assert count_substeps(1.0, 1e-3) == 2
    assert count_substeps(1.0, 1e-2) == 10
    with pytest.raises(InvalidInput, match="dead band of friction is too narrow"):
        count_substeps(1e5, 1e-3)


def test_a_default_dead_band_never_asks_for_too_many_steps() -> None:
    """The slow legs of upv would need 40 steps in a millisecond at 0.5 % of their speed."""
    model = model_of("upv")
    tour = excitation(model, period=10.0, reach=0.15)
    slow = simulate(model, tour, controller="pid+", lead_in=0, sampling=10)
    speed = np.abs(slow.motion().qd).max(axis=0)
    assert (slow.dead_band[list(model.actuated)] > 0.006 * speed[list(model.actuated)]).any()
    assert slow.loop_error.max() < 1e-12


def test_mujoco_says_what_it_cannot_simulate() -> None:
    model = model_of("h4")
    with pytest.raises(InvalidInput, match="MuJoCo"):
        simulate(model, excitation(model, reach=0.1), plant="mujoco")


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("left.proximal.Izz", -1.0, "'left.proximal' has inertias that no body can have"),
        ("left.proximal.m", -1.0, "'left.proximal' has the mass -1 kg"),
    ],
)
@pytest.mark.parametrize("plant", [pinocchio_plant, mujoco_plant])
def test_other_libraries_refuse_bodies_that_cannot_exist(
    plant: Callable[[PlantSettings], Plant], parameter: str, value: float, words: str
) -> None:
    model = model_of("five_bar")
    names = model.mechanism.standard.names
    values = np.array(model.mechanism.standard.values)
    values[names.index(parameter)] = value
    with pytest.raises(InvalidInput, match=words):
        plant(settings_of(model, values))
