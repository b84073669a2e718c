"""The verb `simulate`: the log of a virtual robot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gough.app.studies.step import (
    Progress,
    Step,
    force_option,
    output_option,
    robot_argument,
)
from gough.core.files import require_free
from gough.core.options import REQUIRED, nested, option
from gough.core.trajectory import Sampled, Trajectory, load_trajectory
from gough.engine import Model, as_model
from gough.mechanism import Noise
from gough.virtual import SimulateSettings, Simulation, record, simulate

RECORDED_PERIODS = 10  # of a periodic trajectory, unless given


@dataclass(frozen=True, kw_only=True)
class SimulateStep(Step):
    """Options of `gough simulate`."""

    robot: str = robot_argument()
    settings: SimulateSettings = nested(SimulateSettings)
    trajectory: str = option(
        REQUIRED,
        "Trajectory of `gough design` (.json), or its table (.csv).",
        file=True,
    )
    noise: bool = option(True, "Sensor noise of the robot file.")
    seed: int = option(0, "Seed of the noise.", least=0)
    output: str | None = output_option("Write the log (.csv, .csv.gz, .npz or .mcap).")
    force: bool = force_option()

    def run(self, progress: Progress) -> Simulation:
        """Simulate a robot along a trajectory and write its log."""
        require_free(self.output, self.force)
        model = as_model(self.robot)
        trajectory = self._trajectory(model)
        settings = self.settings
        if settings.periods is None and trajectory.period:
            settings = replace(settings, periods=RECORDED_PERIODS)
        simulation = simulate(model, trajectory, settings, progress=progress)
        if self.output is not None:
            noise = None if self.noise else Noise()
            recording = record(simulation, noise=noise, seed=self.seed)
            stored = {
                **settings.to_dict(),
                "noise": self.noise,
                "seed": self.seed,
            }
            recording.save(self.output, settings=stored)
        return simulation

    def _trajectory(self, model: Model) -> Trajectory:
        """Return the trajectory; of a table with platform and motors, the coordinates needed."""
        trajectory = load_trajectory(self.trajectory, robot=model.mechanism.name)
        if not isinstance(trajectory, Sampled):
            return trajectory
        task = model.loops.names("task")
        has_task = task and set(task) <= set(trajectory.coordinates)
        return trajectory.only(task if has_task else model.mechanism.actuated)
