"""SYMORO: the same robot as one written by hand with modified Denavit-Hartenberg parameters."""

from __future__ import annotations

import numpy as np
import pytest
from foreign import described, samples, tree_efforts

from gough.core.errors import InvalidMechanism
from gough.engine import Model
from gough.engine.base import base_parameters
from gough.formats.read import read_tree
from gough.formats.robot_description import describe
from gough.mechanism import parse_robot

# The parallelogram of an SR400: joint 5 is cut, frame 6 on link 2 closes the loop.
PARALLELOGRAM = """(* Robotname = 'para' *)
NL = 4
NJ = 5
NF = 6
Type = 2
(* Geometric parameters *)
Ant = {0,1,0,3,4,2}
Sigma = {0,0,0,0,0,2}
B = {0,0,0,0,0,0}
d = {0,0.8,0,1/2,0.8,-1/2}
R = {0,0,0.1*0,0,0,0}
gamma = {0,0,0,0,0,pi/2}
alpha = {pi/2,0,pi/2,0,0,0}
mu = {1,0,1,0,0,0}
theta = {t1,t2,t3,t4,t5,0}
XX = {0,0,0}
ZZ = {0.2,ZZ2,0.1}
MX = {0.5,0.3,MX3}
M = {1,2,M3}
IA = {0.05,0,IA3}
FV = {0,FV2,0.3}
G = {0,0,-9.81}
(* End of definition *)
"""


def test_a_parallelogram_closes_and_keeps_what_is_unknown_unknown() -> None:
    done, mechanism = described(PARALLELOGRAM, "para.par")
    model = Model(mechanism)
    assert mechanism.name == "para"
    assert model.degrees_of_freedom == 2
    assert mechanism.actuated == ("q1", "q3")
    assert mechanism.body("body1").parameters == ("m", "mx", "Izz")
    assert dict(mechanism.body("body2").values) == {"m": 2, "mx": 0.3}
    assert mechanism.joint("q1").values["ia"] == 0.05
    assert mechanism.body("body3").values["Izz"] == 0.1
    assert "m" in mechanism.body("body3").parameters
    assert "mx" not in done.text.partition('name = "body3"')[2].partition("[[")[0].replace(
        '"mx"', ""
    )


def test_efforts_are_those_of_the_same_robot_in_a_robot_file() -> None:
    text = """(* Robotname = 'serial' *)
NL = 3
NJ = 3
NF = 3
ant = {0,1,2}
sigma = {0,1,0}
b = {0.1,0,0.2}
d = {0.3,0.4,-0.1}
r = {0.2,r2,0.5}
gamma = {0.3,-0.4,pi/3}
alpha = {-pi/2,0.7,0.2}
mu = {1,1,1}
theta = {th1,0.6,th3}
XX = {0.1,0.2,0.3}
XY = {0.01,0.02,0.03}
YY = {0.3,0.2,0.1}
ZZ = {0.2,0.25,0.15}
YZ = {0.01,0,0.02}
MX = {0.1,0.2,0.3}
MZ = {0.4,0,-0.2}
M = {2,3,1.5}
G = {1,2,-9}
"""
    _, ours = described(text, "serial.par")
    rows = [
        ("revolute", 0.3, 0.1, -np.pi / 2, 0.3, 0.0, 0.2),
        ("prismatic", -0.4, 0.0, 0.7, 0.4, 0.6, 0.0),
        ("revolute", np.pi / 3, 0.2, 0.2, -0.1, 0.0, 0.5),
    ]
    values = [
        dict(Ixx=0.1, Ixy=0.01, Iyy=0.3, Izz=0.2, Iyz=0.01, mx=0.1, mz=0.4, m=2),
        dict(Ixx=0.2, Ixy=0.02, Iyy=0.2, Izz=0.25, mx=0.2, m=3),
        dict(Ixx=0.3, Ixy=0.03, Iyy=0.1, Izz=0.15, Iyz=0.02, mx=0.3, mz=-0.2, m=1.5),
    ]
    lines = [
        "format = 1",
        'name = "hand"',
        "gravity = [1, 2, -9]",
        "[units]",
        'length = "m"',
        'angle = "rad"',
        'mass = "kg"',
    ]
    for k, ((kind, gamma, b, alpha, d, theta, r), inertia) in enumerate(zip(rows, values), 1):
        lines += [
            "[[body]]",
            f'name = "b{k}"',
            *(f"{key} = {value}" for key, value in inertia.items()),
            "[[joint]]",
            f'name = "q{k}"',
            f'type = "{kind}"',
            f'parent = "{f"b{k - 1}" if k > 1 else "base"}"',
            f'child = "b{k}"',
            "actuated = true",
            f"mdh = {{ gamma = {gamma}, b = {b}, alpha = {alpha}, d = {d}, theta = {theta}, r = {r} }}",
        ]
    theirs = parse_robot("\n".join(lines), "hand.toml")
    at = samples(ours)
    np.testing.assert_allclose(tree_efforts(ours, *at), tree_efforts(theirs, *at), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("d = {0,0.8", "d = {0,D2"), "d2 is 'D2', a symbol without a value"),
        (("NF = 6", "NF = 7"), "as many frames beyond NJ"),
        (("Ant = {0,1", "Ant = {0,7"), "ant2 is 7"),
        (("Sigma = {0,0", "Sigma = {0,5"), "sigma2 is 5"),
        (("mu = {1,0,1", "mu = {0,0,0"), "names no motors"),
        (("d = {0,0.8", "d = {0,__import__('os')"), "a symbol without a value"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidMechanism, match=message):
        describe(read_tree(PARALLELOGRAM.replace(*change), "para.par"), "para.par")


RHOMBUS = """(* Robotname = 'rhombus' *)
NL = 4
NJ = 5
NF = 6
Ant = {0,1,0,3,4,2}
Sigma = {0,0,0,0,0,2}
d = {0,0.3,0,0.3,0.3,0.3}
mu = {1,0,1,0,0,0}
theta = {0,OPEN,OPEN,-OPEN,0,0}
ZZ = {ZZ1,ZZ2,ZZ3,ZZ4}
MX = {MX1,MX2,MX3,MX4}
MY = {MY1,MY2,MY3,MY4}
M = {M1,M2,M3,M4}
"""


@pytest.mark.parametrize("opened", ["0.02", "0.1", "1.2"])
def test_a_rhombus_has_the_same_base_parameters_however_flat_it_starts(opened: str) -> None:
    """Nearly flat, rounding errors of 1e-10 of a column must not count as parameters.

    Opposite bars turn alike, about vertical axes: an inertia and the friction of each motor, and
    two first moments that couple them.
    """
    _, mechanism = described(RHOMBUS.replace("OPEN", opened), "rhombus.par")
    base = base_parameters(Model(mechanism))
    assert base.names == (
        "body1.IzzR",
        "q1.fv",
        "q1.fs",
        "body3.IzzR",
        "q3.fv",
        "q3.fs",
        "body2.mxR",
        "body2.myR",
    )
    assert base.gap > 1e8
