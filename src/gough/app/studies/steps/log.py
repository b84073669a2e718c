"""The verb `log`: what is in a log."""

from __future__ import annotations

from dataclasses import dataclass

from gough.app.studies.step import Progress, Step, force_option, output_option
from gough.core.files import require_free, write_text
from gough.core.options import REQUIRED, option
from gough.logs.survey import Motor, Survey, survey
from gough.mechanism import load_robot


@dataclass(frozen=True, kw_only=True)
class LogStep(Step):
    """Options of `gough log`."""

    file: str = option(REQUIRED, "The log, of any format.", file=True, positional=True)
    robot: str | None = option(None, "Propose which column is which joint of it.", file=True)
    output: str | None = output_option("Write a description to edit (.toml).")
    force: bool = force_option()

    def run(self, progress: Progress) -> Survey:
        """Survey a log, and write a description of it."""
        require_free(self.output, self.force)
        content = survey(self.file, self._motors())
        if self.output is not None:
            write_text(self.output, content.description())
        return content

    def _motors(self) -> list[Motor]:
        if self.robot is None:
            return []
        motors = []
        for joint in load_robot(self.robot).joints:
            if joint.actuated:
                motors.append(
                    Motor(
                        name=joint.name,
                        unit=joint.unit,
                        limits=joint.limits.position,
                        effort_limit=joint.limits.effort,
                    )
                )
        return motors
