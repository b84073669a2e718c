"""Say what is in a log: topics, columns, rates, units as far as they can be guessed; and write a description to edit.

With a robot, it proposes which column is which joint. Nothing of this is used before a description says it.

Example:  gough log run.csv --robot five_bar -o run.toml
"""

from __future__ import annotations

from typing import Annotated

from gough.core.files import require_free, write_text
from gough.core.options import About
from gough.logs.survey import Motor, Survey, survey
from gough.mechanism import load_robot
from gough.study.common import Force


def log(file: Annotated[str, About(help="The log, of any format.", file=True)], *,
        robot: Annotated[str | None, About(help="Propose which column is which joint of it.", file=True)] = None,
        output: Annotated[str | None, About(help="Write a description to edit (.toml).", file=True, short="-o")] = None,
        force: Force = False) -> Survey:
    require_free(output, force)
    motors = []
    if robot is not None:
        joints = (joint for joint in load_robot(robot).joints if joint.actuated)
        motors = [Motor(name=j.name, unit=j.unit, limits=j.limits.position) for j in joints]
    found = survey(file, motors)
    if output is not None:
        write_text(output, found.description())
    return found
