"""The errors of Gough.

Every message says what is the case, what was expected and what to try.
The numbers in a message are also attributes of the error.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMES = 12  # valid names listed in a message


class GoughError(Exception):
    """Base of all errors that Gough raises on purpose."""

    def __init__(self, message: str, **numbers: object) -> None:
        super().__init__(message)
        self.numbers = numbers

    def __getattr__(self, name: str) -> object:
        try:
            return self.__dict__["numbers"][name]
        except KeyError:
            raise AttributeError(name) from None


class InvalidMechanism(GoughError):
    """The robot file does not describe a mechanism."""


class LoopNotClosed(GoughError):
    """A loop cannot be closed; has `loop`, `sample`, `time` and `residual`."""


class SingularConfiguration(GoughError):
    """The closures lose rank; has `sample`, `time` and `singular_value`."""


class InvalidRecording(GoughError):
    """A log cannot be read as requested."""


class InvalidTrajectory(GoughError):
    """A trajectory does not fit the robot or the request."""


class InvalidInput(GoughError):
    """An argument is outside the range that a function accepts."""


class NotIdentifiable(GoughError):
    """The data or the model cannot determine a requested parameter."""


class NotConverged(GoughError):
    """An iteration stopped before reaching its tolerance."""


class InconsistentData(GoughError):
    """Data contradict each other or the given bounds."""


class InfeasibleDesign(GoughError):
    """No trajectory satisfies the limits."""


class SimulationFailed(GoughError):
    """The virtual robot left the region where its equations hold."""


class InvalidStudy(GoughError):
    """A study file cannot be run."""


class MissingLibrary(InvalidInput):
    """An optional library is not installed; says nothing about the data that need it."""


class StorageFault(GoughError):
    """A store of files failed while it was read; says nothing about the files."""


class OutputError(GoughError):
    """A result could not be written."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" with the closest valid name, or the list of valid names.

    Upper and lower case are not distinguished.
    """
    names = sorted(valid)
    by_lower_case = {valid_name.lower(): valid_name for valid_name in names}
    close = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{by_lower_case[close[0]]}'?"
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMES])
    dots = ", ..." if len(names) > MOST_NAMES else ""
    return f"; valid names: {shown}{dots}"
