"""Logs and results that steps read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.files import locate_written
from gough.core.progress import tracked
from gough.core.storage import is_address, matching_files
from gough.engine import Model, as_model
from gough.identification.result import Identification, load_identification
from gough.logs.readers import log_and_description, log_with_description, read_recording
from gough.logs.recording import Recording
from gough.processing.matching import on_motor_side

ROBOT_STEM = "robot"  # stem of the robot file beside a result


def load_result(folder: str) -> tuple[Model, Identification]:
    """Return the robot and the result stored in a folder."""
    result = load_identification(folder)
    robot = f"{ROBOT_STEM}.toml"
    for name in result.beside:
        if Path(name).stem == ROBOT_STEM:
            robot = name
            break
    return as_model(locate_written(folder, robot)), result


def load_result_of(model: Model, folder: str | None) -> Identification | None:
    """Return the result stored in a folder, if one is given; it must be of this robot."""
    if folder is None:
        return None
    result = load_identification(folder)
    if result.robot != model.mechanism.name:
        raise InvalidInput(
            f"'{folder}' is a model of '{result.robot}', not of '{model.mechanism.name}'"
        )
    return result


def expand_patterns(paths: Sequence[str], description: str | None) -> list[str]:
    """Replace patterns such as `logs/*.parquet` by the files they match.

    Each log is returned as `log.csv@description.toml` where it has a
    description.
    """
    expanded = []
    for path in paths:
        pattern, own_description = log_and_description(path)
        matches = [pattern]
        if not os.path.lexists(pattern) and set(pattern) & set("*?["):
            if is_address(pattern):
                matches = matching_files(pattern)
            else:
                matches = sorted(glob(pattern, recursive=True))
            if not matches:
                raise InvalidRecording(
                    f"no file is called '{pattern}'; check the folder and the pattern"
                )
        used = own_description or description
        expanded += [log_with_description(match, used) for match in matches]
    return expanded


def read_logs(paths: Sequence[str], description: str | None, model: Model) -> list[Recording]:
    """Read logs; each may have its own description as `log.csv@description.toml`."""
    mechanism = model.mechanism
    recordings = []
    for path in tracked(expand_patterns(paths, description)):
        recording = on_motor_side(read_recording(*log_and_description(path)), mechanism)
        missing = [name for name in mechanism.actuated if name not in recording.joints]
        if missing:
            raise InvalidRecording(
                f"{recording.source}: '{mechanism.name}' has a motor '{missing[0]}', and the log "
                f"has only {', '.join(recording.joints)}; is it a log of this robot?",
                source=recording.source,
            )
        recordings.append(recording)
    return recordings
