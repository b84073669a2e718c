"""Assembly from anywhere: nearest branch, inside limits, what stays open; freedoms without
motors.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidMechanism, LoopNotClosed
from gough.engine import Model
from gough.engine.base import base_parameters
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Closure, Frame, Joint, Limits, Mechanism

LINKS = (("crank", "base", 0.0), ("coupler", "crank", 0.2), ("rocker", "coupler", 0.6))
FAR = 0.5


def four_bar(
    *,
    limits: tuple[float, float] | None = None,
    start: tuple[float, ...] = (1.2, 0.0, 0.0),
    last: float = 0.4,
) -> Mechanism:
    """Crank 0.2, coupler 0.6 and rocker 0.4 in a row; the rocker's end is pinned at x = 0.5."""
    joints = tuple(
        Joint(
            name=name,
            kind="revolute",
            parent=parent,
            child=f"{name}_body",
            start=at,
            placement=Placement.xyz_rpy((x, 0, 0)),
            actuated=name == "crank",
            limits=Limits(position=limits) if name == "coupler" and limits else Limits(),
        )
        for (name, parent, x), at in zip(
            ((n, p if p == "base" else f"{p}_body", x) for n, p, x in LINKS), start
        )
    )
    bodies = tuple(
        Body(name=f"{name}_body", values={"m": 1.0, "Izz": 0.1, "mx": 0.1}) for name, _, _ in LINKS
    )
    pin = Closure(
        name="pin",
        kind="point",
        a=Frame(body="rocker_body", placement=Placement.xyz_rpy((last, 0, 0))),
        b=Frame(body="base", placement=Placement.xyz_rpy((FAR, 0, 0))),
    )
    return Mechanism(name="bars", bodies=bodies, joints=joints, closures=(pin,))


def branches(crank: float) -> list[float]:
    """Coupler angles of both branches at a crank angle: circles about the crank's end and the pin
    meet twice.
    """
    end = 0.2 * np.array([np.cos(crank), np.sin(crank)])
    far = np.array([FAR, 0.0]) - end
    d = np.linalg.norm(far)
    bend = np.arccos((0.6**2 + d**2 - 0.4**2) / (2 * 0.6 * d))
    return [float(np.arctan2(far[1], far[0]) + side * bend - crank) for side in (1, -1)]


def test_a_start_far_from_closed_ends_on_a_branch() -> None:
    for start in ((1.2, 3.0, -2.0), (1.2, -3.0, 3.0), (-2.0, 0.1, 3.1)):
        model = Model(four_bar(start=start))
        crank, coupler, _ = model.home
        gaps = [abs(np.angle(np.exp(1j * (coupler - angle)))) for angle in branches(crank)]
        assert min(gaps) < 1e-9


@pytest.mark.parametrize("rocker", [-2.5, -1.0, 0.0, 1.0, 2.5])
def test_limits_choose_the_branch_and_a_search_says_how_it_went(rocker: float) -> None:
    for wanted in branches(1.2):
        limits = (wanted - 0.3, wanted + 0.3)
        model = Model(four_bar(limits=limits, start=(1.2, wanted, rocker)))
        assert limits[0] <= model.home[1] <= limits[1]
        assert model.kinematics.residual(model.home[None]).max() < 1e-10
        searched = model.loops.assembly != "from the start values"
        assert not searched or re.fullmatch(
            r"by search from \d+ starts, the nearest of \d+ poses found; '\w+' moved "
            r"most, by \S+ rad",
            model.loops.assembly,
        )
        if (wanted, rocker) == (branches(1.2)[1], -2.5):  # Newton steps lead to the other branch
            assert searched


def test_what_cannot_close_says_which_loop_by_how_much_and_where() -> None:
    """Stretched out, bars of 0.2, 0.6 and 0.05 m end 2 m - 0.85 m short of the pin."""
    mechanism = four_bar(last=0.05)
    moved = replace(
        mechanism,
        closures=(
            replace(
                mechanism.closures[0],
                b=Frame(body="base", placement=Placement.xyz_rpy((2.0, 0, 0))),
            ),
        ),
    )
    with pytest.raises(
        LoopNotClosed, match=r"'pin'.*stays open by .*nearest pose found: crank = "
    ) as caught:
        Model(moved)
    assert caught.value.loop == "pin"
    assert caught.value.residual == pytest.approx(2.0 - 0.85, abs=1e-6)
    assert set(caught.value.pose) == {"crank", "coupler", "rocker"}


def rod(offset: float) -> Mechanism:
    """A slider and a crank joined by a rod between ball joints; the rod may turn about itself."""
    bodies = [
        Body(name="slider", values={"m": 1.0}),
        Body(name="turner", values={"m": 1.0, "Izz": 0.1}),
    ]
    joints = [
        Joint(
            name="slide", kind="prismatic", parent="base", child="slider", axis="x", actuated=True
        ),
        Joint(
            name="turn",
            kind="revolute",
            parent="base",
            child="turner",
            placement=Placement.xyz_rpy((1.0, 0.3, 0)),
        ),
    ]
    for k, axis in enumerate("zyx"):
        bodies.append(
            Body(name=f"r{k}", parameters=())
            if k < 2
            else Body(
                name="r2",
                values={
                    "m": 0.5,
                    "mx": 0.25,
                    "my": 0.5 * offset,
                    "Iyy": 0.2,
                    "Izz": 0.2,
                    "Ixx": 0.001,
                },
            )
        )
        joints.append(
            Joint(
                name=f"ball{k}",
                kind="revolute",
                parent="slider" if k == 0 else f"r{k - 1}",
                child=f"r{k}",
                axis=axis,
                start=0.1,
            )
        )
    end = Closure(
        name="end",
        kind="point",
        a=Frame(body="r2", placement=Placement.xyz_rpy((0.9, 0, 0))),
        b=Frame(body="turner", placement=Placement.xyz_rpy((-0.3, 0, 0.1))),
    )
    return Mechanism(name="rod", bodies=tuple(bodies), joints=tuple(joints), closures=(end,))


def test_a_rod_that_only_turns_about_itself_is_held() -> None:
    model = Model(rod(0.0))
    assert model.degrees_of_freedom == 1
    assert model.loops.locked == ("ball2",)
    q = model.kinematics.close_loops(model.home[0] + np.linspace(0, 0.05, 5)[:, None])
    assert np.ptp(q[:, model.mechanism.coordinates.index("ball2")]) == 0.0


def test_a_rod_whose_weight_turns_it_needs_a_motor() -> None:
    with pytest.raises(
        InvalidMechanism, match=r"2 degrees of freedom but 1 actuated.*held, ball2 still move"
    ):
        Model(rod(0.1))


def _tilted(*turns: float) -> Mechanism:
    """The four-bar with its joints turned about their x axes, which is along the bars before
    each.
    """
    bars = four_bar(start=(1.2, branches(1.2)[0], 0.0))
    return replace(
        bars,
        joints=tuple(
            replace(
                joint,
                placement=Placement.xyz_rpy((x, 0, 0), (turn, 0, 0)),
                start=joint.start * (-1) ** (turn > 3),
            )
            for joint, (_, _, x), turn in zip(bars.joints, LINKS, turns)
        ),
    )


def test_right_angles_of_few_digits_stay_as_printed_where_the_loops_close_with_them() -> None:
    model = Model(_tilted(1.5708, 0.0, 0.0))
    assert model.degrees_of_freedom == 1
    np.testing.assert_allclose(
        model.mechanism.joints[0].placement.rotation[2, 2], np.cos(1.5708), atol=1e-15
    )
    assert model.kinematics.residual(model.home[None]).max() < 1e-10


def test_right_angles_of_few_digits_are_right_where_loops_contradict_each_other_with_them() -> None:
    """Two half turns of 3.1416 rad are 15 urad more than one: the last bar leaves the plane, and
    holds the others.
    """
    printed, right = (Model(_tilted(0.0, half, half)) for half in (3.1416, np.pi))
    assert printed.degrees_of_freedom == right.degrees_of_freedom == 1
    np.testing.assert_allclose(printed.home, right.home, atol=1e-9)
    assert printed.mechanism.idealised is printed.mechanism
    assert printed.loops.assembly.endswith("with right angles for those printed with few digits")
    assert len(base_parameters(printed)) == len(base_parameters(right))
