"""Controller code with other compilers, options and numbers: what it refuses, and how long it takes."""

from __future__ import annotations

import ctypes
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from c_controller import JUMP, NOT_CLOSED, NOT_FINITE, OK, Controller, compiled

from gough.core.errors import InvalidInput
from gough.engine import Model, random_motion
from gough.export import controller
from gough.export.controller import controller_code
from gough.mechanism import load_robot, parse_robot, robot_text
from tests_support import axis_file, model_of
from trials import larger_later

FLAGS = {
    "fast math": ("-O3", "-ffast-math"),
    "Ofast": ("-Ofast", "-Wno-deprecated"),
}
COMPILERS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"),
    )
    for name in ("gcc", "clang")
]
NUMBERS = {"double": ctypes.c_double, "float": ctypes.c_float}
ROBOTS = ["five_bar", "serial6"]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.fixture(scope="module", params=ROBOTS)
def model(request) -> Model:
    return model_of(request.param)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("number", NUMBERS)
def test_no_option_of_a_compiler_lets_nan_or_infinity_through(
    model, number, flags, compiler, tmp_path
) -> None:
    tiny_gains = np.full(len(model.actuated), 1e-300 if number == "double" else 1e-37)
    code = controller_code(model, gains=tiny_gains, single=number == "float")
    control = Controller(model, compiled(tmp_path, *code, compiler, flags), NUMBERS[number])
    rest = np.zeros(control.motors)
    home = model.home[list(model.actuated)]
    push = np.full(control.motors, 1e12)

    def check_refused(*sample: np.ndarray, function: str = "inverse_dynamics") -> None:
        configuration = bytes(control.state.q)
        status, effort = control(*sample, function=function)
        assert status == NOT_FINITE
        assert (effort == 7.0).all()
        assert bytes(control.state.q) == configuration

    assert control(home, rest, rest)[0] == OK
    for which in range(3):
        for bad in (np.nan, -np.nan, np.inf, -np.inf, 1e31, -1e31):
            sample = [home.copy(), rest.copy(), rest.copy()]
            sample[which][-1] = bad
            check_refused(*sample)
    check_refused(home, np.full(control.motors, 1e29), rest)  # squares beyond 1e30
    check_refused(home, rest, push, function="inverse_dynamics_current")
    status, effort = control(home, rest, push)
    assert status == OK
    assert np.isfinite(effort).all()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", larger_later(["five_bar", "palida", "serial6"], ["palida"]))
def test_float_gives_four_digits_of_double(name, compiler, tmp_path) -> None:
    model = model_of(name)
    code = controller_code(model, dead_band=1e-3, single=True)
    assert "double" not in "".join(code)
    library = compiled(tmp_path, *code, compiler, ("-O2", "-ffast-math"))
    control = Controller(model, library, ctypes.c_float)
    poses = random_motion(model, 40, seed=5, reach=0.6)
    expected = model.inverse_dynamics(poses, dead_band=1e-3)
    motors = list(model.actuated)
    for k in range(len(poses)):
        control.reset()
        status, effort = control(poses.q[k, motors], poses.qd[k, motors], poses.qdd[k, motors])
        assert status == OK, k
        np.testing.assert_allclose(effort, expected[k], rtol=0, atol=1e-4 * np.abs(expected).max())


def counted(source: str) -> str:
    """Return controller code that counts the evaluations of Newton's method."""
    call = "        newton(q, step, size);\n"
    assert source.count(call) == 1
    with_count = source.replace(call, f"        evaluations++;\n{call}")
    return "extern int evaluations;\nint evaluations = 0;\n" + with_count


@needs_gcc
@pytest.mark.parametrize("name", larger_later(["five_bar", "delta", "h4"], ["h4"]))
@pytest.mark.parametrize("budget", [30, 7])
def test_no_call_evaluates_more_often_than_the_header_states(
    name, budget, tmp_path, monkeypatch
) -> None:
    mechanism = load_robot(name)
    joints = []
    for joint in mechanism.joints:
        joints.append(replace(joint, limits=replace(joint.limits, velocity=None)))
    model = Model(replace(mechanism, joints=tuple(joints)))
    monkeypatch.setattr(controller, "TRACKING_EVALUATIONS", budget)
    source, header = controller_code(model)
    stated = {}
    for after_reset, number in re.findall(r"_MOST_EVALUATIONS(_AFTER_RESET)? (\d+)$", header, re.M):
        stated[bool(after_reset)] = int(number)
    control = Controller(model, compiled(tmp_path, counted(source), header))
    count = ctypes.c_int.in_dll(control.library, "evaluations")
    rng = np.random.default_rng(4)
    home = model.home[list(model.actuated)]
    rest = np.zeros(control.motors)
    most = {False: 0, True: 0}
    statuses = set()
    for k in range(4000):
        if k % 40 == 0:
            position = home.copy()
            control.reset()
        elif k % 40 == 20:  # far from home, and then to the edge of the workspace
            position = home + rng.uniform(-1.5, 1.5, control.motors)
            control.reset()
        position += rng.uniform(-0.1, 0.1, control.motors)
        fresh = control.state.missed < 0
        count.value = 0
        statuses.add(control(position, rest, rest)[0])
        most[fresh] = max(most[fresh], count.value)
    assert most[True] <= stated[True]
    assert most[False] <= stated[False]
    assert most[False] > stated[False] / 4  # the calls were hard ones
    assert statuses >= {OK, JUMP}
    if budget == 7:
        assert NOT_CLOSED in statuses


TITLES = (
    'x */ system("rm"); /*',
    "ends with /*",
    "/*/ **/ //*",
    "trigraph ???/",
    "backslash \\",
    "two\nlines\r\x85\u2028",
    "Größe ééé/",
)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("title", TITLES)
def test_any_title_stays_inside_its_comment(title, compiler, tmp_path) -> None:
    mechanism = replace(parse_robot(axis_file(""), "axis.toml"), title=title)
    source, header = controller_code(Model(mechanism))
    first_line = header.splitlines()[0]
    assert "*/" not in first_line
    assert "/*" not in first_line[2:]
    compiled(tmp_path, source, header, compiler)


@pytest.mark.parametrize("gain", [0.0, np.nan, np.inf])
def test_a_drive_gain_that_gives_no_current_is_refused(gain) -> None:
    model = model_of("five_bar")
    with pytest.raises(InvalidInput, match="drive gains are"):
        controller_code(model, gains=[1.0, gain])


@needs_gcc
def test_a_term_keeps_its_value_beyond_its_range_of_validity(tmp_path) -> None:
    text = """
[[term]]
name = "cubed"
expression = "qd^3"
validity = { qd = ["-0.5 rad/s", "1 rad/s"] }
joints = ["left.motor"]
"""
    robot = Model(parse_robot(robot_text("five_bar")[0] + text, "five_bar.toml"))
    names = list(robot.mechanism.standard.names)
    values = np.zeros(len(names))
    values[names.index("left.motor.cubed")] = 3.0
    control = Controller(robot, compiled(tmp_path, *controller_code(robot, values)))
    home = robot.home[list(robot.actuated)]
    for speed, held in ((-2.0, -0.5), (-0.4, -0.4), (0.9, 0.9), (5.0, 1.0)):
        status, effort = control(home, np.array([speed, 0.0]), np.zeros(2))
        assert status == OK
        assert effort[0] == pytest.approx(3.0 * held**3, abs=1e-12)
