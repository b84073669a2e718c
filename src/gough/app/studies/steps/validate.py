"""The verb `validate`: a stored result on held-out logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gough.app.studies.input_files import load_result, read_logs
from gough.app.studies.step import (
    FailOn,
    Progress,
    Step,
    description_option,
    fail_on_option,
    logs_argument,
    result_argument,
)
from gough.core.progress import portion, report
from gough.identification.validation import Validation, validate_result


@dataclass(frozen=True, kw_only=True)
class ValidateStep(Step):
    """Options of `gough validate`."""

    folder: str = result_argument()
    logs: Sequence[str] = logs_argument()
    description: str | None = description_option()
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> Validation:
        """Validate a stored result on logs."""
        model, result = load_result(self.folder)
        report(0.1)
        with portion(0.1, 0.3):
            recordings = read_logs(self.logs, self.description, model)
        with portion(0.3, 1.0):
            return validate_result(model, result, recordings)
