"""Design the most informative trajectory inside the robot's limits, verified on a ten times finer grid.

Example:  gough design five_bar -o trajectory.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gough.core.errors import InvalidInput
from gough.core.files import require_free
from gough.core.options import About
from gough.engine import Model
from gough.excitation import Design, DesignSettings
from gough.excitation import design as design_trajectory
from gough.excitation.runnable import runnable
from gough.mechanism import load_robot
from gough.study.common import Force, Progress, Robot


def design(robot: Robot, settings: DesignSettings, *,
           output: Annotated[str | None, About(help="Write the trajectory (.json).", file=True, short="-o")] = None,
           csv: Annotated[str | None, About(
               help="Write it as a machine runs it: at the controller's rate, from rest to rest, motors too (.csv).",
               file=True)] = None,
           periods: Annotated[int, About(help="Whole periods at full pace in that table.", least=1)] = 10,
           force: Force = False, progress: Progress | None = None) -> Design:
    """Design an excitation trajectory; write it as JSON and, if asked, as CSV for a controller, from rest to rest."""
    paths = [path for path in (output, csv) if path is not None]
    for path in paths:
        require_free(path, force)
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise InvalidInput(f"JSON and CSV cannot both go to '{output}'; choose two names")
    model = Model(load_robot(robot))
    steps = settings.starts * settings.iterations
    result = design_trajectory(model, settings, progress=None if progress is None else (
        lambda step, value, worst: progress(min(step / steps, 1.0))))
    if output is not None:
        result.save(output)
    if csv is not None:
        runnable(model, result.trajectory, periods).to_csv(csv, model.mechanism.noise.rate)
    return result
