"""Assembly, singularities, five-bar in closed form, and what bad input gets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidInput, InvalidMechanism, LoopNotClosed, SingularConfiguration
from gough.engine import Model, as_model, base_parameters, check, random_motion
from gough.mechanism import load_robot
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Closure, Frame, Joint, Mechanism
from tests_support import model_of


@pytest.fixture(scope="module")
def palida() -> Model:
    return model_of("palida")


@pytest.fixture(scope="module")
def five_bar() -> Model:
    return model_of("five_bar")


def test_home_of_palida_is_the_derived_one(palida: Model) -> None:
    legs = [palida.home[i] for i in palida.actuated]
    np.testing.assert_allclose(legs, 0.650, atol=1e-5)


def test_forward_kinematics_finds_the_pose_the_legs_came_from(palida: Model) -> None:
    t = np.linspace(0, 1, 3000)
    pose = np.zeros((len(t), 6)) + palida.home[:6]
    for k, amplitude in enumerate((0.05, 0.04, 0.05, 0.25, 0.2, 0.3)):
        pose[:, k] += amplitude * np.sin(2 * np.pi * t * (1 + k % 3))
    q = palida.kinematics.close_loops(pose, "task", time=t)
    legs = np.ascontiguousarray(q[:, list(palida.actuated)])
    back = palida.kinematics.close_loops(legs, "actuated", time=t)
    np.testing.assert_allclose(back, q, atol=1e-10)
    assert palida.kinematics.residual(back).max() < 1e-10


def test_leg_lengths_are_distances_between_joint_centres(palida: Model) -> None:
    """Inverse kinematics of a 6-UPS in one line: |r + R b - a|."""
    motion = random_motion(palida, 20, seed=5)
    rotation, origin = palida.kinematics.body_poses(motion.q)
    platform = [b.name for b in palida.mechanism.bodies].index("platform")
    a_angles, b_angles = (
        np.deg2rad([-10, 10, 110, 130, 230, 250]),
        np.deg2rad([-50, 50, 70, 170, 190, 290]),
    )
    a = np.stack([0.4 * np.cos(a_angles), 0.4 * np.sin(a_angles), 0 * a_angles], axis=1)
    b = np.stack(
        [0.085 * np.cos(b_angles), 0.085 * np.sin(b_angles), 0.1174 + 0 * b_angles], axis=1
    )
    tips = origin[:, platform, None] + np.einsum("tij,lj->tli", rotation[:, platform], b)
    lengths = np.linalg.norm(tips - a, axis=2)
    np.testing.assert_allclose(motion.q[:, list(palida.actuated)], lengths, atol=1e-12)


def tool_at(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The tool of a five-bar stays on one side of the line through its elbows until they are
    stretched.
    """
    elbows = [
        np.stack([x + 0.25 * np.cos(a), 0.25 * np.sin(a)], axis=-1)
        for x, a in ((-0.1, left), (0.1, right))
    ]
    across = elbows[1] - elbows[0]
    apart = np.linalg.norm(across, axis=-1, keepdims=True)
    height = np.sqrt(0.35**2 - (apart / 2) ** 2)
    return np.asarray(
        elbows[0]
        + across / 2
        + height * np.stack([-across[..., 1], across[..., 0]], axis=-1) / apart
    )


def test_motors_far_from_home_are_reached_on_the_branch_of_home(five_bar: Model) -> None:
    home = five_bar.home[list(five_bar.actuated)]
    targets = home + np.random.default_rng(4).uniform(-1.5, 1.5, (200, 2))
    way = home + np.linspace(0, 1, 200)[:, None, None] * (targets - home)
    apart = np.hypot(
        0.2 + 0.25 * (np.cos(way[..., 1]) - np.cos(way[..., 0])),
        0.25 * (np.sin(way[..., 1]) - np.sin(way[..., 0])),
    )
    targets = targets[((apart < 0.69) & (apart > 0.05)).all(axis=0)]
    assert len(targets) > 100
    tool = [five_bar.mechanism.coordinates.index(name) for name in ("tool.x", "tool.y")]
    for target in targets:
        found = five_bar.kinematics.close_loops(target[None], "actuated")[0, tool]
        np.testing.assert_allclose(found, tool_at(*target), atol=1e-10)


def test_motions_that_turn_round_between_anchors_are_followed_at_once(
    five_bar: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, followed = five_bar.kinematics, []
    follow = chain._follow
    monkeypatch.setattr(
        chain, "_follow", lambda *given: (followed.append(given), follow(*given))[1]
    )
    swing = 0.05 * np.sin(np.linspace(0, 20 * np.pi, 2000))[:, None] * chain.step_scale("actuated")
    motors = five_bar.home[list(five_bar.actuated)] + swing
    q = chain.close_loops(motors, "actuated")
    tool = [five_bar.mechanism.coordinates.index(name) for name in ("tool.x", "tool.y")]
    np.testing.assert_allclose(q[:, tool], tool_at(*motors.T), atol=1e-10)
    assert len(followed) < 50  # anchors only


def test_samples_far_from_each_other_are_followed_at_once(
    five_bar: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several steps of the branch lie between two samples."""
    chain, followed = five_bar.kinematics, []
    follow = chain._follow
    monkeypatch.setattr(
        chain, "_follow", lambda *given: (followed.append(given), follow(*given))[1]
    )
    swing = 0.5 * np.sin(np.linspace(0, 20 * np.pi, 90))[:, None] * np.array([1.0, -0.5])
    motors = five_bar.home[list(five_bar.actuated)] + swing
    tool = [five_bar.mechanism.coordinates.index(name) for name in ("tool.x", "tool.y")]
    q = chain.close_loops(motors, "actuated")
    np.testing.assert_allclose(q[:, tool], tool_at(*motors.T), atol=1e-9)
    assert len(followed) == 1  # the first sample


def test_five_bar_equals_its_closed_form(five_bar: Model) -> None:
    """Tool position of a five-bar from its two motor angles: intersection of two circles."""
    motion = random_motion(five_bar, 30, seed=2)
    names = five_bar.mechanism.coordinates
    _, origin = five_bar.kinematics.body_poses(motion.q)
    bodies = [b.name for b in five_bar.mechanism.bodies]
    elbows = [origin[:, bodies.index(f"{side}.distal")] for side in ("left", "right")]
    tool = motion.q[:, [names.index("tool.x"), names.index("tool.y")]]
    l1, l2 = 0.25, 0.35
    for side, elbow in zip(("left", "right"), elbows):
        base = origin[:, bodies.index(f"{side}.proximal")]
        np.testing.assert_allclose(np.linalg.norm(elbow - base, axis=1), l1, atol=1e-12)
    planar = [e[:, np.ptp(np.vstack(elbows), axis=0) > 1e-9] for e in elbows]
    middle, half = (planar[0] + planar[1]) / 2, (planar[1] - planar[0]) / 2
    d = np.linalg.norm(half, axis=1)
    normal = np.stack([-half[:, 1], half[:, 0]], axis=1) / d[:, None]
    height = np.sqrt(l2**2 - d**2)
    candidates = [middle + s * normal * height[:, None] for s in (1, -1)]
    error = min(np.abs(np.sort(c, axis=1) - np.sort(tool, axis=1)).max() for c in candidates)
    assert error < 1e-9


def four_bar(rocker: float, crank: float, coupler: float) -> Mechanism:
    """A four-bar driven at its rocker: crank 0.2, coupler 0.5, rocker 0.4, ground 0.5 m."""
    body = {"m": 1.0, "Izz": 0.01}
    return Mechanism(
        name="four_bar",
        bodies=tuple(
            Body(name=n, parameters=("m", "Izz"), values=body)
            for n in ("crank", "coupler", "rocker")
        ),
        joints=(
            Joint(name="a", kind="revolute", parent="base", child="crank", start=crank),
            Joint(
                name="b",
                kind="revolute",
                parent="crank",
                child="coupler",
                placement=Placement((("Tx", 0.2),)),
                start=coupler,
            ),
            Joint(
                name="c",
                kind="revolute",
                parent="base",
                child="rocker",
                placement=Placement((("Tx", 0.5),)),
                actuated=True,
                start=rocker,
            ),
        ),
        closures=(
            Closure(
                name="pin",
                kind="point",
                a=Frame(body="coupler", placement=Placement((("Tx", 0.5),))),
                b=Frame(body="rocker", placement=Placement((("Tx", 0.4),))),
            ),
        ),
    )


DEAD_POINT = np.arccos(0.2)  # crank and coupler in one line: 0.5^2 + 0.4^2 + 2 0.5 0.4 cos = 0.7^2


def test_a_dead_point_is_reported_with_its_sample_and_time() -> None:
    """Driven at the rocker, a four-bar cannot pass the pose where crank and coupler line up (Type
    2).
    """
    model = Model(four_bar(1.9, 0.6, 0.8))
    t = np.linspace(0, 1, 400)
    rocker = np.linspace(1.9, 1.2, 400)[:, None]
    with pytest.raises((SingularConfiguration, LoopNotClosed)) as caught:
        model.kinematics.close_loops(rocker, "actuated", time=t)
    first_beyond = int(np.argmax(rocker[:, 0] < DEAD_POINT))
    assert abs(caught.value.sample - first_beyond) <= 1
    assert caught.value.time == pytest.approx(t[caught.value.sample])


def test_the_margin_vanishes_towards_a_dead_point() -> None:
    model = Model(four_bar(1.9, 0.6, 0.8))
    q = model.kinematics.close_loops(np.linspace(1.9, DEAD_POINT + 1e-4, 500)[:, None], "actuated")
    margins = model.kinematics.margins(q).type2
    assert (np.diff(margins[250:]) < 0).all()
    assert margins[-1] < 0.02 < margins[0]


def test_a_singular_start_pose_is_refused() -> None:
    direction = np.arctan2(0.4 * np.sin(DEAD_POINT), 0.5 + 0.4 * np.cos(DEAD_POINT))
    with pytest.raises(SingularConfiguration, match="Type-2"):
        Model(four_bar(float(DEAD_POINT), float(direction), 0.0))


def test_out_of_reach_names_loop_sample_and_residual(palida: Model) -> None:
    pose = np.repeat(palida.home[None, :6], 50, axis=0)
    pose[30:, 2] -= 5.0  # a jump far below
    legs = np.full((50, 6), 0.65)
    legs[30:, 0] = 0.05
    with pytest.raises((LoopNotClosed, SingularConfiguration)) as caught:
        palida.kinematics.close_loops(legs, "actuated", time=np.arange(50) * 0.01)
    assert caught.value.sample == 30


def test_full_loops_of_the_orthoglide_give_the_same_model_as_its_couplings() -> None:
    """Welding every leg to the platform is redundant but consistent; mobility and efforts stay the
    same.
    """
    mechanism = load_robot("orthoglide")
    closures = []
    reference = Model(mechanism)
    rotation, _ = reference.kinematics.body_poses(reference.home[None])
    bodies = [b.name for b in mechanism.bodies]
    for leg in (1, 2, 3):
        point = next(
            c for c in mechanism.closures if c.kind == "point" and c.name.startswith(f"leg{leg}.")
        )
        tip = point.a if point.a.body != "platform" else point.b
        hub = point.b if point.a.body != "platform" else point.a
        wanted = rotation[0, bodies.index(tip.body)]
        yaw, roll = np.arctan2(wanted[1, 0], wanted[0, 0]), np.arctan2(wanted[2, 1], wanted[2, 2])
        pitch = -np.arcsin(np.clip(wanted[2, 0], -1, 1))
        turned = hub.placement.then(Placement.xyz_rpy((0, 0, 0), (roll, pitch, yaw)))
        straight = Placement(tuple(s for s in tip.placement.steps if s[0][0] == "T"))
        closures.append(
            Closure(
                name=f"leg{leg}.weld",
                kind="weld",
                a=Frame(body=tip.body, placement=straight),
                b=Frame(body=hub.body, placement=turned),
            )
        )
    welded = Model(replace(mechanism, closures=tuple(closures)))
    assert welded.degrees_of_freedom == 3
    motion = random_motion(reference, 10, seed=1)
    assert welded.kinematics.residual(motion.q).max() < 1e-9
    expected = reference.inverse_dynamics(motion)
    np.testing.assert_allclose(
        welded.inverse_dynamics(motion), expected, atol=1e-8 * np.abs(expected).max()
    )
    assert len(base_parameters(welded)) == 61


def test_too_few_motors_says_both_numbers(palida: Model) -> None:
    joints = tuple(
        replace(j, actuated=j.actuated and j.name != "leg1.slider") for j in palida.mechanism.joints
    )
    with pytest.raises(InvalidMechanism, match=r"6 degrees of freedom but 5 actuated"):
        Model(replace(palida.mechanism, joints=joints))


def test_too_many_motors_says_both_numbers(palida: Model) -> None:
    joints = tuple(
        replace(j, actuated=j.actuated or j.name == "leg1.alpha") for j in palida.mechanism.joints
    )
    with pytest.raises(InvalidMechanism, match=r"6 degrees of freedom but 7 actuated"):
        Model(replace(palida.mechanism, joints=joints))


def test_loops_that_cannot_close_are_named(five_bar: Model) -> None:
    closures = tuple(
        replace(c, b=replace(c.b, placement=c.b.placement.then(Placement((("Tx", 30.0),)))))
        if k == 0
        else c
        for k, c in enumerate(five_bar.mechanism.closures)
    )
    with pytest.raises(LoopNotClosed, match=closures[0].name):
        Model(replace(five_bar.mechanism, closures=closures))


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (np.zeros((0, 6)), "empty"),
        (np.full((3, 6), np.nan), "not finite at index"),
        (np.zeros((3, 5)), "shape"),
    ],
)
def test_bad_positions_get_a_clear_error(
    palida: Model, positions: np.ndarray, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        palida.kinematics.close_loops(positions, "actuated")


def test_an_unknown_parameter_offers_the_nearest(palida: Model) -> None:
    motion = random_motion(palida, 3)
    with pytest.raises(InvalidInput, match=r"did you mean 'platform\.mz'"):
        palida.regressor(motion, ["platform.mzz"])


def test_motion_of_another_robot_is_refused(palida: Model, five_bar: Model) -> None:
    with pytest.raises(InvalidInput, match="not of 'palida'"):
        palida.regressor(random_motion(five_bar, 3), ["platform.m"])


def test_the_dead_band_interpolates_coulomb_friction(five_bar: Model) -> None:
    motion = random_motion(five_bar, 5, seed=1)
    wide = 10 * np.abs(motion.qd).max()
    column = five_bar.regressor(motion, ["left.motor.fs"], dead_band=wide)[:, :, 0]
    sharp = five_bar.regressor(motion, ["left.motor.fs"])[:, :, 0]
    speed = motion.qd[:, motion.column("left.motor")]
    row = five_bar.rows.index("left.motor")
    np.testing.assert_allclose(column[:, row], speed / wide)
    np.testing.assert_allclose(sharp[:, row], np.sign(speed))


def test_redundant_efforts_do_the_same_work_with_the_smallest_norm() -> None:
    model = model_of("redundant")
    assert len(model.actuated) > model.degrees_of_freedom
    motion = random_motion(model, 10, seed=1)
    effort = model.inverse_dynamics(motion)
    act = model.kinematics.closure_map(motion.q)[:, list(model.actuated)]
    for t in range(10):  # smallest norm: orthogonal to the null space of E_act^T
        null = np.linalg.svd(act[t].T)[2][model.degrees_of_freedom :]
        np.testing.assert_allclose(null @ effort[t], 0, atol=1e-9 * np.abs(effort).max())
    other = effort + np.stack([np.linalg.svd(act[t].T)[2][-1] for t in range(10)])
    W = base_parameters(model)
    sigma = np.diag([1.0, 2.0, 3.0, 4.0][: len(model.actuated)])
    first, second = (model.regression(motion, e, W, covariance=sigma) for e in (effort, other))
    np.testing.assert_allclose(first.effort, second.effort, atol=1e-9)
    np.testing.assert_allclose(
        first.covariance, np.einsum("tam,ab,tbk->tmk", act, sigma, act), atol=1e-12
    )


def test_check_reports_what_the_file_amounts_to(palida: Model) -> None:
    found = check(palida, tie_legs=True).to_dict()
    assert found["degrees_of_freedom"] == 6
    assert found["base_parameters"]["count"] == 24
    assert found["closure_residual"] < 1e-10


def test_equal_legs_permute(palida: Model) -> None:
    """Turning the motion of a three-fold symmetric hexapod by 120 degrees moves every effort two
    legs on.
    """
    mechanism = palida.mechanism
    rigid = {
        name: 0.0 for name in mechanism.standard.names if name.rpartition(".")[2] in ("fs", "fv")
    }
    values = palida.standard_values(rigid)
    t = np.linspace(0, 1, 200)
    legs = palida.home[list(palida.actuated)] + 0.01 * np.sin(
        2 * np.pi * t[:, None] + np.arange(6) * 1.3
    )
    speed = 0.01 * 2 * np.pi * np.cos(2 * np.pi * t[:, None] + np.arange(6) * 1.3)
    acceleration = -0.01 * (2 * np.pi) ** 2 * np.sin(2 * np.pi * t[:, None] + np.arange(6) * 1.3)
    order = [4, 5, 0, 1, 2, 3]
    efforts = []
    for shift in (list(range(6)), order):
        motion = palida.kinematics.motion(
            t, legs[:, shift], speed[:, shift], acceleration[:, shift], "actuated"
        )
        efforts.append(palida.inverse_dynamics(motion, values))
    np.testing.assert_allclose(
        efforts[1], efforts[0][:, order], atol=1e-9 * np.abs(efforts[0]).max()
    )


def test_a_mechanism_given_twice_is_compiled_once() -> None:
    mechanism = load_robot("five_bar")
    assert as_model(mechanism) is as_model(mechanism)
    assert as_model(load_robot("five_bar")) is not as_model(mechanism)
