"""The compiled model of a robot: regressor, inverse and forward dynamics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape, check_type, without_copy
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.names import INERTIAL, Parameter, parameters as named
from gough.core.parameters import BaseParameters
from gough.core.record import html_table, rich_table
from gough.engine.columns import Columns, column_names
from gough.engine.elimination import cholesky_solve
from gough.engine.internal_states import FilterState, integrate_internal_states
from gough.engine.kinematics import ClosedChain, evaluate_with_repivoting
from gough.engine.load_friction import TransmittedEffort
from gough.engine.loops import LoopExpressions
from gough.engine.mobility import analyse_mobility
from gough.engine.symbolic import TreeEfforts, body_transforms
from gough.fitting.regression import Regression
from gough.kernels.kernel import compiled
from gough.mechanism.files import load_robot
from gough.mechanism.types import Mechanism

KEPT_MODELS = 4  # of mechanisms that were given last
# Entries of a regressor above this are refused: their squares overflow.
REGRESSOR_OVERFLOW = 1e100


class Model(Columns):
    """A mechanism compiled to kernels.

    The equation of motion, Jourdain's principle on the closed chain
    (BG13 (15)):

        sum_b G_b^T Y_b chi_b + sum_j E_j^T (ia qdd + fv qd + fs sign(qd) + ...)_j
            = E_act^T tau + G_p^T w_ext

    Its rows are the equations of the actuated coordinates, or of the
    independent ones if the robot has more motors than degrees of
    freedom.

    Load-dependent friction makes efforts nonlinear in the parameters;
    regressors take the transmitted efforts as known, see
    `with_transmitted_effort` and `load_friction`.

    Args:
        mechanism: The robot.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        check_type(
            mechanism,
            Mechanism,
            "the mechanism",
            "what gough.load_robot returned",
        )
        self.loops = analyse_mobility(mechanism)
        self.mechanism = self.loops.mechanism  # including closures that lock joints without effect
        self.kinematics = ClosedChain(self.loops)
        self.transmitted = TransmittedEffort(
            mechanism=self.mechanism,
            independent=self.independent,
            parameters=self.mechanism.standard.values,
        )

    def with_transmitted_effort(self, parameters: FloatArray) -> Model:
        """Return the model whose regressors compute transmitted efforts from these parameters.

        Args:
            parameters: Standard parameters, (p,); a new model uses
                those of the robot file.
        """
        other = copy(self)
        other.transmitted = replace(self.transmitted, parameters=parameters)
        return other

    def with_mechanism(self, mechanism: Mechanism) -> Model:
        """Return the model of a changed robot with the same standard parameters."""
        return Model(mechanism).with_transmitted_effort(self.transmitted.parameters)

    def __repr__(self) -> str:
        return (
            f"<Model of {self.mechanism.name}: {self.degrees_of_freedom} degrees of freedom, "
            f"{len(self.actuated)} motors, {len(self.mechanism.coordinates)} coordinates>"
        )

    def _repr_html_(self) -> str:
        """Return the joints as HTML, as notebooks ask for."""
        return html_table(repr(self).strip("<>"), self.mechanism.table())

    def __rich__(self) -> Any:
        """Return the joints as a table for the terminal, as `rich.print` asks for."""
        return rich_table(repr(self).strip("<>"), self.mechanism.table())

    @property
    def degrees_of_freedom(self) -> int:
        """Number of degrees of freedom, m."""
        return self.loops.degrees_of_freedom

    @property
    def graph_key(self) -> str:
        """Digest of all that its graphs depend on, see `Loops.graph_key`."""
        return self.loops.graph_key

    @property
    def home(self) -> FloatArray:
        """Reference configuration: the start pose with the loops closed, (n,). [m or rad]"""
        return self.loops.home

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Names of the joint equations: motors, or independent coordinates if redundant, (m,)."""
        return tuple(self.mechanism.coordinates[i] for i in self.independent)

    @cached_property
    def row_units(self) -> tuple[str, ...]:
        """Unit of the effort of each joint equation, (m,)."""
        return tuple(self.mechanism.joints[i].effort_unit for i in self.independent)

    @cached_property
    def independent(self) -> list[int]:
        """Indices of the coordinates whose equations are the rows."""
        return self.loops.partitions[self.loops.dynamic].independent

    @cached_property
    def actuated(self) -> list[int]:
        """Indices of the actuated coordinates."""
        return [i for i, joint in enumerate(self.mechanism.joints) if joint.actuated]

    def expressions(self, extra: int = 0) -> tuple[list[ca.SX], TreeEfforts, LoopExpressions]:
        """Return the symbols q, v, a, context, and tree and closed loops as expressions of them.

        Args:
            extra: Number of extra inputs in the context, after the dead
                bands.
        """
        n = len(self.mechanism.joints)
        m = self.degrees_of_freedom
        q = ca.SX.sym("q", n)
        v = ca.SX.sym("v", m)
        a = ca.SX.sym("a", m)
        context = ca.vertcat(ca.SX.sym("band", n), ca.SX.sym("extra", extra))
        closed = LoopExpressions(self.loops, self.loops.dynamic, q)
        qd, qdd = closed.rates(v, a)
        tree = TreeEfforts(self.mechanism, q, qd, qdd, context)
        return [q, v, a, context], tree, closed

    def projected_columns(
        self, tree: TreeEfforts, closure_map: ca.SX, names: Sequence[str]
    ) -> ca.SX:
        """Return E^T times the tree efforts for a unit of each named parameter, (m, p)."""
        if len(tree.transmitted) < len(self.mechanism.load_dependent):
            self.transmitted.insert(tree, closure_map, self.mechanism.standard.as_dict().get)
        units: dict[str, ca.SX] = {}
        for k, name in enumerate(named(names)):
            weights: dict[str, float] = {}  # of the inertial parameters of a load body
            if name.payload is not None:
                weights = dict(zip(INERTIAL, self._mounted(name)[1]))
            for member in self.resolve(name):
                unit = units.setdefault(member, ca.SX(1, len(names)))
                unit[k] = weights.get(member.kind, 1.0)
        return closure_map.T @ tree.total(units.get, len(names))

    def generalised_efforts(
        self,
        tree: TreeEfforts,
        closure_map: ca.SX,
        chi: ca.SX,
        load: ca.SX,
        applied: ca.SX | None = None,
    ) -> ca.SX:
        """Return the efforts of the rows, (m,).

        Args:
            tree: The tree.
            closure_map: E, velocities of all coordinates by those of
                the rows, (n, m).
            chi: Standard parameters, (p,).
            load: Load on the load bodies, (10 l,).
            applied: Efforts applied to the rows, (m,), if transmitted
                efforts follow from these.
        """
        parameter = self.parameter_lookup(chi, load)
        self.transmitted.insert(tree, closure_map, parameter, applied)
        return closure_map.T @ tree.total(parameter)

    def mass_expressions(
        self, tree: TreeEfforts, closure_map: ca.SX, chi: ca.SX, load: ca.SX
    ) -> ca.SX:
        """Return the mass matrix of the rows, E^T M E, (m, m).

        M is the sparse mass matrix of the tree, whose accelerations
        must be symbols. To differentiate the rows by their own
        accelerations would take each leg once for every motor.
        """
        mass = ca.jacobian(tree.total(self.parameter_lookup(chi, load)), tree.qdd)
        return ca.densify(closure_map.T @ (mass @ closure_map))

    def parameter_lookup(self, chi: ca.SX, load: ca.SX) -> Callable[[Parameter], ca.SX | None]:
        """Return a function that gives a parameter by name, for chi (p,) and a load (10 l,)."""
        names = self.mechanism.standard.names
        table: dict[str, ca.SX] = {name: chi[i] for i, name in enumerate(names)}
        for k, name in enumerate(self.load_columns):
            table[name] = table[name] + load[k] if name in table else load[k]
        return table.get

    @property
    def n_state_inputs(self) -> int:
        """Number of internal states and recorded channels that joint terms depend on."""
        return len(self.mechanism.internal_states) + len(self.mechanism.channels)

    @cached_property
    def n_extra_inputs(self) -> int:
        """Number of extra kernel inputs: internal states, channels, transmitted efforts."""
        return self.n_state_inputs + len(self.mechanism.load_dependent)

    def kernel_context(
        self,
        motion: Motion,
        dead_band: ArrayLike | None,
        *,
        transmitted: bool = True,
    ) -> FloatArray:
        """Return what joint terms depend on besides the motion.

        These are the dead bands, (n,), or if there are extra inputs,
        dead bands and extra inputs, (t, n + x). A motion without extra
        inputs is taken as a log of its own, with channels at their
        default values.

        Args:
            transmitted: Whether to include transmitted efforts.
        """
        band = self._band(dead_band)
        extra = motion.extra_inputs
        n_inputs = self.n_extra_inputs if transmitted else self.n_state_inputs
        if not n_inputs:
            return band
        if extra is None and transmitted:
            extra = self.with_internal_states(motion, band)[0].extra_inputs
        if extra is None:
            extra = integrate_internal_states(self.mechanism, motion, band)[0]
        bands = np.broadcast_to(band, (len(motion), len(band)))
        return np.hstack([bands, extra[:, :n_inputs]])

    def with_internal_states(
        self,
        motion: Motion,
        dead_band: ArrayLike | None,
        *,
        filter_state: FilterState | None = None,
        channels: Mapping[str, FloatArray] | None = None,
        periodic: bool = False,
        payload: str | None = None,
    ) -> tuple[Motion, FilterState | None]:
        """Return a motion with all extra inputs, and its internal state at the end.

        Args:
            dead_band: As in `regressor`.
            filter_state, channels, periodic: As in
                `integrate_internal_states`.
            payload: Name of the payload that the robot carries.
        """
        if not self.n_extra_inputs:
            return motion, None
        n_states = len(self.mechanism.internal_states)
        if channels is None and motion.extra_inputs is not None:
            channels = dict(zip(self.mechanism.channels, motion.extra_inputs[:, n_states:].T))
        extra, last_state = integrate_internal_states(
            self.mechanism,
            motion,
            self._band(dead_band),
            channels=channels,
            filter_state=filter_state,
            periodic=periodic,
        )
        moving = replace(motion, extra_inputs=extra)
        joints = self.mechanism.load_dependent
        transmitted = self.transmitted_effort(moving, dead_band, joints=joints, payload=payload)
        return replace(motion, extra_inputs=np.hstack([extra, transmitted])), last_state

    def transmitted_effort(
        self,
        motion: Motion,
        dead_band: ArrayLike | None,
        *,
        joints: Sequence[int],
        payload: str | None = None,
    ) -> FloatArray:
        """Return the efforts that motors transmit along a motion, (t, k). [N or N m]

        Args:
            dead_band: As in `regressor`.
            joints: Indices of the motors' joints, (k,).
            payload: Name of the payload that the robot carries.
        """
        if not joints:
            return np.zeros((len(motion), 0))
        parameters = self.transmitted.frictionless_parameters
        effort = self._row_efforts(motion, parameters, self.load(payload), dead_band)
        return effort[:, [self.independent.index(joint) for joint in joints]]

    def inverse_expressions(
        self, extra: int = 0, applied: ca.SX | None = None
    ) -> tuple[list[ca.SX], ca.SX, LoopExpressions]:
        """Return the symbols of `expressions`, chi and load, the rows' efforts and the chain.

        Transmitted efforts follow from the accelerations, or from
        efforts applied to the rows.
        """
        symbols, tree, closed = self.expressions(extra)
        chi = ca.SX.sym("chi", len(self.mechanism.standard))
        load = ca.SX.sym("load", len(self.load_columns))
        efforts = self.generalised_efforts(tree, closed.closure_map, chi, load, applied)
        return [*symbols, chi, load], efforts, closed

    @compiled
    def regressor_kernel(self, names: tuple[str, ...]) -> ca.Function:
        """Return the kernel (q, v, a, context) -> regressor (m, p), check.

        Velocities v and accelerations a are those of the rows, (m,).
        """
        symbols, tree, closed = self.expressions(self.n_extra_inputs)
        columns = self.projected_columns(tree, closed.closure_map, names)
        return ca.Function("regressor", symbols, [columns, closed.check])

    @compiled
    def effort_kernel(self, *, settled: bool = True) -> ca.Function:
        """Return the kernel (q, v, a, context, chi, load) -> efforts of the rows (m,), check.

        Args:
            settled: Whether internal states have settled; the context
                is then only the dead bands.
        """
        symbols, tau, closed = self.inverse_expressions(0 if settled else self.n_state_inputs)
        return ca.Function("efforts", symbols, [tau, closed.check])

    @compiled
    def dynamics_kernel(self) -> ca.Function:
        """Return the kernel (q, v, tau, band, chi, load) -> M, bias, acceleration, check.

        All outputs are those of the rows: mass matrix (m, m), bias
        (m,), acceleration (m,).
        """
        applied = ca.SX.sym("tau", self.degrees_of_freedom)
        (q, v, a, band, chi, load), tau, closed = self.inverse_expressions(applied=applied)
        mass = ca.densify(ca.jacobian(tau, a))
        bias = ca.substitute(tau, a, ca.SX.zeros(a.shape[0]))
        acceleration = cholesky_solve(mass, applied - bias)
        return ca.Function(
            "dynamics",
            [q, v, applied, band, chi, load],
            [mass, bias, acceleration, closed.check],
        )

    @compiled
    def platform_kernel(self) -> ca.Function:
        """Return the kernel q -> platform Jacobian of the tree, (6, n), in the base frame.

        Its rows are linear, then angular velocity.
        """
        q = ca.SX.sym("q", len(self.mechanism.joints))
        pose = body_transforms(self.mechanism, q)[self.mechanism.flange]
        return ca.Function("platform", [q], [pose.jacobian(q)])

    def _band(self, dead_band: ArrayLike | None) -> FloatArray:
        """Return the dead band of every coordinate, (n,)."""
        n = len(self.mechanism.joints)
        given = np.zeros(n) if dead_band is None else np.asarray(dead_band, dtype=float)
        check_shape(given, (n,) if given.ndim else (), "dead band")
        band = np.array(np.broadcast_to(given, (n,)))
        if not (band >= 0).all():
            raise InvalidInput("the dead band of the velocity sign must not be negative")
        return band

    def check_motion(self, motion: Motion) -> None:
        """Raise if a motion is empty or belongs to another robot."""
        if motion.coordinates != self.mechanism.coordinates:
            raise InvalidInput(
                f"the motion is not of '{self.mechanism.name}': its coordinates are "
                f"{', '.join(motion.coordinates[:4])}, ..."
            )
        if len(motion) == 0:
            raise InvalidInput("the motion has no samples")

    def regressor(
        self,
        motion: Motion,
        parameters: Sequence[str] | BaseParameters,
        *,
        dead_band: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the derivative of the efforts of the rows by parameters, (t, r, p).

        Args:
            parameters: Names (standard, tied, `payload.<name>.m`), or
                base parameters (their independent columns).
            dead_band: Velocity below which Coulomb terms are
                interpolated, scalar or (n,). [m/s or rad/s]
        """
        self.check_motion(motion)
        names = column_names(parameters)
        if not names:
            raise InvalidInput(
                "there are no parameters to take the regressor of; the list is empty"
            )
        (columns,) = evaluate_with_repivoting(
            Model.regressor_kernel,
            self,
            self.loops.dynamic,
            motion.q,
            motion.qd[:, self.independent],
            motion.qdd[:, self.independent],
            self.kernel_context(motion, dead_band),
            names=names,
        )
        regressor = np.asarray(columns.reshape(len(motion), -1, len(names)))
        if self.mechanism.may_be_undefined:
            self._check_terms(motion, names, regressor)
        return regressor

    def _check_terms(
        self, motion: Motion, names: Sequence[Parameter], regressor: FloatArray
    ) -> None:
        """Raise if a joint term is undefined on the motion, for instance divides by zero."""
        for k, name in enumerate(names):
            term = self.mechanism.terms.get(name.kind)
            if term is None or not term.may_be_undefined:
                continue
            valid = (np.abs(regressor[:, :, k]) < REGRESSOR_OVERFLOW).all(axis=1)
            if not valid.all():
                sample = int(np.argmin(valid))
                raise InvalidInput(
                    f"the term '{term.expression}' of {name} has no value at sample {sample} "
                    f"(t = {motion.time[sample]:.6g} s), or a huge one; does it divide by zero "
                    f"there?",
                    sample=sample,
                    term=term.name,
                    joint=name.owner,
                )

    def regression(
        self,
        motion: Motion,
        effort: FloatArray,
        parameters: Sequence[str] | BaseParameters,
        *,
        dead_band: ArrayLike | None = None,
        covariance: FloatArray | None = None,
        wrench: FloatArray | None = None,
    ) -> Regression:
        """Return the linear problem of a motion and its motor efforts.

        Args:
            effort: Motor efforts, (t, a). [N or N m]
            dead_band: As in `regressor`.
            covariance: Noise of the motor efforts, (a, a). Redundant
                robots get E_act^T Sigma E_act per sample.
            wrench: Known force and moment on the platform origin in the
                base frame, (t, 6) or (6,). [N, N m]
        """
        check_shape(effort, (len(motion), len(self.actuated)), "motor efforts")
        check_finite(effort, "motor efforts")
        rows = self.project_to_rows(motion.q, effort)
        if wrench is not None:
            rows = rows + self.wrench_efforts(motion.q, wrench)
        noise = covariance
        if self.loops.redundant and covariance is not None:
            act = self._motor_map(motion.q)
            noise = np.einsum("tam,ab,tbk->tmk", act, covariance, act)
        if isinstance(parameters, BaseParameters):
            names = parameters.names
            units = parameters.units
        else:
            names = named(parameters)
            units = tuple(self.unit(name) for name in names)
        regressor = self.regressor(motion, parameters, dead_band=dead_band)
        return Regression(
            regressor=without_copy(regressor),
            effort=rows,
            rows=self.rows,
            row_units=self.row_units,
            parameters=names,
            units=units,
            covariance=noise,
            time=motion.time,
        )

    def wrench_efforts(self, q: FloatArray, wrench: FloatArray) -> FloatArray:
        """Return the effect of a wrench on the platform on the rows, G_p^T w_ext, (t, m)."""
        check_shape(
            wrench,
            (6,) if wrench.ndim == 1 else (len(q), 6),
            "wrench on the platform",
        )
        wrench = np.broadcast_to(wrench, (len(q), 6))
        jacobian = self.platform_kernel()(q)[0].reshape(len(q), 6, -1)
        E = self.kinematics.closure_map(q)
        return np.asarray(np.einsum("tnm,tkn,tk->tm", E, jacobian, wrench, optimize=True))

    def inverse_dynamics(
        self,
        motion: Motion,
        values: ArrayLike | None = None,
        *,
        load: ArrayLike | None = None,
        dead_band: ArrayLike | None = None,
        wrench: FloatArray | None = None,
    ) -> FloatArray:
        """Return the motor efforts of a motion, (t, a); those of least norm if redundant.

        Their unit is N or N m.

        Args:
            values: Standard parameters, (p,) or (t, p); a priori by
                default.
            load: Inertial parameters of a payload, (10 l,), see `load`;
                ten are on the first body that carries one.
            dead_band: As in `regressor`.
            wrench: Known wrench on the platform, as in `regression`.
        """
        self.check_motion(motion)
        rows = self._row_efforts(motion, values, load, dead_band)
        if wrench is not None:
            rows = rows - self.wrench_efforts(motion.q, wrench)
        return self.min_norm_motor_effort(motion.q, rows)

    def _row_efforts(
        self,
        motion: Motion,
        values: ArrayLike | None,
        load: ArrayLike | None,
        dead_band: ArrayLike | None,
    ) -> FloatArray:
        """Return the efforts of the rows, (t, m); arguments as in `inverse_dynamics`."""
        settings = {"settled": False} if self.n_state_inputs else {}
        (rows,) = evaluate_with_repivoting(
            Model.effort_kernel,
            self,
            self.loops.dynamic,
            motion.q,
            motion.qd[:, self.independent],
            motion.qdd[:, self.independent],
            self.kernel_context(motion, dead_band, transmitted=False),
            *self.given_parameters(values, load),
            **settings,
        )
        return np.asarray(rows)

    def min_norm_motor_effort(self, q: FloatArray, rows: FloatArray) -> FloatArray:
        """Return the motor efforts of least norm (t, a) with a given effect on the rows (t, m)."""
        if not self.loops.redundant:
            return rows[:, [self.independent.index(i) for i in self.actuated]]
        act = self._motor_map(q)
        finite = np.isfinite(act).all(axis=(1, 2))
        inverse = np.linalg.pinv(act[finite].transpose(0, 2, 1))
        effort = np.full(act.shape[:2], np.nan)
        effort[finite] = np.einsum("tam,tm->ta", inverse, rows[finite])
        return effort

    def project_to_rows(self, q: FloatArray, effort: FloatArray) -> FloatArray:
        """Return the effect of motor efforts (t, a) on the rows, E_act^T tau, (t, m)."""
        if not self.loops.redundant:
            columns = [self.actuated.index(i) for i in self.independent]
            return np.ascontiguousarray(effort[:, columns])
        return np.asarray(np.einsum("tam,ta->tm", self._motor_map(q), effort))

    def _motor_map(self, q: FloatArray) -> FloatArray:
        """Return E_act, which maps velocities of the rows to those of the motors, (t, a, m)."""
        return self.kinematics.closure_map(q)[:, self.actuated, :]

    def forward_dynamics(
        self,
        q: FloatArray,
        velocity: FloatArray,
        effort: FloatArray,
        values: ArrayLike | None = None,
        *,
        load: ArrayLike | None = None,
        dead_band: ArrayLike | None = None,
        wrench: FloatArray | None = None,
    ) -> FloatArray:
        """Return the accelerations of the rows under motor efforts, (t, m).

        Args:
            q: All coordinates with the loops closed, (t, n).
            velocity: Of the row coordinates, (t, m).
            effort: Motor efforts, (t, a).
            values, load, dead_band, wrench: As in `inverse_dynamics`.
        """
        check_shape(effort, (len(q), len(self.actuated)), "motor efforts")
        rows = self.project_to_rows(q, effort)
        if wrench is not None:
            rows = rows + self.wrench_efforts(q, wrench)
        return self._dynamics(q, velocity, rows, values, load, dead_band)[2]

    def mass_matrix(
        self,
        q: FloatArray,
        values: ArrayLike | None = None,
        *,
        load: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the mass matrix of the rows, (t, m, m)."""
        zero = np.zeros((len(q), self.degrees_of_freedom))
        return self._dynamics(q, zero, zero, values, load, None)[0]

    def bias(
        self,
        q: FloatArray,
        velocity: FloatArray,
        values: ArrayLike | None = None,
        *,
        load: ArrayLike | None = None,
        dead_band: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the efforts of the rows at zero acceleration, (t, m).

        They consist of Coriolis, centrifugal, gravity and friction
        efforts.
        """
        return self._dynamics(q, velocity, np.zeros_like(velocity), values, load, dead_band)[1]

    def _dynamics(
        self,
        q: FloatArray,
        velocity: FloatArray,
        rows: FloatArray,
        values: ArrayLike | None,
        load: ArrayLike | None,
        dead_band: ArrayLike | None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mass matrix (t, m, m), bias (t, m) and acceleration (t, m) of the rows.

        Args:
            rows: Efforts on the rows, (t, m).
        """
        mass, bias, acceleration = evaluate_with_repivoting(
            Model.dynamics_kernel,
            self,
            self.loops.dynamic,
            q,
            velocity,
            rows,
            self._band(dead_band),
            *self.given_parameters(values, load),
        )
        return (
            mass.reshape(len(q), rows.shape[1], rows.shape[1]),
            bias,
            acceleration,
        )

    def given_parameters(
        self, values: ArrayLike | None, load: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return standard parameters (p,) and the load of all load bodies (10 l,).

        Ten load parameters are those of the first load body.
        """
        chi = self.mechanism.standard.values if values is None else np.asarray(values, dtype=float)
        inertial = np.zeros(0) if load is None else np.asarray(load, dtype=float)
        if inertial.ndim == 1:
            missing = np.zeros(len(self.load_columns) - len(inertial))
            inertial = np.concatenate([inertial, missing])
        return chi, inertial


Robot = Model | Mechanism | str | Path
"""A robot: compiled, as read, or the name or path of its file."""


def as_model(robot: Robot) -> Model:
    """Return the model of a robot given as a model, a mechanism, a name or a file."""
    if isinstance(robot, Model):
        return robot
    check_type(
        robot,
        (Mechanism, str, Path),
        "the robot",
        "a Model, a Mechanism, a bundled name or the path of its file",
    )
    return _model_of(robot) if isinstance(robot, Mechanism) else Model(load_robot(robot))


@lru_cache(maxsize=KEPT_MODELS)
def _model_of(mechanism: Mechanism) -> Model:
    """Return the model of a mechanism, the same one as long as few others were asked for."""
    return Model(mechanism)
