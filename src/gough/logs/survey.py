"""Survey of a log without a description: its columns, and a proposed description.

Every guess is marked as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.errors import InvalidRecording
from gough.core.record import Columns, Record
from gough.core.units import canonical, conversion, dimension_of, is_unit
from gough.logs.checks import (
    BEYOND_LIMIT_RATIO,
    VELOCITY_UNITS,
    common_velocity_unit,
    velocity_ratio,
)
from gough.logs.description import (
    DESCRIPTION_FORMAT,
    Description,
    describe_headers,
)
from gough.logs.formats import is_folder, table_blocks
from gough.logs.lerobot import is_dataset
from gough.logs.proposals import (
    BY_LETTER,
    BY_ORDER,
    Family,
    choose_family,
    explained_fraction,
    objections,
    signal_kind,
    tokens,
)
from gough.logs.recording import JOINT_SIGNAL_UNITS
from gough.logs.tables import NUMBER_SIGNS, Table, joined

SURVEY_SAMPLES = 65536  # in a block
SURVEY_BLOCKS = 8  # of a file that are read
UNKNOWN_UNIT = "?"  # to be filled in; reading refuses it
NO_POSITIONS = "no columns look like the positions of all motors: name them, one for each joint"
TIME_PATTERN = r"time\w*|stamps?|timestamps?|t|clock|secs?|seconds|zeit\w*|temps|tiempo|tempo"
# Words of single numbers that state the time step, or the rate, of all
# samples.
STEP_PATTERN = r"ts|dt|tsample|sampletime"
RATE_PATTERN = r"fs|rate|freq|frequency|hz"
# Words of columns that count samples: they run in even steps and are no
# clocks.
COUNTER_PATTERN = r"seq\w*|index|idx|counter|frames?|rows?|nr|no|id"
# Fraction of a step by which steps of a clock may differ if its name
# does not identify it.
EVEN_STEP_RATIO = 1e-3
# End of the names of fractions of seconds, without signs:
# header.stamp.nsecs, timeNanoSec, tv_usec.
FRACTION_PATTERN = r"(nano|micro|n|u)(?:sec(?:ond)?s?)$"
# Where a name ends with a unit without brackets: `Moment 3 in Nm`,
# `M/Nm` but not `/topic/A`.
UNIT_AFTER_IN = r"\sin\s+(\S+)$"
UNIT_AFTER_SLASH = r"^[^/]*[^/\s]\s*/\s*([^/\s]+)$"
# Deviation of most steps of a clock from the usual one, from which it
# is not even.
MAX_JITTER_RATIO = 0.01
# Rates of controllers; the unit of a clock is guessed so that its rate
# lies between. [Hz]
CONTROLLER_RATES = (20.0, 50e3)
# Numbers of all pairs of motions and efforts that are compared, a few
# seconds; beyond it motions object to nothing. Six motors with 500,000
# samples have 2e7.
MAX_COMPARED_NUMBERS = 5e7
MAX_MOTORS = 64  # of a log without a robot
# Correlation of a column with the derivative of another from which it
# may be its velocity.
VELOCITY_CORRELATION = 0.8
# Units of angles that start again after one turn, with that turn; a
# guess only where a number that counts or switches cannot look like it.
TURNS = {"deg": 360.0, "rad": 2 * np.pi, "rev": 1.0}
GUESSED_TURNS = ("deg", "rad")
# smallest step of an angle that starts again, over its turn
MIN_WRAP_STEP_RATIO = 0.9
# guessed in this order
POSITION_UNITS = {"m": ("m", "mm", "um"), "rad": ("rad", "deg", "mrad")}
Assignment = tuple[tuple[str, str], ...]  # the column of each joint, and why
Proposal = Mapping[str, Assignment]  # by kind


class Motor(NamedTuple):
    """A motor of a robot file."""

    name: str
    unit: str  # `m` or `rad`
    limits: tuple[float, float] | None = None  # of the position, if any [unit]
    effort_limit: float | None = None  # largest effort, if any [N or N m]


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
    # of a clock of whole seconds: column with the rest, in its own unit
    fraction: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey(Record):
    """The columns of a log, and which of them may be which joint.

    Args:
        source: Name of the log.
        columns: Columns of numbers.
        unread: Content of the columns that are not numbers, by name.
        joints: The motors, of the robot or with names to be replaced.
        proposal: For each kind the column of each joint and why, in the
            order of the joints.
        decimal, thousands: Signs of the numbers.
        episode: Of a LeRobot dataset, the first one; None for any other
            log.
        plain: The log can be read without a description.
        objections: What the data say against a proposal, by kind and
            number of the joint.
        wrapping: Columns of angles that start again after one turn.
    """

    source: str
    columns: tuple[Column, ...]
    unread: Mapping[str, str]
    joints: tuple[str, ...]
    proposal: Proposal
    decimal: str = "."
    thousands: str = ""
    episode: int | None = None
    plain: bool = False
    objections: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    wrapping: frozenset[str] = frozenset()

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
        table: dict[str, list[Any]] = {}
        for name in names:
            table[name] = [getattr(column, name) for column in self.columns]
        return table

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        proposal: dict[str, list[dict[str, str]]] = {}
        for kind, assignment in self.proposal.items():
            proposal[kind] = []
            for j, (column, why) in enumerate(assignment):
                reason = self._reason(kind, j, why)
                proposal[kind].append({"joint": self.joints[j], "column": column, "why": reason})
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
            for j, (column, why) in enumerate(assignment):
                text.append(f"  {self.joints[j]}: '{column}' ({self._reason(kind, j, why)})")
        text.append("")
        if not self.proposal and not self.plain:
            text.append(NO_POSITIONS)
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
        if self.episode is not None:
            lines.append(f"episode = {self.episode}  # of the dataset")
        used: set[str] = set()
        clocks = {}
        for kind, assignment in self.proposal.items():
            used.update(column for column, _ in assignment)
            clocks[kind] = self.column(assignment[0][0]).clock
        used.update(clocks.values())
        used.update(self.column(clock).fraction for clock in clocks.values() if clock)
        main_clock = clocks.get("position", "")
        if not self.proposal:
            main_clock = next((column.name for column in self.columns if column.kind == "time"), "")
            used.add(main_clock)
        stated_rate = "" if main_clock else self._stated_rate()
        if stated_rate:
            lines.append(stated_rate)
        else:
            lines += ["", *self._clock("[time]", main_clock)]
        if not self.proposal:
            lines += ["", f"# {NO_POSITIONS}", "[position]", f'columns = ["{UNKNOWN_UNIT}"]']
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

    def _reason(self, kind: str, joint: int, why: str) -> str:
        """Return why a column is proposed for a joint, and what the data say against it."""
        objection = self.objections.get(kind, {}).get(joint)
        return f"{why}; {objection}" if objection else why

    def _signal_lines(self, kind: str, assignment: Assignment) -> list[str]:
        """Return the table of a description for one kind of signal."""
        lines = [f"[{kind}]"]
        for j, (name, why) in enumerate(assignment):
            lines.append(f"# {self.joints[j]}: '{name}', {self._reason(kind, j, why)}")
        columns = [self.column(name) for name, _ in assignment]
        units = [column.unit or UNKNOWN_UNIT for column in columns]
        guess = "  # a guess" if any(column.guessed for column in columns) else ""
        lines.append(f"columns = {_list([column.name for column in columns])}")
        if self.objections.get(kind) and guess:
            lines.append("# the data object: check the columns, then write the units")
            units = [UNKNOWN_UNIT] * len(units)
            guess = ""
        lines.append(f"units = {_list(units)}{guess}")
        if any(column.name in self.wrapping for column in columns):
            lines.append("unwrap = true  # a column starts again after one turn")
        if UNKNOWN_UNIT in units and kind in ("position", "reference"):
            lines.append('# counts of an encoder: unit "rev", and scale = 1 / counts a turn')
        if kind == "current" and any(dimension_of(unit) == "none" for unit in units):
            lines.append("# as recorded: drive gains are per this unit. If it is a fraction of the")
            lines.append("# rated torque, rename the table [effort] and add, for each motor,")
            lines.append('# rated = ["1.27 N m", ...] and the gear ratio = [100.0, ...]')
        return lines

    def _stated_rate(self) -> str:
        """Return the line of a description for a rate that the log states as one number."""
        for column in self.columns:
            if column.samples != 1 or not column.low > 0:
                continue
            words = tokens(column.name)
            if words and re.fullmatch(STEP_PATTERN, words[-1]):
                return f"rate = \"{1 / column.low:.9g} Hz\"  # a guess, from '{column.name}'"
            if words and re.fullmatch(RATE_PATTERN, words[-1]):
                return f"rate = \"{column.low:.9g} Hz\"  # a guess, from '{column.name}'"
        return ""

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
        columns = [clock]
        if clock.fraction:
            columns.append(self.column(clock.fraction))
        comment = f"  # a guess: {clock.rate:.4g} Hz" if clock.guessed else ""
        return [
            heading,
            f"columns = {_list([column.name for column in columns])}",
            f"units = {_list([column.unit for column in columns])}{comment}",
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


@np.errstate(over="ignore", invalid="ignore")  # of numbers that no sound log has
def survey(path: str | Path, motors: Sequence[Motor] = ()) -> Survey:
    """List the columns of a log of any format, and propose which may be which joint.

    Names, numbers and order decide (`gough.logs.proposals`); all joints
    get their signal from one family of columns. The data may only
    object, which is said. Without motors the joints are named `motor1`,
    `motor2`, ... to be replaced.
    """
    episode = 0 if is_dataset(Path(path)) else None
    table, (decimal, thousands) = _table(Path(path), episode)
    columns = list(_columns(table))
    motors = motors or _motors_by_name(columns)
    proposal = _proposal(table, columns, motors) if motors else {}
    wrapping: set[str] = set()
    for kind, assignment in proposal.items():
        names = [name for name, _ in assignment]
        if kind in ("position", "reference"):
            columns, wrapping_of_kind = _with_wrap_units(table, columns, names)
            table = _unwrapped(table, columns, wrapping_of_kind)
            wrapping |= wrapping_of_kind
        places: list[int] = []
        for name in names:
            places += [k for k, column in enumerate(columns) if column.name == name]
        for k, column in zip(places, _with_units([columns[k] for k in places], kind, motors)):
            columns[k] = column
    by_name = {column.name: column for column in columns}
    by_name |= _with_velocity_units(table, by_name, motors, proposal)
    return Survey(
        source=Path(path).name,
        plain=_describes_itself(table),
        unread=table.unread,
        decimal=decimal,
        thousands=thousands,
        episode=episode,
        columns=tuple(by_name[column.name] for column in columns),
        joints=tuple(motor.name for motor in motors),
        proposal=proposal,
        objections=_objections(table, by_name, motors, proposal, wrapping),
        wrapping=frozenset(wrapping),
    )


def _motors_by_name(columns: Sequence[Column]) -> list[Motor]:
    """Return a motor for each column of the largest family named as positions."""
    positions = [column for column in columns if column.kind == "position"]
    for count in range(min(len(positions), MAX_MOTORS), 0, -1):
        numbers = [str(k + 1) for k in range(count)]
        family = choose_family([column.name for column in positions], numbers)
        if family is None or (family.reason == BY_ORDER and count < len(positions)):
            continue
        units = {column.name: column.unit for column in positions}
        motors = []
        for k, name in enumerate(family.columns):
            sliding = dimension_of(units[name] or "rad") == "length"
            motors.append(Motor(name=f"motor{k + 1}", unit="m" if sliding else "rad"))
        return motors
    return []


def _proposal(table: Table, columns: Sequence[Column], motors: Sequence[Motor]) -> Proposal:
    """Return the columns of each kind of signal for all motors; nothing without positions."""
    joints = [motor.name for motor in motors]
    proposal: dict[str, Assignment] = {}
    order = list(range(len(motors)))  # of the letters of axes that limits of positions allow
    if _without_words(columns):
        return _blocks_by_order(table, columns, motors)
    for kind in ("position", "effort", "current", "velocity", "reference"):
        candidates = _of_dimension([c for c in columns if c.kind == kind], kind, motors)
        if kind == "position" and len(candidates) < len(motors):  # all that move
            taken = ("time", "extra", "effort", "current", "velocity")
            candidates = [c for c in columns if c.kind not in taken and c.high > c.low]
        family = _changing_family(candidates, joints)
        if family is None:
            if kind == "position":
                return {}
            continue
        names = family.columns
        if kind == "position" and family.reason in (BY_ORDER, BY_LETTER):
            names = _within_limits(candidates, motors)
            if set(names) == set(family.columns):
                order = [family.columns.index(name) for name in names]
        elif family.reason == BY_LETTER:
            names = tuple(family.columns[k] for k in order)
        proposal[kind] = tuple((name, family.reason) for name in names)
    return proposal


def _changing_family(columns: Sequence[Column], joints: Sequence[str]) -> Family | None:
    """Return the family that is the first choice; one that never changes only without another."""
    family = choose_family([column.name for column in columns], joints)
    changing = [column.name for column in columns if column.high > column.low]
    if family is None or set(family.columns) & set(changing):
        return family
    return choose_family(changing, joints) or family


def _of_dimension(columns: list[Column], kind: str, motors: Sequence[Motor]) -> list[Column]:
    """Return the columns of a kind without those whose stated unit is of no motor.

    An arm has no positions in mm; its external axes may.
    """
    dimensions = {"none"}
    for motor in motors:
        unit = JOINT_SIGNAL_UNITS[motor.unit].get(kind, motor.unit)
        dimensions.add(dimension_of(unit))
    fitting = []
    for column in columns:
        stated = bool(column.unit) and not column.guessed
        if not stated or kind == "current" or dimension_of(column.unit) in dimensions:
            fitting.append(column)
    return fitting if len(fitting) >= len(motors) else columns


def _without_words(columns: Sequence[Column]) -> bool:
    """Return whether names are meaningless: numbers, or columns of one matrix."""
    words = set()
    for column in columns:
        if column.samples == 1:  # a number beside the samples
            continue
        if column.kind not in ("", "time"):
            return False
        if column.kind != "time":
            words.add(" ".join(token for token in tokens(column.name) if not token.isdigit()))
    return len(words) <= 1


def _within_limits(candidates: Sequence[Column], motors: Sequence[Motor]) -> tuple[str, ...]:
    """Return one column for each motor in their order, or in the one that limits allow."""
    from scipy.optimize import linear_sum_assignment

    score = np.zeros((len(motors), len(candidates)))
    for j, motor in enumerate(motors):
        for k, column in enumerate(candidates):
            score[j, k] = _may_be(column, motor) - 0.01 * abs(j - k) / len(candidates)
    _, chosen = linear_sum_assignment(-score)
    return tuple(candidates[k].name for k in chosen)


def _blocks_by_order(
    table: Table, columns: Sequence[Column], motors: Sequence[Motor]
) -> dict[str, Assignment]:
    """Return signals of columns without words: positions, perhaps velocities, then efforts."""
    moving = [
        column.name for column in columns if column.kind != "time" and column.high > column.low
    ]
    n = len(motors)
    if len(moving) < n:
        return {}
    blocks = [moving[start : start + n] for start in range(0, len(moving), n)]
    kinds = ["position"]
    if len(moving) == 2 * n:
        kinds.append("effort")
    elif len(moving) == 3 * n and _is_derivative(table, blocks[0], blocks[1]):
        kinds += ["velocity", "effort"]
    elif len(moving) == 3 * n:
        kinds.append("effort")
    proposal = {}
    for kind, names in zip(kinds, blocks):
        proposal[kind] = tuple((name, "by its order, a guess") for name in names)
    return proposal


def _is_derivative(table: Table, positions: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether columns correlate with the derivatives of others."""
    for name, other in zip(positions, others):
        slope = np.gradient(table.columns[name])
        if not np.corrcoef(slope, table.columns[other])[0, 1] > VELOCITY_CORRELATION:
            return False
    return True


def _objections(
    table: Table,
    columns: Mapping[str, Column],
    motors: Sequence[Motor],
    proposal: Proposal,
    wrapping: Collection[str],
) -> dict[str, dict[int, str]]:
    """Return what the data say against a proposal, by kind and number of the joint."""
    remarks: dict[str, dict[int, str]] = {}
    for kind, assignment in proposal.items():
        found: dict[int, str] = {}
        if kind in ("effort", "current"):
            found |= _foreign_efforts(table, motors, proposal["position"], assignment)
        for j, (motor, (name, _)) in enumerate(zip(motors, assignment)):
            question = _beyond_limits(columns[name], kind, motor)
            if question and name not in wrapping:
                found[j] = question
        found |= _other_clocks(table, columns, assignment)
        if kind == "velocity":
            found |= _contradicted_velocities(table, columns, proposal)
        if found:
            remarks[kind] = found
    return remarks


def _other_clocks(
    table: Table, columns: Mapping[str, Column], assignment: Assignment
) -> dict[int, str]:
    """Return which columns of a kind were sampled at other times than the first of them."""
    first = columns[assignment[0][0]].clock
    remarks = {}
    for j, (name, _) in enumerate(assignment):
        clock = columns[name].clock
        if clock == first or not clock or not first:
            continue
        if not np.array_equal(table.columns[clock], table.columns[first]):
            remarks[j] = f"BUT its time '{clock}' differs from '{first}': resample one of them"
    return remarks


def _contradicted_velocities(
    table: Table, columns: Mapping[str, Column], proposal: Proposal
) -> dict[int, str]:
    """Return which velocities are not the derivatives of their positions."""
    remarks = {}
    for j, ratio in enumerate(_velocity_ratios(table, columns, proposal)):
        unit = columns[proposal["velocity"][j][0]].unit
        factor = 1.0
        if unit and unit != UNKNOWN_UNIT:
            factor = conversion(unit)
        if not np.isnan(ratio) and common_velocity_unit([ratio * factor], ["rad/s"]) is None:
            remarks[j] = (
                f"BUT it is {ratio * factor:.4g} times the derivative of the position: check "
                "units, signs and gear ratios of both, and the unit of time"
            )
    return remarks


def _foreign_efforts(
    table: Table, motors: Sequence[Motor], positions: Assignment, efforts: Assignment
) -> dict[int, str]:
    """Return which efforts the motion of another joint explains."""
    n_samples = len(table.columns[efforts[0][0]])
    if n_samples * len(motors) ** 2 > MAX_COMPARED_NUMBERS:
        return {}

    def explained(effort: int, position: int) -> float:
        q = table.columns[positions[position][0]]
        y = table.columns[efforts[effort][0]]
        return explained_fraction(q, y)

    return objections(explained, [motor.name for motor in motors])


def _beyond_limits(column: Column, kind: str, motor: Motor) -> str:
    """Return what is wrong with the range of a column for a motor, "" if nothing."""
    if column.unit == UNKNOWN_UNIT or not column.unit:
        return ""
    largest = max(abs(column.low), abs(column.high))
    if kind == "effort" and motor.effort_limit and dimension_of(column.unit) != "none":
        largest *= conversion(column.unit)
        ratio = largest / motor.effort_limit
        if ratio > BEYOND_LIMIT_RATIO:
            return (
                f"BUT it reaches {largest:.4g}, {ratio:.1f} times the limit of the motor "
                f"({motor.effort_limit:.4g}): check its unit, rated value and gear ratio"
            )
    if kind == "position" and not _fits(column, motor, column.unit):
        limits = "the limits of the joint" if motor.limits else "what a joint usually moves"
        return (
            f"BUT from {column.low:.4g} to {column.high:.4g} {column.unit} it is beyond {limits}: "
            "check unit, offset and gear ratio"
        )
    return ""


def _describes_itself(table: Table) -> bool:
    """Return True if a table can be read without a description."""
    try:
        described = describe_headers([*table.columns, *table.unread], table.source)
    except InvalidRecording:
        return False
    return bool(described) and not table.repeated


def _table(path: Path, episode: int | None) -> tuple[Table, tuple[str, str]]:
    """Read the beginning of a file; also return the decimal and the thousands sign."""
    if is_folder(path):
        raise InvalidRecording(
            f"'{path.name}' is a folder; give one of its files",
            source=path.name,
        )
    failed: InvalidRecording | None = None
    for signs in NUMBER_SIGNS:
        read = Description(
            joints=(), signals=(), decimal=signs[0], thousands=signs[1], episode=episode
        )
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
    axis_letters = _axis_letters(known)
    clocks = {}
    fractions = {}
    for seconds, rest in _divided_clocks(known):
        clocks[seconds] = _divided_clock(seconds, rest, known)
        fractions[rest] = _fraction_column(rest, known[rest])
    for name, values in known.items():
        if name in clocks or name in fractions:
            continue
        if _is_time(name, values, name in table.seconds):
            clocks[name] = _clock(name, values, name in table.seconds)
    even = set()
    for clock in clocks.values():
        if _has_even_steps(_seconds(known, clock)):
            even.add(clock.name)
    sections = _clocks_to_the_left(known, clocks)
    for name, values in known.items():
        if name in clocks or name in fractions:
            yield clocks.get(name) or fractions[name]
            continue
        near = _clock_of(name, table, clocks.values(), even, sections[name])
        finite = values[np.isfinite(values)]
        unit, stated = _unit_in(name)
        if name in axis_letters and not stated:
            unit = ""
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


def _clocks_to_the_left(names: Iterable[str], clocks: Collection[str]) -> dict[str, list[str]]:
    """Return for each column the clock before it, with those that stand beside that clock."""
    beside_each_other: list[str] = []
    after_clock = False
    sections = {}
    for name in names:
        if name in clocks:
            beside_each_other = [*beside_each_other, name] if after_clock else [name]
        after_clock = name in clocks
        sections[name] = beside_each_other
    return sections


def _clock_of(
    name: str,
    table: Table,
    clocks: Iterable[Column],
    even: Collection[str],
    to_the_left: Collection[str],
) -> Column | None:
    """Return the clock of a column: as long, and of the same topic or named after it.

    Of several the one with even steps: others are stamps of a program
    that logs. Of several with even steps the one to the left of the
    column.
    """
    length = len(table.columns[name])
    topic = name.rpartition("/")[0]
    best = None
    best_rank = (False,) * 5
    for clock in clocks:
        if len(table.columns[clock.name]) != length:
            continue
        same_topic = clock.name.rpartition("/")[0] == topic
        without_unit = re.sub(r"\s*\[[^\]]*\]$", "", name)
        named_after = clock.name in (f"{name} time", f"{without_unit} time")
        own_stamps = not clock.name.endswith("/time")
        is_even = clock.name in even
        rank = (same_topic, named_after, own_stamps, is_even, clock.name in to_the_left)
        if best is None or rank > best_rank:
            best = clock
            best_rank = rank
    return best


def _has_even_steps(time: FloatArray) -> bool:
    """Return True if most steps of a clock are alike; lost and repeated samples do not matter."""
    steps = np.diff(time)
    step = np.median(steps)
    return bool(np.median(np.abs(steps - step)) <= MAX_JITTER_RATIO * step)


def _seconds(columns: Mapping[str, FloatArray], clock: Column) -> FloatArray:
    """Return the times of a clock after its first one, (t,). [s]"""
    values = columns[clock.name]
    time = (values - values[0]) * conversion(clock.unit)
    if clock.fraction:
        time = time + columns[clock.fraction] * conversion(_fraction_unit(clock.fraction))
    return np.asarray(time)


def _fraction_unit(name: str) -> str:
    """Return the unit of a column with fractions of seconds by its name, "" if it is none."""
    match = re.search(FRACTION_PATTERN, _squashed(name))
    if match is None:
        return ""
    return {"n": "ns", "m": "us", "u": "us"}[match[1][0]]


def _squashed(name: str) -> str:
    """Return the letters and digits of a name."""
    return "".join(tokens(re.sub(r"\W", " ", name)))


def _divided_clocks(columns: Mapping[str, FloatArray]) -> Iterator[tuple[str, str]]:
    """Yield pairs of columns with whole seconds and the rest of them: `secs` and `nsecs`."""
    by_squashed_name = {_squashed(name).removesuffix("s"): name for name in columns}
    for rest, fraction in columns.items():
        unit = _fraction_unit(rest)
        if not unit:
            continue
        without_prefix = re.sub(FRACTION_PATTERN, "sec", _squashed(rest))
        seconds = by_squashed_name.get(without_prefix)
        if seconds is None or seconds == rest or len(columns[seconds]) != len(fraction):
            continue
        whole = columns[seconds]
        total = (whole - whole[0]) + fraction * conversion(unit)
        if not np.isfinite(total).all() or len(total) < 3 or (whole != np.round(whole)).any():
            continue
        if (np.diff(total) >= 0).all() and total[-1] > total[0]:
            yield seconds, rest


def _divided_clock(seconds: str, rest: str, columns: Mapping[str, FloatArray]) -> Column:
    """Return a clock of whole seconds and a column with the rest of them."""
    whole = columns[seconds]
    clock = Column(
        name=seconds,
        samples=len(whole),
        low=float(whole[0]),
        high=float(whole[-1]),
        kind="time",
        unit="s",
        clock=seconds,
        fraction=rest,
        guessed=False,
    )
    steps = np.diff(_seconds(columns, clock))
    return clock._replace(rate=1 / _typical_step(steps))


def _fraction_column(name: str, values: FloatArray) -> Column:
    """Return the column with the fractions of the seconds of a clock."""
    return Column(
        name=name,
        samples=len(values),
        low=float(values.min()),
        high=float(values.max()),
        kind="time",
        unit=_fraction_unit(name),
        guessed=False,
    )


def _typical_step(steps: FloatArray) -> float:
    """Return the typical step of a clock, whose stamps may repeat."""
    return float(np.median(steps[steps > 0])) * float(np.mean(steps > 0))


def _unit_in(name: str) -> tuple[str, bool]:
    """Return the unit in a name, "" without one; also whether it is stated, not only likely.

    It is stated in brackets (`q [deg]`), after the word `in` or a slash
    (`M/Nm`), and likely after an underscore (`q_deg`), as a last word
    with a slash (`speed m/s`) or as one letter after a slash. The
    number in `q[1]` is an index; `q [1]`, with a space, has no unit. A
    percentage may be followed by what it is a fraction of: `[% rated]`.
    """
    stated = re.findall(r"[\[(]([^\])]+)[\])]", name)
    if re.search(r"\s[\[(]1[\])]\s*$", name):
        return "1", True
    for text in stated:
        fraction = re.match(r"\s*([%‰])\s*[^\W\d]", text)
        if fraction and not is_unit(text):
            return fraction[1], True
    stated += re.findall(UNIT_AFTER_IN, name)
    likely = name.split("_")[1:][-1:]
    last_word = (name.split() or [""])[-1]
    if "/" in last_word and is_unit(last_word):
        likely = [last_word]
    else:
        for unit in re.findall(UNIT_AFTER_SLASH, name):
            if len(unit) == 1:
                likely = [unit]
            else:
                stated.append(unit)
    for unit in (*stated, *likely):
        if is_unit(unit) and not unit.isdigit():
            return unit, unit in stated
    return "", False


def _axis_letters(names: Iterable[str]) -> set[str]:
    """Return names that end with the letter of an axis, no unit: `pos_A` beside `pos_B`."""
    by_stem: dict[str, list[str]] = {}
    for name in names:
        match = re.fullmatch(r"(.+)[_/](\w)", name)
        if match:
            by_stem.setdefault(match[1], []).append(name)
    letters = set()
    for family in by_stem.values():
        if any(not is_unit(name[-1]) for name in family):
            letters.update(family)
    return letters


def _kind(name: str, unit: str) -> str:
    """Guess the kind of a column from its name and unit; "" if both are unknown."""
    by_unit = {
        "force": "effort",
        "torque": "effort",
        "current": "current",
        "angular velocity": "velocity",
        "velocity": "velocity",
    }
    kind, commanded = signal_kind(name)
    dimension = dimension_of(unit) if unit else ""
    if kind == "extra":
        return kind
    kind = by_unit.get(dimension, kind)
    if not kind and not commanded and dimension in ("length", "angle"):
        return "position"
    if kind in ("position", "") and commanded:
        return "reference"
    if kind == "velocity" and (commanded or dimension == "none"):
        return ""
    fraction = dimension == "none" and unit != "1"
    if kind == "position" and fraction:  # of an axis: its load
        return "current"
    if kind == "effort" and dimension == "none":  # a fraction of a rated torque
        return "current"
    return kind


def _is_time(name: str, values: FloatArray, known: bool) -> bool:
    """Return True if a column is a clock by its name or its unit, or by its even steps."""
    words = []
    for word in tokens(name):
        if not (is_unit(word) and dimension_of(word) == "time"):
            words.append(word)
    named = known or words[:1] == ["time"]
    if words and re.fullmatch(TIME_PATTERN, words[-1]):
        named = True
    unit, unit_is_stated = _unit_in(name)
    if unit_is_stated and dimension_of(unit) == "time":
        named = True
    if len(values) < 3 or not np.isfinite(values).all():
        return False
    if not known and words and re.fullmatch(COUNTER_PATTERN, words[-1]):
        return False
    steps = np.diff(values)
    if named:  # stamps of coarse resolution repeat
        return bool((steps >= 0).all() and steps.mean() > 0)
    # a column without a word that runs in even steps is a clock, too,
    # if it does not count samples
    even = not _kind(name, "") and np.ptp(steps) < EVEN_STEP_RATIO * steps.mean()
    return bool(even and (steps > 0).all() and not _counts(values))


def _counts(values: FloatArray) -> bool:
    """Return whether numbers count samples: 0, 1, 2, ..., from any whole number on."""
    return bool((np.diff(values) == 1).all() and values[0] == np.round(values[0]))


def _clock(name: str, values: FloatArray, known: bool) -> Column:
    """Return a clock with its unit: known to be s, in its name, or guessed from its rate."""
    steps = np.diff(values)
    step = _typical_step(steps)
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


def _with_units(columns: Sequence[Column], kind: str, motors: Sequence[Motor]) -> list[Column]:
    """Return the columns of one kind with the units in their names, or with guessed ones.

    A guess of positions is one unit that keeps all joints of a kind
    within their limits.
    """
    guesses = {}
    for unit in ("m", "rad"):
        guesses[unit] = JOINT_SIGNAL_UNITS[unit].get(kind, "1")
        if kind in ("position", "reference"):
            pairs = []
            for column, motor in zip(columns, motors):
                if motor.unit == unit and not column.unit:
                    pairs.append((column, motor))
            guesses[unit] = _common_unit(pairs, POSITION_UNITS[unit])
    with_units = []
    for column, motor in zip(columns, motors):
        if column.unit:
            with_units.append(column._replace(kind=kind))
        else:
            unit = guesses[motor.unit]
            with_units.append(column._replace(kind=kind, unit=unit, guessed=True))
    return with_units


def _with_wrap_units(
    table: Table, columns: Sequence[Column], names: Collection[str]
) -> tuple[list[Column], set[str]]:
    """Return columns with the unit of the angles that start again, and the names of these.

    Names are those of the positions of all joints, which have one unit
    unless others are stated.
    """
    unit_of_wraps = ""
    wrapping = set()
    for column in columns:
        if column.name in names:
            unit = _wrap_unit(table.columns[column.name], column)
            if unit:
                wrapping.add(column.name)
                unit_of_wraps = unit
    with_units = []
    for column in columns:
        if column.name in names and unit_of_wraps and not column.unit:
            column = column._replace(unit=unit_of_wraps)
        with_units.append(column)
    return with_units, wrapping


def _wrap_unit(values: FloatArray, column: Column) -> str:
    """Return the unit in which a column starts again after one turn, "" if it does not."""
    units: Sequence[str] = GUESSED_TURNS
    if column.unit:
        units = [canonical(column.unit)]
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return ""
    span = np.ptp(finite)
    largest_step = np.abs(np.diff(finite)).max()
    for unit in units:
        turn = TURNS.get(unit, 0.0)
        if span <= turn * (1 + 1e-6) and largest_step > MIN_WRAP_STEP_RATIO * turn:
            return unit
    return ""


def _unwrapped(table: Table, columns: Sequence[Column], wrapping: Collection[str]) -> Table:
    """Return a table whose columns go on where they start again after one turn."""
    unwrapped = dict(table.columns)
    for column in columns:
        if column.name in wrapping:
            turn = TURNS[canonical(column.unit)]
            unwrapped[column.name] = np.unwrap(table.columns[column.name], period=turn)
    return replace(table, columns=unwrapped)


def _with_velocity_units(
    table: Table, columns: Mapping[str, Column], motors: Sequence[Motor], proposal: Proposal
) -> dict[str, Column]:
    """Return the velocity columns with guessed units in which they are derivatives of positions.

    If there is no such unit it is unknown; without a clock the unit
    follows that of the position.
    """
    velocities = [columns[name] for name, _ in proposal.get("velocity", ())]
    ratios = _velocity_ratios(table, columns, proposal)
    guessed = {}
    for kind, units in VELOCITY_UNITS.items():
        members = [j for j, column in enumerate(velocities) if motors[j].unit == kind]
        unknown = [j for j in members if velocities[j].guessed]
        unit = common_velocity_unit([ratios[j] for j in unknown], units)
        for j in unknown:
            position = columns[proposal["position"][j][0]]
            from_position = f"{position.unit}/s"
            if unit is None and np.isnan(ratios[j]) and is_unit(from_position):
                guessed[velocities[j].name] = velocities[j]._replace(unit=from_position)
            else:
                guessed[velocities[j].name] = velocities[j]._replace(unit=unit or UNKNOWN_UNIT)
    return guessed


def _velocity_ratios(
    table: Table, columns: Mapping[str, Column], proposal: Proposal
) -> list[float]:
    """Return each velocity column over the derivative of its position in SI units, (a,).

    NaN if the unit of the position or a clock is not known.
    """
    ratios = []
    for (position, _), (velocity, _) in zip(
        proposal.get("position", ()), proposal.get("velocity", ())
    ):
        unit = columns[position].unit
        clock = columns[velocity].clock
        same_clock = bool(clock) and clock == columns[position].clock
        if not same_clock or unit == UNKNOWN_UNIT or not unit:
            ratios.append(float("nan"))
            continue
        time = _seconds(table.columns, columns[clock])
        q = table.columns[position] * conversion(unit)
        ratios.append(velocity_ratio(time, q, table.columns[velocity]))
    return ratios


def _common_unit(pairs: Sequence[tuple[Column, Motor]], units: Sequence[str]) -> str:
    """Return the first unit in which all columns stay within the limits of their motors."""
    for unit in units:
        if all(_fits(column, motor, unit) for column, motor in pairs):
            return unit
    return UNKNOWN_UNIT


def _fits(column: Column, motor: Motor, unit: str) -> bool:
    """Return True if a range lies within the limits of a motor, with a tenth of them as margin."""
    usual_limits = {"rad": (-4 * np.pi, 4 * np.pi), "m": (-10.0, 10.0)}
    low, high = motor.limits or usual_limits[motor.unit]
    factor = conversion(unit)
    margin = 0.1 * (high - low)
    return low - margin <= factor * column.low and factor * column.high <= high + margin


def _may_be(column: Column, motor: Motor) -> bool:
    """Return True if a column can be the position of a motor in some unit."""
    if column.unit and not column.guessed:
        units = [column.unit] if dimension_of(column.unit) in ("length", "angle") else []
    else:
        units = list(POSITION_UNITS[motor.unit])
    return any(_fits(column, motor, unit) for unit in units)
