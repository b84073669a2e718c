"""From log to regression: one processing for all logs of an experiment."""

from gough.processing.choice import (
    ProcessingChoice,
    choose_processing,
)
from gough.processing.faster_logs import raised_cutoff
from gough.processing.matching import MatchedLog, in_robot_order, match_robot, on_motor_side
from gough.processing.pipeline import log_statistics, process, regression_blocks
from gough.processing.processed_log import ProcessedLog, regression
from gough.processing.settings import Processing

__all__ = [
    "MatchedLog",
    "ProcessedLog",
    "Processing",
    "ProcessingChoice",
    "choose_processing",
    "in_robot_order",
    "log_statistics",
    "match_robot",
    "on_motor_side",
    "process",
    "raised_cutoff",
    "regression",
    "regression_blocks",
]
