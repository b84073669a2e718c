"""Symbolic model -> kernels -> kinematics, regressor, base parameters, dynamics."""

from gough.engine.base import base_parameters, random_motion, standard_from_base
from gough.engine.check import Check, check
from gough.engine.kinematics import ClosedChain
from gough.engine.model import Model, Robot, as_model

__all__ = [
    "Check",
    "ClosedChain",
    "Model",
    "Robot",
    "as_model",
    "base_parameters",
    "check",
    "random_motion",
    "standard_from_base",
]
