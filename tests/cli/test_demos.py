"""Every bundled demo runs, at a small size, and finds what its virtual robot has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import gough
from gough.app.studies.study_file import read_study, step_settings
from syntax import SOURCE

pytestmark = pytest.mark.slow
DEMOS = sorted(path.stem for path in (SOURCE / "demos").glob("*.toml"))
# Keys of the studies that decide how long they take, and lines that do, with what they are here.
# Drive gains come from the loaded log of the Orthoglide, so that it has an estimator of its own.
SMALL = {"iterations": 5, "periods": 2, "workers": 1}
SHORTER = {
    'plant = "pinocchio"': 'plant = "gough"',
    'estimator = "all"\noutput': 'estimator = "gain_ml"\noutput',
    'estimator = "all"': 'estimator = "gm"',
    "[generate]\n": "[generate]\nrobots = 4\ndays = 2\ndrifting = 1\n",
}


def small_study(name: str) -> str:
    """Return the study of a demo with few iterations, periods and robots."""
    text = (SOURCE / "demos" / f"{name}.toml").read_text(encoding="utf-8")
    for key, number in SMALL.items():
        text = re.sub(rf"^{key} = \d+$", f"{key} = {number}", text, flags=re.MULTILINE)
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    return text


@pytest.fixture
def steps(request: pytest.FixtureRequest, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the verbs and results of a demo."""
    (tmp_path / "study.toml").write_text(small_study(request.param), encoding="utf-8")
    done: list[dict[str, Any]] = json.loads(
        gough(tmp_path, "run", "study.toml", "--force", "--json").out
    )
    return done


def result_of(steps: list[dict[str, Any]], verb: str) -> dict[str, Any]:
    """Return the result of the last step of a verb."""
    results = [step["result"] for step in steps if step["verb"] == verb]
    found: dict[str, Any] = results[-1]
    return found


def test_every_demo_is_tested_here() -> None:
    assert DEMOS == ["five_bar", "fleet", "h4", "orthoglide", "palida", "stewart"]


@pytest.mark.parametrize("name", DEMOS)
def test_every_key_of_a_demo_is_known(name: str) -> None:
    steps = read_study(SOURCE / "demos" / f"{name}.toml")
    for verb, options in steps:
        step_settings(verb, options)  # raises at an unknown key or a wrong value


@pytest.mark.parametrize(
    "steps",
    ["five_bar", "h4", "palida"],
    indirect=True,
)
def test_a_demo_identifies_a_model_that_predicts(steps: list[dict[str, Any]]) -> None:
    identified = result_of(steps, "identify")
    assert identified["validation"]["predicts"] == "good"
    assert result_of(steps, "bounds")["parameters"]
    assert result_of(steps, "export")["files"]


@pytest.mark.parametrize("steps", ["orthoglide"], indirect=True)
def test_the_orthoglide_demo_finds_the_drive_gains(steps: list[dict[str, Any]]) -> None:
    gains = result_of(steps, "identify")["drive_gains"]
    values = [gain["value"] for gain in gains.values()]
    assert values == pytest.approx([2170.0, 2100.0, 2070.0], rel=0.02)


@pytest.mark.parametrize("steps", ["fleet"], indirect=True)
def test_the_fleet_demo_reads_every_robot(steps: list[dict[str, Any]]) -> None:
    assert result_of(steps, "fleet")["robots"] == 4


def test_the_stewart_demo_prints_the_load_that_it_carries(tmp_path: Path) -> None:
    """A study that said `mass = 2000`, which means a weighed load, once made it print that."""
    (tmp_path / "study.toml").write_text(small_study("stewart"), encoding="utf-8")
    printed = gough(tmp_path, "run", "study.toml").out
    shown = re.search(r"load m ([\d.]+) \+- ([\d.]+) kg", printed)
    assert shown is not None, printed
    mass = float(shown[1])
    standard_error = float(shown[2])
    assert 0 < standard_error < 1
    assert abs(mass - 500.0) < 4 * standard_error
