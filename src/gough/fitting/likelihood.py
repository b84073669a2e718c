"""Maximum likelihood when positions are noisy too: the filter cut-off as a parameter, and the whole
trajectory free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import GoughError, InvalidInput, NotConverged, NotIdentifiable
from gough.core.notices import Notice
from gough.core.record import Record
from gough.fitting.estimate import Estimate, build_estimate
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.regression import Regression
from gough.fitting.solve import RANK_TOLERANCE, solve
from gough.fitting.uncertainty import (
    Uncertainty,
    estimate_covariance,
    linear_influence,
    useful_samples,
)
from gough.fitting.whitening import inverse_root, whiten


class RegressionFamily(Protocol):
    """Regressions that depend on nonlinear parameters z, with the positions these imply; AH09 (24)
    with p_z = z.

    Implemented where robots are known: z is a filter cut-off, or the coefficients of the executed
    trajectory.
    """

    @property
    def position_covariance(self) -> FloatArray:
        """Covariance of the measured positions' errors, (a, a). [m2 or rad2]"""

    def regression(self, z: FloatArray) -> Regression:
        """Return the regression at z, (k,); its covariance is that of the efforts' errors."""

    def position_residual(self, z: FloatArray) -> FloatArray:
        """Return measured minus implied positions, (t, a). [m or rad]"""


class SmoothFamily(RegressionFamily, Protocol):
    """A family with derivatives by z."""

    def position_jacobian(self, z: FloatArray) -> FloatArray:
        """Return the derivative of the implied positions by z, (t, a, k)."""

    def effort_jacobian(self, z: FloatArray, values: FloatArray) -> FloatArray:
        """Return the derivative of regressor @ values by z with the values (p,) fixed, (t, r,
        k).
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class CutoffResult(Record):
    """Maximum likelihood over k filter cut-offs."""

    estimate: Estimate  # at the chosen cut-off
    cutoff: float  # the chosen one [Hz]
    cutoffs: FloatArray  # all tried, (k,) [Hz]
    position_term: FloatArray  # half the weighted squares of the position errors, (k,) [1]
    effort_term: (
        FloatArray  # half those of the effort errors, linear parameters profiled out, (k,) [1]
    )
    orders: FloatArray  # real parameters of the trajectory each cut-off keeps, (k,)
    values: FloatArray  # linear parameters at each cut-off, (k, p)
    # position term at the most likely trajectory of each order, not the filtered one, (k,)
    fitted_term: FloatArray

    @property
    def printed(self) -> FloatArray:
        """AH09 (24) as printed, (k,); never penalises bandwidth."""
        return np.asarray(self.position_term + self.effort_term)

    @property
    def aic(self) -> FloatArray:
        """Half of Akaike's criterion: (24) at its best, plus one for every real parameter of the
        trajectory, (k,).
        """
        return np.asarray(self.fitted_term + self.effort_term + self.orders)


@dataclass(frozen=True, kw_only=True)
class CutoffLikelihood:
    """Maximum likelihood with the filter cut-off as parameter, AH09 (23)-(24).

    J(f_c) = 1/2 sum_s (delta^T Sigma_dd^-1 delta + eta^T Sigma_ee^-1 eta), p at each f_c by
    Gauss-Markov.
    Departure: J only changes where f_c passes a bin of the discrete Fourier transform, so the bins
    are searched; and as each bin kept lowers the position term by fitting noise, Akaike's criterion
    counts its two real parameters per coordinate. As printed the minimum wanders to many times the
    true bandwidth. Without position errors all this is Gauss-Markov.

    Args:
        criterion: 'aic', or 'printed' for (24) itself.
        uncertainty: Of the linear parameters at the chosen cut-off, as in `GaussMarkov`; the errors
            that are left in the regressor are not part of it (they are in `FullLikelihood`).
    """

    criterion: Literal["aic", "printed"] = "aic"
    uncertainty: Uncertainty = "auto"

    def __post_init__(self) -> None:
        if self.criterion not in ("aic", "printed"):
            raise InvalidInput(f"criterion is '{self.criterion}', expected 'aic' or 'printed'")

    def fit(
        self,
        family: RegressionFamily,
        cutoffs: ArrayLike,
        orders: ArrayLike,
        fitted_term: ArrayLike | None = None,
    ) -> CutoffResult:
        """Try all cut-offs and return the best.

        Args:
            family: With z = (cut-off [Hz],).
            cutoffs: To try, ascending, (k,); see `fourier_bins`. [Hz]
            orders: Real parameters of the trajectory each keeps, (k,).
            fitted_term: Half the weighted squares of the position errors left by the most likely
                trajectory of each order, (k,), up to a constant. Akaike's criterion is about that
                one; by default the filtered positions are taken for it, as they are if the measured
                coordinates themselves are filtered.
        """
        tried, counts = np.asarray(cutoffs, dtype=float), np.asarray(orders, dtype=float)
        check_shape(tried, (None,), "cut-offs")
        check_shape(counts, tried.shape, "orders")
        if not len(tried) or not (tried > 0).all():
            raise InvalidInput(
                f"cut-offs are {tried.tolist()} Hz, expected at least one, all positive"
            )
        terms, values = np.empty((2, len(tried))), []
        root = _position_root(family)
        for i, cutoff in enumerate(tried):
            z = np.array([cutoff])
            regression = family.regression(z)
            delta = family.position_residual(z) @ root.T
            solution = solve(regression.whitened().stacked(), regression.parameters)
            terms[:, i] = (delta**2).sum() / 2, solution.residual_norm**2 / 2
            values.append(solution.values)
        fitted = terms[0] if fitted_term is None else np.asarray(fitted_term, dtype=float)
        check_shape(fitted, tried.shape, "fitted position terms")
        best = int(
            np.argmin(
                terms.sum(axis=0) if self.criterion == "printed" else fitted + terms[1] + counts
            )
        )
        estimate = GaussMarkov(uncertainty=self.uncertainty).fit(
            family.regression(tried[best : best + 1])
        )
        notices = [
            Notice(
                rule="cut-off",
                level="info",
                text=f"cut-off {tried[best]:.6g} Hz, the best of {len(tried)} by {self.criterion}",
            )
        ]
        if best == len(tried) - 1 and len(tried) > 1:
            notices.append(
                Notice(
                    rule="cut-off",
                    level="info",
                    text="the best cut-off is the highest one tried",
                    advice="try higher ones",
                )
            )
        return CutoffResult(
            estimate=replace(
                estimate,
                method="maximum likelihood over the cut-off",
                notices=(*notices, *estimate.notices),
            ),
            cutoff=float(tried[best]),
            cutoffs=tried,
            position_term=terms[0],
            effort_term=terms[1],
            orders=counts,
            values=np.array(values),
            fitted_term=fitted,
        )


def fourier_bins(duration: float, highest: int, coordinates: int) -> tuple[FloatArray, FloatArray]:
    """Return the cut-offs that keep the first 1, 2, ..., `highest` bins of a record of whole
    periods, and how much.

    That is two real parameters per bin and filtered coordinate, (highest,). Duration in [s],
    cut-offs in [Hz].
    """
    if not duration > 0 or highest < 1 or coordinates < 1:
        raise InvalidInput(
            f"{highest} bins of {coordinates} coordinates over {duration} s; expected positive "
            f"numbers"
        )
    bins = np.arange(1.0, highest + 1)
    return bins / duration, 2 * coordinates * bins


@dataclass(frozen=True, kw_only=True, eq=False)
class LikelihoodResult(Record):
    """Full maximum likelihood of p linear and k nonlinear parameters."""

    # of the linear parameters; its covariance counts the uncertainty of the trajectory
    estimate: Estimate
    nonlinear: FloatArray  # z, e.g. the coefficients of the executed trajectory, (k,)
    nonlinear_covariance: FloatArray  # under the stated covariances, white noise, (k, k)
    # half the weighted squares that are left: the negative log-likelihood up to a constant [1]
    cost: float
    consistency: float  # 2 cost / degrees of freedom; 1 if both covariances are right [1]
    iterations: int
    # errors in variables: no unbiased estimator has smaller std under white noise, (p,)
    bound: FloatArray
    # those of Gauss-Markov, which believes the trajectory that fits the positions best, (p,)
    believing: FloatArray


@dataclass(frozen=True, kw_only=True)
class FullLikelihood:
    """Maximum likelihood with the executed trajectory free: errors in variables, with exact
    derivatives.

    min over z, p of 1/2 sum_s |L^-1 [delta(z); effort - W(z) p]|^2,  L L^T the covariance of
    positions and efforts. AH09 (24) with p_z = all trajectory coefficients, which AH09 calls
    inhibited for lack of gradients. The linear p are eliminated (variable projection with Kaufman's
    Jacobian) and z found by damped Gauss-Newton steps. Under white noise the covariance of p is its
    block of the inverse of the joint information of (z, p); otherwise the scatter of p = (X^T X)^-1
    X^T (errors of positions and efforts), X the whitened regressor without what z can imitate.

    Args:
        iterations: Most steps.
        tolerance: Stop when a step would lower the negative log-likelihood by less. [1]
        uncertainty: As in `LeastSquares`; scatter over repetitions needs those of positions and
            efforts.
    """

    iterations: int = 50
    tolerance: float = 1e-9
    uncertainty: Uncertainty = "auto"

    def fit(
        self,
        family: SmoothFamily,
        start: ArrayLike,
        *,
        cross_covariance: FloatArray | None = None,
        position_periods: FloatArray | None = None,
    ) -> LikelihoodResult:
        """Return the most likely parameters and trajectory.

        Args:
            family: The model.
            start: z to start from, e.g. the coefficients fitted to the positions alone, (k,).
            cross_covariance: Between position and effort errors (feedback correlates them), (a, r),
                or None.
            position_periods: Positions of each repetition, (n, t, a), or None; those of the efforts
                are the regression's `replicates`.
        """
        z = np.array(start, dtype=float)
        check_shape(z, (None,), "start")
        check_finite(z, "start")
        point = Point(family, z, cross_covariance, position_periods)
        damping = 0.0
        for step in range(self.iterations + 1):
            triangle, target = point.linearised()
            if (target**2).sum() / 2 < self.tolerance:
                return self._result(point, step)
            while True:  # Marquardt: more damping until the cost falls
                scale = np.sqrt(damping) * np.linalg.norm(triangle, axis=0)
                change = np.linalg.lstsq(
                    np.concatenate([triangle, np.diag(scale)]),
                    np.concatenate([target, np.zeros(len(z))]),
                    rcond=None,
                )[0]
                try:
                    trial = Point(family, point.z + change, cross_covariance, position_periods)
                    if trial.cost <= point.cost:
                        break
                except GoughError:  # the step left what the family can do, e.g. the workspace
                    pass
                damping = max(10 * damping, 1e-4)
                if damping > 1e8:
                    raise NotConverged(
                        "no step lowers the cost although its gradient is not zero; check the "
                        "derivatives of the family",
                        cost=point.cost,
                        iterations=step,
                    )
            point, damping = trial, damping / 10 if damping > 1e-4 else 0.0
        raise NotConverged(
            f"maximum likelihood still improves after {self.iterations} steps; start nearer or "
            f"allow "
            "more",
            iterations=self.iterations,
            cost=point.cost,
        )

    def _result(self, point: Point, iterations: int) -> LikelihoodResult:
        k, p = len(point.z), len(point.regression.parameters)
        position, effort = point.jacobians()
        jacobian = point.whitened(position, effort)
        basis, triangle = np.linalg.qr(np.column_stack([jacobian, point.regressor]))
        # The last block of R is the information of its columns once the others are free.
        root = np.linalg.inv(triangle[k:, k:])
        other = np.linalg.inv(_triangle(point.regressor, jacobian)[p:, p:])
        freedom = point.measurements - k - p
        consistency = 2 * point.cost / freedom
        white, left = point.white, point.white.residual(point.solution.values)
        # the linear problem that the errors of p solve: z projected out of the columns
        scores = replace(
            white,
            regressor=(basis[:, k:] @ triangle[k:, k:]).reshape(white.regressor.shape),
            effort=np.sqrt((freedom + k) / freedom) * left,
            covariance=None,
            replicates=None if white.replicates is None else white.replicates - white.effort + left,
        )
        found = estimate_covariance(
            linear_influence(scores.statistics(), useful_samples(scores, self.uncertainty), root),
            self.uncertainty,
            np.inf,
        )
        bound, believing = np.linalg.norm(root, axis=1), point.believing(position, effort)
        times, worst = believing / bound, int(np.argmax(believing / bound))
        notices = [
            Notice(
                rule="iterations",
                level="info",
                text=f"{k} nonlinear parameters estimated as well, in {iterations} steps",
            ),
            Notice(
                rule="standard errors",
                level="info",
                text="the white standard errors are the errors-in-variables bound, which no "
                "unbiased estimator falls below; those of Gauss-Markov, which neglects position "
                f"noise, are {np.exp(np.log(times).mean()):.3g} times it (at most "
                f"{times[worst]:.3g}, {point.regression.parameters[worst]})",
            ),
        ]
        if abs(consistency - 1) > 5 * np.sqrt(2 / freedom) + 0.1:
            notices.append(
                Notice(
                    rule="stated noise",
                    level="info",
                    text=f"weighted residuals are {np.sqrt(consistency):.2g} times those of the "
                    "stated covariances: noise or model differ from what was stated, and the "
                    "white standard errors with them",
                    numbers={"ratio": float(np.sqrt(consistency))},
                )
            )
        estimate = build_estimate(
            point.regression,
            point.solution.values,
            found,
            method="full maximum likelihood",
            notices=notices,
            condition_number=point.solution.condition_number,
            noise_covariance=point.noise.mean(axis=0) if point.noise.ndim == 3 else point.noise,
        )
        return LikelihoodResult(
            estimate=estimate,
            nonlinear=point.z,
            nonlinear_covariance=other @ other.T,
            cost=point.cost,
            consistency=consistency,
            iterations=iterations,
            bound=bound,
            believing=believing,
        )


class Point:
    """Positions and efforts at one z as the rows of one problem, and the linear parameters that
    solve it.
    """

    def __init__(
        self,
        family: SmoothFamily,
        z: FloatArray,
        cross: FloatArray | None = None,
        periods: FloatArray | None = None,
    ) -> None:
        self.family, self.z, self.regression = family, z, family.regression(z)
        delta, regression, efforts = (
            family.position_residual(z),
            self.regression,
            self.regression.covariance,
        )
        if efforts is None:
            raise InvalidInput(
                "maximum likelihood needs the covariance of the effort noise; the regression has "
                "none"
            )
        self.noise = efforts
        t, r, p = regression.regressor.shape
        check_shape(delta, (t, None), "position residual")
        a = delta.shape[1]
        check_shape(family.position_covariance, (a, a), "position covariance")
        covariance = np.zeros((*efforts.shape[:-2], a + r, a + r))
        covariance[..., :a, :a], covariance[..., a:, a:] = family.position_covariance, efforts
        if cross is not None:
            check_shape(cross, (a, r), "cross-covariance of positions and efforts")
            covariance[..., :a, a:], covariance[..., a:, :a] = cross, cross.T
        replicates = regression.replicates
        if periods is not None and replicates is not None:
            check_shape(
                np.asarray(periods), (len(replicates), t, a), "positions of the repetitions"
            )
            replicates = np.concatenate(
                [periods - np.mean(periods, axis=0) + delta, replicates], axis=2
            )
        self.joint = replace(
            regression,
            effort=np.hstack([delta, regression.effort]),
            covariance=covariance,
            regressor=np.concatenate([np.zeros((t, a, p)), regression.regressor], axis=1),
            rows=_names(a) + regression.rows,
            row_units=("1",) * (a + r),
            mask=None
            if regression.mask is None
            else np.hstack([np.ones((t, a), bool), regression.mask]),
            replicates=None if periods is None else replicates,
        )
        self.white = self.joint.whitened()
        self.regressor = self.white.regressor.reshape(-1, p)  # (t (a + r), p)
        self.solution = solve(self.white.stacked(), regression.parameters)
        self.residual = self.white.residual(self.solution.values).ravel()
        self.cost = float(self.residual @ self.residual) / 2
        self.measurements = int(self.white.n_valid.sum())

    def jacobians(self) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of positions and efforts by z with p fixed, (t, a, k) and (t, r,
        k).
        """
        position = self.family.position_jacobian(self.z)
        effort = self.family.effort_jacobian(self.z, self.solution.values)
        t, r = self.regression.effort.shape
        check_shape(position, (t, None, len(self.z)), "position Jacobian")
        check_shape(effort, (t, r, len(self.z)), "effort Jacobian")
        return position, effort

    def whitened(self, position: FloatArray, effort: FloatArray) -> FloatArray:
        """Return the derivative of the whitened residual by z, (t (a + r), k)."""
        joint, columns = self.joint, np.concatenate([position, effort], axis=1)
        assert joint.covariance is not None
        return -whiten(columns, joint.covariance, joint.mask, joint.rows).reshape(-1, len(self.z))

    def linearised(self) -> tuple[FloatArray, FloatArray]:
        """Return R and b: |R dz - b|^2 is the linearised problem with p eliminated, |b|^2 what a
        step can gain.
        """
        k, p = len(self.z), self.regressor.shape[1]
        if self.measurements <= p + k:
            raise NotIdentifiable(
                f"{self.measurements} measurements for {p} linear and {k} nonlinear parameters; "
                "record longer or leave out parameters",
                measurements=self.measurements,
            )
        jacobian = self.whitened(*self.jacobians())
        factor = _triangle(self.regressor, jacobian, -self.residual)
        triangle, target = factor[p:-1, p:-1], factor[p:-1, -1]
        weak = np.flatnonzero(
            np.abs(np.diag(triangle)) <= RANK_TOLERANCE * np.linalg.norm(jacobian, axis=0)
        ).tolist()
        if weak:
            raise NotIdentifiable(
                f"nonlinear parameters number {', '.join(str(i) for i in weak)} of {k} change "
                "nothing that others do not change as well; leave them out",
                indices=weak,
            )
        return triangle, target

    def believing(self, position: FloatArray, effort: FloatArray) -> FloatArray:
        """Return standard deviations of Gauss-Markov on the trajectory fitted to the positions
        alone, (p,).

        Errors of that trajectory, of covariance C = (J_d^T Sigma_dd^-1 J_d)^-1, reach the efforts
        by their Jacobian
        J_e: cov p = (X^T X)^-1 + A J_e C J_e^T A^T,  A = (X^T X)^-1 X^T, X and J_e whitened by the
        efforts' covariance.
        """
        problem, p, k = self.regression, self.regressor.shape[1], len(self.z)
        own = _triangle((_position_root(self.family) @ position).reshape(-1, k))
        both = whiten(
            np.concatenate([problem.regressor, effort], axis=2),
            self.noise,
            problem.mask,
            problem.rows,
        )
        basis, triangle = np.linalg.qr(both[:, :, :p].reshape(-1, p))
        inverse = np.linalg.inv(triangle)
        pulled = inverse @ np.linalg.solve(own.T, (basis.T @ both[:, :, p:].reshape(-1, k)).T).T
        return np.asarray(np.sqrt((inverse**2).sum(axis=1) + (pulled**2).sum(axis=1)))


def _names(positions: int) -> tuple[str, ...]:
    return tuple(f"position {i + 1}" for i in range(positions))


def _position_root(family: RegressionFamily) -> FloatArray:
    return inverse_root(family.position_covariance, _names(len(family.position_covariance)))


def _triangle(*columns: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(np.column_stack(columns), mode="r"))
