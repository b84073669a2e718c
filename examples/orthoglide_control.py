"""Control of the Orthoglide with models identified under right and wrong drive gains (BG13, Table 4
and Figs. 6-8).

    python examples/orthoglide_control.py [--plant gough] [--plot control.svg] [--json]

The virtual Orthoglide (Pinocchio) first runs the two excitations of orthoglide_gains.py, without
and with payload, and its drive gains are identified. From the unloaded log the model is then
identified four times: with the manufacturer's gains, the identified ones, and gains 25 % too low
and too high. Each model, with the nominal payload of 1.983 kg added, drives computed torque control
along two trajectories with the payload on, the controller turning efforts into currents by the
gains its model was identified with. All laws have their poles at 100 rad/s.

Twice: with the encoder in the loop (6 um steps, velocity by differences through a low-pass of 500
rad/s), whose lag limits computed torque control as that of the real machine does; and with true
positions and velocities, where only the error of the model is left. With the encoder, gains 25 %
too high look best: lag makes the law ask for too much acceleration, and a model that takes the
payload for too light undoes part of that.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from line_plot import Curves, save
from measured_feedback import MeasuredFeedback
from orthoglide_gains import MANUFACTURER, PAYLOAD, Study, experiments
from paths import PointToPoint, circle

from gough import Model, identify, simulate
from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.trajectory import Trajectory, ease
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.virtual import PID, ComputedTorque, Controller, Feedback, RobotModel

Panel = tuple[str, str, str, Curves]
BANDWIDTH = 100.0  # [rad/s], BG13
IDENTIFIED = (2170.0, 2100.0, 2070.0)  # BG13 Table 3: what the virtual robot's drives really have
MANUFACTURERS, RIGHT, LOW, HIGH = (
    "CTC, manufacturer's gains",
    "CTC, identified gains",
    "CTC, gains 25 % low",
    "CTC, gains 25 % high",
)
# Table 4 of BG13: largest errors and rms of the joints. [um] It does not say which way the gains
# were wrong.
TABLE_4 = {
    "trajectory 1": {
        "simple PID": (5165, 5202, 335, 1755, 1776, 84),
        "advanced PID": (453, 506, 126, 158, 177, 18),
        MANUFACTURERS: (180, 177, 96, 61, 62, 10),
        RIGHT: (179, 177, 96, 60, 61, 10),
        LOW: (188, 184, 93, 66, 66, 10),
    },
    "trajectory 2": {
        "simple PID": (9910, 12610, 10469, 5307, 6371, 5856),
        "advanced PID": (727, 919, 842, 420, 449, 429),
        MANUFACTURERS: (305, 339, 383, 140, 149, 156),
        RIGHT: (302, 339, 382, 137, 147, 154),
        LOW: (350, 353, 409, 154, 164, 169),
    },
}


@dataclass(frozen=True)
class Strategy:
    """A controller and the drive gains it believes in."""

    controller: Controller
    gains: FloatArray


def trajectories(model: Model) -> dict[str, Trajectory]:
    """Return two motions of the kind of BG13, Fig.

    6: legs 1 and 2 in a circle, and moves of all three.
    """
    legs = model.mechanism.actuated
    turns = circle(
        coordinates=legs,
        units=["m"] * 3,
        center=[0.0, 0.0, 0.0],
        plane=(legs[0], legs[1]),
        radius=0.02,
        frequency=4.0,
        periods=8,
        robot=model.mechanism.name,
    )
    home = np.array([0.0, 0.0, 0.34])
    corners = home + 0.045 * np.array(
        [[-1, -1, -1], [1, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1]]
    )
    moves = PointToPoint(
        coordinates=model.mechanism.task,
        units=["m"] * 3,
        waypoints=corners,
        moves=np.full(5, 0.24),
        dwells=np.full(6, 0.08),
        robot=model.mechanism.name,
    )
    return {"trajectory 1": ease(turns, 0.4), "trajectory 2": moves}


def plain_strategies() -> dict[str, Strategy]:
    """Return the PIDs; their gains do not depend on a model, so the drives' own gains serve."""
    true = np.array(IDENTIFIED)
    return {
        "simple PID": Strategy(PID(bandwidth=BANDWIDTH), true),
        "advanced PID": Strategy(PID(bandwidth=BANDWIDTH, velocity_feedforward=True), true),
    }


def identified_strategies(study: Study, seed: int = 1) -> dict[str, Strategy]:
    """Identify the drive gains, then the model from the unloaded log under four sets of gains."""
    model, log = study.model, study.log("unloaded", seed)
    estimate = MaximumLikelihoodGains().fit(study.problem(seed))
    nominal = np.full(len(study.gains), MANUFACTURER)
    strategies = {}
    for name, gains in (
        (MANUFACTURERS, nominal),
        (RIGHT, np.array([estimate[gain] for gain in study.gains])),
        (LOW, 0.75 * nominal),
        (HIGH, 1.25 * nominal),
    ):
        result = identify(
            model,
            [log],
            estimator="wls",
            gains=dict(zip(model.mechanism.actuated, gains.tolist())),
            processing=study.processing,
        )
        inverse = RobotModel(model=model, values=result.standard(model), load=model.load(PAYLOAD))
        strategies[name] = Strategy(ComputedTorque(inverse=inverse, bandwidth=BANDWIDTH), gains)
    return strategies


def encoder(model: Model) -> Feedback:
    """Return the robot's position sensors as the controller sees them."""
    return MeasuredFeedback(noise=model.mechanism.noise, cutoff=500.0, seed=1)


def track(
    model: Model,
    strategies: Mapping[str, Strategy],
    *,
    feedback: Feedback | None = None,
    plant: str = "gough",
) -> dict[str, dict[str, tuple[FloatArray, FloatArray]]]:
    """Run every strategy along both trajectories with the payload; return times and tracking
    errors. [s, m]
    """
    return {
        title: {
            name: _run(model, path, strategy, feedback, plant)
            for name, strategy in strategies.items()
        }
        for title, path in trajectories(model).items()
    }


def _run(
    model: Model,
    path: Trajectory,
    strategy: Strategy,
    feedback: Feedback | None,
    plant: str,
) -> tuple[FloatArray, FloatArray]:
    done = simulate(
        model,
        path,
        controller=strategy.controller,
        payload=PAYLOAD,
        believed_gains=strategy.gains,
        feedback=feedback,
        plant=plant,
    )
    return done.time, done.tracking_error[0]


def figures(error: FloatArray) -> list[float]:
    """Return largest and rms errors of the joints, (6,). [um]"""
    return [*(1e6 * np.abs(error).max(axis=0)), *(1e6 * np.sqrt(np.mean(error**2, axis=0)))]


def compare(
    model: Model,
    strategies: Mapping[str, Strategy],
    *,
    feedback: Feedback | None = None,
    plant: str = "gough",
) -> tuple[str, list[Panel]]:
    """Return the table of all strategies, beside the paper's where there is one, and the panels of
    a plot.
    """
    lines, panels = [], []
    for title, runs in track(model, strategies, feedback=feedback, plant=plant).items():
        lines.append([title, *[""] * 7])
        curves = {}
        for name, (time, error) in runs.items():
            paper = TABLE_4.get(title, {}).get(name)
            lines.append(
                [
                    f"  {name}",
                    *(f"{v:.1f}" for v in figures(error)),
                    "" if paper is None else " ".join(f"{v:6d}" for v in paper),
                ]
            )
            curves[name] = (time, np.maximum(np.linalg.norm(error, axis=1) * 1e6, 1.0))
        panels.append((f"{title}: norm of the tracking errors", "time [s]", "error [um]", curves))
    head = [
        "tracking error [um]",
        "max 1",
        "max 2",
        "max 3",
        "rms 1",
        "rms 2",
        "rms 3",
        "BG13 Table 4, the same",
    ]
    return text_table(head, lines), panels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--plant", default="gough", help="of the controlled robot: gough, or pinocchio (slow)"
    )
    parser.add_argument(
        "--plot", help="write the errors with the encoder in the loop to this SVG file"
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    options = parser.parse_args()
    study = experiments("pinocchio", ("unloaded", "loaded"))
    model, strategies = study.model, {**plain_strategies(), **identified_strategies(study)}
    loops = {"encoder in the loop": encoder(model), "true positions and velocities": None}
    if options.json:
        found: dict[str, Any] = {}
        for loop, feedback in loops.items():
            runs = track(model, strategies, feedback=feedback, plant=options.plant)
            found[loop] = {
                title: {name: figures(error) for name, (_, error) in those.items()}
                for title, those in runs.items()
            }
        print(json.dumps(found, indent=1))
        return
    for loop, feedback in loops.items():
        text, panels = compare(model, strategies, feedback=feedback, plant=options.plant)
        print(f"{loop}\n\n{text}\n")
        if options.plot and feedback is not None:
            save(options.plot, panels, logarithmic=True)


if __name__ == "__main__":
    main()
