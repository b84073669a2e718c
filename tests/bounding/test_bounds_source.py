"""Certificates are bound to robot, logs and settings: every field of a stored box is changed.

The log is written by formulas of a slider on rails, without the simulator.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gough
from command_line import run, succeed
from gough.bounding.rederive import rederive
from gough.bounding.verify import Rejected, verify
from gough.core.errors import InvalidInput
from gough.fitting.estimate import Enclosure

ROBOT = """
format = 1
name = "rail"
title = "A motor on a rail"
units = { length = "m", angle = "deg", mass = "kg" }

[[body]]
name = "carriage"
parameters = ["m"]
m = 2.0

[[joint]]
name = "slider"
type = "prismatic"
parent = "base"
child = "carriage"
axis = "x"
actuated = true
terms = ["fv", "fs"]
values = { fv = 3.0, fs = 4.0 }
"""
MASS, VISCOUS, COULOMB, BOUND = 1.5, 4.0, 5.0, 0.8
RATE, SAMPLES = 200.0, 400
# Changed together with the digest these pass: they are no part of the guarantee, or no
# equation of this robot and log depends on them.
IMMATERIAL = {
    "certificate.smallest_fitting",
    "certificate.gap",
    "certificate.relative_gap",
    "certificate.source.version",
    "notices",
    "settings.tie_legs",
    "settings.decimation",
    "settings.harmonics",
    "settings.frequency",
}


def efforts(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position and effort of the rail along two sines, with errors inside the bound."""
    first, second = 2 * np.pi * 0.5, 2 * np.pi * 1.5
    position = 0.2 * np.sin(first * time) + 0.03 * np.sin(second * time)
    velocity = 0.2 * first * np.cos(first * time) + 0.03 * second * np.cos(second * time)
    acceleration = -0.2 * first**2 * np.sin(first * time) - 0.03 * second**2 * np.sin(second * time)
    error = np.random.default_rng(1).uniform(-0.5, 0.5, len(time))
    effort = MASS * acceleration + VISCOUS * velocity + COULOMB * np.sign(velocity) + error
    return position, effort


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a robot, a log and a box."""
    folder = tmp_path_factory.mktemp("rail")
    time = np.arange(SAMPLES) / RATE
    position, effort = efforts(time)
    lines = ["time [s],slider.position [m],slider.effort [N]"]
    for row in zip(time.tolist(), position.tolist(), effort.tolist()):
        lines.append(",".join(map(repr, row)))
    (folder / "rail.toml").write_text(ROBOT)
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    succeed(f"gough bounds rail.toml log.csv --error-bound {BOUND} -o box.json", folder)
    return folder


@pytest.fixture(scope="module")
def stored(place: Path) -> dict[str, Any]:
    return dict(json.loads((place / "box.json").read_text()))


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return content with the digest that its own text has."""
    others = {key: entry for key, entry in content.items() if key != "digest"}
    text = json.dumps(others, sort_keys=True, separators=(",", ":"))
    return others | {"digest": hashlib.sha256(text.encode()).hexdigest()}


def leaves(content: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path, container and key of one leaf of each kind: lists by their last entry."""
    if isinstance(content, dict):
        for key, entry in content.items():
            yield from _below(content, key, entry, f"{path}.{key}".lstrip("."))
    elif content:
        yield from _below(content, len(content) - 1, content[-1], f"{path}[]")


def _below(container: Any, key: Any, entry: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(entry, dict | list) and entry:
        yield from leaves(entry, path)
    else:
        yield path, container, key


def changed(entry: Any) -> Any:
    if isinstance(entry, bool):
        return not entry
    if isinstance(entry, int | float):
        return type(entry)(entry * 3 + 1)
    if isinstance(entry, str):
        return entry + "x"
    if isinstance(entry, list):
        return [0]
    if isinstance(entry, dict):
        return {"slider": 2.0}
    return 0.5


def tampered(stored: dict[str, Any], wanted: str) -> dict[str, Any]:
    content = deepcopy(stored)
    for path, container, key in leaves(content):
        if path == wanted:
            container[key] = changed(container[key])
            return content
    raise AssertionError(wanted)


def rejected(content: dict[str, Any], robot: Any, log: Any) -> bool:
    """Return whether the checker or the derivation refuses a file, or its settings are none."""
    try:
        verify(content)
        rederive(content, robot, log)
    except (Rejected, InvalidInput):
        return True
    return False


def test_the_box_holds_the_truth_and_is_proven_and_derived_again(
    place: Path, stored: dict[str, Any]
) -> None:
    truth = {"carriage.m": MASS, "slider.fv": VISCOUS, "slider.fs": COULOMB}
    for name, low, high in zip(stored["parameters"], stored["lower"], stored["upper"]):
        assert low <= truth[name] <= high
    digest = hashlib.sha256((place / "log.csv").read_bytes()).hexdigest()
    out = succeed("gough bounds --verify box.json --robot rail.toml --log log.csv", place)
    assert out.startswith("proven")
    assert f"log log.csv, SHA-256 {digest}" in out
    assert "carriage.m in [0.0, 20.0] kg" in out
    assert "largest relative difference 0)" in out


def test_every_field_that_is_changed_alone_is_rejected(stored: dict[str, Any]) -> None:
    paths = [path for path, _, _ in leaves(stored)]
    assert len(paths) > 50
    for path in paths:
        with pytest.raises(Rejected):
            verify(tampered(stored, path))


def test_every_field_of_the_guarantee_is_rejected_with_a_new_digest_too(
    place: Path, stored: dict[str, Any]
) -> None:
    robot, log = gough.load_robot(place / "rail.toml"), gough.read_recording(place / "log.csv")
    accepted = []
    for path, _, _ in list(leaves(stored)):
        if path == "digest" or path in IMMATERIAL:
            continue
        forged = sealed(tampered(stored, path))
        if not rejected(forged, robot, log):
            accepted.append(path)
    assert not accepted


def test_what_was_forged_once_is_rejected(stored: dict[str, Any]) -> None:
    """A prior other than that of the settings, and a proof with smaller error bounds."""
    content = deepcopy(stored)
    content["settings"]["prior"] = [0.0, 20.0]
    content["certificate"]["proof"]["prior_lower"] = [5.0, 0.0, 0.0]
    content["certificate"]["proof"]["prior_upper"] = [6.0, 20.0, 20.0]
    with pytest.raises(Rejected, match=r"prior of 'carriage\.m' is not that of the settings"):
        verify(sealed(content))
    content = deepcopy(stored)
    bounds = content["certificate"]["proof"]["bound"]
    content["certificate"]["proof"]["bound"] = [bound / 1000 for bound in bounds]
    with pytest.raises(Rejected, match="error bounds of the equations"):
        verify(sealed(content))
    content["certificate"]["error_bound"] = [BOUND / 1000, BOUND / 1000]
    with pytest.raises(Rejected, match="error bounds of the equations are not that"):
        verify(sealed(content))


def test_names_and_units_that_were_exchanged_are_rejected_by_the_robot(
    place: Path, stored: dict[str, Any]
) -> None:
    robot, log = gough.load_robot(place / "rail.toml"), gough.read_recording(place / "log.csv")
    for key in ("parameters", "units"):
        content = deepcopy(stored)
        content[key][:2] = content[key][1::-1]
        assert f"{content['parameters'][0]} in" in verify(sealed(content))  # printed as assumed
        with pytest.raises(Rejected, match=key if key == "units" else "names of parameters"):
            rederive(sealed(content), robot, log)


def test_another_robot_or_log_is_rejected(place: Path) -> None:
    (place / "heavier.toml").write_text(ROBOT.replace("m = 2.0", "m = 2.5"))
    (place / "other.csv").write_text(
        (place / "log.csv").read_text().replace("0.0,0.0,", "0.0,1e-9,")
    )
    line = "gough bounds --verify box.json --robot {} --log {}"
    for robot, log, reason in (
        ("heavier.toml", "log.csv", "robot file"),
        ("rail.toml", "other.csv", "logs are not those"),
    ):
        outcome = run(line.format(robot, log), place)
        assert outcome.code == 1
        assert reason in outcome.err
        assert "proven:" not in outcome.out
    for line in ("--verify box.json --robot rail.toml", "rail.toml log.csv --robot rail.toml"):
        assert run(f"gough bounds {line} --error-bound 1", place).code == 1


def test_equations_are_named_by_whole_numbers(stored: dict[str, Any]) -> None:
    """One equation under two names, 3 and 3.5, would count as two."""
    content = deepcopy(stored)
    content["certificate"]["proof"]["sample"][0] += 0.5
    with pytest.raises(Rejected, match="whole numbers"):
        verify(sealed(content))


def test_a_box_that_the_data_do_not_narrow_is_derived_again(place: Path) -> None:
    line = "gough bounds rail.toml log.csv --error-bound 1000 --prior 0 2 -o wide.json"
    succeed(line, place)
    out = succeed("gough bounds --verify wide.json --robot rail.toml --log log.csv", place)
    assert "0 equations cited" in out
    assert "largest relative difference 0)" in out


SECOND_SLIDER = """
[[body]]
name = "table"
parameters = ["m"]
m = 3.0

[[joint]]
name = "parked"
type = "prismatic"
parent = "base"
child = "table"
axis = "y"
actuated = true
terms = ["fv"]
values = { fv = 2.0 }
"""


def test_an_equation_of_an_axis_at_rest_hides_no_forged_one(tmp_path: Path) -> None:
    """Its regressor is zero; a difference divided by its largest number is none."""
    robot = gough.load_robot(_written(tmp_path / "two.toml", ROBOT + SECOND_SLIDER))
    position, effort = efforts(np.arange(SAMPLES) / RATE)
    noise = np.random.default_rng(2).uniform(-0.1, 0.1, SAMPLES)
    log = gough.Recording.from_arrays(
        ["slider", "parked"],
        position=np.column_stack([position, np.zeros(SAMPLES)]),
        effort=np.column_stack([effort, noise]),
        rate=RATE,
        units={"position": "m", "effort": "N"},
    )
    content = gough.bounds(robot, log, error_bound=BOUND).to_dict()
    assert "derived again" in rederive(content, robot, log)
    proof = content["certificate"]["proof"]
    proof["lower"][0][0] *= 2.0
    proof["lower"].append([0.0] * len(content["parameters"]))
    proof["effort"].append(float(noise[SAMPLES // 2]))
    proof["bound"].append(BOUND)
    proof["sample"].append(SAMPLES // 2)
    proof["row"].append(1)
    with pytest.raises(Rejected, match="the equations are not those"):
        rederive(content, robot, log)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_changed_box_is_not_loaded(place: Path, stored: dict[str, Any]) -> None:
    box = Enclosure.load(place / "box.json")
    assert box.to_dict() == stored
    (place / "changed.json").write_text(json.dumps(stored | {"units": ["kg", "N", "N"]}))
    with pytest.raises(InvalidInput, match="was changed after it was written"):
        Enclosure.load(place / "changed.json")


def test_printed_boxes_are_proven_too(place: Path) -> None:
    line = f"gough bounds rail.toml log.csv --error-bound {BOUND} --prior 0 20 --json"
    printed = succeed(line, place)
    assert verify(json.loads(printed)).startswith("proven")
