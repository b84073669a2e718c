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
from gough.engine import Model
from gough.engine.base import TIE_LEGS
from gough.identification.diagnosis.corrections import corrected_description, corrected_robot, description_text
from gough.identification.diagnosis.diagnose import diagnose as diagnose_logs
from gough.identification.diagnosis.mistakes import Diagnosis, limits_table
from gough.logs.description import load_description
from gough.logs.readers import describe_log
from gough.mechanism import load_robot, robot_text
from gough.study.common import Description, Force, Logs, Robot
from gough.study.data import read_logs


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosed:
    """A diagnosis, whether to show what it could have seen, and the corrected files it wrote."""

    diagnosis: Diagnosis
    limits: bool
    files: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return self.diagnosis.to_dict() | {"files": [str(path) for path in self.files]}

    def summary(self) -> str:
        """Return plain text."""
        text = [self.diagnosis.summary()] + ([limits_table(self.diagnosis.limits)] if self.limits else [])
        return "\n\n".join([*text, *(f"wrote {path}" for path in self.files)])


def diagnose(robot: Robot, logs: Logs, *,
             validate: Annotated[Sequence[str], About(help="Logs to judge corrections on.", file=True)] = (),
             tie_legs: Annotated[bool, About(help=TIE_LEGS)] = False,
             limits: Annotated[bool, About(help="Also list how large each mistake must be to show.")] = False,
             apply: Annotated[bool, About(
                 help="Write a corrected description or robot file beside the old one.")] = False,
             description: Description = None, force: Force = False) -> Diagnosed:
    """Find the usual mistakes; with `apply` write corrected files beside the old ones."""
    model = Model(load_robot(robot))
    recordings = read_logs(logs, description, model)
    found = diagnose_logs(model, recordings, held_out=read_logs(validate, description, model), tie_legs=tie_legs)
    texts = _corrected(robot, logs[0], description, model, found) if apply else {}
    for path in texts:
        require_free(str(path), force)
    for path, text in texts.items():
        write_text(path, text)
    return Diagnosed(diagnosis=found, limits=limits, files=tuple(texts))


def _corrected(robot: str, log: str, description: str | None, model: Model, found: Diagnosis) -> dict[Path, str]:
    """Return corrected files: `robot.toml` -> `robot.corrected.toml`, whatever the suffix was."""
    texts: dict[Path, str] = {}
    changed, done = corrected_robot(robot_text(robot)[0], model, found.mistakes)
    if done:
        texts[_beside(Path(robot))] = changed
    gains = {joint.name: joint.gain for joint in model.mechanism.joints if joint.gain is not None}
    name, _, own = log.partition("@")
    given = own or description
    fresh, mended = corrected_description(load_description(given) if given else describe_log(name), found.mistakes,
                                          gains)
    if mended:
        texts[_beside(Path(given or name))] = description_text(fresh)
    return texts


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name.partition('.')[0]}.corrected.toml")
