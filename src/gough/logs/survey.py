"""Survey of a log without a description: its columns, and a proposed description.

Every guess is marked as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from gough.logs.description import (
    DESCRIPTION_FORMAT,
    Description,
    describe_headers,
)
from gough.logs.formats import is_folder, table_blocks
from gough.logs.recording import JOINT_SIGNAL_UNITS
from gough.logs.tables import NUMBER_SIGNS, Table, joined

SURVEY_SAMPLES = 65536  # in a block
SURVEY_BLOCKS = 8  # of a file that are read
UNKNOWN_UNIT = "?"  # to be filled in; reading refuses it
# Words of column names by the kind of column they usually mean; the first that fits.
KIND_PATTERNS = {
    "extra": r"temp\w*|volt\w*|humid\w*",
    "reference": r"ref\w*|set\w*|cmd\w*|command\w*|desired|target\w*|goal|soll\w*",
    "velocity": r"vel\w*|speed|qd\d*|dq\d*|rpm|geschw\w*|drehzahl",
    "current": r"cur\w*|amps?|i[aq]?\d*|drv\w*|strom\w*",
    "effort": r"eff\w*|torques?|trq\w*|tau\d*|forces?|frc\w*|moments?|drehmoment\w*|kraft",
    "position": r"pos\w*|q\d*|angles?|enc\w*|theta\d*|lage\w*|winkel\w*",
}
TIME_PATTERN = r"time\w*|stamps?|timestamps?|t|clock|secs?|seconds|zeit\w*"
# Fraction of a step by which steps of a clock may differ if its name does not identify it.
EVEN_STEP_RATIO = 1e-3
# Rates of controllers; the unit of a clock is guessed so that its rate lies between. [Hz]
CONTROLLER_RATES = (20.0, 50e3)
MIN_EXPLAINED_SAMPLES = 50  # to compare an effort with a motion
# Numbers of all pairs of motions and columns that are compared, a few seconds; beyond it columns
# are told by their names and order. Six motors with 500,000 samples have 2e7.
MAX_COMPARED_NUMBERS = 5e7
Assignment = tuple[tuple[str, str], ...]  # the column of each joint, and why
Proposal = Mapping[str, Assignment]  # by kind


class Motor(NamedTuple):
    """A motor of a robot file."""

    name: str
    unit: str  # `m` or `rad`
    limits: tuple[float, float] | None = None  # of the position, if any [unit]


class Column(NamedTuple):
    """A column of a log."""

    name: str
    samples: int
    low: float  # smallest number
    high: float  # largest number
    clock: str = ""  # name of the column of its times
    rate: float = float("nan")  # [Hz]
    kind: str = ""  # a guess
    unit: str = ""
    guessed: bool = True  # the unit is a guess


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey(Record):
    """The columns of a log, and which of them may be which joint.

    Args:
        source: Name of the log.
        columns: Columns of numbers.
        unread: Content of the columns that are not numbers, by name.
        joints: The motors, of the robot or with names to be replaced.
        proposal: For each kind the column of each joint and why, in the order of the
            joints.
        decimal, thousands: Signs of the numbers.
        plain: The log can be read without a description.
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
        """Return a column by name."""
        return next(c for c in self.columns if c.name == name)

    def table(self) -> Columns:
        """Return the columns with what is known of them."""
        names = (
            "name",
            "samples",
            "rate",
            "low",
            "high",
            "unit",
            "guessed",
            "kind",
            "clock",
        )
        return {name: [getattr(c, name) for c in self.columns] for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        proposal: dict[str, list[dict[str, str]]] = {}
        for kind, assignment in self.proposal.items():
            proposal[kind] = []
            for joint, (column, why) in zip(self.joints, assignment):
                proposal[kind].append({"joint": joint, "column": column, "why": why})
        return {
            "source": self.source,
            "self_describing": self.plain,
            "columns": [_column_dict(column) for column in self.columns],
            "unread": dict(self.unread),
            "joints": list(self.joints),
            "proposal": proposal,
        }

    def summary(self) -> str:
        """Return the columns as plain text; a question mark marks a guess."""
        lines = [_column_cells(column) for column in self.columns]
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
        for kind, assignment in self.proposal.items():
            text += ["", f"proposed as {kind}:"]
            for joint, (column, why) in zip(self.joints, assignment):
                text.append(f"  {joint}: '{column}' ({why})")
        text.append("")
        if self.plain:
            text.append("The headers are sufficient: the log can be read without a description.")
        else:
            text.append(
                "Entries marked with ? are guesses, and none is used without a description: write "
                "one, check every line of it, and read the log with it."
            )
        return "\n".join(text)

    def description(self) -> str:
        """Return a description file to be edited; guesses are marked, unknown units are `?`."""
        lines = [
            f"# proposed description of {self.source}: check what is marked as a guess",
            f"format = {DESCRIPTION_FORMAT}",
            f"joints = {_list(self.joints)}",
        ]
        if self.decimal != ".":
            lines.append(f'decimal = "{self.decimal}"')
        if self.thousands:
            lines.append(f'thousands = "{self.thousands}"')
        used: set[str] = set()
        clocks = {}
        for kind, assignment in self.proposal.items():
            used.update(column for column, _ in assignment)
            clocks[kind] = self.column(assignment[0][0]).clock
        used.update(clocks.values())
        main_clock = clocks.get("position", "")
        lines += ["", *self._clock("[time]", main_clock)]
        for kind, assignment in self.proposal.items():
            lines += ["", *self._signal_lines(kind, assignment)]
            if clocks[kind] != main_clock:
                lines += self._clock(f"[{kind}.time]", clocks[kind])
        lines.append("")
        for column in self.columns:
            if column.name not in used:
                span = f"from {column.low:.4g} to {column.high:.4g} {column.unit}"
                lines.append(f"# not used: '{column.name}' {span}".rstrip())
        return "\n".join(lines).rstrip() + "\n"

    def _signal_lines(self, kind: str, assignment: Assignment) -> list[str]:
        """Return the table of a description for one kind of signal."""
        lines = [f"[{kind}]"]
        for joint, (name, why) in zip(self.joints, assignment):
            lines.append(f"# {joint}: '{name}', {why}")
        columns = [self.column(name) for name, _ in assignment]
        units = [column.unit or UNKNOWN_UNIT for column in columns]
        guess = "  # a guess" if any(column.guessed for column in columns) else ""
        lines.append(f"columns = {_list([column.name for column in columns])}")
        lines.append(f"units = {_list(units)}{guess}")
        if UNKNOWN_UNIT in units:
            lines.append('# counts of an encoder: unit "rev", and scale = 1 / counts a turn')
        return lines

    def _clock(self, heading: str, name: str) -> list[str]:
        """Return the table of a description for a clock, a column by name."""
        if not name:
            return [
                "# no column looks like time: name it, or replace this by its rate, above: rate = "
                '"1000 Hz"',
                heading,
                f'columns = ["{UNKNOWN_UNIT}"]',
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
    """Return names as a TOML list."""
    return json.dumps(list(names), ensure_ascii=False)


def _column_dict(column: Column) -> dict[str, Any]:
    """Return the JSON form of a column."""
    return {
        "name": column.name,
        "samples": column.samples,
        "low": column.low,
        "high": column.high,
        "clock": column.clock or None,
        "rate": column.rate if np.isfinite(column.rate) else None,
        "kind": column.kind or None,
        "unit": column.unit or None,
        "unit_is_a_guess": column.guessed,
    }


def _column_cells(column: Column) -> list[str]:
    """Return a column as a line of a text table."""
    unit = column.unit
    if unit and column.guessed:
        unit += "?"
    return [
        column.name,
        str(column.samples),
        f"{column.rate:.4g}" if np.isfinite(column.rate) else "",
        f"{column.low:.4g}",
        f"{column.high:.4g}",
        unit,
        f"{column.kind}?" if column.kind else "",
        column.clock,
    ]


def survey(path: str | Path, motors: Sequence[Motor] = ()) -> Survey:
    """List the columns of a log of any format, and propose which may be which joint.

    With motors, positions are assigned by name, then by the limits they stay in, then by
    their order. An effort is assigned to the motor whose name it has, otherwise to the one
    whose position, velocity and acceleration explain it best. Without motors the joints are
    named `motor1`, `motor2`, ... to be replaced.
    """
    table, (decimal, thousands) = _table(Path(path))
    columns = list(_columns(table))
    if not motors:
        motors, positions = _motors_by_name(columns)
    else:
        positions = _positions(columns, motors)
    proposal = {}
    if positions:
        proposal = {
            "position": positions,
            **_other_signals(table, columns, motors, positions),
        }
    assigned = {}
    for kind, assignment in proposal.items():
        for motor, (name, _) in zip(motors, assignment):
            assigned[name] = kind, motor
    for k, column in enumerate(columns):
        if column.name in assigned:
            columns[k] = _with_unit(column, *assigned[column.name])
    return Survey(
        source=Path(path).name,
        plain=_describes_itself(table),
        unread=table.unread,
        decimal=decimal,
        thousands=thousands,
        columns=tuple(columns),
        joints=tuple(motor.name for motor in motors) if proposal else (),
        proposal=proposal,
    )


def _motors_by_name(
    columns: Sequence[Column],
) -> tuple[list[Motor], Assignment]:
    """Return a motor for each column that is named as a position."""
    motors: list[Motor] = []
    positions = []
    for column in columns:
        if column.kind == "position":
            sliding = dimension_of(column.unit or "rad") == "length"
            motors.append(
                Motor(
                    name=f"motor{len(motors) + 1}",
                    unit="m" if sliding else "rad",
                )
            )
            positions.append((column.name, "by its name"))
    return motors, tuple(positions)


def _positions(columns: Sequence[Column], motors: Sequence[Motor]) -> Assignment:
    """Return the position column of each motor; none if there are too few columns."""
    candidates = [c for c in columns if c.kind == "position"]
    if len(candidates) < len(motors):  # all that move
        candidates = [c for c in columns if c.kind not in ("time", "extra") and c.high > c.low]
    if len(candidates) < len(motors):
        return ()
    return _assigned(candidates, motors, lambda column, j: _placed(column, motors[j]))


def _other_signals(
    table: Table,
    columns: Sequence[Column],
    motors: Sequence[Motor],
    positions: Assignment,
) -> dict[str, Assignment]:
    """Return the columns of efforts, currents, velocities and references of each motor."""

    def score(column: Column, j: int) -> tuple[float, str]:
        """Return how well the motion of a motor explains a column."""
        n_samples = len(table.columns[column.name])
        if n_samples * len(motors) * len(columns) > MAX_COMPARED_NUMBERS:
            return 0.0, "by its order"
        return _explained(table.columns[positions[j][0]], table.columns[column.name])

    proposal = {}
    for kind in ("effort", "current", "velocity", "reference"):
        candidates = [column for column in columns if column.kind == kind]
        if len(candidates) >= len(motors):
            proposal[kind] = _assigned(candidates, motors, score)
    return proposal


def _describes_itself(table: Table) -> bool:
    """Return True if a table can be read without a description."""
    try:
        described = describe_headers([*table.columns, *table.unread], table.source)
    except InvalidRecording:
        return False
    return bool(described) and not table.repeated


def _table(path: Path) -> tuple[Table, tuple[str, str]]:
    """Read the beginning of a file; also return the decimal and the thousands sign."""
    if is_folder(path):
        raise InvalidRecording(
            f"'{path.name}' is a folder; give one of its files",
            source=path.name,
        )
    failed: InvalidRecording | None = None
    for signs in NUMBER_SIGNS:
        read = Description(joints=(), signals=(), decimal=signs[0], thousands=signs[1])
        try:
            blocks = islice(table_blocks(path, SURVEY_SAMPLES, read), SURVEY_BLOCKS)
            return joined(blocks), signs
        except InvalidRecording as error:
            failed = failed or error
    raise failed or InvalidRecording(f"'{path.name}' cannot be read", source=path.name)


def _columns(table: Table) -> Iterator[Column]:
    """Yield the columns with their clocks, and with kinds and units from their names."""
    known = dict(table.columns)
    for name, blank in table.blank.items():
        known[name] = known[name][~blank]
    clocks = {}
    for name, values in known.items():
        if _is_time(name, values, name in table.seconds):
            clocks[name] = _clock(name, values, name in table.seconds)
    for name, values in known.items():
        if name in clocks:
            yield clocks[name]
            continue
        near = _clock_of(name, table, clocks.values())
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


def _clock_of(name: str, table: Table, clocks: Iterable[Column]) -> Column | None:
    """Return the clock of a column: as long, and of the same topic or named after it."""
    length = len(table.columns[name])
    topic = name.rpartition("/")[0]
    best = None
    best_rank = (False, False, False)
    for clock in clocks:
        if len(table.columns[clock.name]) != length:
            continue
        same_topic = clock.name.rpartition("/")[0] == topic
        named_after = clock.name == f"{name} time"
        rank = (same_topic, named_after, not clock.name.endswith("/time"))
        if best is None or rank > best_rank:
            best = clock
            best_rank = rank
    return best


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case, without units in brackets."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", re.sub(r"[\[(].*?[\])]", " ", name))
    return [word for word in re.split(r"[^a-z0-9]+", split.lower()) if word]


def _unit_in(name: str) -> tuple[str, bool]:
    """Return the unit in a name, "" without one; also whether it is in brackets (`q [deg]`)."""
    stated = re.findall(r"[\[(]([^\])]+)[\])]", name)
    for unit in (*stated, *name.split("_")[1:][-1:]):
        if is_unit(unit) and not unit.isdigit():
            return unit, unit in stated
    return "", False


def _kind(name: str, unit: str) -> str:
    """Guess the kind of a column from its name and unit; "" if both are unknown."""
    by_unit = {
        "force": "effort",
        "torque": "effort",
        "current": "current",
        "angular velocity": "velocity",
        "velocity": "velocity",
    }
    words = _words(name)
    by_name = ""
    for kind, pattern in KIND_PATTERNS.items():
        if any(re.fullmatch(pattern, word) for word in words):
            by_name = kind
            break
    if unit and dimension_of(unit) in by_unit and by_name != "extra":
        return by_unit[dimension_of(unit)]
    return by_name


def _is_time(name: str, values: FloatArray, known: bool) -> bool:
    """Return True if a column is a clock by its name, or by its even steps."""
    words = [word for word in _words(name) if not (is_unit(word) and dimension_of(word) == "time")]
    named = known or words[:1] == ["time"]
    if words and re.fullmatch(TIME_PATTERN, words[-1]):
        named = True
    if len(values) < 3 or not np.isfinite(values).all():
        return False
    steps = np.diff(values)  # a column without a word that runs in even steps is a clock, too
    even = not _kind(name, "") and np.ptp(steps) < EVEN_STEP_RATIO * steps.mean()
    return bool((steps > 0).all() and (named or even))


def _clock(name: str, values: FloatArray, known: bool) -> Column:
    """Return a clock with its unit: known to be s, in its name, or guessed from its rate."""
    step = float(np.median(np.diff(values)))
    unit, stated = ("s", True) if known else _unit_in(name)
    if not unit or dimension_of(unit) != "time":
        unit = _time_unit(step)
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


def _time_unit(step: float) -> str:
    """Guess the unit of a clock so that its rate is that of a controller."""
    slowest, fastest = CONTROLLER_RATES
    for unit in ("s", "ms", "us", "ns"):
        if slowest <= 1 / (step * conversion(unit)) <= fastest:
            return unit
    return "s"


def _with_unit(column: Column, kind: str, motor: Motor) -> Column:
    """Return a column with the unit in its name, or with one guessed from the limits."""
    if column.unit:
        return column._replace(kind=kind)
    usual = JOINT_SIGNAL_UNITS[motor.unit].get(kind, UNKNOWN_UNIT)
    if kind in ("position", "reference"):
        units = ("m", "mm", "um") if motor.unit == "m" else ("rad", "deg", "mrad")
        usual = next((u for u in units if _fits(column, motor, u)), UNKNOWN_UNIT)
    return column._replace(kind=kind, unit=usual, guessed=True)


def _fits(column: Column, motor: Motor, unit: str) -> bool:
    """Return True if a range lies within the limits of a motor, with a tenth of them as margin."""
    usual_limits = {"rad": (-4 * np.pi, 4 * np.pi), "m": (-10.0, 10.0)}
    low, high = motor.limits or usual_limits[motor.unit]
    factor = conversion(unit)
    margin = 0.1 * (high - low)
    return low - margin <= factor * column.low and factor * column.high <= high + margin


def _placed(column: Column, motor: Motor) -> tuple[float, str]:
    """Return a score, and a reason, for a column being the position of a motor in some unit."""
    if column.unit and not column.guessed:
        units = [column.unit] if dimension_of(column.unit) in ("length", "angle") else []
    else:
        dimension = "length" if motor.unit == "m" else "angle"
        units = [unit for unit in KNOWN_UNITS if dimension_of(unit) == dimension]
    inside = any(_fits(column, motor, unit) for unit in units)
    reason = "stays within its limits" if inside and motor.limits else "by its order"
    return 0.5 * inside, reason


def _assigned(
    candidates: Sequence[Column],
    motors: Sequence[Motor],
    score: Callable[[Column, int], tuple[float, str]],
) -> Assignment:
    """Assign a column to each motor: best sum of names, scores, and a little for the order."""
    from scipy.optimize import linear_sum_assignment

    total = np.zeros((len(motors), len(candidates)))
    why: dict[tuple[int, int], str] = {}
    for j, motor in enumerate(motors):
        for k, column in enumerate(candidates):
            similarity = _similarity(column.name, motor.name)
            points, reason = score(column, j)
            total[j, k] = 2 * similarity + points - 0.01 * abs(j - k)
            why[j, k] = "by its name" if similarity == 1.0 else reason
    pairs = zip(*linear_sum_assignment(-total))
    return tuple((candidates[k].name, why[j, k]) for j, k in pairs)


def _similarity(column: str, joint: str) -> float:
    """Return how similar names are, 0 to 1; 1 if the column's name contains the joint's."""
    column_words = " ".join(_words(column))
    joint_words = " ".join(_words(joint))
    if joint_words in column_words:
        return 1.0
    match = SequenceMatcher(None, column_words, joint_words).find_longest_match()
    return 0.9 * match.size / max(len(joint_words), 1)


def _explained(q: FloatArray, y: FloatArray) -> tuple[float, str]:
    """Return the fraction of a column's variance that a motion explains, 0 to 1, and in words.

    Args:
        q: Position of a motor, (t,).
        y: The column, (t,), regressed on the position and its derivatives.
    """
    if len(q) != len(y):
        return 0.0, "by its order"
    finite = np.isfinite(q) & np.isfinite(y)
    q = q[finite]
    y = y[finite]
    if len(q) < MIN_EXPLAINED_SAMPLES or not (np.ptp(q) > 0 and np.ptp(y) > 0):
        return 0.0, "by its order"
    q = q / np.abs(q).max()
    y = y / np.abs(y).max()
    width = max(1, len(q) // 500)  # derivatives of a smoothed position: a hint, not a model
    smooth = np.convolve(q, np.ones(width) / width, mode="same")
    qd = np.gradient(smooth)
    A = np.column_stack([np.ones(len(q)), smooth, qd, np.sign(qd), np.gradient(qd)])
    A /= np.maximum(np.abs(A).max(axis=0), 1e-300)
    residual = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
    explained = max(0.0, 1 - float(np.var(residual) / max(np.var(y), 1e-300)))
    return (
        explained,
        f"the motion of this joint explains {100 * explained:.0f} % of it",
    )
