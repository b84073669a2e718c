"""What can go wrong, with its numbers and a way out.

Every message says what is, what was expected and what to try; every error carries its numbers as
attributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class GoughError(Exception):
    """Base of all errors Gough raises on purpose; the numbers behind the message are attributes,
    too.
    """

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
    """A loop stays open: carries loop, sample, time, residual."""


class SingularConfiguration(GoughError):
    """The closures lose rank: carries sample, time, singular_value."""


class InvalidRecording(GoughError):
    """A log that cannot be read as asked."""


class InvalidTrajectory(GoughError):
    """A trajectory that does not fit the robot or the request."""


class InvalidInput(GoughError):
    """An argument outside what the function accepts."""


class NotIdentifiable(GoughError):
    """The data or the model cannot determine what was asked."""


class NotConverged(GoughError):
    """An iteration stopped before reaching its tolerance."""


class InconsistentData(GoughError):
    """Data that contradict each other or the stated bounds."""


class InfeasibleDesign(GoughError):
    """No trajectory satisfies the limits."""


class SimulationFailed(GoughError):
    """The virtual robot left the region where its equations hold."""


class InvalidStudy(GoughError):
    """A study file that cannot be run."""


class OutputError(GoughError):
    """A result could not be written."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the closest valid name, capitals or not, or the list of
    valid names.
    """
    names = sorted(valid)
    small = {valid_name.lower(): valid_name for valid_name in names}
    close = get_close_matches(name.lower(), small, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{small[close[0]]}'?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"; valid names: {shown}" if names else ""
