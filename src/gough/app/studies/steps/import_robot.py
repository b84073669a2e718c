"""The verb `import`: the robot file of a robot that another program wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gough.app.studies.robot_import import ImportSettings, import_robot
from gough.app.studies.step import (
    Progress,
    Step,
    WrittenFiles,
    force_option,
    output_option,
)
from gough.core.errors import InvalidInput
from gough.core.files import require_free, write_text
from gough.core.options import REQUIRED, nested, option
from gough.mechanism import robot_text
from gough.mechanism.files import FOREIGN_SUFFIXES


@dataclass(frozen=True, kw_only=True)
class ImportStep(Step):
    """Options of `gough import`."""

    file: str = option(
        REQUIRED,
        "The robot: .urdf, .xml (MJCF), .sdf or .par (SYMORO).",
        file=True,
        positional=True,
    )
    settings: ImportSettings = nested(ImportSettings)
    output: str | None = output_option(
        "Robot file to write; the file's name with .toml by default."
    )
    force: bool = force_option()

    def run(self, progress: Progress) -> WrittenFiles:
        """Convert a robot and write the robot file."""
        suffix = Path(self.file).suffix.lower()
        if suffix not in FOREIGN_SUFFIXES:
            raise InvalidInput(
                f"'{self.file}' cannot be converted: expected one of {', '.join(FOREIGN_SUFFIXES)}"
                f"{', not a robot file of Gough' if suffix == '.toml' else ''}"
            )
        target = Path(self.file).with_suffix(".toml")
        if self.output is not None:
            target = Path(self.output)
        require_free(target, self.force)
        text, source = robot_text(self.file)
        description, loops = import_robot(text, source, self.settings)
        write_text(target, description.text)
        mechanism = loops.mechanism
        n_joints = len(mechanism.joints)
        n_loops = len(mechanism.closures) - len(loops.locked)
        facts = {
            "robot": mechanism.name,
            "files": [str(target)],
            "degrees_of_freedom": loops.degrees_of_freedom,
            "motors": list(mechanism.actuated),
            "joints": n_joints,
            "loops": n_loops,
            "assembly": loops.assembly,
            "notes": list(description.notes),
        }
        lines = [
            f"{mechanism.name}: {loops.degrees_of_freedom} degrees of freedom, {n_joints} joints, "
            f"{n_loops} {'loop' if n_loops == 1 else 'loops'}",
            f"  motors     {', '.join(mechanism.actuated)}",
            f"  assembled  {loops.assembly}",
            *(f"  {note}" for note in description.notes),
        ]
        return WrittenFiles([target], facts, lines, next_command="check")
