"""The verb `check`: what can be identified of a robot, or from a motion."""

from __future__ import annotations

from dataclasses import dataclass

from gough.app.studies.step import (
    FailOn,
    Outcome,
    Progress,
    Step,
    description_option,
    fail_on_option,
    robot_argument,
)
from gough.core.errors import InvalidInput
from gough.core.options import nested, option
from gough.engine import as_model, check
from gough.engine.check import CheckSettings


@dataclass(frozen=True, kw_only=True)
class CheckStep(Step):
    """Options of `gough check`."""

    robot: str = robot_argument()
    settings: CheckSettings = nested(CheckSettings)
    trajectory: str | None = option(
        None, "Predict the standard errors for this trajectory.", file=True
    )
    log: str | None = option(
        None,
        "Predict the standard errors for the motion of this log.",
        file=True,
    )
    description: str | None = description_option()
    periods: int = option(10, "Number of repetitions of that motion that are assumed.", least=1)
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> Outcome:
        """Check a robot, or predict what a motion shows of it."""
        if self.trajectory is not None and self.log is not None:
            raise InvalidInput("a trajectory and a log are given; look at one of the two")
        if self.trajectory is None and self.log is None:
            return check(as_model(self.robot), self.settings)
        return self._predict()

    def _predict(self) -> Outcome:
        # imported here, because a check without a motion needs none of it
        from gough.app.studies.input_files import read_logs
        from gough.core.trajectory import load_trajectory
        from gough.verdict.diagnosis.foresee import foresee

        model = as_model(self.robot)
        tie_legs = self.settings.tie_legs
        if self.trajectory is not None:
            trajectory = load_trajectory(self.trajectory, robot=model.mechanism.name)
            return foresee(model, trajectory, periods=self.periods, tie_legs=tie_legs)
        logs = [] if self.log is None else [self.log]
        recording = read_logs(logs, self.description, model)[0]
        return foresee(model, recording, periods=self.periods, tie_legs=tie_legs)
