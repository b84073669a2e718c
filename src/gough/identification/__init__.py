"""From recordings to a validated model."""

from gough.identification.estimators import (
    ESTIMATORS,
    feasible,
    register_estimator,
)
from gough.identification.experiment import Experiment, prepare
from gough.identification.fit import FittedLogs, fit_logs
from gough.identification.result import Fit, Identification, load_identification
from gough.identification.settings import IdentifySettings

__all__ = [
    "ESTIMATORS",
    "Experiment",
    "Fit",
    "FittedLogs",
    "Identification",
    "IdentifySettings",
    "feasible",
    "fit_logs",
    "load_identification",
    "prepare",
    "register_estimator",
]
