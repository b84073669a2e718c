"""Export: every format from one result, by the function and by the command."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from results import result_with

from gough.app.identify import identify
from gough.core.errors import InvalidInput, OutputError
from gough.core.notices import Notice
from gough.engine import Model, random_motion
from gough.export import export
from gough.export.contents import (
    check_bodies,
    check_terms,
    origin_of_values,
    standard_values,
)
from gough.fitting.pseudo_inertia import pseudo_inertia
from gough.identification import Identification, load_identification
from gough.logs.recording import Recording


@pytest.fixture(scope="module", params=[False, True], ids=["legs free", "legs tied"])
def result(
    request: pytest.FixtureRequest, five_bar: Model, five_bar_log: Recording
) -> Identification:
    return identify(five_bar, [five_bar_log], estimator="feasible", tie_legs=request.param)


def test_bodies_are_possible_and_give_the_base_parameters(
    five_bar: Model, result: Identification
) -> None:
    assert set(result.bodies) == {
        "tool",
        "left.proximal",
        "right.proximal",
        "left.distal",
        "right.distal",
    }
    for values in result.bodies.values():
        assert np.linalg.eigvalsh(pseudo_inertia(np.array(values)))[0] > 0
    if result.tied:
        assert result.bodies["left.distal"] == result.bodies["right.distal"]
    standard = standard_values(
        five_bar, check_bodies(five_bar, result.bodies), check_terms(five_bar, result.joint_terms)
    )
    table = dict(zip(five_bar.mechanism.standard.names, standard.tolist()))
    if result.tied:
        table |= {name: table[five_bar.resolve(name)[0]] for name in result.base.standard}
    found = result.base.values([table[name] for name in result.base.standard])
    np.testing.assert_allclose(found, result.estimates["feasible"].values, rtol=1e-12, atol=1e-15)


def test_lines_say_which_values_are_data_and_which_the_robot_files() -> None:
    determined = {"rod.m": 0.99, "rod.mx": 0.95, "rod.Izz": 0.5, "rod.Ixx": 0.02, "motor.fv": 1.0}
    assert origin_of_values(result_with(determined=determined)) == [
        "rod: m mx from data; Izz from both; Ixx from robot file",
        "motor: fv from data",
    ]


def test_bodies_come_back_from_disk(result: Identification, tmp_path: Path) -> None:
    result.save(tmp_path)
    again = load_identification(tmp_path)
    assert again.bodies == result.bodies
    assert again.determined == result.determined
    assert again.joint_terms == result.joint_terms
    content = json.loads((tmp_path / "estimate.json").read_text())
    del (
        content["stored"]["bodies"],
        content["stored"]["joint_terms"],
    )  # as written before there were any
    (tmp_path / "estimate.json").write_text(json.dumps(content))
    assert load_identification(tmp_path).bodies == {}


def test_a_payload_stays_apart(five_bar: Model, five_bar_log: Recording) -> None:
    """A log said to be with payload adds a body of its own, which no robot format takes for the
    robot's.
    """
    mounted = replace(five_bar_log, payload="disc", effort=1.1 * five_bar_log.effort)
    result = identify(five_bar, [five_bar_log, mounted], estimator="feasible", window=0.04)
    assert "payload.disc" in result.bodies
    assert "payload.disc" not in check_bodies(five_bar, result.bodies)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c_code_has_the_efforts_of_the_estimate(
    five_bar: Model, result: Identification, tmp_path: Path
) -> None:
    files = export(
        five_bar,
        replace(result, nominal_gains={"left.motor": 2.0, "right.motor": 4.0}),
        tmp_path,
        "c",
        name="my-arm",
    )
    assert [file.name for file in files] == ["my_arm.c", "my_arm.h"]
    subprocess.run(
        [
            "gcc",
            "-std=c99",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
            "arm.so",
            "my_arm.c",
            "-lm",
        ],
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    library = ctypes.CDLL(str(tmp_path / "arm.so"))
    n = len(five_bar.home)  # the struct of the header: two configurations and a counter
    state, out = (ctypes.c_double * (2 * n + 1))(), (ctypes.c_double * 2)()
    library.my_arm_reset(state)
    motion = random_motion(five_bar, 1, seed=2, reach=0.2)
    expected = five_bar.regressor(motion, result.base)[0] @ result.estimate.values
    act = list(five_bar.actuated)
    inputs = [(ctypes.c_double * 2)(*x[0, act]) for x in (motion.q, motion.qd, motion.qdd)]
    assert library.my_arm_inverse_dynamics(state, *inputs, out) == 0
    np.testing.assert_allclose(list(out), expected, rtol=1e-10)
    assert library.my_arm_inverse_dynamics_current(state, *inputs, out) == 0
    np.testing.assert_allclose(list(out), expected / [2.0, 4.0], rtol=1e-10)


def test_robot_formats_hold_the_consistent_robot(
    five_bar: Model, result: Identification, tmp_path: Path
) -> None:
    mujoco, pin = pytest.importorskip("mujoco"), pytest.importorskip("pinocchio")
    tree, sidecar = export(five_bar, result, tmp_path, "urdf")
    (scene,) = export(five_bar, result, tmp_path, "mjcf")
    assert [file.name for file in (tree, sidecar, scene)] == [
        "five_bar.urdf",
        "five_bar.yaml",
        "five_bar.xml",
    ]
    robot, other = pin.buildModelFromUrdf(str(tree)), mujoco.MjModel.from_xml_path(str(scene))
    for name, values in result.bodies.items():
        joint = next(j.name for j in five_bar.mechanism.joints if j.child == name).replace(".", "_")
        np.testing.assert_allclose(
            robot.inertias[robot.getJointId(joint)].toDynamicParameters(), values, atol=1e-12
        )
        assert other.body(name).mass[0] == pytest.approx(values[0], rel=1e-12)
    motor = robot.joints[robot.getJointId("left_motor")].idx_v
    assert robot.friction[motor] == result.joint_terms["left.motor.fs"]
    assert other.joint("left.motor").frictionloss[0] == result.joint_terms["left.motor.fs"]


def test_tables_are_written(five_bar: Model, result: Identification, tmp_path: Path) -> None:
    (table,) = export(five_bar, result, tmp_path, "json")
    (other,) = export(five_bar, result, tmp_path, "toml")
    assert (table.name, other.name) == ("parameters.json", "parameters.toml")
    content = json.loads(table.read_text(encoding="utf-8"))
    assert content == tomllib.loads(other.read_text(encoding="utf-8"))
    assert [row["name"] for row in content["parameters"]] == list(result.estimate.parameters)


@pytest.mark.parametrize("to", ["urdf", "mjcf"])
def test_without_a_consistent_estimate_it_says_what_to_run(
    five_bar: Model, to: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="estimator feasible or all"):
        export(five_bar, result_with(), tmp_path, to)
    text = "was not possible: prior mass of body 'x' is 0 kg"
    failed = Notice(rule="estimator", level="info", where="feasible", text=text)
    tried = result_with(notices=(failed,))
    with pytest.raises(
        InvalidInput, match=r"parameters only; feasible: was not possible: prior mass"
    ):
        export(five_bar, tried, tmp_path, to)
    assert not list(tmp_path.iterdir())


def test_existing_files_stay_unless_forced(
    five_bar: Model, result: Identification, tmp_path: Path
) -> None:
    """Also when only the second of two files is in the way."""
    (tmp_path / "controller.h").write_text("mine")
    with pytest.raises(OutputError, match=r"controller\.h' already exists.*`force=True`"):
        export(five_bar, result, tmp_path, "c")
    assert (tmp_path / "controller.h").read_text() == "mine"
    assert not (tmp_path / "controller.c").exists()
    assert len(export(five_bar, result, tmp_path, "c", force=True)) == 2
    assert (tmp_path / "controller.h").read_text() != "mine"


def test_wrong_formats_names_and_folders_are_refused(five_bar: Model, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no export format 'mjfc'; did you mean 'mjcf'"):
        export(five_bar, result_with(), tmp_path, "mjfc")
    for name in ("../out", "a/b", "", "..", "."):
        with pytest.raises(InvalidInput, match="is no name for a file"):
            export(five_bar, result_with(), tmp_path / "new", "json", name=name)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError):
        export(five_bar, result_with(), tmp_path / "file", "json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_a_new_folder_is_made(five_bar: Model, tmp_path: Path) -> None:
    (file,) = export(five_bar, result_with(), tmp_path / "new" / "folder", "json", name="run-3")
    assert file == tmp_path / "new" / "folder" / "run-3.json"


def test_partly_tied_bodies_are_not_passed_off_as_whole(
    five_bar_log: Recording, five_bar: Model
) -> None:
    """Only the masses tied: what was found consistent is no body of the robot."""
    ties = {
        name: members for name, members in five_bar.mechanism.ties.items() if name.endswith(".m")
    }
    model = Model(replace(five_bar.mechanism, ties=ties))
    assert set(identify(model, [five_bar_log], estimator="feasible", tie_legs=True).bodies) == {
        "tool"
    }
