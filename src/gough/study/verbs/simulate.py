"""Run the virtual robot along a trajectory and write the log its controller would have saved.

Example:  gough simulate five_bar --trajectory trajectory.json -o log.csv
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from gough.core.files import require_free
from gough.core.options import About
from gough.core.trajectory import Sampled, load_trajectory
from gough.engine import as_model
from gough.mechanism import Noise
from gough.study.common import Force, Progress, Robot
from gough.virtual import SimulateSettings, Simulation, record, simulate as simulate_robot

PERIODS = 10  # of a trajectory that repeats, unless asked for


def simulate(robot: Robot, settings: SimulateSettings, *,
             trajectory: Annotated[str, About(
                 help="Trajectory of `gough design` (.json), or its table (.csv).", file=True)],
             noise: Annotated[bool, About(help="Sensor noise of the robot file.")] = True,
             seed: Annotated[int, About(help="Seed of the noise.", least=0)] = 0,
             output: Annotated[str | None, About(
                 help="Write the log (.csv, .csv.gz, .npz or .mcap).", file=True, short="-o")] = None,
             force: Force = False, progress: Progress | None = None) -> Simulation:
    require_free(output, force)
    model = as_model(robot)
    path = load_trajectory(trajectory, robot=model.mechanism.name)
    if isinstance(path, Sampled):  # a table for a controller holds the platform and the motors
        task = model.loops.names("task")
        path = path.only(task if task and set(task) <= set(path.coordinates) else model.mechanism.actuated)
    if settings.periods is None and path.period:
        settings = replace(settings, periods=PERIODS)
    simulation = simulate_robot(model, path, settings, progress=progress)
    if output is not None:
        record(simulation, noise=None if noise else Noise(), seed=seed).save(
            output, settings={**settings.to_dict(), "noise": noise, "seed": seed})
    return simulation
