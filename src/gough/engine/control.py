"""Control laws as kernels: one sample of the controller with its drives at their limits, for robots that are not
redundant, whose motors are the rows of the dynamics.

A kernel of this kind maps

    state [q, v, lags, tau] (n + x + 2a), memory (s + a), reference (r), constants [ratio, limit, ...] (2a + c)

to the state with tau = min(max(ratio * law, -limit), limit), and the memory. The last a entries of the memory say which
motors were free, that is not at their limit: integrators of the others stand still.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca

from gough.engine.loops import closure_expressions
from gough.engine.model import Model
from gough.kernels.kernel import compiled

Law = Callable[..., tuple[ca.SX, ca.SX]]
"""(position, velocity, free, memory, reference, constants) -> efforts asked for, memory."""


@compiled
def pid_kernel(model: Model) -> ca.Function:
    """Return the kernel of a PID: memory [integral], reference [q, qd, feed], constants [kp, ki T, kd], (a) each."""
    a = len(model.actuated)

    def law(position: ca.SX, velocity: ca.SX, free: ca.SX, integral: ca.SX, reference: ca.SX,
            gains: ca.SX) -> tuple[ca.SX, ca.SX]:
        error = reference[:a] - position
        integral = integral + gains[a:2 * a] * error * free
        rate = reference[a:2 * a] - velocity
        return reference[2 * a:] + gains[:a] * error + integral + gains[2 * a:] * rate, integral

    return _in_loop(model, "pid", law, (a, 3 * a, 3 * a))


@compiled
def computed_torque_kernel(model: Model) -> ca.Function:
    """Return the kernel of computed torque.

    Memory [q, qd, integral, held] (2n + 2a), the latter an effort added throughout; reference [q, qd and means of qd
    and qdd over the period] (4a); constants [period, bandwidth, band, chi, load] (2 + n + p + 10 l).
    """
    a, n, p = len(model.actuated), len(model.mechanism.joints), len(model.mechanism.standard)

    def law(position: ca.SX, velocity: ca.SX, free: ca.SX, memory: ca.SX, reference: ca.SX,
            constants: ca.SX) -> tuple[ca.SX, ca.SX]:
        period, w, rest = constants[0], constants[1], constants[2:]
        error, rate = reference[:a] - position, reference[a:2 * a] - velocity
        speed, thrust = reference[2 * a:3 * a], reference[3 * a:]
        integral = memory[2 * n:2 * n + a] + period * error * free
        wanted = thrust + 3 * w * rate + 3 * w**2 * error + w**3 * integral
        guess = memory[:n] + period * memory[n:2 * n]
        guess[model.actuated] = position
        q = ca.SX.sym("q", n)
        closing = ca.Function("closing", [q], [q + closure_expressions(model.loops, "actuated", q).newton_step()])
        symbols, efforts, closure = model.inverse_expressions()
        qd = ca.Function("qd", symbols[:2], [ca.densify(closure.closure_map @ symbols[1])])
        inverse = ca.Function("inverse", symbols, [efforts])
        closed = closing(guess)
        tau = inverse(closed, speed, wanted, rest[:n], rest[n:n + p], rest[n + p:]) + memory[2 * n + a:]
        return tau, ca.vertcat(closed, qd(closed, speed), integral, memory[2 * n + a:])

    return _in_loop(model, "computed_torque", law, (2 * n + 2 * a, 4 * a, 2 + n + p + len(model.load_columns)))


def _in_loop(model: Model, name: str, law: Law, sizes: tuple[int, int, int]) -> ca.Function:
    """Return the graph of a law with memory, reference and constants of some sizes."""
    n, a = len(model.mechanism.joints), len(model.actuated)
    state = ca.SX.sym("state", n + len(model.mechanism.memories) + 2 * a)
    memory = ca.SX.sym("memory", sizes[0] + a)
    reference, constants = ca.SX.sym("reference", sizes[1]), ca.SX.sym("constants", 2 * a + sizes[2])
    q, v, ratio, limit = state[:n], state[n:n + a], constants[:a], constants[a:2 * a]
    efforts, kept = law(q[model.actuated], v, memory[-a:], memory[:-a], reference, constants[2 * a:])
    wanted = ratio * efforts
    command = ca.fmin(ca.fmax(wanted, -limit), limit)
    return ca.Function(name, [state, memory, reference, constants], [
        ca.densify(ca.vertcat(state[:-a], command)), ca.densify(ca.vertcat(kept, command == wanted))])
