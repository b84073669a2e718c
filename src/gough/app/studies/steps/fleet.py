"""The verb `fleet`: many robots of one kind, as tables and a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gough.app.report.fleet_report import fleet_page
from gough.app.studies.fleet_file import read_fleet_file
from gough.app.studies.step import (
    FailOn,
    Progress,
    Step,
    fail_on_option,
    force_option,
    output_option,
)
from gough.core.errors import OutputError
from gough.core.files import replace_atomically, require_free_folder, write_text
from gough.core.notices import ordered
from gough.core.options import REQUIRED, nested, option
from gough.fleets.fleet import Fleet, FleetSettings, fleet


@dataclass(frozen=True, kw_only=True)
class FleetStep(Step):
    """Options of `gough fleet`."""

    file: str = option(
        REQUIRED,
        "Fleet file (TOML): robot, logs, and options.",
        file=True,
        positional=True,
    )
    settings: FleetSettings = nested(FleetSettings)
    output: str | None = output_option("Folder for tables and page.")
    force: bool = force_option()
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> Fleet:
        """Compare the robots of a fleet and write tables and a page."""
        folder = None
        if self.output is not None:
            folder = require_free_folder(self.output, self.force)
        content = read_fleet_file(self.file, self.settings)
        compared = fleet(content.robot, content.logs, content.settings, progress=progress)
        notices = ordered((*content.notices, *compared.notices))
        compared = replace(compared, notices=notices)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name, columns in compared.tables().items():
                _write_table(folder / name, columns)
            write_text(folder / "fleet.html", fleet_page(compared))
        return compared


def _write_table(path: Path, columns: Mapping[str, list[Any]]) -> None:
    """Write a table as Parquet, or as CSV where pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows([list(columns), *zip(*columns.values())])
        write_text(path.with_suffix(".csv"), text.getvalue())
        return
    import pyarrow
    from pyarrow import parquet

    try:
        with replace_atomically(path.with_suffix(".parquet")) as stream:
            parquet.write_table(pyarrow.table(dict(columns)), stream)
    except pyarrow.ArrowException as error:
        raise OutputError(f"cannot write '{path}': {error}", path=str(path)) from None
