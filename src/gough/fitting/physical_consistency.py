"""Physically consistent standard parameters: those nearest to a prior among those the data allow.

Data determine the base parameters beta = M chi only. Among all standard parameters chi that
some robot could have (every body's pseudo-inertia positive definite, no negative friction
or rotor inertia) this finds, by two semidefinite programmes,

    1.  f = min |R (M chi - beta)|^2                               the best fit a possible
    robot can give
    2.  min distance(chi, prior)  with  |R (M chi - beta)|^2 <= f + loss     the nearest of
    those that fit as well

R is the triangular factor of the whitened regression, so one unit of f is one noise
variance. If the base estimate is possible, f = 0 and beta stays within sqrt(loss) standard
deviations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InvalidInput, NotConverged
from gough.core.names import Parameter, index_of
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters, ParameterTable
from gough.core.statistics import chi2_quantile
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Estimate
from gough.fitting.problem import LinearProblem, statistics_of
from gough.fitting.pseudo_inertia import (
    group_bodies,
    inertial_parameters,
    metric,
    possible_body,
    prior_body,
    symmetric_basis,
    usual_size,
)

_MIN_RELATIVE_NOISE = 1e-6  # of the effort; keeps problems without noise solvable
_MAX_DUALITY_GAP = 1e-4  # relative, of a solution that is accepted without full convergence
_PRIOR_WEIGHT = 1e-7  # of the distance to the prior in the first programme: a unique solution


@dataclass(frozen=True, kw_only=True, eq=False)
class PhysicalEstimate:
    """Physically consistent standard parameters, and the base estimate they give.

    The standard parameters have no standard errors: data determine the base parameters
    only, the others follow the prior. The estimate keeps the covariance of the
    unconstrained one: moved onto the consistent set it is no longer Gaussian.
    """

    standard: ParameterTable
    # Ten inertial parameters of every body, also those that are not in the model
    bodies: Mapping[str, FloatArray]
    estimate: Estimate  # of the base parameters M chi
    # Smallest eigenvalue of each pseudo-inertia over its prior; zero is the limit [1]
    margins: Mapping[str, float]
    boundary: tuple[str, ...]  # bodies and parameters at their constraints
    # |R (M chi - beta)|^2 of these parameters [noise variances]
    misfit: float
    least_misfit: float  # smallest misfit of any physically consistent parameters [1]
    distance: float  # to the prior, see `Feasible` [1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Feasible:
    """Settings of the physically consistent estimation.

    The distance to the prior is the root of  sum over bodies |L^-1 (J - J_0) L^-T|^2  (J_0
    = L L^T: relative to the prior body, independent of frame, unit and size)  plus  ((value
    - prior) / scale)^2  of the other parameters, scale being the prior's size, or that of
    its kind where it is zero.

    Args:
        margin: Every body keeps at least this fraction of its prior in every direction of
            its pseudo-inertia.
        loss: Misfit above the smallest that is accepted to be near the prior. [noise
            variances] 1 moves no combination by more than its standard error. The true
            parameters themselves have a misfit near the number b of base parameters: a loss
            of b follows the prior as far as the noise allows, which is better where data
            are poor and the prior is good. Where even the smallest misfit exceeds b, errors
            are larger than the stated noise, and the loss grows by the same ratio.
        nonnegative: Kinds of parameters that cannot be negative besides masses; those a
            robot's terms name by default.
    """

    margin: float = 1e-6
    loss: float = 1.0
    nonnegative: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1 or not self.loss > 0:
            raise InvalidInput(
                f"margin is {self.margin} and loss {self.loss}, expected a margin from 0 to below "
                "1 and a positive loss"
            )

    def fit(
        self,
        problem: LinearProblem,
        base: Estimate,
        *,
        model: BaseParameters,
        prior: ParameterTable,
    ) -> PhysicalEstimate:
        """Return the consistent parameters nearest to the prior.

        Args:
            problem: Regression of the base parameters, or its block statistics.
            base: Estimate of base parameters from it, all or some.
            model: Which combinations of standard parameters the base parameters are.
            prior: Values of all standard parameters, e.g. from a drawing. Bodies that
                cannot exist, or only just (a rod without thickness), are thickened until
                they can (`possible_body`); a notice names them.
        """
        selected = problem.select(base.parameters)
        R = _whitened_factor(statistics_of(selected), base)
        rows = [index_of(model.names, name, "base parameter") for name in base.parameters]
        matrix = model.matrix[rows]
        programme = _Programme(
            self,
            model.standard,
            np.array([prior[name] for name in model.standard]),
            R @ matrix,
            R @ base.values,
        )
        least = programme.misfit(programme.solve(None))
        allowed = least + self.loss * max(1.0, least / len(matrix))
        x = programme.inside(programme.solve(np.sqrt(allowed)))
        misfit = programme.misfit(x)
        if misfit > 2 * allowed - least:
            raise NotConverged(
                f"physically consistent bodies have a misfit of {misfit:.4g} noise variances "
                f"instead of {allowed:.4g}; is the prior far from the data (units, swapped legs)?",
                misfit=misfit,
                allowed=allowed,
            )
        standard = programme.values + programme.map @ x
        nonnegative = programme.nonnegative
        standard[nonnegative] = np.maximum(standard[nonnegative], 0.0)  # tolerance of the solver
        bodies = {}
        margins = {}
        boundary: list[str] = []
        for k, body in enumerate(programme.bodies):
            L = programme.metrics[k]
            change = programme.change(x, k)
            bodies[body.name] = frozen(inertial_parameters(L @ (np.eye(4) + change) @ L.T))
            margins[body.name] = 1 + float(np.linalg.eigvalsh(change)[0])
            if margins[body.name] < self.margin + 1e-5:
                boundary.append(body.name)
        for i in nonnegative:
            if standard[i] <= 1e-6 * programme.scale[i]:
                boundary.append(model.standard[i])
        residual = selected.residual_statistics(matrix @ standard)
        notices = _notices(base, model, least, tuple(boundary))
        estimate = replace(
            base,
            values=matrix @ standard,
            residual_rms=residual.rms,
            residual_relative=residual.relative,
            residual_mean=residual.mean,
            method=f"physically consistent, from {base.method}",
            notices=(*base.notices, *notices, *programme.notices),
        )
        return PhysicalEstimate(
            standard=ParameterTable(
                names=model.standard,
                values=standard,
                units=tuple(prior.units[prior.index(name)] for name in model.standard),
            ),
            bodies=bodies,
            estimate=estimate,
            margins=margins,
            boundary=tuple(boundary),
            misfit=misfit,
            least_misfit=least,
            distance=float(np.linalg.norm(x)),
        )


def _whitened_factor(statistics: BlockStatistics, base: Estimate) -> FloatArray:
    """Return a triangular factor of the regressor with rows over their noise, (b, b)."""
    noise = base.residual_rms
    if base.noise_covariance is not None:
        noise = np.sqrt(np.diag(base.noise_covariance))
    effort_norm = np.linalg.norm(statistics.factors[:, :, -1], axis=1)
    effort_rms = effort_norm / np.sqrt(np.maximum(statistics.n_valid, 1))
    sigma = np.maximum(noise, _MIN_RELATIVE_NOISE * effort_rms)
    row_scale = np.where(sigma > 0, sigma, 1.0)
    whitened = statistics.factors[:, :, :-1] / row_scale[:, None, None]
    return np.asarray(np.linalg.qr(np.concatenate(whitened), mode="r"))


def _notices(
    base: Estimate,
    model: BaseParameters,
    least: float,
    boundary: tuple[str, ...],
) -> list[Notice]:
    """Return notices on the misfit, the boundary and the prior."""
    notices = [_notice("standard parameters beyond the base combinations come from the prior")]
    limit = chi2_quantile(0.99, max(len(base.parameters), 1))
    if least > limit:
        text = (
            f"no physically consistent robot fits: the nearest is {least:.4g} noise variances "
            f"away, chance explains {limit:.4g}"
        )
        notices.append(_notice(text, advice="check the model, the noise and the drive gains"))
    elif least > 0.01:
        text = (
            "the unconstrained estimate is not physically consistent; the nearest that is lies "
            f"{least:.3g} noise variances away, which chance explains"
        )
        notices.append(_notice(text))
    if boundary:
        text = "on the boundary of physical consistency; the covariance ignores this"
        notices.append(_notice(text, where=", ".join(boundary)))
    missing = len(model.names) - len(base.parameters)
    if missing:
        notices.append(
            _notice(f"{missing} base parameters were not estimated and follow the prior")
        )
    return notices


def _notice(text: str, *, where: str = "", advice: str = "") -> Notice:
    """Return a notice on the physically consistent estimate."""
    rule = "physical consistency"
    return Notice(rule=rule, level="info", where=where, text=text, advice=advice)


class _Programme:
    """Semidefinite programmes of the misfit and of the distance to the prior.

    In the coordinates x the distance is Euclidean. chi = values + map @ x: ten for each
    body (an orthonormal basis of symmetric matrices), then one for every other parameter.
    Further variables are the misfit u = design x - offset, rotated: with design = U S V^T
    and v = U^T u the equations are V^T x - v / S = U^T offset / S, all entries near one,
    whatever the noise.
    """

    def __init__(
        self,
        settings: Feasible,
        names: tuple[Parameter, ...],
        values: FloatArray,
        design: FloatArray,
        target: FloatArray,
    ) -> None:
        self.margin = settings.margin
        self.values = values.copy()
        self.bodies = group_bodies(names)
        self.basis = symmetric_basis()
        self.metrics: list[FloatArray] = []
        self.notices: list[Notice] = []
        inertial: set[int] = set()
        for body in self.bodies:
            inertial.update(body.standard)
        others = [i for i in range(len(names)) if i not in inertial]
        ten = 10 * len(self.bodies)
        n = ten + len(others)
        b = len(target)
        self.map = np.zeros((len(names), n))
        zeros = [np.zeros((0, n))]  # rows that keep structural zeros
        size = usual_size(self.bodies, values)
        for k, body in enumerate(self.bodies):
            consistent, thickness = possible_body(prior_body(body, values, size), size)
            self.values[list(body.standard)] = consistent[list(body.present)]
            if thickness > 0:
                text = (
                    "the prior has no thickness or is not physically consistent: its mass was "
                    f"spread by {thickness:.2g} m along each axis"
                )
                self.notices.append(_notice(text, where=body.name))
            L = metric(consistent)
            self.metrics.append(L)
            step = np.zeros((10, n))
            step[:, 10 * k : 10 * k + 10] = inertial_parameters(L @ self.basis @ L.T).T
            self.map[list(body.standard)] = step[list(body.present)]
            zeros.append(step[list(body.zeros)])
        self.scale = np.ones(len(names))
        for column, i in enumerate(others, ten):
            same_kind = [abs(values[k]) for k in others if names[k].kind == names[i].kind]
            nonzero = [magnitude for magnitude in same_kind if magnitude != 0]
            if values[i] != 0:
                self.scale[i] = abs(values[i])
            elif nonzero:
                self.scale[i] = np.median(nonzero)
            self.map[i, column] = self.scale[i]
        self.nonnegative = [i for i in others if names[i].kind in (settings.nonnegative or ())]
        self.design = design @ self.map
        self.offset = target - design @ self.values
        U, S, Vt = np.linalg.svd(self.design, full_matrices=False)
        divisor = np.maximum(S, 1.0)
        fixed = np.vstack(zeros)
        rows = np.vstack(
            [
                (S / divisor)[:, None] * Vt,
                fixed / np.maximum(np.linalg.norm(fixed, axis=1, keepdims=True), 1e-300),
                -self.map[self.nonnegative] / self.scale[self.nonnegative, None],
                -np.eye(ten, n),
            ]
        )
        self._rows = np.hstack([rows, np.zeros((len(rows), b))])
        self._rows[:b, n:] = -np.diag(1 / divisor)
        # Trace of 1 + change above the margin
        least = np.einsum("kii->k", self.basis) * (1 - self.margin)
        self._right = np.concatenate(
            [
                U.T @ self.offset / divisor,
                np.zeros(len(fixed)),
                values[self.nonnegative] / self.scale[self.nonnegative],
                np.tile(least, len(self.bodies)),
            ]
        )
        import clarabel  # here, as its import takes time

        self._cones: list[Any] = [clarabel.ZeroConeT(b + len(fixed))]
        if self.nonnegative:
            self._cones.append(clarabel.NonnegativeConeT(len(self.nonnegative)))
        self._cones += [clarabel.PSDTriangleConeT(4) for _ in self.bodies]

    def change(self, x: FloatArray, body: int) -> FloatArray:
        """Return L^-1 (J - J_0) L^-T of a body, (4, 4)."""
        return np.asarray(np.tensordot(x[10 * body : 10 * body + 10], self.basis, axes=1))

    def inside(self, x: FloatArray) -> FloatArray:
        """Return x with all bodies inside their margin, (n,).

        Bodies outside by the tolerance of the solver are moved towards their prior.
        L^-1 J L^-T = 1 + X, so a body at (1 - e) X has the margin 1 + (1 - e) least
        eigenvalue of X.
        """
        moved = x.copy()
        for k in range(len(self.bodies)):
            least = float(np.linalg.eigvalsh(self.change(x, k))[0])
            if least < self.margin - 1:
                moved[10 * k : 10 * k + 10] *= (self.margin - 1) / least
        return moved

    def misfit(self, x: FloatArray) -> float:
        """Return |R (M chi - beta)|^2."""
        return float(np.sum((self.design @ x - self.offset) ** 2))

    def solve(self, radius: float | None) -> FloatArray:
        """Minimise the misfit, or with a radius of it the distance to the prior, (n,)."""
        import clarabel
        from scipy import sparse

        n = self.map.shape[1]
        b = len(self.offset)
        rows = self._rows
        right = self._right
        cones = list(self._cones)
        if radius is None:
            cost = np.append(np.full(n, _PRIOR_WEIGHT), np.ones(b))
        else:
            cost = np.append(np.ones(n), np.zeros(b))
            misfit_rows = np.hstack([np.zeros((b, n)), -np.eye(b) / radius])
            rows = np.vstack([rows, np.zeros((1, n + b)), misfit_rows])
            right = np.concatenate([right, [1.0], np.zeros(b)])
            cones.append(clarabel.SecondOrderConeT(b + 1))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        answer = clarabel.DefaultSolver(
            sparse.diags(cost, format="csc"),
            np.zeros(n + b),
            sparse.csc_matrix(rows),
            right,
            cones,
            settings,
        ).solve()
        status = clarabel.SolverStatus
        gap = abs(answer.obj_val - answer.obj_val_dual) / max(1.0, abs(answer.obj_val))
        # A solver that stopped for lack of progress is accepted if both objectives agree; `fit`
        # checks the constraints.
        stopped_early = answer.status in (
            status.AlmostSolved,
            status.InsufficientProgress,
        )
        accepted = stopped_early and gap < _MAX_DUALITY_GAP
        if answer.status != status.Solved and not accepted:
            raise NotConverged(
                f"semidefinite programme of {len(self.bodies)} bodies ended as '{answer.status}'; "
                "is the prior far from the data (units, swapped legs)?",
                status=str(answer.status),
            )
        return np.array(answer.x)[:n]
