"""Gough: the dynamic model of a parallel robot from what its controller records.

    Mechanism -- design() --> trajectory --(robot or virtual robot)--> Recording -- identify() --> Identification
"""

from gough.engine import Check, Model, base_parameters, check
from gough.errors import GoughError
from gough.estimation.estimate import Enclosure, Estimate
from gough.excitation import Design, design
from gough.export.controller import controller_code
from gough.identification import Identification, identify, load_identification
from gough.identification.bounding import bounds
from gough.identification.payload import PayloadResult, payload
from gough.mechanism import Mechanism, bundled_robots, load_robot
from gough.processing import Processing, condense_log, process, regression
from gough.signals.readers import open_recording, read_recording
from gough.signals.recording import Recording
from gough.study.run import run_study
from gough.trajectory import load_trajectory
from gough.validation import Validation, validate
from gough.virtual import Simulation, record, simulate

__version__ = "0.1.0"

__all__ = [
    "Check", "Design", "Enclosure", "Estimate", "GoughError", "Identification", "Mechanism", "Model", "PayloadResult",
    "Processing", "Recording", "Simulation", "Validation", "base_parameters", "bounds", "bundled_robots", "check",
    "condense_log", "controller_code", "design", "identify", "load_identification", "load_robot", "load_trajectory",
    "open_recording", "payload", "process", "read_recording", "record", "regression", "run_study", "simulate",
    "validate",
]
