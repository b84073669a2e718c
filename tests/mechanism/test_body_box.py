"""Boxes that hold all mass of a body: read, merged over fixed joints, handed to the estimator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from robot_texts import ARM, read

from gough.core.errors import InvalidMechanism
from gough.engine import Model, base_parameters
from gough.identification.problems import RobotBodyProblem
from gough.mechanism import load_robot

BOX = "box = [-0.1, -0.05, -0.05, 0.3, 0.05, 0.05]"
FIXED = """
[[body]]
name = "bracket"
m = 0.5
com = [0, 0.1, 0]
box = [0, 0, 0, 0.1, 0.2, 0.1]
[[joint]]
name = "screws"
type = "fixed"
parent = "link"
child = "bracket"
xyz = [0.3, 0, 0]
rpy = [0, 0, 90]
"""


def test_a_box_is_read_in_metres_and_must_not_be_empty() -> None:
    text = ARM.replace('length = "m"', 'length = "mm"').replace("[0.1, 0, 0]", "[100, 0, 0]")
    boxed = text.replace("m = 2", "m = 2\nbox = [-100, -50, -50, 300, 50, 50]")
    assert read(boxed).body("link").box == pytest.approx((-0.1, -0.05, -0.05, 0.3, 0.05, 0.05))
    assert read(ARM).body("link").box is None
    with pytest.raises(InvalidMechanism, match="lowest x, y, z, then highest"):
        read(ARM.replace("m = 2", "m = 2\nbox = [0, 0, 0, 1, 1, 0]"))


def test_bodies_on_fixed_joints_share_a_box_around_both() -> None:
    arm = ARM.replace("m = 2", f"m = 2\n{BOX}") + FIXED
    # turned by 90 degrees the bracket reaches from x = 0.1 to 0.3
    expected = (-0.1, -0.05, -0.05, 0.3, 0.1, 0.1)
    np.testing.assert_allclose(read(arm).body("link").box, expected, atol=1e-12)
    unknown = arm.replace("box = [0, 0, 0, 0.1, 0.2, 0.1]", "")
    assert read(unknown).body("link").box is None


def test_tied_legs_have_one_box_and_count_each_mass() -> None:
    mechanism = load_robot("five_bar")
    bodies = []
    for body in mechanism.bodies:
        box = (0.0, -1.0, -1.0, 1.0, 1.0, 1.0) if "distal" in body.name else None
        bodies.append(replace(body, box=box))
    model = Model(replace(mechanism, bodies=tuple(bodies)))
    base = base_parameters(model, tie_legs=True)
    problem = RobotBodyProblem(model=model, base=base, regression=None, start=None)
    boxes = problem.boxes
    assert list(boxes.values()) == [(0.0, -1.0, -1.0, 1.0, 1.0, 1.0)]
    [owner] = boxes
    assert problem.members[f"{owner}.m"] == 2
    assert problem.members["tool.m"] == 1


def test_the_stated_uncertainty_of_the_file_is_that_of_the_prior() -> None:
    stated = '[[uncertainty]]\nrelative = 0.1\nparameters = ["link.*"]\n'
    model = Model(read(ARM + stated))
    base = base_parameters(model)
    prior = RobotBodyProblem(model=model, base=base, regression=None, start=None).prior
    assert prior.std[prior.index("link.m")] == pytest.approx(0.2)
    assert prior.std[prior.index("hinge.fv")] == 0
