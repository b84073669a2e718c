"""Time steps of the closed chain: what the virtual robot, and a real controller in C, call
thousands of times a second.

The state is the configuration q of all coordinates and the velocity v of the rows. Loops are kept
closed by a Newton step on the dependent coordinates at every evaluation: predicted over a step h
they are open by about h^2 a / 2 (1e-6 m at 0.5 ms), and Newton's method squares that.

Control laws as kernels: one sample of the controller with its drives at their limits, for robots
that are not redundant, whose motors are the rows of the dynamics.

A kernel of this kind maps

    state [q, v, lags, tau] (n + x + 2a), memory (s + a), reference (r), constants [ratio, limit,
    ...] (2a + c)

to the state with tau = min(max(ratio * law, -limit), limit), and the memory. The last a entries of
the memory say which motors were free, that is not at their limit: integrators of the others stand
still.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.engine.elimination import cholesky_solve
from gough.engine.loops import LoopExpressions, Loops
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts
from gough.kernels.kernel import compiled
from gough.mechanism.terms import JointState


@compiled
def pid_kernel(model: Model, lanes: int | None = None) -> ca.Function:
    """Return the kernel of a PID: memory [integral], reference [q, qd, feed], constants [kp, ki T,
    kd], (a) each.
    """
    a = len(model.actuated)
    integral = ca.SX.sym("integral", a)
    (position, speed, feed), (kp, ki, kd) = (
        _symbols(name, a, a, a) for name in ("reference", "gains")
    )

    def law(q: ca.SX, qd: ca.SX, free: ca.SX) -> tuple[ca.SX, ca.SX]:
        error = position - q
        total = integral + ki * error * free
        return feed + kp * error + total + kd * (speed - qd), total

    return _in_loop(model, "pid", law, [integral], [position, speed, feed], [kp, ki, kd])


@compiled
def computed_torque_kernel(model: Model, lanes: int | None = None) -> ca.Function:
    """Return the kernel of computed torque.

    Memory [q, qd, integral, held] (2n + 2a), the latter an effort added throughout; reference [q,
    qd and means of qd and qdd over the period] (4a); constants [period, bandwidth, band, chi, load]
    (2 + n + p + 10 l).
    """
    a, n = len(model.actuated), len(model.mechanism.joints)
    memory, reference = _symbols("memory", n, n, a, a), _symbols("reference", a, a, a, a)
    period, w = _symbols("constants", 1, 1)
    symbols, efforts, chain = model.inverse_expressions()

    def law(q: ca.SX, qd: ca.SX, free: ca.SX) -> tuple[ca.SX, ca.SX]:
        error, rate = reference[0] - q, reference[1] - qd
        integral = memory[2] + period * error * free
        wanted = reference[3] + 3 * w * rate + 3 * w**2 * error + w**3 * integral
        guess = memory[0] + period * memory[1]
        guess[model.actuated] = q
        place = ca.SX.sym("q", n)
        closing = ca.Function(
            "closing",
            [place],
            [place + LoopExpressions(model.loops, "actuated", place).newton_step()],
        )
        at = ca.Function("at", symbols, [ca.densify(chain.closure_map @ symbols[1]), efforts])
        closed = closing(guess)
        speeds, tau = at(closed, reference[2], wanted, *symbols[3:])
        return tau + memory[3], ca.vertcat(closed, speeds, integral, memory[3])

    return _in_loop(model, "computed_torque", law, memory, reference, [period, w, *symbols[3:]])


def _symbols(name: str, *sizes: int) -> list[ca.SX]:
    return [ca.SX.sym(name, size) for size in sizes]


def _in_loop(
    model: Model,
    name: str,
    law: Callable[[ca.SX, ca.SX, ca.SX], tuple[ca.SX, ca.SX]],
    memory: list[ca.SX],
    reference: list[ca.SX],
    constants: list[ca.SX],
) -> ca.Function:
    """Return the graph of a law: position, velocity, who is free -> efforts asked for, memory."""
    a = len(model.actuated)
    state, rest, v, tau = _symbols(
        "state", len(model.mechanism.joints), len(model.mechanism.internal_states), a, a
    )
    free, ratio, limit = _symbols("drive", a, a, a)
    efforts, kept = law(state[model.actuated], v, free)
    wanted = ratio * efforts
    command = ca.fmin(ca.fmax(wanted, -limit), limit)
    inputs = [state, v, rest, tau], [*memory, free], reference, [ratio, limit, *constants]
    return ca.Function(
        name,
        [ca.vertcat(*each) for each in inputs],
        [
            ca.densify(ca.vertcat(state, v, rest, command)),
            ca.densify(ca.vertcat(kept, command == wanted)),
        ],
    )


@compiled
def runge_kutta_kernel(model: Model) -> ca.Function:
    """Return the kernel of one classical Runge-Kutta step of the closed chain under given motor
    efforts.

        qd = E(q) v,   M(q) vd = E_act^T tau - b(q, v, w),   phi(q) = 0 after each prediction by one
        Newton step wd = rate (x - w)  for the lags w of joint terms, if there are any; recorded
        channels are as usual

    Few arrays, because a call costs as much for each of them as for a hundred operations. Inputs:
    state [q, v, w] (n + m + x); tau (a, 3) at the start, middle and end of the step; constants [h,
    band, chi, load] (1 + n + p + 10 l).
    Output: [q, a, q_end, v_end, w_end, check] (2n + 2m + x + 1): q with the loops closed and the
    rows' acceleration at the start, the state at the end with q not yet closed, and the check at
    the start (see `LoopExpressions`): the stages are near it, and a tenth of the operations
    would be checks.
    """
    tau = ca.SX.sym("tau", len(model.actuated), 3)
    state, constants, start, end = _runge_kutta(model, tau)
    return ca.Function(
        "runge_kutta", [state, tau, constants], [ca.densify(ca.vertcat(*start[:2], *end, start[2]))]
    )


@compiled
def held_step_kernel(model: Model, lanes: int | None = None) -> ca.Function:
    """Return the same step with efforts that are held, as part of the state: what a compiled
    control loop calls.

    Inputs: state [q, v, w, tau] (n + m + x + a); constants [h, band, chi, load]. Outputs: the state
    at the end, tau handed on; and [q, a, check] (n + m + 1) at the start.
    """
    tau = ca.SX.sym("tau", len(model.actuated))
    state, constants, start, end = _runge_kutta(model, ca.horzcat(tau, tau, tau))
    return ca.Function(
        "held_step",
        [ca.vertcat(state, tau), constants],
        [ca.densify(ca.vertcat(*end, tau)), ca.densify(ca.vertcat(*start))],
    )


def _runge_kutta(
    model: Model, tau: ca.SX
) -> tuple[ca.SX, ca.SX, tuple[ca.SX, ...], tuple[ca.SX, ...]]:
    """Return state, constants, what is at the start (q, acceleration of the rows, check) and at the
    end (q, [v, w]).
    """
    stage = _stage(model)
    q, v, _, *rest = stage.sx_in()  # v: velocities, then lags
    h = ca.SX.sym("h")
    start, qd1, a1, check = stage(q, v, tau[:, 0], *rest)
    _, qd2, a2, _ = stage(start + h / 2 * qd1, v + h / 2 * a1, tau[:, 1], *rest)
    _, qd3, a3, _ = stage(start + h / 2 * qd2, v + h / 2 * a2, tau[:, 1], *rest)
    _, qd4, a4, _ = stage(start + h * qd3, v + h * a3, tau[:, 2], *rest)
    q_end = start + h / 6 * (qd1 + 2 * qd2 + 2 * qd3 + qd4)
    v_end = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    acceleration = a1[: model.degrees_of_freedom]
    return ca.vertcat(q, v), ca.vertcat(h, *rest), (start, acceleration, check), (q_end, v_end)


@compiled
def closing_kernel(model: Model) -> ca.Function:
    """Return the kernel (q, v, a) -> q with the loops closed by one Newton step, qd, qdd (n),
    check.

    v and a are velocities and accelerations of the actuated coordinates (of the independent ones
    among them if there are more motors than degrees of freedom), whose entries of q are kept.
    """
    m = model.degrees_of_freedom
    q, v, a = ca.SX.sym("q", len(model.mechanism.joints)), ca.SX.sym("v", m), ca.SX.sym("a", m)
    closure = LoopExpressions(model.loops, "actuated", q)
    at = ca.Function("at", [q, v, a], [*closure.rates(v, a), closure.check])
    closed = q + closure.newton_step()
    return ca.Function("closing", [q, v, a], [ca.densify(x) for x in (closed, *at(closed, v, a))])


def _stage(model: Model) -> ca.Function:
    """Return (q, [v, w], tau, band, chi, load) -> closed q, qd, [acceleration of the rows, rate of
    the lags], check.
    """
    n, m, mechanism = len(model.mechanism.joints), model.degrees_of_freedom, model.mechanism
    q, v, qdd, w, band = _symbols("state", n, m, n, len(mechanism.internal_states), n)
    chi, load, tau = _symbols(
        "given", len(mechanism.standard), len(model.load_columns), len(model.actuated)
    )
    closure = LoopExpressions(model.loops, model.loops.dynamic, q)
    qd, extra = closure.rates(v, ca.SX.zeros(m))
    usual = ca.SX(ca.DM(list(mechanism.channels.values())))
    tree = TreeEfforts(mechanism, q, qd, qdd, ca.vertcat(band, w, usual))
    applied = closure.closure_map[model.actuated, :].T @ tau
    rows = model.generalised_efforts(tree, closure.closure_map, chi, load, applied)
    followed, rates = tree.state_derivatives()
    mass = model.mass_expressions(tree, closure.closure_map, chi, load)
    acceleration = cholesky_solve(mass, applied - ca.substitute(rows, qdd, extra))
    inputs = [q, ca.vertcat(v, w), tau, band, chi, load]
    at = ca.Function(
        "at", inputs, [qd, ca.vertcat(acceleration, rates * (followed - w)), closure.check]
    )
    closed = q + closure.newton_step()
    return ca.Function("stage", inputs, [closed, *at(closed, *inputs[1:])])


def controller_graphs(
    model: Model, values: FloatArray, load: FloatArray, dead_band: FloatArray
) -> tuple[ca.Function, ca.Function]:
    """Return `newton` (q -> step, sizes) and `efforts` (q, qd_act, qdd_act, past -> motor efforts,
    past).

    Past are lags, what they follow and the positions of their joints at the last call, (3 x,); then
    come the time since (negative: there was no such call, lags have settled) and recorded channels.
    It is empty for terms without memory.

    The sizes are those of the closure residual and of the step, see `_sizes`. Standard parameters
    (p,), load and dead bands (n,) are constants of the graph; those that are zero cost nothing.
    Redundant robots get the smallest efforts.
    """
    part = model.loops.partitions["actuated"]
    q = ca.SX.sym("q", len(model.mechanism.joints))
    closure = LoopExpressions(model.loops, "actuated", q)
    step = closure.newton_step()
    newton = ca.Function("newton", [q], [ca.densify(step), _sizes(model.loops, closure, step)])
    a = len(model.actuated)
    speed, acceleration = ca.SX.sym("v", a), ca.SX.sym("a", a)
    own = [model.actuated.index(i) for i in part.independent]
    qd, qdd = closure.rates(speed[own], acceleration[own])
    mechanism, band = model.mechanism, ca.SX(ca.DM(dead_band))
    x, none = len(mechanism.internal_states), not model.n_state_inputs
    past = ca.SX.sym("past", 0 if none else 3 * x + 1 + len(mechanism.channels))
    lag, followed, position = past[:x], past[x : 2 * x], past[2 * x : 3 * x]
    now, _ = TreeEfforts(mechanism, q, qd, qdd, band).state_derivatives()
    here = q[[memory.joint for memory in mechanism.internal_states]]
    if x:
        since, new = past[3 * x], past[3 * x] < 0
        still = JointState(q=0.0, qd=0.0, qdd=0.0, sign=0.0, math=np)
        ways = []
        for k, memory in enumerate(mechanism.internal_states):
            term = mechanism.terms[memory.term]
            node = term.lags[memory.lag]
            gone = ca.fabs(here[k] - position[k]) if term.lag_is_distance(node) else since
            ways.append(gone / float(term.value(still, node.operands[1])))
        way = ca.vertcat(*ways)
        keep = ca.exp(-ca.fmax(way, 0.0))
        lag = new * now + (1 - new) * (keep * lag + (1 - keep) * (followed + now) / 2)
    tree = TreeEfforts(
        mechanism, q, qd, qdd, band if none else ca.vertcat(band, lag, past[3 * x + 1 :])
    )
    rows = model.generalised_efforts(
        tree, closure.closure_map, ca.SX(ca.DM(values)), ca.SX(ca.DM(load))
    )
    act = closure.closure_map[model.actuated, :]
    efforts = act @ cholesky_solve(act.T @ act, rows)
    if none:
        return newton, ca.Function("efforts", [q, speed, acceleration], [ca.densify(efforts)])
    after = ca.densify(ca.vertcat(lag, now, here))
    return newton, ca.Function(
        "efforts", [q, speed, acceleration, past], [ca.densify(efforts), after]
    )


def _sizes(loops: Loops, closure: LoopExpressions, step: ca.SX) -> ca.SX:
    """Return the sizes of residual and step as fractions of the robot.

    With s_r and u_i one for angles and the characteristic length for lengths,

        |phi| = sqrt(sum_r (phi_r / s_r)^2),    |dq| = sqrt(sum_i (dq_i / u_i)^2)

    where i are the coordinates in closures that are not linear: a rotor behind a gear turns far and
    bends no branch.
    """
    if not closure.partition.dependent:
        return ca.SX.zeros(2)
    bent = [i for i in loops.loop_coordinates if i in closure.partition.dependent]
    return ca.vertcat(
        ca.sqrt(ca.sumsqr(closure.residual * ca.DM(loops.weights))),
        ca.sqrt(ca.sumsqr(step[bent] / ca.DM(loops.units[bent]))),
    )
