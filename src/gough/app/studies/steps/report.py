"""The verb `report`: one HTML file about a stored result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gough.app.report.report import write_report
from gough.app.studies.input_files import load_result
from gough.app.studies.step import (
    Progress,
    Step,
    WrittenFiles,
    force_option,
    output_option,
    result_argument,
)
from gough.core.files import require_free
from gough.fitting.estimate import Enclosure


@dataclass(frozen=True, kw_only=True)
class ReportStep(Step):
    """Options of `gough report`."""

    folder: str = result_argument()
    output: str | None = output_option("HTML file; report.html in the folder by default.")
    force: bool = force_option()

    def run(self, progress: Progress) -> WrittenFiles:
        """Write the report, with the bounds stored beside the result."""
        model, result = load_result(self.folder)
        path = Path(self.folder) / "report.html"
        if self.output is not None:
            path = Path(self.output)
        require_free(path, self.force)
        enclosures = dict(result.enclosures)
        for file in sorted(Path(self.folder).glob("bounds*.json")):
            enclosures[file.stem] = Enclosure.load(file)
        write_report(model, replace(result, enclosures=enclosures), path)
        return WrittenFiles([path], {"report": str(path)})
