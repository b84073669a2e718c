"""The verb `generate`: the logs of a virtual fleet."""

from __future__ import annotations

from dataclasses import dataclass

from gough.app.studies.step import (
    Progress,
    Step,
    WrittenFiles,
    force_option,
    output_option,
    robot_argument,
)
from gough.app.studies.virtual_fleet import write_virtual_fleet
from gough.core.files import require_free_folder
from gough.core.options import option


@dataclass(frozen=True, kw_only=True)
class GenerateStep(Step):
    """Options of `gough generate`."""

    robot: str = robot_argument()
    output: str = output_option("Folder for everything it makes.", "fleet")
    robots: int = option(50, "How many robots.", least=3)
    days: int = option(30, "Days, a log each.", least=2)
    drifting: int = option(4, "Robots whose Coulomb friction drifts.", least=0)
    seed: int = option(0, "Seed of the random generator.", least=0)
    force: bool = force_option()

    def run(self, progress: Progress) -> WrittenFiles:
        """Write the logs of a virtual fleet."""
        files = write_virtual_fleet(
            self.robot,
            require_free_folder(self.output, self.force),
            robots=self.robots,
            days=self.days,
            drifting=self.drifting,
            seed=self.seed,
            progress=progress,
        )
        return WrittenFiles(files)
