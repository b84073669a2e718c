"""A new user's way: a public URDF and a bag in, a report out, and no file written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

import pytest

from command_line import succeed

MODEL = (
    Path(__file__).parents[3]
    / "shared"
    / "data"
    / "closed_loop_models"
    / "gepetto"
    / "5bar_linkage"
)


def command(folder: Path, words: str) -> str:
    return succeed(f"gough {words}", folder)


@pytest.mark.slow
@pytest.mark.skipif(not MODEL.exists(), reason="the model is not here")
def test_from_a_urdf_and_a_bag_to_a_report_without_a_line_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    urdf = quote(str(MODEL / "robot.urdf"))
    loops = quote(str(MODEL / "robot.yaml"))
    said = command(tmp_path, f"import {urdf} --loops {loops} --velocity 1 -o robot.toml")
    assert "ignored: effort 1, velocity 20 at every joint" in said
    for k, options in (
        (1, ""),
        (2, "--frequency 0.2"),
    ):  # the model's own noise is unknown: other motions tell more
        command(
            tmp_path, f"design robot.toml {options} --starts 1 --iterations 30 -o motion{k}.json"
        )
        command(
            tmp_path, f"simulate robot.toml --trajectory motion{k}.json --periods 5 -o run{k}.mcap"
        )
    command(tmp_path, "log run1.mcap --robot robot.toml -o run.toml")
    command(
        tmp_path,
        "identify robot.toml run1.mcap --validate run2.mcap --description run.toml -o result",
    )
    command(tmp_path, "report result")
    stored = json.loads((tmp_path / "result" / "estimate.json").read_text())
    assert stored["validation"]["predicts"] == "good"
    report = (tmp_path / "result" / "report.html").read_text(encoding="utf-8")
    assert stored["digests"]["run1.mcap"][:12] in report
    assert "rate [Hz]" in report
