"""Enclose the parameters in guaranteed bounds, given the largest error of the efforts.

Example:  gough bounds five_bar log.csv --error-bound 0.5
"""

from __future__ import annotations

from typing import Annotated

from gough.core.files import require_free
from gough.core.options import About
from gough.engine import as_model
from gough.estimators.estimate import Enclosure
from gough.identification.bounding import BoundsSettings, bounds as bound_parameters
from gough.study.common import Description, Force, Logs, Robot
from gough.study.data import read_logs, result_for


def bounds(robot: Robot, logs: Logs, settings: BoundsSettings, *,
           model: Annotated[str | None, About(
               help="Folder of `gough identify` whose processing and drive gains to use.", file=True)] = None,
           description: Description = None,
           output: Annotated[str | None, About(help="Write the box (.json).", file=True, short="-o")] = None,
           force: Force = False) -> Enclosure:
    require_free(output, force)
    known = as_model(robot)
    result = result_for(known, model)
    box = bound_parameters(known, read_logs(logs, description, known), settings, result=result)
    if output is not None:
        box.save(output)
    return box
