"""Maximum likelihood with noisy positions: over the filter cut-off, or the whole trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import (
    GoughError,
    InvalidInput,
    NotConverged,
    NotIdentifiable,
)
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
    """Regressions that depend on nonlinear parameters z, AH09 (24) with p_z = z.

    Implemented where robots are known: z is a filter cut-off, or the
    coefficients of the executed trajectory.
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
        """Return the derivative of regressor @ values by z, values (p,) fixed, (t, r, k)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CutoffResult(Record):
    """Maximum likelihood over k filter cut-offs."""

    estimate: Estimate  # at the chosen cut-off
    cutoff: float  # the chosen one [Hz]
    cutoffs: FloatArray  # all tried, (k,) [Hz]
    # half the weighted squares of the position errors, (k,) [1]
    position_term: FloatArray
    # Half those of the effort errors, linear parameters profiled out,
    # (k,) [1]
    effort_term: FloatArray
    # real parameters of the trajectory each cut-off keeps, (k,)
    orders: FloatArray
    values: FloatArray  # linear parameters at each cut-off, (k, p)
    # position term at the most likely trajectory of each order, not the
    # filtered one, (k,)
    fitted_term: FloatArray

    @property
    def printed(self) -> FloatArray:
        """AH09 (24) as printed, (k,); never penalises bandwidth."""
        return np.asarray(self.position_term + self.effort_term)

    @property
    def aic(self) -> FloatArray:
        """Half of Akaike's criterion: minimum of (24) plus the trajectory parameters, (k,)."""
        return np.asarray(self.fitted_term + self.effort_term + self.orders)


@dataclass(frozen=True, kw_only=True)
class CutoffLikelihood:
    """Maximum likelihood with the filter cut-off as parameter, AH09 (23)-(24).

    J(f_c) = 1/2 sum_s (delta^T Sigma_dd^-1 delta + eta^T Sigma_ee^-1
    eta), p at each f_c by Gauss-Markov.

    Departure: J only changes where f_c passes a bin of the discrete
    Fourier transform, so the bins are searched; and as each bin kept
    lowers the position term by fitting noise, Akaike's criterion adds
    its two real parameters per coordinate. As printed, the minimum is
    at many times the true bandwidth. Without position errors this is
    Gauss-Markov.

    Args:
        criterion: 'aic', or 'printed' for (24) itself.
        uncertainty: Of the linear parameters at the chosen cut-off, as
            in `GaussMarkov`; the errors that remain in the regressor
            are not part of it (they are in `FullLikelihood`).
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
            fitted_term: Half the weighted squares of the position
                errors left by the most likely trajectory of each order,
                (k,), up to a constant. Akaike's criterion is about that
                one; by default the filtered positions are taken for it,
                as they are if the measured coordinates themselves are
                filtered.
        """
        frequencies = np.asarray(cutoffs, dtype=float)
        n_trajectory = np.asarray(orders, dtype=float)
        check_shape(frequencies, (None,), "cut-offs")
        check_shape(n_trajectory, frequencies.shape, "orders")
        if not len(frequencies) or not (frequencies > 0).all():
            raise InvalidInput(
                f"cut-offs are {frequencies.tolist()} Hz, expected at least one, all positive"
            )
        position_term = np.empty(len(frequencies))
        effort_term = np.empty(len(frequencies))
        values = []
        root = _position_root(family)
        for i, cutoff in enumerate(frequencies):
            z = np.array([cutoff])
            regression = family.regression(z)
            white_residual = family.position_residual(z) @ root.T
            solution = solve(regression.whitened().stacked(), regression.parameters)
            position_term[i] = (white_residual**2).sum() / 2
            effort_term[i] = solution.residual_norm**2 / 2
            values.append(solution.values)
        fitted = position_term
        if fitted_term is not None:
            fitted = np.asarray(fitted_term, dtype=float)
        check_shape(fitted, frequencies.shape, "fitted position terms")
        criterion = position_term + effort_term
        if self.criterion == "aic":
            criterion = fitted + effort_term + n_trajectory
        best = int(np.argmin(criterion))
        best_regression = family.regression(frequencies[best : best + 1])
        estimate = GaussMarkov(uncertainty=self.uncertainty).fit(best_regression)
        notices = self._cutoff_notices(frequencies, best)
        return CutoffResult(
            estimate=replace(
                estimate,
                method="maximum likelihood over the cut-off",
                notices=(*notices, *estimate.notices),
            ),
            cutoff=float(frequencies[best]),
            cutoffs=frequencies,
            position_term=position_term,
            effort_term=effort_term,
            orders=n_trajectory,
            values=np.array(values),
            fitted_term=fitted,
        )

    def _cutoff_notices(self, frequencies: FloatArray, best: int) -> list[Notice]:
        """Return notices on the chosen cut-off."""
        count = len(frequencies)
        text = f"cut-off {frequencies[best]:.6g} Hz, the best of {count} by {self.criterion}"
        notices = [Notice(rule="cut-off", level="info", text=text)]
        if best == count - 1 and count > 1:
            notices.append(
                Notice(
                    rule="cut-off",
                    level="info",
                    text="the best cut-off is the highest one tried",
                    advice="try higher ones",
                )
            )
        return notices


def fourier_bins(duration: float, highest: int, coordinates: int) -> tuple[FloatArray, FloatArray]:
    """Return the cut-offs that keep the first Fourier bins, and their numbers of parameters.

    Args:
        duration: Of a log of whole periods. [s]
        highest: The cut-offs keep the first 1, 2, ..., `highest` bins.
        coordinates: Number of filtered coordinates.

    Returns:
        Cut-offs [Hz], and two real parameters per bin and coordinate,
            (highest,) each.
    """
    if not duration > 0 or highest < 1 or coordinates < 1:
        raise InvalidInput(
            f"{highest} bins of {coordinates} coordinates over {duration} s; expected positive "
            "numbers"
        )
    bins = np.arange(1.0, highest + 1)
    return bins / duration, 2 * coordinates * bins


@dataclass(frozen=True, kw_only=True, eq=False)
class LikelihoodResult(Record):
    """Full maximum likelihood of p linear and k nonlinear parameters."""

    # Of the linear parameters; its covariance includes the uncertainty
    # of the trajectory
    estimate: Estimate
    # z, e.g. the coefficients of the executed trajectory, (k,)
    nonlinear: FloatArray
    # under the stated covariances, white noise, (k, k)
    nonlinear_covariance: FloatArray
    # Half the weighted squares of the residual: negative log-likelihood
    # up to a constant [1]
    cost: float
    # 2 cost / degrees of freedom; 1 if both covariances are right [1]
    consistency: float
    iterations: int  # of Gauss-Newton
    # Standard errors of errors-in-variables: the lower bound under
    # white noise, (p,)
    bound: FloatArray
    # Standard errors of Gauss-Markov on the trajectory that fits the
    # positions best, (p,)
    std_on_fitted_trajectory: FloatArray


@dataclass(frozen=True, kw_only=True)
class FullLikelihood:
    """Maximum likelihood over the executed trajectory too (errors in variables).

    min over z, p of 1/2 sum_s |L^-1 [delta(z); effort - W(z) p]|^2,  L L^T the covariance
    of positions and efforts. AH09 (24) with p_z = all trajectory coefficients, which AH09
    calls inhibited for lack of gradients. The linear p are eliminated (variable projection
    with Kaufman's Jacobian) and z found by damped Gauss-Newton steps. Under white noise the
    covariance of p is its block of the inverse of the joint information of (z, p);
    otherwise the scatter of p = (X^T X)^-1 X^T (errors of positions and efforts), X the
    whitened regressor orthogonal to the columns of z.

    Args:
        iterations: Maximum number of steps.
        tolerance: Stop when a step would lower the negative
            log-likelihood by less. [1]
        uncertainty: As in `LeastSquares`; scatter over repetitions
            needs those of positions and efforts.
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
            start: z to start from, e.g. the coefficients fitted to the
                positions alone, (k,).
            cross_covariance: Between position and effort errors
                (feedback correlates them), (a, r), or None.
            position_periods: Positions of each repetition, (n, t, a),
                or None; those of the efforts are the regression's
                `replicates`.
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
                damped = np.concatenate([triangle, np.diag(scale)])
                padded_target = np.concatenate([target, np.zeros(len(z))])
                change = np.linalg.lstsq(damped, padded_target, rcond=None)[0]
                try:
                    trial = Point(
                        family,
                        point.z + change,
                        cross_covariance,
                        position_periods,
                    )
                    if trial.cost <= point.cost:
                        break
                except GoughError:  # the step left the domain of the family, e.g. the workspace
                    pass
                damping = max(10 * damping, 1e-4)
                if damping > 1e8:
                    raise NotConverged(
                        "no step lowers the cost although its gradient is not zero; check the "
                        "derivatives of the family",
                        cost=point.cost,
                        iterations=step,
                    )
            point = trial
            damping = damping / 10 if damping > 1e-4 else 0.0
        raise NotConverged(
            f"maximum likelihood still improves after {self.iterations} steps; start nearer or "
            "allow more",
            iterations=self.iterations,
            cost=point.cost,
        )

    def _result(self, point: Point, iterations: int) -> LikelihoodResult:
        """Return the parameters at the optimum with their covariance."""
        k = len(point.z)
        p = len(point.regression.parameters)
        position, effort = point.jacobians()
        jacobian = point.whitened(position, effort)
        basis, triangle = np.linalg.qr(np.column_stack([jacobian, point.regressor]))
        # The last block of R is the information of its columns once the
        # others are free.
        root = np.linalg.inv(triangle[k:, k:])
        nonlinear_root = np.linalg.inv(_triangle(point.regressor, jacobian)[p:, p:])
        freedom = point.measurements - k - p
        consistency = 2 * point.cost / freedom
        projected = basis[:, k:] @ triangle[k:, k:]
        scores = _linear_problem(point, projected, np.sqrt((freedom + k) / freedom))
        covariance = estimate_covariance(
            linear_influence(
                scores.statistics(),
                useful_samples(scores, self.uncertainty),
                root,
            ),
            self.uncertainty,
            np.inf,
        )
        bound = np.linalg.norm(root, axis=1)
        std_on_fitted_trajectory = point.std_on_fitted_trajectory(position, effort)
        notices = [
            Notice(
                rule="iterations",
                level="info",
                text=f"{k} nonlinear parameters estimated as well, in {iterations} steps",
            ),
            _bound_notice(std_on_fitted_trajectory / bound, point.regression.parameters),
        ]
        if abs(consistency - 1) > 5 * np.sqrt(2 / freedom) + 0.1:
            notices.append(_stated_noise_notice(consistency))
        estimate = build_estimate(
            point.regression,
            point.solution.values,
            covariance,
            method="full maximum likelihood",
            notices=notices,
            condition_number=point.solution.condition_number,
            noise_covariance=point.noise.mean(axis=0) if point.noise.ndim == 3 else point.noise,
        )
        return LikelihoodResult(
            estimate=estimate,
            nonlinear=point.z,
            nonlinear_covariance=nonlinear_root @ nonlinear_root.T,
            cost=point.cost,
            consistency=consistency,
            iterations=iterations,
            bound=bound,
            std_on_fitted_trajectory=std_on_fitted_trajectory,
        )


def _linear_problem(point: Point, projected: FloatArray, effort_factor: float) -> Regression:
    """Return the linear problem that the errors of the linear parameters solve.

    Args:
        point: The optimum.
        projected: Its whitened regressor with the nonlinear parameters
            projected out of the columns, (t r, p).
        effort_factor: Of the residual, for the degrees of freedom of
            the nonlinear parameters.
    """
    white = point.white
    residual = white.residual(point.solution.values)
    replicates = white.replicates
    if replicates is not None:
        replicates = replicates - white.effort + residual
    return replace(
        white,
        regressor=projected.reshape(white.regressor.shape),
        effort=effort_factor * residual,
        covariance=None,
        replicates=replicates,
    )


def _bound_notice(ratio: FloatArray, parameters: Sequence[str]) -> Notice:
    """Return the notice on standard errors of Gauss-Markov over their lower bound, (p,)."""
    worst = int(np.argmax(ratio))
    return Notice(
        rule="standard errors",
        level="info",
        text="the white standard errors are the errors-in-variables bound, which no "
        "unbiased estimator falls below; those of Gauss-Markov, which neglects position "
        f"noise, are {np.exp(np.log(ratio).mean()):.3g} times it (at most "
        f"{ratio[worst]:.3g}, {parameters[worst]})",
    )


def _stated_noise_notice(consistency: float) -> Notice:
    """Return the notice on squared residuals over those that the stated noise explains."""
    ratio = float(np.sqrt(consistency))
    return Notice(
        rule="stated noise",
        level="info",
        text=f"weighted residuals are {ratio:.2g} times those of the stated covariances: noise or "
        "model differ from what was stated, and the white standard errors with them",
        numbers={"ratio": ratio},
    )


class Point:
    """Positions and efforts at one z as rows of one problem, with its linear solution."""

    def __init__(
        self,
        family: SmoothFamily,
        z: FloatArray,
        cross: FloatArray | None = None,
        periods: FloatArray | None = None,
    ) -> None:
        self.family = family
        self.z = z
        self.regression = family.regression(z)
        regression = self.regression
        residual = family.position_residual(z)
        if regression.covariance is None:
            raise InvalidInput(
                "maximum likelihood needs the covariance of the effort noise; the regression has "
                "none"
            )
        self.noise = regression.covariance
        t, r, p = regression.regressor.shape
        check_shape(residual, (t, None), "position residual")
        a = residual.shape[1]
        check_shape(family.position_covariance, (a, a), "position covariance")
        covariance = np.zeros((*self.noise.shape[:-2], a + r, a + r))
        covariance[..., :a, :a] = family.position_covariance
        covariance[..., a:, a:] = self.noise
        if cross is not None:
            check_shape(cross, (a, r), "cross-covariance of positions and efforts")
            covariance[..., :a, a:] = cross
            covariance[..., a:, :a] = cross.T
        replicates = None
        if periods is not None and regression.replicates is not None:
            shape = (len(regression.replicates), t, a)
            check_shape(np.asarray(periods), shape, "positions of the repetitions")
            positions = periods - np.mean(periods, axis=0) + residual
            replicates = np.concatenate([positions, regression.replicates], axis=2)
        mask = regression.mask
        if mask is not None:
            mask = np.hstack([np.ones((t, a), bool), mask])
        self.joint = replace(
            regression,
            effort=np.hstack([residual, regression.effort]),
            covariance=covariance,
            regressor=np.concatenate([np.zeros((t, a, p)), regression.regressor], axis=1),
            rows=_names(a) + regression.rows,
            row_units=("1",) * (a + r),
            mask=mask,
            replicates=replicates,
        )
        self.white = self.joint.whitened()
        self.regressor = self.white.regressor.reshape(-1, p)  # (t (a + r), p)
        self.solution = solve(self.white.stacked(), regression.parameters)
        self.residual = self.white.residual(self.solution.values).ravel()
        self.cost = float(self.residual @ self.residual) / 2
        self.measurements = int(self.white.n_valid.sum())

    def jacobians(self) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of positions (t, a, k) and efforts (t, r, k) by z, p fixed."""
        position = self.family.position_jacobian(self.z)
        effort = self.family.effort_jacobian(self.z, self.solution.values)
        t, r = self.regression.effort.shape
        check_shape(position, (t, None, len(self.z)), "position Jacobian")
        check_shape(effort, (t, r, len(self.z)), "effort Jacobian")
        return position, effort

    def whitened(self, position: FloatArray, effort: FloatArray) -> FloatArray:
        """Return the derivative of the whitened residual by z, (t (a + r), k)."""
        joint = self.joint
        columns = np.concatenate([position, effort], axis=1)
        assert joint.covariance is not None
        return -whiten(columns, joint.covariance, joint.mask, joint.rows).reshape(-1, len(self.z))

    def linearised(self) -> tuple[FloatArray, FloatArray]:
        """Return R and b of the linearised problem |R dz - b|^2 with p eliminated.

        |b|^2 is the largest decrease of the squares by one step.
        """
        k = len(self.z)
        p = self.regressor.shape[1]
        if self.measurements <= p + k:
            raise NotIdentifiable(
                f"{self.measurements} measurements for {p} linear and {k} nonlinear parameters; "
                "record longer or leave out parameters",
                measurements=self.measurements,
            )
        jacobian = self.whitened(*self.jacobians())
        factor = _triangle(self.regressor, jacobian, -self.residual)
        triangle = factor[p:-1, p:-1]
        target = factor[p:-1, -1]
        column_norm = np.linalg.norm(jacobian, axis=0)
        dependent = np.abs(np.diag(triangle)) <= RANK_TOLERANCE * column_norm
        weak = np.flatnonzero(dependent).tolist()
        if weak:
            raise NotIdentifiable(
                f"nonlinear parameters number {', '.join(str(i) for i in weak)} of {k} change "
                "nothing that others do not change as well; leave them out",
                indices=weak,
            )
        return triangle, target

    def std_on_fitted_trajectory(self, position: FloatArray, effort: FloatArray) -> FloatArray:
        """Return standard errors of Gauss-Markov on the trajectory fitted to positions, (p,).

        Errors of that trajectory, of covariance C = (J_d^T Sigma_dd^-1 J_d)^-1, reach the
        efforts by their Jacobian J_e: cov p = (X^T X)^-1 + A J_e C J_e^T A^T,  A = (X^T
        X)^-1 X^T, X and J_e whitened by the efforts' covariance.
        """
        regression = self.regression
        p = self.regressor.shape[1]
        k = len(self.z)
        white_position = _position_root(self.family) @ position
        trajectory_factor = _triangle(white_position.reshape(-1, k))
        columns = np.concatenate([regression.regressor, effort], axis=2)
        white = whiten(columns, self.noise, regression.mask, regression.rows)
        basis, triangle = np.linalg.qr(white[:, :, :p].reshape(-1, p))
        inverse = np.linalg.inv(triangle)
        projected = basis.T @ white[:, :, p:].reshape(-1, k)
        shift = inverse @ np.linalg.solve(trajectory_factor.T, projected.T).T
        return np.asarray(np.sqrt((inverse**2).sum(axis=1) + (shift**2).sum(axis=1)))


def _names(positions: int) -> tuple[str, ...]:
    return tuple(f"position {i + 1}" for i in range(positions))


def _position_root(family: RegressionFamily) -> FloatArray:
    return inverse_root(family.position_covariance, _names(len(family.position_covariance)))


def _triangle(*columns: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(np.column_stack(columns), mode="r"))
