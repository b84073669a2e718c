"""Gough: the dynamic model of a parallel robot from what its controller records.

    Mechanism -- design() --> trajectory --(robot or virtual robot)--> Recording -- identify() --> Identification
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gough.engine import Check, Model, base_parameters, check
    from gough.errors import GoughError
    from gough.estimation.estimate import Enclosure, Estimate
    from gough.excitation import Design, design
    from gough.export.controller import controller_code
    from gough.identification import Identification, identify, load_identification
    from gough.identification.bounding import bounds
    from gough.identification.payload import PayloadResult, payload
    from gough.mechanism import Mechanism, bundled_robots, load_robot
    from gough.processing import Processing, condense_log, process
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
    "open_recording", "payload", "process", "read_recording", "record", "run_study", "simulate",
    "validate",
]

_HOMES = {
    "gough.engine": ("Check", "Model", "base_parameters", "check",),
    "gough.errors": ("GoughError",),
    "gough.estimation.estimate": ("Enclosure", "Estimate",),
    "gough.excitation": ("Design", "design",),
    "gough.export.controller": ("controller_code",),
    "gough.identification": ("Identification", "identify", "load_identification",),
    "gough.identification.bounding": ("bounds",),
    "gough.identification.payload": ("PayloadResult", "payload",),
    "gough.mechanism": ("Mechanism", "bundled_robots", "load_robot",),
    "gough.processing": ("Processing", "condense_log", "process",),
    "gough.signals.readers": ("open_recording", "read_recording",),
    "gough.signals.recording": ("Recording",),
    "gough.study.run": ("run_study",),
    "gough.trajectory": ("load_trajectory",),
    "gough.validation": ("Validation", "validate",),
    "gough.virtual": ("Simulation", "record", "simulate",),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that small commands start without the whole library."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gough' has no attribute '{name}'")
