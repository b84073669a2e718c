"""Which column is which joint: small TOML files, or headers that say it themselves; docs/logs.md
has all keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from gough.core.documents import parse_toml
from gough.core.errors import GoughError, InvalidInput, InvalidRecording, nearest
from gough.core.units import canonical, conversion, dimension_of, quantity
from gough.logs.periods import INTERPOLATIONS
from gough.logs.recording import JOINT_KINDS, KINDS, OTHER_KINDS, SIGNAL_UNITS

FORMAT = 1
KEYS = {
    "format",
    "joints",
    "payload",
    "rate",
    "period",
    "period_samples",
    "decimal",
    "thousands",
    "skip",
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
}
_HEADER = re.compile(
    r"^(?:time|(?P<name>.+)\.(?P<kind>" + "|".join(KINDS) + r"))(?:\s*\[(?P<unit>.*)\])?$"
)

# What each kind may be measured in, and the SI unit of the dimension.
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
    """Time stamps: the sum of some columns by factors to seconds, of none the even rate of the
    description.
    """

    columns: tuple[str, ...] = ()
    factors: tuple[float, ...] = ()
    offset: float = 0.0  # added [s]
    file: str = ""  # where they stand; beside the values if empty


class Signal(NamedTuple):
    """A column: what it is, where it stands, and how its numbers become values at their times."""

    kind: str
    name: str  # joint or coordinate
    unit: str  # SI; as recorded for currents and extra columns
    column: str  # empty: the only one of its file
    factor: float  # from the number in the file to the unit
    clock: Clock
    file: str = ""  # inside the folder of the run; empty if the run is one file
    interpolation: str = "linear"
    turn: float = 0.0  # after which it starts again; 0 if it does not [unit]
    offset: float = 0.0  # added [unit]
    delay: float = 0.0  # by which values are older than their stamps [s]


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """How the files of a run become a recording; `period`, `start` and `stop` in seconds, `rate` in
    Hz.

    `signals` are ordered by kind, positions first, then as the joints. `absolute` times stay those
    of the file.
    """

    joints: tuple[str, ...]
    signals: tuple[Signal, ...]
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
    absolute: bool = False

    def of(self, kind: str) -> tuple[Signal, ...]:
        return tuple(signal for signal in self.signals if signal.kind == kind)


def load_description(path: str | Path) -> Description:
    """Read a description file; all that is wrong with it is an `InvalidRecording`."""
    path = Path(path)
    try:
        data = parse_toml(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, InvalidInput) as error:
        raise InvalidRecording(
            f"cannot read the description '{path.name}': {error}", source=path.name
        ) from error
    return _described(data, path.name)


def _described(data: Mapping[str, Any], source: str) -> Description:
    try:
        return parse_description(data)
    except GoughError as error:
        raise InvalidRecording(f"{source}: {error}", source=source, **error.numbers) from error


def parse_description(data: Mapping[str, Any]) -> Description:
    """Return the description that the keys of such a file make."""
    _known(data, KEYS, "")
    _take(data, "format", "", f"format = {FORMAT}", lambda f: f == FORMAT)
    joints = _names(data, "joints", "")
    if len(set(joints)) != len(joints):
        raise InvalidRecording(f"joint names repeat: {', '.join(joints)}")
    if "period" in data and "period_samples" in data:
        raise InvalidRecording("give period or period_samples, not both")
    decimal, thousands = data.get("decimal", "."), data.get("thousands", "")
    if (
        decimal not in (".", ",")
        or thousands not in ("", ".", ",", "'", " ")
        or decimal == thousands
    ):
        raise InvalidRecording(
            f"decimal is {decimal!r} and thousands {thousands!r}, expected '.' or ',', and another "
            "sign between thousands, if any"
        )
    payload = _take(data, "payload", "", "a name", lambda p: isinstance(p, str | None), "none")
    rate = _quantity(data, "rate", "frequency")
    start, stop = _quantity(data, "start", "time") or 0.0, _quantity(data, "stop", "time")
    if start < 0 or (stop is not None and stop <= start):
        raise InvalidRecording(
            f"start is {start:g} s and stop {stop if stop is None else f'{stop:g} s'}; expected a "
            "stretch after the first sample"
        )
    stamps = data.get("time", None if rate is None else {})
    signals = [
        s for kind in KINDS if kind in data for s in _signals(kind, data[kind], joints, stamps)
    ]
    _check(signals, rate)
    return Description(
        joints=joints,
        signals=tuple(signals),
        payload=None if payload == "none" else payload,
        rate=rate,
        period=_quantity(data, "period", "time"),
        decimal=decimal,
        thousands=thousands,
        start=start,
        stop=math.inf if stop is None else stop,
        period_samples=_take(data, "period_samples", "", "a whole number from 2", _is_whole(2), 0)
        or None,
        skip=_take(data, "skip", "", "a whole number from 0", _is_whole(0), 0),
    )


def _signals(kind: str, data: Any, joints: tuple[str, ...], time: Any) -> list[Signal]:
    """Return the columns of one kind."""
    where = f"[{kind}] "
    if not isinstance(data, dict):
        raise InvalidRecording(f"{kind} is {data!r}, expected a table [{kind}]")
    _known(data, COLUMN_KEYS, where)
    alone = "files" in data and "columns" not in data  # each in a file of its own
    columns = ("",) * len(_names(data, "files", where)) if alone else _names(data, "columns", where)
    if kind in JOINT_KINDS and "names" in data:
        raise InvalidRecording(
            f"{where}names: the columns of a joint signal follow 'joints'; leave names out"
        )
    names = joints if kind in JOINT_KINDS else _names(data, "names", where)
    if len(names) != len(columns):
        raise InvalidRecording(
            f"{where}{len(columns)} columns for {len(names)} names ({', '.join(names)})"
        )
    if ("unit" in data) == ("units" in data):
        raise InvalidRecording(
            f'{where}a unit is missing or given twice: write unit = "m" or units = [...]; it is '
            "never guessed"
        )
    stamps = data.get("time", time)
    if stamps is None:
        raise InvalidRecording(
            f"{where}there is no time base; add a table [time] with columns and units, or a rate"
        )

    def each(key: str, wanted: str, good: Callable[[Any], bool], usual: Any = None) -> list[Any]:
        """Return an entry for each column: one for all, or a list."""
        given = data.get(key, usual)
        values = given if isinstance(given, list) else [given] * len(columns)
        if len(values) != len(columns) or not all(map(good, values)):
            raise InvalidRecording(
                f"{where}{key} is {given!r}, expected {wanted}, or a list of one for each of "
                f"{len(columns)} columns"
            )
        return values

    units = each("units" if "units" in data else "unit", "a unit", lambda u: isinstance(u, str))
    scales = each("scale", "a number other than zero", lambda s: _is_number(s) and s != 0, 1.0)
    offsets = each("offset", "a number in the unit of the columns", _is_number, 0.0)
    delays = each("delay", 'a time like "2 ms"', lambda d: isinstance(d, str), "0 s")
    files = each(
        "files" if "files" in data else "file",
        "a name inside the folder of the run",
        _is_inside,
        "",
    )
    method = data.get("interpolation", "linear")
    if method not in INTERPOLATIONS:
        raise InvalidRecording(
            f"{where}interpolation is {method!r}{nearest(str(method), INTERPOLATIONS)}"
        )
    unwrap = _take(
        data,
        "unwrap",
        where,
        "true or after what number the column starts again, e.g. 65536",
        lambda u: isinstance(u, bool) or (_is_number(u) and u > 0),
        False,
    )
    if unwrap and kind not in ("position", "reference", "passive"):
        raise InvalidRecording(f"{where}unwrap: only positions start again after a turn")
    if unwrap is True and any(dimension_of(unit) != "angle" for unit in units):
        raise InvalidRecording(
            f"{where}unwrap = true means one turn, but the columns are in {', '.join(units)}; "
            f"write "
            "after what number they start again, e.g. unwrap = 65536"
        )
    clock, found = _clock(stamps), []
    for name, column, unit, scale, offset, delay, file in zip(
        names, columns, units, scales, offsets, delays, files
    ):
        factor, si = _si(kind, unit, f"{where}column '{column}'")
        found.append(
            Signal(
                kind=kind,
                name=name,
                unit=si,
                column=column,
                factor=float(factor * scale),
                clock=clock,
                file=file,
                interpolation=method,
                turn=abs((2 * math.pi if unwrap is True else unwrap * factor) * scale),
                offset=float(offset * factor),
                delay=_quantity({"delay": delay}, "delay", "time") or 0.0,
            )
        )
    return found


def _clock(data: Any) -> Clock:
    where = "[time] "
    if not isinstance(data, dict):
        raise InvalidRecording(f"time is {data!r}, expected a table with columns and units")
    if not data:
        return Clock()
    _known(data, {"columns", "units", "offset", "scale", "file"}, where)
    file = _take(data, "file", where, "a name inside the folder of the run", _is_inside, "")
    scale = _take(
        data, "scale", where, "a number above zero", lambda s: _is_number(s) and s > 0, 1.0
    )
    columns = ("",) if "file" in data and "columns" not in data else _names(data, "columns", where)
    units = _names(data, "units", where)
    if len(columns) != len(units):
        raise InvalidRecording(f"{where}{len(columns)} columns but {len(units)} units")
    return Clock(
        columns,
        tuple(scale * conversion(unit, "time") for unit in units),
        _quantity(data, "offset", "time") or 0.0,
        file,
    )


def _check(signals: Iterable[Signal], rate: float | None) -> None:
    """Refuse what cannot become a recording."""
    moves = {s.name: s.unit for s in signals if s.kind == "position"}
    if not moves:
        raise InvalidRecording("there is no position; identification needs the actuated positions")
    for s in signals:
        expected = (
            SIGNAL_UNITS[moves[s.name]].get(s.kind, s.unit) if s.kind in JOINT_KINDS else s.unit
        )
        if s.unit != expected:
            raise InvalidRecording(
                f"joint '{s.name}' moves in {moves[s.name]} but its {s.kind} is in {s.unit}, "
                f"expected {expected}; check the units or convert with scale",
                joint=s.name,
            )
        if not s.clock.columns and rate is None:
            raise InvalidRecording(
                f"{s.kind}: [time] is empty; name its columns and units, or give a rate"
            )
    with_file = {s.kind: True for s in signals if s.file}
    if with_file and not all(s.file for s in signals):
        raise InvalidRecording(
            f"{', '.join(with_file)} name a file and the others do not; name all files or none"
        )


def describe_headers(names: Iterable[str], source: str) -> Description:
    """Return the description that headers like `leg1.slider.position [m]` and `time [s]` contain.

    Joints are the names of the position columns, in their order. Columns with other headers are
    left out.
    """
    found: dict[str, dict[str, tuple[str, str]]] = {}
    ignored, all_names = [], list(names)
    for header in all_names:
        match = _HEADER.match(header)
        if match is None:
            ignored.append(header)
            continue
        kind, name, unit = match["kind"] or "time", match["name"] or "time", match["unit"] or ""
        if not unit.strip():
            usual = next(iter(_DIMENSIONS[kind].values()))
            raise InvalidRecording(
                f"{source}: column '{header}' has no unit; write it behind the name, for example "
                f"'{header} [{usual}]'",
                source=source,
                column=header,
            )
        if name in found.setdefault(kind, {}):
            raise InvalidRecording(
                f"{source}: column '{header}': appears twice", source=source, column=header
            )
        found[kind][name] = (header, unit)
    if "position" not in found or "time" not in found:
        shown = ", ".join(f"'{n}'" for n in all_names[:8]) + (", ..." if len(all_names) > 8 else "")
        wanted = "leg1.slider.position [m]" if "time" in found else "time [s]"
        raise InvalidRecording(
            f"{source}: there is no column like '{wanted}' among {shown}; rename the columns or "
            "write a description file",
            source=source,
        )
    joints = list(found["position"])
    data: dict[str, Any] = {"format": FORMAT, "joints": joints}
    for kind, columns in found.items():
        order = joints if kind in JOINT_KINDS else list(columns)
        odd = [n for n in (*order, *columns) if n not in columns or n not in order]
        if odd:
            what = "has no" if odd[0] in order else "has no position but a"
            raise InvalidRecording(
                f"{source}: joint '{odd[0]}' {what} {kind} column{nearest(odd[0], columns)}",
                source=source,
                joint=odd[0],
            )
        data[kind] = {
            key: [columns[n][i] for n in order] for i, key in enumerate(("columns", "units"))
        }
        if kind in OTHER_KINDS:
            data[kind]["names"] = order
    return replace(_described(data, source), ignored=tuple(ignored), absolute=True)


def _si(kind: str, unit: str, where: str) -> tuple[float, str]:
    """Return the factor to SI and the SI unit of a column of this kind."""
    if kind == "extra":  # whatever it is, its numbers are used as they were recorded
        return 1.0, unit
    allowed, dimension = _DIMENSIONS[kind], dimension_of(unit)
    if dimension not in allowed:
        raise InvalidInput(
            f"{where} unit '{unit}' measures {dimension}; {kind} is expected in "
            f"{' or '.join(allowed.values())}".strip(),
            unit=unit,
        )
    if kind == "current":  # a drive gain is per recorded unit, whatever that is
        return 1.0, canonical(unit)
    return conversion(unit), allowed[dimension]


def _known(data: Mapping[str, Any], valid: set[str], where: str) -> None:
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
    """Return the value of a key, which must be good, or the usual one where there is no such
    key.
    """
    value = data.get(key, usual)
    if not good(value) and (key in data or usual is None):
        raise InvalidRecording(f"{where}{key} is {value!r}, expected {wanted}", key=key)
    return value


def _names(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    return tuple(
        str(v)
        for v in _take(
            data,
            key,
            where,
            "a list of names",
            lambda values: (
                isinstance(values, list)
                and bool(values)
                and all(isinstance(v, (str, int)) for v in values)
            ),
        )
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_inside(file: Any) -> bool:
    return isinstance(file, str) and not (
        PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts
    )


def _quantity(data: Mapping[str, Any], key: str, dimension: str) -> float | None:
    if key not in data:
        return None
    if not isinstance(data[key], str):
        raise InvalidRecording(
            f'{key} is {data[key]!r}; a unit is missing: write it like "{data[key]} s"'
        )
    value, unit = quantity(data[key])
    return value * conversion(unit, dimension)
