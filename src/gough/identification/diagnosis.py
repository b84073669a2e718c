"""The result of a diagnosis: faults with their sizes, and the smallest detectable faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import rounded, text_table
from gough.core.notices import Level, Notice, ResultLevel, level_of, notice_lines
from gough.core.record import Columns, Record

# data on which a correction was tested
HELD_OUT = "held-out logs"
LEFT_OUT = "stretches left out"
NAN = float("nan")
# factor from the SI unit to the unit in messages, and its name
DISPLAY_UNITS = {
    "s": (1e3, "ms"),
    "m": (1e3, "mm"),
    "rad": (180 / np.pi, "deg"),
    "1": (100.0, "%"),
}
MAX_LISTED_PLACES = 6  # of faults that are not detectable
MAX_LISTED_PARAMETERS = 3  # that absorb such a fault
FAULT_COLUMNS = (
    "name",
    "place",
    "size",
    "std",
    "unit",
    "share",
    "before",
    "after",
    "advice",
)


def describe(size: float, unit: str) -> tuple[float, str]:
    """Return a size in the unit of messages: ms, mm, deg, per cent."""
    factor, name = DISPLAY_UNITS.get(unit, (1.0, unit))
    return size * factor, name


def length(size: Sequence[float] | FloatArray) -> float:
    """Return a size as one number: the norm of two (a tilt, a ripple), else the first."""
    if len(size) == 2:
        return float(np.linalg.norm(size))
    return float(size[0])


def size_text(
    size: Sequence[float] | FloatArray,
    sigma: Sequence[float] | FloatArray,
    unit: str,
) -> str:
    """Return a size with its standard error in the unit of messages."""
    magnitude, name = describe(length(size), unit)
    std, _ = describe(float(max(sigma[:2])), unit)
    return " +- ".join(rounded(magnitude, std)) + f" {name}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %" if np.isfinite(fraction) else "-"


def _json_fields(record: object, *names: str) -> dict[str, Any]:
    """Return fields for JSON: tuples become lists, numbers that are not finite None."""
    document = {}
    for name in names:
        entry = getattr(record, name)
        if isinstance(entry, tuple):
            entry = list(entry)
        elif isinstance(entry, float) and not np.isfinite(entry):
            entry = None
        document[name] = entry
    return document


@dataclass(frozen=True, kw_only=True, eq=False)
class Mistake:
    """One fault that explains the residual."""

    name: str  # kind of fault
    place: str  # joint, body or channel
    size: tuple[float, ...] = ()  # SI; empty for a fault without a size
    sigma: tuple[float, ...] = ()  # standard errors of the size
    unit: str = ""  # of the size
    text: str  # in words, with the size
    advice: str  # what to change in which file
    share: float = NAN  # fraction of the residual that it explains
    before: float = NAN  # prediction error over effort; NaN if not known
    after: float = NAN  # the same with the fault corrected
    judged_on: str = HELD_OUT  # data of these errors
    alike: tuple[str, ...] = ()  # faults that explain as much and are not distinguishable from it
    gravity: tuple[float, ...] = ()  # correct gravity of the robot file, if it is about that [m/s2]

    @property
    def sentence(self) -> str:
        """The fault, the effect of its correction, and what to change."""
        return f"{self.explanation}; {self.advice}"

    @property
    def explanation(self) -> str:
        """The fault, others that explain as much, and the effect of its correction."""
        text = self.text
        if self.alike:
            others = ", or ".join(self.alike)
            text += f"; or {others}: these cannot be told apart, look which it is"
        if np.isfinite(self.before) and np.isfinite(self.after):
            error = "error on stretches left out"
            if self.judged_on == HELD_OUT:
                error = "held-out error"
            text += (
                f"; correcting it takes the {error} from {100 * self.before:.3g} to "
                f"{100 * self.after:.3g} %"
            )
        return text

    def notice(self, level: Level = "warning") -> Notice:
        """Return it as a notice."""
        numbers = {
            "share": self.share,
            "before": self.before,
            "after": self.after,
        }
        return Notice(
            rule=self.name,
            level=level,
            where=self.place,
            text=self.explanation.replace(f"{self.place}: ", "", 1),
            advice=self.advice,
            numbers={name: number for name, number in numbers.items() if np.isfinite(number)},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "name": self.name,
            "place": self.place,
            "size": length(self.size) if self.size else 1.0,
            "std": max(self.sigma, default=0.0),
            "unit": self.unit,
            "components": list(self.size),
            "stds": list(self.sigma),
            **_json_fields(
                self,
                "text",
                "advice",
                "share",
                "before",
                "after",
                "judged_on",
                "alike",
            ),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """The smallest fault of a kind that is detectable in these logs."""

    name: str  # kind of fault
    place: str  # joint, body or channel
    unit: str  # of the size
    size: float  # detected in 95 of 100 cases; infinite if not detectable on this motion
    instead: tuple[str, ...] = ()  # parameters that absorb a fault that is not detectable

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return _json_fields(self, "name", "place", "unit", "size", "instead")


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis(Record):
    """Faults in the order they were found, and the smallest detectable ones."""

    robot: str  # its name
    mistakes: tuple[Mistake, ...] = ()  # each with those before it corrected
    limits: tuple[Limit, ...] = ()  # smallest detectable faults
    error: float = NAN  # of predicting the logs as they are; NaN if they could not be processed
    notices: tuple[Notice, ...] = ()  # beside those of the faults

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices and of the faults."""
        return level_of([*self.notices, *(fault.notice() for fault in self.mistakes)])

    @property
    def headline(self) -> str:
        """Robot and number of faults in one sentence."""
        answer = "none of the usual mistakes explains what is left"
        if self.mistakes:
            answer = f"{len(self.mistakes)} mistake(s)"
        return f"Diagnosis of {self.robot}: {answer}"

    @property
    def invisible(self) -> tuple[Limit, ...]:
        """Faults that are not detectable in these logs."""
        return tuple(limit for limit in self.limits if not np.isfinite(limit.size))

    def table(self) -> Columns:
        """Return the faults."""
        rows = [fault.to_dict() for fault in self.mistakes]
        columns = {}
        for name in FAULT_COLUMNS:
            columns[name] = [row[name] for row in rows]
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            **_json_fields(self, "robot", "error"),
            "level": self.level,
            "headline": self.headline,
            "mistakes": [fault.to_dict() for fault in self.mistakes],
            "limits": [limit.to_dict() for limit in self.limits],
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def summary(self) -> str:
        """Return the diagnosis as plain text: faults first, then what is not detectable."""
        lines = [self.headline]
        if self.mistakes:
            lines += [self._fault_table(), ""]
        for k, fault in enumerate(self.mistakes, start=1):
            lines.append(f"  {k}. {fault.sentence}")
        lines += notice_lines(self.notices)
        hidden: dict[str, list[str]] = {}
        for limit in self.invisible:
            hidden.setdefault(limit.name, []).append(limit.place)
        if hidden:
            lines += ["", "Cannot be seen in these logs, so it may be there:"]
        for name, places in hidden.items():
            more = " ..." if len(places) > MAX_LISTED_PLACES else ""
            lines.append(f"  {name} of {', '.join(places[:MAX_LISTED_PLACES])}{more}")
        return "\n".join(lines)

    def _fault_table(self) -> str:
        """Return the faults as a text table."""
        rows = []
        for k, fault in enumerate(self.mistakes, start=1):
            size = size_text(fault.size, fault.sigma, fault.unit) if fault.size else ""
            errors = [
                _percent(fault.share),
                _percent(fault.before),
                _percent(fault.after),
            ]
            rows.append([str(k), fault.name, fault.place, size, *errors])
        header = [
            "",
            "mistake",
            "where",
            "size",
            "explains",
            "error before",
            "after",
        ]
        return text_table(header, rows)


def limits_table(limits: Sequence[Limit]) -> str:
    """Return the smallest detectable faults as a table."""
    rows = []
    for limit in limits:
        size, unit = describe(limit.size, limit.unit)
        detected = f"{size:.3g} {unit}" if np.isfinite(size) else "cannot be seen"
        absorbed = ", ".join(limit.instead[:MAX_LISTED_PARAMETERS])
        rows.append([limit.name, limit.place, detected, absorbed])
    return text_table(["mistake", "where", "noticed from", "taken in by"], rows)
