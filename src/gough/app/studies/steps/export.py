"""The verb `export`: a stored result for controllers and other programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gough.app.studies.input_files import load_result
from gough.app.studies.step import (
    Progress,
    Step,
    WrittenFiles,
    force_option,
    output_option,
    result_argument,
)
from gough.core.options import REQUIRED, option
from gough.export import EXPORTS, export


def _export_names() -> Iterable[str]:
    return EXPORTS


@dataclass(frozen=True, kw_only=True)
class ExportStep(Step):
    """Options of `gough export`."""

    folder: str = result_argument()
    to: str = option(
        REQUIRED,
        "c: controller code; json, toml: tables; urdf, mjcf: other simulators.",
        choices=_export_names,
    )
    output: str | None = output_option("Folder; that of the result by default.")
    name: str | None = option(
        None,
        "Base name of the files; controller, parameters or the robot's name by default.",
    )
    approximate: bool = option(
        False,
        "Approximate joint terms that URDF or MJCF cannot express by damping and friction; the "
        "file says what is lost.",
    )
    force: bool = force_option()

    def run(self, progress: Progress) -> WrittenFiles:
        """Write a stored result in another format."""
        model, result = load_result(self.folder)
        files = export(
            model,
            result,
            Path(self.output or self.folder),
            to=self.to,
            name=self.name,
            force=self.force,
            approximate=self.approximate,
        )
        return WrittenFiles(list(files))
