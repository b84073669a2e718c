"""Interval enclosures of closed chains and regressors over intervals of the motion.

The dependent coordinates y for intervals of the independent coordinates
x are enclosed by Krawczyk's operator around an estimate y0, with C an
approximate inverse of K_D there:

    y - y0 in -C phi(x0, y0) - C [K_I] (x - x0) + (1 - C [K_D]) (y - y0)

If the right-hand side lies inside the box it was computed for, each x
has exactly one y in that box.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import NotConverged
from gough.core.intervals import Interval, above_sum, magnitude_of_product, up
from gough.engine.loops import By, LoopExpressions
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts
from gough.kernels.enclosure import Bundle, enclose
from gough.kernels.tape import Tape, read_tape

# Iterations of Krawczyk's operator; it contracts at once or not at all.
KRAWCZYK_ITERATIONS = 12
# The next box is larger than the last image by this factor: a proof
# needs a strict inclusion.
KRAWCZYK_INFLATION = 1.2
# Samples at once, such that slopes of some hundred quantities fit in
# memory.
ENCLOSURE_BLOCK = 256


def closed_box(model: Model, by: By, independent: Interval, near: FloatArray) -> Interval:
    """Enclose all coordinates of closed configurations over intervals, (t, n).

    Args:
        independent: Intervals of the independent coordinates, (t, m).
            [m or rad]
        near: All coordinates, loops closed, near the middle of the
            intervals, (t, n).

    Raises:
        NotConverged: No box around the estimate is proven to contain
            the closed configurations.
    """
    partition = model.loops.partitions[by]
    D = partition.dependent
    own = partition.independent
    rows = partition.rows
    centre = np.array(near)
    centre[:, own] = independent.middle
    lower = np.empty_like(centre)
    upper = np.empty_like(centre)
    lower[:, own] = independent.lower
    upper[:, own] = independent.upper
    if not D:
        return Interval(lower, upper)
    centre = model.kinematics.close_nearby(centre, by)[0]
    q = ca.SX.sym("q", centre.shape[1])
    closure = LoopExpressions(model.loops, by, q)
    outputs = [closure.residual[rows], closure.jacobian[rows, :]]
    equations = read_tape(ca.Function("closures", [q], outputs))
    point = np.zeros((len(centre), 1))
    residual = enclose(equations, [Bundle.constant(Interval.point(centre))], point)[0]
    jacobian = model.kinematics.jacobian(centre)[:, rows][:, :, D]
    inverse: FloatArray = np.linalg.inv(jacobian).astype(float)
    at_centre = magnitude_of_product(inverse, residual[:, :, None])
    unit = model.loops.units[D][:, None]
    radius = np.zeros((len(centre), len(D), 1))  # of the dependent coordinates
    for _ in range(KRAWCZYK_ITERATIONS):
        tried = up(KRAWCZYK_INFLATION * radius + 1e-15 * unit)
        lower[:, D] = -up(-centre[:, D] + tried[:, :, 0])
        upper[:, D] = up(centre[:, D] + tried[:, :, 0])
        K = enclose(equations, [Bundle.constant(Interval(lower, upper))], point)[1]
        shape = (len(centre), len(rows), -1)
        K = Interval(K.lower.reshape(shape), K.upper.reshape(shape))
        driven = magnitude_of_product(inverse, K[:, :, own])
        contraction = magnitude_of_product(inverse, K[:, :, D], np.eye(len(D)))
        by_motion = above_sum(driven @ independent.radius[:, :, None], len(own))
        radius = up(at_centre + by_motion)
        radius = up(radius + above_sum(contraction @ tried, len(D)))
        if (radius < tried).all():
            lower[:, D] = -up(-centre[:, D] + radius[:, :, 0])
            upper[:, D] = up(centre[:, D] + radius[:, :, 0])
            return Interval(lower, upper)
        if not (radius < unit).all():  # a radian, or the length of the robot: it diverges
            break
    worst = int(np.argmax(np.any(radius >= tried, axis=(1, 2))))
    raise NotConverged(
        f"the closed loops of '{model.mechanism.name}' could not be proven at sample {worst} from "
        f"positions known to {independent.radius[worst].max():.2g} m or rad; give a smaller "
        "position error, or keep away from singularities",
        sample=worst,
    )


def regressor_box(
    model: Model,
    names: Sequence[str],
    by: By,
    motion: tuple[Interval, Interval, Interval],
    near: FloatArray,
    slow: FloatArray,
) -> Interval:
    """Enclose the regressor over intervals of the motion, (t, r, p); infinite where that fails.

    Args:
        by: Partition of the motion.
        motion: Intervals of position, velocity and acceleration of its
            coordinates, (t, m) each.
        near: All coordinates near the middle, loops closed, (t, n).
        slow: Speed below which friction may have any sign, (n,). [m/s
            or rad/s]
    """
    graphs = _graphs(model, tuple(names), by)
    blocks: list[Interval] = []
    for start in range(0, len(near), ENCLOSURE_BLOCK):
        samples = slice(start, start + ENCLOSURE_BLOCK)
        block_motion = [interval[samples] for interval in motion]
        blocks.append(_block(model, graphs, by, block_motion, near[samples], slow))
    shape = len(near), model.degrees_of_freedom, len(names)
    lower = np.concatenate([block.lower for block in blocks]).reshape(shape)
    upper = np.concatenate([block.upper for block in blocks]).reshape(shape)
    return Interval(lower, upper)


def _graphs(model: Model, names: tuple[str, ...], by: By) -> tuple[Tape, Tape, Tape]:
    """Return q -> E; q, v -> qd; and q, v, a, signs of the velocities -> regressor."""
    n = len(model.mechanism.joints)
    m = model.degrees_of_freedom
    q = ca.SX.sym("q", n)
    v = ca.SX.sym("v", m)
    a = ca.SX.sym("a", m)
    sign = ca.SX.sym("sign", n)
    closure = LoopExpressions(model.loops, by, q)
    rows = closure
    if by != model.loops.dynamic:
        rows = LoopExpressions(model.loops, model.loops.dynamic, q)
    qd, qdd = closure.rates(v, a)
    tree = TreeEfforts(model.mechanism, q, qd, qdd, ca.SX(n, 1))
    tree.sign = sign
    columns = model.projected_columns(tree, rows.closure_map, names)
    return (
        read_tape(ca.Function("map", [q], [closure.closure_map])),
        read_tape(ca.Function("speed", [q, v], [qd])),
        read_tape(ca.Function("columns", [q, v, a, sign], [columns])),
    )


def _block(
    model: Model,
    graphs: tuple[Tape, Tape, Tape],
    by: By,
    motion: Sequence[Interval],
    near: FloatArray,
    slow: FloatArray,
) -> Interval:
    """Enclose the regressor of one block of samples, (t, r p); arguments as in `regressor_box`."""
    t = len(near)
    n = len(model.mechanism.joints)
    m = model.degrees_of_freedom
    closure_map, speed_graph, columns = graphs
    position, velocity, acceleration = motion
    radius = np.concatenate([interval.radius for interval in motion], axis=1)
    box = closed_box(model, by, position, near)
    centre = closed_box(model, by, Interval.point(position.middle), near)
    E = enclose(closure_map, [Bundle.constant(box)], radius)[0]
    by_position = np.zeros((2, t, n, 3 * m))  # lower and upper slopes of q by the motion
    by_position[0, :, :, :m] = E.lower.reshape(t, n, m)
    by_position[1, :, :, :m] = E.upper.reshape(t, n, m)
    state = [
        Bundle(box, centre, Interval(*by_position)),
        _independent_bundle(velocity, 1, m),
        _independent_bundle(acceleration, 2, m),
    ]
    speed = enclose(speed_graph, state[:2], radius)[0]
    sign_lower = np.where(speed.lower > slow, 1.0, -1.0)
    sign_upper = np.where(speed.upper < -slow, -1.0, 1.0)
    sign = Bundle.constant(Interval(sign_lower, sign_upper))
    return enclose(columns, [*state, sign], radius)[0]


def _independent_bundle(interval: Interval, order: int, m: int) -> Bundle:
    """Return velocities (order 1) or accelerations (order 2) as functions of the motion.

    Args:
        interval: Their intervals, (t, m).
        order: Which third of the 3 m variables of the motion they are.
        m: Number of independent coordinates.
    """
    slopes = np.zeros((len(interval.lower), m, 3 * m))
    slopes[:, range(m), range(order * m, order * m + m)] = 1.0
    return Bundle(interval, Interval.point(interval.middle), Interval.point(slopes))
