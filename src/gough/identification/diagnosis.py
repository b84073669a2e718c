"""What a diagnosis says: mistakes with their sizes, and how large others would have to be to
show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import rounded, text_table
from gough.core.notices import Level, Notice, notice_lines
from gough.core.record import Columns, Record

HELD_OUT, LEFT_OUT = "held-out logs", "stretches left out"
NAN = float("nan")
USUAL = {"s": (1e3, "ms"), "m": (1e3, "mm"), "rad": (180 / np.pi, "deg"), "1": (100.0, "%")}


def describe(size: float, unit: str) -> tuple[float, str]:
    """Return a size in the unit a person would use: ms, mm, deg, per cent."""
    factor, name = USUAL.get(unit, (1.0, unit))
    return size * factor, name


def length(size: Sequence[float] | FloatArray) -> float:
    """Return a size as one number: of two (a tilt, a ripple) their length, else the first."""
    return float(np.linalg.norm(size)) if len(size) == 2 else float(size[0])


def size_text(
    size: Sequence[float] | FloatArray, sigma: Sequence[float] | FloatArray, unit: str
) -> str:
    """Return a size with its standard deviation in the unit a person would use."""
    value, name = describe(length(size), unit)
    return " +- ".join(rounded(value, describe(float(max(sigma[:2])), unit)[0])) + f" {name}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %" if np.isfinite(value) else "-"


def _json(thing: object, *names: str) -> dict[str, Any]:
    """Return fields as JSON can hold them."""
    values = {name: getattr(thing, name) for name in names}
    return {
        name: list(x)
        if isinstance(x, tuple)
        else None
        if isinstance(x, float) and not np.isfinite(x)
        else x
        for name, x in values.items()
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Mistake:
    """One mistake that explains what the model leaves."""

    name: str
    place: str
    size: tuple[float, ...] = ()  # SI; empty for a mistake that is there or not
    sigma: tuple[float, ...] = ()
    unit: str = ""
    text: str  # in words, with the size
    advice: str  # what to change in which file
    share: float = NAN  # of what the model left, explained by it
    before: float = NAN  # prediction error over effort, and with it corrected; NaN if not known
    after: float = NAN
    judged_on: str = HELD_OUT  # what was predicted
    alike: tuple[str, ...] = ()  # what explains as much and cannot be told apart from it
    gravity: tuple[float, ...] = ()  # what the robot file should say, if it is about that [m/s2]

    @property
    def sentence(self) -> str:
        """What it is, what correcting it does and what to change."""
        return f"{self.explanation}; {self.advice}"

    @property
    def explanation(self) -> str:
        """What it is, what else it may be, and what correcting it does."""
        better = ""
        if np.isfinite(self.before) and np.isfinite(self.after):
            word = "held-out error" if self.judged_on == HELD_OUT else "error on stretches left out"
            better = (
                f"; correcting it takes the {word} from {100 * self.before:.3g} to "
                f"{100 * self.after:.3g} %"
            )
        others = (
            f"; or {', or '.join(self.alike)}: these cannot be told apart, look which it is"
            if self.alike
            else ""
        )
        return f"{self.text}{others}{better}"

    def notice(self, level: Level = "warning") -> Notice:
        """Return it as a notice."""
        numbers = {"share": self.share, "before": self.before, "after": self.after}
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
            **_json(self, "text", "advice", "share", "before", "after", "judged_on", "alike"),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """How large a mistake has to be to be noticed in these logs."""

    name: str
    place: str
    unit: str
    size: float  # found in 95 of 100 cases; infinite if it cannot be seen on this motion
    instead: tuple[str, ...] = ()  # the parameters that take in what cannot be seen

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return _json(self, "name", "place", "unit", "size", "instead")


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis(Record):
    """Mistakes in the order they were found, and what these logs cannot show."""

    robot: str
    mistakes: tuple[Mistake, ...] = ()  # each with those before it corrected
    limits: tuple[Limit, ...] = ()  # smallest mistakes that would be noticed
    error: float = NAN  # of predicting the logs as they are; NaN if they could not be processed
    notices: tuple[Notice, ...] = ()  # beside those of the mistakes

    @property
    def invisible(self) -> tuple[Limit, ...]:
        """Mistakes that these logs cannot show at all."""
        return tuple(limit for limit in self.limits if not np.isfinite(limit.size))

    def table(self) -> Columns:
        """Return the mistakes."""
        rows = [m.to_dict() for m in self.mistakes]
        return {
            name: [row[name] for row in rows]
            for name in (
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
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            **_json(self, "robot", "error"),
            "mistakes": [m.to_dict() for m in self.mistakes],
            "limits": [limit.to_dict() for limit in self.limits],
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def summary(self) -> str:
        """Return the diagnosis as plain text: mistakes first, then what cannot be seen and what
        would be.
        """
        lines = [
            f"Diagnosis of {self.robot}: "
            + (
                f"{len(self.mistakes)} mistake(s)"
                if self.mistakes
                else "none of the usual mistakes explains what is left"
            )
        ]
        if self.mistakes:
            rows = [
                [
                    str(k),
                    m.name,
                    m.place,
                    size_text(m.size, m.sigma, m.unit) if m.size else "",
                    *map(_percent, (m.share, m.before, m.after)),
                ]
                for k, m in enumerate(self.mistakes, start=1)
            ]
            lines += [
                text_table(
                    ["", "mistake", "where", "size", "explains", "error before", "after"], rows
                ),
                "",
            ]
        lines += [f"  {k}. {m.sentence}" for k, m in enumerate(self.mistakes, start=1)]
        lines += notice_lines(self.notices)
        hidden: dict[str, list[str]] = {}
        for limit in self.invisible:
            hidden.setdefault(limit.name, []).append(limit.place)
        if hidden:
            lines += ["", "Cannot be seen in these logs, so it may be there:"]
            lines += [
                f"  {name} of {', '.join(places[:6])}{' ...' if len(places) > 6 else ''}"
                for name, places in hidden.items()
            ]
        return "\n".join(lines)


def limits_table(limits: Sequence[Limit]) -> str:
    """Return the smallest mistakes that would be noticed as a table."""
    rows = []
    for limit in limits:
        size, unit = describe(limit.size, limit.unit)
        rows.append(
            [
                limit.name,
                limit.place,
                f"{size:.3g} {unit}" if np.isfinite(size) else "cannot be seen",
                ", ".join(limit.instead[:3]),
            ]
        )
    return text_table(["mistake", "where", "noticed from", "taken in by"], rows)
