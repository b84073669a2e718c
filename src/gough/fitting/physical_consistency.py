"""Physically consistent and plausible standard parameters from an estimate of base parameters.

Data determine the base parameters beta = M chi only. Of all standard
parameters chi that some robot could have (every body's pseudo-inertia
positive definite, no negative friction or rotor inertia) this takes
those that minimise

    |R (M chi - beta)|^2 / 2  +  divergence from the prior,

R being the triangular factor of the inverse covariance of beta: one
unit is one variance of the estimate. What data determine hardly notices
the prior, since its divergence is one where a value is off by about
itself; what they leave open becomes the prior's. See
`gough.fitting.nearest_bodies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters, ParameterTable
from gough.core.statistics import chi2_quantile
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Estimate
from gough.fitting.nearest_bodies import Box, NearestBodies, total_mass_row
from gough.fitting.problem import LinearProblem, statistics_of

# of the effort; keeps problems without noise solvable
_MIN_RELATIVE_NOISE = 1e-6
# standard deviation of a stated total mass over its value
_TOTAL_MASS_ERROR = 0.01
# Fractions of the information from the data above and below which a
# parameter is said to be the data's or the prior's
DATA_FRACTION = 0.9
PRIOR_FRACTION = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class PhysicalEstimate:
    """Physically consistent standard parameters, and the base estimate they give.

    The estimate keeps the covariance of the unconstrained one: moved
    onto the consistent set it is no longer Gaussian.
    """

    standard: ParameterTable
    # Ten inertial parameters of every body, also those that are not in
    # the model
    bodies: Mapping[str, FloatArray]
    estimate: Estimate  # of the base parameters M chi
    # Smallest eigenvalue of each pseudo-inertia relative to its prior;
    # zero is the limit [1]
    margins: Mapping[str, float]
    # Fraction of the information on each standard parameter that comes
    # from the data: 1 is the data's, 0 the prior's
    determined: Mapping[Parameter, float]
    misfit: float  # |R (M chi - beta)|^2 [variances of the estimate]
    divergence: float  # from the prior, see `gough.fitting.nearest_bodies` [1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Feasible:
    """Settings of the physically consistent estimation.

    Args:
        relative: Standard deviation of the prior's values as a fraction
            of themselves, where the prior has no standard errors of its
            own. 1 lets data decide wherever they say anything; 0.1 is a
            drawing that is right to ten per cent.
        nonnegative: Kinds of parameters that cannot be negative besides
            masses; those a robot's terms name by default.
        total_mass: Mass of all bodies together, known to one per cent.
            [kg]
        members: How many bodies a mass stands for, by name; one by
            default.
        boxes: Box in its own frame that holds all mass of a body:
            lowest x, y, z, then highest, by body. [m]
    """

    relative: float = 1.0
    nonnegative: tuple[str, ...] | None = None
    total_mass: float | None = None
    members: Mapping[str, int] = field(default_factory=dict)
    boxes: Mapping[str, Box] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.relative > 0:
            raise InvalidInput(
                f"the relative standard deviation of the prior is {self.relative}, expected a "
                "positive number"
            )
        if self.total_mass is not None and not self.total_mass > 0:
            raise InvalidInput(
                f"the total mass is {self.total_mass} kg, expected a positive number"
            )

    def fit(
        self,
        problem: LinearProblem,
        base: Estimate,
        *,
        model: BaseParameters,
        prior: ParameterTable,
    ) -> PhysicalEstimate:
        """Return the consistent parameters that fit the data and are near the prior.

        Args:
            problem: Regression of the base parameters, or its block
                statistics.
            base: Estimate of base parameters from it, all or some.
            model: Which combinations of standard parameters the base
                parameters are.
            prior: Values of all standard parameters, e.g. from a
                drawing; their standard errors, if any, replace
                `relative` (zero or NaN: unknown). Bodies that cannot
                exist, or only just (a rod without thickness), are
                thickened until they can (`possible_body`); a notice
                names them.
        """
        selected = problem.select(base.parameters)
        R = _inverse_root(statistics_of(selected), base)
        rows = [index_of(model.names, name, "base parameter") for name in base.parameters]
        matrix = model.matrix[rows]
        values = np.array([prior[name] for name in model.standard])
        search = NearestBodies(
            model.standard,
            values,
            self._relative(model, prior, values),
            self.nonnegative or (),
            self.boxes,
            _usual_sizes(model, prior, base, matrix),
        )
        design = R @ matrix
        offset = R @ base.values
        stated_design, stated_offset = self._stated_mass(model)
        equations = np.vstack([design, stated_design])
        x = search.solve(equations, np.concatenate([offset, stated_offset]))
        standard = search.standard(x)
        misfit = float(np.sum((design @ standard - offset) ** 2))
        determined = search.determined(x, equations)
        bodies = {}
        margins = {}
        for k, body in enumerate(search.bodies):
            bodies[body.name] = frozen(search.inertia(x, k))
            margins[body.name] = 1 + float(np.linalg.eigvalsh(search.change(x, k))[0])
        residual = selected.residual_statistics(matrix @ standard)
        estimate = replace(
            base,
            values=matrix @ standard,
            residual_rms=residual.rms,
            residual_relative=residual.relative,
            residual_mean=residual.mean,
            method=f"physically consistent, from {base.method}",
        )
        notices = _notices(base, estimate, model, misfit, determined)
        return PhysicalEstimate(
            standard=ParameterTable(
                names=model.standard,
                values=standard,
                units=tuple(prior.units[prior.index(name)] for name in model.standard),
            ),
            bodies=bodies,
            estimate=replace(estimate, notices=(*base.notices, *notices, *search.notices)),
            margins=margins,
            determined=dict(zip(model.standard, determined.tolist())),
            misfit=misfit,
            divergence=search.divergence(x),
        )

    def _relative(
        self, model: BaseParameters, prior: ParameterTable, values: FloatArray
    ) -> FloatArray:
        """Return how far the prior's values may be off as a fraction of themselves, (p,)."""
        relative = np.full(len(values), self.relative)
        if prior.std is None:
            return relative
        std = np.array([prior.std[prior.index(name)] for name in model.standard])
        stated = (std > 0) & (values != 0)
        relative[stated] = std[stated] / np.abs(values[stated])
        return relative

    def _stated_mass(self, model: BaseParameters) -> tuple[FloatArray, FloatArray]:
        """Return the equation of the total mass, (1, p) and (1,); none if it is not stated."""
        if self.total_mass is None:
            return np.zeros((0, len(model.standard))), np.zeros(0)
        row = total_mass_row(model.standard, self.members)
        if not row.any():
            raise InvalidInput(
                f"a total mass of {self.total_mass:g} kg was given, but no body has a mass among "
                "its parameters"
            )
        sigma = _TOTAL_MASS_ERROR * self.total_mass
        return row[None] / sigma, np.array([self.total_mass / sigma])


def _usual_sizes(
    model: BaseParameters, prior: ParameterTable, base: Estimate, matrix: FloatArray
) -> FloatArray:
    """Return the usual size of each standard parameter, for those without a prior value, (p,).

    A value that is not known must not hold the estimate back. So the
    size is the largest that the estimated combinations, or their
    standard errors, give it alone, but at least the median of the known
    values of its kind and unit.
    """
    estimated = np.maximum(np.abs(base.values), np.nan_to_num(base.std))
    known: dict[tuple[str, str], list[float]] = {}
    kinds = []
    for name in model.standard:
        kind = (name.kind, prior.units[prior.index(name)])
        kinds.append(kind)
        if prior[name] != 0:
            known.setdefault(kind, []).append(abs(prior[name]))
    sizes = np.ones(len(model.standard))
    for i, kind in enumerate(kinds):
        usual = float(np.median(known.get(kind, [0.0])))
        for value, coefficient in zip(estimated, matrix[:, i]):
            if coefficient != 0:
                usual = max(usual, float(value / abs(coefficient)))
        if usual > 0:
            sizes[i] = usual
    return sizes


def _inverse_root(statistics: BlockStatistics, base: Estimate) -> FloatArray:
    """Return R with R^T R the inverse covariance of an estimate, (b, b).

    That of white noise over the mean inflation of the standard errors,
    so that combinations keep their precision relative to each other.
    """
    noise = base.residual_rms
    if base.noise_covariance is not None:
        noise = np.sqrt(np.diag(base.noise_covariance))
    effort_norm = np.linalg.norm(statistics.factors[:, :, -1], axis=1)
    effort_rms = effort_norm / np.sqrt(np.maximum(statistics.n_valid, 1))
    sigma = np.maximum(noise, _MIN_RELATIVE_NOISE * effort_rms)
    row_scale = np.where(sigma > 0, sigma, 1.0)
    whitened = statistics.factors[:, :, :-1] / row_scale[:, None, None]
    inflation = 1.0
    if base.white_std is not None:
        known = (base.white_std > 0) & (base.std > 0)
        ratio = base.std[known] / base.white_std[known]
        if len(ratio):
            inflation = max(1.0, float(np.exp(np.log(ratio).mean())))
    return np.asarray(np.linalg.qr(np.concatenate(whitened), mode="r")) / inflation


def _notices(
    base: Estimate,
    estimate: Estimate,
    model: BaseParameters,
    misfit: float,
    determined: FloatArray,
) -> list[Notice]:
    """Return notices on what is the data's and what the prior's, and on the misfit."""
    from_data = int((determined > DATA_FRACTION).sum())
    from_prior = int((determined < PRIOR_FRACTION).sum())
    both = len(determined) - from_data - from_prior
    text = (
        f"of {len(determined)} standard parameters the data determine {from_data}, {from_prior} "
        f"are the robot file's, {both} are between"
    )
    notices = [_notice(text)]
    limit = chi2_quantile(0.99, max(len(base.parameters), 1))
    if misfit > limit:
        before = 100 * float(np.sqrt(np.mean(base.residual_relative**2)))
        after = 100 * float(np.sqrt(np.mean(estimate.residual_relative**2)))
        text = (
            "physically consistent bodies near the robot file's do not reach the estimate of the "
            f"base parameters: {misfit:.4g} variances away, chance explains {limit:.4g}; the "
            f"residual rises from {before:.3g} to {after:.3g} % of the effort"
        )
        advice = "check the model, the noise, the drive gains and the values of the robot file"
        notices.append(_notice(text, advice=advice))
    missing = len(model.names) - len(base.parameters)
    if missing:
        notices.append(
            _notice(f"{missing} base parameters were not estimated and follow the prior")
        )
    return notices


def _notice(text: str, *, advice: str = "") -> Notice:
    """Return a notice on the physically consistent estimate."""
    return Notice(rule="physical consistency", level="info", text=text, advice=advice)
