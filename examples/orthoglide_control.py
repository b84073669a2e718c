"""Control of the Orthoglide with models identified under right and wrong drive gains (BG13, Table 4 and Figs. 6-8).

    python examples/orthoglide_control.py [folder]

The virtual Orthoglide first runs a designed excitation without payload under a PID and records currents. From this
log its model is identified three times: with the manufacturer's drive gains, the identified ones and gains 25 % wrong.
Each model, with the nominal payload of 1.983 kg added, then drives computed torque control along two trajectories with
the payload on, the controller turning efforts into currents by the gains its model was identified with. All laws have
their poles at 100 rad/s. The order is that of Table 4; the virtual robot has nothing but what the model has, so
computed torque control comes out better than the 40 times of the paper.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from line_plot import Curves, save

from gough import Model, design, identify, load_robot, record, simulate
from gough.arrays import FloatArray
from gough.trajectory import PointToPoint, Trajectory, circle, ease
from gough.virtual import PID, ComputedTorque, Controller, RobotModel

Panel = tuple[str, str, str, Curves]
PAYLOAD = "calibration"
BANDWIDTH = 100.0  # [rad/s], BG13
MANUFACTURER = 637 * np.pi  # [N per unit]
IDENTIFIED = (2170.0, 2100.0, 2070.0)  # BG13 Table 3: what the virtual robot's drives really have


@dataclass(frozen=True)
class Strategy:
    """A controller and the drive gains it believes in."""

    controller: Controller
    gains: FloatArray


def trajectories(model: Model) -> dict[str, Trajectory]:
    """Return two motions of the kind of BG13, Fig. 6: legs 1 and 2 in a circle, and moves of all three."""
    legs = model.mechanism.actuated
    turns = circle(coordinates=legs, units=["m"] * 3, center=[0.0, 0.0, 0.0], plane=(legs[0], legs[1]), radius=0.02,
                   frequency=4.0, periods=8, robot=model.mechanism.name)
    home = np.array([0.0, 0.0, 0.34])
    corners = home + 0.045 * np.array([[-1, -1, -1], [1, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1]])
    moves = PointToPoint(coordinates=model.mechanism.task, units=["m"] * 3, waypoints=corners, moves=np.full(5, 0.24),
                         dwells=np.full(6, 0.08), robot=model.mechanism.name)
    return {"trajectory 1": ease(turns, 0.4), "trajectory 2": moves}


def identified_strategies(model: Model, seed: int = 1) -> dict[str, Strategy]:
    """Identify the model from one unloaded log under three sets of drive gains."""
    excitation = design(model, frequency=1 / 3, starts=1).trajectory
    log = record(simulate(model, excitation, controller="pid+", periods=5), seed=seed)
    legs, strategies = model.mechanism.actuated, {}
    for name, gains in (("CTC, manufacturer's gains", np.full(3, MANUFACTURER)),
                        ("CTC, identified gains", np.array(IDENTIFIED)),
                        ("CTC, gains 25 % wrong", 1.25 * np.full(3, MANUFACTURER))):
        result = identify(model, [log], estimator="wls", gains=dict(zip(legs, gains.tolist())))
        inverse = RobotModel(model=model, values=result.standard(model), load=model.load(PAYLOAD))
        strategies[name] = Strategy(ComputedTorque(inverse=inverse, bandwidth=BANDWIDTH), gains)
    return strategies


def compare(model: Model, strategies: Mapping[str, Strategy]) -> tuple[str, list[Panel]]:
    """Run every strategy along both trajectories with the payload; return the table and the panels of a plot."""
    lines = [f"{'tracking error [um]':32s}{'maximum of joints 1, 2, 3':>30s}{'rms of joints 1, 2, 3':>30s}"]
    panels = []
    for title, trajectory in trajectories(model).items():
        lines.append(title)
        curves = {}
        for name, strategy in strategies.items():
            run = simulate(model, trajectory, controller=strategy.controller, payload=PAYLOAD,
                           believed_gains=strategy.gains)
            worst, rms = run.tracking_max[0] * 1e6, run.tracking_rms[0] * 1e6
            lines.append(f"  {name:30s}" + "".join(f"{v:10.1f}" for v in worst) + "".join(f"{v:10.1f}" for v in rms))
            curves[name] = (run.time, np.linalg.norm(run.tracking_error[0], axis=1) * 1e6 + 1e-2)
        panels.append((f"{title}: norm of the tracking errors", "time [s]", "error [um], decades", curves))
    return "\n".join(lines), panels


def main(folder: Path) -> None:
    model = Model(load_robot("orthoglide"))
    true = np.array(IDENTIFIED)
    strategies = {"simple PID": Strategy(PID(bandwidth=BANDWIDTH), true),
                  "advanced PID": Strategy(PID(bandwidth=BANDWIDTH, velocity_feedforward=True), true),
                  **identified_strategies(model)}
    table, panels = compare(model, strategies)
    print(table)
    print(f"plot: {save(folder / 'orthoglide_control.svg', panels, logarithmic=True)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
