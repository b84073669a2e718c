"""From recordings to a validated model."""

from gough.identification.experiment import Experiment, currents_problem, drive_gains, prepare
from gough.identification.fit import FittedLogs, IdentifySettings, fit_logs
from gough.identification.methods import ESTIMATORS, feasible, register_estimator
from gough.identification.result import Fit, Identification, load_identification

__all__ = [
    "ESTIMATORS",
    "Experiment",
    "Fit",
    "FittedLogs",
    "Identification",
    "IdentifySettings",
    "currents_problem",
    "drive_gains",
    "feasible",
    "fit_logs",
    "load_identification",
    "prepare",
    "register_estimator",
]
