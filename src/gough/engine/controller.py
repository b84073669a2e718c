"""The two graphs of a robot's controller code: a Newton step of the loops, and the inverse dynamics."""

from __future__ import annotations

import casadi as ca

from gough.core.arrays import FloatArray
from gough.engine.elimination import cholesky_solve
from gough.engine.loops import Closure, Loops, closure_expressions
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts


def controller_graphs(model: Model, values: FloatArray, load: FloatArray,
                      dead_band: FloatArray) -> tuple[ca.Function, ca.Function]:
    """Return `newton` (q -> step, sizes) and `efforts` (q, qd_act, qdd_act -> motor efforts).

    The sizes are those of the closure residual and of the step, see `_sizes`. Parameters are constants of the graph;
    those that are zero cost nothing. Redundant robots get the smallest efforts.

    Args:
        values: Standard parameters, (p,).
        load: Ten inertial parameters of a payload.
        dead_band: Of the velocity sign, (n,). [m/s or rad/s]
    """
    part = model.loops.partitions["actuated"]
    q = ca.SX.sym("q", len(model.mechanism.joints))
    closure = closure_expressions(model.loops, "actuated", q)
    step = closure.newton_step()
    newton = ca.Function("newton", [q], [ca.densify(step), _sizes(model.loops, closure, step)])
    a = len(model.actuated)
    speed, acceleration = ca.SX.sym("v", a), ca.SX.sym("a", a)
    own = [model.actuated.index(i) for i in part.independent]
    qd, qdd = closure.rates(speed[own], acceleration[own])
    tree = TreeEfforts(model.mechanism, q, qd, qdd, ca.SX(ca.DM(dead_band)))
    rows = model.generalised_efforts(tree, closure.closure_map, ca.SX(ca.DM(values)), ca.SX(ca.DM(load)))
    if model.loops.redundant:
        act = closure.closure_map[list(model.actuated), :]
        efforts = act @ cholesky_solve(act.T @ act, rows)
    else:
        efforts = rows[[part.independent.index(i) for i in model.actuated]]
    return newton, ca.Function("efforts", [q, speed, acceleration], [ca.densify(efforts)])


def _sizes(loops: Loops, closure: Closure, step: ca.SX) -> ca.SX:
    """Return the sizes of residual and step as fractions of the robot.

    With s_r and u_i one for angles and the characteristic length for lengths,

        |phi| = sqrt(sum_r (phi_r / s_r)^2),    |dq| = sqrt(sum_i (dq_i / u_i)^2)

    where i are the coordinates in closures that are not linear: a rotor behind a gear turns far and bends no branch.
    """
    if not closure.partition.dependent:
        return ca.SX.zeros(2)
    bent = [i for i in loops.bending if i in closure.partition.dependent]
    return ca.vertcat(ca.sqrt(ca.sumsqr(closure.residual * ca.DM(loops.weights))),
                      ca.sqrt(ca.sumsqr(step[bent] / ca.DM(loops.units[bent]))))
