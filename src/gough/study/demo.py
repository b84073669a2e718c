"""The whole job on a bundled robot: design, two experiments, identification, bounds, report, controller code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.files import require_free_folder, write_text
from gough.core.names import Parameter
from gough.engine import Model, base_parameters
from gough.estimators.estimate import Estimate
from gough.mechanism import load_robot
from gough.study.run import run_step
from gough.study.text import study_text

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a demo does.

    Args:
        robot: Bundled robot.
        steps: Verbs and options, in order; files relative to the demo's folder.
        story: What to say about it.
    """

    robot: str
    steps: tuple[Step, ...]
    story: str


def independent_plant() -> str:
    """Return `pinocchio` if it is installed, else `gough`."""
    return "pinocchio" if find_spec("pinocchio") is not None else "gough"


def _common(plant: str, periods: tuple[int, int] = (4, 2), **options: Any) -> list[Step]:
    """Design two trajectories and record one to identify and one to validate."""
    return [
        ("design", {"output": "trajectory.json", "starts": 1, "seed": 0, "iterations": 60, **options}),
        ("design", {"output": "validation_trajectory.json", "starts": 1, "seed": 1, "iterations": 10, **options}),
        ("simulate", {"trajectory": "trajectory.json", "plant": plant, "periods": periods[0], "seed": 1,
                      "output": "identification.csv"}),
        ("simulate", {"trajectory": "validation_trajectory.json", "plant": plant, "periods": periods[1], "seed": 2,
                      "output": "validation.csv"}),
    ]


def _finish() -> list[Step]:
    return [("report", {"folder": "."}), ("export", {"folder": ".", "to": "c"})]


def plan(robot: str) -> Plan:
    """Return the demo of a robot.

    Raises:
        InvalidInput: No demo of that name.
    """
    plant = independent_plant()
    identify: dict[str, Any] = {"logs": ["identification.csv"], "validate": ["validation.csv"], "output": ".",
                                "force": True}
    plans = {
        "palida": lambda: Plan(
            robot="palida", story="a hexapod with direct drives, as in Abdellatif & Heimann (2009)",
            steps=(*_common(plant, tie_legs=True), ("identify", {**identify, "estimator": "all", "tie_legs": True}),
                   ("bounds", {"logs": ["identification.csv"], "error_bound": 25.0, "tie_legs": True,
                               "output": "bounds.json"}), *_finish())),
        "five_bar": lambda: Plan(
            robot="five_bar", story="a planar five-bar, the smallest closed chain",
            steps=(*_common(plant, frequency=0.8), ("identify", {**identify, "estimator": "all"}),
                   ("bounds", {"logs": ["identification.csv"], "error_bound": 0.5, "output": "bounds.json"}),
                   *_finish())),
        "orthoglide": lambda: Plan(
            robot="orthoglide",
            story="currents in, drive gains out: loaded and unloaded runs, as in Briot & Gautier (2013)",
            steps=(("design", {"output": "trajectory.json", "starts": 1, "seed": 0, "iterations": 60}),
                   ("design", {"output": "validation_trajectory.json", "starts": 1, "seed": 1, "iterations": 10}),
                   ("simulate", {"trajectory": "trajectory.json", "plant": plant, "periods": 6, "seed": 1,
                                 "output": "unloaded.csv"}),
                   ("simulate", {"trajectory": "trajectory.json", "plant": plant, "periods": 6, "seed": 2,
                                 "payload": "calibration", "output": "loaded.csv"}),
                   ("simulate", {"trajectory": "validation_trajectory.json", "plant": plant, "periods": 2, "seed": 3,
                                 "output": "validation.csv"}),
                   ("identify", {"logs": ["unloaded.csv"], "loaded": ["loaded.csv"], "payload": "calibration",
                                 "validate": ["validation.csv"], "estimator": "all", "output": ".", "force": True}),
                   *_finish())),
        "h4": lambda: Plan(
            robot="h4", story="guaranteed bounds from an error bound of 1.5 N m, as in Poignet et al. (2003)",
            steps=(*_common("gough", periods=(8, 2)), ("identify", {**identify, "estimator": "all"}),
                   ("bounds", {"logs": ["identification.csv"], "error_bound": 1.5, "prior": [0.0, 2.0],
                               "solver": "gauss-seidel", "output": "bounds_gauss_seidel.json"}),
                   ("bounds", {"logs": ["identification.csv"], "error_bound": 1.5, "prior": [0.0, 2.0],
                               "output": "bounds.json"}), *_finish())),
        "stewart": lambda: Plan(
            robot="stewart", story="a load of 500 kg found sample by sample; after Song et al. (2020)",
            steps=(("design", {"output": "trajectory.json", "starts": 1, "seed": 0, "iterations": 60}),
                   ("simulate", {"trajectory": "trajectory.json", "periods": 2, "seed": 1, "payload": "load",
                                 "output": "loaded.csv"}),
                   ("payload", {"logs": ["loaded.csv"], "mass": 2000.0, "reach": 1.0}))),
    }
    if robot not in plans:
        raise InvalidInput(f"there is no demo of '{robot}'{nearest(robot, plans)}")
    return plans[robot]()


def run_demo(robot: str, output: str, *, force: bool = False,
             tell: Callable[[str, float], None] | None = None) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Run a demo into a folder; yields verb, options and result of each step. Writes `study.toml` first.

    Args:
        robot: Which demo.
        output: Folder.
        force: Overwrite it.
        tell: Called with a verb and its fraction done.
    """
    chosen = plan(robot)
    folder = require_free_folder(output, force)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "study.toml", study_text(chosen.robot, [*chosen.steps]))
    for verb, options in chosen.steps:
        robot_too = {"robot": chosen.robot} if verb not in ("report", "export") else {}
        yield verb, options, run_step(verb, {**robot_too, **options}, folder=folder.resolve(), force=True,
                                      progress=None if tell is None else partial(tell, verb))


def truth_table(robot: str, estimate: Estimate, tie_legs: bool) -> list[tuple[str, float, float, float, bool]]:
    """Return name, true value, estimate, standard deviation, and whether the 95 % interval holds the truth."""
    model = Model(load_robot(robot))
    payloads = dict.fromkeys(n.payload for n in estimate.parameters if n.payload is not None)
    base = base_parameters(model, tie_legs=tie_legs, payloads=tuple(payloads))
    true = dict(zip(base.names, base.values(model.values(base.standard))))
    for joint in model.mechanism.joints:
        if joint.gain is not None:
            true[Parameter.gain(joint.name)] = joint.gain
    interval = estimate.interval(0.95)
    rows: list[tuple[str, float, float, float, bool]] = []
    for k, name in enumerate(estimate.parameters):
        value = true[name]
        held = bool(interval[k, 0] <= value <= interval[k, 1])
        rows.append((name, float(value), float(estimate.values[k]), float(np.sqrt(estimate.covariance[k, k])), held))
    return rows
