"""The verb `compare`: differences between stored results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gough.app.report.report import comparison_page
from gough.app.studies.input_files import load_result, read_logs
from gough.app.studies.step import (
    FailOn,
    Progress,
    Step,
    description_option,
    fail_on_option,
    force_option,
    output_option,
)
from gough.core.errors import InvalidInput
from gough.core.files import require_free, write_text
from gough.core.options import REQUIRED, nested, option
from gough.core.progress import portion
from gough.identification.compare import CompareSettings, Comparison, compare


@dataclass(frozen=True, kw_only=True)
class CompareStep(Step):
    """Options of `gough compare`."""

    folders: Sequence[str] = option(
        REQUIRED,
        "Folders that `gough identify -o` wrote.",
        file=True,
        positional=True,
    )
    settings: CompareSettings = nested(CompareSettings)
    logs: Sequence[str] = option((), "Logs that each model is to predict.", file=True)
    description: str | None = description_option()
    output: str | None = output_option("Write a page (.html).")
    force: bool = force_option()
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> Comparison:
        """Compare stored results and write a page."""
        if len(self.folders) < 2:
            raise InvalidInput(f"{len(self.folders)} result is given, expected two or more")
        require_free(self.output, self.force)
        results = [load_result(folder) for folder in self.folders]
        reference_model, _ = results[0]
        with portion(0.1, 0.3):
            recordings = read_logs(self.logs, self.description, reference_model)
        comparison = compare(results, recordings, self.settings, labels=_labels(self.folders))
        if self.output is not None:
            identifications = [identification for _, identification in results]
            write_text(self.output, comparison_page(identifications, comparison))
        return comparison


def _labels(folders: Sequence[str]) -> list[str]:
    """Return short names of folders: the last parts of their paths, as many as make them differ.

    Folders that are given twice are numbered.
    """
    paths = [Path(folder).resolve().parts for folder in folders]
    for count in range(1, max(map(len, paths)) + 1):
        labels = ["/".join(parts[-count:]) for parts in paths]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{Path(folder).name} ({k + 1})" for k, folder in enumerate(folders)]
