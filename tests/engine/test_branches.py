"""A motion stays on one assembly branch, or is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gough.core.arrays import FloatArray
from gough.core.errors import LoopNotClosed
from gough.engine import Model
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Closure, Frame, Joint, Mechanism

CRANK, COUPLER, ROCKER, FAR = 0.2, 0.6, 0.4, 0.5  # [m]


def closed(crank: float, side: int) -> np.ndarray:
    """Return the angles of crank, coupler and rocker on one of two branches, in closed form.

    Circles about the end of the crank and about the pin meet twice.
    """
    end = CRANK * np.array([np.cos(crank), np.sin(crank)])
    reach = np.array([FAR, 0.0]) - end
    distance = np.linalg.norm(reach)
    bend = np.arccos((COUPLER**2 + distance**2 - ROCKER**2) / (2 * COUPLER * distance))
    direction = np.arctan2(reach[1], reach[0]) + side * bend
    knee = end + COUPLER * np.array([np.cos(direction), np.sin(direction)])
    last = np.arctan2(-knee[1], FAR - knee[0])
    angles = np.array([crank, direction - crank, last - direction])
    return np.angle(np.exp(1j * angles))


def four_bar() -> Mechanism:
    """Crank, coupler and rocker in a row; the end of the rocker is pinned."""
    joints = []
    parent = "base"
    start = closed(1.2, 1)
    for k, (name, x) in enumerate((("crank", 0.0), ("coupler", CRANK), ("rocker", COUPLER))):
        joint = Joint(
            name=name,
            kind="revolute",
            parent=parent,
            child=f"{name}_body",
            start=float(start[k]),
            placement=Placement.xyz_rpy((x, 0, 0)),
            actuated=name == "crank",
        )
        joints.append(joint)
        parent = joint.child
    pin = Closure(
        name="pin",
        kind="point",
        a=Frame(body="rocker_body", placement=Placement.xyz_rpy((ROCKER, 0, 0))),
        b=Frame(body="base", placement=Placement.xyz_rpy((FAR, 0, 0))),
    )
    bodies = tuple(Body(name=joint.child, values={"m": 1.0, "Izz": 0.1}) for joint in joints)
    return Mechanism(name="bars", bodies=bodies, joints=tuple(joints), closures=(pin,))


@pytest.fixture(scope="module")
def bars() -> Model:
    return Model(four_bar())


CRANKS = np.linspace(1.1, 1.3, 20)


@pytest.mark.parametrize("side", [1, -1])
def test_starts_on_one_branch_stay_there(bars: Model, side: int) -> None:
    expected = np.array([closed(crank, side) for crank in CRANKS])
    near = expected + np.array([0.0, 0.01, -0.01])
    q = bars.kinematics.close_loops(CRANKS[:, None], "actuated", start=near)
    np.testing.assert_allclose(q, expected, atol=1e-9)


def test_starts_on_two_branches_are_refused_at_the_sample_of_the_jump(bars: Model) -> None:
    """Every sample is closed; only the step between two of them is impossible."""
    sides = [1] * 12 + [-1] * 8
    start = np.array([closed(crank, side) for crank, side in zip(CRANKS, sides)])
    time = np.arange(20) / 100
    with pytest.raises(LoopNotClosed, match="jump to another assembly branch") as caught:
        bars.kinematics.close_loops(CRANKS[:, None], "actuated", start=start, time=time)
    assert caught.value.sample == 12
    assert caught.value.time == pytest.approx(0.12)


def test_wrong_guesses_of_anchors_change_no_pose(
    five_bar: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guesses only save time: a guess on no branch, or on another one, is not used."""
    t = np.linspace(0, 3, 1500)[:, None]
    motors = five_bar.home[list(five_bar.actuated)] + 0.6 * np.sin(t * np.array([2.0, 3.1]))
    expected = five_bar.kinematics.close_loops(motors)

    def mirrored(start: FloatArray, targets: FloatArray, by: str) -> FloatArray:
        return np.repeat(-start[None], len(targets), axis=0)

    monkeypatch.setattr(five_bar.kinematics, "_guess_anchors", mirrored)
    np.testing.assert_allclose(five_bar.kinematics.close_loops(motors), expected, atol=1e-12)
