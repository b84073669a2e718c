"""The physically consistent parameters that data and a prior make most plausible, by Newton steps.

With J the pseudo-inertia of a body and J_0 = L L^T that of its prior, Y
= L^-1 J L^-T is the body relative to its prior. The log-determinant
divergence (James & Stein 1961; Lee, Wensing & Park 2019)

    D(J, J_0) = tr(Y - 1) - log det Y

is convex in the ten parameters, zero at the prior, does not depend on
frame, unit or size, and infinite where the body cannot exist. For small
changes it is |Y - 1|^2 / 2. Of one positive number it is y - log y - 1.
Minimised is

    |design x - offset|^2 / 2  +  sum over bodies and terms  D / relative^2,

relative being how far the prior may be off, as a fraction of its
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import InvalidInput, NotConverged
from gough.core.names import INERTIAL, Parameter
from gough.core.notices import Notice
from gough.fitting.pseudo_inertia import (
    Body,
    group_bodies,
    inertial_parameters,
    metric,
    possible_body,
    prior_body,
    symmetric_basis,
    usual_size,
)
from gough.fitting.solve import null_space

# lowest x, y, z, then highest [m]
Box = tuple[float, float, float, float, float, float]
# Weight of the logarithm that keeps a parameter above zero, or a body
# inside its box, where the prior has no divergence for it: without data
# it ends at 1 % of its scale
_BARRIER = 1e-4
# by which the weight of the prior falls at most from one stage to the
# next
_WEIGHT_STEP = 100.0
_MIN_WEIGHT_STEP = 1.05  # it is lowered to where a stage does not end
_STAGE_STEPS = 30  # Newton steps of one stage
# Squared Newton decrement, in units of the weight of the prior, that
# ends a stage and the search
_STAGE_DECREMENT = 1e-2
_FINAL_DECREMENT = 1e-12
# Squared decrement, as a fraction of the misfit where that exceeds one,
# of a search that rounding stops
_ACCEPTED_DECREMENT = 1e-6
_ZERO_TOLERANCE = 1e-9  # of the rank of equations that set parameters to zero
# fraction of a Newton step below which rounding stops the search
_MIN_STEP = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class _Penalty:
    """Divergence from the prior at a point, with gradient J^T r and Hessian J^T J."""

    value: float
    residual: FloatArray  # r, (k,)
    jacobian: FloatArray  # J, (k, n)


class NearestBodies:
    """Standard parameters as coordinates relative to a prior, and the search among them.

    chi = values + map @ x: ten coordinates for each body (an
    orthonormal basis of symmetric matrices Y - 1), then one for every
    other parameter, relative to its scale.

    Args:
        names: Standard parameters.
        values: Their prior values, (p,).
        relative: How far each may be off, as a fraction of its value,
            (p,).
        nonnegative: Kinds of parameters that cannot be negative besides
            masses.
        boxes: Box in its own frame that holds all mass of a body, by
            body.
        scales: Usual size of each parameter, (p,), for those that are
            not inertial and have no prior value; 1 by default.
    """

    def __init__(
        self,
        names: Sequence[Parameter],
        values: FloatArray,
        relative: FloatArray,
        nonnegative: Sequence[str] = (),
        boxes: Mapping[str, Box] | None = None,
        scales: FloatArray | None = None,
    ) -> None:
        self.names = tuple(names)
        self.values = values.copy()
        self.bodies = group_bodies(names)
        self.basis = symmetric_basis()
        self.metrics: list[FloatArray] = []
        self.notices: list[Notice] = []
        inertial: set[int] = set()
        for body in self.bodies:
            inertial.update(body.standard)
        self.others = [i for i in range(len(names)) if i not in inertial]
        self._ten = 10 * len(self.bodies)
        self.map = np.zeros((len(names), self._ten + len(self.others)))
        self._body_weight = np.ones(len(self.bodies))
        structural_zeros = [np.zeros((0, self.map.shape[1]))]
        size = usual_size(self.bodies, values)
        for k, body in enumerate(self.bodies):
            step = self._add_body(k, body, size)
            structural_zeros.append(step[list(body.zeros)])
            self._body_weight[k] = 1 / np.mean(relative[list(body.standard)] ** 2)
        self._set_scales(relative, nonnegative, np.ones(len(names)) if scales is None else scales)
        zeros = np.vstack(structural_zeros)
        norm = np.linalg.norm(zeros, axis=1, keepdims=True)
        self._free = null_space(zeros / np.maximum(norm, TINY), _ZERO_TOLERANCE)
        self._box_rows, self._box_slack = self._add_boxes(boxes or {})

    def _add_body(self, k: int, body: Body, size: float) -> FloatArray:
        """Set prior, metric and map of a body; return the map to its ten parameters, (10, n)."""
        consistent, thickness = possible_body(prior_body(body, self.values, size), size)
        self.values[list(body.standard)] = consistent[list(body.present)]
        if thickness > 0:
            text = (
                "the prior has no thickness or is not physically consistent: its mass was "
                f"spread by {thickness:.2g} m along each axis"
            )
            rule = "physical consistency"
            self.notices.append(Notice(rule=rule, level="info", where=body.name, text=text))
        L = metric(consistent)
        self.metrics.append(L)
        step = np.zeros((10, self.map.shape[1]))
        step[:, 10 * k : 10 * k + 10] = inertial_parameters(L @ self.basis @ L.T).T
        self.map[list(body.standard)] = step[list(body.present)]
        return step

    def _set_scales(
        self, relative: FloatArray, nonnegative: Sequence[str], usual: FloatArray
    ) -> None:
        """Set scale, weight and sign of the parameters that are not inertial."""
        known = np.abs(self.values[self.others])
        scale = np.where(known > 0, known, usual[self.others])
        for j, i in enumerate(self.others):
            self.map[i, self._ten + j] = scale[j]
        self._prior_ratio = self.values[self.others] / scale
        self._weight = 1 / relative[self.others] ** 2
        kinds = [self.names[i].kind for i in self.others]
        self._positive = np.isin(kinds, list(nonnegative))

    def _add_boxes(self, boxes: Mapping[str, Box]) -> tuple[FloatArray, FloatArray]:
        """Return rows and prior values of what boxes demand, (k, n) and (k,).

        All mass between low and high along an axis has integral (x -
        low) (high - x) dm >= 0.
        """
        rows = [np.zeros((0, self.map.shape[1]))]
        slacks: list[float] = []
        position = {body.name: k for k, body in enumerate(self.bodies)}
        for name, box in boxes.items():
            if name not in position:
                continue
            k = position[name]
            L = self.metrics[k]
            for axis in range(3):
                low = box[axis]
                high = box[axis + 3]
                quadric = np.zeros((4, 4))
                quadric[axis, axis] = -1.0
                quadric[axis, 3] = quadric[3, axis] = (low + high) / 2
                quadric[3, 3] = -low * high
                relative_quadric = L.T @ quadric @ L
                slack = float(np.trace(relative_quadric))
                if not slack > 0:
                    raise InvalidInput(
                        f"body '{name}' of the robot file does not fit into its own box: along "
                        f"{'xyz'[axis]} its mass is not between {low:g} and {high:g} m; correct "
                        "centre of mass, inertia or box",
                        body=name,
                    )
                row = np.zeros((1, self.map.shape[1]))
                row[0, 10 * k : 10 * k + 10] = self._coordinates(relative_quadric)
                rows.append(row / slack)
                slacks.append(1.0)
        return np.vstack(rows), np.array(slacks)

    def _coordinates(self, matrices: FloatArray) -> FloatArray:
        """Return symmetric matrices (..., 4, 4) in the basis, (..., 10)."""
        return np.asarray(np.einsum("kij,...ij->...k", self.basis, matrices))

    def change(self, x: FloatArray, body: int) -> FloatArray:
        """Return Y - 1 of a body, (4, 4)."""
        return np.asarray(np.tensordot(x[10 * body : 10 * body + 10], self.basis, axes=1))

    def standard(self, x: FloatArray) -> FloatArray:
        """Return the standard parameters at a point, (p,)."""
        return np.asarray(self.values + self.map @ x)

    def inertia(self, x: FloatArray, body: int) -> FloatArray:
        """Return the ten inertial parameters of a body at a point, (10,)."""
        L = self.metrics[body]
        return inertial_parameters(L @ (np.eye(4) + self.change(x, body)) @ L.T)

    def divergence(self, x: FloatArray) -> float:
        """Return the weighted divergence from the prior."""
        penalty = self._penalty(x)
        return np.inf if penalty is None else penalty.value

    def solve(self, design: FloatArray, offset: FloatArray) -> FloatArray:
        """Return the point of least misfit and divergence, (n,).

        The weight of the prior starts where it outweighs the data and
        falls to one, in steps so small that each stage starts near its
        solution.

        Args:
            design: Whitened equations of the standard parameters, (b,
                p).
            offset: Their right-hand sides, (b,).

        Raises:
            NotConverged: Newton's method stopped before the solution.
        """
        matrix = design @ self.map @ self._free
        target = offset - design @ self.values
        x = np.zeros(self.map.shape[1])
        absent = self._positive & (self._prior_ratio <= 0)
        x[self._ten :][absent] = np.sqrt(_BARRIER) - self._prior_ratio[absent]
        weight = max(1.0, float(target @ target))
        goal = _STAGE_DECREMENT if weight > 1.0 else _FINAL_DECREMENT
        x, decrement = self._minimise(x, matrix, target, weight, goal)
        step = _WEIGHT_STEP
        while weight > 1.0:
            lower = max(weight / step, 1.0)
            goal = _STAGE_DECREMENT if lower > 1.0 else _FINAL_DECREMENT
            moved, decrement = self._minimise(x, matrix, target, lower, goal)
            if decrement > _STAGE_DECREMENT and step > _MIN_WEIGHT_STEP:
                step = max(np.sqrt(step), _MIN_WEIGHT_STEP)
                continue
            x = moved
            weight = lower
            step = min(step**1.5, _WEIGHT_STEP)
        misfit = matrix @ (self._free.T @ x) - target
        accepted = _ACCEPTED_DECREMENT * max(1.0, float(misfit @ misfit))
        if decrement > accepted:
            raise NotConverged(
                f"the search for physically consistent bodies stopped with a decrement of "
                f"{decrement:.3g}, expected below {accepted:.3g}; is the prior far from the data "
                "(units, swapped legs)?",
                decrement=decrement,
            )
        return x

    def _minimise(
        self, x: FloatArray, matrix: FloatArray, target: FloatArray, weight: float, goal: float
    ) -> tuple[FloatArray, float]:
        """Return the minimum at one weight of the prior, and the squared decrement over it."""
        decrement = np.inf
        for _ in range(_STAGE_STEPS):
            penalty = self._penalty(x)
            assert penalty is not None
            misfit = matrix @ (self._free.T @ x) - target
            stacked = np.vstack([matrix, np.sqrt(weight) * penalty.jacobian @ self._free])
            residual = np.concatenate([misfit, np.sqrt(weight) * penalty.residual])
            Q, R = np.linalg.qr(stacked)
            projected = Q.T @ residual
            step = -self._free @ np.linalg.solve(R, projected)
            squared = float(projected @ projected)
            decrement = squared / weight
            if decrement < goal:
                break
            value = float(misfit @ misfit) / 2 + weight * penalty.value
            fraction = self._fraction(x, step, matrix, target, weight, value, squared)
            if fraction < _MIN_STEP:
                break
            x = x + fraction * step
        return x, decrement

    def _fraction(
        self,
        x: FloatArray,
        step: FloatArray,
        matrix: FloatArray,
        target: FloatArray,
        weight: float,
        value: float,
        squared: float,
    ) -> float:
        """Return the fraction of a Newton step that stays inside and descends (Armijo)."""
        fraction = 1.0
        rounding = 1e-12 * abs(value)
        while fraction >= _MIN_STEP:
            moved = x + fraction * step
            penalty = self._penalty(moved)
            if penalty is not None:
                misfit = matrix @ (self._free.T @ moved) - target
                reached = float(misfit @ misfit) / 2 + weight * penalty.value
                if reached <= value - 0.1 * fraction * squared + rounding:
                    return fraction
            fraction /= 2
        return fraction

    def _penalty(self, x: FloatArray) -> _Penalty | None:
        """Return the divergence from the prior; None where bodies cannot exist."""
        n = len(x)
        ratio = self._prior_ratio + x[self._ten :]
        slack = self._box_slack + self._box_rows @ x
        if (ratio[self._positive] <= 0).any() or (slack <= 0).any():
            return None
        value = 0.0
        residual = np.zeros(n)
        jacobian = np.zeros((n, n))
        for k, weight in enumerate(self._body_weight):
            columns = slice(10 * k, 10 * k + 10)
            change = self.change(x, k)
            try:
                C = np.linalg.cholesky(np.eye(4) + change)
            except np.linalg.LinAlgError:
                return None
            inverse = np.linalg.inv(C)
            value += weight * float(np.trace(change) - 2 * np.log(np.diag(C)).sum())
            root = np.sqrt(weight)
            residual[columns] = root * self._coordinates(C.T @ C - np.eye(4))
            moved = inverse @ self.basis @ inverse.T
            jacobian[columns, columns] = root * self._coordinates(moved).T
        log_rows = [np.zeros((0, n))]
        n_logs = len(slack)
        if n_logs:
            value -= _BARRIER * float(np.log(slack).sum())
            log_rows.append(np.sqrt(_BARRIER) * self._box_rows / slack[:, None])
        for j, weight in enumerate(self._weight):
            i = self._ten + j
            root = np.sqrt(weight)
            if self._positive[j] and self._prior_ratio[j] > 0:
                value += weight * float(ratio[j] - np.log(ratio[j]) - 1)
                residual[i] = root * (ratio[j] - 1)
                jacobian[i, i] = root / ratio[j]
                continue
            value += weight * x[i] ** 2 / 2
            residual[i] = root * x[i]
            jacobian[i, i] = root
            if self._positive[j]:
                value -= weight * _BARRIER * float(np.log(ratio[j]))
                row = np.zeros((1, n))
                row[0, i] = root * np.sqrt(_BARRIER) / ratio[j]
                log_rows.append(row)
                n_logs += 1
        log_residual = self._log_residual(n_logs, len(slack))
        return _Penalty(
            value=value,
            residual=np.concatenate([residual, log_residual]),
            jacobian=np.vstack([jacobian, *log_rows]),
        )

    def _log_residual(self, count: int, n_boxes: int) -> FloatArray:
        """Return the residuals of the logarithms of boxes, then of parameters above zero."""
        residual = np.full(count, -np.sqrt(_BARRIER))
        absent = self._positive & ~(self._prior_ratio > 0)
        residual[n_boxes:] *= np.sqrt(self._weight[absent])
        return residual

    def determined(self, x: FloatArray, design: FloatArray) -> FloatArray:
        """Return the fraction of the information on each parameter that is the data's, (p,).

        One minus its variance given data and prior over that given the
        prior alone, both from the Hessian at x.
        """
        penalty = self._penalty(x)
        assert penalty is not None
        prior = penalty.jacobian @ self._free
        stacked = np.vstack([design @ self.map @ self._free, prior])
        rows = (self.map @ self._free).T
        variance = _variances(stacked, rows)
        prior_variance = _variances(prior, rows)
        known = prior_variance > 0
        ratio = np.divide(variance, prior_variance, out=np.ones_like(variance), where=known)
        return np.asarray(np.clip(1 - ratio, 0.0, 1.0))


def _variances(equations: FloatArray, combinations: FloatArray) -> FloatArray:
    """Return the variance of each combination (n, p) of unknowns of whitened equations, (p,)."""
    R: FloatArray = np.asarray(np.linalg.qr(equations, mode="r"))
    return np.asarray((np.linalg.solve(R.T, combinations) ** 2).sum(axis=0))


def total_mass_row(names: Sequence[Parameter], members: Mapping[str, int]) -> FloatArray:
    """Return the coefficients of the standard parameters in the mass of all bodies, (p,)."""
    mass_kind = INERTIAL[0]
    row = np.zeros(len(names))
    for i, name in enumerate(names):
        if name.inertial and name.kind == mass_kind:
            row[i] = members.get(name, 1)
    return row
