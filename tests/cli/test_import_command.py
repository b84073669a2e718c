"""`gough import`: motors, locks and platform by option; a file that starts closed; nothing
half-written.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from foreign import BARS, BARS_YAML, written
from scipy.spatial.transform import Rotation
from test_import_sdf import LOOP

from command_line import run, succeed
from gough.engine import Model
from gough.mechanism import load_robot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path, "bars.urdf", BARS)
    written(tmp_path, "loops.yaml", BARS_YAML)
    return tmp_path


def test_the_file_starts_closed_and_notes_what_was_assumed(folder: Path) -> None:
    out = succeed("gough import bars.urdf --loops loops.yaml -o robot.toml", folder)
    assert "1 degrees of freedom, 3 joints, 1 loop" in out
    assert "gravity 9.81" in out
    text = (folder / "robot.toml").read_text()
    assert text.startswith("# imported from bars.urdf\n# assumed: gravity 9.81")
    assert str(folder) not in text
    model = Model(load_robot(folder / "robot.toml"))
    start = np.array([joint.start for joint in model.mechanism.joints])
    np.testing.assert_allclose(model.home, start, atol=1e-12)


def test_it_answers_in_json_and_never_writes_over_a_file(folder: Path) -> None:
    told = json.loads(
        succeed("gough import bars.urdf --loops loops.yaml -o robot.toml --json", folder)
    )
    assert told["motors"] == ["crank"]
    assert told["files"] == ["robot.toml"]
    again = run("gough import bars.urdf --loops loops.yaml -o robot.toml", folder)
    assert again.code == 1
    assert "already exists" in again.err


def test_other_motors_and_locks(folder: Path) -> None:
    succeed("gough import bars.urdf --loops loops.yaml --motors rocker -o other.toml", folder)
    assert load_robot(folder / "other.toml").actuated == ("rocker",)
    wrong = run("gough import bars.urdf --loops loops.yaml --motors roker -o x.toml", folder)
    assert "no moving joint 'roker'; did you mean 'rocker'" in wrong.err
    (folder / "open.yaml").write_text("name_mot: [crank]\n")
    missing = run("gough import bars.urdf --loops open.yaml -o x.toml", folder)
    assert missing.code == 1
    assert "3 degrees of freedom but 1 motors" in missing.err
    assert "--motors, or hold them with --lock" in missing.err
    succeed("gough import bars.urdf --loops open.yaml --lock knee,rocker -o locked.toml", folder)
    robot = load_robot(folder / "locked.toml")
    assert robot.coordinates == ("crank",)
    assert robot.bodies[0].values["m"] == pytest.approx(
        0.5 + 1.2
    )  # knee and coupler ride on the crank


def test_a_platform_gets_the_coordinates_in_which_it_moves(folder: Path) -> None:
    (folder / "two.yaml").write_text(
        BARS_YAML.replace("[crank]", "[crank, knee]")
        .replace("[[end_b, end_c]]", "[]")
        .replace("[3d]", "[]")
    )
    succeed(
        "gough import bars.urdf --loops two.yaml --lock rocker --platform end_b -o robot.toml",
        folder,
    )
    model = Model(load_robot(folder / "robot.toml"))
    assert model.mechanism.task == ("end_b_platform.x", "end_b_platform.z")
    assert "task" in model.loops.partitions
    at = dict(zip(model.mechanism.coordinates, model.home))
    reach = 0.2 * np.exp(-1j * at["crank"]) + 0.6 * np.exp(-1j * (at["crank"] + at["knee"]))
    assert at["end_b_platform.x"] + 1j * at["end_b_platform.z"] == pytest.approx(reach)
    wrong = run(
        "gough import bars.urdf --loops two.yaml --platform ground -o x.toml --lock rocker", folder
    )
    assert "does not move" in wrong.err


def test_joints_that_were_cut_and_a_free_base_that_is_locked(tmp_path: Path) -> None:
    written(tmp_path, "loop.sdf", LOOP)
    succeed("gough import loop.sdf", tmp_path)
    assert Model(load_robot(tmp_path / "loop.toml")).degrees_of_freedom == 1
    written(
        tmp_path,
        "walker.xml",
        """<mujoco><compiler angle="radian"/><worldbody>
      <body name="pelvis" pos="0 0 1" euler="0.1 0.2 0.3"><freejoint name="float"/><geom size="0.1"/>
        <body name="leg" pos="0.1 0 0"><joint name="hip" axis="0 1 0"/><geom size="0.05" pos="0 0 -0.3"/></body></body>
      </worldbody><actuator><motor joint="hip"/></actuator></mujoco>""",
    )
    asked = run("gough import walker.xml", tmp_path)
    assert "7 degrees of freedom but 1 motors; with these held, float still move" in asked.err
    succeed("gough import walker.xml --lock float", tmp_path)
    robot = load_robot(tmp_path / "walker.toml")
    assert robot.coordinates == ("hip",)
    x = Rotation.from_euler("XYZ", [0.1, 0.2, 0.3]).as_matrix()[:, 0]
    np.testing.assert_allclose(
        robot.joint("hip").placement.translation, [0, 0, 1] + 0.1 * x, atol=1e-12
    )
