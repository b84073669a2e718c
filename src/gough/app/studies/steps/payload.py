"""The verb `payload`: the payload in a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gough.app.studies.input_files import load_result_of, read_logs
from gough.app.studies.step import (
    FailOn,
    Progress,
    Step,
    description_option,
    fail_on_option,
    logs_argument,
    robot_argument,
)
from gough.core.options import nested, option
from gough.core.progress import portion
from gough.engine import as_model
from gough.identification.payload import PayloadResult, PayloadSettings, payload


@dataclass(frozen=True, kw_only=True)
class PayloadStep(Step):
    """Options of `gough payload`."""

    robot: str = robot_argument()
    logs: Sequence[str] = logs_argument()
    settings: PayloadSettings = nested(PayloadSettings)
    model: str | None = option(
        None,
        "Folder of `gough identify`: model, processing and drive gains of the unloaded robot; the "
        "robot file's by default.",
        file=True,
    )
    description: str | None = description_option()
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> PayloadResult:
        """Estimate the payload in logs."""
        model = as_model(self.robot)
        result = load_result_of(model, self.model)
        with portion(0.0, 0.15):
            recordings = read_logs(self.logs, self.description, model)
        with portion(0.15, 1.0):
            return payload(model, recordings, self.settings, result=result)
