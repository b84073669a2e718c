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
MAX_HEADLINE_FAULTS = 2
FAULT_COLUMNS = ("name", "place", "size", "std", "unit", "before", "after", "advice")


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
class NamedFault:
    """One fault of a log or of the robot file that the data show."""

    name: str  # kind of fault
    place: str  # joint, body or channel
    logs: tuple[str, ...] = ()  # logs it is in; empty for all
    size: tuple[float, ...] = ()  # SI; empty for a fault without a size
    std: tuple[float, ...] = ()  # standard errors of the size
    unit: str = ""  # of the size
    text: str  # in words, with the size
    advice: str  # what to change in which file
    level: Level = "warning"  # of its notice
    before: float = NAN  # error of predicting blocks left out, over the effort
    after: float = NAN  # the same with the fault corrected
    # blocks predicted better with it, of how many
    better_blocks: tuple[int, int] = (0, 0)
    equivalents: tuple[str, ...] = ()  # faults that explain as much, in words
    # correct gravity of the robot file, if it is about that [m/s2]
    gravity: tuple[float, ...] = ()

    @property
    def evidence(self) -> str:
        """How much better the data are predicted without the fault, in words."""
        if not (np.isfinite(self.before) and np.isfinite(self.after)):
            return ""
        sentence = (
            f"with it corrected the error of predicting parts left out falls from "
            f"{100 * self.before:.3g} to {100 * self.after:.3g} % of the effort"
        )
        better, blocks = self.better_blocks
        return f"{sentence} (better in {better} of {blocks})" if blocks else sentence

    @property
    def sentence(self) -> str:
        """The fault, the evidence and what to do, in words."""
        notice = self.notice()
        return f"{notice.text}; {notice.advice}"

    def notice(self) -> Notice:
        """Return it as a notice."""
        text = self.text
        if self.equivalents:
            others = "; or ".join(self.equivalents)
            text = f"one of these: {text}; or {others}"
        if self.evidence:
            text += f". Evidence: {self.evidence}"
        numbers = {"before": self.before, "after": self.after}
        if self.size:
            numbers["size"] = length(self.size)
            numbers["std"] = max(self.std, default=0.0)
        where = self.place
        if self.logs:
            logs = ", ".join(self.logs)
            where = logs if self.place in self.logs else f"{logs}: {self.place}"
        return Notice(
            rule=self.name,
            level=self.level,
            where=where,
            text=text,
            advice=self.advice,
            numbers={name: number for name, number in numbers.items() if np.isfinite(number)},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "name": self.name,
            "place": self.place,
            "size": length(self.size) if self.size else None,
            "std": max(self.std, default=0.0),
            "unit": self.unit,
            "components": list(self.size),
            "stds": list(self.std),
            **_json_fields(
                self, "text", "advice", "level", "logs", "before", "after", "equivalents"
            ),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """The smallest fault of a kind that is detectable in these logs."""

    name: str  # kind of fault
    place: str  # joint, body or channel
    unit: str  # of the size
    # detected in 95 of 100 cases; infinite if not detectable on this
    # motion
    size: float
    # parameters that absorb a fault that is not detectable
    instead: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return _json_fields(self, "name", "place", "unit", "size", "instead")


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis(Record):
    """Faults in the order they were found, and the smallest detectable ones."""

    robot: str  # its name
    # those that the data show, the clearest first
    faults: tuple[NamedFault, ...] = ()
    limits: tuple[Limit, ...] = ()  # smallest detectable faults
    # of predicting parts left out; NaN if the logs could not be
    # processed
    error: float = NAN
    unexplained: float = NAN  # of it, above noise, with all faults corrected
    notices: tuple[Notice, ...] = ()  # beside those of the faults

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices and of the faults."""
        return level_of([*self.notices, *(fault.notice() for fault in self.faults)])

    @property
    def headline(self) -> str:
        """Robot and number of faults in one sentence."""
        answer = "the data show none of the known faults"
        if len(self.faults) == 1:
            answer = "one fault"
        elif self.faults:
            answer = f"{len(self.faults)} faults"
        return f"Diagnosis of {self.robot}: {answer}"

    @property
    def causes(self) -> list[str]:
        """The faults that are warnings or errors, in short sentences for a headline."""
        doubtful = [fault for fault in self.faults if fault.level != "info"]
        sentences = []
        for fault in doubtful[:MAX_HEADLINE_FAULTS]:
            place = f" ({', '.join(fault.logs)})" if fault.logs else ""
            alternatives = ", or what predicts as well" if fault.equivalents else ""
            sentences.append(f"{fault.text}{place}{alternatives}")
        n_others = len(doubtful) - len(sentences)
        if n_others > 0:
            sentences.append(f"and {n_others} more")
        return sentences

    @property
    def invisible(self) -> tuple[Limit, ...]:
        """Faults that are not detectable in these logs."""
        return tuple(limit for limit in self.limits if not np.isfinite(limit.size))

    def table(self) -> Columns:
        """Return the faults."""
        rows = [fault.to_dict() for fault in self.faults]
        columns = {}
        for name in FAULT_COLUMNS:
            columns[name] = [row[name] for row in rows]
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            **_json_fields(self, "robot", "error", "unexplained"),
            "level": self.level,
            "headline": self.headline,
            "faults": [fault.to_dict() for fault in self.faults],
            "limits": [limit.to_dict() for limit in self.limits],
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def summary(self) -> str:
        """Return the diagnosis as plain text: faults first, then what is not detectable."""
        lines = [self.headline]
        if self.faults:
            lines += [self.fault_table(), ""]
        for k, fault in enumerate(self.faults, start=1):
            lines.append(f"  {k}. {fault.sentence}")
        lines += notice_lines(self.notices)
        hidden: dict[str, list[str]] = {}
        for limit in self.invisible:
            hidden.setdefault(limit.name, []).append(limit.place)
        if hidden:
            lines += ["", "Not detectable in these logs:"]
        for name, places in hidden.items():
            more = " ..." if len(places) > MAX_LISTED_PLACES else ""
            lines.append(f"  {name} ({', '.join(places[:MAX_LISTED_PLACES])}{more})")
        return "\n".join(lines)

    def fault_table(self) -> str:
        """Return the faults as a text table."""
        rows = []
        for k, fault in enumerate(self.faults, start=1):
            size = size_text(fault.size, fault.std, fault.unit) if fault.size else ""
            errors = [_percent(fault.before), _percent(fault.after)]
            rows.append([str(k), fault.name, fault.place, size, *errors])
        header = ["", "fault", "where", "size", "error before", "after"]
        return text_table(header, rows)


def limits_table(limits: Sequence[Limit]) -> str:
    """Return the smallest detectable faults as a table."""
    rows = []
    for limit in limits:
        size, unit = describe(limit.size, limit.unit)
        detected = f"{size:.3g} {unit}" if np.isfinite(size) else "not detectable"
        absorbed = ", ".join(limit.instead[:MAX_LISTED_PARAMETERS])
        rows.append([limit.name, limit.place, detected, absorbed])
    return text_table(["fault", "where", "noticed from", "absorbed by"], rows)
