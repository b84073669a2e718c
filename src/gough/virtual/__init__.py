"""The virtual robot: closed-loop experiments and model-based control for any robot file."""

from gough.virtual.closed_loop import (
    CONTROLLERS,
    PLANTS,
    SimulateSettings,
    simulate,
)
from gough.virtual.controllers import (
    PID,
    ComputedTorque,
    Controller,
    InverseModel,
    RobotModel,
)
from gough.virtual.plant import (
    Actuator,
    GoughPlant,
    IdealDrive,
    Plant,
    PlantSettings,
)
from gough.virtual.simulation import Feedback, Simulation, record

__all__ = [
    "CONTROLLERS",
    "PID",
    "PLANTS",
    "Actuator",
    "ComputedTorque",
    "Controller",
    "Feedback",
    "GoughPlant",
    "IdealDrive",
    "InverseModel",
    "Plant",
    "PlantSettings",
    "RobotModel",
    "SimulateSettings",
    "Simulation",
    "record",
    "simulate",
]
