"""Controller code: compiled with gcc, compared with Python on fast motion, and fed with
glitches.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_controller import JUMP, NOT_CLOSED, NOT_FINITE, OK, Controller, compiled

from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.engine import Model, random_motion
from gough.export.controller import controller_code
from gough.mechanism import bundled_robots, load_robot
from gough.mechanism.types import Mechanism

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
BUNDLED = [name for name, _ in bundled_robots()]
UNBUNDLED = Path(__file__).parents[1] / "oracles" / "robots"
EDGY = [
    str(UNBUNDLED / f"{name}.toml")
    for name in ("agile_eye", "all_closures", "planar_3rrr", "spatial_3prs")
]
OTHERS = [*EDGY, *(str(UNBUNDLED / f"{name}.toml") for name in ("hybrid_arm", "welded_arm"))]
EXAMPLES = sorted(
    str(path) for path in (Path(__file__).parents[2] / "examples" / "robots").glob("*.toml")
)
# Robots that run in every test: a planar loop, spatial loops of three and six legs, more motors
# than degrees of freedom, no loop, every kind of closure. The others repeat them.
EVERY_TIME = ("five_bar", "delta", "palida", "redundant", "serial6", "all_closures")
# Slow to compile; what velocity limits change is seen with the others, and nothing in an open chain.
SAME_WITHOUT_LIMITS = ("palida", "serial6")


def cases_of(names: list[str], limited: bool) -> list[Any]:
    """Return the test cases of some robots, with velocity limits or without."""
    cases = []
    for name in names:
        stem = Path(name).stem
        label = f"{stem}-limits" if limited else f"{stem}-no limits"
        repeated = stem not in EVERY_TIME or (stem in SAME_WITHOUT_LIMITS and not limited)
        marks = pytest.mark.long if repeated else ()
        cases.append(pytest.param(name, limited, id=label, marks=marks))
    return cases


ROBOTS = cases_of(BUNDLED + EXAMPLES, limited=True) + cases_of(BUNDLED + OTHERS, limited=False)


@dataclass(frozen=True)
class Case:
    """A robot, its compiled code, a motion at nearly the velocity limits, and Python's efforts
    along it.
    """

    model: Model
    library: ctypes.CDLL
    motion: Motion
    expected: np.ndarray

    def sample(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        act = list(self.model.actuated)
        return self.motion.q[k, act], self.motion.qd[k, act], self.motion.qdd[k, act]

    def right(self, effort: np.ndarray, k: int) -> bool:
        return bool(np.abs(effort - self.expected[k]).max() <= 1e-9 * np.abs(self.expected).max())


def without_velocity_limits(mechanism: Mechanism) -> Mechanism:
    return replace(
        mechanism,
        joints=tuple(
            replace(j, limits=replace(j.limits, velocity=None)) if j.actuated else j
            for j in mechanism.joints
        ),
    )


def fast_motion(model: Model, samples: int = 300) -> Motion:
    """A motion about home, each motor at 95 % of its velocity limit (at most 15 Hz) somewhere."""
    rng = np.random.default_rng(1)
    part = model.loops.partitions["actuated"].independent
    joints = [model.mechanism.joints[i] for i in part]
    t = np.arange(samples) / model.mechanism.noise.rate
    size = np.array([0.12 if j.kind == "revolute" else 0.06 * model.loops.length for j in joints])
    size *= rng.uniform(0.5, 1.0, len(part))
    rate = np.minimum(
        0.95 * np.array([j.limits.velocity or 1.0 for j in joints]) / size, 2 * np.pi * 15
    )
    phase = rng.uniform(0, 6, len(part))
    angle = rate * t[:, None] + phase
    return model.kinematics.motion(
        t,
        model.home[list(part)] + size * (np.sin(angle) - np.sin(phase)),
        size * rate * np.cos(angle),
        -size * rate**2 * np.sin(angle),
        "actuated",
    )


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Case]:
    """Build each robot once, with its velocity limits or without."""
    built: dict[tuple[str, bool], Case] = {}

    def build(name: str, limited: bool = True) -> Case:
        if (name, limited) not in built:
            mechanism = load_robot(name)
            motion = fast_motion(Model(mechanism))
            model = Model(mechanism if limited else without_velocity_limits(mechanism))
            gains = np.arange(2.0, 2.0 + len(model.actuated))
            library = compiled(
                tmp_path_factory.mktemp("c"), *controller_code(model, dead_band=1e-3, gains=gains)
            )
            built[name, limited] = Case(
                model, library, motion, model.inverse_dynamics(motion, dead_band=1e-3)
            )
        return built[name, limited]

    return build


def unit(model: Model, motor: int) -> float:
    """One radian, or a robot's length."""
    return (
        1.0
        if model.mechanism.joints[model.actuated[motor]].kind == "revolute"
        else model.loops.length
    )


@pytest.mark.parametrize(("name", "limited"), ROBOTS)
def test_fast_legal_motion_gives_the_efforts_of_python_and_no_alarm(name, limited, case) -> None:
    robot = case(name, limited)
    control = Controller(robot.model, robot.library)
    for k in range(len(robot.motion)):
        status, effort = control(*robot.sample(k))
        assert status == OK, k
        assert robot.right(effort, k), k
        if k % 50 == 0:
            status, current = control(*robot.sample(k), function="inverse_dynamics_current")
            assert status == OK
            np.testing.assert_allclose(
                current, effort / np.arange(2.0, 2.0 + len(effort)), rtol=1e-12
            )


@pytest.mark.parametrize(("name", "limited"), ROBOTS)
def test_after_a_glitch_of_any_size_the_right_branch_goes_on(name, limited, case) -> None:
    robot = case(name, limited)
    control = Controller(robot.model, robot.library)
    rng = np.random.default_rng(3)
    alarms = 0
    for trial in range(150):
        k = int(rng.integers(1, len(robot.motion) - 1))
        control.reset()
        assert control(*robot.sample(k - 1))[0] == OK
        assert control(*robot.sample(k))[0] == OK
        position, velocity, acceleration = (np.array(x) for x in robot.sample(k))
        motor = trial % len(position)
        position[motor] += (
            rng.choice([-1, 1]) * 10 ** rng.uniform(-1.5, 1.0) * unit(robot.model, motor)
        )
        before = bytes(control.state.q)
        status, effort = control(position, velocity, acceleration)
        alarms += status != OK
        if status != OK:
            assert bytes(control.state.q) == before
            assert (effort == 7.0).all()
        status, effort = control(*robot.sample(k + 1))
        assert status == OK, (trial, motor, position)
        assert robot.right(effort, k + 1), (trial, motor, position)
    if any(
        c.kind != "coupling" for c in robot.model.mechanism.closures
    ):  # others have nothing to tell a glitch by
        assert alarms > 30


@pytest.mark.parametrize("name", [name for name in BUNDLED if name in EVERY_TIME])
def test_a_glitch_beyond_the_velocity_limits_is_a_jump(name, case) -> None:
    robot = case(name)
    control = Controller(robot.model, robot.library)
    used = [
        robot.model.actuated.index(i) for i in robot.model.loops.partitions["actuated"].independent
    ]
    for k in range(5, 85, 5):
        control.reset()
        assert control(*robot.sample(k - 1))[0] == OK
        assert control(*robot.sample(k))[0] == OK
        position, velocity, acceleration = (np.array(x) for x in robot.sample(k))
        position[used[k % len(used)]] += unit(robot.model, used[k % len(used)])
        assert control(position, velocity, acceleration)[0] == JUMP


@pytest.mark.parametrize("name", ["five_bar", "palida", "redundant", "serial6"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["position", "velocity", "acceleration"])
def test_a_number_that_is_none_leaves_state_and_output_alone(name, bad, which, case) -> None:
    robot = case(name)
    control = Controller(robot.model, robot.library)
    assert control(*robot.sample(0))[0] == OK
    before = bytes(control.state.q)
    for motor in range(control.motors):
        sample = [np.array(x) for x in robot.sample(1)]
        sample[which][motor] = bad
        status, effort = control(*sample)
        assert status == NOT_FINITE
        assert bytes(control.state.q) == before
        assert (effort == 7.0).all()
    status, effort = control(*robot.sample(2))
    assert status == OK
    assert robot.right(effort, 2)


@pytest.mark.parametrize("name", ["five_bar", "delta", "palida"])
def test_after_a_gap_in_the_samples_the_right_branch_goes_on(name, case) -> None:
    robot = case(name)
    control = Controller(robot.model, robot.library)
    for k in range(len(robot.motion)):
        sample = robot.sample(k)
        if 100 <= k < 170:
            assert control(np.full_like(sample[0], np.nan), *sample[1:])[0] == NOT_FINITE
        else:
            status, effort = control(*sample)
            assert status == OK, k
            assert robot.right(effort, k), k


@pytest.mark.parametrize("name", ["five_bar", "delta", "palida"])
def test_noise_on_the_positions_gives_no_alarm(name, case) -> None:
    robot = case(name)
    control = Controller(robot.model, robot.library)
    rng = np.random.default_rng(1)
    for k in range(len(robot.motion)):
        position, velocity, acceleration = robot.sample(k)
        noisy = position + rng.normal(0, robot.model.mechanism.noise.position, len(position))
        assert control(noisy, velocity, acceleration)[0] == OK


def far_poses(model: Model, count: int = 12) -> Motion:
    """Poses all over the workspace, each reached from home in Python."""
    return random_motion(model, count, seed=5, reach=0.95)


@pytest.mark.parametrize("name", ["five_bar", "delta", "palida", "h4"])
def test_after_a_reset_the_branch_of_home_is_followed_to_wherever_the_robot_stands(
    name, case
) -> None:
    robot = case(name)
    control = Controller(robot.model, robot.library)
    poses = far_poses(robot.model)
    act = list(robot.model.actuated)
    expected = robot.model.inverse_dynamics(poses, dead_band=1e-3)
    for k in range(len(poses)):
        control.reset()
        status, effort = control(poses.q[k, act], poses.qd[k, act], poses.qdd[k, act])
        assert status == OK
        np.testing.assert_allclose(effort, expected[k], rtol=0, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(control.state.q, poses.q[k], rtol=0, atol=1e-9)


def there_and_back(model: Model, seed: int) -> np.ndarray:
    """Motor positions from home straight on until long after no pose has them, and back, in small
    steps.
    """
    rng = np.random.default_rng(seed)
    act = list(model.actuated)
    way = rng.standard_normal(len(act))
    way *= [unit(model, motor) for motor in range(len(act))] / np.abs(way).max()
    out = np.arange(0.0, 1.5, float(rng.choice([0.003, 0.02, 0.05])))
    return model.home[act] + np.concatenate([out, out[::-1]])[:, None] * way


@pytest.mark.parametrize("name", ["h4", *EDGY], ids=lambda name: Path(name).stem)
def test_beyond_the_edge_of_the_workspace_and_back_the_branch_is_the_same(name, case) -> None:
    robot = case(name, False)
    control = Controller(robot.model, robot.library)
    zero, alarms = np.zeros(control.motors), 0
    for seed in range(12):
        control.reset()
        path = there_and_back(robot.model, seed)
        visited: dict[int, np.ndarray] = {}
        for k, position in enumerate(path):
            status, _ = control(position, zero, zero)
            alarms += status != OK
            place = min(k, len(path) - 1 - k)
            if status == OK:
                np.testing.assert_allclose(
                    control.state.q,
                    visited.setdefault(place, np.array(control.state.q)),
                    rtol=0,
                    atol=1e-6,
                )
        assert status == OK
    assert alarms > 100


def test_a_robot_that_moved_far_unseen_says_so_until_it_is_reset(case) -> None:
    robot = case("five_bar", False)
    control = Controller(robot.model, robot.library)
    poses = far_poses(robot.model, 40)
    act = list(robot.model.actuated)
    reach = np.abs(poses.q[:, act] - robot.model.home[act]).max(axis=1)
    far = int(np.argmax(reach))
    assert reach[far] > 0.5
    assert control(robot.model.home[act], np.zeros(2), np.zeros(2))[0] == OK
    at = poses.q[far, act]
    for _ in range(5):
        assert control(at, np.zeros(2), np.zeros(2))[0] == JUMP
    control.reset()
    assert control(at, np.zeros(2), np.zeros(2))[0] == OK
    np.testing.assert_allclose(control.state.q, poses.q[far], rtol=0, atol=1e-9)


def test_positions_that_no_pose_has_are_refused(case) -> None:
    robot = case("palida")
    control = Controller(robot.model, robot.library)
    before = bytes(control.state.q)
    for fresh in (True, False):
        if not fresh:
            assert control(*robot.sample(0))[0] == OK
            before = bytes(control.state.q)
        status, effort = control([0.1, 3.0, 0.1, 3.0, 0.1, 3.0], np.zeros(6), np.zeros(6))
        assert status in (NOT_CLOSED, JUMP)
        assert bytes(control.state.q) == before
        assert (effort == 7.0).all()


def test_the_period_between_calls_can_be_given(case, tmp_path: Path) -> None:
    model = case("five_bar").model
    position = model.home[list(model.actuated)] + 0.05  # 12 rad/s for 4 ms
    for period, status in ((1e-3, JUMP), (1e-2, OK)):
        folder = tmp_path / str(period)
        folder.mkdir()
        control = Controller(model, compiled(folder, *controller_code(model, period=period)))
        assert control(model.home[list(model.actuated)], np.zeros(2), np.zeros(2))[0] == OK
        assert control(position, np.zeros(2), np.zeros(2))[0] == status
    with pytest.raises(InvalidInput, match="period"):
        controller_code(model, period=0.0)
