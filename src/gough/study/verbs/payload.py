"""Find the load in a log sample by sample, all ten parameters, and say which the motion does not show.

Example:  gough payload five_bar log.csv
"""

from __future__ import annotations

from typing import Annotated

from gough.core.options import About
from gough.engine import as_model
from gough.identification.payload import PayloadResult, PayloadSettings, payload as find_payload
from gough.study.common import Description, Logs, Robot
from gough.study.data import read_logs, result_for


def payload(robot: Robot, logs: Logs, settings: PayloadSettings, *,
            model: Annotated[str | None, About(
                help="Folder of `gough identify`: model, processing and drive gains of the unloaded robot; the robot "
                     "file's by default.", file=True)] = None,
            description: Description = None) -> PayloadResult:
    known = as_model(robot)
    result = result_for(known, model)
    return find_payload(known, read_logs(logs, description, known), settings, result=result)
