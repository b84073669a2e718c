"""Judge a result on logs it has not seen, processed as those it was found from.

Example:  gough validate result other.csv
"""

from __future__ import annotations

from gough.identification.validation import Validation, validate_result
from gough.study.common import Description, Folder, Logs
from gough.study.data import load_result, read_logs


def validate(folder: Folder, logs: Logs, *, description: Description = None) -> Validation:
    model, result = load_result(folder)
    return validate_result(model, result, read_logs(logs, description, model))
