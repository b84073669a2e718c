"""Gough: the dynamic model of a parallel robot from what its controller records.

    Mechanism -- design() --> trajectory --(robot or virtual robot)--> Recording -- identify() --> Identification
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gough.core.errors import GoughError
    from gough.core.trajectory import load_trajectory
    from gough.engine import Check, Model, base_parameters, check
    from gough.estimators.estimate import Enclosure, Estimate
    from gough.excitation import Design, design
    from gough.export.controller import controller_code
    from gough.identification import Identification, identify, load_identification
    from gough.identification.bounding import bounds
    from gough.identification.diagnosis.diagnose import diagnose
    from gough.identification.diagnosis.foresee import Foresight, foresee
    from gough.identification.diagnosis.mistakes import Diagnosis
    from gough.identification.payload import PayloadResult, payload
    from gough.identification.validation import Validation, validate
    from gough.identification.verdict import Verdict
    from gough.logs.readers import open_recording, read_recording
    from gough.logs.recording import Recording
    from gough.mechanism import Mechanism, bundled_robots, load_robot
    from gough.processing import Processing, condense_log, process
    from gough.study.run import run_study
    from gough.virtual import Simulation, record, simulate

__version__ = "0.1.0"

__all__ = [
    "Check", "Design", "Diagnosis", "Enclosure", "Estimate", "Foresight", "GoughError", "Identification", "Mechanism",
    "Model", "PayloadResult", "Processing", "Recording", "Simulation", "Validation", "Verdict", "base_parameters",
    "bounds", "bundled_robots", "check", "condense_log", "controller_code", "design", "diagnose", "foresee",
    "identify", "load_identification", "load_robot", "load_trajectory",
    "open_recording", "payload", "process", "read_recording", "record", "run_study", "simulate",
    "validate",
]

_HOMES = {
    "gough.engine": ("Check", "Model", "base_parameters", "check",),
    "gough.core.errors": ("GoughError",),
    "gough.estimators.estimate": ("Enclosure", "Estimate",),
    "gough.excitation": ("Design", "design",),
    "gough.export.controller": ("controller_code",),
    "gough.identification": ("Identification", "identify", "load_identification",),
    "gough.identification.bounding": ("bounds",),
    "gough.identification.diagnosis.diagnose": ("diagnose",),
    "gough.identification.diagnosis.foresee": ("Foresight", "foresee",),
    "gough.identification.diagnosis.mistakes": ("Diagnosis",),
    "gough.identification.verdict": ("Verdict",),
    "gough.identification.payload": ("PayloadResult", "payload",),
    "gough.mechanism": ("Mechanism", "bundled_robots", "load_robot",),
    "gough.processing": ("Processing", "condense_log", "process",),
    "gough.logs.readers": ("open_recording", "read_recording",),
    "gough.logs.recording": ("Recording",),
    "gough.study.run": ("run_study",),
    "gough.core.trajectory": ("load_trajectory",),
    "gough.identification.validation": ("Validation", "validate",),
    "gough.virtual": ("Simulation", "record", "simulate",),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that small commands start without the whole library."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gough' has no attribute '{name}'")
