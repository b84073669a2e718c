"""The compiled model of a robot: regressor, inverse and forward dynamics in actuated coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput, nearest
from gough.core.inertia import seen_from
from gough.core.motion import Motion
from gough.core.names import INERTIAL, Parameter
from gough.core.names import parameters as named
from gough.core.parameters import BaseParameters, ParameterTable
from gough.core.regression import Regression
from gough.core.showing import expect
from gough.engine.elimination import cholesky_solve
from gough.engine.kinematics import CHECK, ClosedChain
from gough.engine.loops import Closure, close_loops, closure_expressions
from gough.engine.memory import Carry, remember
from gough.engine.symbolic import TreeEfforts, body_transforms
from gough.kernels.kernel import Kernel
from gough.mechanism.files import load_robot
from gough.mechanism.types import Mechanism

BLOCK = 2048  # samples per block: a 6 x 50 regressor of these stays in the second-level cache


class Model:
    """A mechanism compiled to kernels.

    The equation of motion, Jourdain's principle on the closed chain (BG13 (15)):

        sum_b G_b^T Y_b chi_b + sum_j E_j^T (ia qdd + fv qd + fs sign(qd) + ...)_j = E_act^T tau + G_p^T w_ext

    Its rows are the actuated coordinates, or the independent ones of a robot with more motors than degrees of freedom.

    Friction may depend on the effort u_j that a motor passes on, its row without its own friction,

        u_j = tau_j - f_j(q_j, qd_j, u_j),

    which makes efforts nonlinear in the parameters. Regressors take u_j as known, from `passing`.

    Args:
        mechanism: The robot.
        passing: Standard parameters, (p,), that u follows from; a priori by default.

    Raises:
        LoopNotClosed, SingularConfiguration, InvalidMechanism: The robot cannot be assembled (see `close_loops`).
    """

    def __init__(self, mechanism: Mechanism, passing: FloatArray | None = None) -> None:
        self.loops = close_loops(mechanism)
        self.mechanism = self.loops.mechanism  # with what holds joints that need no motor
        self.kinematics = ClosedChain(self.loops)
        self.passing = self.mechanism.standard.values if passing is None else passing

    def with_passing(self, values: FloatArray) -> Model:
        """Return the robot with other parameters that the efforts its joints pass on follow from."""
        other = copy(self)
        other.passing = values
        return other

    def __repr__(self) -> str:
        return (f"<Model of {self.mechanism.name}: {self.degrees_of_freedom} degrees of freedom, "
                f"{len(self.actuated)} motors, {len(self.mechanism.coordinates)} coordinates>")

    @property
    def degrees_of_freedom(self) -> int:
        """Number of independent coordinates."""
        return self.loops.degrees_of_freedom

    @property
    def home(self) -> FloatArray:
        """All coordinates at the start pose, loops closed, (n,). [m or rad]"""
        return self.loops.home

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Names of the equation rows: motors, or independent coordinates of a redundant robot."""
        return tuple(self.mechanism.coordinates[i] for i in self.independent)

    @cached_property
    def row_units(self) -> tuple[str, ...]:
        """Units of the rows' efforts."""
        return tuple(self.mechanism.joints[i].effort_unit for i in self.independent)

    @property
    def independent(self) -> tuple[int, ...]:
        """Indices of the coordinates whose equations are the rows."""
        return self.loops.partitions[self.loops.dynamic].independent

    @cached_property
    def actuated(self) -> tuple[int, ...]:
        """Indices of the actuated coordinates."""
        return tuple(i for i, joint in enumerate(self.mechanism.joints) if joint.actuated)

    @cached_property
    def load_bodies(self) -> tuple[str, ...]:
        """The bodies that carry payloads: those they name, or the robot's tool, (l,)."""
        named = dict.fromkeys(payload.body for payload in self.mechanism.payloads)
        return tuple(named) or (self.mechanism.flange,)

    @property
    def load_body(self) -> str:
        """The body that carries a payload without a name: that of the first one."""
        return self.load_bodies[0]

    @cached_property
    def load_columns(self) -> tuple[Parameter, ...]:
        """What a load is made of: ten inertial parameters of each body that may carry one, about its frame, (10 l,)."""
        return tuple(Parameter.of(body, kind) for body in self.load_bodies for kind in INERTIAL)

    def load(self, payload: str | None = None) -> FloatArray:
        """Return a payload as inertial parameters of the bodies that may carry one, (10 l,); zeros for none."""
        found = np.zeros(len(self.load_columns))
        if payload is not None:
            for kind, value in self.mechanism.payload(payload).values.items():
                found += value * self.unit_load(Parameter.of_payload(payload, kind))
        return found

    def unit_load(self, name: Parameter) -> FloatArray:
        """Return a unit of a payload's parameter, which is about the payload's frame, as a load, (10 l,)."""
        body, ten = self._mounted(name)
        start, found = len(INERTIAL) * self.load_bodies.index(body), np.zeros(len(self.load_columns))
        found[start:start + len(INERTIAL)] = ten
        return found

    def split_load(self, load: FloatArray) -> dict[str, FloatArray]:
        """Return the ten parameters of a load by the body that carries them."""
        return dict(zip(self.load_bodies, load.reshape(len(self.load_bodies), -1)))

    def _mounted(self, name: Parameter) -> tuple[str, FloatArray]:
        """Return the body that carries a payload, and a unit of the payload's parameter about that body's frame."""
        unit = np.eye(len(INERTIAL))[INERTIAL.index(name.kind)]
        payload = next((p for p in self.mechanism.payloads if p.name == name.payload), None)
        if payload is None or not payload.placement.steps:
            return (self.load_body if payload is None else payload.body), unit
        return payload.body, seen_from(payload.placement.matrix, unit)

    def resolve(self, name: str) -> tuple[Parameter, ...]:
        """Return the standard columns a parameter name stands for: itself, all its ties, or those of a load's body."""
        parameter = Parameter(name)
        if parameter in self.mechanism.ties:
            return self.mechanism.ties[parameter]
        if parameter in self._standard_names or parameter in self.load_columns:
            return (parameter,)
        if parameter.payload is not None and parameter.inertial:
            body, ten = self._mounted(parameter)
            return tuple(Parameter.of(body, kind) for kind, weight in zip(INERTIAL, ten) if weight)
        valid = [*self._standard_names, *self.mechanism.ties,
                 *(Parameter.of_payload(p.name, "m") for p in self.mechanism.payloads)]
        raise InvalidInput(f"'{self.mechanism.name}' has no parameter '{name}'{nearest(name, valid)}", name=name)

    @cached_property
    def _standard_names(self) -> frozenset[str]:
        return frozenset(self.mechanism.standard.names)

    def unit(self, name: str) -> str:
        """Return the unit of a parameter."""
        known = Parameter(name).unit
        return known or self.mechanism.standard.units[self.mechanism.standard.index(self.resolve(name)[0])]

    def parameter_names(self, *, tie_legs: bool = False) -> tuple[Parameter, ...]:
        """Return the standard parameter names in base order; tied ones once, under their common name, if asked."""
        names = [self.mechanism.standard.names[i] for i in self.mechanism.base_order]
        if not tie_legs:
            return tuple(names)
        common = {member: tied for tied, members in self.mechanism.ties.items() for member in members}
        return tuple(dict.fromkeys(common.get(name, name) for name in names))

    def values(self, names: Sequence[str], table: ParameterTable | Mapping[str, float] | None = None) -> FloatArray:
        """Return the values of named parameters (tied: the mean of the members) from a table, a priori by default."""
        source = (self.mechanism.standard if table is None else table)
        lookup = source.as_dict() if isinstance(source, ParameterTable) else dict(source)
        result = []
        for name in named(names):
            if name in lookup:
                result.append(lookup[name])
            elif name.payload is not None:
                result.append(float(self.mechanism.payload(name.payload).values.get(name.kind, 0.0)))
            else:
                result.append(float(np.mean([lookup[member] for member in self.resolve(name)])))
        return np.array(result)

    def standard_values(self, changes: Mapping[str, float] | None = None) -> FloatArray:
        """Return all standard parameters a priori, some replaced (tied names set all their members), (p,)."""
        table = self.mechanism.standard.as_dict()
        for name, value in (changes or {}).items():
            for member in self.resolve(name):
                table[member] = value
        return np.array([table[name] for name in self.mechanism.standard.names])

    def _symbols(self) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
        n, m = len(self.mechanism.joints), self.degrees_of_freedom
        return ca.SX.sym("q", n), ca.SX.sym("v", m), ca.SX.sym("a", m), ca.SX.sym("band", n)

    def projected_columns(self, tree: TreeEfforts, closure_map: ca.SX, names: Sequence[str]) -> ca.SX:
        """Return E^T times the tree columns of named parameters, (m, p)."""
        members = [self.resolve(name) for name in names]
        if len(tree.passed) < len(self.mechanism.loaded):
            self.pass_on(tree, closure_map, self.mechanism.standard.as_dict().get)
        flat = list(dict.fromkeys(m for group in members for m in group))
        columns = tree.columns(flat)
        position = {name: k for k, name in enumerate(flat)}
        weights = ca.DM(len(flat), len(members))
        for k, (name, group) in enumerate(zip(named(names), members)):
            ten = dict(zip(INERTIAL, self._mounted(name)[1])) if name.payload is not None else {}
            for member in group:
                weights[position[member], k] = ten.get(member.kind, 1.0)
        return closure_map.T @ (columns @ weights)

    def generalised_efforts(self, tree: TreeEfforts, closure_map: ca.SX, chi: ca.SX, load: ca.SX,
                            applied: ca.SX | None = None) -> ca.SX:
        """Return the rows' efforts (m,) for standard parameters chi (p,) and a load (10 l,) on the load bodies."""
        value = self.valued(chi, load)
        rows = self.pass_on(tree, closure_map, value, applied)
        for i in self.mechanism.loaded:
            rows[self.independent.index(i)] += tree.friction(i, value)
        return rows

    def valued(self, chi: ca.SX, load: ca.SX) -> Callable[[str], ca.SX | None]:
        """Return what gives a standard parameter by name, for parameters chi (p,) and a load (10 l,)."""
        index: dict[str, int] = {name: i for i, name in enumerate(self.mechanism.standard.names)}
        extra: dict[str, ca.SX] = {name: load[k] for k, name in enumerate(self.load_columns)}

        def value(name: str) -> ca.SX | None:
            own = chi[index[name]] if name in index else None
            more = extra.get(name)
            return own if more is None else more if own is None else own + more

        return value

    def pass_on(self, tree: TreeEfforts, closure_map: ca.SX, value: Callable[[str], Any],
                applied: ca.SX | None = None) -> ca.SX:
        """Let a tree know what its joints pass on; return the rows' efforts without friction that depends on it, (m,).

        Under applied efforts of the rows u_j = tau_j - f_j(u_j), by Newton's method; |u| needs one step of it.
        """
        rows = closure_map.T @ tree.total(value)
        for i in self.mechanism.loaded:
            row = self.independent.index(i)
            tree.passed[i] = rows[row]
            if applied is not None:
                tree.passed[i] = u = ca.SX.sym("u")
                wrong = u + tree.friction(i, value) - applied[row]
                better, found = u - wrong / ca.jacobian(wrong, u), ca.SX(0)
                for _ in range(4):
                    found = ca.substitute(better, u, found)
                tree.passed[i] = found
        return rows

    @property
    def remembers(self) -> int:
        """How many numbers besides the motion its terms depend on: lags and recorded channels."""
        return len(self.mechanism.memories) + len(self.mechanism.channels)

    @property
    def accompanying(self) -> int:
        """These, and how many joints have terms that depend on the effort they pass on."""
        return self.remembers + len(self.mechanism.loaded)

    def context(self, motion: Motion, dead_band: ArrayLike | None, *, passed: bool = True) -> FloatArray:
        """Return what terms depend on besides the motion: dead bands, (n,), or these and more, (t, n + x).

        More are lags, recorded channels and, if asked for, the efforts that joints pass on.

        A motion that does not say what is remembered is taken for a log of its own, with channels as usual.
        """
        band = self._band(dead_band)
        size = self.accompanying if passed else self.remembers
        if not size:
            return band
        extra = motion.remembered
        if extra is None and passed:
            extra = self.with_memory(motion, band)[0].remembered
        if extra is None:
            extra = remember(self.mechanism, motion, band)[0]
        return np.hstack([np.broadcast_to(band, (len(motion), len(band))), extra[:, :size]])

    def with_memory(self, motion: Motion, dead_band: ArrayLike | None, *, carry: Carry | None = None,
                    channels: Mapping[str, FloatArray] | None = None, around: bool = False,
                    payload: str | None = None) -> tuple[Motion, Carry | None]:
        """Return a motion that knows its lags, channels and efforts passed on, and what its continuation starts from.

        Channels that the motion knows already are kept. See `remember`.
        """
        if not self.accompanying:
            return motion, None
        kept = len(self.mechanism.memories)
        if channels is None and motion.remembered is not None:
            channels = dict(zip(self.mechanism.channels, motion.remembered[:, kept:].T))
        extra, after = remember(self.mechanism, motion, self._band(dead_band), channels=channels, carry=carry,
                                around=around)
        if self.mechanism.loaded:
            at = [self.independent.index(i) for i in self.mechanism.loaded]
            passed = self.passed_on(replace(motion, remembered=extra), dead_band, self.load(payload))
            extra = np.hstack([extra, passed[:, at]])
        return replace(motion, remembered=extra), after

    def passed_on(self, motion: Motion, dead_band: ArrayLike | None, load: FloatArray | None = None) -> FloatArray:
        """Return the rows' efforts without the friction of their own joints, (t, m), for the values of `passing`."""
        own = {joint.name for joint in (self.mechanism.joints[i] for i in self.independent)}
        lost = [p.owner in own and p.kind in self.mechanism.terms and self.mechanism.terms[p.kind].own_friction
                for p in self.mechanism.standard.names]
        return self._row_efforts(motion, np.where(lost, 0.0, self.passing), self._extra(load), dead_band)

    def inverse_expressions(self, extra: int = 0, applied: ca.SX | None = None) -> tuple[list[ca.SX], ca.SX, Closure]:
        """Return symbols q, v, a, band (and `extra` numbers remembered), chi, load, the rows' efforts and the chain.

        What joints pass on follows from the accelerations, or from efforts applied to the rows.
        """
        q, v, a, band = self._symbols()
        band = ca.vertcat(band, ca.SX.sym("remembered", extra))
        chi, load = ca.SX.sym("chi", len(self.mechanism.standard)), ca.SX.sym("load", len(self.load_columns))
        closure = closure_expressions(self.loops, self.loops.dynamic, q)
        qd, qdd = closure.rates(v, a)
        tree = TreeEfforts(self.mechanism, q, qd, qdd, band)
        tau = self.generalised_efforts(tree, closure.closure_map, chi, load, applied)
        return [q, v, a, band, chi, load], tau, closure

    def regressor_kernel(self, names: tuple[str, ...]) -> Kernel:
        """Return the kernel (q, v, a, context) -> regressor (m, p), check; v and a are those of the rows."""
        def build() -> ca.Function:
            q, v, a, band = self._symbols()
            band = ca.vertcat(band, ca.SX.sym("remembered", self.accompanying))
            closure = closure_expressions(self.loops, self.loops.dynamic, q)
            qd, qdd = closure.rates(v, a)
            tree = TreeEfforts(self.mechanism, q, qd, qdd, band)
            return ca.Function("regressor", [q, v, a, band],
                               [self.projected_columns(tree, closure.closure_map, names), closure.check])

        return self.kinematics.kernel(("regressor", names), build)

    def effort_kernel(self, *, settled: bool = True) -> Kernel:
        """Return the kernel (q, v, a, band, chi, load) -> efforts of the rows (m,), check.

        With settled lags; otherwise the kernel takes a `context` for the band.
        """
        extra = 0 if settled else self.remembers

        def build() -> ca.Function:
            symbols, tau, closure = self.inverse_expressions(extra)
            return ca.Function("efforts", symbols, [tau, closure.check])

        return self.kinematics.kernel(("efforts", extra), build)

    def dynamics_kernel(self) -> Kernel:
        """Return the kernel (q, v, tau, band, chi, load) -> mass matrix, bias, acceleration of the rows, check."""
        def build() -> ca.Function:
            applied = ca.SX.sym("tau", self.degrees_of_freedom)
            (q, v, a, band, chi, load), tau, closure = self.inverse_expressions(applied=applied)
            mass = ca.densify(ca.jacobian(tau, a))
            bias = ca.substitute(tau, a, ca.SX.zeros(a.shape[0]))
            acceleration = cholesky_solve(mass, applied - bias)
            return ca.Function("dynamics", [q, v, applied, band, chi, load], [mass, bias, acceleration, closure.check])

        return self.kinematics.kernel(("dynamics",), build)

    def platform_kernel(self) -> Kernel:
        """Return the kernel q -> platform Jacobian (6, n) of the tree: linear then angular velocity, base frame."""
        def build() -> ca.Function:
            q, _, _, _ = self._symbols()
            pose = body_transforms(self.mechanism, q)[self.mechanism.flange]
            spin = ca.jacobian(ca.vec(pose.rotation), q)
            angular = []
            for k in range(q.shape[0]):
                rate = ca.reshape(spin[:, k], 3, 3) @ pose.rotation.T
                angular.append(ca.vertcat(rate[2, 1], rate[0, 2], rate[1, 0]))
            jacobian = ca.vertcat(ca.jacobian(pose.translation, q), ca.horzcat(*angular))
            return ca.Function("platform", [q], [ca.densify(jacobian)])

        return self.kinematics.kernel(("platform",), build)

    def _band(self, dead_band: ArrayLike | None) -> FloatArray:
        n = len(self.mechanism.joints)
        given = np.zeros(n) if dead_band is None else np.asarray(dead_band, dtype=float)
        check_shape(given, (n,) if given.ndim else (), "dead band")
        band = np.array(np.broadcast_to(given, (n,)))
        if not (band >= 0).all():
            raise InvalidInput("the dead band of the velocity sign must not be negative")
        return band

    def _check_motion(self, motion: Motion) -> None:
        if motion.coordinates != self.mechanism.coordinates:
            raise InvalidInput(f"the motion is not of '{self.mechanism.name}': its coordinates are "
                               f"{', '.join(motion.coordinates[:4])}, ...")
        if len(motion) == 0:
            raise InvalidInput("the motion has no samples")

    def regressor(self, motion: Motion, parameters: Sequence[str] | BaseParameters, *,
                  dead_band: ArrayLike | None = None) -> FloatArray:
        """Return the derivative of the rows' efforts by parameters, (t, r, p).

        Args:
            motion: Motion of all coordinates.
            parameters: Names (standard, tied, `payload.<name>.m`), or base parameters (their independent columns).
            dead_band: Velocity below which Coulomb terms are interpolated, scalar or (n,). [m/s or rad/s]

        Raises:
            SingularConfiguration: The closures lose rank at a sample.
        """
        self._check_motion(motion)
        names = column_names(parameters)
        if not names:
            raise InvalidInput("there are no parameters to take the regressor of; the list is empty")
        v, a = (np.ascontiguousarray(x[:, list(self.independent)]) for x in (motion.qd, motion.qdd))
        context = self.context(motion, dead_band)
        result, check = self.regressor_kernel(names)(motion.q, v, a, context)
        result = result.reshape(len(motion), self.degrees_of_freedom, len(names))
        bad = np.flatnonzero(~(check.reshape(-1) < CHECK))
        if bad.size:
            result[bad] = self._careful_regressor(motion.q[bad], v[bad], a[bad], names, _at(context, bad), bad)
        self._check_terms(motion, names, result)
        return result

    def _check_terms(self, motion: Motion, names: Sequence[Parameter], regressor: FloatArray) -> None:
        """Raise where a term has no value on the motion: a division by zero, the root of what is negative."""
        for k, name in enumerate(names):
            term = self.mechanism.terms.get(name.kind)
            if term is None or not term.risky or np.isfinite(regressor[:, :, k]).all():
                continue
            sample = int(np.argmin(np.isfinite(regressor[:, :, k]).all(axis=1)))
            raise InvalidInput(f"the term '{term.expression}' of {name} has no value at sample {sample} "
                               f"(t = {motion.time[sample]:.6g} s); does it divide by zero there?", sample=sample,
                               term=term.name, joint=name.owner)

    def _careful_regressor(self, q: FloatArray, velocity: FloatArray, acceleration: FloatArray,
                           names: tuple[str, ...], context: FloatArray, samples: np.ndarray) -> FloatArray:
        """Return the regressor of samples where the fixed elimination order failed, (t, m, p)."""
        return self._careful(lambda tree, E: self.projected_columns(tree, E, names), (q, velocity, acceleration),
                             samples, context)

    def _careful_efforts(self, q: FloatArray, velocity: FloatArray, acceleration: FloatArray, context: FloatArray,
                         chi: FloatArray, load: FloatArray, samples: np.ndarray) -> FloatArray:
        """Return the rows' efforts of samples where the fixed elimination order failed, (t, m)."""
        rows = self._careful(self.generalised_efforts, (q, velocity, acceleration), samples, context, chi, load)
        return rows[:, :, 0]

    def _careful(self, build: Callable[..., ca.SX], motion: tuple[FloatArray, FloatArray, FloatArray],
                 samples: np.ndarray, context: FloatArray, *more: FloatArray) -> FloatArray:
        """Return what is built from a tree, a closure map and more symbols, with the closure map from pivoting."""
        n, m = len(self.mechanism.joints), self.degrees_of_freedom
        q, qd, qdd, E = (ca.SX.sym("q", n), ca.SX.sym("qd", n), ca.SX.sym("qdd", n), ca.SX.sym("E", n, m))
        around, *rest = symbols = [ca.SX.sym("given", given.shape[-1]) for given in (context, *more)]
        tree = TreeEfforts(self.mechanism, q, qd, qdd, around)
        function = ca.Function("careful", [q, qd, qdd, E, *symbols], [build(tree, E, *rest)])
        maps, qd_all, qdd_all = self.kinematics.pivoted_rates(*motion, self.loops.dynamic, samples)
        each = [np.broadcast_to(given, (len(samples), given.shape[-1])) for given in (context, *more)]
        return np.stack([np.array(function(*x)) for x in zip(motion[0], qd_all, qdd_all, maps, *each)])

    def blocks(self, motion: Motion, effort: FloatArray, parameters: Sequence[str] | BaseParameters, *,
               covariance: FloatArray | None = None) -> Iterator[Regression]:
        """Yield the regression in blocks that stay in cache; see `regression`."""
        motion = self.with_memory(motion, None)[0]
        for start in range(0, len(motion), BLOCK):
            part = slice(start, start + BLOCK)
            yield self.regression(motion.take(part), effort[part], parameters, covariance=covariance)

    def regression(self, motion: Motion, effort: FloatArray, parameters: Sequence[str] | BaseParameters, *,
                   dead_band: ArrayLike | None = None, covariance: FloatArray | None = None,
                   wrench: FloatArray | None = None) -> Regression:
        """Return the linear problem of a motion and its motor efforts.

        Args:
            motion: Motion of all coordinates.
            effort: Motor efforts, (t, a). [N or N m]
            parameters: Names or base parameters.
            dead_band: As in `regressor`.
            covariance: Noise of the motor efforts, (a, a). Redundant robots get E_act^T Sigma E_act per sample.
            wrench: Known force and moment on the platform origin in the base frame, (t, 6) or (6,). [N, N m]
        """
        effort = np.asarray(effort, dtype=float)
        check_shape(effort, (len(motion), len(self.actuated)), "motor efforts")
        check_finite(effort, "motor efforts")
        rows, noise = effort, covariance
        if self.loops.redundant:
            act = self.kinematics.closure_map(motion.q)[:, list(self.actuated), :]
            rows = np.einsum("tam,ta->tm", act, effort)
            noise = None if covariance is None else np.einsum("tam,ab,tbk->tmk", act, covariance, act)
        if wrench is not None:
            rows = rows + self.wrench_efforts(motion.q, wrench)
        names = parameters.names if isinstance(parameters, BaseParameters) else named(parameters)
        return Regression(
            regressor=self.regressor(motion, parameters, dead_band=dead_band), effort=rows, rows=self.rows,
            row_units=self.row_units, parameters=names, units=tuple(self.unit(n) for n in column_names(parameters)),
            covariance=noise, time=motion.time)

    def wrench_efforts(self, q: FloatArray, wrench: FloatArray) -> FloatArray:
        """Return G_p^T w_ext: what a wrench on the platform contributes to the rows, (t, m)."""
        wrench = np.asarray(wrench, dtype=float)
        check_shape(wrench, (6,) if wrench.ndim == 1 else (len(q), 6), "wrench on the platform")
        wrench = np.broadcast_to(wrench, (len(q), 6))
        jacobian = self.platform_kernel()(q)[0].reshape(len(q), 6, -1)
        return np.asarray(np.einsum("tnm,tkn,tk->tm", self.kinematics.closure_map(q), jacobian, wrench, optimize=True))

    def inverse_dynamics(self, motion: Motion, values: ArrayLike | None = None, *, load: ArrayLike | None = None,
                         dead_band: ArrayLike | None = None, wrench: FloatArray | None = None) -> FloatArray:
        """Return the motor efforts that a motion needs, (t, a). [N or N m]

        Redundant robots: the smallest efforts in the least-squares sense.

        Args:
            motion: Motion of all coordinates.
            values: Standard parameters, (p,) or (t, p); a priori by default.
            load: Inertial parameters of a payload, (10 l,), see `load`; ten are on the first body that carries one.
            dead_band: As in `regressor`.
            wrench: Known wrench on the platform, as in `regression`.
        """
        self._check_motion(motion)
        rows = self._row_efforts(motion, self._chi(values), self._extra(load), dead_band)
        if wrench is not None:
            rows = rows - self.wrench_efforts(motion.q, wrench)
        return self.distribute(motion.q, rows)

    def _row_efforts(self, motion: Motion, chi: FloatArray, load: FloatArray,
                     dead_band: ArrayLike | None) -> FloatArray:
        """Return the rows' efforts for parameters (p,) or (t, p) and a load (10 l,), (t, m)."""
        v, a = (np.ascontiguousarray(x[:, list(self.independent)]) for x in (motion.qd, motion.qdd))
        context = self.context(motion, dead_band, passed=False)
        rows, check = self.effort_kernel(settled=False)(motion.q, v, a, context, chi, load)
        bad = np.flatnonzero(~(check.reshape(-1) < CHECK))
        if bad.size:
            rows[bad] = self._careful_efforts(motion.q[bad], v[bad], a[bad], _at(context, bad), _at(chi, bad), load,
                                              bad)
        return rows

    def distribute(self, q: FloatArray, rows: FloatArray) -> FloatArray:
        """Return the smallest motor efforts (t, a) whose effect on the rows is given (t, m)."""
        if not self.loops.redundant:
            order = [self.independent.index(i) for i in self.actuated]
            return rows[:, order]
        act = self.kinematics.closure_map(q)[:, list(self.actuated), :]
        good = np.isfinite(act).all(axis=(1, 2))
        effort = np.full(act.shape[:2], np.nan)
        effort[good] = np.einsum("tam,tm->ta", np.linalg.pinv(act[good].transpose(0, 2, 1)), rows[good])
        return effort

    def collect(self, q: FloatArray, effort: FloatArray) -> FloatArray:
        """Return the effect of motor efforts (t, a) on the rows, E_act^T tau, (t, m)."""
        if not self.loops.redundant:
            return np.ascontiguousarray(effort[:, [self.actuated.index(i) for i in self.independent]])
        act = self.kinematics.closure_map(q)[:, list(self.actuated), :]
        return np.asarray(np.einsum("tam,ta->tm", act, effort))

    def forward_dynamics(self, q: FloatArray, velocity: FloatArray, effort: FloatArray,
                         values: ArrayLike | None = None, *, load: ArrayLike | None = None,
                         dead_band: ArrayLike | None = None, wrench: FloatArray | None = None) -> FloatArray:
        """Return the rows' accelerations under motor efforts, (t, m).

        Args:
            q: All coordinates with the loops closed, (t, n).
            velocity: Of the row coordinates, (t, m).
            effort: Motor efforts, (t, a).
            values, load, dead_band, wrench: As in `inverse_dynamics`.
        """
        effort = np.asarray(effort, dtype=float)
        check_shape(effort, (len(q), len(self.actuated)), "motor efforts")
        rows = self.collect(q, effort)
        if wrench is not None:
            rows = rows + self.wrench_efforts(q, wrench)
        return self._dynamics(q, velocity, rows, values, load, dead_band)[2]

    def mass_matrix(self, q: FloatArray, values: ArrayLike | None = None, *,
                    load: ArrayLike | None = None) -> FloatArray:
        """Return the mass matrix of the rows, (t, m, m)."""
        zero = np.zeros((len(q), self.degrees_of_freedom))
        return self._dynamics(q, zero, zero, values, load, None)[0]

    def bias(self, q: FloatArray, velocity: FloatArray, values: ArrayLike | None = None, *,
             load: ArrayLike | None = None, dead_band: ArrayLike | None = None) -> FloatArray:
        """Return the efforts of the rows at zero acceleration: Coriolis, gravity, friction, (t, m)."""
        return self._dynamics(q, velocity, np.zeros_like(velocity), values, load, dead_band)[1]

    def _dynamics(self, q: FloatArray, velocity: FloatArray, rows: FloatArray, values: ArrayLike | None,
                  load: ArrayLike | None, dead_band: ArrayLike | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mass matrix (t, m, m), bias (t, m) and acceleration (t, m) of the rows under their efforts (t, m)."""
        chi, extra, band = self._chi(values), self._extra(load), self._band(dead_band)
        m = self.degrees_of_freedom
        mass, bias, acceleration, check = self.dynamics_kernel()(q, velocity, rows, band, chi, extra)
        mass = mass.reshape(len(q), m, m)
        for k in np.flatnonzero(~(check.reshape(-1) < CHECK)):  # the columns of the mass matrix one by one
            at, speed = (np.repeat(x[k][None], m + 1, axis=0) for x in (q, velocity))
            own = chi if chi.ndim == 1 else chi[k]
            efforts = self._careful_efforts(at, speed, np.eye(m + 1, m, -1), band, own, extra, np.full(m + 1, k))
            bias[k], mass[k] = efforts[0], (efforts[1:] - efforts[0]).T
            acceleration[k] = np.nan
            if np.isfinite(mass[k]).all() and np.isfinite(rows[k] - bias[k]).all():
                acceleration[k] = np.linalg.lstsq(mass[k], rows[k] - bias[k], rcond=None)[0]
        return mass, bias, acceleration

    def _chi(self, values: ArrayLike | None) -> FloatArray:
        return self.mechanism.standard.values if values is None else np.asarray(values, dtype=float)

    def _extra(self, load: ArrayLike | None) -> FloatArray:
        """Return a load for all bodies that may carry one; ten parameters are on the first."""
        given = np.zeros(0) if load is None else np.asarray(load, dtype=float)
        return np.concatenate([given, np.zeros(len(self.load_columns) - given.shape[-1])]) if given.ndim == 1 else given


def _at(context: FloatArray, samples: np.ndarray) -> FloatArray:
    return context if context.ndim == 1 else context[samples]


def column_names(parameters: Sequence[str] | BaseParameters) -> tuple[Parameter, ...]:
    """Return the columns to evaluate: the names themselves, or the independent columns of base parameters."""
    if isinstance(parameters, BaseParameters):
        return tuple(parameters.standard[i] for i in parameters.independent)
    return named(parameters)


Robot = Model | Mechanism | str | Path
"""A robot: compiled, as read, or the name or path of its file."""


def as_model(robot: Robot) -> Model:
    """Return a robot compiled, whatever it was given as."""
    if isinstance(robot, Model):
        return robot
    expect(robot, (Mechanism, str, Path), "the robot", "a Model, a Mechanism, a bundled name or the path of its file")
    return Model(robot if isinstance(robot, Mechanism) else load_robot(robot))
