"""Files without the faults that a diagnosis found: descriptions of logs, and a robot file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gough.app.studies.input_files import expand_patterns
from gough.core.errors import InvalidInput
from gough.core.files import require_free, write_text
from gough.engine import Model
from gough.identification.diagnosis import NamedFault
from gough.logs.description import load_description
from gough.logs.readers import describe_log, log_and_description
from gough.mechanism import robot_text
from gough.verdict.corrections import (
    corrected_description,
    corrected_robot,
    description_text,
)

NOTHING_TO_CORRECT = (
    "nothing was found that a description or a robot file can express; nothing was written"
)


def write_corrected_files(
    model: Model,
    robot: str,
    logs: Sequence[str],
    faults: Sequence[NamedFault],
    *,
    description: str | None,
    gains: Mapping[str, float] | None,
    force: bool,
) -> list[Path]:
    """Write descriptions, or a robot file, that correct some faults, and return their paths.

    They are written beside the old files, `log.corrected.toml` for
    `log.csv`, never over them. A fault of one log is corrected in the
    description of that log only.

    Args:
        model: The robot.
        robot: Name or path of its file.
        logs: Paths, `log.csv@its.toml` with a description of its own.
        faults: What to correct; faults that no file can express are
            left out.
        description: The description of all logs without one of their
            own.
        gains: Drive gains by motor, of logs with currents.
        force: Overwrite earlier corrected files.

    Raises:
        InvalidInput: A fault is in one of several logs of the same
            name.
    """
    log_paths = expand_patterns(logs, description)
    _check_names(log_paths, faults)
    texts = {}
    text, corrected_faults = corrected_robot(robot_text(robot)[0], model, faults)
    if corrected_faults:
        texts[_corrected_path(robot)] = text
    for log_path in log_paths:
        log, file = log_and_description(log_path)
        faults_of_log = faults_in_log(faults, Path(log).name)
        before = load_description(file) if file else describe_log(log)
        after, corrected_faults = corrected_description(before, faults_of_log, gains)
        if corrected_faults:
            is_of_one_log = any(fault.logs for fault in corrected_faults)
            beside = log if file is None or is_of_one_log else file
            texts[_corrected_path(beside)] = description_text(after)
    for path in texts:
        require_free(path, force)
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


def faults_in_log(faults: Sequence[NamedFault], log: str) -> list[NamedFault]:
    """Return the faults of all logs and those of one log, by its name."""
    return [fault for fault in faults if not fault.logs or log in fault.logs]


def _check_names(log_paths: Sequence[str], faults: Sequence[NamedFault]) -> None:
    """Raise if a fault is in one of several logs of the same name."""
    names = [Path(log_and_description(path)[0]).name for path in log_paths]
    for fault in faults:
        for name in fault.logs:
            if names.count(name) > 1:
                raise InvalidInput(
                    f"{names.count(name)} logs are called '{name}', and one of them has the fault "
                    f"'{fault.name}'; give each log a name of its own to correct it"
                )


def _corrected_path(path: str) -> Path:
    """Return `robot.corrected.toml` for `robot.toml`, whatever the suffix was."""
    return Path(path).with_suffix("").with_suffix(".corrected.toml")
