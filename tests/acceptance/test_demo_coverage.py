"""Whole demos, with many noises: intervals hold as often as they say, and headlines are right.

What a demo states is compared with the robot file (true parameters) and with the simulation (the
noise of the recorded efforts, which is the least error of any prediction).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import gough
from gough import Identification, Recording
from gough.app.studies.monte_carlo import truth_table
from gough.app.studies.study_file import run_study
from gough.virtual import Simulation, record
from syntax import SOURCE
from trials import assert_covers

pytestmark = pytest.mark.long
pytest.importorskip("pinocchio")
NOISES = {"five_bar": 40, "h4": 40, "palida": 20, "orthoglide": 20}
LEAST, MOST = 0.90, 0.99  # fraction of 95 % intervals that hold
LEAST_OF_ORTHOGLIDE = 0.94  # friction of passive joints, whose width is found from the data
# Fraction of verdicts that are `ok`: each rule warns of one correct log in a hundred by chance
LEAST_CORRECT = 0.95
PARAMETERS = {"five_bar": 17, "h4": 14, "palida": 24, "orthoglide": 64}
STEWART_SEEDS = 10
# Parameters of the load about the centre of the platform: 500 kg, 0.3 m above it
STEWART_LOAD = {"m": 500.0, "mz": 150.0, "Ixx": 70.0, "Iyy": 70.0, "Izz": 25.0}


def demo_sections(name: str) -> list[str]:
    """Return the sections of a demo's study, the keys before the first section included."""
    text = (SOURCE / "demos" / f"{name}.toml").read_text(encoding="utf-8")
    return re.split(r"\n(?=\[)", text)


def first_noise(name: str, folder: Path) -> list[tuple[str, dict[str, Any], Any]]:
    """Run a demo up to its boxes, as it is; return verb, options and result of each step."""
    folder.mkdir()
    kept = []
    for section in demo_sections(name):
        if not section.startswith(("[report]", "[export]")):
            kept.append(section)
    study = folder / "study.toml"
    study.write_text("\n".join(kept), encoding="utf-8")
    return list(run_study(study))


def other_noises(
    name: str,
    steps: list[tuple[str, dict[str, Any], Any]],
    folder: Path,
    estimator: str,
) -> Iterator[tuple[Identification, Recording]]:
    """Yield what a demo identifies with other noise, and its held-out log.

    Sensors are outside the loop, so that the simulated motions stay as they are.
    """
    kept = []
    for section in demo_sections(name):
        if not section.startswith(
            ("[[design]]", "[[simulate]]", "[bounds]", "[[bounds]]", "[report]", "[export]")
        ):
            kept.append(section.replace('estimator = "all"', f'estimator = "{estimator}"'))
    study = folder / "study.toml"
    study.write_text("\n".join(kept), encoding="utf-8")
    for k in range(1, NOISES[name]):
        for verb, options, simulation in steps:
            if verb == "simulate":
                recording = record(simulation, seed=options["seed"] + 100 * k)
                recording.save(folder / Path(options["output"]).name)
        ((_, _, identification),) = run_study(study, force=True)
        yield identification, recording


def noise_rms(simulation: Simulation, recording: Recording) -> np.ndarray:
    """Return the rms noise of the averaged efforts, by motor. [N or N m]"""
    recorded = recording.effort
    if recorded is None:
        recorded = recording.current * simulation.gains
    noise = recorded - simulation.mean_effort[0]
    periods = noise.reshape(-1, simulation.period_samples, noise.shape[1])
    return np.sqrt((periods.mean(axis=0) ** 2).mean(axis=0))


@pytest.mark.parametrize("name", NOISES)
def test_intervals_and_headlines_of_a_demo_hold_with_many_noises(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    steps = first_noise(name, folder)
    simulations = [result for verb, _, result in steps if verb == "simulate"]
    ((_, options, first),) = [step for step in steps if step[0] == "identify"]
    seed = [settings["seed"] for verb, settings, _ in steps if verb == "simulate"][-1]
    held_out = simulations[-1]
    runs = [(first, record(held_out, seed=seed))]
    runs += other_noises(name, steps, folder, first.estimator)
    within = []
    correct = []
    error_over_noise = []
    for identification, recording in runs:
        rows = truth_table(name, identification.estimate, bool(options.get("tie_legs")))
        assert len(rows) == PARAMETERS[name]
        within += [row.within for row in rows]
        correct.append(identification.level == "ok")
        error_over_noise.append(identification.validation.rms / noise_rms(held_out, recording))
    assert correct[0]
    assert np.mean(correct) >= LEAST_CORRECT
    np.testing.assert_allclose(error_over_noise, 1.0, atol=0.15)
    least = LEAST_OF_ORTHOGLIDE if name == "orthoglide" else LEAST
    assert least <= np.mean(within) <= MOST
    true = {row.name: row.true for row in rows}
    for verb, _, box in steps:
        if verb == "bounds":
            for parameter, low, high in zip(box.parameters, box.lower, box.upper):
                assert low <= true[parameter] <= high


def test_the_load_of_the_stewart_demo_lies_in_its_intervals_over_several_seeds(
    tmp_path: Path,
) -> None:
    within = []
    text = (SOURCE / "demos" / "stewart.toml").read_text(encoding="utf-8")
    text = text.replace("iterations = 60", "iterations = 20")
    for k in range(STEWART_SEEDS):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "study.toml").write_text(
            text.replace("\nseed = 1\n", f"\nseed = {1 + 100 * k}\n"), encoding="utf-8"
        )
        steps = json.loads(gough(folder, "run", "study.toml", "--json").out)
        load = steps[-1]["result"]
        assert load["level"] == "ok"
        for parameter in load["parameters"]:
            low, high = parameter["interval"]
            assert parameter["observed"]
            within.append(low <= STEWART_LOAD.get(parameter["name"], 0.0) <= high)
    assert len(within) == 10 * STEWART_SEEDS
    assert_covers(within, LEAST, MOST)
