"""A step of a study: a verb with its options, run on files.

A step is a frozen dataclass of options: the settings of the public
function, and the files that are read and written. `run` reads the
files, calls the public function, writes its result and returns it. It
never prints. Files appear complete or not at all, and no existing file
is overwritten unless `force`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from gough.core.notices import ResultLevel
from gough.core.options import REQUIRED, Settings, option
from gough.core.progress import Progress as Progress
from gough.logs.formats import log_formats_text

FailOn = Literal["warning", "error"]  # levels of a result that are a failure


class Outcome(Protocol):
    """What a step returns: the result of a public function, or the files that were written."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON can hold it."""
        ...

    def summary(self) -> str:
        """Return the result as text."""
        ...


class Step(Settings):
    """Base of all steps."""

    def run(self, progress: Progress) -> Outcome:
        """Read the files, call the public function, write and return its result."""
        raise NotImplementedError


@dataclass(frozen=True)
class WrittenFiles:
    """Files a step wrote, with text and JSON to print."""

    files: Sequence[Path]  # that were written
    # JSON to print; the names of the files by default
    facts: Mapping[str, Any] | None = None
    lines: Sequence[str] = ()  # text to print before the names of the files
    next_command: str = ""  # a command that takes the file as its argument
    level: ResultLevel = "ok"  # of the result that was written

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, or the names of the files."""
        if self.facts:
            return dict(self.facts)
        return {"files": [str(file) for file in self.files]}

    def summary(self) -> str:
        """Return the lines of text, then one line for each file."""
        lines = list(self.lines)
        for file in self.files:
            hint = f"; next: gough {self.next_command} {file}" if self.next_command else ""
            lines.append(f"wrote {file}{hint}")
        return "\n".join(lines)


def has_failed(outcome: Outcome, fail_on: FailOn | None) -> bool:
    """Return whether a result is beyond thresholds that were given, or of a level to fail on."""
    if not getattr(outcome, "passed", True):
        return True
    level = getattr(outcome, "level", "ok")
    if fail_on == "warning":
        return level in ("warning", "error")
    return fail_on == "error" and level == "error"


# Options that several verbs have.


def robot_argument() -> Any:
    """Declare the robot as the first argument of a command."""
    return option(
        REQUIRED,
        "Name of a bundled robot (see `gough robots`) or path of a robot file.",
        file=True,
        positional=True,
    )


def logs_argument() -> Any:
    """Declare logs as an argument of a command."""
    return option(
        REQUIRED,
        f"Logs: {log_formats_text()}. log.csv@its.toml has a description of its own (write @@ for "
        "an @ in these names).",
        file=True,
        positional=True,
    )


def result_argument() -> Any:
    """Declare the folder of a stored result as an argument of a command."""
    return option(
        REQUIRED,
        "Folder that `gough identify -o` wrote.",
        file=True,
        positional=True,
    )


def description_option() -> Any:
    """Declare the description of the logs."""
    return option(
        None,
        "TOML that says which column of a log is which; see the documentation.",
        file=True,
    )


def output_option(help: str, default: str | None = None) -> Any:
    """Declare the file or folder to write."""
    return option(default, help, file=True, short="-o")


def force_option() -> Any:
    """Declare that existing files may be overwritten."""
    return option(False, "Overwrite what is already there.")


def apply_option() -> Any:
    """Declare that files without the faults that were found are written."""
    return option(
        False,
        "Write corrected descriptions of the logs, or a robot file, beside the old ones, never "
        "over them.",
    )


def fail_on_option() -> Any:
    """Declare from which level of the result on the command fails."""
    return option(
        None,
        "End with exit code 3 if the level of the result is this or worse; a study stops there.",
    )
