"""Where the fixed elimination order fails, samples that are not numbers, welds half a turn apart,
odd payloads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from gough.core.errors import InvalidInput, InvalidMechanism, SingularConfiguration
from gough.engine import Model, base_parameters, random_motion
from gough.mechanism import load_robot, parse_robot
from gough.mechanism.files import robot_text
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Closure, Frame, Joint, Mechanism, Payload
from tests_support import model_of

INERTIA = {"m": 1.0, "mx": 0.1, "my": 0.02, "Izz": 0.03}


def chain(
    kind: str, links: list[tuple[str, str, float, float]], a: Frame, b: Frame, **more: Any
) -> Mechanism:
    """Return a planar loop of revolute joints (body, parent, place on it, start); the first one is
    the motor.
    """
    joints = tuple(
        Joint(
            name=f"j{i}",
            kind="revolute",
            parent=parent,
            child=child,
            start=start,
            actuated=i == 0,
            placement=Placement.xyz_rpy((place, 0, 0)),
            terms=("fv",),
            values={"fv": 0.1},
        )
        for i, (child, parent, place, start) in enumerate(links)
    )
    return Mechanism(
        name="planar",
        bodies=tuple(Body(name=link[0], values=INERTIA) for link in links),
        joints=joints,
        closures=(Closure(name="pin", kind=kind, a=a, b=b),),
        gravity=(0, -9.81, 0),
        **more,
    )


@pytest.fixture(scope="module")
def drag_link() -> Model:
    """A four-bar whose links all turn fully, so that every pivot of the elimination vanishes
    somewhere.
    """
    return Model(
        chain(
            "revolute",
            [
                ("crank", "base", 0.0, 0.06),
                ("coupler", "crank", 0.3, 1.84),
                ("follower", "base", 0.1, 1.13),
            ],
            Frame(body="coupler", placement=Placement.xyz_rpy((0.25, 0, 0))),
            Frame(body="follower", placement=Placement.xyz_rpy((0.28, 0, 0))),
        )
    )


def vanishing_pivots(model: Model) -> list[np.ndarray]:
    """Return configurations where the first pivot is zero to rounding, though the closures have
    full rank.
    """
    part = model.loops.partitions["actuated"]
    row, column = part.rows[part.pivots[0][0]], part.dependent[part.pivots[0][1]]
    angles = model.home[0] + np.linspace(0, 2 * np.pi, 400)
    path = model.kinematics.close_loops(angles[:, None])
    near = {"q": path[0]}

    def pivot(angle: float) -> float:
        near["q"] = model.kinematics.close_loops(np.array([[angle]]), start=near["q"])[0]
        return float(np.array(model.loops.equations(near["q"])[1])[row, column])

    values = [float(np.array(model.loops.equations(q)[1])[row, column]) for q in path]
    found = []
    for k in range(len(angles) - 1):
        if values[k] * values[k + 1] < 0:
            near["q"] = path[k]
            angle = brentq(pivot, angles[k], angles[k + 1], xtol=1e-15, rtol=1e-14)
            found.append(model.kinematics.close_loops(np.array([[angle]]), start=path[k])[0])
    return found


def test_dynamics_hold_where_a_pivot_vanishes(drag_link: Model) -> None:
    """Mass matrix, bias and the effect of a wrench are smooth there: the mean of both sides, up to
    h^2.
    """
    h, chain_of = 1e-4, drag_link.kinematics
    places = vanishing_pivots(drag_link)
    assert places
    for q in places:
        three = chain_of.close_loops(q[0] + np.array([[-h], [0.0], [h]]), start=q)
        speed = np.full((3, 1), 2.0)
        for quantity in (
            drag_link.mass_matrix(three).reshape(3),
            drag_link.bias(three, speed).reshape(3),
            drag_link.wrench_efforts(three, np.array([1.0, 2, 3, 4, 5, 6])).reshape(3),
        ):
            assert quantity[1] == pytest.approx((quantity[0] + quantity[2]) / 2, rel=1e-5)
        motion = chain_of.motion(
            np.zeros(1), q[None, :1], np.full((1, 1), 2.0), np.full((1, 1), 5.0), start=q
        )
        effort = drag_link.inverse_dynamics(motion, load=np.arange(10) / 10)
        back = drag_link.forward_dynamics(
            motion.q, np.full((1, 1), 2.0), effort, load=np.arange(10) / 10
        )
        assert back[0, 0] == pytest.approx(5.0, rel=1e-10)


@pytest.mark.parametrize("field", ["q", "qd", "qdd"])
@pytest.mark.parametrize("name", ["five_bar", "redundant", "serial6"])
def test_a_sample_that_is_not_a_number_leaves_its_neighbours_untouched(
    name: str, field: str
) -> None:
    model = model_of(name)
    motion = random_motion(model, 6, seed=1)
    values = np.array(getattr(motion, field))
    values[2] = np.nan
    broken = replace(motion, **{field: values})
    rows, effort = list(model.independent), np.ones((6, len(model.actuated)))
    quantities: dict[str, Callable[[Any], np.ndarray]] = {
        "regressor": lambda m: model.regressor(m, model.mechanism.standard.names),
        "inverse dynamics": model.inverse_dynamics,
        "forward dynamics": lambda m: model.forward_dynamics(m.q, m.qd[:, rows], effort),
        "accelerations": lambda m: model.kinematics.rates(
            m.q, m.qd[:, rows], m.qdd[:, rows], model.loops.dynamic
        )[1],
        "margin": lambda m: model.kinematics.margins(m.q).type2,
    }
    others = [0, 1, 3, 4, 5]
    for label, quantity in quantities.items():
        np.testing.assert_array_equal(
            quantity(broken)[others], quantity(motion)[others], err_msg=label
        )
    assert np.isnan(quantities["regressor"](broken)[2]).any()
    assert np.isnan(quantities["inverse dynamics"](broken)[2]).any()


def test_a_weld_half_a_turn_apart_is_not_closed_but_turned() -> None:
    links = [
        ("a", "base", 0.0, 1.0),
        ("b", "a", 0.2, -1.0),
        ("c", "b", 0.4, -2.0),
        ("d", "c", 0.2, 2.0),
    ]
    x, y = 0.2 * np.cos(1) + 0.4 + 0.2 * np.cos(2), 0.2 * np.sin(1) - 0.2 * np.sin(2)
    ends = Frame(body="d"), Frame(body="base", placement=Placement.xyz_rpy((x, y, 0)))
    assert Model(chain("weld", links, *ends)).degrees_of_freedom == 1
    turned = [*links[:3], ("d", "c", 0.2, 2.0 + np.pi)]
    model = Model(chain("weld", turned, *ends))
    rotation, origin = model.kinematics.body_poses(model.home[None])
    np.testing.assert_allclose(rotation[0, -1], np.eye(3), atol=1e-9)
    np.testing.assert_allclose(origin[0, -1], [x, y, 0], atol=1e-9)
    assert "'d' moved most" in model.loops.assembly or "by search" in model.loops.assembly


def test_what_is_wrong_with_the_assembly_names_the_file_too() -> None:
    mechanism = load_robot("five_bar")
    joints = tuple(replace(j, actuated=j.name == "left.motor") for j in mechanism.joints)
    with pytest.raises(
        InvalidMechanism, match=r"^mine\.toml: .*2 degrees of freedom but 1 actuated"
    ) as caught:
        Model(replace(mechanism, joints=joints, source="mine.toml"))
    assert caught.value.file == "mine.toml"


def test_a_wrench_acts_on_the_platform_wherever_payloads_go() -> None:
    mechanism = load_robot("five_bar")
    other = replace(
        mechanism, payloads=(Payload(name="pack", body="left.distal", values={"m": 1.0}),)
    )
    models = Model(mechanism), Model(other)
    motion = random_motion(models[0], 4, seed=2)
    wrench = np.array([3.0, -2, 1, 0.1, 0.2, 0.3])
    plain, moved = (model.wrench_efforts(motion.q, wrench) for model in models)
    np.testing.assert_allclose(moved, plain, rtol=1e-12)
    assert models[1].resolve("payload.pack.m") == ("left.distal.m",)


def test_payloads_on_two_bodies_have_columns_of_their_own() -> None:
    payloads = (Payload(name="one", body="tool"), Payload(name="two", body="left.distal"))
    model = Model(replace(load_robot("five_bar"), payloads=payloads))
    assert model.resolve("payload.one.m") == ("tool.m",)
    assert model.resolve("payload.two.m") == ("left.distal.m",)


def test_wrong_shapes_of_efforts_and_wrenches_are_named() -> None:
    model = model_of("five_bar")
    motion = random_motion(model, 4)
    with pytest.raises(InvalidInput, match=r"motor efforts has shape \(4, 1\)"):
        model.forward_dynamics(motion.q, np.zeros((4, 2)), np.zeros((4, 1)))
    with pytest.raises(InvalidInput, match=r"wrench on the platform has shape \(3, 6\)"):
        model.inverse_dynamics(motion, wrench=np.zeros((3, 6)))
    with pytest.raises(InvalidInput, match=r"dead band has shape \(2,\)"):
        model.inverse_dynamics(motion, dead_band=[0.1, 0.2])
    motors = motion.q[:, list(model.independent)]
    for start, message in (
        (np.zeros(3), r"start has shape \(3,\)"),
        (np.full(6, np.nan), "start is not finite"),
        (np.full((4, 6), np.nan), "start is not finite"),
    ):
        with pytest.raises(InvalidInput, match=message):
            model.kinematics.close_loops(motors, start=start)


@pytest.mark.parametrize("name", ["five_bar", "serial6"])
def test_no_samples_give_no_results_and_no_parameters_an_error(name: str) -> None:
    model = model_of(name)
    n, m = len(model.home), model.degrees_of_freedom
    none = np.zeros((0, n))
    assert model.kinematics.closure_map(none).shape == (0, n, m)
    assert model.kinematics.residual(none).shape == (0,)
    assert model.kinematics.margins(none).type2.shape == (0,)
    assert model.kinematics.body_poses(none)[0].shape == (0, len(model.mechanism.bodies), 3, 3)
    assert model.mass_matrix(none).shape == (0, m, m)
    with pytest.raises(InvalidInput, match="at least one"):
        random_motion(model, 0)
    with pytest.raises(InvalidInput, match="the list is empty"):
        base_parameters(model, parameters=[])


def test_a_singular_sample_is_named_by_its_number() -> None:
    """Driven at the rocker; crank and coupler line up at the sixth of eight samples."""
    model = Model(
        chain(
            "point",
            [
                ("rocker", "base", 0.5, 1.9),
                ("crank", "base", 0.0, 0.6),
                ("coupler", "crank", 0.2, 0.8),
            ],
            Frame(body="coupler", placement=Placement.xyz_rpy((0.5, 0, 0))),
            Frame(body="rocker", placement=Placement.xyz_rpy((0.4, 0, 0))),
        )
    )
    motion = random_motion(model, 8, seed=1)
    q, dead = np.array(motion.q), np.arccos(0.2)
    q[5] = dead, np.arctan2(0.4 * np.sin(dead), 0.5 + 0.4 * np.cos(dead)), 0.0
    broken = replace(motion, q=q)
    rows = broken.qd[:, :1]
    for ask in (
        lambda: model.regressor(broken, ["crank.m"]),
        lambda: model.inverse_dynamics(broken),
        lambda: model.forward_dynamics(broken.q, rows, rows),
        lambda: model.kinematics.closure_map(broken.q),
    ):
        with pytest.raises(SingularConfiguration, match="singular at sample 5") as caught:
            ask()
        assert caught.value.sample == 5
    with pytest.raises(SingularConfiguration) as caught:
        model.kinematics.rates(broken.q, rows, rows)
    assert caught.value.sample == 5


def test_a_robot_that_closes_only_outside_its_limits_is_refused() -> None:
    """With forearms far too short the five-bar still closes, but not where the file says it
    works.
    """
    text, source = robot_text("five_bar")
    short = text.replace("xyz = [0.35, 0, 0]", "xyz = [0.05, 0, 0]")
    assert short != text
    with pytest.raises(
        InvalidMechanism, match=r"five_bar\.toml: .*'tool\.y' at 0\.2302 m, outside its position"
    ):
        Model(parse_robot(short, source))


def test_absurdly_long_links_are_refused_without_a_warning() -> None:
    """They close within rounding of their length, far outside the limits."""
    text, source = robot_text("five_bar")
    with pytest.raises(
        InvalidMechanism, match=r"assembles with 'tool\.x' at .* outside its position limits"
    ):
        Model(parse_robot(text.replace("xyz = [0.35, 0, 0]", "xyz = [1e12, 0, 0]"), source))
