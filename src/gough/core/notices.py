"""Notices: what the user should know about a log, an estimate or a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gough.core.documents import plain

Level = Literal["info", "warning", "error"]
ResultLevel = Literal["ok", "warning", "error"]
LEVELS: tuple[Level, ...] = (
    "error",
    "warning",
    "info",
)  # in the order they are listed


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One thing the user should know."""

    # a fixed word or two to select by: "held-out error", "clock",
    # "wrong sign"
    rule: str
    level: Level  # info, warning or error
    # the joint, log, channel or parameter it is about; "" if none
    where: str = ""
    # what is the case, with numbers and units; names from files as they
    # are: escape it in markup
    text: str
    advice: str = ""  # what to do
    # behind the text
    numbers: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        numbers = {name: float(number) for name, number in self.numbers.items()}
        object.__setattr__(self, "numbers", numbers)

    def __str__(self) -> str:
        sentence = f"{self.where}: {self.text}" if self.where else self.text
        return f"{sentence}; {self.advice}" if self.advice else sentence

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        form: dict[str, Any] = plain(self)
        return form


def level_of(notices: Iterable[Notice]) -> ResultLevel:
    """Return the highest level of some notices: `ok` if there is only info."""
    levels = {notice.level for notice in notices}
    if "error" in levels:
        return "error"
    if "warning" in levels:
        return "warning"
    return "ok"


def ordered(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices in their fixed order: errors, warnings, info, each as they were found.

    What is said twice is listed once, at the higher level. Joints or
    channels of one log with the same text share a notice, which names
    all of them in `where`.
    """
    by_level = sorted(notices, key=lambda notice: LEVELS.index(notice.level))
    first: dict[tuple[str, str, str, str], Notice] = {}
    places: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for notice in by_level:
        source, separator, channels = notice.where.rpartition(": ")
        key = (notice.rule, source + separator, notice.text, notice.advice)
        first.setdefault(key, notice)
        places.setdefault(key, {}).update(dict.fromkeys(channels.split(", ")))
    merged = []
    for key, notice in first.items():
        source = key[1]
        merged.append(replace(notice, where=source + ", ".join(filter(None, places[key]))))
    return tuple(merged)


def of_log(notices: Iterable[Notice], source: str) -> list[Notice]:
    """Return the notices of one log with its name before the channel they are about."""
    named = []
    for notice in notices:
        other = notice.where not in ("", source)
        where = f"{source}: {notice.where}" if other else source
        named.append(replace(notice, where=where))
    return named


def notice_lines(notices: Iterable[Notice]) -> list[str]:
    """Return a line of plain text for each notice, in the order given."""
    return [f"  {notice.level:<7}  {notice.rule}: {notice}" for notice in notices]
