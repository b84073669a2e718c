"""The verb for many robots of one kind, and the file that names their logs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from gough.app.report.fleet_report import fleet_page
from gough.app.studies.run import FORMAT, resolved
from gough.app.studies.verbs import Force, Progress, from_file, to_file
from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidRecording, InvalidStudy, OutputError
from gough.core.files import replace_atomically, require_free_folder, write_text
from gough.core.notices import Notice, ordered
from gough.core.options import merge_settings, options_of
from gough.fleets.fleet import Fleet, FleetSettings, fleet as look_at_fleet
from gough.fleets.history import FleetLog


def fleet(
    file: Annotated[str, from_file("Fleet file (TOML): robot, logs, and options.")],
    settings: FleetSettings,
    *,
    output: Annotated[str | None, to_file("Folder for tables and page.")] = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Fleet:
    """Do what `gough fleet` does; see `VERBS`."""
    folder = None if output is None else require_free_folder(output, force)
    kind = read_fleet(file, settings)
    found = look_at_fleet(kind.robot, kind.logs, kind.settings, progress=progress)
    found = replace(found, notices=ordered((*kind.notices, *found.notices)))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns in found.tables().items():
            _write_table(folder / name, columns)
        write_text(folder / "fleet.html", fleet_page(found))
    return found


class FleetFile(NamedTuple):
    """What a fleet file says: robot file, logs, settings, and lines of its table that were left
    out.
    """

    robot: str
    logs: tuple[FleetLog, ...]
    settings: FleetSettings
    notices: tuple[Notice, ...]


def read_fleet(file: str, settings: FleetSettings) -> FleetFile:
    """Read a fleet file and its table of logs; settings that are not the defaults win over the
    file's.

    Lines of the table that cannot be used are refused, all of them named, unless they are to be
    skipped.
    """
    path = Path(file)
    try:
        content = parse_toml(path.read_text(encoding="utf-8-sig"))
        if content.pop("format", None) != FORMAT:
            raise InvalidInput(f"expected 'format = {FORMAT}'")
        robot, table = str(content.pop("robot")), path.parent / str(content.pop("logs"))
        zone, description = content.pop("zone", None), content.pop("description", None)
        usual = FleetSettings().to_dict()
        asked = {key: value for key, value in settings.to_dict().items() if value != usual[key]}
        chosen = merge_settings(
            FleetSettings, None, resolved(content, options_of(FleetSettings), path.parent) | asked
        )
    except KeyError as error:
        raise InvalidStudy(
            f'{file}: {error} is needed: robot = "robot.toml", logs = "logs.csv"'
        ) from None
    except (OSError, InvalidInput, UnicodeDecodeError) as error:
        raise InvalidStudy(f"{file}: {error}") from None
    found, wrong = dict[str, FleetLog](), dict[str, str]()
    try:
        with open(table, encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.DictReader(stream, restval=""))
    except OSError as error:
        raise InvalidStudy(
            f"the table of logs '{table}' cannot be read: {error.strerror}"
        ) from None
    for number, line in enumerate(lines, start=2):
        try:
            log = _log(line, table.parent, None if zone is None else str(zone), description)
            if found.setdefault(log.path, log) != log:
                raise InvalidInput(f"'{line['log']}' stands in the table twice, and not alike")
        except (InvalidInput, ValueError, KeyError) as error:
            wrong[f"{table.name} line {number}"] = str(error)
    if wrong and chosen.many.bad == "refuse":
        raise InvalidRecording(
            "the table of logs cannot be used as it is:\n  "
            + "\n  ".join(f"{place}: {why}" for place, why in wrong.items())
            + "\nmend it, or leave these out with `bad='skip'`"
        )
    here = path.parent / robot
    return FleetFile(
        robot=str(here) if here.is_file() else robot,
        logs=tuple(found.values()),
        settings=chosen,
        notices=tuple(
            Notice(rule="left out", level="info", where=place, text=f"left out: {reason}")
            for place, reason in wrong.items()
        ),
    )


def _log(line: Mapping[str, str], folder: Path, zone: str | None, description: object) -> FleetLog:
    when = datetime.fromisoformat(line["time"])
    if when.tzinfo is None:
        if zone is None:
            raise InvalidInput(
                f"time {line['time']} has no zone; write {line['time']}+01:00, or name one for all "
                f"in "
                'the fleet file: zone = "Europe/Berlin"'
            )
        when = when.replace(tzinfo=ZoneInfo(zone))
    own = "@".join(str(folder / part) for part in line["log"].split("@"))
    described = (
        f"{own}@{folder / str(description)}" if description and "@" not in line["log"] else own
    )
    return FleetLog(
        path=described,
        robot=line["robot"],
        time=when.timestamp(),
        temperature=float(line.get("temperature") or "nan"),
    )


def _write_table(path: Path, columns: Mapping[str, list[Any]]) -> None:
    """Write a table as Parquet, or as CSV where pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows([list(columns), *zip(*columns.values())])
        write_text(path.with_suffix(".csv"), text.getvalue())
        return
    import pyarrow
    from pyarrow import parquet

    try:
        with replace_atomically(path.with_suffix(".parquet")) as stream:
            parquet.write_table(pyarrow.table(dict(columns)), stream)
    except pyarrow.ArrowException as error:
        raise OutputError(f"cannot write '{path}': {error}", path=str(path)) from None
