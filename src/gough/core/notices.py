"""What the user should know about a result: remarks of rules, and the verdict they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from gough.core.record import Columns, Record

Level = Literal["look", "wrong"]  # do not trust before looking, do not use
Headline = Literal["good", "look", "wrong"]


@dataclass(frozen=True, eq=False)
class Remark:
    """What one rule has to say: what is, what was expected, what it may mean, and the numbers it
    rests on.
    """

    rule: str
    level: Level
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)


Remarks = tuple[Remark, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict(Record):
    """All remarks, numerics and prediction in one sentence, and one headline."""

    remarks: Remarks = ()
    sentence: str = ""

    @property
    def headline(self) -> Headline:
        """`wrong` if any remark says so, `look` if there is any, `good` if there is none."""
        levels = {remark.level for remark in self.remarks}
        return "wrong" if "wrong" in levels else "look" if levels else "good"

    def __str__(self) -> str:
        return f"{self.headline}: {self.sentence}" if self.sentence else self.headline

    def table(self) -> Columns:
        """Return the remarks."""
        return {
            name: [getattr(r, name) for r in self.remarks] for name in ("rule", "level", "message")
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "headline": self.headline,
            "sentence": self.sentence,
            "remarks": [asdict(r) for r in self.remarks],
        }

    def summary(self) -> str:
        """Return the verdict as plain text: headline, then one line for each remark, the worst
        first.
        """
        order = sorted(self.remarks, key=lambda remark: remark.level != "wrong")
        return "\n".join([str(self), *(f"  {r.level}, {r.rule}: {r.message}" for r in order)])
