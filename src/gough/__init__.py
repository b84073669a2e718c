"""Gough: the dynamic model of a parallel robot from what its controller records.

Mechanism -- design() --> trajectory --(robot or virtual robot)--> Recording -- identify()
--> Identification
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# The module of each public name. A module is imported when one of its
# names is first used, so that small commands start without the whole
# library. Type checkers read `__init__.pyi` instead.
_MODULES = {
    "BoundsSettings": "gough.bounding.bounds",
    "Check": "gough.engine",
    "CheckSettings": "gough.engine.check",
    "CompareSettings": "gough.identification.compare",
    "Comparison": "gough.identification.compare",
    "Design": "gough.excitation",
    "DesignSettings": "gough.excitation",
    "DiagnoseSettings": "gough.verdict.diagnose",
    "Diagnosis": "gough.identification.diagnosis",
    "Enclosure": "gough.fitting.estimate",
    "Estimate": "gough.fitting.estimate",
    "ExpectedErrors": "gough.identification.expected_errors",
    "FactorSettings": "gough.identification.many_logs",
    "Fleet": "gough.fleets.fleet",
    "FleetLog": "gough.fleets.history",
    "FleetSettings": "gough.fleets.fleet",
    "GoughError": "gough.core.errors",
    "Identification": "gough.identification",
    "IdentifySettings": "gough.identification",
    "Mechanism": "gough.mechanism",
    "Model": "gough.engine",
    "Notice": "gough.core.notices",
    "PayloadResult": "gough.identification.payload",
    "PayloadSettings": "gough.identification.payload",
    "Processing": "gough.processing",
    "Recording": "gough.logs.recording",
    "SimulateSettings": "gough.virtual",
    "Simulation": "gough.virtual",
    "Survey": "gough.logs.survey",
    "Validation": "gough.identification.validation",
    "base_parameters": "gough.engine",
    "bounds": "gough.bounding.bounds",
    "bundled_robots": "gough.mechanism",
    "check": "gough.engine",
    "compare": "gough.identification.compare",
    "controller_code": "gough.export.controller",
    "design": "gough.excitation",
    "diagnose": "gough.verdict.diagnose",
    "expected_errors": "gough.identification.expected_errors",
    "fleet": "gough.fleets.fleet",
    "identify": "gough.app.identify",
    "identify_logs": "gough.app.identify",
    "load_identification": "gough.identification",
    "load_robot": "gough.mechanism",
    "load_trajectory": "gough.core.trajectory",
    "log_statistics": "gough.processing",
    "open_recording": "gough.logs.recording_sources",
    "payload": "gough.identification.payload",
    "process": "gough.processing",
    "read_recording": "gough.logs.readers",
    "record": "gough.virtual",
    "run_study": "gough.app.studies.study_file",
    "simulate": "gough.virtual",
    "survey": "gough.logs.survey",
    "validate": "gough.identification.validation",
    "write_report": "gough.app.report",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'gough' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """List the public names, so that an interactive prompt completes them."""
    special = [name for name in globals() if name.startswith("__")]
    return sorted([*__all__, *special])
