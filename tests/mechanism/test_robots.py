"""The bundled robots: numbers of the papers, closed loops, physically consistent bodies."""

from __future__ import annotations

import gzip
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tree_kinematics import close, derivative, fixed, poses, residual, start

from gough.core.arrays import FloatArray
from gough.core.parameters import INERTIAL
from gough.engine import Model
from gough.mechanism import Mechanism, bundled_robots, load_robot, robot_text

ROBOTS = [name for name, _ in bundled_robots()]
FREEDOM = {
    "delta": 3,
    "five_bar": 2,
    "h4": 4,
    "orthoglide": 3,
    "palida": 6,
    "redundant": 2,
    "serial6": 6,
    "stewart": 6,
    "tx40": 6,
    "upv": 4,
}
MASSLESS = {"h4": {"right", "left", "crank"}, "stewart": {"cylinder", "piston"}}
UPV_DATA = Path(__file__).parents[3] / "shared" / "data" / "upv_3ups_rpu"


def values_of(robot: Mechanism, body: str) -> dict[str, float]:
    return {p: 0.0 for p in INERTIAL} | dict(robot.body(body).values)


def pseudo_inertia(values: dict[str, float]) -> FloatArray:
    """Second moments of mass: positive semidefinite for a body that can exist."""
    v = {p: 0.0 for p in INERTIAL} | values
    inertia = np.array(
        [
            [v["Ixx"], v["Ixy"], v["Ixz"]],
            [v["Ixy"], v["Iyy"], v["Iyz"]],
            [v["Ixz"], v["Iyz"], v["Izz"]],
        ]
    )
    first = np.array([v["mx"], v["my"], v["mz"]])
    return np.block(
        [[np.trace(inertia) / 2 * np.eye(3) - inertia, first[:, None]], [first, v["m"]]]
    )


def at_pose(robot: Mechanism, pose: dict[str, float]) -> FloatArray:
    """Close the loops at a pose of the platform, in small steps from the start."""
    q = close(robot, start(robot), robot.task)
    index = [robot.coordinates.index(name) for name in robot.task]
    begin, goal = (
        q[index],
        np.array([pose.get(name.rpartition(".")[2], 0.0) for name in robot.task]),
    )
    for part in np.linspace(0, 1, 4)[1:]:
        q[index] = begin + part * (goal - begin)
        q = close(robot, q, robot.task)
    assert np.abs(residual(robot, q)).max() < 1e-11
    return q


def coordinate(robot: Mechanism, q: FloatArray, name: str) -> float:
    return float(q[robot.coordinates.index(name)])


def origin(
    robot: Mechanism, q: FloatArray, body: str, point: tuple[float, float, float] = (0, 0, 0)
) -> FloatArray:
    return (poses(robot, q)[body] @ np.array([*point, 1.0]))[:3]


@pytest.mark.parametrize("name", ROBOTS)
def test_loops_close_at_the_start(name: str) -> None:
    robot = load_robot(name)
    begin = start(robot)
    assert np.abs(residual(robot, begin)).max(initial=0.0) < 1e-5
    closed = close(robot, begin, robot.task)
    assert np.abs(residual(robot, closed)).max(initial=0.0) < 1e-12
    assert np.abs(closed - begin).max() < 1e-5


@pytest.mark.parametrize("name", ROBOTS)
def test_degrees_of_freedom_are_those_of_the_machine(name: str) -> None:
    robot = load_robot(name)
    q = close(robot, start(robot), robot.task)
    rank = (
        np.linalg.matrix_rank(derivative(lambda v: residual(robot, v), q), tol=1e-6)
        if robot.closures
        else 0
    )
    assert len(robot.coordinates) - rank == FREEDOM[name]
    assert len(robot.actuated) - FREEDOM[name] == (1 if name == "redundant" else 0)
    assert robot.redundant == (name == "redundant")
    assert len(robot.task) == (0 if name in ("serial6", "tx40") else FREEDOM[name])


@pytest.mark.parametrize("name", ROBOTS)
def test_every_body_can_exist(name: str) -> None:
    robot = load_robot(name)
    carried = {joint.child: joint for joint in robot.joints}
    for body in robot.bodies:
        if not body.parameters:  # between the axes of one joint, or declared massless
            short = body.template.rpartition(".")[2] or body.name
            assert (
                short in MASSLESS.get(name, set())
                or carried[body.name].virtual
                or body.name in robot.coordinates
            )
        elif name == "h4":  # the 14-parameter model knows one inertia of the platform only
            assert (body.name, body.parameters) == ("platform", ("m", "Izz"))
        else:
            assert body.values["m"] > 0
            assert np.linalg.eigvalsh(pseudo_inertia(dict(body.values))).min() > -1e-12, body.name
    for payload in robot.payloads:
        assert np.linalg.eigvalsh(pseudo_inertia(dict(payload.values))).min() > 0


@pytest.mark.parametrize("name", ROBOTS)
def test_the_tree_has_a_regular_mass_matrix_unless_bodies_are_massless(name: str) -> None:
    robot = load_robot(name)
    q = close(robot, start(robot), robot.task)
    here = poses(robot, q)

    def small_motions(v: FloatArray) -> FloatArray:
        """Translation and rotation of every body away from q, in its frame."""
        found = []
        for body, now in poses(robot, v).items():
            R = here[body][:3, :3].T
            turn = R @ now[:3, :3]
            spin = [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]
            found.append(np.r_[R @ now[:3, 3], np.array(spin) / 2])
        return np.array(found)

    jacobians = dict(zip(here, derivative(small_motions, q)))
    mass = np.diag([joint.values.get("ia", 0.0) for joint in robot.joints])
    for body in robot.bodies:
        G, v = jacobians[body.name], values_of(robot, body.name)
        first = np.array([[0, -v["mz"], v["my"]], [v["mz"], 0, -v["mx"]], [-v["my"], v["mx"], 0]])
        inertia = np.trace(pseudo_inertia(v)[:3, :3]) * np.eye(3) - pseudo_inertia(v)[:3, :3]
        mass = mass + G.T @ np.block([[v["m"] * np.eye(3), -first], [first, inertia]]) @ G
    regular = np.linalg.eigvalsh(mass).min() > 1e-7
    assert regular == (name not in MASSLESS)


@pytest.mark.parametrize("name", ROBOTS)
def test_limits_noise_and_sources_are_complete(name: str) -> None:
    robot = load_robot(name)
    for joint in robot.joints:
        limits = joint.limits
        if joint.actuated or joint.virtual:
            assert limits.position is not None
            assert limits.position[0] < joint.start < limits.position[1]
            assert None not in (limits.velocity, limits.acceleration)
        if joint.actuated:
            assert limits.effort is not None
        assert set(joint.values) == set(joint.terms)
    file = tomllib.loads(robot_text(name)[0])
    for part in (file, *file.get("leg", [])):
        for table in (
            *part.get("body", []),
            *part.get("joint", []),
            *filter(None, [part.get("platform")]),
        ):
            numbers = {
                key for key in (*table, *table.get("values", {})) if key in {"m", *joint.values}
            }
            assert not numbers or "source" in table or numbers <= set(table.get("sources", {}))
    assert robot.noise.effort > 0
    assert robot.noise.position > 0 or robot.noise.resolution is not None


def test_palida_hangs_at_home_with_equal_legs() -> None:
    robot = load_robot("palida")
    q = at_pose(robot, {"z": -0.67181})
    sliders = [coordinate(robot, q, f"leg{i}.slider") for i in range(1, 7)]
    np.testing.assert_allclose(sliders, 0.650, atol=1e-5)
    base_angles, platform_angles = [-10, 10, 110, 130, 230, 250], [-50, 50, 70, 170, 190, 290]
    for i, (a, b) in enumerate(zip(np.radians(base_angles), np.radians(platform_angles)), start=1):
        A = 0.4 * np.array([np.cos(a), np.sin(a), 0])
        B = np.array([0.085 * np.cos(b), 0.085 * np.sin(b), 0.1174 - 0.67181])
        np.testing.assert_allclose(origin(robot, q, f"leg{i}.rod"), B, atol=1e-9)
        np.testing.assert_allclose(origin(robot, q, f"leg{i}.tube"), A, atol=1e-9)
        pose = poses(robot, q)
        direction = (B - A) / np.linalg.norm(B - A)
        np.testing.assert_allclose(
            pose[f"leg{i}.ring"][:3, 2], [-np.sin(a), np.cos(a), 0], atol=1e-9
        )
        np.testing.assert_allclose(pose[f"leg{i}.tube"][:3, 1], direction, atol=1e-9)
        np.testing.assert_allclose(pose[f"leg{i}.rod"][:3, 2], direction, atol=1e-9)


def test_palida_bodies_give_the_a_priori_parameters_of_table_ii() -> None:
    robot = load_robot("palida")
    one, two, three, E = (
        values_of(robot, body) for body in ("leg1.ring", "leg1.tube", "leg1.rod", "platform")
    )
    r = np.array([fixed(c.b.placement)[:3, 3] for c in robot.closures if c.b is not None])
    p = [
        one["Izz"] + two["Iyy"] + three["Izz"],
        two["Ixx"] + three["Ixx"] - two["Iyy"] - three["Izz"],
        two["Izz"] + three["Iyy"],
        two["my"],
        three["mz"],
        E["Ixx"] + three["m"] * (r[:, 1] ** 2 + r[:, 2] ** 2).sum(),
        E["Iyy"] + three["m"] * (r[:, 0] ** 2 + r[:, 2] ** 2).sum(),
        E["Izz"] + three["m"] * (r[:, 0] ** 2 + r[:, 1] ** 2).sum(),
        E["mz"] + three["m"] * r[:, 2].sum(),
        E["m"] + 6 * three["m"],
    ]
    printed = [0.0074, 0.9439, 0.9458, 0.6201, -1.2295, 0.2878, 0.2878, 0.1217, 1.9012, 16.1920]
    np.testing.assert_allclose(p, printed, atol=1e-6)


def test_palida_friction_is_identified_and_tied_as_in_ah09() -> None:
    robot = load_robot("palida")
    table = robot.standard
    np.testing.assert_array_equal(
        [table[f"leg{i}.slider.fs"] for i in range(1, 7)],
        [11.9772, 4.8071, 20.1528, 5.1518, 1.5857, 5.0057],
    )
    np.testing.assert_array_equal(
        [table[f"leg{i}.slider.fv"] for i in range(1, 7)],
        [16.8771, 16.7406, 6.3408, 23.1662, 26.4675, 22.8053],
    )
    assert (table["leg3.alpha.fs"], table["leg3.beta.fs"]) == (0.5756, 0.9195)
    tied = set(robot.ties)
    assert {"leg.alpha.fs", "leg.beta.fs", "leg.rod.mz", "leg.tube.my", "leg.ring.Izz"} <= tied
    assert not any(name.startswith("leg.slider") for name in tied)
    assert all(len(members) == 6 for members in robot.ties.values())
    loose = [
        name for name in table.names if not any(name in members for members in robot.ties.values())
    ]
    assert len([n for n in loose if ".slider." in n]) == 12
    assert len(loose) == 12 + 5


def test_orthoglide_follows_its_closed_form() -> None:
    robot = load_robot("orthoglide")
    rng = np.random.default_rng(3)
    for X, Y, Z in rng.uniform(-0.0731, 0.1266, (6, 3)):
        q = at_pose(robot, {"x": X, "y": Y, "z": Z + 0.34})
        d4 = 0.31
        expected = [
            Z - np.sqrt(d4**2 - X**2 - Y**2) + d4,
            X - np.sqrt(d4**2 - Y**2 - Z**2) + d4,
            Y - np.sqrt(d4**2 - X**2 - Z**2) + d4,
        ]
        np.testing.assert_allclose(
            [coordinate(robot, q, f"leg{i}.q1") for i in (1, 2, 3)], expected, atol=1e-10
        )
        for i in (1, 2, 3):
            q2, q3, q4, q5 = (coordinate(robot, q, f"leg{i}.q{j}") for j in (2, 3, 4, 5))
            assert (q4, q5) == pytest.approx((-q3, -q2), abs=1e-10)
            foot, wrist = poses(robot, q)[f"leg{i}.foot"], poses(robot, q)[f"leg{i}.wrist"]
            local = np.linalg.solve(foot, wrist)[:3, 3]  # (40): the bar in the frame of the foot
            np.testing.assert_allclose(
                local,
                [d4 * np.cos(q2) * np.cos(q3), -d4 * np.sin(q3), -d4 * np.sin(q2) * np.cos(q3)],
                atol=1e-10,
            )


def test_orthoglide_has_the_values_of_table_3() -> None:
    robot = load_robot("orthoglide")
    table = robot.standard
    assert robot.gravity == (0.0, 9.80665, 0.0)
    assert [robot.joint(f"leg{i}.q1").gain for i in (1, 2, 3)] == [2170, 2100, 2070]
    assert robot.payload("calibration").values["m"] == 1.983
    assert robot.payload("second").values["m"] == 1.136
    assert robot.payload("calibration").known == ("m",)
    for i, m1R, fv, fs, fs3R in (
        (1, 9.40, 85.7, 35.2, 1.76),
        (2, 8.95, 86.7, 41.7, 1.61),
        (3, 8.92, 84.0, 24.1, 1.35),
    ):
        leg = f"leg{i}"
        foot = (
            table[f"{leg}.foot.m"]
            + table[f"{leg}.fork.m"]
            + table[f"{leg}.bar.m"]
            - table[f"{leg}.bar.mx"] / 0.31
        )
        assert foot == pytest.approx(0.87, abs=1e-9)
        assert foot + table[f"{leg}.q1.ia"] == pytest.approx(m1R, abs=1e-9)
        assert (table[f"{leg}.q1.fv"], table[f"{leg}.q1.fs"]) == (fv, fs)
        assert table[f"{leg}.q3.fs"] + table[f"{leg}.q4.fs"] == pytest.approx(fs3R)
    m6R = table["platform.m"] + sum(
        table[f"leg{i}.bar.mx"] / 0.31 + table[f"leg{i}.knuckle.m"] + table[f"leg{i}.wrist.m"]
        for i in (1, 2, 3)
    )
    assert m6R == pytest.approx(0.92, abs=1e-9)
    # ten parameters of five bodies, ia on the motors only, fv fs off on all five joints, and the
    # platform
    assert len(table) == 10 + 3 * (50 + 1 + 15)


def test_h4_is_the_fourteen_parameter_model_of_p03() -> None:
    robot = load_robot("h4")
    order = [f"leg{i}.motor.ia" for i in range(1, 5)] + ["platform.m", "platform.Izz"]
    order += [f"leg{i}.motor.{term}" for term in ("fv", "fs") for i in range(1, 5)]
    assert set(robot.standard.names) == set(order)
    printed = [
        0.0141,
        0.0120,
        0.0153,
        0.0213,
        1.0492,
        0.0030,
        0.1636,
        0.0560,
        0.0930,
        0.0917,
        1.1453,
        1.0950,
        0.7222,
        0.9932,
    ]
    np.testing.assert_array_equal([robot.standard[name] for name in order], printed)


@pytest.mark.parametrize(
    "pose", [(0, 0, -0.40, 0), (0.05, -0.03, -0.42, 0.5), (-0.08, 0.06, -0.36, -0.7)]
)
def test_h4_follows_the_kinematics_of_p03(pose: tuple[float, ...]) -> None:
    robot = load_robot("h4")
    q = at_pose(robot, dict(zip(("x", "y", "z", "rz"), pose)))
    motors = [coordinate(robot, q, f"leg{i}.motor") for i in range(1, 5)]
    x, y, z, theta = pose
    crank, L, R, h, d = 0.26, 0.48, 0.14, 0.06, 0.06
    alpha = np.array([0, np.pi, 1.5 * np.pi, 1.5 * np.pi])
    bar = h * np.array([np.cos(theta), np.sin(theta), 0])
    side = np.array([0, d, 0])
    A = np.array([x, y, z]) + np.array(
        [bar + side, -bar + side, -bar - side, bar - side]
    )  # (3), (4)
    P = np.array([[h + R, d, 0], [-h - R, d, 0], [-h, -d - R, 0], [h, -d - R, 0]])  # (7), (8)
    B = P + crank * np.stack(
        [np.cos(motors) * np.cos(alpha), np.cos(motors) * np.sin(alpha), -np.sin(motors)], axis=1
    )
    np.testing.assert_allclose(np.linalg.norm(A - B, axis=1), L, atol=1e-10)
    for i, side_bar in enumerate(("right", "left", "left", "right")):
        np.testing.assert_allclose(
            origin(robot, q, f"leg{i + 1}.crank", (crank, 0, 0)), B[i], atol=1e-10
        )
        end = next(c.b for c in robot.closures if c.name == f"leg{i + 1}.rod")
        assert end is not None
        assert end.body == side_bar
        np.testing.assert_allclose(
            (poses(robot, q)[side_bar] @ fixed(end.placement))[:3, 3], A[i], atol=1e-10
        )
    if pose == (0, 0, -0.40, 0):
        np.testing.assert_allclose(np.degrees(motors), 23.7, atol=0.05)


def test_stewart_legs_have_the_lengths_of_its_geometry() -> None:
    robot = load_robot("stewart")
    a = np.radians([52.5, 67.5, 172.5, 187.5, 292.5, 307.5])
    b = np.radians([7.5, 112.5, 127.5, 232.5, 247.5, 352.5])
    upper = 0.4 * np.stack([np.cos(a), np.sin(a), 0 * a], axis=1)
    lower = 0.6 * np.stack([np.cos(b), np.sin(b), 0 * b], axis=1)
    for pose in (
        {"z": 0.76385},
        {"x": 0.1, "y": -0.15, "z": 0.8, "rx": 0.1, "ry": -0.15, "rz": 0.2},
    ):
        q = at_pose(robot, pose)
        R = Rotation.from_euler("ZYX", [pose.get(k, 0.0) for k in ("rz", "ry", "rx")]).as_matrix()
        p = np.array([pose.get(k, 0.0) for k in "xyz"])
        lengths = np.linalg.norm(p + upper @ R.T - lower, axis=1)
        np.testing.assert_allclose(
            [coordinate(robot, q, f"leg{i}.slider") for i in range(1, 7)], lengths, atol=1e-10
        )
    q = at_pose(robot, {"z": 0.76385})
    assert coordinate(robot, q, "leg1.slider") == pytest.approx(0.8741, abs=1e-5)
    # load about the frame of the platform: 25 + 500 * 0.3^2
    load = robot.payload("load").values
    assert dict(load) == pytest.approx(
        {"m": 500, "mx": 0, "my": 0, "mz": 150, "Ixx": 70, "Iyy": 70, "Izz": 25}, abs=1e-12
    )
    assert values_of(robot, "platform") | {} == pytest.approx(
        {p: 0.0 for p in INERTIAL} | {"m": 100, "Ixx": 25, "Iyy": 25, "Izz": 44}
    )


def upv_legs(x: float, z: float, theta: float, psi: float) -> tuple[FloatArray, FloatArray]:
    """Base and platform points of the four legs in the base frame."""
    bF, bM = 1.221730, 0.174533
    A = np.array(
        [
            [-0.5, 0, 0],
            [0.45 * np.cos(bF), 0.45 * np.sin(bF), 0],
            [0.45 * np.cos(bF), -0.45 * np.sin(bF), 0],
            [0.15, 0, 0],
        ]
    )
    B = np.array(
        [
            [-0.3, 0, 0],
            [0.3 * np.cos(bM), 0.3 * np.sin(bM), 0],
            [0.3 * np.cos(bM), -0.3 * np.sin(bM), 0],
            [0, 0, 0],
        ]
    )
    R = Rotation.from_euler("YZ", [theta, psi]).as_matrix()
    return A, np.array([x, 0, z]) + B @ R.T


@pytest.mark.parametrize(
    "pose", [(0.0, 0.82, 0.08, 0.0), (-0.1, 0.80, 0.2, 0.1), (0.1, 0.87, -0.05, -0.1)]
)
def test_upv_legs_and_their_frames_follow_its_geometry(
    pose: tuple[float, float, float, float],
) -> None:
    robot = load_robot("upv")
    q = at_pose(robot, dict(zip(("x", "z", "ry", "rz"), pose)))
    A, B = upv_legs(*pose)
    lengths = np.linalg.norm(B - A, axis=1)
    np.testing.assert_allclose(
        [coordinate(robot, q, f"leg{i}.slider") for i in range(1, 5)], lengths, atol=1e-6
    )
    for i in range(3):
        n = (B[i] - A[i]) / lengths[i]
        c2 = -n[1]
        s2 = np.sqrt(1 - c2**2)
        c1, s1 = n[0] / s2, n[2] / s2
        frame = np.stack([(c2 * c1, s2, c2 * s1), (-s1, 0, c1), n], axis=1)
        for body in ("cylinder", "piston"):
            np.testing.assert_allclose(
                poses(robot, q)[f"leg{i + 1}.{body}"][:3, :3], frame, atol=1e-5
            )
    np.testing.assert_allclose(
        poses(robot, q)["leg4.rod"][:3, 2], (B[3] - A[3]) / lengths[3], atol=1e-9
    )


def read_log(path: Path) -> tuple[FloatArray, FloatArray]:
    with gzip.open(path, "rt") as file:
        rows = [line.split() for line in file.read().splitlines()[1:]]
    table = np.array([[float(v) for v in row[:6]] for row in rows if len(row) >= 6])
    return table[:, 0] + 1e-9 * table[:, 1], table[:, 2:]


@pytest.mark.skipif(not UPV_DATA.exists(), reason="recordings of the UPV robot are not distributed")
def test_upv_gravity_from_cad_numbers_matches_the_recording() -> None:
    robot = load_robot("upv")
    run = UPV_DATA / "exp_20_01_2021-16_15_33"
    time, poses_recorded = read_log(run / "x_coord.txt.gz")
    (t_gravity, gravity), (t_position, position) = (
        read_log(run / f"{n}.txt.gz") for n in ("q_grav", "joint_position")
    )
    actuated = [robot.coordinates.index(name) for name in robot.actuated]
    others = [i for i in range(len(robot.coordinates)) if i not in actuated]

    def potential(q: FloatArray) -> FloatArray:
        now = poses(robot, q)
        energy = 0.0
        for body in robot.bodies:
            v = values_of(robot, body.name)
            weighted = v["m"] * now[body.name][:3, 3] + now[body.name][:3, :3] @ [
                v["mx"],
                v["my"],
                v["mz"],
            ]
            energy -= np.dot(robot.gravity, weighted)
        return np.array([energy])

    for i in range(100, len(time), 2000):
        q = at_pose(robot, dict(zip(("x", "z", "ry", "rz"), poses_recorded[i])))
        K = derivative(lambda v: residual(robot, v), q)
        E = np.zeros((len(q), 4))
        E[actuated] = np.eye(4)
        E[others] = -np.linalg.lstsq(K[:, others], K[:, actuated], rcond=1e-9)[0]
        efforts = (derivative(potential, q, 1e-5) @ E)[0]
        np.testing.assert_allclose(
            efforts, gravity[np.argmin(np.abs(t_gravity - time[i]))], atol=0.02
        )
        np.testing.assert_allclose(
            q[actuated], position[np.argmin(np.abs(t_position - time[i]))], atol=1e-5
        )


@pytest.mark.parametrize("pose", [(0, 0, -0.55), (0.1, -0.06, -0.6), (-0.12, 0.1, -0.5)])
def test_delta_forearms_keep_their_length_and_the_wrists_their_orientation(
    pose: tuple[float, float, float],
) -> None:
    robot = load_robot("delta")
    q = at_pose(robot, dict(zip("xyz", pose)))
    for i, angle in enumerate(np.radians([0, 120, 240]), start=1):
        out = np.array([np.cos(angle), np.sin(angle), 0])
        motor = coordinate(robot, q, f"leg{i}.motor")
        elbow = 0.20 * out + 0.25 * (np.cos(motor) * out - np.sin(motor) * np.array([0, 0, 1]))
        assert np.linalg.norm(np.array(pose) + 0.05 * out - elbow) == pytest.approx(0.55, abs=1e-10)
        assert np.dot(elbow, out) > 0.2  # elbows outside
        np.testing.assert_allclose(poses(robot, q)[f"leg{i}.wrist"][:3, 0], out, atol=1e-10)
        np.testing.assert_allclose(poses(robot, q)[f"leg{i}.wrist"][:3, 2], [0, 0, 1], atol=1e-10)


@pytest.mark.parametrize("pose", [(0.0, 0.4), (0.1, 0.35), (-0.12, 0.45)])
def test_five_bar_follows_its_closed_form(pose: tuple[float, float]) -> None:
    robot = load_robot("five_bar")
    q = at_pose(robot, dict(zip("xy", pose)))
    for name, base, sign in (("left", -0.1, 1), ("right", 0.1, -1)):
        dx, dy = pose[0] - base, pose[1]
        r2 = dx * dx + dy * dy
        motor = np.arctan2(dy, dx) + sign * np.arccos(
            (0.25**2 + r2 - 0.35**2) / (2 * 0.25 * np.sqrt(r2))
        )
        elbow = -sign * np.arccos((r2 - 0.25**2 - 0.35**2) / (2 * 0.25 * 0.35))
        assert coordinate(robot, q, f"{name}.motor") == pytest.approx(motor, abs=1e-10)
        assert coordinate(robot, q, f"{name}.elbow") == pytest.approx(elbow, abs=1e-10)


def test_redundant_legs_meet_at_the_tool() -> None:
    robot = load_robot("redundant")
    q = at_pose(robot, {"x": 0.04, "y": -0.03})
    for i in (1, 2, 3):
        np.testing.assert_allclose(
            origin(robot, q, f"leg{i}.distal", (0.22, 0, 0)), [0.04, -0.03, 0], atol=1e-10
        )


def test_serial_arm_reaches_by_the_cosine_rule_and_has_a_spherical_wrist() -> None:
    robot = load_robot("serial6")
    rng = np.random.default_rng(5)
    for q in rng.uniform(-2, 2, (5, 6)):
        now = poses(robot, q)
        reach = np.linalg.norm(now["forearm"][:3, 3] - now["upper_arm"][:3, 3])
        assert reach == pytest.approx(np.sqrt(2 * 0.42**2 * (1 + np.sin(q[2]))), abs=1e-12)
        np.testing.assert_allclose(now["flange"][:3, 3], now["forearm"][:3, 3], atol=1e-15)
        assert now["upper_arm"][2, 3] == pytest.approx(0.35)


@pytest.mark.parametrize("name", ["serial6", "tx40"])
def test_payloads_of_arms_hang_on_the_flange(name: str) -> None:
    """At rest the motor effort is the gradient of the payload's potential energy."""
    robot = load_robot(name)
    model = Model(robot)
    load = robot.payload("weight").values
    assert (
        robot.payload("weight").body
        == model.load_body
        == {"serial6": "flange", "tx40": "link_6"}[name]
    )
    home = model.home[list(model.actuated)]

    def energy(motors: FloatArray) -> float:
        pose = poses(robot, model.kinematics.close_loops(motors[None])[0])[model.load_body]
        moment = load["m"] * pose[:3, 3] + pose[:3, :3] @ [load["mx"], load["my"], load["mz"]]
        return float(-moment @ np.array(robot.gravity))

    slope = [(energy(home + step) - energy(home - step)) / 2e-6 for step in 1e-6 * np.eye(6)]
    still = model.kinematics.motion(np.zeros(1), home[None], np.zeros((1, 6)), np.zeros((1, 6)))
    held = model.inverse_dynamics(still, load=model.load("weight")) - model.inverse_dynamics(still)
    np.testing.assert_allclose(held[0], slope, atol=1e-6)
    assert np.abs(slope).max() > 5
