"""The example in every --help runs, each with what the ones before it wrote, and answers in JSON as
documented.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from command_line import run, succeed
from documentation import check_keys, check_result
from gough.app.cli import COMMANDS
from gough.app.studies.result_schema import RESULT_KEYS

STUDY = 'format = 1\nrobot = "five_bar"\n[check]\n[bounds]\nlogs = ["log.csv"]\nerror_bound = 0.5\n'
URDF = """<robot name="arm"><link name="ground"/><link name="bar"><inertial><mass value="2"/></inertial></link>
<joint name="hinge" type="continuous"><parent link="ground"/><child link="bar"/></joint></robot>"""
WRITES = {
    "import": "robot.toml",
    "design": "trajectory.json",
    "simulate": "log.csv",
    "identify": "result/estimate.json",
    "report": "result/report.html",
    "export": "result/controller.c",
    "demo": "demo/study.toml",
    "generate": "fleet/truth.csv",
    "fleet": "fleet/result/fleet.html",
}


def example(verb: str) -> str:
    """The line behind `Example:` as --help shows it."""
    outcome = run(f"gough {verb} --help", Path.cwd())
    assert outcome.code == 0
    found = re.findall(r"Example: +(gough .*?)\s*$", outcome.out, re.MULTILINE)
    assert len(found) == 1, (
        f"gough {verb} --help shows {len(found)} examples, expected one on a line of its own"
    )
    return str(found[0])


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_of_every_verb_shows_an_example_of_it(verb: str) -> None:
    assert example(verb).startswith(f"gough {verb}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "not_run",
    [
        ("view", "schema", "demo"),  # one stays, one has nothing but JSON, one is in test_demos
        pytest.param(("view", "schema"), marks=pytest.mark.long),
    ],
    ids=["without the demo", "with the demo"],
)
def test_the_examples_run_one_after_the_other(tmp_path: Path, not_run: tuple[str, ...]) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    rows = "".join(f"{k / 100},{k * 0.01},{-k * 0.01},{k % 7},{k % 5}\n" for k in range(50))
    (tmp_path / "run.csv").write_text("time [s],a [rad],b [rad],c [N m],d [N m]\n" + rows)
    (tmp_path / "robot.urdf").write_text(URDF)
    (tmp_path / "robot.yaml").write_text("name_mot: [hinge]\n")
    for verb in (verb for verb in COMMANDS if verb not in not_run):
        output = succeed(f"{example(verb)} --json", tmp_path)
        if verb != "run":
            check_keys(output, "study", f"JSON of gough {verb}")
        if verb in RESULT_KEYS:
            check_result(verb, output)
        assert verb not in WRITES or (tmp_path / WRITES[verb]).stat().st_size > 0
        if verb == "simulate":  # the examples of identify and validate speak of another log
            shutil.copy(tmp_path / "log.csv", tmp_path / "other.csv")
        if verb == "identify":  # and that of compare of another result
            shutil.copytree(tmp_path / "result", tmp_path / "again")
        if verb == "run":
            steps = json.loads(output)
            assert [step["verb"] for step in steps] == ["check", "bounds"]
            assert all(set(step) == {"verb", "result"} for step in steps)
            for step in steps:
                check_keys(json.dumps(step["result"]), "study", f"JSON of gough {step['verb']}")
