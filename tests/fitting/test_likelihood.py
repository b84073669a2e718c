"""Maximum likelihood on arms written out by hand, against scipy's optimiser and known truths."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.signal import lfilter

from gough.core.errors import GoughError, InvalidInput, LoopNotClosed, NotConverged, NotIdentifiable
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.likelihood import CutoffLikelihood, FullLikelihood, Point, fourier_bins
from gough.fitting.regression import Regression
from trials import assert_covers, repeated


def pendulum(q, qd, qdd):
    """Return the regressor of J qdd + mgl sin q + fv qd, (t, 1, 3)."""
    return np.stack([qdd, np.sin(q), qd], axis=2)


def arm(q, qd, qdd):
    """Return the regressor of a planar arm of two links, (t, 2, 7)."""
    (q1, q2), (v1, v2), (a1, a2) = q.T, qd.T, qdd.T
    o, c, s = np.zeros_like(q1), np.cos(q2), np.sin(q2)
    first = [
        a1,
        2 * c * a1 + c * a2 - s * (2 * v1 * v2 + v2**2),
        a2,
        np.cos(q1),
        np.cos(q1 + q2),
        v1,
        o,
    ]
    second = [o, c * a1 + s * v1**2, a1 + a2, o, np.cos(q1 + q2), o, v2]
    return np.stack([np.stack(first, axis=1), np.stack(second, axis=1)], axis=1)


ROBOTS = {
    "pendulum": (pendulum, np.array([0.5, 4.0, 0.3]), 1),
    "arm": (arm, np.array([1.2, 0.3, 0.4, 9.0, 3.0, 0.5, 0.2]), 2),
}
PERIOD = 2.0


def basis(time, harmonics):
    """Return position, velocity and acceleration per coefficient (offset, mu, nu), each (t, 2
    harmonics + 1).
    """
    kw = 2 * np.pi / PERIOD * np.arange(1, harmonics + 1)
    s, c, one = np.sin(time[:, None] * kw), np.cos(time[:, None] * kw), np.ones((len(time), 1))
    return (
        np.hstack([one, s / kw, -c / kw]),
        np.hstack([0 * one, c, s]),
        np.hstack([0 * one, -s * kw, c * kw]),
    )


class TrajectoryFamily:
    """z holds the Fourier coefficients of every coordinate, one after the other."""

    def __init__(self, robot, harmonics, position, effort, position_covariance, effort_covariance):
        self.regressor, self.truth, self.dof = ROBOTS[robot]
        self.time = PERIOD * np.arange(len(position)) / len(position)
        self.basis = basis(self.time, harmonics)
        self.position, self.effort, self.replicates = position, effort, None
        self.position_covariance, self.effort_covariance = position_covariance, effort_covariance

    def motion(self, z):
        coefficients = z.reshape(self.dof, -1).T
        return [b @ coefficients for b in self.basis]

    def regression(self, z):
        r, p = self.dof, len(self.truth)
        return Regression(
            regressor=self.regressor(*self.motion(z)),
            effort=self.effort,
            rows=tuple(f"motor{i}" for i in range(r)),
            row_units=("N m",) * r,
            parameters=tuple(f"p{i}" for i in range(p)),
            units=("1",) * p,
            covariance=self.effort_covariance,
            time=self.time,
            replicates=self.replicates,
        )

    def position_residual(self, z):
        return self.position - self.motion(z)[0]

    def position_jacobian(self, z):
        width = self.basis[0].shape[1]
        jacobian = np.zeros((len(self.time), self.dof, len(z)))
        for i in range(self.dof):
            jacobian[:, i, i * width : (i + 1) * width] = self.basis[0]
        return jacobian

    def effort_jacobian(self, z, values):
        """Derivatives by complex steps: exact to rounding, no differences."""
        parts = self.motion(z)
        blocks = []
        for i in range(self.dof):
            total = 0
            for order in range(3):
                moved = [part.astype(complex) for part in parts]
                moved[order][:, i] += 1e-30j
                slope = (self.regressor(*moved) @ values).imag / 1e-30
                total = total + slope[:, :, None] * self.basis[order][:, None, :]
            blocks.append(total)
        return np.concatenate(blocks, axis=2)


class CutoffFamily:
    """z = (cut-off,): the ideal low-pass of AH09 3.3 on the measured positions."""

    def __init__(self, family):
        self.family = family
        self.position_covariance = family.position_covariance

    def motion(self, z):
        t = len(self.family.time)
        frequency = np.fft.rfftfreq(t, PERIOD / t)
        spectrum = (
            np.fft.rfft(self.family.position, axis=0) * (frequency <= z[0] * (1 + 1e-9))[:, None]
        )
        jw = 2j * np.pi * frequency[:, None]
        return [np.fft.irfft(spectrum * jw**k, t, axis=0) for k in range(3)]

    def regression(self, z):
        plain = self.family.regression(np.zeros(self.family.dof * self.family.basis[0].shape[1]))
        return replace(plain, regressor=self.family.regressor(*self.motion(z)))

    def position_residual(self, z):
        return self.family.position - self.motion(z)[0]


def excitation(robot, harmonics, seed=0):
    rng = np.random.default_rng(seed)
    dof = ROBOTS[robot][2]
    return np.concatenate(
        [np.concatenate([[0.4], 1.5 * rng.normal(size=2 * harmonics)]) for _ in range(dof)]
    )


def make_family(
    robot, *, seed=1, harmonics=2, samples=80, position_std=0.01, effort_std=0.05, cross=0.0
):
    """Return a family with noisy data and the true coefficients."""
    _, truth, dof = ROBOTS[robot]
    z = excitation(robot, harmonics)
    sigma_q = position_std**2 * (0.7 * np.eye(dof) + 0.3)
    sigma_e = effort_std**2 * (0.7 * np.eye(dof) + 0.3)
    family = TrajectoryFamily(
        robot, harmonics, np.zeros((samples, dof)), np.zeros((samples, dof)), sigma_q, sigma_e
    )
    mixed = cross * position_std * effort_std * np.eye(dof)
    joint = np.block([[sigma_q, mixed], [mixed.T, sigma_e]])
    noise = (
        np.random.default_rng(seed).normal(size=(samples, 2 * dof)) @ np.linalg.cholesky(joint).T
    )
    family.position = family.motion(z)[0] + noise[:, :dof]
    family.effort = family.regression(z).regressor @ truth + noise[:, dof:]
    return family, z, mixed


def fitted_start(family):
    """Coefficients by least squares on the positions alone, AH09 (18)."""
    return np.linalg.lstsq(family.basis[0], family.position, rcond=None)[0].T.ravel()


def test_the_hand_written_derivatives_are_right():
    for robot in ROBOTS:
        family, z, _ = make_family(robot)
        values = family.truth
        for k in range(len(z)):
            step = np.zeros(len(z))
            step[k] = 1e-6
            ahead, behind = z + step, z - step
            numeric = (
                (family.regression(ahead).regressor - family.regression(behind).regressor)
                @ values
                / 2e-6
            )
            np.testing.assert_allclose(
                family.effort_jacobian(z, values)[:, :, k], numeric, atol=1e-6
            )
            numeric = (family.position_residual(behind) - family.position_residual(ahead)) / 2e-6
            np.testing.assert_allclose(family.position_jacobian(z)[:, :, k], numeric, atol=1e-8)


@pytest.mark.parametrize("cross", [0.0, 0.5])
@pytest.mark.parametrize("robot", ROBOTS)
def test_the_gradient_of_the_profile_is_its_derivative(robot, cross):
    family, z, mixed = make_family(robot, cross=cross)
    point = z + 0.01 * np.random.default_rng(3).normal(size=len(z))
    here = Point(family, point, mixed)
    gradient = here.residual @ here.whitened(*here.jacobians())
    for k in range(len(z)):
        step = np.zeros(len(z))
        step[k] = 1e-5
        numeric = (
            Point(family, point + step, mixed).cost - Point(family, point - step, mixed).cost
        ) / 2e-5
        np.testing.assert_allclose(
            gradient[k], numeric, rtol=2e-6, atol=1e-5 * np.abs(gradient).max()
        )


@pytest.mark.parametrize("cross", [0.0, 0.5])
@pytest.mark.parametrize("robot", ROBOTS)
def test_full_likelihood_agrees_with_a_general_optimiser(robot, cross):
    """scipy minimises the same squares over trajectory and parameters together, with numeric
    derivatives.
    """
    family, _, mixed = make_family(robot, cross=cross)
    start = fitted_start(family)
    result = FullLikelihood(uncertainty="white").fit(family, start, cross_covariance=mixed)
    k, p = len(start), len(family.truth)
    joint = np.block([[family.position_covariance, mixed], [mixed.T, family.effort_covariance]])
    root = np.linalg.inv(np.linalg.cholesky(joint))

    def residual(x):
        effort = family.effort - family.regression(x[:k]).regressor @ x[k:]
        return (np.hstack([family.position_residual(x[:k]), effort]) @ root.T).ravel()

    other = least_squares(
        residual,
        np.concatenate([start, np.ones(p)]),
        jac="3-point",
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    np.testing.assert_allclose(result.cost, other.cost, rtol=1e-10)
    covariance = np.linalg.inv(other.jac.T @ other.jac)
    std = np.sqrt(np.diag(covariance))
    assert (
        np.abs((np.concatenate([result.nonlinear, result.estimate.values]) - other.x) / std).max()
        < 1e-3
    )
    np.testing.assert_allclose(
        result.estimate.covariance, covariance[k:, k:], rtol=1e-4, atol=1e-6 * std[k:].max() ** 2
    )
    np.testing.assert_allclose(
        result.nonlinear_covariance, covariance[:k, :k], rtol=1e-4, atol=1e-6 * std[:k].max() ** 2
    )


def test_without_noise_full_likelihood_is_exact_from_afar():
    family, z, _ = make_family("arm", position_std=1e-6, effort_std=1e-6)
    exact = TrajectoryFamily(
        "arm",
        2,
        family.motion(z)[0],
        family.regression(z).regressor @ family.truth,
        family.position_covariance,
        family.effort_covariance,
    )
    result = FullLikelihood().fit(exact, z + 0.3)
    np.testing.assert_allclose(result.estimate.values, exact.truth, rtol=1e-9)
    np.testing.assert_allclose(result.nonlinear, z, atol=1e-9)


def test_full_likelihood_intervals_cover_where_gauss_markov_does_not():
    """Position noise dominates: Gauss-Markov on the fitted trajectory believes its regressor."""
    trials, inside, naive = 300, 0, 0
    errors = []
    for seed in range(trials):
        family, _, _ = make_family("pendulum", seed=seed, position_std=0.02, effort_std=0.02)
        start = fitted_start(family)
        result = FullLikelihood(uncertainty="white").fit(family, start)
        interval = result.estimate.interval()
        inside += int(((interval[:, 0] < family.truth) & (interval[:, 1] > family.truth)).sum())
        errors.append(result.estimate.values - family.truth)
        plain = GaussMarkov(uncertainty="white").fit(family.regression(start)).interval()
        naive += int(((plain[:, 0] < family.truth) & (plain[:, 1] > family.truth)).sum())
    assert 0.92 <= inside / (3 * trials) <= 0.975
    assert naive / (3 * trials) < 0.8
    spread = np.std(errors, axis=0)
    np.testing.assert_allclose(
        spread, result.estimate.std, rtol=0.15
    )  # the Cramer-Rao bound is met
    assert (np.abs(np.mean(errors, axis=0)) < 4 * spread / np.sqrt(trials)).all()  # and no bias


def coloured_periods(seed, count=10, memory=0.9, samples=80):
    """A pendulum repeated; noise of positions and efforts remembers itself.

    Covariances as if from the scatter.
    """
    family, z, _ = make_family("pendulum", position_std=0.02, effort_std=0.02, samples=samples)
    rng = np.random.default_rng([seed, 9])
    white = rng.normal(size=(200 + count * samples, 2)) * 0.02 * np.sqrt(1 - memory**2)
    noise = lfilter([1], [1, -memory], white, axis=0)[200:].reshape(count, samples, 2)
    positions = family.motion(z)[0] + noise[:, :, :1]
    efforts = family.regression(z).regressor @ family.truth + noise[:, :, 1:]
    family.position, family.effort = positions.mean(axis=0), efforts.mean(axis=0)
    family.position_covariance = family.position_covariance / count
    family.effort_covariance = family.effort_covariance / count
    family.replicates = efforts
    return family, positions


@repeated(60, 300)
def test_full_likelihood_intervals_cover_under_coloured_noise_where_white_ones_do_not(trials):
    inside = {"auto": [], "white": []}
    for seed in range(trials):
        family, positions = coloured_periods(seed)
        for mode in inside:
            found = FullLikelihood(uncertainty=mode).fit(
                family, fitted_start(family), position_periods=positions
            )
            low, high = found.estimate.interval().T
            inside[mode].append((low < family.truth) & (high > family.truth))
    assert found.estimate.uncertainty == "white"
    assert_covers(inside["auto"])
    assert np.mean(inside["white"]) < 0.85


def test_full_likelihood_scatter_is_that_of_fits_to_single_periods():
    """Each period shifts the estimate by as much as its own errors, averaged with those of the
    others, ask for.
    """
    family, positions = coloured_periods(3)
    efforts = family.replicates
    found = (
        FullLikelihood(tolerance=1e-12)
        .fit(family, fitted_start(family), position_periods=positions)
        .estimate
    )
    assert found.uncertainty == "period"
    assert (found.degrees_of_freedom == 9).all()
    alone = []
    for k in range(10):
        part, _ = coloured_periods(3)
        part.position = part.position + 0.01 * (
            positions[k] - part.position
        )  # a small share: the fit is not linear
        part.effort, part.replicates = part.effort + 0.01 * (efforts[k] - part.effort), None
        moved = (
            FullLikelihood(uncertainty="white", tolerance=1e-12)
            .fit(part, fitted_start(part))
            .estimate.values
        )
        alone.append((moved - found.values) / 0.01)
    np.testing.assert_allclose(
        found.std, np.sqrt(np.sum(np.square(alone), axis=0) / (10 * 9)), rtol=0.03
    )
    with pytest.raises(InvalidInput, match="positions of the repetitions"):
        FullLikelihood().fit(family, fitted_start(family), position_periods=positions[:, :-1])
    with pytest.raises(InvalidInput, match="scatter between periods cannot be used"):
        FullLikelihood(uncertainty="period").fit(family, fitted_start(family))
    assert FullLikelihood().fit(family, fitted_start(family)).estimate.uncertainty == "hac"


def test_full_likelihood_beats_gauss_markov_on_a_noisy_regressor():
    """With a wide filter the noise of the accelerations attenuates the inertias; the free
    trajectory does not.
    """
    biased, free = [], []
    for seed in range(12):
        family, _, _ = make_family("arm", seed=seed, samples=120, position_std=0.005)
        wide = CutoffFamily(family).regression(np.array([20 / PERIOD]))
        biased.append(GaussMarkov(uncertainty="white").fit(wide).values / family.truth - 1)
        free.append(
            FullLikelihood().fit(family, fitted_start(family)).estimate.values / family.truth - 1
        )
    assert np.mean(biased, axis=0)[0] < -0.1  # attenuated
    assert abs(np.mean(free, axis=0)[0]) < 0.01
    assert (np.abs(np.mean(free, axis=0))[:5] < 0.3 * np.abs(np.mean(biased, axis=0)).max()).all()


def test_stated_covariances_are_checked_against_the_residuals():
    family, _, _ = make_family("arm")
    right = FullLikelihood().fit(family, fitted_start(family))
    assert 0.7 < right.consistency < 1.3
    assert not any("stated covariances" in str(notice) for notice in right.estimate.notices)
    family.effort_covariance = family.effort_covariance / 9
    family.position_covariance = family.position_covariance / 9
    wrong = FullLikelihood().fit(family, fitted_start(family))
    assert any(
        "times those of the stated covariances" in str(notice) for notice in wrong.estimate.notices
    )
    np.testing.assert_allclose(wrong.consistency, 9 * right.consistency, rtol=1e-6)


def test_per_sample_covariances_weigh_samples():
    family, _, _ = make_family("arm")
    result = FullLikelihood().fit(family, fitted_start(family))
    family.effort_covariance = np.broadcast_to(family.effort_covariance, (80, 2, 2)).copy()
    np.testing.assert_allclose(
        FullLikelihood().fit(family, fitted_start(family)).estimate.values,
        result.estimate.values,
        rtol=1e-8,
    )
    family.effort = family.effort.copy()
    family.effort[5] += 10.0
    family.effort_covariance[5] *= 1e8  # a sample known to be worthless
    np.testing.assert_allclose(
        FullLikelihood().fit(family, fitted_start(family)).estimate.values,
        result.estimate.values,
        rtol=0.02,
    )


def test_a_step_out_of_the_workspace_is_shortened():
    family, z, _ = make_family("pendulum", position_std=1e-3)
    inside, steps = family.regression, [z + 0.6]
    refused = []

    def regression(point):
        if np.abs(point - steps[-1]).max() > 0.2:
            refused.append(point)
            raise LoopNotClosed("out of reach")
        steps.append(point)
        return inside(point)

    family.regression = regression
    result = FullLikelihood().fit(family, z + 0.6)
    assert refused
    assert np.abs(result.nonlinear - z).max() < 0.1


class Wrong(TrajectoryFamily):
    def effort_jacobian(self, z, values):
        return -3 * super().effort_jacobian(z, values)

    def position_jacobian(self, z):
        return -super().position_jacobian(z)


class Doubled(TrajectoryFamily):
    """A last coefficient that does nothing."""

    def motion(self, z):
        return super().motion(z[: self.dof * self.basis[0].shape[1]])

    def position_jacobian(self, z):
        return np.concatenate(
            [super().position_jacobian(z[:-1]), np.zeros((len(self.time), self.dof, 1))], axis=2
        )

    def effort_jacobian(self, z, values):
        idle = np.zeros((len(self.time), self.dof, 1))
        return np.concatenate([super().effort_jacobian(z[:-1], values), idle], axis=2)


def as_kind(kind, robot="pendulum", **changes):
    family, _, _ = make_family(robot, **changes)
    return kind(
        robot,
        2,
        family.position,
        family.effort,
        family.position_covariance,
        family.effort_covariance,
    )


def test_wrong_derivatives_and_idle_parameters_are_errors():
    with pytest.raises(NotConverged, match="derivatives"):
        FullLikelihood().fit(as_kind(Wrong), excitation("pendulum", 2) + 0.3)
    family = as_kind(Doubled)
    with pytest.raises(NotIdentifiable, match="number 5 of 6"):
        FullLikelihood().fit(family, np.append(fitted_start(family), 1.0))
    with pytest.raises(NotConverged, match="0 steps"):
        FullLikelihood(iterations=0).fit(as_kind(TrajectoryFamily), excitation("pendulum", 2) + 0.3)


def test_more_unknowns_than_measurements_is_an_error():
    family, z, _ = make_family("pendulum", samples=4)
    with pytest.raises(NotIdentifiable):
        FullLikelihood().fit(family, z)


def test_input_stays_untouched_and_results_repeat():
    family, _, _ = make_family("arm")
    start = fitted_start(family)
    kept = start.copy()
    first, second = FullLikelihood().fit(family, start), FullLikelihood().fit(family, start)
    np.testing.assert_array_equal(start, kept)
    np.testing.assert_array_equal(first.estimate.values, second.estimate.values)


# --- cut-off as parameter
# ---------------------------------------------------------------------------------------------


def bins(family, highest=25):
    return fourier_bins(PERIOD, highest, family.dof)


def test_aic_settles_at_the_true_bandwidth_and_the_printed_criterion_wanders():
    found = {"aic": [], "printed": []}
    for seed in range(10):
        family, _, _ = make_family("arm", seed=seed, harmonics=3, samples=200, position_std=1e-4)
        for criterion, cutoffs in found.items():
            cutoffs.append(
                CutoffLikelihood(criterion=criterion)
                .fit(CutoffFamily(family), *bins(family))
                .cutoff
            )
    assert np.median(found["aic"]) == pytest.approx(3 / PERIOD)
    assert np.mean(np.isclose(found["aic"], 3 / PERIOD)) >= 0.7
    assert np.median(found["printed"]) > 4 / PERIOD


def test_criteria_are_the_sums_of_equation_24():
    family, _, _ = make_family("arm", samples=60)
    result = CutoffLikelihood().fit(CutoffFamily(family), *bins(family, 6))
    for i, cutoff in enumerate(result.cutoffs):
        z = np.array([cutoff])
        regression = CutoffFamily(family).regression(z)
        W, y = np.concatenate(regression.regressor), regression.effort.ravel()
        weight = np.kron(np.eye(60), np.linalg.inv(family.effort_covariance))
        values = np.linalg.solve(W.T @ weight @ W, W.T @ weight @ y)
        np.testing.assert_allclose(result.values[i], values, rtol=1e-7)
        left = y - W @ values
        np.testing.assert_allclose(result.effort_term[i], left @ weight @ left / 2, rtol=1e-9)
        delta = CutoffFamily(family).position_residual(z)
        expected = (
            np.einsum("ti,ij,tj->", delta, np.linalg.inv(family.position_covariance), delta) / 2
        )
        np.testing.assert_allclose(result.position_term[i], expected, rtol=1e-9)
    np.testing.assert_array_equal(result.orders, 4 * np.arange(1, 7))
    np.testing.assert_allclose(result.aic - result.printed, result.orders)
    best = int(np.argmin(result.aic))
    assert result.cutoff == result.cutoffs[best]
    np.testing.assert_allclose(result.estimate.values, result.values[best], rtol=1e-9)


@pytest.mark.parametrize("criterion", ["aic", "printed"])
def test_without_position_noise_it_is_gauss_markov(criterion):
    family, z, _ = make_family("arm", harmonics=3, samples=100)
    family.position = family.motion(z)[0]
    result = CutoffLikelihood(criterion=criterion).fit(CutoffFamily(family), *bins(family, 12))
    expected = GaussMarkov().fit(family.regression(z))
    np.testing.assert_allclose(result.estimate.values, expected.values, rtol=1e-9)
    np.testing.assert_allclose(result.estimate.std, expected.std, rtol=1e-6)
    if criterion == "aic":
        assert result.cutoff == pytest.approx(3 / PERIOD)


def test_a_best_cutoff_at_the_border_is_noted():
    family, _, _ = make_family("arm", harmonics=3)
    result = CutoffLikelihood().fit(CutoffFamily(family), *bins(family, 3))
    assert any("try higher ones" in str(notice) for notice in result.estimate.notices)


@pytest.mark.parametrize(
    "build",
    [
        lambda: CutoffLikelihood(criterion="bic"),
        lambda: fourier_bins(-1.0, 5, 2),
        lambda: fourier_bins(1.0, 0, 2),
        lambda: CutoffLikelihood().fit(CutoffFamily(make_family("arm")[0]), [], []),
        lambda: CutoffLikelihood().fit(CutoffFamily(make_family("arm")[0]), [-1.0], [2]),
        lambda: CutoffLikelihood().fit(CutoffFamily(make_family("arm")[0]), [1.0, 2.0], [2]),
        lambda: FullLikelihood().fit(make_family("arm")[0], np.full(10, np.nan)),
        lambda: FullLikelihood().fit(
            make_family("arm")[0], excitation("arm", 2), cross_covariance=np.zeros((3, 2))
        ),
        lambda: FullLikelihood().fit(
            make_family("arm")[0], excitation("arm", 2), cross_covariance=np.ones((2, 2))
        ),
    ],
)
def test_bad_input_is_a_clear_error(build):
    with pytest.raises(GoughError):
        build()


def test_missing_or_singular_covariances_are_refused():
    family, z, _ = make_family("arm")
    family.effort_covariance = None
    with pytest.raises(InvalidInput, match="covariance of the effort noise"):
        FullLikelihood().fit(family, z)
    family, z, _ = make_family("arm")
    family.position_covariance = np.zeros((2, 2))
    with pytest.raises(InvalidInput, match="position 1"):
        FullLikelihood().fit(family, z)


@repeated(80, 200)
def test_the_bound_and_what_believing_the_positions_costs_are_those_of_many_trials(trials):
    """Scatter of full likelihood and of Gauss-Markov on the fitted trajectory."""
    found = {"free": [], "believing": []}
    for seed in range(trials):
        family, _, _ = make_family("arm", seed=seed, position_std=0.02)
        start = fitted_start(family)
        result = FullLikelihood(uncertainty="white").fit(family, start)
        found["free"].append(result.estimate.values)
        found["believing"].append(
            GaussMarkov(uncertainty="white").fit(family.regression(start)).values
        )
    np.testing.assert_allclose(np.std(found["free"], axis=0), result.bound, rtol=0.2)
    np.testing.assert_allclose(
        np.std(found["believing"], axis=0), result.std_on_fitted_trajectory, rtol=0.25
    )
    assert (result.std_on_fitted_trajectory / result.bound).max() > 1.3
    notice = next(n for n in result.estimate.notices if "errors-in-variables bound" in n.text)
    assert f"at most {(result.std_on_fitted_trajectory / result.bound).max():.3g}" in notice.text
