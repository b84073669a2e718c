"""The verb `diagnose`: faults in logs and robot file, and corrected files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gough.app.studies.corrected_files import NOTHING_TO_CORRECT, write_corrected_files
from gough.app.studies.input_files import read_logs
from gough.app.studies.step import (
    FailOn,
    Progress,
    Step,
    WrittenFiles,
    apply_option,
    description_option,
    fail_on_option,
    force_option,
    logs_argument,
    robot_argument,
)
from gough.core.options import nested, option
from gough.core.progress import portion
from gough.engine import as_model
from gough.identification.diagnosis import Diagnosis, limits_table
from gough.processing.matching import known_gains
from gough.verdict.diagnose import DiagnoseSettings, diagnose


@dataclass(frozen=True, kw_only=True)
class DiagnoseStep(Step):
    """Options of `gough diagnose`."""

    robot: str = robot_argument()
    logs: Sequence[str] = logs_argument()
    settings: DiagnoseSettings = nested(DiagnoseSettings)
    validate: Sequence[str] = option((), "Logs to judge corrections on.", file=True)
    description: str | None = description_option()
    limits: bool = option(False, "Also list how large each fault must be to be detected.")
    apply: bool = apply_option()
    force: bool = force_option()
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> WrittenFiles:
        """Diagnose logs and write corrected files."""
        model = as_model(self.robot)
        with portion(0.0, 0.1):
            recordings = read_logs(self.logs, self.description, model)
            held_out = read_logs(self.validate, self.description, model)
        with portion(0.1, 1.0):
            diagnosis = diagnose(model, recordings, self.settings, held_out=held_out)
        files = []
        if self.apply:
            files = write_corrected_files(
                model,
                self.robot,
                [*self.logs, *self.validate],
                diagnosis.faults,
                description=self.description,
                gains=known_gains(model, self.settings.gains),
                force=self.force,
            )
        facts = diagnosis.to_dict() | {"files": [str(path) for path in files]}
        lines = self._lines(diagnosis, bool(files))
        return WrittenFiles(files, facts, lines, level=diagnosis.level)

    def _lines(self, diagnosis: Diagnosis, has_written: bool) -> list[str]:
        """Return the text to print."""
        lines = [diagnosis.summary()]
        if self.limits:
            lines += ["", limits_table(diagnosis.limits)]
        if self.apply and not has_written:
            lines += ["", NOTHING_TO_CORRECT]
        return lines
