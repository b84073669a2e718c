"""Whole demos, with many noises: intervals hold as often as they say, and headlines are right.

What a demo states is compared with the robot file (true parameters) and with the simulation (the
noise of the recorded efforts, which is the least error of any prediction).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from command_line import gough
from gough import Identification, Recording
from gough.app.studies.monte_carlo import truth_table
from gough.app.studies.study_file import run_study
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.fleets.fleet import Fleet
from gough.mechanism import load_robot
from gough.virtual import Simulation, record
from gough.virtual.fleet_logs import FleetFaults, VirtualFleet
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
FLEET_SEEDS = 5
FLEET_DAYS = 30
FLEET_PAYLOAD = 0.8  # that one robot carries on one day [kg]


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


class PlannedFault(NamedTuple):
    """A fault of the virtual fleet, and how an alert names it."""

    words: str  # before the size
    size: float  # in the unit of the alert


def run_fleet_demo(folder: Path, seed: int) -> tuple[Fleet, list[dict[str, str]]]:
    """Run the demo with another seed; return the analysis and the table of its faults."""
    text = (SOURCE / "demos" / "fleet.toml").read_text(encoding="utf-8")
    text = text.replace("workers = 2", "workers = 1")
    text = text.replace("[generate]\n", f"[generate]\nseed = {seed}\n")
    folder.mkdir()
    (folder / "study.toml").write_text(text, encoding="utf-8")
    *_, (_, _, fleet) = run_study(folder / "study.toml", force=True)
    with open(folder / "truth.csv", encoding="utf-8", newline="") as stream:
        return fleet, list(csv.DictReader(stream))


def virtual_robots(model: Model, seed: int, faults: list[dict[str, str]]) -> VirtualFleet:
    """Return the robots of the demo with their drifts, by its table of faults."""
    drift = {}
    for fault in faults:
        stated = re.match(r"dry friction of (\S+) changes by (\S+) %", fault["text"])
        if stated is not None:
            drift[int(fault["robot"][1:])] = (stated[1], float(stated[2]) / 100)
    return VirtualFleet(model=model, days=FLEET_DAYS, seed=seed, faults=FleetFaults(drift=drift))


def true_drift(virtual: VirtualFleet, robot: int) -> tuple[str, float]:
    """Return the parameter that drifts, and its change at constant temperature. [N m]"""
    motor, _ = virtual.faults.drift[robot]
    name = f"{motor}.fs"
    k = virtual.model.mechanism.standard.names.index(name)
    days = np.arange(FLEET_DAYS)
    friction = [virtual.truth(robot, day)[k] for day in days]
    temperature = [virtual.temperature(robot, day) for day in days]
    columns = np.column_stack([np.ones(FLEET_DAYS), days / days[-1], temperature])
    solution, *_ = np.linalg.lstsq(columns, friction, rcond=None)
    return name, float(solution[1])


def planned_faults(faults: list[dict[str, str]], virtual: VirtualFleet) -> dict[str, PlannedFault]:
    """Return what the alert of each robot has to say, from the table of faults."""
    planned = {}
    for fault in faults:
        robot = fault["robot"]
        gain = re.match(r"effort of (\S+) is recorded (\S+) times", fault["text"])
        encoder = re.match(r"position of (\S+) is recorded (\S+) rad off", fault["text"])
        if fault["kind"] == "drift":
            name, change = true_drift(virtual, int(robot[1:]))
            planned[robot] = PlannedFault(f"{name} changes by", change)
        elif gain is not None:
            planned[robot] = PlannedFault(f"the effort of {gain[1]} is", float(gain[2]))
        elif encoder is not None:
            offset = float(np.degrees(float(encoder[2])))
            planned[robot] = PlannedFault(f"the position of {encoder[1]} is off by", offset)
        else:
            planned[robot] = PlannedFault("a payload of", FLEET_PAYLOAD)
    return planned


def true_parameters(virtual: VirtualFleet, base: BaseParameters, robot: int) -> np.ndarray:
    """Return the base parameters of a robot, mean of its days and of tied legs, (p,)."""
    names = virtual.model.mechanism.standard.names
    daily = [virtual.truth(robot, day) for day in range(FLEET_DAYS)]
    mean = dict(zip(names, np.mean(daily, axis=0)))
    values = []
    for name in base.standard:
        if name in mean:
            values.append(mean[name])
        else:  # of all legs: "leg.arm.m" of "leg1.arm.m", ...
            tied = [mean[name.replace("leg.", f"leg{leg}.")] for leg in (1, 2, 3)]
            values.append(np.mean(tied))
    return base.values(np.array(values))


def test_the_fleet_demo_names_every_fault_with_its_size_over_several_seeds(
    tmp_path: Path,
) -> None:
    model = Model(load_robot("delta"))
    base = base_parameters(model, tie_legs=True)
    sizes = []  # whether the stated interval of a fault holds its true size
    alone = []  # ... of a parameter from the logs of one robot
    together = []  # ... with the other robots as prior knowledge
    kind = []  # ... of the mean of the kind
    for seed in range(FLEET_SEEDS):
        fleet, faults = run_fleet_demo(tmp_path / str(seed), seed)
        virtual = virtual_robots(model, seed, faults)
        planned = planned_faults(faults, virtual)
        assert fleet.headline == "50 robots 'delta', 1500 periods, 1500 logs: 7 to check"
        assert sorted(alert.robot for alert in fleet.alerts) == sorted(planned)  # one alert each
        for robot, fault in planned.items():
            texts = [alert.text for alert in fleet.alerts if alert.robot == robot]
            stated = re.search(rf"{re.escape(fault.words)} (\S+) \+- (\S+)", " ".join(texts))
            assert stated is not None, (seed, robot, texts)
            sizes.append(abs(float(stated[1]) - fault.size) < 1.96 * float(stated[2]))
        wrong_logs = {fault["robot"] for fault in faults if fault["kind"] == "fault"}
        for k, history in enumerate(fleet.histories):
            if history.robot in wrong_logs:
                continue
            true = true_parameters(virtual, base, k)
            low, high = history.estimate.interval(0.95).T
            alone.append((low <= true) & (true <= high))
            error = np.abs(fleet.common.values[k] - true)
            together.append(error < 1.96 * fleet.common.std[k])
        error = np.abs(fleet.common.common - base.values(model.values(base.standard)))
        kind.append(error < 1.96 * fleet.common.common_std)
    assert len(sizes) == 7 * FLEET_SEEDS
    assert_covers(sizes, LEAST, MOST)
    assert LEAST <= np.mean(alone) <= MOST
    # Errors that all robots share are in these intervals in full, although the robots' motions
    # differ and average them in part.
    assert np.mean(together) >= LEAST
    assert np.mean(kind) >= LEAST
