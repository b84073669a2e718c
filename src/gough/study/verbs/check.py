"""Assemble a robot and say what can be identified: mobility, closure, singularities, base parameters.

Example:  gough check five_bar
"""

from __future__ import annotations

from gough.engine import Check, Model
from gough.engine import check as check_model
from gough.engine.check import CheckSettings
from gough.mechanism import load_robot
from gough.study.common import Robot


def check(robot: Robot, settings: CheckSettings) -> Check:
    """Say what a robot file amounts to."""
    return check_model(Model(load_robot(robot)), settings)
