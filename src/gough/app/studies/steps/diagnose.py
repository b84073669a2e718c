"""The verb `diagnose`: faults in logs and robot file, and corrected files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gough.app.studies.input_files import read_logs
from gough.app.studies.step import (
    FailOn,
    Progress,
    Step,
    WrittenFiles,
    description_option,
    fail_on_option,
    force_option,
    logs_argument,
    robot_argument,
)
from gough.core.files import require_free, write_text
from gough.core.options import nested, option
from gough.core.progress import portion
from gough.engine import Model, as_model
from gough.identification.diagnosis import Diagnosis, limits_table
from gough.logs.description import load_description
from gough.logs.readers import describe_log, log_and_description
from gough.mechanism import robot_text
from gough.processing.matching import known_gains
from gough.verdict.corrections import (
    corrected_description,
    corrected_robot,
    description_text,
)
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
    apply: bool = option(
        False,
        "Write corrected descriptions of the logs, or a robot file, beside the old ones, never "
        "over them.",
    )
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
        texts = self._corrected_texts(model, diagnosis) if self.apply else {}
        for path in texts:
            require_free(path, self.force)
        for path, text in texts.items():
            write_text(path, text)
        facts = diagnosis.to_dict() | {"files": [str(path) for path in texts]}
        lines = self._lines(diagnosis, bool(texts))
        return WrittenFiles(list(texts), facts, lines, level=diagnosis.level)

    def _corrected_texts(self, model: Model, diagnosis: Diagnosis) -> dict[Path, str]:
        """Return the texts of corrected robot file and descriptions by the path to write."""
        corrected = {}
        text, corrected_faults = corrected_robot(robot_text(self.robot)[0], model, diagnosis.faults)
        if corrected_faults:
            corrected[_corrected_path(self.robot)] = text
        gains = known_gains(model, self.settings.gains)
        for path in (*self.logs, *self.validate):
            log, own_description = log_and_description(path)
            file = own_description or self.description
            before = load_description(file) if file else describe_log(log)
            after, corrected_faults = corrected_description(before, diagnosis.faults, gains)
            if corrected_faults:
                corrected[_corrected_path(file or log)] = description_text(after)
        return corrected

    def _lines(self, diagnosis: Diagnosis, has_written: bool) -> list[str]:
        """Return the text to print."""
        lines = [diagnosis.summary()]
        if self.limits:
            lines += ["", limits_table(diagnosis.limits)]
        if self.apply and not has_written:
            lines += [
                "",
                "nothing was found that a description or a robot file can express; nothing was "
                "written",
            ]
        return lines


def _corrected_path(path: str) -> Path:
    """Return `robot.corrected.toml` for `robot.toml`, whatever the suffix was."""
    return Path(path).with_suffix("").with_suffix(".corrected.toml")
