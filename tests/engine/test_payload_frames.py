"""Payloads on several bodies, in frames of their own."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from gough.core.errors import InvalidMechanism
from gough.core.trajectory import Fourier
from gough.engine import Model, base_parameters, random_motion, standard_from_base
from gough.mechanism import parse_robot
from gough.virtual import simulate
from gough.virtual.closed_loop import PLANTS
from gough.virtual.plant import PlantSettings

BODY = """
[[body]]
name = "{0}"
m = {1}
com = [0.2, 0.01, 0.02]
about = "com"
Ixx = 0.01
Iyy = 0.02
Izz = 0.02

[[joint]]
name = "{0}_joint"
type = "revolute"
parent = "{2}"
child = "{0}"
xyz = [{3}, 0, 0]
rpy = [{4}, 0, 0]
actuated = true
"""
ARM = (
    """
format = 1
name = "arm"
[units]
length = "m"
angle = "rad"
mass = "kg"
"""
    + BODY.format("upper", 3, "base", 0, 1.3)
    + BODY.format("fore", 2, "upper", 0.4, 0.7)
    + """
[[payload]]
name = "disc"
xyz = [0.3, 0.02, 0.1]
m = 0.7
parameters = ["m"]

[[payload]]
name = "box"
body = "upper"
xyz = [0.1, 0.2, 0]
rpy = [0.3, 0.2, -0.4]
m = 1.5
com = [0.02, 0.01, 0.03]
about = "com"
Ixx = 0.003
Iyy = 0.004
Izz = 0.005
"""
)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(parse_robot(ARM, "arm.toml"))


def carried(name: str) -> tuple[str, str]:
    """Return the robot with a payload as a part of it, by a fixed joint."""
    text, _, rest = ARM.partition("[[payload]]")
    tables = {
        "disc": "xyz = [0.3, 0.02, 0.1]",
        "box": "xyz = [0.1, 0.2, 0]\nrpy = [0.3, 0.2, -0.4]",
    }
    table = next(part for part in rest.split("[[payload]]") if f'"{name}"' in part)
    inertia = "\n".join(
        line for line in table.splitlines() if line.split(" ")[0] not in ("xyz", "rpy", "body")
    )
    parent = "fore" if name == "disc" else "upper"
    return text + "[[body]]" + inertia + (
        f'\n[[joint]]\nname = "grip"\ntype = "fixed"\nparent = "{parent}"\nchild = '
        f'"{name}"\n{tables[name]}\n'
    ), parent


@pytest.mark.parametrize("name", ["disc", "box"])
def test_a_payload_weighs_what_a_body_fixed_there_does(model: Model, name: str) -> None:
    motion = random_motion(model, 10, seed=1)
    part = Model(parse_robot(carried(name)[0], "arm.toml")).inverse_dynamics(motion)
    np.testing.assert_allclose(
        model.inverse_dynamics(motion, load=model.load(name)), part, atol=1e-12
    )
    own = model.mechanism.payload_parameters(name)
    columns = model.regressor(motion, own.names)
    np.testing.assert_allclose(
        columns @ own.values, part - model.inverse_dynamics(motion), atol=1e-12
    )


@pytest.mark.parametrize("plant", ["gough", "pinocchio", "mujoco"])
@pytest.mark.parametrize("name", ["disc", "box"])
def test_every_plant_carries_it_where_it_is(model: Model, plant: str, name: str) -> None:
    pytest.importorskip(plant)
    motion, tau = random_motion(model, 2, seed=1), np.ones((2, 2))
    settings = PlantSettings(
        model=model,
        values=np.tile(model.standard_values(), (2, 1)),
        substeps=2,
        period=1e-3,
        load=np.tile(model.load(name), (2, 1)),
        dead_band=np.full(2, 1e-3),
    )
    module, factory = PLANTS[plant]
    robot = getattr(import_module(module), factory)(settings)
    found = robot.step(robot.start(motion.q, motion.qd), np.broadcast_to(tau, (5, 2, 2)))[
        0
    ].acceleration
    part = Model(parse_robot(carried(name)[0], "arm.toml"))
    np.testing.assert_allclose(
        found, part.forward_dynamics(motion.q, motion.qd, tau), rtol=1e-9, atol=1e-9
    )


def test_a_point_at_a_known_place_has_one_parameter(model: Model) -> None:
    base = base_parameters(model, payloads=("disc",))
    assert [str(name) for name in base.names if name.payload is not None] == ["payload.disc.m"]
    everything = base_parameters(model, payloads=("disc", "box"))
    values = everything.values([model.values([name])[0] for name in everything.standard])
    chi, load = standard_from_base(model, everything, values)
    motion = random_motion(model, 5, seed=2)
    both = model.load("disc") + model.load("box")
    np.testing.assert_allclose(
        model.inverse_dynamics(motion, chi, load=load),
        model.inverse_dynamics(motion, load=both),
        atol=1e-9,
    )


def test_ten_parameters_are_a_load_of_the_first_body(model: Model) -> None:
    motion, ten = random_motion(model, 5, seed=2), np.arange(10) / 10
    full = np.concatenate([ten, np.zeros(10)])
    assert model.load_bodies == ("fore", "upper")
    np.testing.assert_array_equal(
        model.inverse_dynamics(motion, load=ten), model.inverse_dynamics(motion, load=full)
    )


def test_too_few_motors_name_what_still_moves_and_what_would_be_needed() -> None:
    text = ARM.partition("[[payload]]")[0]
    at = text.rindex("actuated = true")
    with pytest.raises(
        InvalidMechanism,
        match=r"2 degrees of freedom but 1 actuated joints; with these held, "
        r"fore_joint still move.*spring \(term k\)",
    ):
        Model(parse_robot(text[:at], "arm.toml"))


@pytest.mark.parametrize("name", ["disc", "box"])
def test_the_control_loop_carries_it_where_it_is(model: Model, name: str) -> None:
    path = Fourier(
        coordinates=model.mechanism.actuated,
        frequency=1.0,
        offset=np.zeros(2),
        mu=np.array([[1.0, 0.5]]),
        nu=np.array([[0.2, -1.0]]),
        units=("rad", "rad"),
    )
    part = Model(parse_robot(carried(name)[0], "arm.toml"))
    own = simulate(model, path, payload=name, periods=1, rate=200)
    np.testing.assert_allclose(
        own.effort, simulate(part, path, periods=1, rate=200).effort, rtol=1e-6, atol=1e-6
    )
