"""Feed-forward control of PaLiDA with no model, the a-priori model and an identified one (AH09, Fig. 6).

    python examples/palida_control.py [folder]

The virtual robot has the parameters of AH09's Table II, column GM (a base-parameter model: p1 < 0 is no rigid body).
The controller is a PID on each leg, alone, with the a-priori column (rigid bodies, no friction) or with column ML as
the identified model. The platform runs a circle at growing speed; the figure is the mean square error of all legs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from line_plot import save

from gough import Model, base_parameters, load_robot, simulate
from gough.arrays import FloatArray
from gough.engine import standard_from_base
from gough.trajectory import circle
from gough.virtual import PID, RobotModel

NAMES = ("leg.ring.IzzR", "leg.tube.IxxR", "leg.tube.IzzR", "leg.tube.my", "leg.rod.mz", "platform.IxxR",
         "platform.IyyR", "platform.IzzR", "platform.mzR", "platform.mR", "leg.alpha.fs", "leg.beta.fs",
         *(f"leg{j}.slider.fs" for j in range(1, 7)), *(f"leg{j}.slider.fv" for j in range(1, 7)))
# Table II of AH09: p1..p10, r_alpha, r_beta, r1..r6, v1..v6.
GAUSS_MARKOV = (-0.0447, 1.0892, 1.0077, 0.5995, -1.2885, 0.3078, 0.3021, 0.1176, 1.8896, 16.3081, 0.5756, 0.9195,
                11.9772, 4.8071, 20.1528, 5.1518, 1.5857, 5.0057, 16.8771, 16.7406, 6.3408, 23.1662, 26.4675, 22.8053)
LIKELIHOOD = (-0.0444, 1.0915, 1.0106, 0.6029, -1.2898, 0.3084, 0.3018, 0.1173, 1.8874, 16.2966, 0.5593, 0.9339,
              12.1195, 5.1917, 20.1773, 5.4981, 1.7191, 4.9622, 16.7115, 16.1764, 6.2864, 22.6607, 26.3370, 22.8194)
A_PRIORI = (0.0074, 0.9439, 0.9458, 0.6201, -1.2295, 0.2878, 0.2878, 0.1217, 1.9012, 16.1920, *(0.0,) * 14)
SPEEDS = (0.1, 0.2, 0.35, 0.5, 0.7)  # [m/s]
RADIUS = 0.07  # [m]
BANDWIDTH = 50.0  # [rad/s]: 8 Hz


def models(model: Model) -> dict[str, FloatArray]:
    """Return standard parameters with the efforts of each column of Table II."""
    base = base_parameters(model, tie_legs=True)
    order = [NAMES.index(name) for name in base.names]
    return {name: standard_from_base(model, base, np.array(column)[order])[0]
            for name, column in (("true", GAUSS_MARKOV), ("identified", LIKELIHOOD), ("a priori", A_PRIORI))}


def errors(model: Model, speeds: Sequence[float]) -> dict[str, list[float]]:
    """Return the mean square tracking error of all legs by controller and speed. [m2]"""
    known = models(model)
    home = model.home[:6]
    found: dict[str, list[float]] = {"no model": [], "a-priori model": [], "identified model": []}
    for speed in speeds:
        frequency = 1000 / round(1000 * 2 * np.pi * RADIUS / speed)  # a whole number of samples
        tour = circle(coordinates=model.mechanism.task, units=["m"] * 3 + ["rad"] * 3, center=home,
                      plane=("platform.x", "platform.y"), radius=RADIUS, frequency=frequency)
        for name in found:
            column = known.get(name.removesuffix(" model").replace("-", " "))
            ahead = None if column is None else RobotModel(model=model, values=column)
            law = PID(bandwidth=BANDWIDTH, velocity_feedforward=True, feedforward=ahead)
            run = simulate(model, tour, controller=law, values=known["true"])
            found[name].append(float((run.tracking_error**2).mean()))
    return found


def main(folder: Path) -> None:
    model = Model(load_robot("palida"))
    found = errors(model, SPEEDS)
    print("mean square tracking error [um2]")
    print(f"{'speed [m/s]':20s}" + "".join(f"{v:10.1f}" for v in SPEEDS))
    for name, values in found.items():
        print(f"{name:20s}" + "".join(f"{v * 1e12:10.1f}" for v in values))
    curves = {name: (np.array(SPEEDS), np.array(values) * 1e12) for name, values in found.items()}
    panel = ("PaLiDA: circle of 70 mm", "speed [m/s]", "mean square error [um2], decades", curves)
    print(f"plot: {save(folder / 'palida_control.svg', [panel], logarithmic=True)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
