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
    from gough.engine.check import CheckSettings
    from gough.estimators.estimate import Enclosure, Estimate
    from gough.excitation import Design, DesignSettings, design
    from gough.export.controller import controller_code
    from gough.identification import Identification, IdentifySettings, identify, load_identification
    from gough.identification.bounding import BoundsSettings, bounds
    from gough.identification.compare import CompareSettings, Comparison, compare
    from gough.identification.diagnosis.diagnose import DiagnoseSettings, diagnose
    from gough.identification.diagnosis.foresee import Foresight, foresee
    from gough.identification.diagnosis.mistakes import Diagnosis
    from gough.identification.fleets.fleet import Fleet, FleetSettings, fleet
    from gough.identification.fleets.history import FleetLog
    from gough.identification.many import FactorSettings, identify_logs
    from gough.identification.payload import PayloadResult, PayloadSettings, payload
    from gough.identification.validation import Validation, validate
    from gough.identification.verdict import Verdict
    from gough.logs.readers import open_recording, read_recording
    from gough.logs.recording import Recording
    from gough.logs.survey import Survey, survey
    from gough.mechanism import Mechanism, bundled_robots, load_robot
    from gough.processing import Processing, condense_log, process
    from gough.report import write_report
    from gough.study.run import run_study
    from gough.virtual import SimulateSettings, Simulation, record, simulate

__version__ = "0.1.0"

__all__ = [
    "BoundsSettings", "Check", "CheckSettings", "CompareSettings", "Comparison", "Design", "DesignSettings",
    "DiagnoseSettings", "Diagnosis", "Enclosure", "Estimate", "FactorSettings", "Fleet", "FleetLog", "FleetSettings",
    "Foresight", "GoughError", "Identification", "IdentifySettings", "Mechanism", "Model", "PayloadResult",
    "PayloadSettings", "Processing", "Recording", "SimulateSettings", "Simulation", "Survey", "Validation", "Verdict",
    "base_parameters", "bounds", "bundled_robots", "check", "compare", "condense_log", "controller_code", "design",
    "diagnose", "fleet", "foresee", "identify", "identify_logs", "load_identification", "load_robot",
    "load_trajectory", "open_recording", "payload", "process", "read_recording", "record", "run_study", "simulate",
    "survey", "validate", "write_report",
]

_HOMES = {
    "gough.core.errors": ("GoughError",),
    "gough.core.trajectory": ("load_trajectory",),
    "gough.engine": ("Check", "Model", "base_parameters", "check"),
    "gough.engine.check": ("CheckSettings",),
    "gough.estimators.estimate": ("Enclosure", "Estimate"),
    "gough.excitation": ("Design", "DesignSettings", "design"),
    "gough.export.controller": ("controller_code",),
    "gough.identification": ("Identification", "IdentifySettings", "identify", "load_identification"),
    "gough.identification.bounding": ("BoundsSettings", "bounds"),
    "gough.identification.compare": ("CompareSettings", "Comparison", "compare"),
    "gough.identification.diagnosis.diagnose": ("DiagnoseSettings", "diagnose"),
    "gough.identification.diagnosis.foresee": ("Foresight", "foresee"),
    "gough.identification.diagnosis.mistakes": ("Diagnosis",),
    "gough.identification.fleets.fleet": ("Fleet", "FleetSettings", "fleet"),
    "gough.identification.fleets.history": ("FleetLog",),
    "gough.identification.many": ("FactorSettings", "identify_logs"),
    "gough.identification.payload": ("PayloadResult", "PayloadSettings", "payload"),
    "gough.identification.validation": ("Validation", "validate"),
    "gough.identification.verdict": ("Verdict",),
    "gough.logs.readers": ("open_recording", "read_recording"),
    "gough.logs.recording": ("Recording",),
    "gough.logs.survey": ("Survey", "survey"),
    "gough.mechanism": ("Mechanism", "bundled_robots", "load_robot"),
    "gough.processing": ("Processing", "condense_log", "process"),
    "gough.report": ("write_report",),
    "gough.study.run": ("run_study",),
    "gough.virtual": ("SimulateSettings", "Simulation", "record", "simulate"),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that small commands start without the whole library."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gough' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List what can be loaded, so that a prompt completes it."""
    return sorted({*__all__, *globals()})
