"""Ranges of graphs over boxes, against values of the same graphs by CasADi at many points
inside.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from gough.core.intervals import Interval
from gough.kernels.enclosure import Bundle, enclose
from gough.kernels.tape import UnsupportedOperation, read_tape

x = ca.SX.sym("x", 3)
GRAPHS = {
    "quotient": x[0] * x[1] / (2 + ca.sin(x[2])) - x[1] / x[2],
    "rounded": ca.sqrt(x[0] ** 2 + x[1] ** 2 + 1) - ca.fabs(x[1] - x[2]) + 1 / x[2],
    "cancelling": (x[0] + x[1]) * (x[0] - x[1])
    - x[0] ** 2
    + x[1] ** 2
    + ca.cos(x[2]) ** 2
    + ca.sin(x[2]) ** 2,
    "long": ca.vertcat(
        *[ca.sin(k * x[0]) * ca.cos(x[1] - k * x[2]) / (k + x[2]) for k in range(1, 8)]
    ),
}
CENTRE = np.array([[0.4, -0.3, 0.8], [1.2, 0.7, 2.0]])


def ranges(graph: ca.SX, radius: float) -> tuple[Interval, np.ndarray]:
    """Return the range over boxes about the centres, and values at corners and random points,
    (points, t, k).
    """
    function = ca.Function("f", [x], [ca.densify(graph)])
    reach = np.full(CENTRE.shape, radius)
    identity = np.broadcast_to(np.eye(3), (len(CENTRE), 3, 3))
    box = Bundle(Interval.around(CENTRE, reach), Interval.point(CENTRE), Interval.point(identity))
    found = enclose(read_tape(function), [box], box.within.radius)[0]
    rng = np.random.default_rng(0)
    away = np.concatenate([rng.choice([-1, 1], (60, 2, 3)), rng.uniform(-1, 1, (200, 2, 3))])
    return found, np.array(
        [[np.array(function(p)).ravel() for p in CENTRE + radius * u] for u in away]
    )


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("radius", [0.2, 1e-3, 1e-9, 0.0])
def test_every_value_is_inside(name: str, radius: float) -> None:
    found, values = ranges(GRAPHS[name], radius)
    assert (found.lower <= values).all()
    assert (values <= found.upper).all()


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_too_wide_is_of_second_order(name: str) -> None:
    excess = []
    for radius in (1e-3, 1e-4):
        found, values = ranges(GRAPHS[name], radius)
        excess.append((found.upper - found.lower - np.ptp(values, axis=0)).max() / radius)
    assert excess[0] < 0.05
    assert excess[1] < 0.2 * excess[0] + 1e-9


def test_quantities_that_stay_have_no_slope_and_a_range() -> None:
    still = Bundle.constant(Interval.around(CENTRE, 0.1))
    found = enclose(read_tape(ca.Function("f", [x], [x[0] * x[1]])), [still], np.zeros((2, 1)))[0]
    np.testing.assert_allclose(found.lower[:, 0], [-0.2, 1.1 * 0.6])
    np.testing.assert_allclose(found.upper[:, 0], [-0.06, 1.3 * 0.8])


def test_an_operation_without_a_rule_is_named() -> None:
    with pytest.raises(UnsupportedOperation, match="'atan2' cannot be enclosed"):
        enclose(
            read_tape(ca.Function("f", [x], [ca.atan2(x[0], x[1])])),
            [Bundle.constant(Interval.point(CENTRE))],
            np.zeros((2, 1)),
        )
