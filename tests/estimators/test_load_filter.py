"""The load filter against a rigid body whose forces are computed in closed form from its motion."""

from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.core.names import INERTIAL, LOAD
from gough.core.regression import Regression
from gough.estimators.linear.least_squares import GaussMarkov
from gough.estimators.load.load_filter import LoadFilter

G = 9.81
VALUES = np.array([20.0, 1.0, -2.0, 5.0, 2.0, 0.1, 1.8, -0.2, 0.3, 0.9])  # m mx my mz Ixx Ixy Iyy Ixz Iyz Izz
NOISE = np.diag([4.0, 4.0, 4.0, 0.25, 0.25, 0.25]) + 0.2


def wrench(acceleration, w, wd, values):
    """Return force and moment of a body about its frame's origin, (6,), by Newton and Euler."""
    m, h, I6 = values[0], values[1:4], values[4:]
    inertia = np.array([[I6[0], I6[1], I6[3]], [I6[1], I6[2], I6[4]], [I6[3], I6[4], I6[5]]])
    felt = acceleration + np.array([0.0, 0.0, G])
    force = m * felt + np.cross(wd, h) + np.cross(w, np.cross(w, h))
    return np.concatenate([force, np.cross(h, felt) + inertia @ wd + np.cross(w, inertia @ w)])


def body_regressor(acceleration, w, wd):
    return np.stack([wrench(acceleration, w, wd, unit) for unit in np.eye(10)], axis=1)


def motion(samples=120, seed=0, turning=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(samples, 3)) * 3, turning * rng.normal(size=(samples, 3)), turning * 4 * rng.normal(
        size=(samples, 3))


def load_regression(seed=0, values=VALUES, turning=1.0, samples=120):
    W = np.stack([body_regressor(*row) for row in zip(*motion(samples, turning=turning))])
    effort = W @ values + np.random.default_rng(100 + seed).normal(size=(samples, 6)) @ np.linalg.cholesky(NOISE).T
    return Regression(regressor=W, effort=effort, rows=tuple("abcdef"), row_units=("N",) * 3 + ("N m",) * 3,
                      parameters=LOAD, units=("kg",) + ("kg m",) * 3 + ("kg m2",) * 6, covariance=NOISE)


def load_sensitivity(samples=120):
    """Return the derivative of the regressor by linear and angular acceleration, (t, 6, 6, 10)."""
    zero, unit = np.zeros(3), np.eye(3)
    rest = body_regressor(zero, zero, zero)
    parts = [body_regressor(unit[i], zero, zero) - rest for i in range(3)]
    parts += [body_regressor(zero, zero, unit[i]) - rest for i in range(3)]
    return np.broadcast_to(np.stack(parts), (samples, 6, 6, 10))


def test_all_ten_parameters_equal_batch_least_squares():
    regression = load_regression()
    history = LoadFilter(mass=1e5, reach=10.0).run(regression)
    expected = GaussMarkov(uncertainty="white").fit(regression)
    np.testing.assert_allclose(history.estimate.values, expected.values, rtol=1e-6)
    np.testing.assert_allclose(history.belief.std, expected.std, rtol=1e-6)
    assert (np.abs(history.estimate.values - VALUES) < 4 * history.estimate.std).all()
    assert history.observability.unobserved == ()


def test_the_prior_follows_from_mass_and_reach():
    belief = LoadFilter(mass=50.0, reach=0.2).start()
    assert belief.parameters == tuple(f"payload.load.{name}" for name in INERTIAL)
    np.testing.assert_allclose(belief.std, [50, 10, 10, 10, 2, 2, 2, 2, 2, 2])
    assert belief.units == ("kg", "kg m", "kg m", "kg m") + ("kg m2",) * 6
    assert belief.observability().unobserved == belief.parameters


def test_a_motion_without_rotation_shows_no_inertia():
    history = LoadFilter(mass=100.0, reach=1.0).run(load_regression(turning=0.0))
    assert history.observability.unobserved == LOAD[4:]
    np.testing.assert_allclose(history.belief.values[:4], VALUES[:4], atol=0.3)
    np.testing.assert_allclose(history.belief.std[4:], 100.0)
    assert sum("not observable" in note for note in history.estimate.notes) == 6
    assert set(history.observability.texts()) == set(LOAD[4:])


def test_standing_still_shows_mass_and_two_moments_only():
    """Gravity alone: the height of the centre of mass along it stays hidden."""
    settings = LoadFilter(mass=100.0, reach=1.0)
    belief = settings.start()
    zero = np.zeros(3)
    for _ in range(50):
        belief = settings.update(belief, body_regressor(zero, zero, zero), wrench(zero, zero, zero, VALUES), NOISE)
    assert set(LOAD) - set(belief.observability().unobserved) == {
        "payload.load.m", "payload.load.mx", "payload.load.my"}


def test_samples_one_by_one_equal_the_run_with_noisy_accelerations_too():
    regression, sensitivity = load_regression(), load_sensitivity()
    noise = np.diag([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    for settings in (LoadFilter(mass=100.0, reach=1.0),
                     LoadFilter(mass=100.0, reach=1.0, acceleration_noise=noise)):
        belief = settings.start()
        for k in range(len(regression)):
            belief = settings.update(belief, regression.regressor[k], regression.effort[k], NOISE, sensitivity[k])
        np.testing.assert_array_equal(belief.factor, settings.run(regression, sensitivity).belief.factor)


def test_noise_of_accelerations_enters_the_deviations():
    """With noisy accelerations the stated effort noise alone gives intervals that miss; the grown covariance covers."""
    sensitivity = load_sensitivity()
    exact = load_regression()
    A = np.diag([0.3, 0.3, 0.3, 0.05, 0.05, 0.05]) ** 2
    inside = {"told": 0, "not told": 0}
    trials = 30
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        error = rng.normal(size=(120, 6)) @ np.sqrt(A)
        rough = replace(exact, regressor=exact.regressor + np.einsum("tm,tmrp->trp", error, sensitivity),
                        effort=exact.regressor @ VALUES + rng.normal(size=(120, 6)) @ np.linalg.cholesky(NOISE).T)
        for name, noise in (("told", A), ("not told", None)):
            settings = LoadFilter(mass=1000.0, reach=1.0, acceleration_noise=noise)
            belief = settings.run(rough, sensitivity).belief
            inside[name] += int((np.abs(belief.values - VALUES) < 1.96 * belief.std).sum())
    assert inside["told"] / (10 * trials) > 0.88
    assert inside["not told"] / (10 * trials) < 0.7


def test_only_some_parameters_may_be_sought():
    regression = load_regression(values=np.append(VALUES[:4], np.zeros(6))).select(LOAD[:4])
    history = LoadFilter(mass=100.0, reach=1.0).run(regression)
    assert history.belief.parameters == LOAD[:4]
    assert (np.abs(history.belief.values - VALUES[:4]) < 4 * history.belief.std).all()


def test_input_stays_untouched_and_results_repeat():
    regression, sensitivity = load_regression(), load_sensitivity().copy()
    settings = LoadFilter(mass=100.0, reach=1.0, acceleration_noise=0.01 * np.eye(6))
    before = sensitivity.copy()
    first, second = settings.run(regression, sensitivity), settings.run(regression, sensitivity)
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(sensitivity, before)


@pytest.mark.parametrize("build", [
    lambda: LoadFilter(mass=0.0, reach=1.0),
    lambda: LoadFilter(mass=1.0, reach=np.nan),
    lambda: LoadFilter(mass=1.0, reach=1.0, acceleration_noise=np.ones((2, 3))),
    lambda: LoadFilter(mass=1.0, reach=1.0).start(("payload.gain",)),
    lambda: LoadFilter(mass=10.0, reach=1.0, acceleration_noise=np.eye(6)).run(load_regression()),
    lambda: LoadFilter(mass=10.0, reach=1.0, acceleration_noise=np.eye(2)).run(load_regression(), load_sensitivity()),
])
def test_bad_input_is_a_clear_error(build):
    with pytest.raises(InvalidInput):
        build()
