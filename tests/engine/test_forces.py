"""Force elements and lengths, against closed forms, the same robot written otherwise, Pinocchio and
MuJoCo.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from gough.core.errors import InvalidMechanism, SingularConfiguration
from gough.core.motion import Motion
from gough.engine import Model, base_parameters, random_motion
from gough.export.mjcf_writer import to_mjcf
from gough.export.urdf_writer import to_urdf
from gough.mechanism import parse_robot
from gough.virtual.closed_loop import PLANTS
from gough.virtual.plant import PlantSettings
from tests_support import model_of

HEXAPOD = Path(__file__).parents[2] / "examples" / "robots" / "force_hexapod.toml"
HEAD = """
format = 1
name = "lever"
gravity = [0, -9.81, 0]
[units]
length = "m"
angle = "rad"
mass = "kg"
"""
LEVER = (
    HEAD
    + """
[[body]]
name = "arm"
m = 3
com = [0.4, 0, 0]
about = "com"
Ixx = 0.001
Iyy = 0.05
Izz = 0.05

[[joint]]
name = "hinge"
type = "revolute"
parent = "base"
child = "arm"
actuated = true
start = 0.4

[[force]]
name = "spring"
a = { body = "base", xyz = [-0.3, 0.2, 0.1] }
b = { body = "arm", xyz = [0.25, 0.05, 0] }
rest = 0.45
terms = ["k", "off", "fv", "fs", "ia"]
values = { k = 800, off = 60, fv = 40, fs = 7, ia = 2 }
"""
)


def lever(text: str = LEVER) -> Model:
    return Model(parse_robot(text, "lever.toml"))


def length(q: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the length of the lever's spring and its first and second derivative by the angle."""
    c, s, zero = np.cos(q), np.sin(q), np.zeros_like(q)
    gap = np.stack([0.25 * c - 0.05 * s + 0.3, 0.25 * s + 0.05 * c - 0.2, zero - 0.1])
    slope = np.stack([-0.25 * s - 0.05 * c, 0.25 * c - 0.05 * s, zero])
    bend = -gap + np.stack([zero + 0.3, zero - 0.2, zero - 0.1])
    L = np.sqrt((gap**2).sum(axis=0))
    first = (gap * slope).sum(axis=0) / L
    return L, first, ((slope**2).sum(axis=0) + (gap * bend).sum(axis=0) - first**2) / L


def test_a_passive_force_is_its_terms_times_the_slope_of_its_length() -> None:
    model = lever()
    draw = np.random.default_rng(0)
    q, qd, qdd = draw.uniform(-1, 1, (3, 50))
    L, slope, bend = length(q)
    motion = model.kinematics.motion(np.arange(50.0), q[:, None], qd[:, None], qdd[:, None])
    np.testing.assert_allclose(motion.q[:, 1], L - 0.45, atol=1e-12)
    speed, rate = slope * qd, slope * qdd + bend * qd**2
    force = 800 * (L - 0.45) + 60 + 40 * speed + 7 * np.sign(speed) + 2 * rate
    own = (0.05 + 3 * 0.4**2) * qdd + 3 * 9.81 * 0.4 * np.cos(q)
    np.testing.assert_allclose(
        model.inverse_dynamics(motion)[:, 0], own + force * slope, rtol=1e-11
    )
    # L dL/dq is a sine and a cosine, as weight is: stiffness alone cannot be told from it, with a
    # rest length it can.
    assert base_parameters(model).regrouping()["spring.offR"] == "spring.off - 0.45 spring.k"


def plant_acceleration(model: Model, plant: str, motion: Motion, tau: np.ndarray) -> np.ndarray:
    trials, n = motion.q.shape
    settings = PlantSettings(
        model=model,
        values=np.tile(model.standard_values(), (trials, 1)),
        load=np.zeros((trials, 10)),
        dead_band=np.full(n, 1e-3),
        period=1e-3,
        substeps=2,
    )
    module, factory = PLANTS[plant]
    robot = getattr(import_module(module), factory)(settings)
    sample, _ = robot.step(robot.start(motion.q, motion.qd), np.broadcast_to(tau, (5, *tau.shape)))
    np.testing.assert_allclose(
        robot.read(robot.start(motion.q, motion.qd))[0],
        motion.q[:, list(model.actuated)],
        atol=1e-12,
    )
    return np.asarray(sample.acceleration)


@pytest.mark.parametrize("plant", ["pinocchio", "mujoco"])
def test_every_plant_knows_passive_forces(plant: str) -> None:
    pytest.importorskip(plant)
    model = lever()
    motion, tau = random_motion(model, 4, seed=2), np.array([[5.0], [-3.0], [0.0], [20.0]])
    own = model.forward_dynamics(
        motion.q, motion.qd[:, list(model.independent)], tau, dead_band=1e-3
    )
    np.testing.assert_allclose(
        plant_acceleration(model, plant, motion, tau), own, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("plant", ["pinocchio", "mujoco"])
def test_every_plant_knows_actuated_forces(plant: str) -> None:
    pytest.importorskip(plant)
    model = model_of(HEXAPOD)
    motion = random_motion(model, 3, seed=2)
    tau = np.random.default_rng(0).uniform(-500, 500, (3, 6))
    own = model.forward_dynamics(motion.q, motion.qd[:, list(model.independent)], tau)
    np.testing.assert_allclose(
        plant_acceleration(model, plant, motion, tau), own, rtol=1e-8, atol=1e-8
    )


def test_a_hexapod_of_forces_is_the_stewart_platform() -> None:
    forces, legs = model_of(HEXAPOD), model_of("stewart")
    first = random_motion(forces, 20, seed=5)
    names = forces.mechanism.actuated
    assert names == legs.mechanism.actuated
    own, other = ([m.mechanism.coordinates.index(name) for name in names] for m in (forces, legs))
    second = legs.kinematics.motion(
        np.arange(20.0), first.q[:, own], first.qd[:, own], first.qdd[:, own]
    )
    task = [
        [m.mechanism.coordinates.index(name) for name in m.mechanism.task] for m in (forces, legs)
    ]
    np.testing.assert_allclose(first.q[:, task[0]], second.q[:, task[1]], atol=1e-9)
    load = forces.load("load")
    np.testing.assert_allclose(
        forces.inverse_dynamics(first, load=load),
        legs.inverse_dynamics(second, load=load),
        rtol=1e-9,
        atol=1e-9,
    )
    base = base_parameters(forces)
    assert base.names == base_parameters(legs).names
    np.testing.assert_allclose(
        forces.regressor(first, base), legs.regressor(second, base), rtol=1e-9, atol=1e-9
    )
    tau = np.random.default_rng(1).uniform(-800, 800, (20, 6))
    np.testing.assert_allclose(
        forces.forward_dynamics(first.q, first.qd[:, own], tau),
        legs.forward_dynamics(second.q, second.qd[:, other], tau),
        rtol=1e-9,
        atol=1e-9,
    )


DRUM = (
    HEAD
    + """
[platform]
name = "weight"
coordinates = ["x", "y"]
start = { y = -1 }
m = 2

[[leg]]
name = "winch"
instances = [{ name = "left", base = { xyz = [-0.5, 0, 0] } }, { name = "right", base = { xyz = [0.5, 0, 0] } }]
[[leg.body]]
name = "drum"
Izz = 0.002
[[leg.joint]]
name = "motor"
type = "revolute"
parent = "base"
child = "drum"
actuated = true
terms = ["fv"]
values = { fv = 0.1 }
[[leg.closure]]
name = "cable"
kind = "length"
a = { body = "base" }
b = { body = "weight" }
coefficients = { motor = 0.05 }
constant = -1.118033988749895
"""
)


def test_a_cable_on_a_drum_lifts_by_its_radius() -> None:
    """Length + 0.05 angle = constant: the motor turns, the cable gets shorter; energy is what
    friction leaves.
    """
    model = lever(DRUM)
    motion = random_motion(model, 10, seed=1)
    at = [
        model.mechanism.coordinates.index(name)
        for name in ("weight.x", "weight.y", "left.motor", "right.motor")
    ]
    x, y, left, right = motion.q[:, at].T
    np.testing.assert_allclose(np.hypot(x + 0.5, y), 1.118033988749895 - 0.05 * left, atol=1e-9)
    np.testing.assert_allclose(np.hypot(x - 0.5, y), 1.118033988749895 - 0.05 * right, atol=1e-9)
    v, a = motion.qd[:, at], motion.qdd[:, at]
    drums = v[:, 2:] * (0.002 * a[:, 2:] + 0.1 * v[:, 2:])
    power = 2 * (v[:, 0] * a[:, 0] + v[:, 1] * (a[:, 1] + 9.81)) + drums.sum(axis=1)
    np.testing.assert_allclose(
        (model.inverse_dynamics(motion) * v[:, 2:]).sum(axis=1), power, rtol=1e-9
    )


@pytest.mark.parametrize("plant", ["pinocchio", "mujoco"])
def test_every_plant_knows_cables_on_drums(plant: str) -> None:
    pytest.importorskip(plant)
    # At rest: MuJoCo's tendons lag the centripetal acceleration, and they are soft.
    model = lever(
        DRUM.replace("Izz = 0.002", "m = 1\nIxx = 0.002\nIyy = 0.002\nIzz = 0.002").replace(
            "m = 2\n", "m = 2\nIxx = 0.1\nIyy = 0.1\nIzz = 0.1\n"
        )
    )
    motion, tau = random_motion(model, 3, seed=1), np.random.default_rng(0).uniform(-1, 1, (3, 2))
    motion = Motion(
        coordinates=motion.coordinates,
        time=motion.time,
        q=motion.q,
        qd=np.zeros_like(motion.qd),
        qdd=np.zeros_like(motion.qd),
        closure_residual=motion.closure_residual,
    )
    own = model.forward_dynamics(motion.q, np.zeros((3, 2)), tau)
    found = plant_acceleration(model, plant, motion, tau)
    np.testing.assert_allclose(found, own, rtol=1e-8 if plant == "pinocchio" else 2e-3, atol=1e-8)


def test_redundant_cables_share_their_effect() -> None:
    anchors = {"c1": [-1, 0, 0], "c2": [1, 0, 0], "c3": [0, 1.5, 0]}
    text = HEAD.replace("format = 1", "redundant = true\nformat = 1")
    text += '[platform]\nname = "weight"\ncoordinates = ["x", "y"]\nstart = { y = 0.4 }\nm = 2\n'
    for name, place in anchors.items():
        text += (
            f'[[force]]\nname = "{name}"\nactuated = true\na = {{ body = "base", xyz = {place} }}\n'
            'b = { body = "weight" }\n'
        )
    model = lever(text)
    assert model.loops.redundant
    motion = random_motion(model, 8, seed=0)
    at = [model.mechanism.coordinates.index(name) for name in model.mechanism.task]
    position, acceleration = motion.q[:, at], motion.qdd[:, at]
    gap = position[:, None] - np.array([place[:2] for place in anchors.values()])
    along = gap / np.linalg.norm(gap, axis=2, keepdims=True)
    pull = np.einsum("tk,tkx->tx", model.inverse_dynamics(motion), along)
    np.testing.assert_allclose(pull, 2 * (acceleration + np.array([0, 9.81])), atol=1e-9)


def mass_of(model: Model) -> dict[str, list[float]]:
    return {
        body.name: [body.values.get(p, 0.0) for p in body.parameters]
        for body in model.mechanism.bodies
        if body.parameters
    }


def test_mjcf_holds_a_force_as_a_tendon() -> None:
    mujoco = pytest.importorskip("mujoco")
    model = lever(LEVER.replace("fs = 7", "fs = 0").replace("ia = 2", "ia = 0"))
    robot = mujoco.MjModel.from_xml_string(to_mjcf(model, mass_of(model)))
    assert (robot.nv, robot.nu, robot.ntendon) == (1, 2, 1)
    data = mujoco.MjData(robot)
    motion = random_motion(model, 5, seed=3)
    own = model.forward_dynamics(motion.q, motion.qd[:, :1], np.full((5, 1), 2.0))
    for k in range(5):
        data.qpos[0], data.qvel[0], data.ctrl[:] = motion.q[k, 0], motion.qd[k, 0], (2.0, 0.0)
        mujoco.mj_forward(robot, data)
        assert float(data.qacc[0]) == pytest.approx(own[k, 0], rel=1e-9)


def test_mjcf_drives_a_hexapod_by_its_tendons() -> None:
    mujoco = pytest.importorskip("mujoco")
    model = model_of(HEXAPOD)
    robot = mujoco.MjModel.from_xml_string(to_mjcf(model, mass_of(model)))
    assert (robot.nv, robot.nu) == (6, 6)
    data = mujoco.MjData(robot)
    mujoco.mj_resetDataKeyframe(robot, data, 0)
    mujoco.mj_forward(robot, data)
    np.testing.assert_allclose(data.qacc, 0, atol=1e-9)


def test_the_yaml_beside_a_urdf_says_which_coordinate_a_length_is() -> None:
    text = to_urdf(lever(), mass_of(lever()))[1]
    assert (
        'length: [{"frames": ["spring_a", "spring_b"], "coefficients": {"spring": -1.0}, '
        '"constant": -0.45}]' in text
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'body = "arm", xyz',
            'body = "base", xyz',
            r"\[\[force\]\] 'spring', key 'b'.*both ends on 'base'",
        ),
        ("rest = 0.45", "rest = -0.45", "key 'rest': expected a length"),
        ("rest = 0.45", "gain = 2", "key 'gain': only what is actuated"),
        ("rest = 0.45", "stiffness = 2", "key 'stiffness': unknown key"),
        (
            'body = "arm", xyz',
            'body = "amr", xyz',
            r"key 'b.body': body 'amr' does not exist; did you mean 'arm'",
        ),
        ('name = "spring"', 'name = "hinge"', "joint 'hinge' is defined twice"),
    ],
)
def test_a_wrong_force_names_table_and_key(old: str, new: str, message: str) -> None:
    assert LEVER.count(old) == 1
    with pytest.raises(InvalidMechanism, match=message):
        lever(LEVER.replace(old, new))


def test_points_that_coincide_at_the_start_pose_are_refused() -> None:
    text = LEVER.replace("[-0.3, 0.2, 0.1]", "[0, 0, 0.1]").replace(
        "[0.25, 0.05, 0]", "[0, 0, 0.1]"
    )
    with pytest.raises(
        InvalidMechanism, match=r"lever.toml: \[\[force\]\] 'spring' has the length .* start pose"
    ):
        lever(text)


def test_a_motion_through_zero_length_is_refused_with_its_time() -> None:
    model = lever(
        LEVER.replace("[-0.3, 0.2, 0.1]", "[0.25, 0, 0]").replace("[0.25, 0.05, 0]", "[0.25, 0, 0]")
    )
    q = np.linspace(0.4, 0.0, 20)[:, None]
    zero = np.zeros_like(q)
    with pytest.raises(
        SingularConfiguration, match=r"force element 'spring' .* no length at sample 19"
    ):
        model.kinematics.motion(np.arange(20.0), q, zero, zero)
