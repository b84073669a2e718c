"""Closed chains and regressors over intervals of the motion: guaranteed ranges in place of numbers.

What the loops make of intervals of the independent coordinates is enclosed by Krawczyk's operator
about an estimate y0 of the dependent ones, C an approximate inverse of K_D there:

    y - y0 in -C phi(x0, y0) - C [K_I] (x - x0) + (1 - C [K_D]) (y - y0)

If the right-hand side lies inside the box it was computed for, each x has exactly one y in that
box.
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

ROUNDS = 12  # of Krawczyk's operator; it contracts at once or not at all
MARGIN = 1.2  # a box so much larger than the last image is tried next: proof needs room
BLOCK = 256  # samples at once: slopes of some hundred quantities stay in memory


def closed_box(model: Model, by: By, independent: Interval, near: FloatArray) -> Interval:
    """Enclose all coordinates of the configurations near an estimate whose independent ones lie in
    intervals, (t, n).

    Args:
        independent: Their intervals, (t, m). [m or rad]
        near: All coordinates, loops closed, near the middle of the intervals, (t, n).
    """
    part = model.loops.partitions[by]
    D, own, rows = part.dependent, part.independent, part.rows
    centre = np.array(near)
    centre[:, own] = independent.middle
    lower, upper = np.empty_like(centre), np.empty_like(centre)
    lower[:, own], upper[:, own] = independent.lower, independent.upper
    if not D:
        return Interval(lower, upper)
    centre = model.kinematics.close_nearby(centre, by)[0]
    q = ca.SX.sym("q", centre.shape[1])
    closure = LoopExpressions(model.loops, by, q)
    equations = read_tape(
        ca.Function("closures", [q], [closure.residual[rows], closure.jacobian[rows, :]])
    )
    still = np.zeros((len(centre), 1))
    gap = enclose(equations, [Bundle.constant(Interval.point(centre))], still)[0]
    inverse: FloatArray = np.linalg.inv(model.kinematics.jacobian(centre)[:, rows][:, :, D]).astype(
        float
    )
    reach, found = independent.radius[:, :, None], np.zeros((len(centre), len(D), 1))
    for _ in range(ROUNDS):
        tried = up(MARGIN * found + 1e-15 * model.loops.units[D][:, None])
        lower[:, D], upper[:, D] = (up(s * centre[:, D] + tried[:, :, 0]) * s for s in (-1, 1))
        K = enclose(equations, [Bundle.constant(Interval(lower, upper))], still)[1]
        K = Interval(*(x.reshape(len(centre), len(rows), -1) for x in (K.lower, K.upper)))
        driven, rest = (
            magnitude_of_product(inverse, K[:, :, own]),
            magnitude_of_product(inverse, K[:, :, D], np.eye(len(D))),
        )
        found = up(
            magnitude_of_product(inverse, gap[:, :, None]) + above_sum(driven @ reach, len(own))
        )
        found = up(found + above_sum(rest @ tried, len(D)))
        if (found < tried).all():
            lower[:, D], upper[:, D] = (up(s * centre[:, D] + found[:, :, 0]) * s for s in (-1, 1))
            return Interval(lower, upper)
        if not (
            found < model.loops.units[D][:, None]
        ).all():  # a radian, or the length of the robot: hopeless
            break
    worst = int(np.argmax(np.any(found >= tried, axis=(1, 2))))
    raise NotConverged(
        f"the closed loops of '{model.mechanism.name}' could not be proven at sample {worst} from "
        f"positions known to "
        f"{independent.radius[worst].max():.2g} m or rad; give a smaller position error, or keep "
        f"away from "
        "singularities",
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
        by: Whose coordinates, velocities and accelerations are given.
        motion: Intervals of these, (t, m) each.
        near: All coordinates near the middle, loops closed, (t, n).
        slow: Speed below which friction may have any sign, (n,). [m/s or rad/s]
    """
    graphs = _graphs(model, tuple(names), by)
    blocks = [
        _block(model, graphs, by, [x[k : k + BLOCK] for x in motion], near[k : k + BLOCK], slow)
        for k in range(0, len(near), BLOCK)
    ]
    shape = len(near), model.degrees_of_freedom, len(names)
    return Interval(
        *(
            np.concatenate([getattr(b, side) for b in blocks]).reshape(shape)
            for side in ("lower", "upper")
        )
    )


def _graphs(model: Model, names: tuple[str, ...], by: By) -> tuple[Tape, Tape, Tape]:
    """Return q -> E; q, v -> qd; and q, v, a, signs of the velocities -> regressor."""
    n, m = len(model.mechanism.joints), model.degrees_of_freedom
    q, v, a, sign = symbols = [
        ca.SX.sym(name, size) for name, size in (("q", n), ("v", m), ("a", m), ("sign", n))
    ]
    closure = LoopExpressions(model.loops, by, q)
    rows = (
        closure
        if by == model.loops.dynamic
        else LoopExpressions(model.loops, model.loops.dynamic, q)
    )
    qd, qdd = closure.rates(v, a)
    tree = TreeEfforts(model.mechanism, q, qd, qdd, ca.SX(n, 1))
    tree.sign = sign
    columns = model.projected_columns(tree, rows.closure_map, names)
    return (
        read_tape(ca.Function("map", [q], [closure.closure_map])),
        read_tape(ca.Function("speed", [q, v], [qd])),
        read_tape(ca.Function("columns", symbols, [columns])),
    )


def _block(
    model: Model,
    graphs: tuple[Tape, Tape, Tape],
    by: By,
    motion: Sequence[Interval],
    near: FloatArray,
    slow: FloatArray,
) -> Interval:
    t, n, m = len(near), len(model.mechanism.joints), model.degrees_of_freedom
    reach = np.concatenate([x.radius for x in motion], axis=1)
    box = closed_box(model, by, motion[0], near)
    at = closed_box(model, by, Interval.point(motion[0].middle), near)
    E = enclose(graphs[0], [Bundle.constant(box)], reach)[0]
    slopes = np.zeros((2, 3, t, n, 3 * m))  # of q, v and a by the motion
    slopes[:, 0, :, :, :m] = E.lower.reshape(t, n, m), E.upper.reshape(t, n, m)
    for k in (1, 2):
        slopes[:, k, :, range(m), range(k * m, k * m + m)] = 1.0
    state = [Bundle(box, at, Interval(*slopes[:, 0]))]
    state += [
        Bundle(x, Interval.point(x.middle), Interval(*slopes[:, k, :, :m]))
        for k, x in enumerate(motion)
        if k
    ]
    speed = enclose(graphs[1], state[:2], reach)[0]
    way = Interval(
        np.where(speed.lower > slow, 1.0, -1.0), np.where(speed.upper < -slow, -1.0, 1.0)
    )
    return enclose(graphs[2], [*state, Bundle.constant(way)], reach)[0]
