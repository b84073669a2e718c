"""From recordings to a validated model."""

from gough.identification.identify import Experiment, feasible, identify, prepare
from gough.identification.result import Fit, Identification, load_identification

__all__ = ["Experiment", "Fit", "Identification", "feasible", "identify", "load_identification", "prepare"]
