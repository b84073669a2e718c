"""The verb `check`: what can be identified of a robot, or from a motion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

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
from gough.core.notices import ordered
from gough.core.options import nested, option
from gough.core.progress import portion, report
from gough.engine import as_model, check
from gough.engine.check import CheckSettings
from gough.mechanism import robot_text
from gough.mechanism.files import FOREIGN_SUFFIXES

PLANNED_PERIODS = 10  # of a periodic trajectory, unless given


@dataclass(frozen=True, kw_only=True)
class CheckStep(Step):
    """Options of `gough check`."""

    robot: str = robot_argument()
    settings: CheckSettings = nested(CheckSettings)
    trajectory: str | None = option(
        None, "Predict the standard errors from a log of this trajectory.", file=True
    )
    log: str | None = option(
        None,
        "Predict the standard errors from this log.",
        file=True,
    )
    description: str | None = description_option()
    periods: int | None = option(
        None,
        "Periods of the trajectory that will be recorded, 10 by default; a log has its own.",
        least=1,
    )
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> Outcome:
        """Check a robot, or predict what a motion shows of it."""
        if self.trajectory is not None and self.log is not None:
            raise InvalidInput("a trajectory and a log are given, expected one of the two")
        if self.trajectory is None and self.log is None:
            if self.periods is not None:
                raise InvalidInput(
                    f"{self.periods} `periods` are given without a motion; give a `trajectory` too"
                )
            found = check(as_model(self.robot), self.settings)
            return replace(found, import_notes=_import_notes(self.robot))
        return self._predict()

    def _predict(self) -> Outcome:
        # imported here, because a check without a motion needs none of
        # it
        from gough.app.studies.input_files import read_logs
        from gough.core.trajectory import load_trajectory
        from gough.identification.expected_errors import expected_errors
        from gough.verdict.diagnose import limits_of_log
        from gough.virtual.planned_log import assumed_noise_notices, planned_log

        model = as_model(self.robot)
        tie_legs = self.settings.tie_legs
        notices = []
        if self.trajectory is not None:
            trajectory = load_trajectory(self.trajectory, robot=model.mechanism.name)
            periods = self.periods or PLANNED_PERIODS
            recording = planned_log(model, trajectory, periods)
            notices = assumed_noise_notices(model)
        else:
            assert self.log is not None
            if self.periods is not None:
                raise InvalidInput(
                    f"{self.periods} `periods` are asked for, but '{self.log}' has its own number; "
                    "leave them out"
                )
            with portion(0.0, 0.1):
                recording = read_logs([self.log], self.description, model)[0]
        report(0.1)
        with portion(0.1, 0.4):
            expected = expected_errors(model, recording, tie_legs=tie_legs)
        with portion(0.4, 1.0):
            limits = limits_of_log(model, recording, tie_legs=tie_legs)
        return replace(
            expected,
            limits=limits,
            notices=ordered([*expected.notices, *notices]),
        )


def _import_notes(robot: str) -> tuple[str, ...]:
    """Return what was ignored or assumed of a robot that another program wrote."""
    if Path(robot).suffix.lower() not in FOREIGN_SUFFIXES:
        return ()
    from gough.formats.read import read_tree
    from gough.formats.robot_description import describe

    text, source = robot_text(robot)
    return describe(read_tree(text, source), source).notes
