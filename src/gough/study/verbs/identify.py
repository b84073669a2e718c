"""Identify a robot from its logs: parameters with uncertainty, and a verdict.

Example:  gough identify five_bar log.csv --validate other.csv -o result
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gough.core.documents import parse_toml, toml_text
from gough.core.errors import InvalidInput
from gough.core.files import require_free_folder
from gough.core.options import About, Settings, option
from gough.engine import as_model
from gough.identification import Identification, IdentifySettings, identify as identify_robot
from gough.identification.many import FactorSettings, identify_logs
from gough.mechanism import robot_text
from gough.study.common import DESCRIPTION, Force, Logs, Progress, Robot
from gough.study.data import ROBOT, expanded, read_logs, seen_from
from gough.study.run import FORMAT

STUDY = "study.toml"
AGAIN = "again"  # where a study written beside a result repeats it


@dataclass(frozen=True, kw_only=True)
class OtherLogs(Settings):
    """Logs beside those that are identified from, and how to read all."""

    loaded: Sequence[str] = option((), "Logs with a known payload.", file=True)
    validate: Sequence[str] = option((), "Logs to validate on, not used otherwise.", file=True)
    description: str | None = option(None, DESCRIPTION.help, file=True)


def identify(robot: Robot, logs: Logs, settings: IdentifySettings, many: FactorSettings, *, other: OtherLogs,
             output: Annotated[str | None, About(help="Folder for the result.", file=True, short="-o")] = None,
             force: Force = False, progress: Progress | None = None) -> Identification:
    folder = None if output is None else require_free_folder(output, force)
    model = as_model(robot)
    description, held_out = other.description, read_logs(other.validate, other.description, model)
    spread = many.work.spread or many.factors is not None
    if spread and other.loaded:
        raise InvalidInput("logs with a payload to find drive gains by are identified in memory; leave out `workers`, "
                           "`cluster` and `factors`")
    if spread:
        result = identify_logs(robot, expanded(logs, description), settings, work=many, held_out=held_out,
                               progress=progress)
    else:
        loaded = read_logs(other.loaded, description, model)
        result = identify_robot(model, read_logs(logs, description, model), settings, loaded=loaded,
                                held_out=held_out, progress=progress)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        text, source = robot_text(robot)
        kept = f"{ROBOT}{Path(source).suffix or '.toml'}"
        beside = {kept: text}
        if _may_write_study(folder / STUDY):
            step = {"logs": seen_from(folder, logs), "loaded": seen_from(folder, other.loaded) or None,
                    "validate": seen_from(folder, other.validate) or None,
                    "description": None if description is None else seen_from(folder, [description])[0],
                    **settings.to_dict(), "output": AGAIN, **({"bad": many.bad, "workers": 1} if spread else {})}
            beside[STUDY] = toml_text({"format": FORMAT, "robot": kept, "identify": {
                key: value for key, value in step.items() if value is not None}})
        result.save(folder, beside=beside)
    return result


def _may_write_study(path: Path) -> bool:
    """Tell whether no study is there, or one that an earlier identification wrote; a demo's or a user's own stays."""
    if not path.exists():
        return True
    try:
        content = parse_toml(path.read_text(encoding="utf-8-sig"))
    except (InvalidInput, UnicodeDecodeError):
        return False
    step = content.get("identify")
    return set(content) == {"format", "robot", "identify"} and isinstance(step, dict) and step.get("output") == AGAIN
