"""S20's filter of the Stewart platform's load: against batch solutions, finite differences and a
full rigid body.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation
from stewart_filter import Belief, ExtendedKalman, StewartLoad, StewartLoadFilter

from gough.core.errors import GoughError, InvalidInput, NotConverged
from gough.core.rotation import angular_motion

MODEL = StewartLoad(
    load_mass=500.0, platform_mass=100.0, platform_inertia=np.array([25.0, 25.0, 44.0])
)
TRUTH = np.array([0.3, 25.0, 25.0, 25.0])
G = 9.81


def stewart_motion(tilt, *, seconds=4.0):
    """Return controls (t, 7) and angular velocities (t, 3) of S20's excitation with parasitic tilt
    [rad].

    The wrench is that of the full rigid body: no small angles, centrifugal terms kept.
    """
    t = np.arange(0.0, seconds, 1e-3)

    def wave(amplitude, frequency, phase):
        w = 2 * np.pi * frequency
        return np.stack(
            [
                amplitude * np.sin(w * t + phase),
                amplitude * w * np.cos(w * t + phase),
                -amplitude * w**2 * np.sin(w * t + phase),
            ]
        )

    x = wave(0.2, 0.5, 0.0)
    angles = np.stack(
        [
            wave(tilt, 0.5, 2.0) + wave(tilt / 3, 1.7, 0.3),
            wave(tilt, 0.5, 0.9) + wave(tilt / 3, 2.3, 1.0),
            wave(np.deg2rad(0.2), 0.5, 0.0),
        ],
        axis=2,
    )
    R = Rotation.from_euler("ZYX", angles[0][:, ::-1]).as_matrix()
    w, wd = angular_motion(*angles, "zyx")
    acceleration = np.stack([x[2], x[2], np.zeros_like(t)], axis=1)
    z, Ix, Iy, Iz = TRUTH
    m = 600.0
    c = R @ np.array([0.0, 0.0, 500.0 * z / m])
    inertia = (
        R @ np.diag([25 + Ix + 500 * z * z, 25 + Iy + 500 * z * z, 44 + Iz]) @ R.transpose(0, 2, 1)
    )
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
        state, control = (
            random_state(rng),
            rng.normal(size=7) * np.array([1e3, 1e3, 300, 300, 3, 0.01, 0.01]),
        )
        for function in (
            lambda x, u=control: model.predict(x, u, 0.01),
            lambda x, u=control: model.measure(x, u),
        ):
            value, jacobian = function(state)
            numeric = np.empty_like(jacobian)
            for i in range(7):
                h = 1e-5 * max(1.0, abs(state[i]))
                step = np.zeros(7)
                step[i] = h
                numeric[:, i] = (function(state + step)[0] - function(state - step)[0]) / (2 * h)
            np.testing.assert_allclose(
                jacobian, numeric, rtol=1e-6, atol=1e-9 * (1 + np.abs(value).max())
            )


def test_the_equations_solve_the_mass_matrix_of_s20():
    """(25) is (18) at R = 1, solved for the angular accelerations, with gravity moved to the
    right.
    """
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
    np.testing.assert_allclose(
        MODEL.moments(state, control[None])[0] / MODEL.inertias(state), expected, rtol=1e-12
    )


def test_derivatives_are_the_corrected_printed_ones():
    """(34)-(35) of S20 as corrected, without gravity."""
    rng = np.random.default_rng(2)
    state, (fx, fy, Mx, My, Mz), dt = random_state(rng), rng.normal(size=5) * 100, 0.001
    z, Ix, Iy, Iz = state[3:]
    ml, m = 500.0, 600.0
    N1, D1 = ml * z * fy + m * Mx, m * (25 + Ix + ml * z * z) - ml**2 * z * z
    N2, D2 = ml * z * fx - m * My, ml**2 * z * z - m * (25 + Iy + ml * z * z)
    jacobian = MODEL.predict(state, np.array([fx, fy, Mx, My, Mz, 0.0, 0.0]), dt)[1]
    np.testing.assert_allclose(
        jacobian[0, 3], dt * (ml * fy / D1 - N1 * (2 * m * ml * z - 2 * ml**2 * z) / D1**2)
    )
    np.testing.assert_allclose(jacobian[0, 4], -dt * m * N1 / D1**2)
    np.testing.assert_allclose(
        jacobian[1, 3], dt * (ml * fx / D2 - N2 * (2 * ml**2 * z - 2 * m * ml * z) / D2**2)
    )
    np.testing.assert_allclose(jacobian[1, 5], dt * m * N2 / D2**2)
    np.testing.assert_allclose(jacobian[2, 6], -dt * Mz / (44 + Iz) ** 2)
    np.testing.assert_array_equal(jacobian[3:], np.eye(7)[3:])


def test_yaw_coupling_is_what_a_tilted_load_adds():
    """Full rigid body: with the coupling the moments about z balance far better."""
    controls, w = stewart_motion(0.005)
    state = np.concatenate([np.zeros(3), TRUTH])
    wd = np.gradient(w, 1e-3, axis=0)[5:-5]
    errors = [
        np.abs(
            replace(MODEL, yaw_coupling=flag).moments(state, controls)[5:-5] / MODEL.inertias(state)
            - wd
        )
        for flag in (False, True)
    ]
    assert errors[1][:, 2].max() < 0.05 * errors[0][:, 2].max()
    assert errors[1][:, :2].max() < 0.02 * np.abs(wd[:, :2]).max()


@pytest.mark.parametrize(
    ("tilt", "seed"), [(0.0005, 1), (0.0005, 2), (0.005, 1), (0.005, 2), (0.015, 1)]
)
def test_errors_of_the_papers_filter_stay_within_its_honest_deviations(tilt, seed):
    controls, w = stewart_motion(tilt)
    result = StewartLoadFilter().run(MODEL, controls, noisy(w, seed), 1e-3)
    error = result.estimate.values - TRUTH
    assert abs(error[0]) < 0.01 * 0.3  # the paper's accuracy of z
    assert (np.abs(error) < 3 * result.estimate.std).all()
    assert 0.8 < result.consistency < 1.1
    for name in result.unobserved:
        assert any(f"{name}: not observable" in str(notice) for notice in result.estimate.notices)


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
    assert (
        np.abs(result.estimate.values - TRUTH)[2] > 3 * result.estimate.white_std[2]
    )  # its own would mislead


def test_neglected_rotations_are_part_of_the_deviations():
    """Precise gyroscopes and much tilt: the filter's own deviations are far too small, the reported
    ones are not.
    """
    controls, w = stewart_motion(0.03, seconds=2.0)
    settings = StewartLoadFilter(
        measurement_noise=1e-8 * np.eye(3), process_noise=np.diag([1e-10] * 3 + [0.0] * 4)
    )
    result = settings.run(replace(MODEL, yaw_coupling=True), controls, noisy(w, 0, 1e-4), 1e-3)
    ratio = np.abs(result.estimate.values - TRUTH) / result.estimate.white_std
    assert (ratio[:2] > 4).all()
    assert (np.abs(result.estimate.values - TRUTH) < 3 * result.estimate.std).all()


def test_innovations_larger_than_stated_widen_the_deviations():
    controls, w = stewart_motion(0.005)
    result = StewartLoadFilter().run(MODEL, controls, noisy(w, 1, 1.6e-3), 1e-3)
    assert 2 < result.consistency < 3
    np.testing.assert_allclose(
        result.shares["noise"], np.sqrt(result.consistency) * result.estimate.white_std
    )


def test_runaway_starts_are_noticed_and_repeated():
    controls, w = stewart_motion(0.0005, seconds=0.6)
    lost = []
    for seed in range(10):
        velocities = noisy(w, seed)
        first = StewartLoadFilter().kalman.run(
            MODEL, StewartLoadFilter().belief(), controls, velocities, 1e-3
        )
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
    np.testing.assert_array_equal(
        belief.mean, kalman.run(MODEL, settings.belief(), controls, measured, 1e-3).mean[-1]
    )


def test_wrong_signs_are_an_error_not_a_number():
    controls, w = stewart_motion(0.005, seconds=2.0)
    flipped = controls * np.array([1, 1, -1, -1, 1, 1, 1])
    flipped[:, 2:4] += 200.0  # and a moment no load explains
    with pytest.raises(NotConverged):
        StewartLoadFilter().run(MODEL, flipped, noisy(w, 0), 1e-3)


@pytest.mark.parametrize(
    "build",
    [
        lambda: replace(MODEL, load_mass=0.0),
        lambda: replace(MODEL, platform_inertia=np.array([25.0, -1.0, 44.0])),
        lambda: replace(MODEL, platform_inertia=np.array([25.0, 44.0])),
        lambda: StewartLoadFilter(covariance=np.eye(4)),
        lambda: StewartLoadFilter().run(MODEL, np.zeros((5, 6)), np.zeros((5, 3)), 1e-3),
        lambda: StewartLoadFilter().run(MODEL, np.full((5, 7), np.nan), np.zeros((5, 3)), 1e-3),
        lambda: StewartLoadFilter().run(MODEL, np.zeros((0, 7)), np.zeros((0, 3)), 1e-3),
        lambda: StewartLoadFilter(measurement_noise=np.zeros((3, 3))).run(
            MODEL, np.zeros((5, 7)), np.zeros((5, 3)), 1e-3
        ),
    ],
)
def test_bad_input_is_a_clear_error(build):
    with pytest.raises(InvalidInput):
        build()


def test_an_inertia_below_minus_the_platform_stops_the_filter():
    with pytest.raises(NotConverged, match="below minus"):
        MODEL.predict(np.array([0, 0, 0, 0.1, 10.0, -40.0, 0.0]), np.ones(7), 1e-3)


class Constant:
    """Parameters that do not move; the control carries the regressor."""

    def predict(self, state, control, dt):
        return state, np.eye(len(state))

    def measure(self, state, control):
        W = control.reshape(-1, len(state))
        return W @ state, W


class Oscillator:
    """A damped mass on a spring, driven by the control; position is measured."""

    def __init__(self, dt):
        self.F = np.array([[1.0, dt], [-4.0 * dt, 1.0 - 0.3 * dt]])
        self.G = np.array([0.0, dt])

    def predict(self, state, control, dt):
        return self.F @ state + self.G * control[0], self.F

    def measure(self, state, control):
        return state[:1], np.array([[1.0, 0.0]])


def test_the_extended_filter_of_constant_parameters_is_recursive_least_squares():
    rng, noise = (
        np.random.default_rng(0),
        np.array([[4.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 1.0]]),
    )
    W = rng.normal(size=(60, 3, 4))
    effort = (
        W @ np.array([5.0, -1.0, 0.3, 2.0]) + rng.normal(size=(60, 3)) @ np.linalg.cholesky(noise).T
    )
    std = np.array([50.0, 20.0, 10.0, 10.0])
    kalman = ExtendedKalman(process_noise=np.zeros((4, 4)), measurement_noise=noise)
    history = kalman.run(
        Constant(), Belief.of(np.zeros(4), np.diag(std**2)), W.reshape(60, -1), effort, dt=0.001
    )
    inverse = np.linalg.inv(noise)
    information = np.diag(1 / std**2) + np.cumsum(
        np.einsum("tip,ij,tjq->tpq", W, inverse, W), axis=0
    )
    values = np.linalg.solve(
        information, np.cumsum(np.einsum("tip,ij,tj->tp", W, inverse, effort), axis=0)[:, :, None]
    )
    np.testing.assert_allclose(history.mean, values[:, :, 0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        history.std, np.sqrt(np.linalg.inv(information).diagonal(axis1=1, axis2=2)), rtol=1e-7
    )
    # Sum of surprises = weighted squares left by data and prior: an identity between the two forms.
    left = effort - W @ values[-1, :, 0]
    misfit = np.einsum("ti,ij,tj->", left, inverse, left) + ((values[-1, :, 0] / std) ** 2).sum()
    np.testing.assert_allclose(history.surprise.sum(), misfit, rtol=1e-8)


def test_a_driven_state_equals_the_batch_solution_over_all_states():
    """The filter's last state is that of one large least-squares problem over the whole path."""
    rng = np.random.default_rng(1)
    t, dt = 25, 0.1
    model = Oscillator(dt)
    Q, R = np.diag([1e-4, 4e-4]), np.array([[0.01]])
    P0, x0 = np.diag([1.0, 2.0]), np.array([0.5, -0.2])
    controls, measured = rng.normal(size=(t, 1)), rng.normal(size=(t, 1))
    history = ExtendedKalman(process_noise=Q, measurement_noise=R).run(
        model, Belief.of(x0, P0), controls, measured, dt
    )
    rows, right = [], []

    def add(blocks, value, covariance):
        root = np.linalg.inv(np.linalg.cholesky(covariance))
        row = np.zeros((len(covariance), 2 * t))
        for k, block in blocks.items():
            row[:, 2 * k : 2 * k + 2] = block
        rows.append(root @ row)
        right.append(root @ value)

    add({0: np.eye(2)}, x0, P0)
    for k in range(t):
        add({k: np.array([[1.0, 0.0]])}, measured[k], R)
        if k:
            add({k: np.eye(2), k - 1: -model.F}, model.G * controls[k - 1, 0], Q)
    A, b = np.concatenate(rows), np.concatenate(right)
    path = np.linalg.lstsq(A, b, rcond=None)[0]
    np.testing.assert_allclose(history.mean[-1], path[-2:], rtol=1e-9)
    np.testing.assert_allclose(
        history.belief.covariance, np.linalg.inv(A.T @ A)[-2:, -2:], rtol=1e-8
    )


def test_single_steps_equal_the_run():
    rng = np.random.default_rng(2)
    controls, measured = rng.normal(size=(10, 1)), rng.normal(size=(10, 1))
    model = Oscillator(0.1)
    kalman = ExtendedKalman(process_noise=1e-3 * np.eye(2), measurement_noise=0.01 * np.eye(1))
    belief = Belief.of(np.zeros(2), np.eye(2))
    history = kalman.run(model, belief, controls, measured, 0.1)
    for k in range(10):
        if k:
            belief = kalman.predict(model, belief, controls[k - 1], 0.1)
        belief, innovation = kalman.update(model, belief, controls[k], measured[k])
        np.testing.assert_array_equal(belief.mean, history.mean[k])
        np.testing.assert_array_equal(belief.std, history.std[k])
        np.testing.assert_allclose(innovation.surprise, history.surprise[k], rtol=1e-12)


def test_surprises_are_chi_square_when_model_and_noise_are_right():
    rng = np.random.default_rng(3)
    t, model = 4000, Oscillator(0.05)
    Q, R = np.diag([1e-4, 1e-3]), np.array([[0.02]])
    state, measured, controls = np.zeros(2), np.zeros((t, 1)), rng.normal(size=(t, 1))
    for k in range(t):
        if k:
            state = (
                model.F @ state
                + model.G * controls[k - 1]
                + np.sqrt(np.diag(Q)) * rng.normal(size=2)
            )
        measured[k] = state[0] + np.sqrt(R[0, 0]) * rng.normal()
    history = ExtendedKalman(process_noise=Q, measurement_noise=R).run(
        model, Belief.of(np.zeros(2), 1e-6 * np.eye(2)), controls, measured, 0.05
    )
    assert stats.kstest(history.surprise, stats.chi2(1).cdf).pvalue > 0.01


def test_covariance_stays_positive_where_the_textbook_forms_fail():
    """Precise, nearly parallel measurements of a very uncertain state."""
    noise, identity = 1e-10, np.eye(3)
    kalman = ExtendedKalman(process_noise=np.zeros((3, 3)), measurement_noise=noise * np.eye(1))
    belief = Belief.of(np.zeros(3), 1e8 * identity)
    short, joseph = belief.covariance, belief.covariance
    worst = {"short": 0.0, "joseph": 0.0}
    information = 1e-8 * identity
    rng = np.random.default_rng(4)
    for _ in range(100):
        H = np.ones((1, 3)) + 1e-3 * rng.normal(size=(1, 3))
        information = information + H.T @ H / noise
        belief, _ = kalman.update(Constant(), belief, H.ravel(), np.array([1.0]))
        gain = short @ H.T / (H @ short @ H.T + noise)
        short = (identity - gain @ H) @ short
        gain = joseph @ H.T / (H @ joseph @ H.T + noise)
        joseph = (identity - gain @ H) @ joseph @ (identity - gain @ H).T + noise * gain @ gain.T
        for name, matrix in (("short", short), ("joseph", joseph)):
            own = np.linalg.eigvalsh((matrix + matrix.T) / 2)
            worst[name] = min(worst[name], own[0] / np.abs(own).max())
        own = np.linalg.eigvalsh(belief.covariance)
        assert own[0] > -1e-15 * own[-1]
    assert worst["short"] < -0.1
    assert worst["joseph"] < -0.1
    exact = np.linalg.inv(information)
    np.testing.assert_allclose(belief.covariance, exact, atol=1e-3 * np.abs(exact).max())


class Exploding:
    def predict(self, state, control, dt):
        return state * np.inf, np.eye(1)

    def measure(self, state, control):
        return state, np.eye(1)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (
            lambda: ExtendedKalman(process_noise=-np.eye(2), measurement_noise=np.eye(1)),
            InvalidInput,
        ),
        (
            lambda: ExtendedKalman(process_noise=np.eye(2), measurement_noise=np.zeros((1, 1))),
            InvalidInput,
        ),
        (
            lambda: ExtendedKalman(
                process_noise=np.eye(2), measurement_noise=np.array([[1.0, 0.5], [0.0, 1.0]])
            ),
            InvalidInput,
        ),
        (
            lambda: ExtendedKalman(process_noise=np.eye(1), measurement_noise=np.eye(1)).run(
                Exploding(), Belief.of(np.ones(1), np.eye(1)), np.ones((3, 1)), np.ones((3, 1)), 0.1
            ),
            NotConverged,
        ),
        (
            lambda: ExtendedKalman(process_noise=np.eye(1), measurement_noise=np.eye(1)).run(
                Constant(),
                Belief.of(np.ones(1), np.eye(1)),
                np.ones((3, 1)),
                np.full((3, 1), np.nan),
                0.1,
            ),
            InvalidInput,
        ),
        (
            lambda: ExtendedKalman(process_noise=np.eye(1), measurement_noise=np.eye(1)).run(
                Constant(), Belief.of(np.ones(1), np.eye(1)), np.ones((3, 1)), np.ones((3, 1)), 0.0
            ),
            InvalidInput,
        ),
    ],
)
def test_bad_input_of_the_filter_is_a_clear_error(build, error):
    with pytest.raises(error) as caught:
        build()
    assert isinstance(caught.value, GoughError)
