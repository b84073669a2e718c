"""The verb that looks at a log; it needs little, so it starts at once."""

from __future__ import annotations

from typing import Annotated

from gough.app.studies.verbs import Force, from_file, to_file
from gough.core.files import require_free, write_text
from gough.logs.survey import Motor, Survey, survey
from gough.mechanism import load_robot


def log(
    file: Annotated[str, from_file("The log, of any format.")],
    *,
    robot: Annotated[str | None, from_file("Propose which column is which joint of it.")] = None,
    output: Annotated[str | None, to_file("Write a description to edit (.toml).")] = None,
    force: Force = False,
) -> Survey:
    """Do what `gough log` does; see `VERBS`."""
    require_free(output, force)
    joints = () if robot is None else load_robot(robot).joints
    found = survey(
        file,
        [Motor(name=j.name, unit=j.unit, limits=j.limits.position) for j in joints if j.actuated],
    )
    if output is not None:
        write_text(output, found.description())
    return found
