"""From log to regression: one processing for an experiment, one way for short and long logs."""

from gough.processing.choice import ProcessingChoice, choose_processing, raised_cutoff
from gough.processing.match_robot import matched, on_motor_side
from gough.processing.pipeline import log_statistics, process, regression, regression_blocks
from gough.processing.settings import Processing
from gough.processing.time_domain import Processed

__all__ = [
    "Processed",
    "Processing",
    "ProcessingChoice",
    "choose_processing",
    "log_statistics",
    "matched",
    "on_motor_side",
    "process",
    "raised_cutoff",
    "regression",
    "regression_blocks",
]
