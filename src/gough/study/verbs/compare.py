"""Compare results: which parameters differ beyond chance, and which model predicts which log.

The first result is what the others are compared with. With `--change` or `--error` the comparison fails beyond them:
the command then ends with exit code 3, and a study stops.

Example:  gough compare result again --logs other.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from gough.core.errors import InvalidInput
from gough.core.files import require_free, write_text
from gough.core.options import About
from gough.identification.compare import CompareSettings, Comparison, compare as compare_results
from gough.report.report import comparison_page
from gough.study.common import Description, Force
from gough.study.data import load_result, read_logs


def compare(folders: Annotated[Sequence[str], About(help="Folders that `gough identify -o` wrote.", file=True)],
            settings: CompareSettings, *,
            logs: Annotated[Sequence[str], About(help="Logs that each model is to predict.", file=True)] = (),
            description: Description = None,
            output: Annotated[str | None, About(help="Write a page (.html).", file=True, short="-o")] = None,
            force: Force = False) -> Comparison:
    if len(folders) < 2:
        raise InvalidInput(f"{len(folders)} result is given, expected two or more")
    require_free(output, force)
    results = [load_result(folder) for folder in folders]
    recordings = read_logs(logs, description, results[0][0])
    found = compare_results(results, recordings, settings, labels=labels(folders))
    if output is not None:
        write_text(output, comparison_page([result for _, result in results], found))
    return found


def labels(folders: Sequence[str]) -> list[str]:
    """Return short names of folders: as many of their last words as tell them apart, numbers where none do."""
    words = [Path(folder).resolve().parts for folder in folders]
    for count in range(1, max(len(parts) for parts in words) + 1):
        found = ["/".join(parts[-count:]) for parts in words]
        if len(set(found)) == len(found):
            return found
    return [f"{Path(folder).name} ({k + 1})" for k, folder in enumerate(folders)]
