"""Exact derivatives of the regressor and of the robot's response, through the closed loops.

A motion is given by the coordinates of one partition P, q_P(t), with velocities v and accelerations
a; the closures give the others, q = q(q_P) with dq = E_P dq_P. For an expression f(q, v, a) that
holds on closed loops,

    df/dq_P = (df/dq) E_P,  df/dv,  df/da.

The rows of the dynamics may belong to another partition than the motion; both are written into one
graph. While a motion is designed the sign of the velocity in Coulomb friction is tanh(qd / band),
because the true one has no derivative; `response` can also take the sign that regressions have,
linear within the band.

Full derivatives of the motion and the efforts are not left to automatic differentiation of the
eliminations, which is several times as long. With X = d qd / d q_P and Y = d qdd / d q_P, from the
closures differentiated,

    K_D X_D = -d(K qd)/dq E,    K_D Y_D = -(dc/dq E + dc/dqd X),    c = K qdd + d(K qd)/dq qd,

d qdd / dv = 2 X, and the rest is E. With the tree efforts t(q, qd, qdd) = K^T lambda + (the rows'
efforts tau),

    d tau / dq_P = E_r^T ((dt/dq - d(K^T lambda)/dq) E + dt/dqd X + dt/dqdd Y),
    d tau / dv = E_r^T (dt/dqd E + 2 dt/dqdd X),    d tau / da = E_r^T dt/dqdd E,

E_r the closure map of the rows' coordinates: E_r^T K^T = 0, so the change of lambda drops out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal, get_args

import casadi as ca
import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.engine.elimination import cholesky_solve, choose_pivots, determinant, solve
from gough.engine.loops import By, LoopExpressions
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts, body_transforms
from gough.kernels.kernel import compiled
from gough.mechanism.types import BASE

Quantity = Literal["position", "velocity", "acceleration", "effort", "row", "regularity"]
Output = tuple[Quantity, str]


class _Graph:
    """Symbols of a motion in one partition and what follows from them on closed loops.

    Velocities and accelerations of all coordinates have symbols too, w and u, for derivatives by
    them.
    """

    def __init__(self, model: Model, by: By, smooth: bool = True) -> None:
        loops = model.loops
        loops.partition_of(by)  # raises if there is none
        n, m = len(model.mechanism.joints), model.degrees_of_freedom
        self.model, self.smooth = model, smooth
        self.q, self.w, self.u, self.band = (ca.SX.sym(name, n) for name in ("q", "w", "u", "band"))
        self.v, self.a = ca.SX.sym("v", m), ca.SX.sym("a", m)
        self.closure = LoopExpressions(loops, by, self.q)
        self.dynamic, self.check = self.closure, self.closure.check
        if by != loops.dynamic:
            self.dynamic = LoopExpressions(loops, loops.dynamic, self.q)
            self.check = ca.fmax(self.check, self.dynamic.check)
        self.qd, self.qdd = self.closure.rates(self.v, self.a)

    def regressor(self, names: tuple[str, ...]) -> tuple[ca.SX, ca.SX]:
        """Return the regressor with rows of independent unit noise, and Sigma, the noise of the
        motors.

        That is L^-1 W with L L^T = E_act^T Sigma E_act.
        """
        model = self.model
        covariance = ca.SX.sym("covariance", len(model.actuated), len(model.actuated))
        tree = TreeEfforts(
            model.mechanism, self.q, self.qd, self.qdd, self.band, smooth=self.smooth
        )
        rows = model.projected_columns(tree, self.dynamic.closure_map, names)
        act = self.dynamic.closure_map[model.actuated, :]
        return ca.densify(ca.solve(_cholesky(act.T @ covariance @ act), rows)), covariance

    @cached_property
    def tangents(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """E = dq/dq_P, X = d qd/dq_P and Y = d qdd/dq_P, each (n, m)."""
        E, part = self.closure.closure_map, self.closure.partition
        X, Y = ca.SX(*E.shape), ca.SX(*E.shape)
        if part.dependent:
            D, K = part.dependent, self.closure.jacobian[part.rows, :]
            rate = K @ self.w
            X[D, :] = solve(K[:, D], -self._put(ca.jacobian(rate, self.q)) @ E, part.pivots)
            c = K @ self.u + ca.jtimes(rate, self.q, self.w)
            change = self._put(ca.jacobian(c, self.q)) @ E + self._put(ca.jacobian(c, self.w)) @ X
            Y[D, :] = solve(K[:, D], -change, part.pivots)
        return E, X, Y

    def _by_motion(self, expression: ca.SX, held: ca.SX | None = None) -> ca.SX:
        """Return the derivative of f(q, w, u) by q_P, v and a, (k, 3m); `held` is taken off that by
        q.
        """
        dq, dw, du = (self._put(ca.jacobian(expression, x)) for x in (self.q, self.w, self.u))
        E, X, Y = self.tangents
        dq = dq if held is None else dq - held
        return ca.horzcat(dq @ E + dw @ X + du @ Y, dw @ E + 2 * (du @ X), du @ E)

    def _put(self, expression: ca.SX) -> ca.SX:
        """Return an expression with the velocities and accelerations of all coordinates in place of
        their symbols.
        """
        result: ca.SX = ca.substitute([expression], [self.w, self.u], [self.qd, self.qdd])[0]
        return result

    def efforts(self, chi: ca.SX, load: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return the rows' efforts (m,) and their derivative by q_P, v, a, (m, 3m)."""
        model = self.model
        tree = TreeEfforts(model.mechanism, self.q, self.w, self.u, self.band, smooth=self.smooth)
        value = model.parameter_lookup(chi, load)
        t = tree.total(value)
        part, E_r, held = self.dynamic.partition, self.dynamic.closure_map, None
        tau = self._put(t)
        if part.dependent:
            K, D = self.dynamic.jacobian[part.rows, :], part.dependent
            force = solve(K[:, D].T, tau[D], tuple((column, row) for row, column in part.pivots))
            forces = ca.SX.sym("lambda", force.shape[0])
            held = ca.substitute(ca.jacobian(K.T @ forces, self.q), forces, force)
        rows, slopes = E_r.T @ tau, E_r.T @ self._by_motion(t, held)
        for joint, row in model.transmitted.rows.items():
            u = ca.SX.sym("u")  # transmitted effort: the row without the friction of its joint
            tree.transmitted[joint] = u
            f = tree.friction(joint, value)
            by_motion = ca.substitute(self._by_motion(f), u, rows[row])
            by_effort = ca.substitute(self._put(ca.jacobian(f, u)), u, rows[row])
            friction = ca.substitute(self._put(f), u, rows[row])
            slopes[row, :] += by_motion + by_effort * slopes[row, :]
            rows[row] += friction
        return rows, slopes

    def motor_efforts(self, rows: ca.SX, derivative: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return the (smallest) motor efforts (a,) whose effect on the rows is given (m,), and
        their derivative.
        """
        m = rows.shape[0]
        held = ca.SX.sym("rows", m)
        act = self.dynamic.closure_map[self.model.actuated, :]
        motors = act @ cholesky_solve(act.T @ act, held)
        direct = ca.substitute(ca.jtimes(motors, self.q, self.closure.closure_map), held, rows)
        change = ca.jacobian(motors, held) @ derivative + ca.horzcat(
            direct, ca.SX(act.shape[0], 2 * m)
        )
        return ca.substitute(motors, held, rows), change

    def twist_norms(self) -> dict[str, tuple[ca.SX, ca.SX]]:
        """Return speed and angular speed of the platform, and the same of accelerations: values
        (2,), by q_P, v, a.

        A twist t has the rate dt/dqd qdd + dt/dq qd, and the norm |t| the derivative t^T dt / |t|;
        a tiny constant under the root makes it zero at rest.
        """
        pose = body_transforms(self.model.mechanism, self.q)[self.model.mechanism.platform or BASE]
        twist = pose.twist(self.q, self.w)
        faster = ca.jtimes(twist, self.w, self.u) + ca.jtimes(twist, self.q, self.w)
        found: dict[str, tuple[ca.SX, ca.SX]] = {}
        for quantity, vector in (("velocity", twist), ("acceleration", faster)):
            norms, slopes = [], []
            for part in (vector[:3], vector[3:]):
                value = self._put(part)
                norms.append(ca.sqrt(ca.sumsqr(value) + 1e-18))
                slopes.append(value.T @ self._by_motion(part) / norms[-1])
            found[quantity] = ca.vertcat(*norms), ca.vertcat(*slopes)
        return found


@compiled
def smooth_regressor(model: Model, names: tuple[str, ...], by: By) -> ca.Function:
    """Return the kernel (q, v, a, band, covariance) -> whitened regressor (m, p), check.

    Its q is the assembled configuration (n,), v and a are those of the partition `by`, (m,), band
    is the velocity scale of tanh (n,), covariance that of the motor efforts (a, a). The elimination
    behind a sample is sound where its check is below `kinematics.ELIMINATION_TOLERANCE`.
    """
    graph = _Graph(model, by)
    W, covariance = graph.regressor(names)
    return ca.Function(
        "smooth_regressor", [graph.q, graph.v, graph.a, graph.band, covariance], [W, graph.check]
    )


@compiled
def regressor_adjoint(model: Model, names: tuple[str, ...], by: By) -> ca.Function:
    """Return the kernel (q, v, a, band, covariance, seed) -> gradients by q_P, v, a, each (m,).

    They are those of sum(seed * regressor) for the regressor of `smooth_regressor`; the seed is (m,
    p).
    """
    graph = _Graph(model, by)
    W, covariance = graph.regressor(names)
    seed, n, m = ca.SX.sym("seed", *W.shape), graph.q.shape[0], graph.v.shape[0]
    gradient = ca.jtimes(ca.vec(W), ca.vertcat(graph.q, graph.v, graph.a), ca.vec(seed), True)
    parts = graph.closure.closure_map.T @ gradient[:n], gradient[n : n + m], gradient[n + m :]
    return ca.Function(
        "regressor_adjoint",
        [graph.q, graph.v, graph.a, graph.band, covariance, seed],
        [ca.densify(part) for part in parts],
    )


@compiled
def response(
    model: Model, outputs: tuple[Output, ...], by: By, *, smooth: bool = True
) -> ca.Function:
    """Return the kernel (q, v, a, band, chi, load) -> values (o,), their derivative by (q_P, v, a)
    (o, 3m), check.

    Chi are the standard parameters (p,) and load the payload's, for the efforts.

    Args:
        outputs: What to return, as pairs (quantity, name): `position`, `velocity`, `acceleration`
            of a coordinate, `velocity`, `acceleration` of the platform as a whole (`twist_names`),
            `effort` of a motor, `row` effort of an equation row, and (`regularity`, "") for the
            distance to singularities (see `_regularity`).
        by: Partition of v and a.
        smooth: tanh for the sign of velocities, as while designing; otherwise that of regressions,
            whose derivative at the edge of the band is the mean of both sides.
    """
    graph, names = _Graph(model, by, smooth), model.mechanism.coordinates
    wanted = {quantity for quantity, _ in outputs}
    chi, load = (
        ca.SX.sym("chi", len(model.mechanism.standard)),
        ca.SX.sym("load", len(model.load_columns)),
    )
    E, X, Y = graph.tangents
    none = ca.SX(*E.shape)
    found: dict[str, tuple[tuple[str, ...], ca.SX, ca.SX]] = {
        "position": (names, graph.q, ca.horzcat(E, none, none)),
        "velocity": (names, graph.qd, ca.horzcat(X, E, none)),
        "acceleration": (names, graph.qdd, ca.horzcat(Y, 2 * X, E)),
    }
    if {name for _, name in outputs} & set(twist_names(model)):
        for quantity, (value, derivative) in graph.twist_norms().items():
            own, old, slope = found[quantity]
            found[quantity] = (
                (*own, *twist_names(model)),
                ca.vertcat(old, value),
                ca.vertcat(slope, derivative),
            )
    if wanted & {"effort", "row"}:
        rows = graph.efforts(chi, load)
        found["row"] = (model.rows, *rows)
        found["effort"] = (model.mechanism.actuated, *graph.motor_efforts(*rows))
    if "regularity" in wanted:
        value = _regularity(graph)
        gradient = ca.jtimes(value, graph.q, ca.SX(1), True)
        found["regularity"] = (
            ("",),
            value,
            ca.horzcat((E.T @ gradient).T, ca.SX(1, 2 * E.shape[1])),
        )
    values, derivatives = [], []
    for kind, name in outputs:
        if kind not in found:
            raise InvalidInput(f"no output '{kind}'{nearest(kind, get_args(Quantity))}")
        valid, value, derivative = found[kind]
        if name not in valid:
            raise InvalidInput(
                f"'{model.mechanism.name}' has no {kind} of '{name}'{nearest(name, valid)}"
            )
        values.append(value[valid.index(name)])
        derivatives.append(derivative[valid.index(name), :])
    return ca.Function(
        "response",
        [graph.q, graph.v, graph.a, graph.band, chi, load],
        [ca.densify(ca.vertcat(*values)), ca.densify(ca.vertcat(*derivatives)), graph.check],
    )


@compiled
def gravity_regressor(model: Model, names: tuple[str, ...]) -> ca.Function:
    """Return the kernel q -> derivative of the regressor by the components of gravity, (3, m, p) as
    (3 m, p).

    Efforts are linear in gravity, so this is the regressor at rest under a unit of gravity along x,
    y and z of the
    base: W(g) = W(0) + sum_k g_k dW/dg_k. Joint terms do not fall; their columns are zero.
    """
    n = len(model.mechanism.joints)
    q, rest = ca.SX.sym("q", n), ca.SX(n, 1)
    closure = LoopExpressions(model.loops, model.loops.dynamic, q)
    falling = [k for k, name in enumerate(names) if model.resolve(name)[0].inertial]
    parts = []
    for unit in np.eye(3):
        tree = TreeEfforts(
            replace(model.mechanism, gravity=tuple(unit)), q, rest, rest, ca.SX.ones(n, 1)
        )
        columns = ca.SX(model.degrees_of_freedom, len(names))
        if falling:
            columns[:, falling] = model.projected_columns(
                tree, closure.closure_map, [names[k] for k in falling]
            )
        parts.append(columns)
    return ca.Function("gravity", [q], [ca.densify(ca.vertcat(*parts)), closure.check])


def twist_names(model: Model) -> tuple[str, ...]:
    """Return the names of the platform's translation and rotation, whose speeds `response` gives;
    none if serial.
    """
    platform = model.mechanism.platform
    return () if platform is None else (f"{platform}.translation", f"{platform}.rotation")


def has_regularity(model: Model) -> bool:
    """Return whether the robot can reach singularities that `regularity` measures: it has closed
    loops.
    """
    return bool(model.loops.partitions["actuated"].dependent)


def _regularity(graph: _Graph) -> ca.SX:
    """Return a determinant relative to home: 1 at home, 0 where the motors stop determining the
    rest (Type 2).

    Of dq_act/dx where there are task coordinates x (it also grows without bound towards Type 1),
    with more motors than degrees of freedom of its square, and of K_D otherwise. It changes sign at
    the singularity (not when redundant).
    """
    model, loops = graph.model, graph.model.loops
    if not has_regularity(model):
        return ca.SX(1)
    by: By = "task" if "task" in loops.partitions else "actuated"
    closed, part = LoopExpressions(loops, by, graph.q), loops.partitions[by]
    if by == "task":
        act = closed.closure_map[model.actuated, :]
        matrix = act.T @ act if loops.redundant else act
    else:
        matrix = closed.jacobian[part.rows, part.dependent]
    numbers = ca.Function("matrix", [graph.q], [ca.densify(matrix)])
    pattern = np.array(ca.DM(matrix.sparsity(), 1).full(), dtype=float)
    value = determinant(
        matrix, choose_pivots(np.array([np.array(numbers(q)) for q in loops.neighbours]), pattern)
    )
    return value / float(ca.Function("home", [graph.q], [value])(loops.home))


def _cholesky(matrix: ca.SX) -> ca.SX:
    """Return L with L L^T = matrix."""
    lower = ca.SX(*matrix.shape)
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            lower[i, j] = ca.sqrt(rest) if i == j else rest / lower[j, j]
    return lower
