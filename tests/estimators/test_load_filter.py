"""Load filters against a rigid body whose forces are computed in closed form from its motion."""

from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidInput, NotConverged
from gough.core.names import INERTIAL, LOAD
from gough.core.regression import Regression
from gough.core.trajectory import angular_acceleration, angular_velocity, rotation_matrix
from gough.estimators.linear.least_squares import GaussMarkov
from gough.estimators.load.load_filter import LoadFilter, StewartLoadFilter
from gough.estimators.load.load_model import StewartLoad

MODEL = StewartLoad(load_mass=500.0, platform_mass=100.0, platform_inertia=np.array([25.0, 25.0, 44.0]))
TRUTH = np.array([0.3, 25.0, 25.0, 25.0])
G = 9.81


def stewart_motion(tilt, *, seconds=4.0):
    """Return controls (t, 7) and angular velocities (t, 3) of S20's excitation with parasitic tilt [rad].

    The wrench is that of the full rigid body: no small angles, centrifugal terms kept.
    """
    t = np.arange(0.0, seconds, 1e-3)

    def wave(amplitude, frequency, phase):
        w = 2 * np.pi * frequency
        return np.stack([amplitude * np.sin(w * t + phase), amplitude * w * np.cos(w * t + phase),
                         -amplitude * w**2 * np.sin(w * t + phase)])

    x = wave(0.2, 0.5, 0.0)
    angles = np.stack([wave(tilt, 0.5, 2.0) + wave(tilt / 3, 1.7, 0.3), wave(tilt, 0.5, 0.9) + wave(tilt / 3, 2.3, 1.0),
                       wave(np.deg2rad(0.2), 0.5, 0.0)], axis=2)
    R = rotation_matrix(angles[0], "zyx")
    w, wd = angular_velocity(angles[0], angles[1], "zyx"), angular_acceleration(*angles, "zyx")
    acceleration = np.stack([x[2], x[2], np.zeros_like(t)], axis=1)
    z, Ix, Iy, Iz = TRUTH
    m = 600.0
    c = R @ np.array([0.0, 0.0, 500.0 * z / m])
    inertia = R @ np.diag([25 + Ix + 500 * z * z, 25 + Iy + 500 * z * z, 44 + Iz]) @ R.transpose(0, 2, 1)
    felt = acceleration + np.array([0.0, 0.0, G])
    force = m * (felt + np.cross(wd, c) + np.cross(w, np.cross(w, c)))
    momentum = (inertia @ w[:, :, None])[:, :, 0]
    moment = (inertia @ wd[:, :, None])[:, :, 0] + np.cross(w, momentum) + m * np.cross(c, felt)
    return np.concatenate([force[:, :2], moment, angles[0][:, :2]], axis=1), w


def noisy(velocities, seed, std=1e-3):
    return velocities + std * np.random.default_rng(seed).normal(size=velocities.shape)


def random_state(rng):
    return np.concatenate([rng.normal(size=3), rng.uniform(-0.5, 1.0, 1), rng.uniform(0, 60, 3)])


@pytest.mark.parametrize("coupling", [False, True])
def test_jacobians_are_the_derivatives_of_the_equations(coupling):
    model = replace(MODEL, yaw_coupling=coupling)
    rng = np.random.default_rng(0)
    for _ in range(10):
        state, control = random_state(rng), rng.normal(size=7) * np.array([1e3, 1e3, 300, 300, 3, 0.01, 0.01])
        for function in (lambda x, u=control: model.predict(x, u, 0.01), lambda x, u=control: model.measure(x, u)):
            value, jacobian = function(state)
            numeric = np.empty_like(jacobian)
            for i in range(7):
                h = 1e-5 * max(1.0, abs(state[i]))
                step = np.zeros(7)
                step[i] = h
                numeric[:, i] = (function(state + step)[0] - function(state - step)[0]) / (2 * h)
            np.testing.assert_allclose(jacobian, numeric, rtol=1e-6, atol=1e-9 * (1 + np.abs(value).max()))


def test_the_equations_solve_the_mass_matrix_of_s20():
    """(25) is (18) at R = 1, solved for the angular accelerations, with gravity moved to the right."""
    rng = np.random.default_rng(1)
    state, wrench, rx, ry = random_state(rng), rng.normal(size=6) * 100, 0.003, -0.002
    z, Ix, Iy, Iz = state[3:]
    ml = 500.0
    mass = np.diag([600.0, 600, 600, 25 + Ix + ml * z * z, 25 + Iy + ml * z * z, 44 + Iz])
    mass[0, 4] = mass[4, 0] = ml * z
    mass[1, 3] = mass[3, 1] = -ml * z
    gravity = np.array([0, 0, 0, -ml * G * z * rx, -ml * G * z * ry, 0])
    expected = np.linalg.solve(mass, wrench - gravity)[3:]
    control = np.array([wrench[0], wrench[1], wrench[3], wrench[4], wrench[5], rx, ry])
    ahead, _ = MODEL.predict(state, control, 0.001)
    np.testing.assert_allclose((ahead - state)[:3] / 0.001, expected, rtol=1e-9)
    np.testing.assert_allclose(MODEL.moments(state, control[None])[0] / MODEL.inertias(state), expected, rtol=1e-12)


def test_derivatives_are_the_corrected_printed_ones():
    """(34)-(35) of S20 as corrected, without gravity."""
    rng = np.random.default_rng(2)
    state, (fx, fy, Mx, My, Mz), dt = random_state(rng), rng.normal(size=5) * 100, 0.001
    z, Ix, Iy, Iz = state[3:]
    ml, m = 500.0, 600.0
    N1, D1 = ml * z * fy + m * Mx, m * (25 + Ix + ml * z * z) - ml**2 * z * z
    N2, D2 = ml * z * fx - m * My, ml**2 * z * z - m * (25 + Iy + ml * z * z)
    jacobian = MODEL.predict(state, np.array([fx, fy, Mx, My, Mz, 0.0, 0.0]), dt)[1]
    np.testing.assert_allclose(jacobian[0, 3], dt * (ml * fy / D1 - N1 * (2 * m * ml * z - 2 * ml**2 * z) / D1**2))
    np.testing.assert_allclose(jacobian[0, 4], -dt * m * N1 / D1**2)
    np.testing.assert_allclose(jacobian[1, 3], dt * (ml * fx / D2 - N2 * (2 * ml**2 * z - 2 * m * ml * z) / D2**2))
    np.testing.assert_allclose(jacobian[1, 5], dt * m * N2 / D2**2)
    np.testing.assert_allclose(jacobian[2, 6], -dt * Mz / (44 + Iz) ** 2)
    np.testing.assert_array_equal(jacobian[3:], np.eye(7)[3:])


def test_yaw_coupling_is_what_a_tilted_load_adds():
    """Full rigid body: with the coupling the moments about z balance far better."""
    controls, w = stewart_motion(0.005)
    state = np.concatenate([np.zeros(3), TRUTH])
    wd = np.gradient(w, 1e-3, axis=0)[5:-5]
    errors = [np.abs(replace(MODEL, yaw_coupling=flag).moments(state, controls)[5:-5] / MODEL.inertias(state) - wd)
              for flag in (False, True)]
    assert errors[1][:, 2].max() < 0.05 * errors[0][:, 2].max()
    assert errors[1][:, :2].max() < 0.02 * np.abs(wd[:, :2]).max()


@pytest.mark.parametrize(("tilt", "seed"), [(0.0005, 1), (0.0005, 2), (0.005, 1), (0.005, 2), (0.015, 1)])
def test_errors_of_the_papers_filter_stay_within_its_honest_deviations(tilt, seed):
    controls, w = stewart_motion(tilt)
    result = StewartLoadFilter().run(MODEL, controls, noisy(w, seed), 1e-3)
    error = result.estimate.values - TRUTH
    assert abs(error[0]) < 0.01 * 0.3  # the paper's accuracy of z
    assert (np.abs(error) < 3 * result.estimate.std).all()
    assert 0.8 < result.consistency < 1.1
    for name in result.unobserved:
        assert any(f"{name} is not observable" in note for note in result.estimate.notes)


def test_seeds_do_not_matter_to_what_is_called_observable():
    """Strong parasitic rotation shows Ixx and Iyy, and hides Izz behind the dropped coupling."""
    controls, w = stewart_motion(0.005)
    results = [StewartLoadFilter().run(MODEL, controls, noisy(w, seed), 1e-3) for seed in range(4)]
    errors = np.array([r.estimate.values - TRUTH for r in results])
    ratio = errors / np.array([r.estimate.std for r in results])
    assert np.sqrt((ratio**2).mean(axis=0)).max() < 1.5
    assert all("payload.Izz" in r.unobserved for r in results)
    assert not any("payload.z" in r.unobserved or "payload.Iyy" in r.unobserved for r in results)
    assert np.sqrt((errors[:, 2] ** 2).mean()) < 0.1 * 25


def test_with_the_coupling_izz_is_found_too():
    controls, w = stewart_motion(0.005)
    result = StewartLoadFilter().run(replace(MODEL, yaw_coupling=True), controls, noisy(w, 0), 1e-3)
    assert "payload.Izz" not in result.unobserved
    assert abs(result.estimate["payload.Izz"] - 25.0) < 0.2 * 25
    assert (np.abs(result.estimate.values - TRUTH) < 3 * result.estimate.std).all()


def test_perfect_tracking_shows_no_inertia_about_x_and_y():
    controls, w = stewart_motion(0.0)
    result = StewartLoadFilter().run(MODEL, controls, noisy(w, 3), 1e-3)
    assert {"payload.Ixx", "payload.Iyy"} <= set(result.unobserved)
    assert "payload.z" not in result.unobserved
    assert abs(result.estimate["payload.z"] - 0.3) < 0.001


def test_noisy_moments_are_not_taken_for_inertia_in_silence():
    controls, w = stewart_motion(0.0005)
    rng = np.random.default_rng(5)
    rough = controls + rng.normal(size=controls.shape) * np.array([10, 10, 4, 4, 4, 0, 0])
    result = StewartLoadFilter().run(MODEL, rough, noisy(w, 5), 1e-3)
    assert {"payload.Ixx", "payload.Iyy"} <= set(result.unobserved)
    assert (np.abs(result.estimate.values - TRUTH) < 3 * result.estimate.std).all()
    assert (np.abs(result.estimate.values - TRUTH)[2] > 3 * result.estimate.white_std[2])  # its own would mislead


def test_neglected_rotations_are_part_of_the_deviations():
    """Precise gyroscopes and much tilt: the filter's own deviations are far too small, the reported ones are not."""
    controls, w = stewart_motion(0.03, seconds=2.0)
    settings = StewartLoadFilter(measurement_noise=1e-8 * np.eye(3), process_noise=np.diag([1e-10] * 3 + [0.0] * 4))
    result = settings.run(replace(MODEL, yaw_coupling=True), controls, noisy(w, 0, 1e-4), 1e-3)
    ratio = np.abs(result.estimate.values - TRUTH) / result.estimate.white_std
    assert (ratio[:2] > 4).all()
    assert (np.abs(result.estimate.values - TRUTH) < 3 * result.estimate.std).all()


def test_innovations_larger_than_stated_widen_the_deviations():
    controls, w = stewart_motion(0.005)
    result = StewartLoadFilter().run(MODEL, controls, noisy(w, 1, 1.6e-3), 1e-3)
    assert 2 < result.consistency < 3
    np.testing.assert_allclose(result.shares["noise"], np.sqrt(result.consistency) * result.estimate.white_std)


def test_runaway_starts_are_noticed_and_repeated():
    controls, w = stewart_motion(0.0005, seconds=0.6)
    lost = []
    for seed in range(10):
        velocities = noisy(w, seed)
        first = StewartLoadFilter().kalman.run(MODEL, StewartLoadFilter().belief(), controls, velocities, 1e-3)
        if abs(first.mean[-1, 3] - 0.3) > 1.0:
            lost.append(velocities)
    assert lost
    for velocities in lost[:2]:
        with pytest.raises(NotConverged, match="times the stated noise"):
            StewartLoadFilter(restarts=0).run(MODEL, controls, velocities, 1e-3)
        result = StewartLoadFilter().run(MODEL, controls, velocities, 1e-3)
        assert abs(result.estimate["payload.z"] - 0.3) < 0.003


def test_the_history_converges_as_in_figure_5():
    controls, w = stewart_motion(0.005)
    result = StewartLoadFilter().run(MODEL, controls, noisy(w, 1), 1e-3)
    history = result.history
    assert history.mean.shape == history.std.shape == (4000, 7)
    assert abs(history.mean[500, 3] - 0.3) < 0.01
    assert (np.diff(history.std[:, 3:], axis=0) < 1e-12).all()  # constants only become better known
    np.testing.assert_array_equal(history.mean[-1, 3:], result.estimate.values)


def test_online_use_gives_the_same_numbers():
    controls, w = stewart_motion(0.005, seconds=0.3)
    settings, measured = StewartLoadFilter(), noisy(w, 1)
    kalman, belief = settings.kalman, settings.belief()
    for k in range(300):
        if k:
            belief = kalman.predict(MODEL, belief, controls[k - 1], 1e-3)
        belief, _ = kalman.update(MODEL, belief, controls[k], measured[k])
    np.testing.assert_array_equal(belief.mean, kalman.run(MODEL, settings.belief(), controls, measured, 1e-3).mean[-1])


def test_wrong_signs_are_an_error_not_a_number():
    controls, w = stewart_motion(0.005, seconds=2.0)
    flipped = controls * np.array([1, 1, -1, -1, 1, 1, 1])
    flipped[:, 2:4] += 200.0  # and a moment no load explains
    with pytest.raises(NotConverged):
        StewartLoadFilter().run(MODEL, flipped, noisy(w, 0), 1e-3)


@pytest.mark.parametrize("build", [
    lambda: replace(MODEL, load_mass=0.0),
    lambda: replace(MODEL, platform_inertia=np.array([25.0, -1.0, 44.0])),
    lambda: replace(MODEL, platform_inertia=np.array([25.0, 44.0])),
    lambda: StewartLoadFilter(covariance=np.eye(4)),
    lambda: StewartLoadFilter().run(MODEL, np.zeros((5, 6)), np.zeros((5, 3)), 1e-3),
    lambda: StewartLoadFilter().run(MODEL, np.full((5, 7), np.nan), np.zeros((5, 3)), 1e-3),
    lambda: StewartLoadFilter().run(MODEL, np.zeros((0, 7)), np.zeros((0, 3)), 1e-3),
    lambda: StewartLoadFilter(measurement_noise=np.zeros((3, 3))).run(MODEL, np.zeros((5, 7)), np.zeros((5, 3)), 1e-3),
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


def test_an_inertia_below_minus_the_platform_stops_the_filter():
    with pytest.raises(NotConverged, match="below minus"):
        MODEL.predict(np.array([0, 0, 0, 0.1, 10.0, -40.0, 0.0]), np.ones(7), 1e-3)


# --- all ten parameters -----------------------------------------------------------------------------------------------

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
    seen = set(LOAD) - set(belief.observability().unobserved)
    assert seen == {"payload.load.m", "payload.load.mx", "payload.load.my"}


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
