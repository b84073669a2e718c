"""The verbs: the step and the help of each command.

A verb is run by the command line and by study files. The public
function does the work; the step of a verb declares the options and
reads and writes the files.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from gough.app.studies.step import Step


class Verb(NamedTuple):
    """A command: its step and its help."""

    module: str  # in `gough.app.studies.steps`, imported when the verb is used
    step: str  # class in the module
    help: str  # a summary in one line, details, and an example


VERBS = {
    "import": Verb(
        "import_robot",
        "ImportStep",
        """Convert a robot of another program (URDF, MJCF, SDF, SYMORO) into a robot file.

        Its loops are closed.

        Example:  gough import robot.urdf --loops robot.yaml -o robot.toml
        """,
    ),
    "log": Verb(
        "log",
        "LogStep",
        """List what is in a log: topics, columns, rates, and units as far as they can be guessed.

        With a robot, it proposes which column is which joint. With an output, it writes a
        description of the log. A guess is used only after a description states it.

        Example:  gough log run.csv --robot five_bar -o run.toml
        """,
    ),
    "check": Verb(
        "check",
        "CheckStep",
        """Assemble a robot and report its mobility, closure, singularities and base parameters.

        With a trajectory or a log, it predicts instead the standard error of every parameter for
        that motion, weakly excited directions, and how large a fault (delay, offset, tilt, ...)
        has to be to be detected.

        Example:  gough check five_bar
        """,
    ),
    "design": Verb(
        "design",
        "DesignStep",
        """Design the most informative trajectory inside the robot's limits.

        The limits are verified on a ten times finer grid. Ctrl-C ends the search and keeps the
        best trajectory so far; `--resume` goes on from it.

        Example:  gough design five_bar -o trajectory.json
        """,
    ),
    "simulate": Verb(
        "simulate",
        "SimulateStep",
        """Run the virtual robot along a trajectory and write the log of its controller.

        Example:  gough simulate five_bar --trajectory trajectory.json -o log.csv
        """,
    ),
    "identify": Verb(
        "identify",
        "IdentifyStep",
        """Identify a robot from its logs: parameters with uncertainty, and a verdict.

        Example:  gough identify five_bar log.csv --validate other.csv -o result
        """,
    ),
    "diagnose": Verb(
        "diagnose",
        "DiagnoseStep",
        """Find faults in logs and robot file: what, where, how large, and what to change.

        Example:  gough diagnose five_bar log.csv --validate other.csv
        """,
    ),
    "payload": Verb(
        "payload",
        "PayloadStep",
        """Estimate the ten parameters of the payload in a log, and which are not observable.

        Example:  gough payload five_bar log.csv
        """,
    ),
    "bounds": Verb(
        "bounds",
        "BoundsStep",
        """Enclose the parameters in guaranteed bounds, given the largest error of the efforts.

        Example:  gough bounds five_bar log.csv --error-bound 0.5
        """,
    ),
    "validate": Verb(
        "validate",
        "ValidateStep",
        """Validate a result on held-out logs, processed like those it was identified from.

        Example:  gough validate result other.csv
        """,
    ),
    "compare": Verb(
        "compare",
        "CompareStep",
        """Compare results: which parameters differ significantly, which model predicts which log.

        The first result is the reference. With `--change` or `--error` the comparison fails beyond
        them: the command then ends with exit code 3, and a study stops.

        Example:  gough compare result again --logs other.csv
        """,
    ),
    "report": Verb(
        "report",
        "ReportStep",
        """Write the report of a result: one self-contained HTML file.

        Example:  gough report result
        """,
    ),
    "export": Verb(
        "export",
        "ExportStep",
        """Write a result as controller code, tables, URDF or MJCF.

        Example:  gough export result --to c
        """,
    ),
    "generate": Verb(
        "generate",
        "GenerateStep",
        """Write the logs of a virtual fleet: daily pick and place, weather, wear and a few faults.

        Writes the logs, their table, a fleet file, and the fault of each robot (`truth.csv`).

        Example:  gough generate five_bar --robots 4 --days 8 --drifting 1 -o fleet
        """,
    ),
    "fleet": Verb(
        "fleet",
        "FleetStep",
        """Compare the logs of many robots of one kind: differences, drifts and faults.

        The fleet file names the robot and a table of logs (CSV: log, robot, time, temperature);
        its other keys are options.

        Example:  gough fleet fleet/fleet.toml -o fleet/result
        """,
    ),
    "trials": Verb(
        "trials",
        "TrialsStep",
        """Run a Monte-Carlo study on virtual robots: do 95 % intervals contain the truth?

        Example:  gough trials five_bar --seeds 2 --periods 3
        """,
    ),
}


def step_type(name: str) -> type[Step]:
    """Return the class of a verb's step; its module is imported only now."""
    module = import_module(f"gough.app.studies.steps.{VERBS[name].module}")
    step: type[Step] = getattr(module, VERBS[name].step)
    return step
