"""Which column is which joint: small TOML files, or headers that say it themselves; docs/logs.md has all keys.

    format = 1
    joints = ["leg1.slider", "leg2.slider"]
    rate = "100 Hz"             # optional: put everything on an even clock; else the clock of the positions is kept

    [time]                      # for all groups; a group may have its own; without it, `rate` is the clock
    columns = ["time_sec", "time_nanosec"]   # added up
    units = ["s", "ns"]

    [position]                  # also: velocity, reference, effort, current; with names: pose, passive, mocap, extra
    columns = ["joint_position_0", "joint_position_1"]   # in the order of the joints
    unit = "m"                  # or units = [...], one for each column
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from gough.core.documents import parse_toml
from gough.core.errors import GoughError, InvalidInput, InvalidRecording, nearest
from gough.core.units import canonical, conversion, dimension_of, quantity
from gough.logs.recording import JOINT_KINDS, KINDS, OTHER_KINDS
from gough.logs.resampling import METHODS

FORMAT = 1
FIRST = ""  # the only column of a file
_HEADER = re.compile(r"^(?P<name>.+)\.(?P<kind>" + "|".join(KINDS) + r")(?:\s*\[(?P<unit>.*)\])?$")
_TIME = re.compile(r"^time(?:\s*\[(?P<unit>.*)\])?$")

# What each kind may be measured in, and the SI unit of the dimension.
_POSITIONS = {"length": "m", "angle": "rad"}
_DIMENSIONS: dict[str, dict[str, str]] = {
    "position": _POSITIONS, "reference": _POSITIONS, "pose": _POSITIONS, "passive": _POSITIONS, "mocap": _POSITIONS,
    "velocity": {"velocity": "m/s", "angular velocity": "rad/s"},
    "effort": {"force": "N", "torque": "N m"},
    "current": {"current": "A", "voltage": "V", "none": "1"}, "extra": {"none": "1"},
}


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeBase:
    """Time stamps: the sum of some columns by factors to seconds, of none the even rate of the description.

    `offset` is added to them [s]; `file` is where they stand, None beside the values.
    """

    columns: tuple[str, ...]
    factors: tuple[float, ...]
    offset: float = 0.0
    file: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Columns of one kind in one file.

    Args:
        names: Joint or coordinate of each column.
        factors, units: From the number in the file to SI, and the SI unit.
        files: Where each column stands inside the folder of the run; empty if the run is one file.
        turns: After what each column starts again, zero if it does not. [SI unit of the column]
        offsets: Added to each column, none if empty. [SI unit of the column]
        delays: By how much the values of each column are older than their stamps, none if empty. [s]
    """

    kind: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    factors: tuple[float, ...]
    units: tuple[str, ...]
    time: TimeBase
    files: tuple[str, ...] = ()
    interpolation: str = "linear"
    turns: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()
    delays: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """How the files of a run become a recording; `period`, `start` and `stop` in seconds, `rate` in Hz."""

    joints: tuple[str, ...]
    groups: tuple[Group, ...]
    payload: str | None = None
    rate: float | None = None
    period: float | None = None
    period_samples: int | None = None
    decimal: str = "."
    thousands: str = ""
    skip: int = 0
    start: float = 0.0
    stop: float = math.inf
    ignored: tuple[str, ...] = ()

    def group(self, kind: str) -> Group | None:
        """Return the columns of a kind, if described."""
        return next((g for g in self.groups if g.kind == kind), None)


def load_description(path: str | Path) -> Description:
    """Read a description file.

    Raises:
        InvalidRecording: Unreadable file, unknown key, missing unit, lists of different length.
    """
    path = Path(path)
    try:
        data = parse_toml(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, InvalidInput) as error:
        raise InvalidRecording(f"cannot read the description '{path.name}': {error}", source=path.name) from error
    try:
        return parse_description(data)
    except GoughError as error:
        raise InvalidRecording(f"{path.name}: {error}", source=path.name, **error.numbers) from error


def parse_description(data: Mapping[str, Any]) -> Description:
    """Return the description that the keys of such a file make."""
    _known(data, {"format", "joints", "payload", "rate", "period", "period_samples", "decimal", "thousands", "skip",
                  "start", "stop", "time", *KINDS}, "")
    if data.get("format") != FORMAT:
        raise InvalidRecording(f"format is {data.get('format')}, expected format = {FORMAT}")
    joints = _texts(data, "joints", "")
    if "period" in data and "period_samples" in data:
        raise InvalidRecording("give period or period_samples, not both")
    for key, least in (("period_samples", 2), ("skip", 0)):
        number = data.get(key, least)
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise InvalidRecording(f"{key} is {number!r}, expected a whole number from {least}")
    decimal, thousands = data.get("decimal", "."), data.get("thousands", "")
    if decimal not in (".", ",") or thousands not in ("", ".", ",", "'", " ") or decimal == thousands:
        raise InvalidRecording(f"decimal is {decimal!r} and thousands {thousands!r}, expected '.' or ',', and another "
                               "sign between thousands, if any")
    payload = data.get("payload")
    if payload is not None and not isinstance(payload, str):
        raise InvalidRecording(f"payload is {payload!r}, expected a name")
    rate = _quantity(data, "rate", "frequency")
    start, stop = _quantity(data, "start", "time") or 0.0, _quantity(data, "stop", "time")
    if start < 0 or (stop is not None and stop <= start):
        raise InvalidRecording(f"start is {start:g} s and stop {stop if stop is None else f'{stop:g} s'}; expected a "
                               "stretch after the first sample")
    stamps = data.get("time", None if rate is None else {})
    groups = tuple(_group(kind, data[kind], joints, stamps) for kind in KINDS if kind in data)
    description = Description(
        joints=joints, groups=groups, payload=None if payload == "none" else payload,
        rate=rate, period=_quantity(data, "period", "time"), period_samples=data.get("period_samples"),
        decimal=decimal, thousands=thousands, skip=data.get("skip", 0), start=start,
        stop=math.inf if stop is None else stop)
    _check(description)
    return description


def _group(kind: str, data: Any, joints: tuple[str, ...], time: Any) -> Group:
    where = f"[{kind}] "
    if not isinstance(data, dict):
        raise InvalidRecording(f"{kind} is {data!r}, expected a table [{kind}]")
    _known(data, {"file", "files", "columns", "names", "unit", "units", "scale", "interpolation", "time", "unwrap",
                  "offset", "delay"}, where)
    files = _texts(data, "files", where) if "files" in data else ()
    columns = (FIRST,) * len(files) if files and "columns" not in data else _texts(data, "columns", where)
    if kind in JOINT_KINDS and "names" in data:
        raise InvalidRecording(f"{where}names: the columns of a joint signal follow 'joints'; leave names out")
    names = joints if kind in JOINT_KINDS else _texts(data, "names", where)
    if len(names) != len(columns):
        raise InvalidRecording(f"{where}{len(columns)} columns for {len(names)} names ({', '.join(names)})")
    if ("unit" in data) == ("units" in data):
        raise InvalidRecording(f"{where}a unit is missing or given twice: write unit = \"m\" or units = [...]; it is "
                               "never guessed")
    count = len(columns)
    units = _each(data, "units" if "units" in data else "unit", count, where, "a unit", lambda u: isinstance(u, str))
    scales = _each(data, "scale", count, where, "a number other than zero", lambda s: _is_number(s) and s != 0, 1.0)
    offsets = _each(data, "offset", count, where, "a number in the unit of the columns", _is_number, 0.0)
    delays = _each(data, "delay", count, where, "a time like \"2 ms\"", lambda d: isinstance(d, str), "0 s")
    method = data.get("interpolation", "linear")
    if method not in METHODS:
        raise InvalidRecording(f"{where}interpolation is {method!r}{nearest(str(method), METHODS)}")
    stamps = data.get("time", time)
    if stamps is None:
        raise InvalidRecording(f"{where}there is no time base; add a table [time] with columns and units, or a rate")
    if "file" in data:
        files = (data["file"],) * count
    if files and len(files) != count:
        raise InvalidRecording(f"{where}{len(files)} files for {count} columns")
    for file in files:
        _check_inside(file, where)
    pairs = [_si(kind, unit, f"{where}column '{column}'") for unit, column in zip(units, columns)]
    return Group(kind=kind, names=names, columns=columns, units=tuple(si for _, si in pairs),
                 factors=tuple(float(f * s) for (f, _), s in zip(pairs, scales)), time=_time(stamps),
                 files=files, interpolation=method,
                 turns=_turns(kind, data.get("unwrap", False), units, pairs, scales, where),
                 offsets=tuple(float(v * factor) for v, (factor, _) in zip(offsets, pairs)),
                 delays=tuple(_quantity({"delay": text}, "delay", "time") or 0.0 for text in delays))


def _check_inside(file: Any, where: str) -> None:
    if not isinstance(file, str) or PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
        raise InvalidRecording(f"{where}file is {file!r}, expected a name inside the folder of the run")


def _each(data: Mapping[str, Any], key: str, count: int, where: str, wanted: str, good: Callable[[Any], bool],
          usual: Any = None) -> list[Any]:
    """Return an entry for each column: one for all, or a list."""
    given = data.get(key, usual)
    values = given if isinstance(given, list) else [given] * count
    if len(values) != count or not all(map(good, values)):
        raise InvalidRecording(f"{where}{key} is {given!r}, expected {wanted}, or a list of one for each of {count} "
                               "columns")
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _turns(kind: str, unwrap: Any, units: list[str], pairs: list[tuple[float, str]], scales: list[float],
           where: str) -> tuple[float, ...]:
    """Return after what each column starts again: one turn for angles, else the number given. [SI]"""
    if unwrap is False:
        return ()
    if kind not in ("position", "reference", "passive"):
        raise InvalidRecording(f"{where}unwrap: only positions start again after a turn")
    if unwrap is not True and not (_is_number(unwrap) and unwrap > 0):
        raise InvalidRecording(f"{where}unwrap is {unwrap!r}, expected true or after what number the column starts "
                               "again, e.g. 65536")
    if unwrap is True and any(dimension_of(unit) != "angle" for unit in units):
        raise InvalidRecording(f"{where}unwrap = true means one turn, but the columns are in {', '.join(units)}; write "
                               "after what number they start again, e.g. unwrap = 65536")
    if unwrap is True:
        return tuple(2 * math.pi * abs(scale) for scale in scales)
    return tuple(abs(unwrap * factor * scale) for (factor, _), scale in zip(pairs, scales))


def _time(data: Any) -> TimeBase:
    where = "[time] "
    if not isinstance(data, dict):
        raise InvalidRecording(f"time is {data!r}, expected a table with columns and units")
    if not data:
        return TimeBase(columns=(), factors=())
    _known(data, {"columns", "units", "offset", "scale", "file"}, where)
    if "file" in data:
        _check_inside(data["file"], where)
    scale = data.get("scale", 1.0)
    if not (_is_number(scale) and scale > 0):
        raise InvalidRecording(f"{where}scale is {scale!r}, expected a number above zero")
    columns = (FIRST,) if "file" in data and "columns" not in data else _texts(data, "columns", where)
    units = _texts(data, "units", where)
    if len(columns) != len(units):
        raise InvalidRecording(f"{where}{len(columns)} columns but {len(units)} units")
    return TimeBase(columns=columns, factors=tuple(scale * conversion(u, "time") for u in units),
                    offset=_quantity(data, "offset", "time") or 0.0, file=data.get("file"))


def _check(description: Description) -> None:
    """Refuse what cannot become a recording."""
    kinds = [g.kind for g in description.groups]
    if "position" not in kinds:
        raise InvalidRecording("there is no position; identification needs the actuated positions")
    position = next(g for g in description.groups if g.kind == "position")
    if len(set(position.names)) != len(position.names):
        raise InvalidRecording(f"joint names repeat: {', '.join(position.names)}")
    suffix = {"velocity": ("m/s", "rad/s"), "reference": ("m", "rad"), "effort": ("N", "N m")}
    for group in description.groups:
        for name, moves, unit in zip(group.names, position.units, group.units):
            expected = suffix.get(group.kind, ())
            if expected and unit != expected[0 if moves == "m" else 1]:
                raise InvalidRecording(
                    f"joint '{name}' moves in {moves} but its {group.kind} is in {unit}, expected "
                    f"{expected[0 if moves == 'm' else 1]}; check the units or convert with scale", joint=name)
    with_file = [g.kind for g in description.groups if g.files]
    without = [g.kind for g in description.groups if not g.time.columns]
    if without and description.rate is None:
        raise InvalidRecording(f"{', '.join(without)}: [time] is empty; name its columns and units, or give a rate")
    if with_file and len(with_file) != len(kinds):
        raise InvalidRecording(f"{', '.join(with_file)} name a file and the others do not; name all files or none")


def describe_headers(names: Iterable[str], source: str) -> Description:
    """Return the description that headers like `leg1.slider.position [m]` and `time [s]` contain.

    Joints are the names of the position columns, in their order.

    Raises:
        InvalidRecording: A unit is missing or unknown, a joint lacks a column others have, no such headers at all.
    """
    found: dict[str, dict[str, tuple[str, str]]] = {}
    ignored, all_names = [], list(names)
    for header in all_names:
        match, stamp = _HEADER.match(header), _TIME.match(header)
        if match is None and stamp is None:
            ignored.append(header)
            continue
        kind, name = (match["kind"], match["name"]) if match else ("time", "time")
        unit = (match["unit"] if match else stamp["unit"] if stamp else "") or ""
        if not unit.strip():
            usual = next(iter(_DIMENSIONS.get(kind, {"": "1"}).values())) if match else "s"
            raise InvalidRecording(f"{source}: column '{header}' has no unit; write it behind the name, for example "
                                   f"'{header} [{usual}]'", source=source, column=header)
        if name in found.setdefault(kind, {}):
            raise InvalidRecording(f"{source}: column '{header}': appears twice", source=source, column=header)
        found[kind][name] = (header, unit)
    if "position" not in found or "time" not in found:
        shown = ", ".join(f"'{n}'" for n in all_names[:8]) + (", ..." if len(all_names) > 8 else "")
        wanted = "leg1.slider.position [m]" if "time" in found else "time [s]"
        raise InvalidRecording(f"{source}: there is no column like '{wanted}' among {shown}; rename the columns or "
                               "write a description file", source=source)
    joints = tuple(found["position"])
    data: dict[str, Any] = {"format": FORMAT, "joints": list(joints)}
    for kind, columns in found.items():
        order = joints if kind in JOINT_KINDS else tuple(columns)
        odd = [n for n in (*order, *columns) if n not in columns or n not in order]
        if odd:
            what = "has no" if odd[0] in order else "has no position but a"
            raise InvalidRecording(f"{source}: joint '{odd[0]}' {what} {kind} column{nearest(odd[0], columns)}",
                                   source=source, joint=odd[0])
        data[kind] = {key: [columns[n][i] for n in order] for i, key in enumerate(("columns", "units"))}
        if kind in OTHER_KINDS:
            data[kind]["names"] = list(order)
    try:
        return replace(parse_description(data), ignored=tuple(ignored))
    except GoughError as error:
        raise InvalidRecording(f"{source}: {error}", source=source, **error.numbers) from error


def _si(kind: str, unit: str, where: str) -> tuple[float, str]:
    """Return the factor to SI and the SI unit of a column of this kind."""
    if kind == "extra":  # whatever it is, its numbers are used as they were recorded
        return 1.0, unit
    allowed = _DIMENSIONS[kind]
    dimension = dimension_of(unit)
    if dimension not in allowed:
        raise InvalidInput(f"{where} unit '{unit}' measures {dimension}; {kind} is expected in "
                           f"{' or '.join(allowed.values())}".strip(), unit=unit)
    if kind == "current":  # a drive gain is per recorded unit, whatever that is
        return 1.0, canonical(unit)
    return conversion(unit), allowed[dimension]


def _known(data: Mapping[str, Any], valid: set[str], where: str) -> None:
    for key in data:
        if key not in valid:
            raise InvalidRecording(f"{where}key '{key}' is not known{nearest(key, valid)}", key=key)


def _texts(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = data.get(key)
    if not isinstance(values, list) or not values or not all(isinstance(v, (str, int)) for v in values):
        raise InvalidRecording(f"{where}{key} is {values!r}, expected a list of names")
    return tuple(str(v) for v in values)


def _quantity(data: Mapping[str, Any], key: str, dimension: str) -> float | None:
    if key not in data:
        return None
    if not isinstance(data[key], str):
        raise InvalidRecording(f"{key} is {data[key]!r}; a unit is missing: write it like \"{data[key]} s\"")
    value, unit = quantity(data[key])
    return value * conversion(unit, dimension)
