"""Time steps of the closed chain, for the virtual robot and for controllers in C.

The state is the configuration q of all coordinates and the velocity v
of the rows. Loops are kept closed by a Newton step on the dependent
coordinates at every evaluation: predicted over a step h they are open
by about h^2 a / 2 (1e-6 m at 0.5 ms), and Newton's method squares that.

Control laws are kernels of one sample of the controller with its drives
at their limits, for robots that are not redundant, whose motors are the
rows of the dynamics. Such a kernel maps

    state [q, v, lags, tau] (n + x + 2a), memory (s + a), reference (r),
    constants [ratio, limit, ...] (2a + c)

to the state with tau = min(max(ratio * law, -limit), limit), and the
memory. The last a entries of the memory are 1 for motors below their
limit; integrators of the others stop.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.engine.coulomb import CoulombJoints
from gough.engine.elimination import cholesky_solve
from gough.engine.loops import LoopExpressions, Loops
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts
from gough.kernels.kernel import compiled
from gough.mechanism.terms import JointState


@compiled
def pid_kernel(model: Model, lanes: int | None = None) -> ca.Function:
    """Return the kernel of a PID controller.

    Memory [integral], reference [q, qd, feedforward], constants [kp, ki
    T, kd], (a,) each.
    """
    a = len(model.actuated)
    integral = ca.SX.sym("integral", a)
    position, velocity, feedforward = _symbols("reference", a, a, a)
    kp, ki, kd = _symbols("gains", a, a, a)

    def law(q: ca.SX, qd: ca.SX, unsaturated: ca.SX) -> tuple[ca.SX, ca.SX]:
        error = position - q
        total = integral + ki * error * unsaturated
        return feedforward + kp * error + total + kd * (velocity - qd), total

    reference = [position, velocity, feedforward]
    return _in_loop(model, "pid", law, [integral], reference, [kp, ki, kd])


@compiled
def computed_torque_kernel(model: Model, lanes: int | None = None) -> ca.Function:
    """Return the kernel of computed torque.

    Memory [q, qd, integral, constant effort] (2n + 2a), the latter
    added to every command; reference [q, qd and means of qd and qdd
    over the period] (4a); constants [period, bandwidth, band, chi,
    load] (2 + n + p + 10 l).
    """
    a = len(model.actuated)
    n = len(model.mechanism.joints)
    memory = _symbols("memory", n, n, a, a)
    reference = _symbols("reference", a, a, a, a)
    period, w = _symbols("constants", 1, 1)
    symbols, efforts, chain = model.inverse_expressions()

    def law(q: ca.SX, qd: ca.SX, unsaturated: ca.SX) -> tuple[ca.SX, ca.SX]:
        last_q, last_qd, last_integral, constant_effort = memory
        position, velocity, mean_velocity, mean_acceleration = reference
        error = position - q
        error_rate = velocity - qd
        integral = last_integral + period * error * unsaturated
        acceleration = mean_acceleration + 3 * w * error_rate + 3 * w**2 * error + w**3 * integral
        guess = last_q + period * last_qd
        guess[model.actuated] = q
        any_q = ca.SX.sym("q", n)
        newton_step = LoopExpressions(model.loops, "actuated", any_q).newton_step()
        closing = ca.Function("closing", [any_q], [any_q + newton_step])
        all_velocities = ca.densify(chain.closure_map @ symbols[1])
        inverse_dynamics = ca.Function("at", symbols, [all_velocities, efforts])
        closed = closing(guess)
        qd_all, tau = inverse_dynamics(closed, mean_velocity, acceleration, *symbols[3:])
        next_memory = ca.vertcat(closed, qd_all, integral, constant_effort)
        return tau + constant_effort, next_memory

    return _in_loop(
        model,
        "computed_torque",
        law,
        memory,
        reference,
        [period, w, *symbols[3:]],
    )


def _symbols(name: str, *sizes: int) -> list[ca.SX]:
    """Return column vectors of symbols of some lengths."""
    return [ca.SX.sym(name, size) for size in sizes]


def _in_loop(
    model: Model,
    name: str,
    law: Callable[[ca.SX, ca.SX, ca.SX], tuple[ca.SX, ca.SX]],
    memory: list[ca.SX],
    reference: list[ca.SX],
    constants: list[ca.SX],
) -> ca.Function:
    """Return the graph of a control law with saturated drives; see the module docstring.

    Args:
        law: Maps positions, velocities and which motors are
            unsaturated, (a,) each, to the efforts (a,) and the next
            memory.
        memory, reference, constants: Symbols of the law.
    """
    a = len(model.actuated)
    n_states = len(model.mechanism.internal_states)
    q, lags, v, tau = _symbols("state", len(model.mechanism.joints), n_states, a, a)
    unsaturated, ratio, limit = _symbols("drive", a, a, a)
    efforts, next_memory = law(q[model.actuated], v, unsaturated)
    unlimited = ratio * efforts
    command = ca.fmin(ca.fmax(unlimited, -limit), limit)
    inputs = [
        ca.vertcat(q, v, lags, tau),
        ca.vertcat(*memory, unsaturated),
        ca.vertcat(*reference),
        ca.vertcat(ratio, limit, *constants),
    ]
    next_state = ca.vertcat(q, v, lags, command)
    next_memory = ca.vertcat(next_memory, command == unlimited)
    return ca.Function(name, inputs, [ca.densify(next_state), ca.densify(next_memory)])


@compiled
def runge_kutta_kernel(model: Model) -> ca.Function:
    """Return the kernel of one classical Runge-Kutta step of the closed chain.

        qd = E(q) v,    M(q) vd = E_act^T tau - b(q, v, w),    wd = rate (x - w)

    One Newton step closes the loops, phi(q) = 0, after each prediction.
    w are the lags of joint terms; recorded channels have their default
    values.

    The kernel has few arrays, because each of them costs as much in a
    call as a hundred operations.

    Inputs: state [q, v, w] (n + m + x); tau (a, 3) at the start, middle
    and end of the step; constants [h, band, chi, load] (1 + n + p +
    10 l).

    Output: [q, a, q_end, v_end, w_end, check] (2n + 2m + x + 1): q with
    the loops closed and the rows' acceleration at the start, the state
    at the end with q not yet closed, and the check at the start (see
    `LoopExpressions`): the stages are near it, and a tenth of the
    operations would be checks.
    """
    tau = ca.SX.sym("tau", len(model.actuated), 3)
    state, constants, start, end = _runge_kutta(model, tau)
    return ca.Function(
        "runge_kutta",
        [state, tau, constants],
        [ca.densify(ca.vertcat(*start[:2], *end, start[2]))],
    )


@compiled
def held_step_kernel(model: Model, lanes: int | None = None) -> ca.Function:
    """Return the kernel of the same step with constant efforts, for compiled control loops.

    Inputs: state [q, v, w, tau] (n + m + x + a); constants [h, band,
    chi, load]. Outputs: the state at the end, with the same tau; and
    [q, a, check] (n + m + 1) at the start.
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
    """Return state, constants, start (q, acceleration, check) and end (q, [v, w]) of a step.

    Args:
        tau: Motor efforts at the start, middle and end of the step, (a,
            3).
    """
    dynamics = _StageDynamics(model)
    stage = dynamics.stage()
    q, v, _, band, chi, load = dynamics.inputs  # v: velocities, then lags
    given = (band, chi, load)
    h = ca.SX.sym("h")
    mean_tau = tau[:, 0] + ((tau[:, 2] - tau[:, 0]) + 4 * (tau[:, 1] - tau[:, 0])) / 6
    start, acceleration, sign, check = dynamics.sample()(q, v, tau[:, 0], *given, mean_tau, h)
    _, qd1, a1 = stage(q, v, tau[:, 0], *given, sign)
    _, qd2, a2 = stage(start + h / 2 * qd1, v + h / 2 * a1, tau[:, 1], *given, sign)
    _, qd3, a3 = stage(start + h / 2 * qd2, v + h / 2 * a2, tau[:, 1], *given, sign)
    _, qd4, a4 = stage(start + h * qd3, v + h * a3, tau[:, 2], *given, sign)
    q_end = start + h / 6 * (qd1 + 2 * qd2 + 2 * qd3 + qd4)
    v_end = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return (
        ca.vertcat(q, v),
        ca.vertcat(h, *given),
        (start, acceleration, check),
        (q_end, v_end),
    )


@compiled
def closing_kernel(model: Model) -> ca.Function:
    """Return the kernel (q, v, a) -> closed q, qd, qdd (n,), check.

    One Newton step closes the loops. v and a are velocities and
    accelerations of the actuated coordinates (of the independent ones
    among them if there are more motors than degrees of freedom), whose
    entries of q stay.
    """
    m = model.degrees_of_freedom
    q = ca.SX.sym("q", len(model.mechanism.joints))
    v = ca.SX.sym("v", m)
    a = ca.SX.sym("a", m)
    closure = LoopExpressions(model.loops, "actuated", q)
    rates = ca.Function("at", [q, v, a], [*closure.rates(v, a), closure.check])
    closed = q + closure.newton_step()
    outputs = [closed, *rates(closed, v, a)]
    return ca.Function("closing", [q, v, a], [ca.densify(output) for output in outputs])


class _StageDynamics:
    """The closed chain as expressions of q, [v, w], tau, band, chi, load and held signs.

    v are velocities of the rows, w lags. The held signs are those of
    joints with Coulomb friction; see `coulomb`.

    Attributes:
        inputs: Symbols of all but the held signs.
    """

    def __init__(self, model: Model) -> None:
        mechanism = model.mechanism
        n = len(mechanism.joints)
        m = model.degrees_of_freedom
        q, v, qdd, w, band = _symbols("state", n, m, n, len(mechanism.internal_states), n)
        chi = ca.SX.sym("given", len(mechanism.standard))
        load = ca.SX.sym("given", len(model.load_columns))
        tau = ca.SX.sym("given", len(model.actuated))
        self.inputs = [q, ca.vertcat(v, w), tau, band, chi, load]
        self._closure = LoopExpressions(model.loops, model.loops.dynamic, q)
        closure_map = self._closure.closure_map
        self._qd, self._bias_acceleration = self._closure.rates(v, ca.SX.zeros(m))
        channels = ca.SX(ca.DM(list(mechanism.channels.values())))
        context = ca.vertcat(band, w, channels)
        self._sign = ca.SX.sym("sign", n)
        tree = TreeEfforts(mechanism, q, self._qd, qdd, context, sign=self._sign)
        self._sign_now = TreeEfforts(mechanism, q, self._qd, qdd, context).sign
        self._applied = closure_map[model.actuated, :].T
        applied = self._applied @ tau
        rows = model.generalised_efforts(tree, closure_map, chi, load, applied)
        efforts = tree.total(model.parameter_lookup(chi, load))
        friction = ca.jacobian(efforts, self._sign)
        self._coulomb_joints = [i for i in range(n) if friction[i, i].nnz()]
        self._friction = ca.fmax(ca.diag(friction)[self._coulomb_joints], 0.0)
        self._force = applied - ca.substitute(rows, qdd, self._bias_acceleration)
        self._mass = model.mass_expressions(tree, closure_map, chi, load)
        followed, rates = tree.state_derivatives()
        self._lag_rates = rates * (followed - w)

    def stage(self) -> ca.Function:
        """Return (inputs, held signs) -> closed q, qd, [vd, wd]."""
        held = ca.SX.sym("held", len(self._coulomb_joints))
        acceleration = cholesky_solve(self._mass, self._force)
        derivative = ca.vertcat(acceleration, self._lag_rates)
        sign = ca.SX(self._sign_now)
        sign[self._coulomb_joints] = held
        outputs = ca.substitute([self._qd, derivative], [self._sign], [sign])
        inputs = [*self.inputs, held]
        return self._at_closed_loops("stage", inputs, outputs)

    def sample(self) -> ca.Function:
        """Return (inputs, mean tau, h) -> closed q, vd, signs to hold over the step, check.

        The acceleration is that at the start, with the signs of the
        velocities there.
        """
        mean_tau = ca.SX.sym("mean_tau", self.inputs[2].shape[0])
        h = ca.SX.sym("h")
        force, friction = ca.substitute(
            [self._force, self._friction], [self._sign], [self._sign_now]
        )
        acceleration = cholesky_solve(self._mass, force)
        joints = CoulombJoints(
            closure_map=self._closure.closure_map[self._coulomb_joints, :],
            bias_acceleration=self._bias_acceleration[self._coulomb_joints],
            velocity=self._qd[self._coulomb_joints],
            band=self.inputs[3][self._coulomb_joints],
            friction=friction,
            sign=self._sign_now[self._coulomb_joints],
        )
        mean_force = force + self._applied @ (mean_tau - self.inputs[2])
        held = ca.SX(0, 1)
        if self._coulomb_joints:
            held = joints.held_sign(self._mass, mean_force, h)
        inputs = [*self.inputs, mean_tau, h]
        outputs = [acceleration, held, self._closure.check]
        return self._at_closed_loops("sample", inputs, outputs)

    def _at_closed_loops(self, name: str, inputs: list[ca.SX], outputs: list[ca.SX]) -> ca.Function:
        """Return a function of inputs that closes the loops of q first and returns it, too."""
        at_q = ca.Function("at", inputs, outputs)
        q = inputs[0]
        closed = q + self._closure.newton_step()
        return ca.Function(name, inputs, [closed, *at_q.call([closed, *inputs[1:]])])


def controller_graphs(
    model: Model, values: FloatArray, load: FloatArray, dead_band: FloatArray
) -> tuple[ca.Function, ca.Function]:
    """Return the graphs of a feedforward controller, `newton` and `efforts`.

    `newton` maps q to a Newton step and the norms of residual and step,
    see `_norms`. `efforts` maps q, qd_act, qdd_act and past to motor
    efforts and the next past; those of least norm if the robot is
    redundant. The past consists of lags, the signals they follow and
    the positions of their joints at the last call, (3 x,), then the
    time since (negative: there was no such call, lags have settled) and
    recorded channels. Robots without these have no past.

    Args:
        values: Standard parameters, (p,); constants of the graph, zeros
            cost nothing.
        load: Load, (10 l,).
        dead_band: Dead bands, (n,).
    """
    mechanism = model.mechanism
    q = ca.SX.sym("q", len(mechanism.joints))
    closure = LoopExpressions(model.loops, "actuated", q)
    step = closure.newton_step()
    newton = ca.Function("newton", [q], [ca.densify(step), _norms(model.loops, closure, step)])
    a = len(model.actuated)
    velocity = ca.SX.sym("v", a)
    acceleration = ca.SX.sym("a", a)
    independent = model.loops.partitions["actuated"].independent
    columns = [model.actuated.index(i) for i in independent]
    qd, qdd = closure.rates(velocity[columns], acceleration[columns])
    context = ca.SX(ca.DM(dead_band))
    inputs = [q, velocity, acceleration]
    outputs: list[ca.SX] = []
    if model.n_state_inputs:
        n_states = len(mechanism.internal_states)
        past = ca.SX.sym("past", 3 * n_states + 1 + len(mechanism.channels))
        settled = TreeEfforts(mechanism, q, qd, qdd, context)
        followed, _ = settled.state_derivatives()
        position = q[[state.joint for state in mechanism.internal_states]]
        lags = _next_lags(model, past, followed, position) if n_states else past[:0]
        context = ca.vertcat(context, lags, past[3 * n_states + 1 :])
        inputs.append(past)
        outputs.append(ca.densify(ca.vertcat(lags, followed, position)))
    tree = TreeEfforts(mechanism, q, qd, qdd, context)
    chi = ca.SX(ca.DM(values))
    rows = model.generalised_efforts(tree, closure.closure_map, chi, ca.SX(ca.DM(load)))
    act = closure.closure_map[model.actuated, :]
    efforts = act @ cholesky_solve(act.T @ act, rows)
    return newton, ca.Function("efforts", inputs, [ca.densify(efforts), *outputs])


def _next_lags(model: Model, past: ca.SX, followed: ca.SX, position: ca.SX) -> ca.SX:
    """Return the lags at a call of the controller, (x,); see `internal_states`.

    Args:
        past: As in `controller_graphs`.
        followed: Signals that the lags follow now, (x,).
        position: Positions of their joints now, (x,).
    """
    mechanism = model.mechanism
    n_states = len(mechanism.internal_states)
    last_lags = past[:n_states]
    last_followed = past[n_states : 2 * n_states]
    last_position = past[2 * n_states : 3 * n_states]
    elapsed = past[3 * n_states]
    first_call = elapsed < 0
    constant_state = JointState(q=0.0, qd=0.0, qdd=0.0, sign=0.0, math=np)
    steps = []
    for k, state in enumerate(mechanism.internal_states):
        term = mechanism.terms[state.term]
        lag = term.lags[state.lag]
        path = elapsed
        if term.lag_is_distance(lag):
            path = ca.fabs(position[k] - last_position[k])
        length = float(term.value(constant_state, lag.operands[1]))
        steps.append(path / length)
    decay = ca.exp(-ca.fmax(ca.vertcat(*steps), 0.0))
    filtered = decay * last_lags + (1 - decay) * (last_followed + followed) / 2
    return first_call * followed + (1 - first_call) * filtered


def _norms(loops: Loops, closure: LoopExpressions, step: ca.SX) -> ca.SX:
    """Return the norms of residual and step as fractions of the robot, (2,).

    With s_r and u_i one for angles and the characteristic length for
    lengths,

        |phi| = sqrt(sum_r (phi_r / s_r)^2),    |dq| = sqrt(sum_i (dq_i / u_i)^2)

    where i are the loop coordinates: a rotor behind a gear turns far
    and deforms no loop.
    """
    if not closure.partition.dependent:
        return ca.SX.zeros(2)
    columns = [i for i in loops.loop_coordinates if i in closure.partition.dependent]
    residual = closure.residual * ca.DM(loops.weights)
    scaled_step = step[columns] / ca.DM(loops.units[columns])
    return ca.vertcat(ca.sqrt(ca.sumsqr(residual)), ca.sqrt(ca.sumsqr(scaled_step)))
