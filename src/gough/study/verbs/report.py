"""Write the report of a result: one self-contained HTML file.

Example:  gough report result
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from gough.core.files import require_free
from gough.core.options import About
from gough.estimators.estimate import Enclosure
from gough.report.report import write_report
from gough.study.common import Folder, Force, Written
from gough.study.data import load_result


def report(folder: Folder, *,
           output: Annotated[str | None, About(
               help="HTML file; report.html in the folder by default.", file=True, short="-o")] = None,
           force: Force = False) -> Written:
    model, result = load_result(folder)
    path = Path(folder) / "report.html" if output is None else Path(output)
    require_free(path, force)
    boxes = {box.stem: Enclosure.load(box) for box in sorted(Path(folder).glob("bounds*.json"))}
    write_report(model, replace(result, enclosures={**result.enclosures, **boxes}), path)
    return Written(files=(path,), key="report")
