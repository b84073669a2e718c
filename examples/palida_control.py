"""Feed-forward control of PaLiDA with no model, the a-priori model and an identified one (AH09,
Fig. 6).

    python examples/palida_control.py [folder] [--plant gough|pinocchio] [--json]

The virtual robot first runs the excitation with the a-priori model (rigid bodies, no friction) as
feed-forward, and its model is identified from the recorded positions and forces. Then the platform
runs a circle at growing speed under a PID on each leg: alone, with the a-priori model, and with the
identified one. The figure is the mean square error of all legs. The robot is that of
`palida_experiment.py`. Below 0.4 m/s friction is most of the error and a model without it brings
nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from line_plot import save
from palida_experiment import (
    A_PRIORI,
    GAUSS_MARKOV,
    LIKELIHOOD,
    RADIUS,
    benchmark,
    column,
    excitation,
    identified,
    parameters,
)

from gough import Model, load_robot, simulate
from gough.core.arrays import FloatArray
from gough.engine import standard_from_base
from gough.virtual import PID, RobotModel
from gough.virtual.simulation import Feedback

SPEEDS = (0.1, 0.2, 0.35, 0.5, 0.7)  # [m/s]
BANDWIDTH = 50.0  # [rad/s]: 8 Hz


def printed_models(model: Model) -> dict[str, FloatArray]:
    """Return standard parameters of a robot with column GM of Table II, identified by column ML.

    A base-parameter model: p1 < 0 is no rigid body, so only Gough's own plant can run it.
    """
    base = parameters(model)
    return {
        name: standard_from_base(model, base, column(base, values))[0]
        for name, values in (
            ("true", GAUSS_MARKOV),
            ("identified", LIKELIHOOD),
            ("a priori", A_PRIORI),
        )
    }


def identified_models(model: Model, plant: str = "gough") -> dict[str, FloatArray]:
    """Return standard parameters of the robot file, the a-priori ones, and those identified from
    one experiment.
    """
    base = parameters(model)
    found = identified(model, base, excitation(model, "d"), plant)
    return {
        "true": model.standard_values(),
        "identified": found,
        "a priori": standard_from_base(model, base, column(base, A_PRIORI))[0],
    }


def errors(
    model: Model,
    speeds: Sequence[float],
    known: Mapping[str, FloatArray] | None = None,
    plant: str = "gough",
    feedback: Feedback | None = None,
) -> dict[str, list[float]]:
    """Return the mean square tracking error of all legs by controller and speed. [m2]

    Args:
        model: The robot.
        speeds: Along the circle. [m/s]
        known: Standard parameters `true`, `identified` and `a priori`; those of Table II by
            default.
        plant: Which simulates it.
        feedback: Sensors the controller sees; true positions by default.
    """
    known = printed_models(model) if known is None else known
    found: dict[str, list[float]] = {"no model": [], "a-priori model": [], "identified model": []}
    for speed in speeds:
        for name in found:
            values = known.get(name.removesuffix(" model").replace("-", " "))
            ahead = None if values is None else RobotModel(model=model, values=values)
            law = PID(bandwidth=BANDWIDTH, velocity_feedforward=True, feedforward=ahead)
            run = simulate(
                model,
                benchmark(model, speed),
                controller=law,
                values=known["true"],
                plant=plant,
                feedback=feedback,
            )
            found[name].append(float((run.tracking_error**2).mean()))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=".", help="where the plot goes")
    parser.add_argument(
        "--plant", default="gough", help="pinocchio shares no equations, but takes minutes"
    )
    parser.add_argument("--json", action="store_true", help="print numbers for machines; no plot")
    chosen = parser.parse_args(arguments)
    model = Model(load_robot("palida"))
    found = errors(model, SPEEDS, identified_models(model, chosen.plant), chosen.plant)
    if chosen.json:
        print(json.dumps({"speeds": SPEEDS, "mean_square_error": found}, indent=1))
        return
    print("mean square tracking error [um2]")
    print(f"{'speed [m/s]':20s}" + "".join(f"{v:10.2f}" for v in SPEEDS))
    for name, values in found.items():
        print(f"{name:20s}" + "".join(f"{v * 1e12:10.2f}" for v in values))
    curves = {name: (np.array(SPEEDS), np.array(values) * 1e12) for name, values in found.items()}
    panel = (
        f"PaLiDA: circle of {RADIUS * 1e3:.0f} mm",
        "speed [m/s]",
        "mean square error [um2]",
        curves,
    )
    print(f"plot: {save(Path(chosen.folder) / 'palida_control.svg', [panel], logarithmic=True)}")


if __name__ == "__main__":
    main()
