"""Terms that a robot format has no words for, written as those it has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gough.app.identify import identify
from gough.app.report import write_report
from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.excitation import design
from gough.export import export
from gough.identification import Identification
from gough.mechanism import parse_robot, robot_text
from gough.virtual import record, simulate
from tests_support import fourier

TEXT = (
    robot_text("five_bar")[0]
    .replace('terms = ["ia", "fv", "fs"]', 'terms = ["ia", "fv", "fs", "fs_time", "ripple"]')
    .replace('fs = "$fs" }', 'fs = "$fs", fs_time = 0.4, ripple_sin = 0.1, ripple_cos = 0.1 }')
    + """
[[term]]
name = "ripple"
constants = { pitch = "20 deg" }
"""
)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(parse_robot(TEXT, "five_bar.toml"))


@pytest.fixture(scope="module")
def result(model: Model) -> Identification:
    log = record(simulate(model, fourier(model, 0.4, 0.5, harmonics=5), periods=2), seed=1)
    return identify(model, [log], estimator="feasible")


def test_terms_without_words_are_refused_or_become_friction_and_the_loss_is_stated(
    model: Model, result: Identification, tmp_path: Path
) -> None:
    for format in ("urdf", "mjcf"):
        with pytest.raises(InvalidInput, match=r"cannot express the term 'fs_time'.*approximately"):
            export(model, result, tmp_path / format, format)
        text = export(model, result, tmp_path / format, format, approximate=True)[0].read_text()
        lost = re.search(
            r"left\.motor: fs_time, ripple_sin, ripple_cos of ([\d.]+) N m rms became fv, fs; "
            r"([\d.]+) N "
            "m rms are lost",
            text,
        )
        assert lost is not None
        assert (
            0.05 < float(lost[2]) < 0.13 < 0.3 < float(lost[1])
        )  # the ripple of 0.1 rms has no word, the lag has
    friction = re.findall(r'frictionloss="([\d.]+)"', text)
    found = result.joint_terms
    sums = [found[f"{leg}.motor.fs"] + found[f"{leg}.motor.fs_time"] for leg in ("left", "right")]
    np.testing.assert_allclose(sorted(float(f) for f in friction)[-2:], sorted(sums), rtol=0.05)


def test_c_code_needs_no_approximation(
    model: Model, result: Identification, tmp_path: Path
) -> None:
    plain, about = (
        export(model, result, tmp_path / str(k), "c", approximate=bool(k))[0].read_text()
        for k in (0, 1)
    )
    assert plain == about
    assert "past[" in plain


def test_the_report_shows_friction_over_velocity_and_ripple_over_position(
    model: Model, result: Identification, tmp_path: Path
) -> None:
    write_report(model, result, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for motor in ("left.motor", "right.motor"):
        assert f"friction over velocity [N m], {motor}" in page
        assert f"effort over position [N m], {motor}" in page


def test_design_leaves_out_what_depends_on_the_past(model: Model) -> None:
    plan = design(model, harmonics=2, frequency=0.5, starts=1)
    assert not any("fs_time" in name for name in plan.base.names)
    assert any("ripple_sin" in name for name in plan.base.names)
