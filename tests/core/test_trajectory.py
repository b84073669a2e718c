"""Trajectories: derivatives, rest, periods, storage, angle rates."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from paths import PointToPoint, circle, sines
from scipy.spatial.transform import Rotation

from gough.core.errors import GoughError, InvalidInput, InvalidTrajectory, OutputError
from gough.core.rotation import ANGLE_ORDERS, angular_motion, rate_map
from gough.core.trajectory import Fourier, Sampled, ease, load_trajectory, rest_basis

NAMES = ("platform.x", "platform.y", "platform.rz")
UNITS = ("m", "m", "rad")


def make_fourier(**changes):
    rng = np.random.default_rng(1)
    content = {
        "coordinates": NAMES,
        "units": UNITS,
        "frequency": 0.3236,
        "offset": np.array([0.1, -0.2, 0.3]),
        "mu": rng.normal(size=(5, 3)),
        "nu": rng.normal(size=(5, 3)),
        "robot": "palida",
    }
    return Fourier(**(content | changes))


def make_moves(profile="quintic"):
    return PointToPoint(
        coordinates=NAMES,
        units=UNITS,
        profile=profile,
        moves=[0.5, 1.0],
        dwells=[0.2, 0.3, 0.4],
        waypoints=[[0.0, 0.1, 0.2], [0.4, -0.3, 0.2], [0.1, 0.1, -0.5]],
    )


def make_sampled(**changes):
    t = np.linspace(0, 2, 81)[:-1]
    content = {
        "coordinates": NAMES,
        "units": UNITS,
        "time": t,
        "repeats": 2.0,
        "position": np.stack(
            [np.sin(np.pi * t), np.cos(2 * np.pi * t), np.exp(np.sin(np.pi * t))], axis=1
        ),
    }
    return Sampled(**(content | changes))


def every_kind():
    fourier = make_fourier()
    t = np.linspace(0, 1.5, 40)
    position, velocity, acceleration = fourier.at(t)
    return {
        "fourier": fourier,
        "circle": circle(
            coordinates=NAMES,
            units=UNITS,
            center=[0.1, 0.2, 0.3],
            plane=NAMES[:2],
            radius=0.15,
            frequency=0.7,
            periods=2,
        ),
        "quintic": make_moves(),
        "septic": make_moves("septic"),
        "spline": make_sampled(repeats=None),
        "periodic spline": make_sampled(),
        "hermite": Sampled(
            coordinates=NAMES,
            units=UNITS,
            time=t,
            position=position,
            velocity=velocity,
            acceleration=acceleration,
        ),
        "eased": ease(fourier, 0.9),
        "eased circle": ease(
            circle(
                coordinates=NAMES,
                units=UNITS,
                center=[0.0, 0.0, 0.0],
                plane=NAMES[:2],
                radius=0.1,
                frequency=1.0,
            ),
            1.0,
        ),
    }


@pytest.mark.parametrize("kind", every_kind())
def test_velocity_and_acceleration_are_the_derivatives_of_position(kind):
    trajectory = every_kind()[kind]
    h = 1e-5
    t = np.linspace(0.011, trajectory.duration - 0.013, 217)
    _, velocity, acceleration = trajectory.at(t)
    ahead, behind = trajectory.at(t + h), trajectory.at(t - h)
    np.testing.assert_allclose(
        velocity, (ahead[0] - behind[0]) / (2 * h), atol=1e-7 * (1 + np.abs(velocity).max())
    )
    # The third derivative of the piecewise curves jumps at their knots, hence the looser bound.
    np.testing.assert_allclose(
        acceleration, (ahead[1] - behind[1]) / (2 * h), atol=2e-4 * (1 + np.abs(acceleration).max())
    )


def test_fourier_coefficients_are_velocities_as_in_equation_12():
    trajectory = make_fourier()
    t, w = 0.77, 2 * np.pi * 0.3236
    position, velocity, _ = trajectory.at(t)
    k = np.arange(1, 6)
    for i in range(3):
        expected = trajectory.offset[i] + sum(
            trajectory.mu[:, i] / (k * w) * np.sin(k * w * t)
            - trajectory.nu[:, i] / (k * w) * np.cos(k * w * t)
        )
        np.testing.assert_allclose(position[0, i], expected, rtol=1e-13)
    np.testing.assert_allclose(trajectory.at(0.0)[1][0], trajectory.mu.sum(0), rtol=1e-13)
    np.testing.assert_allclose(
        velocity[0],
        np.cos(k * w * t) @ trajectory.mu + np.sin(k * w * t) @ trajectory.nu,
        rtol=1e-12,
    )


@pytest.mark.parametrize("kind", ["fourier", "circle", "periodic spline"])
def test_periodic_trajectories_repeat(kind):
    trajectory = every_kind()[kind]
    t = np.linspace(0, 1, 50)
    for now, later in zip(trajectory.at(t), trajectory.at(t + 3 * trajectory.period)):
        np.testing.assert_allclose(later, now, atol=1e-9)
    for before, after in zip(
        trajectory.at(trajectory.period - 1e-9), trajectory.at(0.0)
    ):  # no jump at the seam
        np.testing.assert_allclose(before, after, atol=1e-6)


def test_projection_gives_rest_at_every_period_and_changes_no_more_than_needed():
    trajectory = make_fourier()
    mu_basis, nu_basis = rest_basis(5)
    rest = replace(
        trajectory,
        mu=mu_basis @ (mu_basis.T @ trajectory.mu),
        nu=nu_basis @ (nu_basis.T @ trajectory.nu),
    )
    for t in (0.0, trajectory.period):
        _, velocity, acceleration = rest.at(t)
        assert np.abs(velocity).max() < 1e-12
        assert np.abs(acceleration).max() < 1e-11
    assert mu_basis.shape == nu_basis.shape == (5, 4)
    np.testing.assert_allclose(
        mu_basis.T @ (trajectory.mu - rest.mu), 0, atol=1e-12
    )  # only the forbidden part is gone
    np.testing.assert_allclose(nu_basis.T @ (trajectory.nu - rest.nu), 0, atol=1e-12)
    with pytest.raises(InvalidTrajectory, match="two or more"):
        rest_basis(1)


@pytest.mark.parametrize("kind", ["quintic", "septic", "eased", "eased circle"])
def test_smooth_trajectories_start_and_end_at_rest_and_hold(kind):
    trajectory = every_kind()[kind]
    end = trajectory.duration
    position, velocity, acceleration = trajectory.at([-1.0, 0.0, 1e-4, end - 1e-4, end, end + 5.0])
    assert np.abs(velocity).max() < 1e-6
    assert np.abs(acceleration[[0, 1, 4, 5]]).max() < 1e-9
    np.testing.assert_allclose(position[0], position[1], atol=1e-12)
    np.testing.assert_allclose(position[4], position[5], atol=1e-12)


def test_point_to_point_meets_its_waypoints_and_stays_for_the_dwell():
    for profile in ("quintic", "septic"):
        moves = make_moves(profile)
        np.testing.assert_allclose(moves.duration, 2.4)
        position, velocity, _ = moves.at([0.1, 0.2, 0.45, 0.7, 0.9, 1.0, 2.0, 2.3])
        w = moves.waypoints
        expected = [w[0], w[0], (w[0] + w[1]) / 2, w[1], w[1], w[1], w[2], w[2]]
        np.testing.assert_allclose(position, expected, atol=1e-12)
        np.testing.assert_allclose(velocity[[0, 1, 3, 4, 5, 6, 7]], 0, atol=1e-12)


def test_septic_moves_have_no_jerk_at_their_ends():
    def jerk(profile):
        step = 1e-6
        return np.abs(make_moves(profile).at(0.2 + step)[2]).max() / step

    assert jerk("quintic") > 100
    assert jerk("septic") < 0.1


def test_easing_keeps_the_path_and_reaches_the_base_at_full_speed():
    base = circle(
        coordinates=NAMES,
        units=UNITS,
        center=[0.1, 0.2, 0.3],
        plane=("platform.y", "platform.x"),
        radius=0.15,
        frequency=0.5,
        periods=3,
    )
    eased = ease(base, 0.8)
    position = eased.at(np.linspace(0, eased.duration, 500))[0]
    np.testing.assert_allclose(
        np.hypot(position[:, 0] - 0.1, position[:, 1] - 0.2), 0.15, atol=1e-12
    )
    t = np.linspace(0.8, base.duration, 100)
    for now, then in zip(eased.at(t), base.at(t - 0.4)):
        np.testing.assert_allclose(now, then, atol=1e-12)
    assert eased.duration == pytest.approx(6.8)


def test_s20_excitation_is_equation_23():
    trajectory = sines(
        coordinates=NAMES,
        units=UNITS,
        center=[0, 0, 0],
        amplitude=[0.2, 0.2, np.deg2rad(0.2)],
        frequency=0.5,
    )
    t = np.linspace(0, 2, 21)
    expected = np.outer(np.sin(np.pi * t), [0.2, 0.2, 0.2 * np.pi / 180])
    np.testing.assert_allclose(trajectory.at(t)[0], expected, atol=1e-14)


def test_circle_goes_round_at_constant_speed_from_its_first_axis():
    trajectory = circle(
        coordinates=NAMES,
        units=UNITS,
        center=[0.1, 0.2, 0.3],
        plane=NAMES[:2],
        radius=0.15,
        frequency=0.7,
    )
    position, velocity, _ = trajectory.at([0.0, 0.25 / 0.7])
    np.testing.assert_allclose(position, [[0.25, 0.2, 0.3], [0.1, 0.35, 0.3]], atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(velocity, axis=1), 2 * np.pi * 0.7 * 0.15)


def test_sampled_curves_pass_through_what_they_were_given():
    sampled = make_sampled()
    position, velocity, _ = sampled.at(sampled.time)
    np.testing.assert_allclose(position, sampled.position, atol=1e-12)
    np.testing.assert_allclose(velocity[:, 0], np.pi * np.cos(np.pi * sampled.time), atol=1e-6)
    fourier = make_fourier()
    hermite = every_kind()["hermite"]
    for got, given in zip(hermite.at(hermite.time), fourier.at(hermite.time)):
        np.testing.assert_allclose(got, given, atol=1e-9)
    between = np.linspace(0, 1.5, 333)
    np.testing.assert_allclose(hermite.at(between)[1], fourier.at(between)[1], atol=1e-4)
    with pytest.raises(InvalidTrajectory, match=r"0 to 1\.5 s"):
        hermite.at(1.6)


def test_a_period_becomes_a_whole_number_of_samples():
    trajectory = make_fourier(periods=4)
    with pytest.raises(InvalidTrajectory, match="whole number"):
        trajectory.times(1000.0)
    fitted = trajectory.on_rate(1000.0)
    assert 1000.0 / fitted.frequency == pytest.approx(3090, abs=1e-9)
    assert fitted.on_rate(1000.0) is fitted
    time = fitted.times(1000.0)
    assert len(time) == 4 * 3090
    np.testing.assert_allclose(fitted.at(time[3090:6180])[0], fitted.at(time[:3090])[0], atol=1e-10)
    np.testing.assert_array_equal(fitted.mu, trajectory.mu)
    with pytest.raises(InvalidTrajectory, match="at least 11"):
        trajectory.on_rate(3.0)


@pytest.mark.parametrize(
    "kind", [kind for kind in every_kind() if kind not in ("quintic", "septic")]
)
def test_saved_trajectories_come_back_to_the_last_bit(kind, tmp_path):
    trajectory = every_kind()[kind]
    trajectory.save(tmp_path / "t.json")
    loaded = load_trajectory(tmp_path / "t.json", robot="palida")
    assert type(loaded) is type(trajectory)
    assert loaded.coordinates == NAMES
    assert loaded.robot == trajectory.robot
    t = np.linspace(0, trajectory.duration, 31)
    for got, given in zip(loaded.at(t), trajectory.at(t)):
        np.testing.assert_array_equal(got, given)
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def test_trajectories_of_another_robot_are_refused(tmp_path):
    make_fourier().save(tmp_path / "t.json")
    with pytest.raises(InvalidTrajectory, match="'palida', not for 'h4'"):
        load_trajectory(tmp_path / "t.json", robot="h4")


def test_csv_has_units_in_its_headers_and_every_sample_once(tmp_path):
    trajectory = make_fourier().on_rate(50.0)
    trajectory.to_csv(tmp_path / "t.csv", 50.0)
    with open(tmp_path / "t.csv", newline="") as stream:
        lines = list(csv.reader(stream))
    assert lines[0][:4] == [
        "time [s]",
        "platform.x.position [m]",
        "platform.x.velocity [m/s]",
        "platform.x.acceleration [m/s2]",
    ]
    assert lines[0][9] == "platform.rz.acceleration [rad/s2]"
    numbers = np.array(lines[1:], dtype=float)
    assert len(numbers) == round(50.0 / trajectory.frequency)
    np.testing.assert_array_equal(numbers[:, 7], trajectory.at(numbers[:, 0])[0][:, 2])
    moves = make_moves()
    moves.to_csv(tmp_path / "m.csv", 10.0)
    assert float((tmp_path / "m.csv").read_text().splitlines()[-1].split(",")[0]) == pytest.approx(
        2.4
    )


@pytest.mark.parametrize(
    ("rate", "samples"),
    [(333.0, 999), (7.0, 21), (1000 / 3, None), (333.3, None), (2.5, None), (1.0, None)],
)
def test_a_csv_of_periods_that_do_not_join_is_refused(rate, samples, tmp_path):
    trajectory = make_fourier(frequency=1.0, periods=3)
    if samples is None:
        with pytest.raises(
            InvalidTrajectory, match=r"a period of 1 s has .* samples .* expected a whole number"
        ):
            trajectory.to_csv(tmp_path / "t.csv", rate)
        assert not list(tmp_path.iterdir())
        return
    trajectory.to_csv(tmp_path / "t.csv", rate)
    assert len((tmp_path / "t.csv").read_text().splitlines()) == samples + 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        '{"format": 2}',
        '{"format": 1, "kind": "spiral"}',
        "{broken",
        '{"format": 1, "kind": "fourier", "frequency": 1.0}',
        "[" * 100_000,
    ],
)
def test_files_that_hold_no_trajectory_are_refused_by_name(content, tmp_path):
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(InvalidTrajectory, match=r"bad\.json"):
        load_trajectory(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("frequency", -1.0),
        ("frequency", "fast"),
        ("mu", "text"),
        ("coordinates", 5),
        ("offset", [float("nan"), 0.0, 0.0]),
        ("nu", [[1.0]]),
        ("units", ["m", "m", "deg"]),
        ("periods", 0),
        ("extra", 1),
    ],
)
def test_a_file_with_one_wrong_value_is_refused(key, value, tmp_path):
    content = make_fourier().to_dict() | {key: value}
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(InvalidTrajectory, match=r"bad\.json"):
        load_trajectory(tmp_path / "bad.json")


def test_a_file_that_lacks_a_key_says_which(tmp_path):
    content = make_fourier().to_dict() | {"speed": 1.0}
    del content["mu"]
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(InvalidTrajectory, match=r"missing: \['mu'\], unknown: \['speed'\]"):
        load_trajectory(tmp_path / "bad.json")


@pytest.mark.parametrize(
    "lines", ["", "0\n1\n2\n3\n4\n5\n6\n", "0,1\n1\n", "0,x\n", '0,"' + "1" * 200_000]
)
def test_a_table_without_its_numbers_is_refused_by_name(tmp_path, lines):
    (tmp_path / "bad.csv").write_text("time [s],a.position [m]\n" + lines)
    with pytest.raises(InvalidTrajectory, match=r"bad\.csv"):
        load_trajectory(tmp_path / "bad.csv")


def test_missing_files_and_folders_are_reported(tmp_path):
    with pytest.raises(InvalidTrajectory, match="there is no file"):
        load_trajectory(tmp_path / "none.json")
    with pytest.raises(OutputError, match="check the folder"):
        make_fourier().save(tmp_path / "none" / "t.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="cannot write"):
        make_fourier().save(tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]  # no half-written file stays behind


@pytest.mark.parametrize(
    "build",
    [
        lambda: make_fourier(frequency=0.0),
        lambda: make_fourier(frequency=float("nan")),
        lambda: make_fourier(mu=np.zeros((0, 3)), nu=np.zeros((0, 3))),
        lambda: make_fourier(nu=np.full((5, 3), np.nan)),
        lambda: make_fourier(coordinates=("a", "a", "b")),
        lambda: make_fourier(units=("m", "m")),
        lambda: make_fourier().times(-1000.0),
        lambda: make_fourier().on_rate(0.0),
        lambda: make_fourier().at([0.0, np.nan]),
        lambda: make_fourier().columns(["platform.w"]),
        lambda: circle(
            coordinates=NAMES,
            units=UNITS,
            center=[0, 0, 0],
            plane=("platform.x", "platform.q"),
            radius=0.1,
            frequency=1.0,
        ),
        lambda: circle(
            coordinates=NAMES,
            units=UNITS,
            center=[0, 0, 0],
            plane=("platform.x", "platform.x"),
            radius=0.1,
            frequency=1.0,
        ),
        lambda: circle(
            coordinates=NAMES,
            units=UNITS,
            center=[0, 0, 0],
            plane=NAMES[:2],
            radius=-0.1,
            frequency=1.0,
        ),
        lambda: sines(
            coordinates=NAMES,
            units=UNITS,
            center=[0, 0, 0],
            amplitude=[0.1, 0.1, 0.1],
            frequency=-1.0,
        ),
        lambda: ease(make_fourier(), 10.0),
        lambda: ease(make_fourier(), 0.0),
        lambda: replace(ease(make_fourier(), 0.5), coordinates=("a", "b", "c")),
        lambda: make_moves("cubic"),
        lambda: PointToPoint(
            coordinates=("a",), units=("m",), waypoints=[[0.0]], moves=[], dwells=[0.0]
        ),
        lambda: PointToPoint(
            coordinates=("a",),
            units=("m",),
            waypoints=[[0.0], [1.0]],
            moves=[0.0],
            dwells=[0.0, 0.0],
        ),
        lambda: make_sampled(repeats=1.0),
        lambda: make_sampled(velocity=np.zeros((80, 3))),
        lambda: make_sampled(time=np.zeros(80)),
    ],
)
def test_bad_input_is_a_clear_error(build):
    with pytest.raises(GoughError):
        build()


def random_angles(seed, count=20):
    rng = np.random.default_rng(seed)
    return (
        rng.uniform(-1.2, 1.2, (count, 3)),
        rng.normal(size=(count, 3)),
        rng.normal(size=(count, 3)),
    )


def rotation_matrix(angles, order):
    return Rotation.from_euler(
        order.upper(), angles[:, ["xyz".index(axis) for axis in order]]
    ).as_matrix()


@pytest.mark.parametrize("order", ANGLE_ORDERS)
def test_angular_velocity_is_that_of_the_turning_matrix(order):
    angles, rates, accelerations = random_angles(3)
    h = 1e-6
    change = (
        rotation_matrix(angles + h * rates, order) - rotation_matrix(angles - h * rates, order)
    ) / (2 * h)
    skew = change @ rotation_matrix(angles, order).transpose(0, 2, 1)  # R' R^T = [omega x]
    expected = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)
    np.testing.assert_allclose(
        angular_motion(angles, rates, accelerations, order)[0], expected, atol=1e-9
    )
    np.testing.assert_allclose(
        (rate_map(angles, order) @ rates[:, :, None])[:, :, 0], expected, atol=1e-9
    )


@pytest.mark.parametrize("order", ANGLE_ORDERS)
def test_angular_acceleration_is_the_time_derivative_of_the_velocity(order):
    angles, rates, accelerations = random_angles(4)
    h = 1e-6
    ahead, behind = angles + h * rates, angles - h * rates
    expected = (
        angular_motion(ahead, rates + h * accelerations, accelerations, order)[0]
        - angular_motion(behind, rates - h * accelerations, accelerations, order)[0]
    ) / (2 * h)
    np.testing.assert_allclose(
        angular_motion(angles, rates, accelerations, order)[1], expected, atol=1e-8
    )


def test_rate_maps_are_the_corrected_printed_ones():
    phi, theta, psi = 0.3, -0.5, 0.9
    s, c = np.sin, np.cos
    ah09 = [[1, 0, s(theta)], [0, c(phi), -s(phi) * c(theta)], [0, s(phi), c(phi) * c(theta)]]
    rpy_rates = [[c(psi) * c(theta), -s(psi), 0], [s(psi) * c(theta), c(psi), 0], [-s(theta), 0, 1]]
    np.testing.assert_allclose(rate_map([[phi, theta, psi]], "xyz")[0], ah09, atol=1e-15)
    np.testing.assert_allclose(rate_map([[phi, theta, psi]], "zyx")[0], rpy_rates, atol=1e-15)


def test_unknown_angle_orders_and_wrong_shapes_are_refused():
    with pytest.raises(InvalidInput, match="'xyx'"):
        rate_map([[0.0, 0.0, 0.0]], "xyx")
    with pytest.raises(InvalidInput, match="angles"):
        rate_map([[0.0, 0.0]], "xyz")
