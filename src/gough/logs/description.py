"""Descriptions of logs: which column is which joint, from TOML files or from headers.

docs/logs.md has all keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from gough.core.documents import parse_toml
from gough.core.errors import (
    GoughError,
    InvalidInput,
    InvalidRecording,
    nearest,
)
from gough.core.files import MAX_TOML_CHARACTERS, read_text
from gough.core.units import canonical, conversion, dimension_of, quantity
from gough.logs.periods import INTERPOLATIONS
from gough.logs.recording import (
    JOINT_KINDS,
    JOINT_SIGNAL_UNITS,
    KINDS,
)

DESCRIPTION_FORMAT = 1
DESCRIPTION_KEYS = {
    "format",
    "joints",
    "payload",
    "rate",
    "period",
    "period_samples",
    "decimal",
    "thousands",
    "skip",
    "episode",
    "start",
    "stop",
    "time",
    *KINDS,
}
COLUMN_KEYS = {
    "file",
    "files",
    "columns",
    "names",
    "unit",
    "units",
    "scale",
    "interpolation",
    "time",
    "unwrap",
    "offset",
    "delay",
    "rated",
    "ratio",
}
DECIMAL_SIGNS = (".", ",")
THOUSANDS_SIGNS = ("", ".", ",", "'", " ")
# Power of the gear ratio that takes each kind of signal from the motor
# to the joint.
GEAR_POWERS = {"position": -1, "velocity": -1, "reference": -1, "effort": 1}
_HEADER = re.compile(
    r"^(?:time|(?P<name>.+)\.(?P<kind>" + "|".join(KINDS) + r"))(?:\s*\[(?P<unit>.*)\])?$"
)

# The number in `q.position[1]` is an index of a matrix; `a.current
# [1]`, with a space, has no unit.
_INDEXED = re.compile(r"\S\[\d+\]$")

# Dimensions that each kind of column may have, with their SI units.
_POSITIONS = {"length": "m", "angle": "rad"}
_DIMENSIONS: dict[str, dict[str, str]] = {
    "position": _POSITIONS,
    "reference": _POSITIONS,
    "pose": _POSITIONS,
    "passive": _POSITIONS,
    "mocap": _POSITIONS,
    "velocity": {"velocity": "m/s", "angular velocity": "rad/s"},
    "effort": {"force": "N", "torque": "N m"},
    "current": {"current": "A", "voltage": "V", "none": "1"},
    "extra": {"none": "1"},
    "time": {"time": "s"},
}


class Clock(NamedTuple):
    """Time stamps: the sum of some columns; without any, the rate of the description."""

    columns: tuple[str, ...] = ()
    factors: tuple[float, ...] = ()  # of each column to seconds
    offset: float = 0.0  # added [s]
    file: str = ""  # that contains them; "" if it is that of the values


class Signal(NamedTuple):
    """A column of a file, and how its numbers are converted."""

    kind: str
    name: str  # joint or coordinate
    unit: str  # SI; as recorded for currents and extra columns
    column: str  # "" for the only one of its file
    factor: float  # from the number in the file to the unit
    clock: Clock
    file: str = ""  # inside the folder of the log; "" if the log is one file
    interpolation: str = "linear"
    turn: float = 0.0  # after which it wraps; 0 if it does not [unit]
    offset: float = 0.0  # added [unit]
    delay: float = 0.0  # by which values are older than their stamps [s]


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """How the files of a log are converted to a recording."""

    joints: tuple[str, ...]
    # ordered by kind, positions first, then as the joints
    signals: tuple[Signal, ...]
    payload: str | None = None  # name of the payload that is carried
    rate: float | None = None  # of an even clock to resample to [Hz]
    period: float | None = None  # of the motion [s]
    period_samples: int | None = None  # the same in samples
    decimal: str = "."  # decimal sign of numbers
    thousands: str = ""  # thousands sign of numbers
    skip: int = 0  # lines above the table
    episode: int | None = None  # of a LeRobot dataset
    start: float = 0.0  # of the samples that are kept, after the first one [s]
    stop: float = math.inf  # [s]
    ignored: tuple[str, ...] = ()  # columns that are not used
    absolute: bool = False  # times are kept as they are in the file

    def of(self, kind: str) -> tuple[Signal, ...]:
        """Return the signals of one kind."""
        return tuple(signal for signal in self.signals if signal.kind == kind)


def load_description(path: str | Path) -> Description:
    """Read a description file; raise `InvalidRecording` if anything in it is wrong."""
    path = Path(path)
    try:
        data = parse_toml(read_text(path, MAX_TOML_CHARACTERS))
    except InvalidInput as error:
        raise InvalidRecording(
            f"cannot read the description '{path.name}': {error}",
            source=path.name,
        ) from error
    try:
        return parse_description(data)
    except GoughError as error:
        raise InvalidRecording(
            f"{path.name}: {error}", source=path.name, **error.numbers
        ) from error


def parse_description(data: Mapping[str, Any]) -> Description:
    """Return the description with the keys of such a file."""
    _check_keys(data, DESCRIPTION_KEYS, "")
    _take(
        data,
        "format",
        "",
        f"format = {DESCRIPTION_FORMAT}",
        lambda f: f == DESCRIPTION_FORMAT,
    )
    joints = _names(data, "joints", "")
    if len(set(joints)) != len(joints):
        raise InvalidRecording(f"joint names repeat: {', '.join(joints)}")
    if "period" in data and "period_samples" in data:
        raise InvalidRecording("give period or period_samples, not both")
    decimal, thousands = _number_signs(data)
    payload = _take(
        data,
        "payload",
        "",
        "a name",
        lambda p: isinstance(p, str | None),
        "none",
    )
    rate = _quantity(data, "rate", "frequency")
    start, stop = _span(data)
    stamps = data.get("time", None if rate is None else {})
    signals: list[Signal] = []
    for kind in KINDS:
        if kind in data:
            signals += _signals(kind, data[kind], joints, stamps)
    _check_signals(signals, rate)
    whole_period = _take(data, "period_samples", "", "a whole number from 2", _is_whole(2), 0)
    return Description(
        joints=joints,
        signals=tuple(signals),
        payload=None if payload == "none" else payload,
        rate=rate,
        period=_quantity(data, "period", "time"),
        decimal=decimal,
        thousands=thousands,
        start=start,
        stop=stop,
        period_samples=whole_period or None,
        skip=_take(data, "skip", "", "a whole number from 0", _is_whole(0), 0),
        episode=_episode(data),
    )


def _number_signs(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the decimal and the thousands sign of numbers."""
    decimal = data.get("decimal", ".")
    thousands = data.get("thousands", "")
    known = decimal in DECIMAL_SIGNS and thousands in THOUSANDS_SIGNS
    if not known or decimal == thousands:
        raise InvalidRecording(
            f"decimal is {decimal!r} and thousands {thousands!r}, expected '.' or ',', and another "
            "sign between thousands, if any"
        )
    return decimal, thousands


def _span(data: Mapping[str, Any]) -> tuple[float, float]:
    """Return from when to when samples are kept, after the first one. [s]"""
    start = _quantity(data, "start", "time") or 0.0
    stop = _quantity(data, "stop", "time")
    if stop is None:
        stop = math.inf
    if start < 0 or stop <= start:
        raise InvalidRecording(
            f"start is {start:g} s and stop {stop:g} s; expected a span after the first sample"
        )
    return start, stop


def _episode(data: Mapping[str, Any]) -> int | None:
    """Return the episode of a dataset, None if none is stated."""
    if "episode" not in data:
        return None
    return int(_take(data, "episode", "", "a whole number from 0", _is_whole(0)))


class _ColumnTable(NamedTuple):
    """The table of one kind of columns in a description."""

    kind: str
    data: Mapping[str, Any]
    n_columns: int

    def each(
        self, key: str, wanted: str, good: Callable[[Any], bool], usual: Any = None
    ) -> list[Any]:
        """Return an entry for each column: one for all, or a list."""
        given = self.data.get(key, usual)
        entries = given if isinstance(given, list) else [given] * self.n_columns
        if len(entries) != self.n_columns or not all(map(good, entries)):
            raise InvalidRecording(
                f"[{self.kind}] {key} is {given!r}, expected {wanted}, or a list of one for each "
                f"of {self.n_columns} columns"
            )
        return entries


def _signals(kind: str, data: Any, joints: tuple[str, ...], time: Any) -> list[Signal]:
    """Return the columns of one kind."""
    where = f"[{kind}] "
    if not isinstance(data, dict):
        raise InvalidRecording(f"{kind} is {data!r}, expected a table [{kind}]")
    _check_keys(data, COLUMN_KEYS, where)
    names, columns = _named_columns(kind, data, joints)
    unit_key = "units" if "units" in data else "unit"
    if unit_key not in data or ("unit" in data and "units" in data):
        raise InvalidRecording(
            f'{where}a unit is missing or given twice: write unit = "m" or units = [...]; it is '
            "never guessed"
        )
    stamps = data.get("time", time)
    if stamps is None:
        raise InvalidRecording(
            f"{where}there is no time base; add a table [time] with columns and units, or a rate"
        )
    table = _ColumnTable(kind, data, len(columns))
    units = table.each(unit_key, "a unit", _is_text)
    scales = _through_gear(table, table.each("scale", "a number other than zero", _is_factor, 1.0))
    rated = table.each("rated", 'a value with its unit like "1.27 N m"', _is_text, "")
    offsets = table.each("offset", "a number in the unit of the columns", _is_number, 0.0)
    delays = table.each("delay", 'a time like "2 ms"', _is_text, "0 s")
    file_key = "files" if "files" in data else "file"
    files = table.each(file_key, "a name inside the folder of the log", _is_inside, "")
    method = data.get("interpolation", "linear")
    if method not in INTERPOLATIONS:
        raise InvalidRecording(
            f"{where}interpolation is {method!r}{nearest(str(method), INTERPOLATIONS)}"
        )
    unwrap = _unwrap(data, kind, units)
    clock = _clock(stamps)
    signals = []
    for k, (name, column) in enumerate(zip(names, columns)):
        factor, si_unit = _si(kind, units[k], f"{where}column '{column}'", rated[k])
        turn = 2 * math.pi if unwrap is True else unwrap * factor
        signals.append(
            Signal(
                kind=kind,
                name=name,
                unit=si_unit,
                column=column,
                factor=float(factor * scales[k]),
                clock=clock,
                file=files[k],
                interpolation=method,
                turn=abs(turn * scales[k]),
                offset=float(offsets[k] * factor),
                delay=_quantity({"delay": delays[k]}, "delay", "time") or 0.0,
            )
        )
    return signals


def _named_columns(
    kind: str, data: Mapping[str, Any], joints: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the joints or coordinates of one kind of signal, and their columns."""
    where = f"[{kind}] "
    if "files" in data and "columns" not in data:  # each column in a file of its own
        columns = ("",) * len(_names(data, "files", where))
    else:
        columns = _names(data, "columns", where)
    if kind in JOINT_KINDS and "names" in data:
        raise InvalidRecording(
            f"{where}names: the columns of a joint signal follow 'joints'; leave names out"
        )
    names = joints if kind in JOINT_KINDS else _names(data, "names", where)
    if len(names) != len(columns):
        raise InvalidRecording(
            f"{where}{len(columns)} columns for {len(names)} names ({', '.join(names)})"
        )
    return names, columns


def _through_gear(table: _ColumnTable, scales: list[Any]) -> list[float]:
    """Return scales that also take signals of motors to their joints, by the key `ratio`."""
    if "ratio" not in table.data:
        return scales
    if table.kind not in GEAR_POWERS:
        raise InvalidRecording(
            f"[{table.kind}] ratio: a gear ratio takes {', '.join(GEAR_POWERS)} from a motor to "
            "its joint"
        )
    wanted = "the turns of the motor for one of the joint"
    ratios = table.each("ratio", wanted, _is_factor, 1.0)
    return [scale * ratio ** GEAR_POWERS[table.kind] for scale, ratio in zip(scales, ratios)]


def _unwrap(data: Mapping[str, Any], kind: str, units: Sequence[str]) -> Any:
    """Return the number after which columns wrap, True for one turn, False if they do not."""
    where = f"[{kind}] "
    unwrap = _take(
        data,
        "unwrap",
        where,
        "true or the number at which the column wraps, e.g. 65536",
        lambda u: isinstance(u, bool) or (_is_number(u) and u > 0),
        False,
    )
    if unwrap and kind not in ("position", "reference", "passive"):
        raise InvalidRecording(f"{where}unwrap: only positions wrap after a turn")
    if unwrap is True and any(dimension_of(unit) != "angle" for unit in units):
        raise InvalidRecording(
            f"{where}unwrap = true means one turn, but the columns are in {', '.join(units)}; "
            "write the number at which they wrap, e.g. unwrap = 65536"
        )
    return unwrap


def _clock(data: Any) -> Clock:
    """Return the clock of a table [time]."""
    where = "[time] "
    if not isinstance(data, dict):
        raise InvalidRecording(f"time is {data!r}, expected a table with columns and units")
    if not data:
        return Clock()
    _check_keys(data, {"columns", "units", "offset", "scale", "file"}, where)
    file = _take(
        data,
        "file",
        where,
        "a name inside the folder of the log",
        _is_inside,
        "",
    )
    wanted = "a number above zero"
    scale = _take(data, "scale", where, wanted, lambda s: _is_number(s) and s > 0, 1.0)
    if "file" in data and "columns" not in data:
        columns: tuple[str, ...] = ("",)
    else:
        columns = _names(data, "columns", where)
    units = _names(data, "units", where)
    if len(columns) != len(units):
        raise InvalidRecording(f"{where}{len(columns)} columns but {len(units)} units")
    return Clock(
        columns=columns,
        factors=tuple(scale * conversion(unit, "time") for unit in units),
        offset=_quantity(data, "offset", "time") or 0.0,
        file=file,
    )


def _check_signals(signals: Sequence[Signal], rate: float | None) -> None:
    """Raise `InvalidRecording` if units, clocks or files of the signals do not match."""
    position_units = {s.name: s.unit for s in signals if s.kind == "position"}
    if not position_units:
        raise InvalidRecording("there is no position; identification needs the actuated positions")
    for signal in signals:
        expected = signal.unit
        if signal.kind in JOINT_KINDS:
            expected = JOINT_SIGNAL_UNITS[position_units[signal.name]].get(signal.kind, signal.unit)
        if signal.unit != expected:
            raise InvalidRecording(
                f"joint '{signal.name}' moves in {position_units[signal.name]} but its "
                f"{signal.kind} is in {signal.unit}, expected {expected}; check the units or "
                "convert with scale",
                joint=signal.name,
            )
        if not signal.clock.columns and rate is None:
            raise InvalidRecording(
                f"{signal.kind}: [time] is empty; name its columns and units, or give a rate"
            )
    with_file = dict.fromkeys(signal.kind for signal in signals if signal.file)
    if with_file and not all(signal.file for signal in signals):
        raise InvalidRecording(
            f"{', '.join(with_file)} name a file and the others do not; name all files or none"
        )


def describe_headers(names: Iterable[str], source: str) -> Description:
    """Return the description that headers like `leg1.slider.position [m]` and `time [s]` contain.

    Joints are the names of the position columns, in their order.
    Columns with other headers are left out.
    """
    headers = list(names)
    described: dict[str, dict[str, tuple[str, str]]] = {}  # header and unit by kind and name
    ignored = []
    for header in headers:
        match = _HEADER.match(header)
        if match is None or _INDEXED.search(header):
            ignored.append(header)
            continue
        kind = match["kind"] or "time"
        name = match["name"] or "time"
        unit = match["unit"] or ""
        if not unit.strip():
            usual = next(iter(_DIMENSIONS[kind].values()))
            raise InvalidRecording(
                f"{source}: column '{header}' has no unit; write it behind the name, for example "
                f"'{header} [{usual}]'",
                source=source,
                column=header,
            )
        if name in described.setdefault(kind, {}):
            raise InvalidRecording(
                f"{source}: column '{header}': appears twice",
                source=source,
                column=header,
            )
        described[kind][name] = (header, unit)
    if "position" not in described or "time" not in described:
        shown = ", ".join(f"'{header}'" for header in headers[:8])
        if len(headers) > 8:
            shown += ", ..."
        wanted = "leg1.slider.position [m]" if "time" in described else "time [s]"
        raise InvalidRecording(
            f"{source}: there is no column like '{wanted}' among {shown}; rename the columns or "
            "write a description file",
            source=source,
        )
    joints = tuple(described["position"])
    time_header, time_unit = described.pop("time")["time"]
    signals: list[Signal] = []
    try:
        clock = Clock(columns=(time_header,), factors=(conversion(time_unit, "time"),))
        for kind in KINDS:
            if kind in described:
                signals += _header_signals(kind, described[kind], joints, clock)
        _check_signals(signals, None)
    except GoughError as error:
        raise InvalidRecording(f"{source}: {error}", source=source, **error.numbers) from error
    return Description(joints=joints, signals=tuple(signals), ignored=tuple(ignored), absolute=True)


def _header_signals(
    kind: str, columns: Mapping[str, tuple[str, str]], joints: tuple[str, ...], clock: Clock
) -> list[Signal]:
    """Return the signals of one kind, joint signals in the order of the joints.

    Args:
        kind: Of the columns.
        columns: Header and unit of each column, by joint or coordinate.
        joints: Those with a position.
        clock: Of all columns.
    """
    names = joints if kind in JOINT_KINDS else tuple(columns)
    for joint in (*names, *columns):
        if joint not in names or joint not in columns:
            what = "has no position but a" if joint in columns else "has no"
            raise InvalidRecording(
                f"joint '{joint}' {what} {kind} column{nearest(joint, columns)}", joint=joint
            )
    signals = []
    for name in names:
        header, unit = columns[name]
        factor, si_unit = _si(kind, unit, f"[{kind}] column '{header}'")
        signals.append(Signal(kind, name, si_unit, header, factor, clock))
    return signals


def _si(kind: str, unit: str, where: str, rated: str = "") -> tuple[float, str]:
    """Return the factor to SI and the SI unit of a column of this kind.

    Args:
        kind: Of the column.
        unit: As recorded.
        where: The column, for messages.
        rated: Value of which the column is a fraction, with its unit;
            "" if it is none.
    """
    if kind == "extra":  # whatever it is, its numbers are used as they were recorded
        return 1.0, unit
    allowed = _DIMENSIONS[kind]
    dimension = dimension_of(unit)
    if rated:
        return _fraction_of_rated(kind, unit, where, rated)
    if dimension not in allowed:
        hint = ""
        if kind == "effort" and dimension == "none":
            hint = '; of a fraction of the rated torque state it: rated = "1.27 N m"'
        raise InvalidInput(
            f"{where} unit '{unit}' measures {dimension}; {kind} is expected in "
            f"{' or '.join(allowed.values())}{hint}".strip(),
            unit=unit,
        )
    if kind == "current":  # a drive gain is per recorded unit, whatever that is
        return 1.0, canonical(unit)
    return conversion(unit), allowed[dimension]


def _fraction_of_rated(kind: str, unit: str, where: str, rated: str) -> tuple[float, str]:
    """Return the factor to SI and the SI unit of a fraction of a rated value."""
    number, rated_unit = quantity(rated)
    allowed = _DIMENSIONS[kind]
    dimension = dimension_of(rated_unit)
    if kind not in ("effort", "current") or dimension not in allowed or dimension == "none":
        raise InvalidInput(
            f"{where} rated is '{rated}'; expected the rated force, torque or current of the motor "
            "in [effort] or [current]"
        )
    if dimension_of(unit) != "none":
        raise InvalidInput(
            f"{where} unit '{unit}' measures {dimension_of(unit)}; a fraction of a rated value is "
            "in %, permille or 1",
            unit=unit,
        )
    return conversion(unit) * number * conversion(rated_unit), allowed[dimension]


def _check_keys(data: Mapping[str, Any], valid: set[str], where: str) -> None:
    """Raise `InvalidRecording` naming a key that is not known."""
    for key in data:
        if key not in valid:
            raise InvalidRecording(f"{where}key '{key}' is not known{nearest(key, valid)}", key=key)


def _take(
    data: Mapping[str, Any],
    key: str,
    where: str,
    wanted: str,
    good: Callable[[Any], bool],
    usual: Any = None,
) -> Any:
    """Return the entry of a key, which must be good, or the usual one without such a key."""
    entry = data.get(key, usual)
    if not good(entry) and (key in data or usual is None):
        raise InvalidRecording(f"{where}{key} is {entry!r}, expected {wanted}", key=key)
    return entry


def _names(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Return a list of names."""
    return tuple(str(name) for name in _take(data, key, where, "a list of names", _is_name_list))


def _is_name_list(entry: Any) -> bool:
    """Return True for a list of names, which may be numbers."""
    if not isinstance(entry, list) or not entry:
        return False
    return all(isinstance(name, str | int) for name in entry)


def _is_number(entry: Any) -> bool:
    """Return True for a finite number."""
    return isinstance(entry, int | float) and not isinstance(entry, bool) and math.isfinite(entry)


def _is_factor(entry: Any) -> bool:
    """Return True for a finite number other than zero."""
    return _is_number(entry) and entry != 0


def _is_text(entry: Any) -> bool:
    """Return True for text."""
    return isinstance(entry, str)


def _is_whole(least: int) -> Callable[[Any], bool]:
    """Return a test for whole numbers from `least` on."""
    return lambda entry: isinstance(entry, int) and not isinstance(entry, bool) and entry >= least


def _is_inside(file: Any) -> bool:
    """Return True for a path inside the folder of the log."""
    if not isinstance(file, str):
        return False
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts


def _quantity(data: Mapping[str, Any], key: str, dimension: str) -> float | None:
    """Return a quantity such as "2 ms" in SI, None without the key."""
    if key not in data:
        return None
    if not isinstance(data[key], str):
        raise InvalidRecording(
            f'{key} is {data[key]!r}; a unit is missing: write it like "{data[key]} s"'
        )
    number, unit = quantity(data[key])
    return number * conversion(unit, dimension)
