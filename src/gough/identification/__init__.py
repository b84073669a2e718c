"""From recordings to a validated model."""

from gough.identification.experiment import Experiment, currents_problem, drive_gains, prepare
from gough.identification.identify import IdentifySettings, identify
from gough.identification.methods import ESTIMATORS, feasible, register_estimator
from gough.identification.result import Fit, Identification, load_identification

__all__ = [
    "ESTIMATORS",
    "Experiment",
    "Fit",
    "Identification",
    "IdentifySettings",
    "currents_problem",
    "drive_gains",
    "feasible",
    "identify",
    "load_identification",
    "prepare",
    "register_estimator",
]
