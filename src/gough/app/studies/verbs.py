"""The verbs, with files in and files out: what the command line and study files both run.

A verb is a function. Its docstring is the help of the command; its arguments are the options, those
of its settings among them. A verb reads, calls the public function and writes; it never prints.
Results go to files that appear complete or not at all, and nothing existing is overwritten unless
`force`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from gough.core.options import About


class Verb(NamedTuple):
    """A command: the module of its function, and its help."""

    module: str  # in `gough.app.studies`, imported when the verb is used
    help: str  # a summary in one line, details, and an example


VERBS = {
    "import": Verb(
        "importing",
        """Convert a robot of another program (URDF, MJCF, SDF, SYMORO) into a robot file.

        Its loops are closed.

        Example:  gough import robot.urdf --loops robot.yaml -o robot.toml
        """,
    ),
    "log": Verb(
        "log",
        """List what is in a log: topics, columns, rates, and units as far as they can be guessed.

        With a robot, it proposes which column is which joint. With an output, it writes a
        description of the log. A guess is used only after a description states it.

        Example:  gough log run.csv --robot five_bar -o run.toml
        """,
    ),
    "check": Verb(
        "identifying",
        """Assemble a robot and report its mobility, closure, singularities and base parameters.

        With a trajectory or a log, it predicts instead the standard error of every parameter for
        that motion, weakly excited directions, and how large a fault (delay, offset, tilt, ...)
        has to be to be detected.

        Example:  gough check five_bar
        """,
    ),
    "design": Verb(
        "motions",
        """Design the most informative trajectory inside the robot's limits.

        The limits are verified on a ten times finer grid. Ctrl-C ends the search and keeps the
        best trajectory so far; `--resume` goes on from it.

        Example:  gough design five_bar -o trajectory.json
        """,
    ),
    "simulate": Verb(
        "motions",
        """Run the virtual robot along a trajectory and write the log of its controller.

        Example:  gough simulate five_bar --trajectory trajectory.json -o log.csv
        """,
    ),
    "identify": Verb(
        "identifying",
        """Identify a robot from its logs: parameters with uncertainty, and a verdict.

        Example:  gough identify five_bar log.csv --validate other.csv -o result
        """,
    ),
    "diagnose": Verb(
        "identifying",
        """Find faults in logs and robot file: what, where, how large, and what to change.

        Example:  gough diagnose five_bar log.csv --validate other.csv
        """,
    ),
    "payload": Verb(
        "identifying",
        """Estimate the ten parameters of the payload in a log, and which are not observable.

        Example:  gough payload five_bar log.csv
        """,
    ),
    "bounds": Verb(
        "identifying",
        """Enclose the parameters in guaranteed bounds, given the largest error of the efforts.

        Example:  gough bounds five_bar log.csv --error-bound 0.5
        """,
    ),
    "validate": Verb(
        "results",
        """Validate a result on held-out logs, processed like those it was identified from.

        Example:  gough validate result other.csv
        """,
    ),
    "compare": Verb(
        "results",
        """Compare results: which parameters differ significantly, which model predicts which log.

        The first result is the reference. With `--change` or `--error` the comparison fails beyond
        them: the command then ends with exit code 3, and a study stops.

        Example:  gough compare result again --logs other.csv
        """,
    ),
    "report": Verb(
        "results",
        """Write the report of a result: one self-contained HTML file.

        Example:  gough report result
        """,
    ),
    "export": Verb(
        "results",
        """Write a result as controller code, tables, URDF or MJCF.

        Example:  gough export result --to c
        """,
    ),
    "generate": Verb(
        "motions",
        """Write the logs of a virtual fleet: daily pick and place, weather, wear and a few faults.

        Writes the logs, their table, a fleet file, and the fault of each robot (`truth.csv`).

        Example:  gough generate five_bar --robots 4 --days 8 --drifting 1 -o fleet
        """,
    ),
    "fleet": Verb(
        "fleets",
        """Compare the logs of many robots of one kind: differences, drifts and faults.

        The fleet file names the robot and a table of logs (CSV: log, robot, time, temperature);
        its other keys are options.

        Example:  gough fleet fleet/fleet.toml -o fleet/result
        """,
    ),
    "trials": Verb(
        "trials",
        """Run a Monte-Carlo study on virtual robots: do 95 % intervals contain the truth?

        Example:  gough trials five_bar --seeds 2 --periods 3
        """,
    ),
}


def verb(name: str) -> Callable[..., Any]:
    """Return the function of a verb; its module is imported only now."""
    module = import_module(f"gough.app.studies.{VERBS[name].module}")
    function: Callable[..., Any] = getattr(module, _spelled(name))
    return function


def _spelled(name: str) -> str:
    """Return how Python spells the name of a verb: words of its own with an underscore behind."""
    return f"{name}_" if iskeyword(name) else name


# Arguments that several verbs take.


def from_file(help: str) -> About:
    return About(help=help, file=True)


def to_file(help: str) -> About:
    return About(help=help, file=True, short="-o")


Progress = Callable[[float], None]
Robot = Annotated[
    str, from_file("Name of a bundled robot (see `gough robots`) or path of a robot file.")
]
Logs = Annotated[
    Sequence[str],
    from_file(
        "Logs: .csv, .npz, .mat, .parquet, or a folder with a description; log.csv@its.toml has "
        "one of its own."
    ),
]
Folder = Annotated[str, from_file("Folder that `gough identify -o` wrote.")]
DESCRIPTION = "TOML that says which column of a log is which; see the documentation."
Description = Annotated[str | None, from_file(DESCRIPTION)]
Force = Annotated[bool, About(help="Overwrite what is already there.")]


@dataclass(frozen=True)
class Done:
    """What a verb that writes `files` tells: facts for machines, their names unless given, and
    lines for people.
    """

    files: Sequence[Path]
    facts: Mapping[str, Any] | None = None
    lines: Sequence[str] = ()
    next: str = ""  # the command that goes on with the file

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts or {"files": [str(file) for file in self.files]})

    def summary(self) -> str:
        then = f"; next: gough {self.next} " if self.next else ""
        return "\n".join(
            [*self.lines, *(f"wrote {file}{then and then + str(file)}" for file in self.files)]
        )
