"""The verb `design`: an exciting trajectory, as JSON and as a table for the controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gough.app.studies.limit_options import parse_limits
from gough.app.studies.step import (
    Progress,
    Step,
    force_option,
    output_option,
    robot_argument,
)
from gough.core.errors import InvalidInput
from gough.core.files import require_free
from gough.core.options import nested, option
from gough.core.trajectory import Fourier, load_trajectory
from gough.engine import Model, as_model
from gough.excitation import Design, DesignSettings, design
from gough.excitation.design import Run
from gough.excitation.ramps import sample_with_ramps


@dataclass(frozen=True, kw_only=True)
class DesignStep(Step):
    """Options of `gough design`."""

    robot: str = robot_argument()
    settings: DesignSettings = nested(DesignSettings)
    limit: Sequence[str] = option(
        (),
        "Limits in place of those of the robot file: left.motor.velocity=2, "
        "platform.x.position=-0.1:0.1, or of all motors effort=5; in SI, or with a unit "
        "('velocity=30 deg/s'). May be repeated.",
    )
    output: str | None = output_option("Write the trajectory (.json).")
    csv: str | None = option(
        None,
        "Write the trajectory as a table for the controller: at its rate, from rest to rest, with "
        "the positions of the motors (.csv).",
        file=True,
    )
    periods: int = option(
        10, "Whole periods in that table, between speeding up and slowing down.", least=1
    )
    resume: str | None = option(
        None,
        "Go on from this trajectory (.json); it may be the one to write.",
        file=True,
    )
    force: bool = force_option()

    def run(self, progress: Progress) -> Design:
        """Design a trajectory and write it."""
        require_free(self.output, self.force or self.output == self.resume)
        require_free(self.csv, self.force)
        self._require_two_files()
        model = as_model(self.robot)
        steps = self.settings.starts * self.settings.iterations

        def report(step: int, objective: float, violation: float) -> None:
            progress(min(step / steps, 1.0))

        designed = design(
            model,
            self.settings,
            runs=self._earlier_runs(model),
            limits=parse_limits(self.limit, model),
            progress=report,
        )
        if self.output is not None:
            designed.save(self.output)
        if self.csv is not None:
            table = sample_with_ramps(model, designed.trajectory, self.periods)
            table.to_csv(self.csv, model.mechanism.noise.rate)
        return designed

    def _require_two_files(self) -> None:
        if self.output is None or self.csv is None:
            return
        if Path(self.output).resolve() == Path(self.csv).resolve():
            raise InvalidInput(f"JSON and CSV cannot both go to '{self.output}'; choose two names")

    def _earlier_runs(self, model: Model) -> list[Run] | None:
        """Return the trajectory to go on from."""
        if self.resume is None:
            return None
        earlier = load_trajectory(self.resume, robot=model.mechanism.name)
        if not isinstance(earlier, Fourier):
            raise InvalidInput(
                f"'{self.resume}' is no trajectory of `gough design`, which has a frequency and "
                f"harmonics"
            )
        return [Run(start=earlier)]
