"""Exact derivatives of the regressor and of the robot's response, through the closed loops.

A motion is given by the coordinates of one partition P, q_P(t), with
velocities v and accelerations a; the closures give the others, q =
q(q_P) with dq = E_P dq_P. For an expression f(q, v, a) that holds on
closed loops,

    df/dq_P = (df/dq) E_P,  df/dv,  df/da.

The rows of the dynamics may belong to another partition than the
motion; both are written into one graph. For the design of motions the
sign of the velocity in Coulomb friction is tanh(qd / band), because the
true one has no derivative; `response` can also use the sign of
regressions, which is linear within the band.

Automatic differentiation of the eliminations would give a graph several
times as long, so derivatives of the motion and the efforts are written
out. With X = d qd / d q_P and Y = d qdd / d q_P, from the closures
differentiated,

    K_D X_D = -d(K qd)/dq E,
    K_D Y_D = -(dc/dq E + dc/dqd X),    c = K qdd + d(K qd)/dq qd,

d qdd / dv = 2 X, and the rest is E. With the tree efforts t(q, qd, qdd)
= K^T lambda + (the rows' efforts tau),

    d tau / dq_P = E_r^T ((dt/dq - d(K^T lambda)/dq) E + dt/dqd X + dt/dqdd Y),
    d tau / dv = E_r^T (dt/dqd E + 2 dt/dqdd X),    d tau / da = E_r^T dt/dqdd E,

E_r the closure map of the rows' coordinates: E_r^T K^T = 0, so the
change of lambda drops out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal, get_args

import casadi as ca
import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.engine.elimination import (
    cholesky_solve,
    choose_pivots,
    determinant,
    solve,
)
from gough.engine.loops import By, LoopExpressions
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts, body_transforms
from gough.kernels.kernel import compiled
from gough.mechanism.types import BASE

Quantity = Literal["position", "velocity", "acceleration", "effort", "row", "regularity"]
Output = tuple[Quantity, str]


class _Graph:
    """A motion in one partition, and what follows from it on closed loops, as expressions.

    Attributes:
        q: Symbols of all coordinates, (n,).
        v, a: Symbols of the independent velocities and accelerations,
            (m,).
        w, u: Symbols of the velocities and accelerations of all
            coordinates, (n,), for derivatives by them; see
            `_substitute_rates`.
        band: Symbols of the dead bands, (n,).
        qd, qdd: Velocities and accelerations of all coordinates as
            expressions of q, v, a.
        closure: Closed loops of the partition of the motion.
        dynamic: Closed loops of the partition of the rows.
        check: Error of the eliminations.
    """

    def __init__(self, model: Model, by: By, smooth: bool = True) -> None:
        loops = model.loops
        loops.partition_of(by)  # raises if there is none
        n = len(model.mechanism.joints)
        m = model.degrees_of_freedom
        self.model = model
        self.smooth = smooth
        self.q = ca.SX.sym("q", n)
        self.w = ca.SX.sym("w", n)
        self.u = ca.SX.sym("u", n)
        self.band = ca.SX.sym("band", n)
        self.v = ca.SX.sym("v", m)
        self.a = ca.SX.sym("a", m)
        self.closure = LoopExpressions(loops, by, self.q)
        self.dynamic = self.closure
        self.check = self.closure.check
        if by != loops.dynamic:
            self.dynamic = LoopExpressions(loops, loops.dynamic, self.q)
            self.check = ca.fmax(self.check, self.dynamic.check)
        self.qd, self.qdd = self.closure.rates(self.v, self.a)

    def regressor(self, names: tuple[str, ...]) -> tuple[ca.SX, ca.SX]:
        """Return the whitened regressor (m, p), and the symbols of the motor covariance Sigma.

        Whitened is L^-1 W with L L^T = E_act^T Sigma E_act.
        """
        model = self.model
        covariance = ca.SX.sym("covariance", len(model.actuated), len(model.actuated))
        tree = TreeEfforts(
            model.mechanism,
            self.q,
            self.qd,
            self.qdd,
            self.band,
            smooth=self.smooth,
        )
        rows = model.projected_columns(tree, self.dynamic.closure_map, names)
        act = self.dynamic.closure_map[model.actuated, :]
        return ca.densify(ca.solve(_cholesky(act.T @ covariance @ act), rows)), covariance

    @cached_property
    def tangents(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """E = dq/dq_P, X = d qd/dq_P and Y = d qdd/dq_P, each (n, m)."""
        E = self.closure.closure_map
        X = ca.SX(*E.shape)
        Y = ca.SX(*E.shape)
        partition = self.closure.partition
        D = partition.dependent
        if D:
            K = self.closure.jacobian[partition.rows, :]
            rate = K @ self.w
            X[D, :] = solve(K[:, D], -self._by_coordinates(rate) @ E, partition.pivots)
            c = K @ self.u + ca.jtimes(rate, self.q, self.w)
            by_velocity = self._substitute_rates(ca.jacobian(c, self.w))
            change = self._by_coordinates(c) @ E + by_velocity @ X
            Y[D, :] = solve(K[:, D], -change, partition.pivots)
        return E, X, Y

    def _substitute_rates(self, expression: ca.SX) -> ca.SX:
        """Return an expression with qd and qdd in place of their symbols w and u."""
        substituted: ca.SX = ca.substitute([expression], [self.w, self.u], [self.qd, self.qdd])[0]
        return substituted

    def _by_coordinates(self, expression: ca.SX) -> ca.SX:
        """Return the derivative of f(q, w, u) by q at the motion, (k, n)."""
        return self._substitute_rates(ca.jacobian(expression, self.q))

    def _by_motion(self, expression: ca.SX, constraint: ca.SX | None = None) -> ca.SX:
        """Return the derivative of f(q, w, u) by q_P, v and a, (k, 3m).

        Args:
            constraint: Subtracted from the derivative by q, (k, n).
        """
        by_q = self._by_coordinates(expression)
        by_w = self._substitute_rates(ca.jacobian(expression, self.w))
        by_u = self._substitute_rates(ca.jacobian(expression, self.u))
        if constraint is not None:
            by_q = by_q - constraint
        E, X, Y = self.tangents
        by_position = by_q @ E + by_w @ X + by_u @ Y
        by_velocity = by_w @ E + 2 * (by_u @ X)
        return ca.horzcat(by_position, by_velocity, by_u @ E)

    def efforts(self, chi: ca.SX, load: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return the efforts of the rows (m,) and their derivative by q_P, v, a, (m, 3m)."""
        model = self.model
        tree = TreeEfforts(
            model.mechanism,
            self.q,
            self.w,
            self.u,
            self.band,
            smooth=self.smooth,
        )
        parameter = model.parameter_lookup(chi, load)
        t = tree.total(parameter)
        tau = self._substitute_rates(t)
        constraint = None
        if self.dynamic.partition.dependent:
            constraint = self._constraint_derivative(tau)
        E_r = self.dynamic.closure_map
        rows = E_r.T @ tau
        slopes = E_r.T @ self._by_motion(t, constraint)
        for joint, row in model.transmitted.rows.items():
            u = ca.SX.sym("u")  # transmitted effort: the row without the friction of its joint
            tree.transmitted[joint] = u
            f = tree.friction(joint, parameter)
            by_motion = ca.substitute(self._by_motion(f), u, rows[row])
            by_effort = self._substitute_rates(ca.jacobian(f, u))
            by_effort = ca.substitute(by_effort, u, rows[row])
            friction = ca.substitute(self._substitute_rates(f), u, rows[row])
            slopes[row, :] += by_motion + by_effort * slopes[row, :]
            rows[row] += friction
        return rows, slopes

    def _constraint_derivative(self, tau: ca.SX) -> ca.SX:
        """Return d(K^T lambda)/dq, (n, n), with lambda from the tree efforts tau (n,)."""
        partition = self.dynamic.partition
        D = partition.dependent
        K = self.dynamic.jacobian[partition.rows, :]
        transposed_pivots = tuple((column, row) for row, column in partition.pivots)
        multipliers = solve(K[:, D].T, tau[D], transposed_pivots)
        symbols = ca.SX.sym("lambda", multipliers.shape[0])
        return ca.substitute(ca.jacobian(K.T @ symbols, self.q), symbols, multipliers)

    def motor_efforts(self, rows: ca.SX, derivative: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return the motor efforts of least norm (a,) and their derivative by q_P, v, a, (a, 3m).

        Args:
            rows: Efforts of the rows, (m,).
            derivative: Their derivative by q_P, v, a, (m, 3m).
        """
        m = rows.shape[0]
        symbols = ca.SX.sym("rows", m)
        act = self.dynamic.closure_map[self.model.actuated, :]
        motors = act @ cholesky_solve(act.T @ act, symbols)
        by_position = ca.jtimes(motors, self.q, self.closure.closure_map)
        by_position = ca.substitute(by_position, symbols, rows)
        by_map = ca.horzcat(by_position, ca.SX(act.shape[0], 2 * m))
        change = ca.jacobian(motors, symbols) @ derivative + by_map
        return ca.substitute(motors, symbols, rows), change

    def twist_norms(self) -> dict[str, tuple[ca.SX, ca.SX]]:
        """Return the norms of the platform's velocity and acceleration, and their derivatives.

        They are returned by quantity: norms of the linear and angular
        part (2,), and derivatives by q_P, v, a (2, 3m). A twist t has
        the rate dt/dqd qdd + dt/dq qd, and the norm |t| the derivative
        t^T dt / |t|; a tiny constant under the root makes it zero at
        rest.
        """
        pose = body_transforms(self.model.mechanism, self.q)[self.model.mechanism.platform or BASE]
        twist = pose.twist(self.q, self.w)
        twist_rate = ca.jtimes(twist, self.w, self.u) + ca.jtimes(twist, self.q, self.w)
        return {
            "velocity": self._norms(twist),
            "acceleration": self._norms(twist_rate),
        }

    def _norms(self, vector: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return the norms of the linear and angular part of a (6,) vector, and derivatives."""
        norms = []
        slopes = []
        for half in (vector[:3], vector[3:]):
            components = self._substitute_rates(half)
            norm = ca.sqrt(ca.sumsqr(components) + 1e-18)
            norms.append(norm)
            slopes.append(components.T @ self._by_motion(half) / norm)
        return ca.vertcat(*norms), ca.vertcat(*slopes)


@compiled
def smooth_regressor(model: Model, names: tuple[str, ...], by: By) -> ca.Function:
    """Return the kernel (q, v, a, band, covariance) -> whitened regressor (m, p), check.

    Its q is a closed configuration (n,), v and a are those of the
    partition `by`, (m,), band is the velocity scale of tanh (n,),
    covariance that of the motor efforts (a, a). The elimination of a
    sample is valid if its check is below
    `kinematics.ELIMINATION_TOLERANCE`.
    """
    graph = _Graph(model, by)
    W, covariance = graph.regressor(names)
    return ca.Function(
        "smooth_regressor",
        [graph.q, graph.v, graph.a, graph.band, covariance],
        [W, graph.check],
    )


@compiled
def regressor_adjoint(model: Model, names: tuple[str, ...], by: By) -> ca.Function:
    """Return the kernel (q, v, a, band, covariance, seed) -> gradients by q_P, v, a, each (m,).

    They are the gradients of sum(seed * regressor) with the regressor
    of `smooth_regressor` and a seed (m, p).
    """
    graph = _Graph(model, by)
    W, covariance = graph.regressor(names)
    seed = ca.SX.sym("seed", *W.shape)
    n = graph.q.shape[0]
    m = graph.v.shape[0]
    motion = ca.vertcat(graph.q, graph.v, graph.a)
    gradient = ca.jtimes(ca.vec(W), motion, ca.vec(seed), True)
    by_position = graph.closure.closure_map.T @ gradient[:n]
    by_velocity = gradient[n : n + m]
    by_acceleration = gradient[n + m :]
    return ca.Function(
        "regressor_adjoint",
        [graph.q, graph.v, graph.a, graph.band, covariance, seed],
        [
            ca.densify(by_position),
            ca.densify(by_velocity),
            ca.densify(by_acceleration),
        ],
    )


@compiled
def response(
    model: Model, outputs: tuple[Output, ...], by: By, *, smooth: bool = True
) -> ca.Function:
    """Return the kernel (q, v, a, band, chi, load) -> outputs, their derivatives, check.

    Outputs are (o,), their derivatives by (q_P, v, a) are (o, 3m). Chi
    are the standard parameters (p,) and load those of the payload, for
    the efforts.

    Args:
        outputs: Pairs (quantity, name): `position`, `velocity`,
            `acceleration` of a coordinate, `velocity`, `acceleration`
            of the platform as a whole (`twist_names`), `effort` of a
            motor, `row` effort of a joint equation, and (`regularity`,
            "") for the distance to singularities (see `_regularity`).
        by: Partition of v and a.
        smooth: Use tanh for the sign of velocities, as in a design;
            otherwise that of regressions, whose derivative at the edge
            of the band is the mean of both sides.
    """
    graph = _Graph(model, by, smooth)
    chi = ca.SX.sym("chi", len(model.mechanism.standard))
    load = ca.SX.sym("load", len(model.load_columns))
    table = _Responses()
    _add_motion(table, graph)
    names = {name for _, name in outputs}
    quantities = {quantity for quantity, _ in outputs}
    if names & set(twist_names(model)):
        for quantity, (norms, slopes) in graph.twist_norms().items():
            table.add(quantity, twist_names(model), norms, slopes)
    if quantities & {"effort", "row"}:
        rows, slopes = graph.efforts(chi, load)
        motors, motor_slopes = graph.motor_efforts(rows, slopes)
        table.add("row", model.rows, rows, slopes)
        table.add("effort", model.mechanism.actuated, motors, motor_slopes)
    if "regularity" in quantities:
        regularity = _regularity(graph)
        gradient = ca.jtimes(regularity, graph.q, ca.SX(1), True)
        E = graph.closure.closure_map
        slopes = ca.horzcat((E.T @ gradient).T, ca.SX(1, 2 * E.shape[1]))
        table.add("regularity", ("",), regularity, slopes)
    chosen = [table.get(model, quantity, name) for quantity, name in outputs]
    values = ca.vertcat(*[expression for expression, _ in chosen])
    derivatives = ca.vertcat(*[slope for _, slope in chosen])
    return ca.Function(
        "response",
        [graph.q, graph.v, graph.a, graph.band, chi, load],
        [ca.densify(values), ca.densify(derivatives), graph.check],
    )


class _Responses:
    """Expressions and their derivatives by quantity and name."""

    def __init__(self) -> None:
        self._by_quantity: dict[str, dict[str, tuple[ca.SX, ca.SX]]] = {}

    def add(self, quantity: str, names: Sequence[str], values: ca.SX, slopes: ca.SX) -> None:
        """Add expressions (k,) with their derivatives (k, 3m) under names (k,)."""
        entries = self._by_quantity.setdefault(quantity, {})
        for k, name in enumerate(names):
            entries[name] = values[k], slopes[k, :]

    def get(self, model: Model, quantity: str, name: str) -> tuple[ca.SX, ca.SX]:
        """Return an expression and its derivative; raise if there is none."""
        if quantity not in self._by_quantity:
            raise InvalidInput(f"no output '{quantity}'{nearest(quantity, get_args(Quantity))}")
        entries = self._by_quantity[quantity]
        if name not in entries:
            raise InvalidInput(
                f"'{model.mechanism.name}' has no {quantity} of '{name}'{nearest(name, entries)}"
            )
        return entries[name]


def _add_motion(table: _Responses, graph: _Graph) -> None:
    """Add positions, velocities and accelerations of all coordinates."""
    names = graph.model.mechanism.coordinates
    E, X, Y = graph.tangents
    zero = ca.SX(*E.shape)
    table.add("position", names, graph.q, ca.horzcat(E, zero, zero))
    table.add("velocity", names, graph.qd, ca.horzcat(X, E, zero))
    table.add("acceleration", names, graph.qdd, ca.horzcat(Y, 2 * X, E))


@compiled
def gravity_regressor(model: Model, names: tuple[str, ...]) -> ca.Function:
    """Return the kernel q -> derivative of the regressor by gravity, (3 m, p), check.

    Efforts are linear in gravity, so this is the regressor at rest
    under a unit of gravity along x, y and z of the base: W(g) = W(0) +
    sum_k g_k dW/dg_k. Columns of joint terms are zero.
    """
    n = len(model.mechanism.joints)
    q = ca.SX.sym("q", n)
    rest = ca.SX(n, 1)
    closure = LoopExpressions(model.loops, model.loops.dynamic, q)
    inertial = [k for k, name in enumerate(names) if model.resolve(name)[0].inertial]
    inertial_names = [names[k] for k in inertial]
    blocks = []
    for direction in np.eye(3):
        mechanism = replace(model.mechanism, gravity=tuple(direction))
        tree = TreeEfforts(mechanism, q, rest, rest, ca.SX.ones(n, 1))
        columns = ca.SX(model.degrees_of_freedom, len(names))
        if inertial:
            projected = model.projected_columns(tree, closure.closure_map, inertial_names)
            columns[:, inertial] = projected
        blocks.append(columns)
    return ca.Function("gravity", [q], [ca.densify(ca.vertcat(*blocks)), closure.check])


def twist_names(model: Model) -> tuple[str, ...]:
    """Return the names of the platform's translation and rotation; none without a platform."""
    platform = model.mechanism.platform
    if platform is None:
        return ()
    return f"{platform}.translation", f"{platform}.rotation"


def has_regularity(model: Model) -> bool:
    """Return whether the robot has closed loops, whose singularities `regularity` measures."""
    return bool(model.loops.partitions["actuated"].dependent)


def _regularity(graph: _Graph) -> ca.SX:
    """Return a determinant relative to its value in the reference configuration.

    It is 1 there, and 0 where the motors stop determining the other
    coordinates (Type 2). With task coordinates x it is that of
    dq_act/dx, which also grows without bound towards Type 1; with more
    motors than degrees of freedom that of its square; otherwise that of
    K_D. It changes sign at the singularity (not if redundant).
    """
    model = graph.model
    loops = model.loops
    if not has_regularity(model):
        return ca.SX(1)
    by: By = "task" if "task" in loops.partitions else "actuated"
    closed = LoopExpressions(loops, by, graph.q)
    if by == "task":
        act = closed.closure_map[model.actuated, :]
        matrix = act.T @ act if loops.redundant else act
    else:
        partition = loops.partitions[by]
        matrix = closed.jacobian[partition.rows, partition.dependent]
    evaluate = ca.Function("matrix", [graph.q], [ca.densify(matrix)])
    samples = np.array([np.array(evaluate(q)) for q in loops.neighbours])
    pattern = np.array(ca.DM(matrix.sparsity(), 1).full(), dtype=float)
    absolute = determinant(matrix, choose_pivots(samples, pattern))
    return absolute / float(ca.Function("home", [graph.q], [absolute])(loops.home))


def _cholesky(matrix: ca.SX) -> ca.SX:
    """Return L with L L^T = matrix."""
    lower = ca.SX(*matrix.shape)
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            remainder = matrix[i, j]
            for k in range(j):
                remainder -= lower[i, k] * lower[j, k]
            lower[i, j] = ca.sqrt(remainder) if i == j else remainder / lower[j, j]
    return lower
