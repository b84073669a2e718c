"""Identify virtual robots again and again with other noise: do 95 % intervals hold the truth?

Example:  gough trials five_bar --seeds 2 --periods 3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from gough.core.files import require_free, write_text
from gough.core.options import About
from gough.study.common import Force, Progress
from gough.study.trials import HEADER, Trials, TrialSettings, run_trials


def trials(robots: Annotated[Sequence[str], About(help="Names of bundled robots, or paths of robot files.")],
           settings: TrialSettings, *,
           output: Annotated[str | None, About(help="Table to write (.csv).", file=True, short="-o")] = None,
           force: Force = False, progress: Progress | None = None) -> Trials:
    require_free(output, force)
    found = run_trials(robots, settings, progress=progress)
    if output is not None:
        write_text(output, "\n".join(",".join(map(str, row)) for row in (HEADER, *found.rows)) + "\n")
    return found
