"""The logs and results that verbs read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.files import locate_written
from gough.engine import Model, as_model
from gough.identification import Identification, load_identification
from gough.logs.readers import log_and_description, read_recording
from gough.logs.recording import Recording
from gough.processing import on_motor_side

ROBOT = "robot"  # stem of the robot file beside a result


def load_result(folder: str) -> tuple[Model, Identification]:
    """Return the robot and the result stored in a folder."""
    result = load_identification(folder)
    robot = next((name for name in result.beside if Path(name).stem == ROBOT), f"{ROBOT}.toml")
    return as_model(locate_written(folder, robot)), result


def result_for(robot: Model, folder: str | None) -> Identification | None:
    """Return the result stored in a folder, if one is named, which must be of this robot."""
    result = None if folder is None else load_identification(folder)
    if result is not None and result.robot != robot.mechanism.name:
        raise InvalidInput(
            f"'{folder}' is a model of '{result.robot}', not of '{robot.mechanism.name}'"
        )
    return result


def expanded(paths: Sequence[str], description: str | None) -> list[str]:
    """Return paths with patterns such as `logs/*.parquet` replaced by what they match, each with
    its description.
    """
    found = []
    for path in paths:
        pattern, own = log_and_description(path)
        matches = [pattern]
        if not os.path.lexists(pattern) and set(pattern) & set("*?["):
            matches = sorted(glob(pattern, recursive=True))
            if not matches:
                raise InvalidRecording(
                    f"no file is called '{pattern}'; check the folder and the pattern"
                )
        found += [
            f"{match}@{own or description}" if own or description else match for match in matches
        ]
    return found


def read_logs(paths: Sequence[str], description: str | None, model: Model) -> list[Recording]:
    """Read logs; each may carry its own description as `log.csv@description.toml`."""
    recordings = []
    for path in expanded(paths, description):
        recording = on_motor_side(read_recording(*log_and_description(path)), model.mechanism)
        missing = [name for name in model.mechanism.actuated if name not in recording.joints]
        if missing:
            raise InvalidRecording(
                f"{recording.source}: '{model.mechanism.name}' has a motor '{missing[0]}', and the "
                f"log has only "
                f"{', '.join(recording.joints)}; is it a log of this robot?",
                source=recording.source,
            )
        recordings.append(recording)
    return recordings
