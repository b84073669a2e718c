"""Optimal excitation: the most informative trajectories inside the limits of a robot."""

from gough.engine.limits import Limit, collect_limits
from gough.excitation.criteria import (
    CRITERIA,
    Criterion,
    criterion_gradient,
    criterion_value,
)
from gough.excitation.design import (
    Design,
    DesignSettings,
    Run,
    design,
    first_frequency,
    information_factor,
)

__all__ = [
    "CRITERIA",
    "Criterion",
    "Design",
    "DesignSettings",
    "Limit",
    "Run",
    "collect_limits",
    "criterion_gradient",
    "criterion_value",
    "design",
    "first_frequency",
    "information_factor",
]
