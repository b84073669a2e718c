"""Derivatives of a robot's efforts by errors of its geometry.

Each error g is one more coordinate: a massless joint at the place of
the error, with zero velocity and acceleration. The motion of the
motors, as recorded, is held. Then the loops, phi(q, g) = 0, change the
motion of the other coordinates by Q = dq/dg, X = d qd/dg and Y = d
qdd/dg. With K = dphi/dq and c = K qdd + d(K qd)/dq qd,

    K_D Q_D = -dphi/dg
    K_D X_D = -(d(K qd)/dq Q + d(K qd)/dg)
    K_D Y_D = -(dc/dq Q + dc/dg + dc/dqd X)

and with the tree efforts t = K^T lambda + (the rows' efforts tau), as
in `derivatives`,

    d tau/dg = T_q Q + T_qd X + T_qdd Y + T_g,    T = E_r^T (t - K^T lambda).

There are far fewer rows than errors. So Q, X and Y are not computed,
but the multipliers z, x, y of their equations, with dc/dqd = 2 d(K
qd)/dq:

    y K_D = (T_qdd)_D
    x K_D = (T_qd - 2 y d(K qd)/dq)_D
    z K_D = (T_q - y dc/dq - x d(K qd)/dq)_D
    d tau/dg = T_g - z dphi/dg - x d(K qd)/dg - y dc/dg.

The graphs are evaluated by CasADi for some samples at a time: to
compile them would take longer. Linear equations are solved by NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.motion import Motion
from gough.engine.geometric_errors import (
    Displacement as Displacement,
    GeometricError as GeometricError,
    displaced as displaced,
    list_geometric_errors,
)
from gough.engine.loops import Partition
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts, closure_equations
from gough.mechanism.placement import IDENTITY_PLACEMENT
from gough.mechanism.types import Body, Closure, Frame, Joint, Mechanism

# Gap of redundant closure equations, in lengths of the robot or
# radians, per such a length or radian of an error, above which the
# loops do not close with the error. Printed angles have five digits.
LOOP_GAP_TOLERANCE = 1e-4
# Samples that are evaluated at a time; many more would take gigabytes
# for a robot with six legs.
SENSITIVITY_BATCH = 64


def geometric_errors(model: Model) -> tuple[GeometricError, ...]:
    """Return the errors that the geometry of a robot can have and still be assembled.

    Errors of single places come first, then those that all legs of a
    kind have in common. Left out are errors with which the loops do not
    close, such as a tilted axis in a planar linkage: the robot would
    bend or have play, which a rigid model does not describe. Errors may
    still have no effect on the efforts, or equal effects: only their
    sensitivities show it.
    """
    errors = list_geometric_errors(model.mechanism)
    gap = _Sensitivity.of(model, errors).redundant_gap()
    closes = np.abs(gap).max(axis=(0, 1), initial=0.0) < LOOP_GAP_TOLERANCE
    return tuple(error for error, possible in zip(errors, closes) if possible)


def geometry_sensitivity(
    model: Model,
    motion: Motion,
    errors: Sequence[GeometricError],
    chi: ArrayLike | None = None,
    *,
    load: ArrayLike | None = None,
    dead_band: ArrayLike | None = None,
    effort: FloatArray | None = None,
) -> FloatArray:
    """Return the derivative of the rows' efforts by errors of the geometry, (t, r, k).

    The motion of the motors is held; that of the other coordinates
    changes with the geometry. Standard parameters are held, too: those
    of a body are about the frame of its joint. The sign of velocities
    in Coulomb friction and internal states of friction are taken as
    constant.

    Args:
        motion: Motion of all coordinates, loops closed.
        errors: Errors, (k,), of `geometric_errors`.
        chi: Standard parameters, (p,); those of the robot file by
            default.
        load: Inertial parameters of payloads, as in
            `Model.inverse_dynamics`.
        dead_band: Velocity below which Coulomb terms are interpolated,
            scalar or (n,). [m/s or rad/s]
        effort: Motor efforts, (t, a), for a robot with more motors than
            degrees of freedom: their effect on the rows changes with
            the geometry, too, and the derivative is that of the rows'
            efforts minus this effect. It changes nothing for other
            robots.
    """
    model.check_motion(motion)
    if effort is None:
        effort = np.zeros((len(motion), len(model.actuated)))
    check_shape(effort, (len(motion), len(model.actuated)), "motor efforts")
    if not errors:
        return np.zeros((len(motion), model.degrees_of_freedom, 0))
    sensitivity = _Sensitivity.of(model, tuple(errors))
    context = model.kernel_context(motion, dead_band, transmitted=False)
    context = np.broadcast_to(context, (len(motion), context.shape[-1]))
    standard, payload = model.given_parameters(chi, load)
    check_shape(standard, (len(model.mechanism.standard),), "standard parameters")
    check_shape(payload, (len(model.load_columns),), "parameters of the payload")
    parameters = np.concatenate([standard, payload])
    slopes = np.empty((len(motion), model.degrees_of_freedom, len(errors)))
    for start in range(0, len(motion), SENSITIVITY_BATCH):
        batch = slice(start, start + SENSITIVITY_BATCH)
        state = _State.of(motion.take(batch), context[batch], parameters)
        slopes[batch] = sensitivity.efforts(state, effort[batch])
    return slopes


class _State(NamedTuple):
    """What the efforts of a batch of samples depend on."""

    q: FloatArray  # (t, n), as the rates
    qd: FloatArray
    qdd: FloatArray
    sign: FloatArray  # of the velocities in Coulomb friction, (t, n)
    extra: FloatArray  # internal states and channels, (t, x)
    parameters: FloatArray  # standard parameters and load, (p + 10 l,)

    @classmethod
    def of(cls, motion: Motion, context: FloatArray, parameters: FloatArray) -> _State:
        """Return the state of a motion with its dead bands and extra inputs, (t, n + x)."""
        n = motion.q.shape[1]
        band = np.maximum(context[:, :n], 1e-300)
        sign = np.clip(motion.qd / band, -1.0, 1.0)
        return cls(motion.q, motion.qd, motion.qdd, sign, context[:, n:], parameters)


@dataclass(frozen=True, eq=False)
class _Sensitivity:
    """The graphs of a model with displacements as further coordinates."""

    model: Model
    displacements: tuple[Displacement, ...]  # of all errors, each once, (d,)
    combination: FloatArray  # displacements by errors, (d, k)

    @classmethod
    def of(cls, model: Model, errors: tuple[GeometricError, ...]) -> _Sensitivity:
        """Return the graphs for some errors; they are kept in the model."""
        kept: dict[Any, _Sensitivity] = vars(model).setdefault("geometry_graphs", {})
        if errors not in kept:
            displaced(model.mechanism, dict.fromkeys(errors, 0.0))  # raises if one is not its own
            displacements: dict[Displacement, int] = {}
            for error in errors:
                for displacement in error.displacements:
                    displacements.setdefault(displacement, len(displacements))
            combination = np.zeros((len(displacements), len(errors)))
            for k, error in enumerate(errors):
                for displacement in error.displacements:
                    combination[displacements[displacement], k] += 1.0
            kept[errors] = cls(model, tuple(displacements), combination)
        return kept[errors]

    @cached_property
    def graph(self) -> _Graph:
        """The symbols and expressions."""
        return _Graph(self.model, self.displacements)

    def efforts(self, state: _State, effort: FloatArray) -> FloatArray:
        """Return the derivative of the rows' efforts by errors, (t, r, k)."""
        model = self.model
        gradients = _evaluate(self.graph.closures, state.q, state.qd, state.qdd)
        closure_map = self._closure_map(gradients[0])
        (tree_efforts,) = _evaluate(self.graph.tree_efforts, *state)
        applied = tree_efforts[:, :, 0].copy()
        rows = np.einsum("tnm,tn->tm", closure_map, applied)
        applied[:, model.actuated] -= effort
        multipliers = self._multipliers(gradients[0], applied)
        (by_motion,) = _evaluate(self.graph.projected, *state, closure_map, multipliers)
        slopes = self._with_loops_closed(by_motion, gradients)
        friction_rows = list(model.transmitted.rows.values())
        if friction_rows:
            transmitted = rows[:, friction_rows]
            by_motion, by_effort = _evaluate(self.graph.friction, *state, transmitted)
            slopes[:, friction_rows] += by_effort * slopes[:, friction_rows]
            slopes[:, friction_rows] += self._with_loops_closed(by_motion, gradients)
        return slopes @ self.combination

    def redundant_gap(self) -> FloatArray:
        """Return the gap of redundant closure equations by errors near the reference, (s, c, k).

        It is in lengths of the robot or radians, by errors in the same
        units.
        """
        loops = self.model.loops
        q = loops.neighbours
        (gradient,) = _evaluate(self.graph.gaps, q)
        partition = loops.partitions["actuated"]
        n = q.shape[1]
        position = np.zeros((len(q), n, len(self.displacements)))
        K = gradient[:, :, :n]
        by_error = gradient[:, :, n:]
        position[:, partition.dependent] = _solved(K, partition, -by_error)
        gap = (by_error + K @ position) * loops.weights[:, None]
        lengths = np.ones(len(self.displacements))
        for k, displacement in enumerate(self.displacements):
            if displacement.motion != "rotation":
                lengths[k] = loops.length
        return (gap * lengths) @ self.combination

    def _with_loops_closed(
        self, by_motion: FloatArray, closure_gradients: Sequence[FloatArray]
    ) -> FloatArray:
        """Return the derivative by displacements with which the other coordinates move, (t, r, d).

        Args:
            by_motion: Derivative by (q, qd, qdd, g), (t, r, 3n + d).
            closure_gradients: Derivatives of phi, K qd and c by (q, g),
                (t, c, n + d) each.
        """
        partition = self.model.loops.partitions["actuated"]
        D = partition.dependent
        n = len(self.model.mechanism.joints)
        T_g = by_motion[:, :, 3 * n :]
        if not D:
            return T_g.copy()
        position, velocity, acceleration = [each[:, partition.rows] for each in closure_gradients]
        inverse = np.linalg.inv(position[:, :, D])
        T_q = by_motion[:, :, :n][:, :, D]
        T_qd = by_motion[:, :, n : 2 * n][:, :, D]
        T_qdd = by_motion[:, :, 2 * n : 3 * n][:, :, D]
        velocity_by_q = velocity[:, :, D]
        y = T_qdd @ inverse
        x = (T_qd - 2 * y @ velocity_by_q) @ inverse
        z = (T_q - y @ acceleration[:, :, D] - x @ velocity_by_q) @ inverse
        slopes = T_g - z @ position[:, :, n:]
        slopes -= x @ velocity[:, :, n:]
        slopes -= y @ acceleration[:, :, n:]
        return np.asarray(slopes)

    def _closure_map(self, gradient: FloatArray) -> FloatArray:
        """Return E_r, velocities of all coordinates by those of the rows, (t, n, m)."""
        loops = self.model.loops
        partition = loops.partitions[loops.dynamic]
        n = len(self.model.mechanism.joints)
        closure_map = np.zeros((len(gradient), n, len(partition.independent)))
        closure_map[:, partition.independent, range(len(partition.independent))] = 1.0
        if partition.dependent:
            K = gradient[:, :, :n]
            by_independent = K[:, :, partition.independent]
            closure_map[:, partition.dependent] = _solved(K, partition, -by_independent)
        return closure_map

    def _multipliers(self, gradient: FloatArray, applied: FloatArray) -> FloatArray:
        """Return lambda of all closures, (t, c), from K_D^T lambda = t_D, zero if redundant."""
        loops = self.model.loops
        partition = loops.partitions[loops.dynamic]
        multipliers = np.zeros(gradient.shape[:2])
        if partition.dependent:
            K = gradient[:, partition.rows][:, :, partition.dependent]
            dependent = applied[:, partition.dependent, None]
            multipliers[:, partition.rows] = np.linalg.solve(K.transpose(0, 2, 1), dependent)[
                :, :, 0
            ]
        return multipliers


def _solved(K: FloatArray, partition: Partition, right: FloatArray) -> FloatArray:
    """Return K_D^-1 right, (t, n - m, k), with the closure equations of a partition."""
    if not partition.dependent:
        return np.zeros((len(right), 0, right.shape[2]))
    K_D = K[:, partition.rows][:, :, partition.dependent]
    return np.asarray(np.linalg.solve(K_D, right[:, partition.rows]))


class _Graph:
    """A mechanism with displacements as further coordinates g, as expressions at g = 0."""

    def __init__(self, model: Model, displacements: tuple[Displacement, ...]) -> None:
        self.model = model
        n = len(model.mechanism.joints)
        self.q = ca.SX.sym("q", n)
        self.w = ca.SX.sym("w", n)
        self.u = ca.SX.sym("u", n)
        self.g = ca.SX.sym("g", len(displacements))
        self.sign = ca.SX.sym("sign", n)
        self.extra = ca.SX.sym("extra", model.n_state_inputs)
        self.chi = ca.SX.sym("chi", len(model.mechanism.standard))
        self.load = ca.SX.sym("load", len(model.load_columns))
        self.mechanism = _with_error_joints(model.mechanism, displacements)
        index = {name: i for i, name in enumerate(self.mechanism.coordinates)}
        self._joints = [index[name] for name in model.mechanism.coordinates]
        self._errors: dict[int, int] = {}  # joint of each displacement that has one
        for k in range(len(displacements)):
            if _error_name(k) in index:
                self._errors[k] = index[_error_name(k)]
        self._closures = _closures_with_errors(self.mechanism, displacements, self.g)

    def _of_tree(self, motion: ca.SX) -> ca.SX:
        """Return a vector of the coordinates as one of all joints, zero at errors."""
        vector = ca.SX(len(self.mechanism.joints), 1)
        for k, joint in enumerate(self._joints):
            vector[joint] = motion[k]
        return vector

    @cached_property
    def _position(self) -> ca.SX:
        """Positions of all joints, those of errors included."""
        position = self._of_tree(self.q)
        for k, joint in self._errors.items():
            position[joint] = self.g[k]
        return position

    @cached_property
    def _residual(self) -> ca.SX:
        """phi, (c,)."""
        return closure_equations(self.mechanism, self._position, self._closures)

    @cached_property
    def gaps(self) -> ca.Function:
        """Configuration -> derivative of phi by (q, g), (c, n + d)."""
        variables = ca.vertcat(self.q, self.g)
        return self._function("gaps", [self.q], [ca.jacobian(self._residual, variables)])

    @cached_property
    def closures(self) -> ca.Function:
        """(q, qd, qdd) -> derivatives of phi, K qd and c by (q, g), (c, n + d) each."""
        phi = self._residual
        rate = ca.jtimes(phi, self.q, self.w)
        c = ca.jtimes(phi, self.q, self.u) + ca.jtimes(rate, self.q, self.w)
        variables = ca.vertcat(self.q, self.g)
        derivatives = [ca.jacobian(expression, variables) for expression in (phi, rate, c)]
        return self._function("closures", [self.q, self.w, self.u], derivatives)

    def _tree(self) -> TreeEfforts:
        """Return the tree without transmitted efforts."""
        context = ca.vertcat(ca.SX.ones(len(self.mechanism.joints)), self.extra)
        tree = TreeEfforts(
            self.mechanism,
            self._position,
            self._of_tree(self.w),
            self._of_tree(self.u),
            context,
        )
        tree.sign = self._of_tree(self.sign)  # a constant: it is not differentiated
        return tree

    @cached_property
    def _efforts(self) -> ca.SX:
        """Tree efforts of the coordinates, (n,), without load-dependent friction."""
        parameter = self.model.parameter_lookup(self.chi, self.load)
        return self._tree().total(parameter)[self._joints]

    @property
    def _inputs(self) -> list[ca.SX]:
        parameters = ca.vertcat(self.chi, self.load)
        return [self.q, self.w, self.u, self.sign, self.extra, parameters]

    @property
    def _variables(self) -> ca.SX:
        return ca.vertcat(self.q, self.w, self.u, self.g)

    @cached_property
    def tree_efforts(self) -> ca.Function:
        """State -> tree efforts, (n,)."""
        return self._function("tree_efforts", self._inputs, [self._efforts])

    @cached_property
    def projected(self) -> ca.Function:
        """State, E_r, lambda -> derivative of E_r^T (t - K^T lambda) by (q, qd, qdd, g).

        E_r and lambda are held; the derivative is (m, 3n + d).
        """
        m = self.model.degrees_of_freedom
        closure_map = ca.SX.sym("E", self.q.shape[0], m)
        multipliers = ca.SX.sym("lambda", self._residual.shape[0])
        constraint = ca.gradient(multipliers.T @ self._residual, self.q)
        rows = closure_map.T @ (self._efforts - constraint)
        return self._function(
            "projected",
            [*self._inputs, closure_map, multipliers],
            [ca.jacobian(rows, self._variables)],
        )

    @cached_property
    def friction(self) -> ca.Function:
        """State, transmitted efforts -> derivatives of load-dependent friction.

        They are by (q, qd, qdd, g), (l, 3n + d), and by the transmitted
        effort, (l,).
        """
        parameter = self.model.parameter_lookup(self.chi, self.load)
        joints = list(self.model.transmitted.rows)
        transmitted = ca.SX.sym("transmitted", len(joints))
        tree = self._tree()
        frictions = []
        slopes = []
        for k, joint in enumerate(joints):
            tree.transmitted[self._joints[joint]] = transmitted[k]
            friction = tree.friction(self._joints[joint], parameter)
            frictions.append(friction)
            slopes.append(ca.jacobian(friction, transmitted[k]))
        by_motion = ca.jacobian(ca.vertcat(*frictions), self._variables)
        return self._function(
            "friction", [*self._inputs, transmitted], [by_motion, ca.vertcat(*slopes)]
        )

    def _function(self, name: str, inputs: list[ca.SX], outputs: list[ca.SX]) -> ca.Function:
        """Return a function of a batch of inputs with all displacements zero."""
        zero = ca.SX.zeros(*self.g.shape)
        outputs = [ca.densify(output) for output in ca.substitute(outputs, [self.g], [zero])]
        return ca.Function(name, inputs, outputs).map(SENSITIVITY_BATCH)


def _evaluate(function: ca.Function, *inputs: FloatArray) -> list[FloatArray]:
    """Return the outputs of a function for at most a batch of samples, (t, rows, columns) each.

    Inputs are (t, rows) or (t, rows, columns), or (rows,) if all
    samples share it.
    """
    t = len(inputs[0])
    size = function.size_in(0)[1]  # of the batch: the first input is a vector
    batch = np.minimum(np.arange(size), t - 1)  # the last sample fills the batch
    buffer: Any
    buffer, evaluate = function.buffer()
    kept: list[Any] = []  # the buffer holds addresses only
    for k, given in enumerate(inputs):
        array = np.broadcast_to(given, (t, len(given))) if given.ndim == 1 else given
        if array.ndim == 3:
            array = array.transpose(0, 2, 1)  # CasADi stores columns one after the other
        kept.append(np.ascontiguousarray(array[batch]))
        if array.size:
            buffer.set_arg(k, memoryview(kept[k]))
    outputs = []
    for k in range(function.n_out()):
        rows, all_columns = function.size_out(k)
        output: Any = np.zeros((size, all_columns // size, rows))
        outputs.append(output[:t].transpose(0, 2, 1))
        if output.size:
            buffer.set_res(k, memoryview(output))
    evaluate()
    return outputs


def _error_name(k: int) -> str:
    """Return the name of the joint and the massless body of a displacement."""
    return f"error~{k}"


def _with_error_joints(mechanism: Mechanism, displacements: Sequence[Displacement]) -> Mechanism:
    """Return a mechanism with a massless joint for each displacement of a frame."""
    sites: dict[tuple[str, str], list[int]] = {}
    for k, displacement in enumerate(displacements):
        if displacement.motion != "value":
            sites.setdefault((displacement.element, displacement.end), []).append(k)
    error_joints: list[Joint] = []

    def displaced_frame(element: str, end: str, frame: Frame) -> Frame:
        body = frame.body
        placement = frame.placement
        numbers = sites.get((element, end), [])
        # translations come before the placement, rotations after it
        for k in sorted(numbers, key=lambda k: displacements[k].motion == "rotation"):
            rotation = displacements[k].motion == "rotation"
            joint = Joint(
                name=_error_name(k),
                kind="revolute" if rotation else "prismatic",
                parent=body,
                child=_error_name(k),
                placement=placement if rotation else IDENTITY_PLACEMENT,
                axis=displacements[k].axis,
            )
            error_joints.append(joint)
            body = joint.child
            if rotation:
                placement = IDENTITY_PLACEMENT
        return Frame(body=body, placement=placement)

    joints: list[Joint] = []
    for joint in mechanism.joints:
        given = Frame(body=joint.parent, placement=joint.placement)
        frame = displaced_frame(joint.name, "joint", given)
        joints.append(replace(joint, parent=frame.body, placement=frame.placement))
    closures: list[Closure] = []
    for closure in mechanism.closures:
        if closure.a is not None and closure.b is not None:
            a = displaced_frame(closure.name, "a", closure.a)
            b = displaced_frame(closure.name, "b", closure.b)
            closure = replace(closure, a=a, b=b)
        closures.append(closure)
    bodies = [Body(name=joint.child, parameters=()) for joint in error_joints]
    return replace(
        mechanism,
        joints=(*joints, *error_joints),
        bodies=(*mechanism.bodies, *bodies),
        closures=tuple(closures),
    )


def _closures_with_errors(
    mechanism: Mechanism, displacements: Sequence[Displacement], g: ca.SX
) -> list[Closure]:
    """Return the closures, with numbers that change as expressions of g."""
    closures = {closure.name: closure for closure in mechanism.closures}
    for k, displacement in enumerate(displacements):
        if displacement.motion == "value":
            closure = closures[displacement.element]
            changed = cast(float, closure.values[displacement.key] + g[k])
            values = {**closure.values, displacement.key: changed}
            closures[closure.name] = replace(closure, values=values)
    return list(closures.values())
