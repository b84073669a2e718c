"""MJCF: read back by MuJoCo, the robot must be Gough's as far as soft constraints allow.

MuJoCo's own mass matrix and constraint Jacobian are exact and are compared to round-off. What its
solver makes of them is soft: a constraint gives way by one part in ten thousand (SOLIMP), more in
proportion where it holds a light body.
"""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from exported import chain_with, closed_chain, joint_terms, possible_bodies

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.engine import Model, random_motion
from gough.export.contents import standard_values
from gough.export.mjcf_writer import to_mjcf
from gough.mechanism import bundled_robots
from gough.mechanism.types import Joint, Mechanism
from tests_support import model_of

mujoco = pytest.importorskip("mujoco")
ROBOTS = [name for name, _ in bundled_robots()]
CHAINS = ["point", "revolute", "weld", "distance", "parallel", "coupling"]
LIGHT = {"h4": 0.01, "stewart": 0.01}  # relative effect of the mass given to massless bodies


class Read:
    """A robot read back by MuJoCo."""

    def __init__(self, model: Model, **options: object) -> None:
        self.model = model
        self.bodies = possible_bodies(model)
        terms = options.pop("terms", joint_terms(model))
        self.values = standard_values(model, self.bodies, terms)
        self.text = to_mjcf(model, self.bodies, terms, **options)
        self.robot = mujoco.MjModel.from_xml_string(self.text)
        self.data = mujoco.MjData(self.robot)
        mujoco.mj_resetDataKeyframe(self.robot, self.data, 0)
        names = [self.robot.joint(k).name for k in range(self.robot.njnt)]
        coordinates = model.mechanism.coordinates
        self.own = [k for k, name in enumerate(names) if name in coordinates]
        self.order = [coordinates.index(names[k]) for k in self.own]

    def forward(self, q: FloatArray, qd: FloatArray, control: FloatArray) -> None:
        self.data.qpos[self.own], self.data.qvel[self.own], self.data.ctrl[:] = (
            q[self.order],
            qd[self.order],
            control,
        )
        mujoco.mj_forward(self.robot, self.data)

    def mass_matrix(self) -> FloatArray:
        full = np.zeros((self.robot.nv, self.robot.nv))
        mujoco.mj_fullM(self.robot, self.data, full)
        return full

    def equalities(self) -> tuple[FloatArray, FloatArray]:
        """Residual (c,) and Jacobian (c, nv) of the loops at the last `forward`."""
        rows = np.asarray(self.data.efc_type) == mujoco.mjtConstraint.mjCNSTR_EQUALITY
        jacobian = (
            np.array(self.data.efc_J).reshape(-1, self.robot.nv)
            if self.data.nefc
            else np.zeros((0, 1))
        )
        return np.array(self.data.efc_pos)[rows], jacobian[rows]

    def open_by(self) -> float:
        mujoco.mj_forward(self.robot, self.data)
        return float(np.abs(self.equalities()[0]).max(initial=0.0))


@pytest.fixture(params=ROBOTS)
def read(request: pytest.FixtureRequest) -> Read:
    return Read(model_of(request.param))


def test_masses_centres_and_inertias_arrive(read: Read) -> None:
    for name, expected in read.bodies.items():
        body = read.robot.body(name)
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, body.iquat)
        axes = rotation.reshape(3, 3)
        c = np.array(body.ipos)
        inertia = axes @ np.diag(body.inertia) @ axes.T + body.mass[0] * (
            c @ c * np.eye(3) - np.outer(c, c)
        )
        found = [
            body.mass[0],
            *(body.mass[0] * c),
            *(inertia[i, j] for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))),
        ]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_coordinates_are_goughs_and_home_is_the_reference(read: Read) -> None:
    assert sorted(read.order) == list(range(len(read.model.mechanism.joints)))
    np.testing.assert_allclose(
        read.data.qpos[read.own], read.model.home[read.order], rtol=0, atol=1e-15
    )
    np.testing.assert_allclose(read.robot.qpos0, read.data.qpos, rtol=0, atol=1e-15)
    q = random_motion(read.model, 1, seed=8, reach=0.4).q[0]
    read.forward(q, np.zeros_like(q), np.zeros(read.robot.nu))
    rotation, origin = read.model.kinematics.body_poses(q[None])
    for k, body in enumerate(read.model.mechanism.bodies):
        if body.name in read.bodies:
            np.testing.assert_allclose(read.data.body(body.name).xpos, origin[0, k], atol=1e-12)
            np.testing.assert_allclose(
                read.data.body(body.name).xmat.reshape(3, 3), rotation[0, k], atol=1e-12
            )


def test_loops_are_closed_at_home_and_the_robot_rests_there(read: Read) -> None:
    assert read.open_by() < 1e-12
    home = read.data.qpos.copy()
    for _ in range(500):
        mujoco.mj_step(read.robot, read.data)
    assert read.open_by() < 1e-5  # [m or rad]
    assert np.abs(read.data.qpos - home).max() < 1e-5
    assert np.abs(read.data.qvel).max() < 1e-6


def check_exact_parts(read: Read, tolerance: float) -> None:
    """Loops closed, their Jacobian and the mass matrix on them right, away from home."""
    model = read.model
    motion = random_motion(model, 4, seed=3, reach=0.3)
    for t in range(len(motion)):
        read.forward(motion.q[t], motion.qd[t], np.zeros(read.robot.nu))
        residual, jacobian = read.equalities()
        scale = np.abs(jacobian).max(initial=1.0)
        E = model.kinematics.closure_map(motion.q[t : t + 1])[0][read.order]
        # Light bodies that slide along to hold an axis: their rates follow from the constraints.
        whole = np.zeros((read.robot.nv, E.shape[1]))
        whole[read.own] = E
        others = [k for k in range(read.robot.nv) if k not in read.own]
        if others:
            read.data.qpos[others] -= np.linalg.lstsq(jacobian[:, others], residual, rcond=None)[0]
            mujoco.mj_forward(read.robot, read.data)
            residual, jacobian = read.equalities()
            whole[others] = -np.linalg.lstsq(
                jacobian[:, others], jacobian[:, read.own] @ E, rcond=None
            )[0]
        assert np.abs(residual).max(initial=0.0) < 1e-9
        assert np.abs(jacobian @ whole).max(initial=0.0) < 1e-9 * scale
        assert (
            read.robot.nv
            - (np.linalg.matrix_rank(jacobian, tol=1e-8 * scale) if len(jacobian) else 0)
            == E.shape[1]
        )
        expected = model.mass_matrix(motion.q[t : t + 1], read.values)[0]
        found = whole.T @ read.mass_matrix() @ whole
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_loops_and_mass_matrix_are_goughs_away_from_home(read: Read) -> None:
    check_exact_parts(read, LIGHT.get(read.model.mechanism.name, 1e-10))


@pytest.mark.parametrize("kind", CHAINS)
def test_every_kind_of_closure_is_held(kind: str) -> None:
    """Also with opposite axes, springs and offsets; a parallel closure brings a light body of its
    own.
    """
    read = Read(closed_chain(kind))
    assert read.open_by() < 1e-12
    check_exact_parts(read, 0.01 if kind == "parallel" else 1e-10)
    mujoco.mj_resetDataKeyframe(read.robot, read.data, 0)
    for _ in range(100):
        mujoco.mj_step(read.robot, read.data)
    assert read.open_by() < 1e-5
    assert (
        np.abs(read.data.qpos - read.robot.qpos0).max() < 1e-3
    )  # falling freely it would be 5 cm or 0.1 rad


@pytest.mark.parametrize(
    "name", [name for name in ROBOTS if name not in LIGHT]
)  # those are judged over time, below
def test_accelerations_of_moving_motors_are_goughs(name: str) -> None:
    """All joint terms at work. MuJoCo leaves 1e-4 of each constraint undone; dry friction that
    would stop a joint within two steps is softer than Coulomb's.
    """
    read = Read(model_of(name))
    model, rows = read.model, list(read.model.independent)
    motion = random_motion(model, 200, seed=3, reach=0.3)
    rough = [i for i, joint in enumerate(model.mechanism.joints) if "fs" in joint.terms]
    motion = motion.take(
        np.argsort(np.abs(motion.qd[:, rough]).min(axis=1))[-5:]
    )  # all joints really move
    limits = np.array(
        [model.mechanism.joint(joint).limits.effort for joint in model.mechanism.actuated]
    )
    effort = np.random.default_rng(1).uniform(-0.9, 0.9, (5, len(limits))) * limits
    expected = model.forward_dynamics(motion.q, motion.qd[:, rows], effort, read.values)
    for t in range(5):
        read.forward(motion.q[t], motion.qd[t], effort[t])
        found = np.empty(len(model.mechanism.joints))
        found[read.order] = read.data.qacc[read.own]
        np.testing.assert_allclose(
            found[rows], expected[t], rtol=0, atol=2e-3 * np.abs(expected[t]).max()
        )


def simulated(read: Read, push: FloatArray, duration: float) -> FloatArray:
    """Where MuJoCo takes the robot from rest at home, (n,)."""
    mujoco.mj_resetDataKeyframe(read.robot, read.data, 0)
    hold, step = read.data.ctrl.copy(), read.robot.opt.timestep
    for k in range(round(duration / step)):
        read.data.ctrl[:] = hold + push * np.cos(2 * np.pi * (k + 0.5) * step / duration)
        mujoco.mj_step(read.robot, read.data)
    q = np.empty(len(read.order))
    q[read.order] = read.data.qpos[read.own]
    return q


def integrated(read: Read, push: FloatArray, duration: float, steps: int = 50) -> FloatArray:
    """The same by Gough's forward dynamics and Runge-Kutta steps, (n,)."""
    model = read.model
    q, v = model.home[None].copy(), np.zeros((1, model.degrees_of_freedom))
    mujoco.mj_resetDataKeyframe(read.robot, read.data, 0)
    hold, h = read.data.ctrl.copy(), duration / steps

    def slope(q: FloatArray, v: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        a = model.forward_dynamics(
            q, v, (hold + push * np.cos(2 * np.pi * t / duration))[None], read.values
        )
        return model.kinematics.rates(q, v, a, model.loops.dynamic)[0], a

    for k in range(steps):
        first = slope(q, v, k * h)
        second = slope(q + h / 2 * first[0], v + h / 2 * first[1], (k + 0.5) * h)
        third = slope(q + h / 2 * second[0], v + h / 2 * second[1], (k + 0.5) * h)
        last = slope(q + h * third[0], v + h * third[1], (k + 1) * h)
        q = q + h / 6 * (first[0] + 2 * second[0] + 2 * third[0] + last[0])
        v = v + h / 6 * (first[1] + 2 * second[1] + 2 * third[1] + last[1])
    return q[0]


@pytest.mark.parametrize("name", ROBOTS)
def test_motion_over_time_is_goughs(name: str) -> None:
    """From rest at home, without dry friction.

    MuJoCo's integrator is of first order: with steps of 0.2 ms it is 0.3 % off, also for the serial
    robot; light bodies add their 1 %, and 1 % more what tendons do at first.
    """
    read = Read(model_of(name), terms=joint_terms(model_of(name), fs=0.0), timestep=2e-4)
    limits = np.array(
        [read.model.mechanism.joint(joint).limits.effort for joint in read.model.mechanism.actuated]
    )
    push = 0.05 * limits * np.cos(np.arange(len(limits)))
    expected = integrated(read, push, 0.2)
    moved = np.abs(expected - read.model.home).max()
    found = simulated(read, push, 0.2)
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=(0.02 if name in LIGHT else 0.004) * moved
    )
    assert read.open_by() < 1e-6


def test_joint_terms_act_as_gough_defines_them() -> None:
    """One pendulum joint: effort = ia qdd + fv qd + fs sign(qd) + off + k q + what the body
    needs.
    """
    terms = {"ia": 0.03, "fv": 0.4, "fs": 0.2, "off": 0.7, "k": 0.5}
    chain = chain_with("point")
    for given in (terms, {term: value for term, value in terms.items() if term != "k"}):
        joint = Joint(
            name="swing",
            kind="revolute",
            axis="y",
            parent="base",
            child="b0",
            actuated=True,
            start=0.3,
            terms=tuple(given),
            values=given,
        )
        model = Model(Mechanism(name="pendulum", bodies=chain.bodies[:1], joints=(joint,)))
        read = Read(model)
        for q, qd in ((0.9, 1.5), (-1.1, -2.0)):
            expected = model.forward_dynamics(
                np.array([[q]]), np.array([[qd]]), np.array([[0.25]]), read.values
            )[0]
            read.forward(np.array([q]), np.array([qd]), np.array([0.25]))
            np.testing.assert_allclose(read.data.qacc, expected, rtol=1e-5)


def test_drive_gains_turn_controls_into_currents() -> None:
    model = model_of("orthoglide")
    gains = {"leg1.q1": 2170.0, "leg2.q1": 2100.0, "leg3.q1": 2070.0}
    plain, driven = Read(model), Read(model, gains=gains)
    factors = np.array(list(gains.values()))
    np.testing.assert_allclose(driven.data.ctrl * factors, plain.data.ctrl, rtol=1e-14)
    np.testing.assert_allclose(
        driven.robot.actuator_ctrlrange * factors[:, None], plain.robot.actuator_ctrlrange
    )
    q = model.home
    for read in (plain, driven):
        read.forward(q, 0 * q, read.data.ctrl * 0.5)
    np.testing.assert_allclose(
        driven.data.qacc, plain.data.qacc, atol=1e-9 * np.abs(plain.data.qacc).max()
    )
    assert [driven.robot.actuator(k).name for k in range(3)] == list(model.mechanism.actuated)
    with pytest.raises(InvalidInput, match=r"leg3\.q1 are missing"):
        to_mjcf(model, plain.bodies, gains={"leg1.q1": 1.0, "leg2.q1": 1.0})
    with pytest.raises(InvalidInput, match=r"no motor 'leg1\.q2'"):
        to_mjcf(model, plain.bodies, gains={"leg1.q2": 1.0})


def test_massless_links_vanish_or_are_named() -> None:
    """Those of task coordinates and cardans go without a trace; those that must stay are light and
    weigh nothing.
    """
    upv, h4 = Read(model_of("upv")), Read(model_of("h4"))
    assert upv.robot.nbody == 1 + len(upv.bodies)
    assert "too light" not in upv.text
    comment = next(line for line in h4.text.splitlines() if "too light" in line)
    for name in ("leg1.crank", "right", "left"):
        assert name in comment
        assert h4.robot.body(name).mass[0] == pytest.approx(1e-3 * h4.bodies["platform"][0])
        assert h4.robot.body_gravcomp[h4.robot.body(name).id] == 1.0


def test_a_massless_link_that_a_loop_holds_stays() -> None:
    mechanism = chain_with("point")
    held = replace(mechanism.bodies[1], parameters=(), values={})
    tail = Joint(name="tail", kind="revolute", parent="b1", child="tail", actuated=True)
    bodies = (
        mechanism.bodies[0],
        held,
        *mechanism.bodies[2:],
        replace(mechanism.bodies[0], name="tail"),
    )
    read = Read(Model(replace(mechanism, bodies=bodies, joints=(*mechanism.joints, tail))))
    assert "0.00199983 kg to b1 -->" in read.text
    assert read.open_by() < 1e-12
    check_exact_parts(read, 0.01)


@pytest.mark.parametrize("name", ["orthoglide", "delta"])
def test_bodies_that_an_estimate_left_almost_massless_still_hold(name: str) -> None:
    """Poor data may push a body to the limit of the possible; its weight stays what it is."""
    model, bodies = model_of(name), possible_bodies(model_of(name))
    for body in ("platform", "leg1.wrist", "leg2.knuckle"):
        bodies[body] = 1e-6 * bodies[body]
    robot = mujoco.MjModel.from_xml_string(to_mjcf(model, bodies))
    weights = robot.body_mass * (1 - robot.body_gravcomp)
    assert weights[robot.body("platform").id] == pytest.approx(bodies["platform"][0], rel=1e-6)
    data = mujoco.MjData(robot)
    mujoco.mj_resetDataKeyframe(robot, data, 0)
    for _ in range(300):
        mujoco.mj_step(robot, data)
    assert np.abs(data.qpos - robot.qpos0).max() < 1e-4


def test_shapes_show_but_do_not_touch_or_weigh(read: Read) -> None:
    assert read.robot.ngeom > 0
    assert not read.robot.geom_contype.any()
    light = [body for body in read.model.mechanism.bodies if body.name not in read.bodies]
    total = sum(parameters[0] for parameters in read.bodies.values())
    assert read.robot.body_subtreemass[0] == pytest.approx(total, rel=1e-3 * (len(light) or 1e-9))


def test_hostile_names_stay_names() -> None:
    mechanism = chain_with("point")
    names = ('a"b<c>&\x01--', *(joint.name for joint in mechanism.joints[1:]))
    joints = tuple(replace(joint, name=name) for joint, name in zip(mechanism.joints, names))
    model = Model(replace(mechanism, joints=joints, name="x --> <evil/>"))
    text = to_mjcf(model, possible_bodies(model))
    robot = mujoco.MjModel.from_xml_string(text)
    assert robot.joint(0).name == 'a"b<c>&_--'
    assert "evil" not in {element.tag for element in ElementTree.fromstring(text).iter()}
