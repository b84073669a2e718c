"""From recordings to a validated model."""

from gough.identification.currents import currents_problem
from gough.identification.experiment import Experiment, drive_gains, prepare
from gough.identification.identify import IdentifySettings, identify
from gough.identification.methods import feasible
from gough.identification.result import Fit, Identification, load_identification

__all__ = [
    "Experiment", "Fit", "Identification", "IdentifySettings", "currents_problem", "drive_gains", "feasible",
    "identify", "load_identification", "prepare",
]
