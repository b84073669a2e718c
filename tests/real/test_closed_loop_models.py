"""Closed-chain models that others wrote, where they are beside the project: they import, assemble,
pass check.
"""

from __future__ import annotations

from pathlib import Path

import machines
import pytest

from command_line import gough
from gough.engine import Model, check
from gough.mechanism import load_robot

MODELS = machines.DATA / "closed_loop_models"
pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason="the models are not here")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "freedoms", "held"),
    [("5bar_linkage", 2, 1), ("robot_delta", 2, 3), ("digit_like", 6, 3)],
)
def test_a_model_with_its_yaml_imports_assembles_and_passes_check(
    name: str, freedoms: int, held: int, tmp_path: Path
) -> None:
    source = MODELS / "gepetto" / name / "robot.urdf"
    loops = source.with_suffix(".yaml")
    gough(tmp_path, "import", str(source), "--loops", str(loops), "-o", "robot.toml")
    found = check(Model(load_robot(tmp_path / "robot.toml")))
    assert found.model.degrees_of_freedom == freedoms
    assert len(found.model.loops.locked) == held
    assert found.closure_residual < 1e-10
    assert found.model.loops.assembly == "from the start values"  # the file starts closed


def test_a_gripper_with_springs_says_what_is_missing_and_locks_answer_it(tmp_path: Path) -> None:
    source = MODELS / "menagerie" / "robotiq_2f85.xml"
    asked = gough(tmp_path, "import", str(source), "-o", "robot.toml", code=1)
    assert "3 degrees of freedom but 1 motors" in asked.err
    assert "--lock" in asked.err
    assert not (tmp_path / "robot.toml").exists()
    springs = "left_spring_link_joint,right_spring_link_joint"
    done = gough(tmp_path, "import", str(source), "--lock", springs, "-o", "robot.toml")
    assert "1 degrees of freedom" in done.out
    assert Model(load_robot(tmp_path / "robot.toml")).degrees_of_freedom == 1
