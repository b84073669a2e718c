"""Time steps of the closed chain: what the virtual robot, and a real controller in C, call thousands of times a second.

The state is the configuration q of all coordinates and the velocity v of the rows. Loops are kept closed by a Newton
step on the dependent coordinates at every evaluation: predicted over a step h they are open by about h^2 a / 2
(1e-6 m at 0.5 ms), and Newton's method squares that.
"""

from __future__ import annotations

import casadi as ca

from gough.core.arrays import FloatArray
from gough.engine.elimination import cholesky_solve
from gough.engine.loops import Closure, Loops, closure_expressions
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts
from gough.kernels.kernel import Kernel


def runge_kutta_kernel(model: Model) -> Kernel:
    """Return the kernel of one classical Runge-Kutta step of the closed chain under given motor efforts.

        qd = E(q) v,   M(q) vd = E_act^T tau - b(q, v),   phi(q) = 0 after each prediction by one Newton step

    Few arrays, because a call costs as much for each of them as for a hundred operations. Inputs: state [q, v] (n + m);
    tau (a, 3) at the start, middle and end of the step; constants [h, band, chi, load] (1 + n + p + 10 l). Output:
    [q, a, q_end, v_end, check] (2n + 2m + 1): q with the loops closed and the rows' acceleration at the start, the
    state at the end with q not yet closed, and the largest check value (see `closure_expressions`).
    """
    def build() -> ca.Function:
        stage = _stage(model)
        n, m, a = len(model.mechanism.joints), model.degrees_of_freedom, len(model.actuated)
        state, tau = ca.SX.sym("state", n + m), ca.SX.sym("tau", a, 3)
        p = len(model.mechanism.standard)
        constants = ca.SX.sym("constants", 1 + n + p + len(model.load_columns))
        q, v = state[:n], state[n:]
        h, rest = constants[0], ca.vertsplit(constants[1:], [0, n, n + p, constants.shape[0] - 1])
        start, qd1, a1, c1 = stage(q, v, tau[:, 0], *rest)
        _, qd2, a2, c2 = stage(start + h / 2 * qd1, v + h / 2 * a1, tau[:, 1], *rest)
        _, qd3, a3, c3 = stage(start + h / 2 * qd2, v + h / 2 * a2, tau[:, 1], *rest)
        _, qd4, a4, c4 = stage(start + h * qd3, v + h * a3, tau[:, 2], *rest)
        q_end = start + h / 6 * (qd1 + 2 * qd2 + 2 * qd3 + qd4)
        v_end = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        check = ca.fmax(ca.fmax(c1, c2), ca.fmax(c3, c4))
        return ca.Function("runge_kutta", [state, tau, constants],
                           [ca.densify(ca.vertcat(start, a1, q_end, v_end, check))])

    return model.kinematics.kernel(("runge_kutta",), build)


def closing_kernel(model: Model) -> Kernel:
    """Return the kernel (q, v, a) -> q with the loops closed by one Newton step, qd, qdd (n), check.

    v and a are velocities and accelerations of the actuated coordinates (of the independent ones among them if there
    are more motors than degrees of freedom), whose entries of q are kept.
    """
    def build() -> ca.Function:
        q, v, a, _ = model._symbols()
        closure = closure_expressions(model.loops, "actuated", q)
        at = ca.Function("at", [q, v, a], [*closure.rates(v, a), closure.check])
        closed = q + closure.newton_step()
        return ca.Function("closing", [q, v, a], [ca.densify(x) for x in (closed, *at(closed, v, a))])

    return model.kinematics.kernel(("closing",), build)


def _stage(model: Model) -> ca.Function:
    """Return (q, v, tau, band, chi, load) -> closed q, qd, acceleration of the rows, check."""
    n, m = len(model.mechanism.joints), model.degrees_of_freedom
    q, v, a = ca.SX.sym("q", n), ca.SX.sym("v", m), ca.SX.sym("a", m)
    band, chi = ca.SX.sym("band", n), ca.SX.sym("chi", len(model.mechanism.standard))
    load = ca.SX.sym("load", len(model.load_columns))
    tau = ca.SX.sym("tau", len(model.actuated))
    closure = closure_expressions(model.loops, model.loops.dynamic, q)
    qd, qdd = closure.rates(v, a)
    tree = TreeEfforts(model.mechanism, q, qd, qdd, band)
    rows = model.generalised_efforts(tree, closure.closure_map, chi, load)
    mass = ca.densify(ca.jacobian(rows, a))
    applied = closure.closure_map[list(model.actuated), :].T @ tau
    acceleration = cholesky_solve(mass, applied - ca.substitute(rows, a, ca.SX.zeros(m)))
    inputs = [q, v, tau, band, chi, load]
    at = ca.Function("at", inputs, [qd, acceleration, closure.check])
    closed = q + closure.newton_step()
    return ca.Function("stage", inputs, [closed, *at(closed, *inputs[1:])])


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
