"""Find the usual mistakes in logs and robot file: what, where, how large, and what to change.

Example:  gough diagnose five_bar log.csv --validate other.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from gough.core.files import require_free, write_text
from gough.core.options import About
from gough.engine import as_model
from gough.identification.diagnosis.corrections import corrected_description, corrected_robot, description_text
from gough.identification.diagnosis.diagnose import DiagnoseSettings, diagnose as diagnose_logs
from gough.identification.diagnosis.mistakes import Diagnosis, limits_table
from gough.logs.description import load_description
from gough.logs.readers import describe_log, log_and_description
from gough.mechanism import robot_text
from gough.study.common import Description, Force, Logs, Robot
from gough.study.data import read_logs


@dataclass(frozen=True, kw_only=True)
class Diagnosed:
    """A diagnosis and the corrected files that were written beside the old ones, if that was asked for (`applied`)."""

    diagnosis: Diagnosis
    files: tuple[Path, ...] = ()
    limits: bool = False
    applied: bool = False

    def to_dict(self) -> dict[str, Any]:
        return self.diagnosis.to_dict() | {"files": [str(path) for path in self.files]}

    def summary(self) -> str:
        lines = [self.diagnosis.summary(), *(["", limits_table(self.diagnosis.limits)] if self.limits else [])]
        if self.applied and not self.files:
            lines += ["", "nothing was found that a description or a robot file can express; nothing was written"]
        return "\n".join([*lines, *(f"wrote {path}" for path in self.files)])


def diagnose(robot: Robot, logs: Logs, settings: DiagnoseSettings, *,
             validate: Annotated[Sequence[str], About(help="Logs to judge corrections on.", file=True)] = (),
             description: Description = None,
             limits: Annotated[bool, About(help="Also list how large each mistake must be to show.")] = False,
             apply: Annotated[bool, About(
                 help="Write corrected descriptions of the logs, or a robot file, beside the old ones, never over "
                      "them.")] = False,
             force: Force = False) -> Diagnosed:
    model = as_model(robot)
    recordings = read_logs(logs, description, model)
    found = diagnose_logs(model, recordings, settings, held_out=read_logs(validate, description, model))
    texts: dict[Path, str] = {}
    if apply:
        changed, done = corrected_robot(robot_text(robot)[0], model, found.mistakes)
        if done:
            texts[_beside(Path(robot))] = changed
        gains = {joint.name: joint.gain for joint in model.mechanism.joints if joint.gain is not None}
        for log, own in map(log_and_description, (*logs, *validate)):
            given = own or description
            known = load_description(given) if given else describe_log(log)
            fresh, mended = corrected_description(known, found.mistakes, gains | dict(settings.gains or {}))
            if mended:
                texts[_beside(Path(given or log))] = description_text(fresh)
    for path in texts:
        require_free(path, force)
    for path, text in texts.items():
        write_text(path, text)
    return Diagnosed(diagnosis=found, files=tuple(texts), limits=limits, applied=apply)


def _beside(path: Path) -> Path:
    """Return where a corrected file goes: `robot.toml` -> `robot.corrected.toml`, whatever the suffix was."""
    return path.with_suffix("").with_suffix(".corrected.toml")
