"""Assemble a robot and say what can be identified: mobility, closure, singularities, base parameters.

With a trajectory or a log it says instead what that motion will tell: the sigma of every parameter, weak directions,
and how large a mistake (delay, offset, tilt, ...) has to be to be noticed.

Example:  gough check five_bar
"""

from __future__ import annotations

from typing import Annotated

from gough.core.errors import InvalidInput
from gough.core.options import About
from gough.core.trajectory import load_trajectory
from gough.engine import Check, as_model, check as check_model
from gough.engine.check import CheckSettings
from gough.identification.diagnosis.foresee import Foresight, foresee
from gough.study.common import Description, Robot
from gough.study.data import read_logs


def check(robot: Robot, settings: CheckSettings, *,
          trajectory: Annotated[str | None, About(help="Say what this trajectory will tell.", file=True)] = None,
          log: Annotated[str | None, About(help="Say what the motion of this log tells.", file=True)] = None,
          description: Description = None,
          periods: Annotated[int, About(help="Repetitions of that motion to reckon with.", least=1)] = 10,
          ) -> Check | Foresight:
    model = as_model(robot)
    if trajectory is not None and log is not None:
        raise InvalidInput("a trajectory and a log are given; look at one of the two")
    if trajectory is None and log is None:
        return check_model(model, settings)
    motion = (read_logs([log], description, model)[0] if log is not None
              else load_trajectory(str(trajectory), robot=model.mechanism.name))
    return foresee(model, motion, periods=periods, tie_legs=settings.tie_legs)
