"""Descriptions and robot files written from named faults: the logs read as they should."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.engine import Model
from gough.identification.diagnosis import NamedFault
from gough.logs.description import load_description
from gough.logs.readers import describe_log, read_recording
from gough.logs.recording import Recording
from gough.mechanism import load_robot, robot_text
from gough.verdict.corrections import (
    _with_gravity,
    corrected_description,
    corrected_robot,
    description_text,
)
from gough.verdict.faults import add_term_advice


def named(name: str, place: str, *size: float, advice: str = "") -> NamedFault:
    return NamedFault(name=name, place=place, size=size, text="", advice=advice)


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_corrected_description_makes_the_log_read_as_it_should(
    logs: tuple[Recording, Recording], tmp_path: Path, suffix: str
) -> None:
    """Faults of every kind that a description can express, made to a log and read back."""
    log = logs[0].take(slice(0, 625))
    effort = np.stack([np.sin(7 * log.time), np.cos(5 * log.time)], axis=1)
    smooth = replace(log, effort=effort)
    delayed = np.sin(7 * (smooth.time - 2e-3))
    scaled = -3 * np.cos(5 * smooth.time) + 0.5
    spoilt = replace(
        smooth,
        time=1.5 * smooth.time,
        position=smooth.position[:, ::-1] * np.array([1.0, 2.0]) + np.array([0.1, 0.0]),
        effort=np.stack([delayed, scaled], axis=1),
    )
    path = spoilt.save(tmp_path / f"log.{suffix}")
    faults = [
        named("clock unit", "clock", 1.5),
        named("effort offset", "right.motor", 0.5),
        named("effort sign", "right.motor", -1.0),
        named("effort scale", "right.motor", 3.0),
        named("effort delay", "left.motor", 2e-3),
        named("encoder offset", "left.motor", 0.1),
        named("encoder scale", "right.motor", 1.0),
        named("swapped positions", "left.motor and right.motor"),
        named("missing term", "left.motor", 1.0),
    ]
    fresh, done = corrected_description(describe_log(path), faults)
    assert [fault.name for fault in done] == [fault.name for fault in faults[:-1]]
    target = tmp_path / "log.toml"
    target.write_text(description_text(fresh), encoding="utf-8")
    again = read_recording(path, target)
    assert again.effort is not None
    np.testing.assert_allclose(again.time, smooth.time - smooth.time[0], atol=1e-9)
    np.testing.assert_allclose(again.position, smooth.position, atol=1e-9)
    np.testing.assert_allclose(again.effort[5:-5], effort[5:-5], atol=1e-3)
    assert again.period_samples == smooth.period_samples


def test_an_offset_of_a_current_needs_the_gain(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text(
        'format = 1\njoints = ["a"]\n[time]\ncolumns = ["t"]\nunits = ["s"]\n[position]\n'
        'columns = ["q"]\nunit = "rad"\n[current]\ncolumns = ["i"]\nunit = "A"\n',
        encoding="utf-8",
    )
    description = load_description(path)
    fault = named("effort offset", "a", 0.6)
    assert corrected_description(description, [fault])[1] == ()
    fresh, done = corrected_description(description, [fault], {"a": 3.0})
    assert done == (fault,)
    assert [signal.offset for signal in fresh.of("current")] == [pytest.approx(-0.2)]


def test_a_corrected_robot_file_has_gravity_and_terms(five_bar: Model, tmp_path: Path) -> None:
    text = robot_text("five_bar")[0]
    advice = add_term_advice("spring about the zero position", "k").format(place="left.elbow")
    term = named("missing term", "left.elbow", 1.0, advice=advice)
    gravity = replace(named("gravity direction", "base"), gravity=(0.0, 0.0, -9.81))
    fresh, done = corrected_robot(text, five_bar, [gravity, term])
    assert done == (gravity, term)
    path = tmp_path / "robot.toml"
    path.write_text(fresh, encoding="utf-8")
    corrected = load_robot(path)
    np.testing.assert_allclose(corrected.gravity, (0, 0, -9.81), atol=1e-9)
    assert corrected.joint("left.elbow").terms == ("fv", "k")
    assert corrected.joint("right.elbow").terms == ("fv", "k")  # the leg is written once
    assert corrected.joint("left.motor").terms == ("ia", "fv", "fs")


def test_gravity_is_put_where_a_robot_file_has_none() -> None:
    text = 'format = 1\nname = "x"\n\n[units]\nlength = "m"\n'
    lines = _with_gravity(text, (0.0, 1.0, -9.0)).splitlines()
    assert lines.index("gravity = [0.0, 1.0, -9.0]") < lines.index("[units]")


def test_faults_that_cannot_be_told_from_others_are_not_corrected(
    five_bar: Model, logs: tuple[Recording, Recording], tmp_path: Path
) -> None:
    description = describe_log(logs[0].take(slice(0, 50)).save(tmp_path / "log.csv"))
    sure = named("effort delay", "left.motor", 2e-3)
    doubtful = replace(sure, equivalents=("effort lag of left.motor",))
    assert corrected_description(description, [sure])[1] == (sure,)
    assert corrected_description(description, [doubtful]) == (description, ())
    text = robot_text("five_bar")[0]
    tilt = replace(named("tilt", "base", 0.1, 0.0), gravity=(1.0, -9.0, 0.0))
    assert corrected_robot(text, five_bar, [tilt])[1] == (tilt,)
    doubtful = replace(tilt, equivalents=("effort offset of left.motor",))
    assert corrected_robot(text, five_bar, [doubtful]) == (text, ())
