"""What is in a log nobody has described yet, and a description to begin with.

Whatever is a guess is marked as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.errors import InvalidRecording
from gough.core.record import Columns, Record
from gough.core.units import KNOWN_UNITS, conversion, dimension_of, is_unit
from gough.logs.description import FORMAT, Description, describe_headers
from gough.logs.formats import is_folder, table_blocks
from gough.logs.recording import UNITS_OF
from gough.logs.tables import SIGNS, Table, joined

BLOCKS = 8  # of 65,536 samples that are looked at
UNKNOWN = "?"  # a unit to be filled in; reading refuses it
# Words of column names and what they usually mean; the first that fits.
WORDS = {
    "extra": r"temp\w*|volt\w*|humid\w*",
    "reference": r"ref\w*|set\w*|cmd\w*|command\w*|desired|target\w*|goal|soll\w*",
    "velocity": r"vel\w*|speed|qd\d*|dq\d*|rpm|geschw\w*|drehzahl",
    "current": r"cur\w*|amps?|i[aq]?\d*|drv\w*|strom\w*",
    "effort": r"eff\w*|torques?|trq\w*|tau\d*|forces?|frc\w*|moments?|drehmoment\w*|kraft",
    "position": r"pos\w*|q\d*|angles?|enc\w*|theta\d*|lage\w*|winkel\w*",
}
TIMES = r"time\w*|stamps?|timestamps?|t|clock|secs?|seconds|zeit\w*"
# of a step, by which those of a clock may differ where its name does not say that it is one
EVEN = 1e-3
RATES = (
    20.0,
    50e3,
)  # of controllers; the unit of a clock is guessed so that its rate lies between. [Hz]
Proposal = Mapping[
    str, tuple[tuple[str, str], ...]
]  # for each kind the column of each joint, and why


class Motor(NamedTuple):
    """What a robot file says of a motor: unit `m` or `rad`, and the position limits, if any.

    [unit]
    """

    name: str
    unit: str
    limits: tuple[float, float] | None = None


class Column(NamedTuple):
    """A column of a log: its range, the column of its times, and guesses: its rate [Hz], kind,
    perhaps the unit.
    """

    name: str
    samples: int
    low: float
    high: float
    clock: str = ""
    rate: float = float("nan")
    kind: str = ""
    unit: str = ""
    guessed: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey(Record):
    """What is in a log, and which column may be which joint.

    Args:
        unread: What columns hold that are no numbers, by name.
        joints: The motors, of the robot or with names to be replaced.
        proposal: For each kind the column of each joint and why, in the order of the joints.
        plain: The headers say all that is needed; no description is.
    """

    source: str
    columns: tuple[Column, ...]
    unread: Mapping[str, str]
    joints: tuple[str, ...]
    proposal: Proposal
    decimal: str = "."
    thousands: str = ""
    plain: bool = False

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)

    def table(self) -> Columns:
        names = ("name", "samples", "rate", "low", "high", "unit", "guessed", "kind", "clock")
        return {name: [getattr(c, name) for c in self.columns] for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        columns = [
            {
                "name": c.name,
                "samples": c.samples,
                "low": c.low,
                "high": c.high,
                "clock": c.clock or None,
                "rate": c.rate if np.isfinite(c.rate) else None,
                "kind": c.kind or None,
                "unit": c.unit or None,
                "unit_is_a_guess": c.guessed,
            }
            for c in self.columns
        ]
        return {
            "source": self.source,
            "self_describing": self.plain,
            "columns": columns,
            "unread": dict(self.unread),
            "joints": list(self.joints),
            "proposal": {
                kind: [
                    {"joint": joint, "column": column, "why": why}
                    for joint, (column, why) in zip(self.joints, found)
                ]
                for kind, found in self.proposal.items()
            },
        }

    def summary(self) -> str:
        """Return the columns as plain text; a question mark behind a word says that it is a
        guess.
        """
        lines = [
            [
                c.name,
                str(c.samples),
                f"{c.rate:.4g}" if np.isfinite(c.rate) else "",
                f"{c.low:.4g}",
                f"{c.high:.4g}",
                c.unit + (UNKNOWN if c.guessed and c.unit else ""),
                f"{c.kind}{UNKNOWN}" if c.kind else "",
                c.clock,
            ]
            for c in self.columns
        ]
        header = [
            "column",
            "samples",
            "rate [Hz]",
            "smallest",
            "largest",
            "unit",
            "may be",
            "its time",
        ]
        text = [
            f"{self.source}: {len(self.columns)} columns of numbers",
            "",
            text_table(header, lines),
        ]
        text += [f"{name}: not read, holds {what}" for name, what in self.unread.items()]
        for kind, found in self.proposal.items():
            text += [
                "",
                f"proposed as {kind}:",
                *(
                    f"  {joint}: '{column}' ({why})"
                    for joint, (column, why) in zip(self.joints, found)
                ),
            ]
        text += [
            "",
            "The headers say it themselves: the log can be read without a description."
            if self.plain
            else "What is marked with ? is a guess, and nothing is used before a description says "
            "it: write one, look "
            "at every line of it, and read the log with it.",
        ]
        return "\n".join(text)

    def description(self) -> str:
        """Return a description file to be edited; every guess is marked, an unknown unit is `?` and
        refused.
        """
        lines = [
            f"# {self.source} as it may be meant: check what is marked as a guess",
            f"format = {FORMAT}",
            f"joints = {_list(self.joints)}",
        ]
        lines += [f'decimal = "{self.decimal}"'] if self.decimal != "." else []
        lines += [f'thousands = "{self.thousands}"'] if self.thousands else []
        clocks = {kind: self.column(found[0][0]).clock for kind, found in self.proposal.items()}
        main = clocks.get("position", "")
        lines += ["", *self._clock("[time]", main)]
        for kind, found in self.proposal.items():
            own = [self.column(column) for column, _ in found]
            units = [c.unit or UNKNOWN for c in own]
            lines += [
                "",
                f"[{kind}]",
                *(
                    f"# {joint}: '{column}', {why}"
                    for joint, (column, why) in zip(self.joints, found)
                ),
                f"columns = {_list([c.name for c in own])}",
                f"units = {_list(units)}{'  # a guess' if any(c.guessed for c in own) else ''}",
            ]
            lines += (
                ['# counts of an encoder: unit "rev", and scale = 1 / counts a turn']
                if UNKNOWN in units
                else []
            )
            lines += [] if clocks[kind] == main else self._clock(f"[{kind}.time]", clocks[kind])
        used = {column for found in self.proposal.values() for column, _ in found} | set(
            clocks.values()
        )
        lines += [
            "",
            *(
                f"# not used: '{c.name}' from {c.low:.4g} to {c.high:.4g} {c.unit}".rstrip()
                for c in self.columns
                if c.name not in used
            ),
        ]
        return "\n".join(lines).rstrip() + "\n"

    def _clock(self, heading: str, name: str) -> list[str]:
        if not name:
            return [
                "# no column looks like time: name it, or replace this by its rate, above: rate = "
                '"1000 Hz"',
                heading,
                f'columns = ["{UNKNOWN}"]',
                'units = ["s"]',
            ]
        clock = self.column(name)
        comment = f"  # a guess: {clock.rate:.4g} Hz" if clock.guessed else ""
        return [
            heading,
            f"columns = {_list([name])}",
            f"units = {_list([clock.unit])}{comment}",
        ]


def _list(names: Sequence[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)


def survey(path: str | Path, motors: Sequence[Motor] = ()) -> Survey:
    """Look into a log of any format, and propose which column may be which joint.

    With motors, positions are told by name, then by the limits they stay in, then by their order.
    An effort belongs to the motor whose name it bears, else to the one whose position, velocity and
    acceleration explain it best. Without motors the joints are named `motor1`, `motor2`, ... to be
    replaced.
    """
    table, (decimal, thousands) = _table(Path(path))
    columns = tuple(_columns(table))
    named = [c for c in columns if c.kind == "position"]
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    if motors:
        loose = [c for c in columns if c.kind not in ("time", "extra") and c.high > c.low]
        candidates = named if len(named) >= len(motors) else loose  # else all that move
        if len(candidates) >= len(motors):
            found["position"] = _assigned(candidates, motors, lambda c, j: _placed(c, motors[j]))
    elif named:
        found["position"] = tuple((c.name, "by its name") for c in named)
        motors = [
            Motor(
                name=f"motor{k + 1}",
                unit="m" if dimension_of(c.unit or "rad") == "length" else "rad",
            )
            for k, c in enumerate(named)
        ]
    for kind in ("effort", "current", "velocity", "reference"):
        candidates = [c for c in columns if c.kind == kind]
        if "position" in found and len(candidates) >= len(motors):
            found[kind] = _assigned(
                candidates,
                motors,
                lambda c, j: _explained(
                    table.columns[found["position"][j][0]], table.columns[c.name]
                ),
            )
    used = {
        column: (kind, motors[j])
        for kind, group in found.items()
        for j, (column, _) in enumerate(group)
    }
    try:
        plain = (
            bool(describe_headers([*table.columns, *table.unread], table.source))
            and not table.repeated
        )
    except InvalidRecording:
        plain = False
    return Survey(
        source=Path(path).name,
        plain=plain,
        unread=table.unread,
        decimal=decimal,
        thousands=thousands,
        columns=tuple(_with_unit(c, *used[c.name]) if c.name in used else c for c in columns),
        joints=tuple(motor.name for motor in motors) if found else (),
        proposal=found,
    )


def _table(path: Path) -> tuple[Table, tuple[str, str]]:
    """Read the beginning of a file with whichever signs its numbers have, for decimals and between
    thousands.
    """
    if is_folder(path):
        raise InvalidRecording(
            f"'{path.name}' is a folder; look at one of its files", source=path.name
        )
    failed: InvalidRecording | None = None
    for signs in SIGNS:
        read = Description(joints=(), signals=(), decimal=signs[0], thousands=signs[1])
        try:
            return joined(islice(table_blocks(path, 65536, read), BLOCKS)), signs
        except InvalidRecording as error:
            failed = failed or error
    raise failed or InvalidRecording(f"'{path.name}' cannot be read", source=path.name)


def _columns(table: Table) -> Iterator[Column]:
    """Yield the columns with their clocks and what their names say."""

    def topic(name: str) -> str:
        return name.rpartition("/")[0]

    known = {
        name: values[~table.blank[name]] if name in table.blank else values
        for name, values in table.columns.items()
    }
    clocks = {
        name: _clock(name, values, name in table.seconds)
        for name, values in known.items()
        if _is_time(name, values, name in table.seconds)
    }
    for name, values in known.items():
        if name in clocks:
            yield clocks[name]
            continue
        sizes = [
            c for c in clocks.values() if len(table.columns[c.name]) == len(table.columns[name])
        ]
        near = max(
            sizes,
            key=lambda c: (
                topic(c.name) == topic(name),
                c.name == f"{name} time",
                not c.name.endswith("/time"),
            ),
            default=None,
        )
        finite = values[np.isfinite(values)]
        unit, stated = _unit_in(name)
        yield Column(
            name=name,
            samples=len(values),
            low=float(finite.min(initial=np.inf)),
            high=float(finite.max(initial=-np.inf)),
            kind=_kind(name, unit) if finite.size else "",
            unit=unit,
            guessed=not stated,
            clock=near.name if near else "",
            rate=near.rate * len(values) / near.samples if near else float("nan"),
        )


def _words(name: str) -> list[str]:
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", re.sub(r"[\[(].*?[\])]", " ", name))
    return [word for word in re.split(r"[^a-z0-9]+", split.lower()) if word]


def _unit_in(name: str) -> tuple[str, bool]:
    """Return the unit in a name, empty if there is none, and whether it is stated (`q [deg]`, not
    `q_deg`).
    """
    stated = re.findall(r"[\[(]([^\])]+)[\])]", name)
    for unit in (*stated, *name.split("_")[1:][-1:]):
        if is_unit(unit) and not unit.isdigit():
            return unit, unit in stated
    return "", False


def _kind(name: str, unit: str) -> str:
    by_unit = {
        "force": "effort",
        "torque": "effort",
        "current": "current",
        "angular velocity": "velocity",
        "velocity": "velocity",
    }
    words = _words(name)
    found = [
        kind
        for kind, pattern in WORDS.items()
        if any(re.fullmatch(pattern, word) for word in words)
    ]
    if unit and dimension_of(unit) in by_unit and found[:1] != ["extra"]:
        return by_unit[dimension_of(unit)]
    return found[0] if found else ""


def _is_time(name: str, values: FloatArray, known: bool) -> bool:
    words = [word for word in _words(name) if not (is_unit(word) and dimension_of(word) == "time")]
    named = known or any(re.fullmatch(TIMES, word) for word in words[-1:]) or words[:1] == ["time"]
    if len(values) < 3 or not np.isfinite(values).all():
        return False
    steps = np.diff(values)  # a column without a word that runs in even steps is a clock, too
    even = not _kind(name, "") and np.ptp(steps) < EVEN * steps.mean()
    return bool((steps > 0).all() and (named or even))


def _clock(name: str, values: FloatArray, known: bool) -> Column:
    step = float(np.median(np.diff(values)))
    own, stated = ("s", True) if known else _unit_in(name)
    usual = [
        unit
        for unit in ("s", "ms", "us", "ns")
        if RATES[0] <= 1 / (step * conversion(unit)) <= RATES[1]
    ]
    unit = own if own and dimension_of(own) == "time" else (usual or ["s"])[0]
    return Column(
        name=name,
        samples=len(values),
        low=float(values[0]),
        high=float(values[-1]),
        kind="time",
        unit=unit,
        rate=1 / (step * conversion(unit)),
        guessed=not stated,
        clock=name,
    )


def _with_unit(column: Column, kind: str, motor: Motor) -> Column:
    """Return a column with a unit: the one its name has, else the SI one or one that fits the
    limits, as a guess.
    """
    if column.unit:
        return column._replace(kind=kind)
    usual = UNITS_OF[motor.unit].get(kind, UNKNOWN)
    if kind in ("position", "reference"):
        units = ("m", "mm", "um") if motor.unit == "m" else ("rad", "deg", "mrad")
        usual = next((u for u in units if _fits(column, motor, u)), UNKNOWN)
    return column._replace(kind=kind, unit=usual, guessed=True)


def _fits(column: Column, motor: Motor, unit: str) -> bool:
    """Tell whether a range lies within the limits of a motor, with a tenth of them as margin."""
    low, high = motor.limits or ((-4 * np.pi, 4 * np.pi) if motor.unit == "rad" else (-10.0, 10.0))
    factor, margin = conversion(unit), 0.1 * (high - low)
    return low - margin <= factor * column.low and factor * column.high <= high + margin


def _placed(column: Column, motor: Motor) -> tuple[float, str]:
    """Tell whether a column may be a position of a motor in some unit: points and why."""
    own = (
        ("length", "angle")
        if column.unit and not column.guessed
        else ("length" if motor.unit == "m" else "angle",)
    )
    units = [u for u in ([column.unit] if len(own) > 1 else KNOWN_UNITS) if dimension_of(u) in own]
    inside = any(_fits(column, motor, u) for u in units)
    return 0.5 * inside, "stays within its limits" if inside and motor.limits else "by its order"


def _assigned(
    candidates: Sequence[Column],
    motors: Sequence[Motor],
    score: Callable[[Column, int], tuple[float, str]],
) -> tuple[tuple[str, str], ...]:
    """Give each motor a column: the best sum of names, scores, and a little for the order."""
    from scipy.optimize import linear_sum_assignment

    value = np.zeros((len(motors), len(candidates)))
    why: dict[tuple[int, int], str] = {}
    for j, motor in enumerate(motors):
        for k, column in enumerate(candidates):
            alike = _alike(column.name, motor.name)
            points, reason = score(column, j)
            value[j, k] = 2 * alike + points - 0.01 * abs(j - k)
            why[j, k] = "by its name" if alike == 1.0 else reason
    return tuple((candidates[k].name, why[j, k]) for j, k in zip(*linear_sum_assignment(-value)))


def _alike(column: str, joint: str) -> float:
    """Return how alike names are, 0 to 1; 1 if the column's name contains the joint's."""
    a, b = " ".join(_words(column)), " ".join(_words(joint))
    return (
        1.0
        if b in a
        else 0.9 * SequenceMatcher(None, a, b).find_longest_match().size / max(len(b), 1)
    )


def _explained(q: FloatArray, y: FloatArray) -> tuple[float, str]:
    """Return the share of a column's variance that a motor's position and its derivatives explain,
    0 to 1, in words.
    """
    use = np.isfinite(q) & np.isfinite(y) if len(q) == len(y) else np.zeros(len(q), dtype=bool)
    if use.sum() < 50 or not (np.ptp(q[use]) > 0 and np.ptp(y[use]) > 0):
        return 0.0, "by its order"
    q, y = (x[use] / np.abs(x[use]).max() for x in (q, y))
    width = max(1, len(q) // 500)  # derivatives of a smoothed position: a hint, not a model
    smooth = np.convolve(q, np.ones(width) / width, mode="same")
    qd = np.gradient(smooth)
    A = np.column_stack([np.ones(len(q)), smooth, qd, np.sign(qd), np.gradient(qd)])
    A /= np.maximum(np.abs(A).max(axis=0), 1e-300)
    left = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
    share = max(0.0, 1 - float(np.var(left) / max(np.var(y), 1e-300)))
    return share, f"the motion of this joint explains {100 * share:.0f} % of it"
