"""The fleet file: the robot, the table of its logs, and options."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from gough.app.studies.study_file import STUDY_FORMAT, resolve_paths
from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidRecording, InvalidStudy
from gough.core.files import (
    MAX_TABLE_BYTES,
    MAX_TOML_CHARACTERS,
    read_bytes,
    read_text,
    reading,
    text_encoding,
)
from gough.core.notices import Notice
from gough.core.options import merge_settings, options_of
from gough.core.storage import is_address
from gough.fleets.fleet import FleetSettings
from gough.fleets.history import FleetLog
from gough.logs.datasets import dataset_parts
from gough.logs.readers import log_and_description, log_with_description


class FleetFile(NamedTuple):
    """Content of a fleet file and of its table of logs."""

    robot: str  # robot file or name of a bundled robot
    logs: tuple[FleetLog, ...]
    settings: FleetSettings
    notices: tuple[Notice, ...]  # lines of the table that were left out


class _Header(NamedTuple):
    """The fleet file without its table."""

    folder: Path  # of the fleet file
    robot: str
    table: Path | None  # of logs; None with a dataset
    # folder or address of a Parquet dataset robot=.../day=...
    dataset: str | None
    # time zone of the robots; a line of the table may name another
    zone: ZoneInfo | None
    description: str | None  # of logs without their own
    settings: FleetSettings


def read_fleet_file(file: str, settings: FleetSettings) -> FleetFile:
    """Read a fleet file and its table of logs.

    Args:
        file: The fleet file.
        settings: Those that are not the defaults replace those of the
            file.

    Raises:
        InvalidRecording: Some lines of the table cannot be used, and
            are not to be skipped.
    """
    header = _read_header(file, settings)
    if header.dataset is not None:
        logs = _dataset_logs(header, header.dataset)
        return FleetFile(header.robot, tuple(logs), header.settings, ())
    logs, problems = _read_table(header)
    if problems and header.settings.many.bad == "refuse":
        lines = [f"{place}: {problem}" for place, problem in problems.items()]
        raise InvalidRecording(
            "the table of logs cannot be used as it is:\n  "
            + "\n  ".join(lines)
            + "\nmend it, or leave these out with `bad='skip'`"
        )
    return FleetFile(
        robot=header.robot,
        logs=tuple(logs),
        settings=header.settings,
        notices=tuple(_left_out(place, problem) for place, problem in problems.items()),
    )


def _left_out(place: str, problem: str) -> Notice:
    return Notice(rule="left out", level="info", where=place, text=f"left out: {problem}")


def _read_header(file: str, settings: FleetSettings) -> _Header:
    path = Path(file)
    folder = path.parent
    try:
        content = parse_toml(read_text(path, MAX_TOML_CHARACTERS))
        if content.pop("format", None) != STUDY_FORMAT:
            raise InvalidInput(f"expected 'format = {STUDY_FORMAT}'")
        robot = str(content.pop("robot"))
        table = None
        dataset = content.pop("dataset", None)
        if dataset is None:
            table = folder / str(content.pop("logs"))
        elif not is_address(str(dataset)):
            dataset = str(folder / str(dataset))
        zone = _zone(content.pop("zone", None))
        description = content.pop("description", None)
        merged = _merge(settings, content, folder)
    except KeyError as error:
        raise InvalidStudy(
            f'{file}: {error} is needed: robot = "robot.toml", and logs = "logs.csv" or '
            'dataset = "folder"'
        ) from None
    except InvalidInput as error:
        raise InvalidStudy(f"{file}: {error}") from None
    if os.path.isfile(folder / robot):
        robot = str(folder / robot)
    return _Header(
        folder=folder,
        robot=robot,
        table=table,
        dataset=dataset,
        zone=zone,
        description=str(description) if description else None,
        settings=merged,
    )


def _zone(name: object) -> ZoneInfo | None:
    """Return a time zone by its name, None without one."""
    if name is None:
        return None
    try:
        return ZoneInfo(str(name))
    except (KeyError, OSError, ValueError):  # unknown; a folder of zones; no name of a zone
        raise InvalidInput(
            f"zone is '{name}', expected the name of a time zone such as 'Europe/Berlin'"
        ) from None


def _merge(settings: FleetSettings, content: Mapping[str, Any], folder: Path) -> FleetSettings:
    """Return the settings of a file; settings that are not the defaults replace them."""
    options = resolve_paths(content, options_of(FleetSettings), folder)
    defaults = FleetSettings().to_dict()
    for key, given in settings.to_dict().items():
        if given != defaults[key]:
            options[key] = given
    return merge_settings(FleetSettings, None, options)


def _dataset_logs(header: _Header, dataset: str) -> list[FleetLog]:
    """Return the parts of a dataset as logs, in the days that its folders name."""
    description = header.description
    if description:
        description = str(header.folder / description)
    logs = []
    for part in dataset_parts(dataset):
        midnight = datetime.combine(part.day, time(), header.zone or UTC)
        offset = midnight.utcoffset()
        assert offset is not None
        logs.append(
            FleetLog(
                path=log_with_description(part.log, description),
                robot=part.robot,
                time=midnight.timestamp(),
                utc_offset=offset.total_seconds(),
            )
        )
    return logs


def _read_table(header: _Header) -> tuple[list[FleetLog], dict[str, str]]:
    """Return the logs of a table, each once, and the problems of other lines by place.

    A log under two robots is there for both; the analysis of the fleet
    makes an alert of it.
    """
    table = header.table
    assert table is not None
    content = read_bytes(table, MAX_TABLE_BYTES, InvalidStudy)
    with reading(f"the table of logs '{table}'", "CSV", InvalidStudy):
        text = content.decode(text_encoding(content))
        lines = list(csv.DictReader(io.StringIO(text, newline=""), restval=""))
    logs: dict[tuple[str, str], FleetLog] = {}  # by path and robot
    problems: dict[str, str] = {}
    for number, line in enumerate(lines, start=2):
        try:
            log = _read_line(line, header)
            if logs.setdefault((log.path, log.robot), log) != log:
                raise InvalidInput(f"'{line['log']}' is in the table twice, with different entries")
        except (InvalidInput, ValueError, KeyError, OverflowError) as error:
            problems[f"{table.name} line {number}"] = str(error)
    return list(logs.values()), problems


def _read_line(line: Mapping[str, str], header: _Header) -> FleetLog:
    assert header.table is not None
    folder = header.table.parent
    moment = datetime.fromisoformat(line["time"])
    zone = _zone(line.get("zone") or None) or header.zone
    if moment.tzinfo is None:
        if zone is None:
            raise InvalidInput(
                f"time {line['time']} has no zone; write {line['time']}+01:00, or name one for all "
                'in the fleet file: zone = "Europe/Berlin"'
            )
        moment = moment.replace(tzinfo=zone)
    if zone is not None:
        moment = moment.astimezone(zone)
    offset = moment.utcoffset()
    assert offset is not None
    log, description = log_and_description(line["log"])
    if description is None:
        description = header.description
    if description:
        description = str(folder / description)
    return FleetLog(
        path=log_with_description(log if is_address(log) else folder / log, description or None),
        robot=line["robot"],
        time=moment.timestamp(),
        temperature=float(line.get("temperature") or "nan"),
        utc_offset=offset.total_seconds(),
    )
