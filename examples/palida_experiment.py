"""AH09's experiment on the virtual PaLiDA, shared by the examples: Table II, excitation, and
recordings.

The robot is the robot file's: rigid bodies of the a-priori column of Table II, friction of column
GM. (The rigid bodies of column GM are none: p1 < 0, and p2 > p3 breaks the triangle inequality of
inertias.) It runs on the Pinocchio plant, which shares no equations with the model that is
identified.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from paths import circle

from gough import Model, Recording, Simulation, base_parameters, design, record, simulate
from gough.core.arrays import FloatArray
from gough.core.parameters import BaseParameters
from gough.core.trajectory import Fourier, Trajectory
from gough.engine import standard_from_base
from gough.excitation.criteria import Criterion
from gough.fitting.least_squares import GaussMarkov
from gough.identification import prepare
from gough.mechanism.types import Noise
from gough.virtual import PID, RobotModel

PAPER_NAMES = (
    *(f"p{k}" for k in range(1, 11)),
    "r_alpha",
    "r_beta",
    *(f"r{k}" for k in range(1, 7)),
    *(f"v{k}" for k in range(1, 7)),
)
NAMES = (
    "leg.ring.IzzR",
    "leg.tube.IxxR",
    "leg.tube.IzzR",
    "leg.tube.my",
    "leg.rod.mz",
    "platform.IxxR",
    "platform.IyyR",
    "platform.IzzR",
    "platform.mzR",
    "platform.mR",
    "leg.alpha.fs",
    "leg.beta.fs",
    *(f"leg{j}.slider.fs" for j in range(1, 7)),
    *(f"leg{j}.slider.fv" for j in range(1, 7)),
)
# Table II of AH09: p1..p10, r_alpha, r_beta, r1..r6, v1..v6.
GAUSS_MARKOV = (
    -0.0447,
    1.0892,
    1.0077,
    0.5995,
    -1.2885,
    0.3078,
    0.3021,
    0.1176,
    1.8896,
    16.3081,
    0.5756,
    0.9195,
    11.9772,
    4.8071,
    20.1528,
    5.1518,
    1.5857,
    5.0057,
    16.8771,
    16.7406,
    6.3408,
    23.1662,
    26.4675,
    22.8053,
)
LIKELIHOOD = (
    -0.0444,
    1.0915,
    1.0106,
    0.6029,
    -1.2898,
    0.3084,
    0.3018,
    0.1173,
    1.8874,
    16.2966,
    0.5593,
    0.9339,
    12.1195,
    5.1917,
    20.1773,
    5.4981,
    1.7191,
    4.9622,
    16.7115,
    16.1764,
    6.2864,
    22.6607,
    26.3370,
    22.8194,
)
A_PRIORI = (
    0.0074,
    0.9439,
    0.9458,
    0.6201,
    -1.2295,
    0.2878,
    0.2878,
    0.1217,
    1.9012,
    16.1920,
    *(0.0,) * 14,
)

HARMONICS = 5
FREQUENCY = (
    1 / 3.09
)  # f_c / n_h of AH09 is 1 / 3.0899 s; so a period is a whole number of samples at 1 kHz [Hz]
BANDWIDTH = 63.0  # of the PID: 10 Hz, the upper end of what is assumed of the machine [rad/s]
PERIODS = 4  # in one trial
RADIUS = 0.07  # of the benchmark circle [m]


def parameters(model: Model) -> BaseParameters:
    """Return AH09's 24 parameters."""
    return base_parameters(model, tie_legs=True)


def column(base: BaseParameters, values: tuple[float, ...]) -> FloatArray:
    """Return a column of Table II in the order of the base parameters, (24,)."""
    return np.array([values[NAMES.index(name)] for name in base.names])


def truth(model: Model, base: BaseParameters) -> FloatArray:
    """Return the virtual robot's base parameters, (24,)."""
    return base.values(model.values(base.standard))


def excitation(model: Model, criterion: Criterion, seed: int = 0) -> Fourier:
    """Return the trajectory of fifth order that a criterion gives, one start: AH09 starts both from
    the same.
    """
    return design(
        model,
        criterion=criterion,
        harmonics=HARMONICS,
        frequency=FREQUENCY,
        tie_legs=True,
        starts=1,
        seed=seed,
    ).trajectory


def benchmark(model: Model, speed: float) -> Fourier:
    """Return the benchmark circle at a speed [m/s], a whole number of samples a turn."""
    frequency = 1000 / round(1000 * 2 * np.pi * RADIUS / speed)
    return circle(
        coordinates=model.mechanism.task,
        units=["m"] * 3 + ["rad"] * 3,
        center=model.home[:6],
        plane=("platform.x", "platform.y"),
        radius=RADIUS,
        frequency=frequency,
    )


def run(
    model: Model, trajectory: Trajectory, values: FloatArray, plant: str = "pinocchio"
) -> Simulation:
    """Return one period under PID with feed-forward of the model with the standard parameters
    given.
    """
    law = PID(bandwidth=BANDWIDTH, feedforward=RobotModel(model=model, values=values))
    return simulate(model, trajectory, controller=law, plant=plant, periods=1)


def trial(
    simulation: Simulation, seed: int, periods: int = PERIODS, noise: Noise | None = None
) -> Recording:
    """Return the log of several periods: the lead-in has left nothing of the start, so only their
    noise differs.
    """
    dt, count = float(simulation.time[1] - simulation.time[0]), periods * len(simulation.time)
    tiled = {
        name: np.concatenate([getattr(simulation, name)] * periods, axis=1)
        for name in ("q", "velocity", "acceleration", "effort", "mean_effort")
    }
    longer = replace(
        simulation,
        time=dt * np.arange(count),
        reference=np.tile(simulation.reference, (periods, 1)),
        **tiled,
    )
    return record(longer, seed=seed, noise=noise)


def a_priori(model: Model, base: BaseParameters) -> FloatArray:
    """Return standard parameters with the efforts of the a-priori column: no friction."""
    return standard_from_base(model, base, column(base, A_PRIORI))[0]


def found_from(
    model: Model, base: BaseParameters, simulation: Simulation, seed: int = 1
) -> FloatArray:
    """Return standard parameters with the efforts of what is identified from one trial."""
    problem = prepare(model, [trial(simulation, seed)], base).problem
    return standard_from_base(model, base, GaussMarkov().fit(problem).values)[0]


def identified(
    model: Model, base: BaseParameters, trajectory: Trajectory, plant: str = "pinocchio"
) -> FloatArray:
    """Run the excitation with the a-priori model as feed-forward; return what is identified from
    it.
    """
    return found_from(model, base, run(model, trajectory, a_priori(model, base), plant))


def tuned(
    model: Model,
    base: BaseParameters,
    trajectory: Trajectory,
    rounds: int = 2,
    plant: str = "pinocchio",
) -> tuple[list[Simulation], list[FloatArray]]:
    """Run the excitation with the a-priori model as feed-forward, identify, run again with what was
    identified, ...

    Returns:
        The runs, rounds + 1 of them, and the standard parameters each was fed forward with.
    """
    used = [a_priori(model, base)]
    runs = [run(model, trajectory, used[0], plant)]
    for _ in range(rounds):
        used.append(found_from(model, base, runs[-1]))
        runs.append(run(model, trajectory, used[-1], plant))
    return runs, used
