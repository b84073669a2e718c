"""Design the most informative trajectory inside the robot's limits, verified on a ten times finer grid.

Ctrl-C ends the search and keeps the best trajectory so far; `--resume` goes on from it.

Example:  gough design five_bar -o trajectory.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gough.core.errors import InvalidInput
from gough.core.files import require_free
from gough.core.options import About
from gough.core.trajectory import Fourier, load_trajectory
from gough.engine import as_model
from gough.excitation import Design, DesignSettings, design as design_trajectory
from gough.excitation.design import Run, runnable
from gough.study.common import Force, Progress, Robot


def design(robot: Robot, settings: DesignSettings, *,
           output: Annotated[str | None, About(help="Write the trajectory (.json).", file=True, short="-o")] = None,
           csv: Annotated[str | None, About(
               help="Write it as a machine runs it: at the controller's rate, from rest to rest, motors too (.csv).",
               file=True)] = None,
           periods: Annotated[int, About(help="Whole periods at full pace in that table.", least=1)] = 10,
           resume: Annotated[str | None, About(
               help="Go on from this trajectory (.json); it may be the one to write.", file=True)] = None,
           force: Force = False, progress: Progress | None = None) -> Design:
    paths = [path for path in (output, csv) if path is not None]
    for path in paths:
        require_free(path, force or (path == output == resume))
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise InvalidInput(f"JSON and CSV cannot both go to '{output}'; choose two names")
    model = as_model(robot)
    runs = None
    if resume is not None:
        earlier = load_trajectory(resume, robot=model.mechanism.name)
        if not isinstance(earlier, Fourier):
            raise InvalidInput(f"'{resume}' is no trajectory of `gough design`, which has a frequency and harmonics")
        runs = [Run(start=earlier)]
    steps = settings.starts * settings.iterations
    result = design_trajectory(model, settings, runs=runs, progress=None if progress is None else (
        lambda step, value, worst: progress(min(step / steps, 1.0))))
    if output is not None:
        result.save(output)
    if csv is not None:
        runnable(model, result.trajectory, periods).to_csv(csv, model.mechanism.noise.rate)
    return result
