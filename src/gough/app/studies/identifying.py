"""Verbs that learn about a robot from its logs, or foresee what a motion will tell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gough.app.identify import identify as identify_robot, identify_logs
from gough.app.studies.data import ROBOT, expanded, read_logs, result_for
from gough.app.studies.run import FORMAT
from gough.app.studies.verbs import (
    DESCRIPTION,
    Description,
    Done,
    Force,
    Logs,
    Progress,
    Robot,
    from_file,
    to_file,
)
from gough.bounding.bounds import BoundsSettings, bounds as bound_parameters
from gough.core.documents import parse_toml, toml_text
from gough.core.errors import InvalidInput
from gough.core.files import require_free, require_free_folder, write_text
from gough.core.options import About, Settings, option
from gough.core.trajectory import load_trajectory
from gough.engine import Check, as_model, check as check_model
from gough.engine.check import CheckSettings
from gough.fitting.estimate import Enclosure
from gough.identification import Identification, IdentifySettings
from gough.identification.diagnosis import limits_table
from gough.identification.many_logs import FactorSettings
from gough.identification.payload import PayloadResult, PayloadSettings, payload as find_payload
from gough.logs.description import load_description
from gough.logs.readers import describe_log, log_and_description
from gough.mechanism import robot_text
from gough.verdict.diagnosis.corrections import (
    corrected_description,
    corrected_robot,
    description_text,
)
from gough.verdict.diagnosis.diagnose import DiagnoseSettings, diagnose as diagnose_logs
from gough.verdict.diagnosis.foresee import Foresight, foresee

STUDY = "study.toml"
AGAIN = "again"  # where a study written beside a result repeats it


def check(
    robot: Robot,
    settings: CheckSettings,
    *,
    trajectory: Annotated[str | None, from_file("Say what this trajectory will tell.")] = None,
    log: Annotated[str | None, from_file("Say what the motion of this log tells.")] = None,
    description: Description = None,
    periods: Annotated[int, About(help="Repetitions of that motion to reckon with.", least=1)] = 10,
) -> Check | Foresight:
    """Do what `gough check` does; see `VERBS`."""
    model = as_model(robot)
    if trajectory is not None and log is not None:
        raise InvalidInput("a trajectory and a log are given; look at one of the two")
    if trajectory is None and log is None:
        return check_model(model, settings)
    motion = (
        read_logs([log], description, model)[0]
        if log is not None
        else load_trajectory(str(trajectory), robot=model.mechanism.name)
    )
    return foresee(model, motion, periods=periods, tie_legs=settings.tie_legs)


@dataclass(frozen=True, kw_only=True)
class OtherLogs(Settings):
    """Logs beside those that are identified from, and how to read all."""

    loaded: Sequence[str] = option((), "Logs with a known payload.", file=True)
    validate: Sequence[str] = option((), "Logs to validate on, not used otherwise.", file=True)
    description: str | None = option(None, DESCRIPTION, file=True)


def identify(
    robot: Robot,
    logs: Logs,
    settings: IdentifySettings,
    many: FactorSettings,
    *,
    other: OtherLogs,
    output: Annotated[str | None, to_file("Folder for the result.")] = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Identification:
    """Do what `gough identify` does; see `VERBS`."""
    folder = None if output is None else require_free_folder(output, force)
    model = as_model(robot)
    description, held_out = other.description, read_logs(other.validate, other.description, model)
    spread = many.work.parallel or many.factors is not None
    if spread and other.loaded:
        raise InvalidInput(
            "logs with a payload to find drive gains by are identified in memory; leave out "
            "`workers`, "
            "`cluster` and `factors`"
        )
    if spread:
        result = identify_logs(
            robot,
            expanded(logs, description),
            settings,
            work=many,
            held_out=held_out,
            progress=progress,
        )
    else:
        loaded = read_logs(other.loaded, description, model)
        result = identify_robot(
            model,
            read_logs(logs, description, model),
            settings,
            loaded=loaded,
            held_out=held_out,
            progress=progress,
        )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        text, source = robot_text(robot)
        beside = {f"{ROBOT}{Path(source).suffix or '.toml'}": text}
        if _may_write_study(folder / STUDY):

            def seen(paths: Sequence[str]) -> list[str]:
                return [
                    "@".join(os.path.relpath(part, folder) for part in path.split("@"))
                    for path in paths
                ]

            step = {
                "logs": seen(logs),
                "loaded": seen(other.loaded) or None,
                "validate": seen(other.validate) or None,
                "description": description and seen([description])[0],
                **settings.to_dict(),
                "output": AGAIN,
                **({"bad": many.bad, "workers": 1} if spread else {}),
            }
            beside[STUDY] = toml_text(
                {
                    "format": FORMAT,
                    "robot": next(iter(beside)),
                    "identify": {key: value for key, value in step.items() if value is not None},
                }
            )
        result.save(folder, beside=beside)
    return result


def _may_write_study(path: Path) -> bool:
    """Tell whether no study is there, or one that an earlier identification wrote; a demo's or a
    user's own stays.
    """
    if not path.exists():
        return True
    try:
        content = parse_toml(path.read_text(encoding="utf-8-sig"))
    except (InvalidInput, UnicodeDecodeError):
        return False
    step = content.get("identify")
    return (
        set(content) == {"format", "robot", "identify"}
        and isinstance(step, dict)
        and step.get("output") == AGAIN
    )


def diagnose(
    robot: Robot,
    logs: Logs,
    settings: DiagnoseSettings,
    *,
    validate: Annotated[Sequence[str], from_file("Logs to judge corrections on.")] = (),
    description: Description = None,
    limits: Annotated[
        bool, About(help="Also list how large each mistake must be to show.")
    ] = False,
    apply: Annotated[
        bool,
        About(
            help="Write corrected descriptions of the logs, or a robot file, beside the old ones, "
            "never over "
            "them."
        ),
    ] = False,
    force: Force = False,
) -> Done:
    """Do what `gough diagnose` does; see `VERBS`."""
    model = as_model(robot)
    recordings = read_logs(logs, description, model)
    found = diagnose_logs(
        model, recordings, settings, held_out=read_logs(validate, description, model)
    )
    texts: dict[str, str] = {}
    if apply:
        changed, done = corrected_robot(robot_text(robot)[0], model, found.mistakes)
        if done:
            texts[robot] = changed
        gains = {
            joint.name: joint.gain for joint in model.mechanism.joints if joint.gain is not None
        }
        for log, own in map(log_and_description, (*logs, *validate)):
            given = own or description
            known = load_description(given) if given else describe_log(log)
            fresh, mended = corrected_description(
                known, found.mistakes, gains | dict(settings.gains or {})
            )
            if mended:
                texts[given or log] = description_text(fresh)
    # `robot.toml` -> `robot.corrected.toml`, whatever the suffix was
    files = {
        Path(old).with_suffix("").with_suffix(".corrected.toml"): text
        for old, text in texts.items()
    }
    for path in files:
        require_free(path, force)
    for path, text in files.items():
        write_text(path, text)
    lines = [found.summary(), *(["", limits_table(found.limits)] if limits else [])]
    if apply and not files:
        lines += [
            "",
            "nothing was found that a description or a robot file can express; nothing was written",
        ]
    return Done([*files], found.to_dict() | {"files": [str(path) for path in files]}, lines)


def payload(
    robot: Robot,
    logs: Logs,
    settings: PayloadSettings,
    *,
    model: Annotated[
        str | None,
        from_file(
            "Folder of `gough identify`: model, processing and drive gains of the unloaded robot; "
            "the robot file's "
            "by default."
        ),
    ] = None,
    description: Description = None,
) -> PayloadResult:
    """Do what `gough payload` does; see `VERBS`."""
    known = as_model(robot)
    result = result_for(known, model)
    return find_payload(known, read_logs(logs, description, known), settings, result=result)


def bounds(
    robot: Robot,
    logs: Logs,
    settings: BoundsSettings,
    *,
    model: Annotated[
        str | None, from_file("Folder of `gough identify` whose processing and drive gains to use.")
    ] = None,
    description: Description = None,
    output: Annotated[str | None, to_file("Write the box (.json).")] = None,
    force: Force = False,
) -> Enclosure:
    """Do what `gough bounds` does; see `VERBS`."""
    require_free(output, force)
    known = as_model(robot)
    result = result_for(known, model)
    box = bound_parameters(known, read_logs(logs, description, known), settings, result=result)
    if output is not None:
        box.save(output)
    return box
