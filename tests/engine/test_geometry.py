"""Sensitivities to errors of the geometry, against robots with that geometry."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import casadi as ca
import numpy as np
import pinocchio as pin
import pytest

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.engine import geometry
from gough.engine.base import random_motion
from gough.engine.derivatives import response
from gough.engine.geometry import (
    GeometricError,
    displaced,
    geometric_errors,
    geometry_sensitivity,
)
from gough.engine.loops import LoopExpressions
from gough.engine.model import Model
from gough.mechanism import load_robot
from gough.mechanism.files import robot_text
from gough.mechanism.types import Mechanism
from gough.virtual.pinocchio_plant import build_tree

SAMPLES = 4
STEP = 1e-5  # of central differences [m or rad]


class Robot(NamedTuple):
    """A robot with its errors, a motion and parameters other than the file's."""

    model: Model
    errors: tuple[GeometricError, ...]
    motion: Motion
    chi: FloatArray
    load: FloatArray


def _robot(mechanism: Mechanism) -> Robot:
    model = Model(mechanism)
    standard = model.mechanism.standard.values
    rng = np.random.default_rng(0)
    load = np.zeros(len(model.load_columns))
    load[:10] = 2.0, 0.1, -0.2, 0.3, 0.05, 0.0, 0.06, 0.0, 0.0, 0.04
    return Robot(
        model=model,
        errors=geometric_errors(model),
        motion=random_motion(model, SAMPLES, seed=3),
        chi=standard + rng.uniform(0, 0.1, len(standard)),
        load=load,
    )


@cache
def _bundled(name: str) -> Robot:
    return _robot(load_robot(name))


def _sensitivity(robot: Robot, effort: FloatArray | None = None) -> FloatArray:
    return geometry_sensitivity(
        robot.model, robot.motion, robot.errors, robot.chi, load=robot.load, effort=effort
    )


def _rows(robot: Robot, mechanism: Mechanism, effort: FloatArray | None = None) -> FloatArray:
    """Return the rows' efforts of a mechanism whose motors move as those of a robot, (t, r).

    The loops are closed anew, sample by sample, with graphs that are not compiled.
    """
    model = Model(mechanism)
    # of more motors than degrees of freedom the same ones are held
    model.loops = replace(model.loops, partitions=robot.model.loops.partitions)
    given = model.loops.partitions["actuated"].independent
    q = ca.SX.sym("q", len(model.home))
    v = ca.SX.sym("v", len(given))
    a = ca.SX.sym("a", len(given))
    chain = LoopExpressions(model.loops, "actuated", q)
    newton_step = ca.Function("newton_step", [q], [chain.newton_step()])
    rates = ca.Function("rates", [q, v, a], list(chain.rates(v, a)))
    symbols, expressions, dynamic = model.inverse_expressions()
    efforts = ca.Function("efforts", symbols, [expressions, dynamic.closure_map])
    rows = np.empty((len(robot.motion), model.degrees_of_freedom))
    for k, moved in enumerate(np.array(robot.motion.q)):
        for _ in range(20):
            moved = moved + np.array(newton_step(moved)).ravel()
        velocity, acceleration = rates(moved, robot.motion.qd[k, given], robot.motion.qdd[k, given])
        of_rows = model.independent
        band = np.zeros(len(moved))
        row_efforts, closure_map = efforts(
            moved, velocity[of_rows], acceleration[of_rows], band, robot.chi, robot.load
        )
        rows[k] = np.array(row_efforts).ravel()
        if effort is not None:
            rows[k] -= np.array(closure_map)[model.actuated].T @ effort[k]
    return rows


def _difference(robot: Robot, amounts: FloatArray, effort: FloatArray | None = None) -> FloatArray:
    """Return the central difference of the rows' efforts along errors of all kinds, (t, r)."""
    sides = []
    for sign in (1.0, -1.0):
        sizes = dict(zip(robot.errors, (sign * STEP * amounts).tolist()))
        sides.append(_rows(robot, displaced(robot.model.mechanism, sizes), effort))
    return (sides[0] - sides[1]) / (2 * STEP)


def _amounts(robot: Robot) -> FloatArray:
    return np.random.default_rng(1).standard_normal(len(robot.errors))


def _names(robot: Robot) -> list[str]:
    return [error.name for error in robot.errors]


def _assert_close(values: FloatArray, expected: FloatArray, tolerance: float = 1e-6) -> None:
    largest = float(np.abs(expected).max())
    assert largest > 0
    assert np.abs(values - expected).max() < tolerance * largest


@pytest.mark.parametrize("name", ["five_bar", "delta", "orthoglide", "serial6", "h4"])
def test_the_sensitivity_equals_differences_of_robots_with_other_geometry(name: str) -> None:
    robot = _bundled(name)
    amounts = _amounts(robot)
    _assert_close(_sensitivity(robot) @ amounts, _difference(robot, amounts))


@pytest.mark.parametrize(
    ("name", "text", "place", "error"),
    [
        ("five_bar", "[-0.1, 0, 0]", "[{}, 0, 0]", "base point of left.motor, x"),
        ("five_bar", "[0.25, 0, 0]", "[{}, 0, 0]", "length of proximal to elbow in all legs"),
        ("five_bar", "[0.35, 0, 0]", "[{}, 0, 0]", "length of distal to tip in all legs"),
        ("delta", "polar = [0.20, 120]", "polar = [{}, 120]", "base point of leg2.motor, radial"),
        (
            "delta",
            "attach = [0.05, 120]",
            "attach = [{}, 120]",
            "platform point of leg2.tip, radial",
        ),
        ("h4", "length = 0.48", "length = {}", "length of rod in all legs"),
        ("serial6", "alpha = 90, r = 0.42", "alpha = 90, r = {}", "length of elbow to q4"),
    ],
)
def test_an_error_is_the_change_of_the_number_in_the_robot_file(
    name: str, text: str, place: str, error: str, tmp_path: Path
) -> None:
    robot = _bundled(name)
    before, _, after = place.partition("{}")
    value = float(text.removeprefix(before).removesuffix(after))
    sides = []
    for changed in (value + STEP, value - STEP):
        contents = robot_text(name)[0]
        assert text in contents
        path = tmp_path / "changed.toml"
        path.write_text(contents.replace(text, place.format(changed)))
        sides.append(_rows(robot, load_robot(path)))
    expected = (sides[0] - sides[1]) / (2 * STEP)
    _assert_close(_sensitivity(robot)[:, :, _names(robot).index(error)], expected)


def test_pinocchio_gives_the_same_sensitivity_of_a_serial_arm() -> None:
    robot = _bundled("serial6")
    mechanism = robot.model.mechanism
    names = mechanism.standard.names
    inertial = robot.chi * [name.inertial for name in names]
    inertias = {}
    for body in mechanism.bodies:
        owned = [k for k, name in enumerate(names) if name.inertial and name.owner == body.name]
        inertias[body.name] = inertial[owned]
    amounts = _amounts(robot)
    sides = []
    for sign in (1.0, -1.0):
        sizes = dict(zip(robot.errors, (sign * STEP * amounts).tolist()))
        tree = build_tree(displaced(mechanism, sizes), inertias)
        data = tree.model.createData()
        samples = zip(robot.motion.q, robot.motion.qd, robot.motion.qdd)
        sides.append(np.array([pin.rnea(tree.model, data, *sample) for sample in samples]))
    expected = (sides[0] - sides[1]) / (2 * STEP)
    slopes = geometry_sensitivity(robot.model, robot.motion, robot.errors, inertial)
    _assert_close(slopes @ amounts, expected)


def test_the_homing_error_is_a_shift_of_the_position_of_its_motor() -> None:
    robot = _bundled("five_bar")
    model = robot.model
    motion = robot.motion
    coulomb = [name.kind == "fs" for name in model.mechanism.standard.names]
    chi = np.where(coulomb, 0.0, robot.chi)
    independent = model.loops.partitions["actuated"].independent
    kernel = response(model, tuple(("row", row) for row in model.rows), "actuated")
    band = np.ones(len(model.home))
    v = motion.qd[:, independent]
    a = motion.qdd[:, independent]
    by_position = kernel(motion.q, v, a, band, chi, robot.load)[1][:, :, : len(independent)]
    homing = [error for error in robot.errors if error.homing is not None]
    assert [error.homing for error in homing] == [*model.mechanism.actuated]
    slopes = geometry_sensitivity(model, motion, homing, chi, load=robot.load)
    _assert_close(slopes, by_position, tolerance=1e-9)


def test_recorded_efforts_count_if_there_are_more_motors_than_degrees_of_freedom() -> None:
    robot = _bundled("redundant")
    amounts = _amounts(robot)
    effort = np.random.default_rng(4).uniform(-10, 10, (SAMPLES, len(robot.model.actuated)))
    slopes = _sensitivity(robot, effort) @ amounts
    _assert_close(slopes, _difference(robot, amounts, effort))
    assert np.abs(slopes - _sensitivity(robot) @ amounts).max() > 0.1 * np.abs(slopes).max()


def test_recorded_efforts_change_nothing_if_each_motor_has_its_own_equation() -> None:
    robot = _bundled("five_bar")
    effort = np.random.default_rng(4).uniform(-10, 10, (SAMPLES, len(robot.model.actuated)))
    _assert_close(_sensitivity(robot, effort), _sensitivity(robot), tolerance=1e-12)


def test_load_dependent_friction_changes_with_the_transmitted_effort() -> None:
    mechanism = load_robot("five_bar")
    joints = []
    for joint in mechanism.joints:
        if joint.actuated:
            joint = replace(joint, terms=(*joint.terms, "fs_load"), values={"fs_load": 0.2})
        joints.append(joint)
    robot = _robot(replace(mechanism, joints=tuple(joints), ties={}))
    amounts = _amounts(robot)
    _assert_close(_sensitivity(robot) @ amounts, _difference(robot, amounts))


def test_the_sign_of_velocities_is_taken_as_constant() -> None:
    robot = _bundled("orthoglide")
    coulomb = np.array([name.kind == "fs" for name in robot.model.mechanism.standard.names])
    smooth = np.where(coulomb, 0.0, robot.chi)
    wide = geometry_sensitivity(robot.model, robot.motion, robot.errors, robot.chi, dead_band=1e9)
    without = geometry_sensitivity(robot.model, robot.motion, robot.errors, smooth)
    _assert_close(wide, without)
    narrow = geometry_sensitivity(robot.model, robot.motion, robot.errors, robot.chi)
    assert np.abs(narrow - without).max() > 1e-3 * np.abs(without).max()


def test_samples_are_independent_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = _bundled("five_bar")
    together = _sensitivity(robot)
    monkeypatch.setattr(geometry, "SENSITIVITY_BATCH", 3)
    assert np.array_equal(_sensitivity(robot), together)


def test_a_planar_robot_has_no_errors_out_of_its_plane() -> None:
    robot = _bundled("five_bar")
    single = [error for error in robot.errors if not error.legs]
    assert len(single) == 2 * (2 + 1 + 2 + 2 + 2)  # base, homing, elbow, tip on both bodies
    for error in robot.errors:
        for displacement in error.displacements:
            along_z = displacement.axis[2] != 0
            assert along_z == (displacement.motion == "rotation")
            assert displacement.motion == "translation" or error.homing is not None


def test_the_base_of_a_serial_arm_may_tilt_but_not_move() -> None:
    names = _names(_bundled("serial6"))
    on_base = [name for name in names if "base" in name]
    assert on_base == ["axis of q1 on base, about x", "axis of q1 on base, about y"]


def test_a_prismatic_motor_has_its_own_axis_as_homing_only() -> None:
    names = _names(_bundled("orthoglide"))
    of_motor = [name for name in names if "leg1.q1" in name and "on base" not in name]
    assert of_motor == [
        "base point of leg1.q1, x",
        "base point of leg1.q1, y",
        "homing offset of leg1.q1",
    ]


def test_names_of_errors_are_unique() -> None:
    for robot in ("delta", "h4", "orthoglide", "serial6"):
        names = _names(_bundled(robot))
        assert len(set(names)) == len(names)


def test_errors_and_motions_of_another_robot_are_refused() -> None:
    robot = _bundled("five_bar")
    other = _bundled("serial6")
    with pytest.raises(InvalidInput, match="geometric_errors"):
        geometry_sensitivity(robot.model, robot.motion, other.errors)
    with pytest.raises(InvalidInput, match="not of 'five_bar'"):
        geometry_sensitivity(robot.model, other.motion, robot.errors)


def test_without_errors_there_are_no_columns() -> None:
    robot = _bundled("five_bar")
    assert geometry_sensitivity(robot.model, robot.motion, ()).shape == (SAMPLES, 2, 0)
