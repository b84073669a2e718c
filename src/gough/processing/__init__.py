"""From log to regression: forward kinematics, filtering, differentiation, averaging, blocks."""

from gough.processing.prepare import Processed, matched, process, regression
from gough.processing.settings import Processing
from gough.processing.stream import condense_log, regression_blocks

__all__ = ["Processed", "Processing", "condense_log", "matched", "process", "regression", "regression_blocks"]
