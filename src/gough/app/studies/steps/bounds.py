"""The verb `bounds`: guaranteed bounds of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gough.app.studies.input_files import load_result_of, read_logs
from gough.app.studies.step import (
    Progress,
    Step,
    description_option,
    force_option,
    logs_argument,
    output_option,
    robot_argument,
)
from gough.bounding.bounds import BoundsSettings, bounds
from gough.core.files import require_free
from gough.core.options import nested, option
from gough.core.progress import portion
from gough.engine import as_model
from gough.fitting.estimate import Enclosure


@dataclass(frozen=True, kw_only=True)
class BoundsStep(Step):
    """Options of `gough bounds`."""

    robot: str = robot_argument()
    logs: Sequence[str] = logs_argument()
    settings: BoundsSettings = nested(BoundsSettings)
    model: str | None = option(
        None,
        "Folder of `gough identify` whose processing and drive gains to use.",
        file=True,
    )
    description: str | None = description_option()
    output: str | None = output_option("Write the box (.json).")
    force: bool = force_option()

    def run(self, progress: Progress) -> Enclosure:
        """Enclose the parameters and write the box."""
        require_free(self.output, self.force)
        model = as_model(self.robot)
        result = load_result_of(model, self.model)
        with portion(0.0, 0.15):
            recordings = read_logs(self.logs, self.description, model)
        with portion(0.15, 1.0):
            box = bounds(model, recordings, self.settings, result=result)
        if self.output is not None:
            box.save(self.output)
        return box
