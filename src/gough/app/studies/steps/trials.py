"""The verb `trials`: a Monte-Carlo study on virtual robots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gough.app.studies.monte_carlo import (
    COLUMNS,
    MonteCarloSettings,
    run_monte_carlo,
)
from gough.app.studies.step import (
    Progress,
    Step,
    WrittenFiles,
    force_option,
    output_option,
)
from gough.core.files import require_free, write_text
from gough.core.options import REQUIRED, nested, option


@dataclass(frozen=True, kw_only=True)
class TrialsStep(Step):
    """Options of `gough trials`."""

    robots: Sequence[str] = option(
        REQUIRED,
        "Names of bundled robots, or paths of robot files.",
        positional=True,
    )
    settings: MonteCarloSettings = nested(MonteCarloSettings)
    output: str | None = output_option("Table to write (.csv).")
    force: bool = force_option()

    def run(self, progress: Progress) -> WrittenFiles:
        """Run a Monte-Carlo study and write its table."""
        require_free(self.output, self.force)
        study = run_monte_carlo(self.robots, self.settings, progress)
        files = []
        if self.output is not None:
            files.append(Path(self.output))
            lines = [",".join(map(str, row)) for row in (COLUMNS, *study.rows)]
            write_text(self.output, "\n".join(lines) + "\n")
        return WrittenFiles(files, study.to_dict(), study.lines())
