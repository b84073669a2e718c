"""Tables of a robot file: typed access in SI units, with errors that name file, table and key."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gough.core.errors import GoughError, InvalidMechanism, nearest
from gough.core.units import conversion, quantity

SOURCES = ("printed", "derived", "assumed")
SOURCE_KEYS = ("source", "sources")
# Keys that hold no number, whose source nobody asks for; `values` holds several.
WORDS = frozenset((
    "name", "type", "kind", "parent", "child", "body", "joint", "closure", "axis", "axes", "names", "actuated", "terms",
    "values", "about", "expression", "label", "unit", "constants", "channels", "nonnegative", "friction",
    "parameters", "zero", "symmetric", "known", "coordinates", "joints", "positions", "efforts", *SOURCE_KEYS))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MISSING: Any = object()
LARGEST_NUMBER = 1e12  # SI; the square of a larger one has no place in the arithmetic of assembly


def unit_factors(length: float = 1.0, angle: float = 1.0, mass: float = 1.0) -> dict[str, float]:
    """Return what a plain number of each dimension is multiplied by; dimensions not listed are SI.

    Derived quantities follow: velocity in length/s, first moment in mass x length, inertia in mass x length^2.
    """
    return {
        "length": length, "velocity": length, "acceleration": length,
        "angle": angle, "angular velocity": angle, "angular acceleration": angle,
        "mass": mass, "first moment": mass * length, "inertia": mass * length**2,
    }


def _described(value: object) -> str:
    """Return a short description of a TOML value for error messages."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return ("true" if value else "false") if isinstance(value, bool) else text[:40] + ("..." if len(text) > 40 else "")


@dataclass(frozen=True)
class TomlTable:
    """One TOML table and its place in the file.

    Args:
        data: Keys and values as TOML gave them.
        place: How the table is named in errors, e.g. `[[leg.joint]] 'alpha' of leg1`.
        file: File name for errors.
        factors: Factor to SI of a plain number, by dimension.
        prefix: What precedes a key in errors, for tables inside tables.
    """

    data: Mapping[str, Any]
    place: str
    file: str
    factors: Mapping[str, float] = field(default_factory=unit_factors)
    prefix: str = ""

    def error(self, message: str, key: str | None = None) -> InvalidMechanism:
        """Return an error about this table, or about one of its keys."""
        full = None if key is None else self.prefix + key
        where = self.place + ("" if full is None else f", key '{full}'")
        return InvalidMechanism(f"{self.file}: {where}: {message}", file=self.file, table=self.place, key=full)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def check_keys(self, valid: Iterable[str]) -> None:
        """Raise for the first key that is not valid, offering the nearest; tables of their own may name sources."""
        names = (*valid, *(() if self.prefix else SOURCE_KEYS))
        for key in self.data:
            if key not in names:
                raise self.error(f"unknown key{nearest(key, names)}", key)
        if not self.prefix:
            self.sources()

    def _get(self, key: str, default: Any = _MISSING) -> Any:
        if key in self.data:
            return self.data[key]
        if default is _MISSING:
            raise self.error("is required but missing", key)
        return default

    def text(self, key: str, default: str = _MISSING) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.error(f"expected text, found {_described(value)}", key)
        return value

    def name(self, key: str = "name", default: str = _MISSING) -> str:
        """Return a name: letters, digits, _ and -, not starting with a digit."""
        return self.check_name(self.text(key, default), key)

    def check_name(self, value: str, key: str) -> str:
        """Return the value if it can be a name."""
        if not _NAME.fullmatch(value):
            raise self.error(f"{_described(value)} is not a name; use letters, digits, _ and -, starting with a letter",
                             key)
        return value

    def choice(self, key: str, valid: Sequence[str], default: str = _MISSING) -> str:
        value = self.text(key, default)
        if value not in valid:
            raise self.error(f"{_described(value)} is not one of {', '.join(valid)}", key)
        return value

    def flag(self, key: str) -> bool:
        value = self._get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"expected true or false, found {_described(value)}", key)
        return value

    def number(self, key: str, dimension: str = "none", default: float = _MISSING) -> float:
        """Return a number in SI: a plain one is in the file's units, text such as '10 deg' names its own."""
        if key not in self.data and default is not _MISSING:
            return default
        return self._si(self._get(key), dimension, key)

    def positive(self, key: str, dimension: str = "none", default: float | None = _MISSING) -> Any:
        """Return a number above zero."""
        if key not in self.data and default is not _MISSING:
            return default
        value = self.number(key, dimension)
        if value <= 0:
            raise self.error(f"expected a number above zero, found {_described(self.data[key])}", key)
        return value

    def numbers(self, key: str, dimensions: Sequence[str], shortest: int | None = None) -> tuple[float, ...]:
        """Return a list of numbers in SI, one for each dimension; the last ones may be left out, down to `shortest`."""
        value = self._get(key)
        least = len(dimensions) if shortest is None else shortest
        if not isinstance(value, list) or not least <= len(value) <= len(dimensions):
            count = str(least) if least == len(dimensions) else f"{least} to {len(dimensions)}"
            raise self.error(f"expected a list of {count} numbers, found {_described(value)}", key)
        return tuple(self._si(v, d, f"{key}[{i}]") for i, (v, d) in enumerate(zip(value, dimensions)))

    def matrix(self, key: str, size: int) -> list[tuple[float, ...]]:
        """Return a square matrix of plain numbers by rows."""
        value = self._get(key)
        if not isinstance(value, list) or len(value) != size:
            raise self.error(f"expected {size} rows of {size} numbers, found {_described(value)}", key)
        rows = replace(self, data={f"{key}[{i}]": row for i, row in enumerate(value)})
        return [rows.numbers(row, ("none",) * size) for row in rows.data]

    def _si(self, value: object, dimension: str, key: str) -> float:
        if isinstance(value, str):
            try:
                amount, unit = quantity(value)
                result = amount * conversion(unit, dimension)
            except GoughError as error:
                raise self.error(f"expected a number ({dimension}), found {error}", key) from None
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                result = float(value) * self.factors.get(dimension, 1.0)
            except OverflowError:
                result = math.inf
        else:
            raise self.error(f"expected a number ({dimension}), found {_described(value)}", key)
        if not math.isfinite(result):
            raise self.error(f"expected a finite number, found {_described(value)}", key)
        if abs(result) > LARGEST_NUMBER:
            raise self.error(f"{_described(value)} is too large for a robot (at most {LARGEST_NUMBER:g} in SI)", key)
        return result

    def words(self, key: str, valid: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return a list of different strings, each among the valid ones."""
        value = self._get(key)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.error(f"expected a list of texts, found {_described(value)}", key)
        names = None if valid is None else tuple(valid)
        for i, word in enumerate(value):
            if names is not None and word not in names:
                raise self.error(f"unknown name '{word}'{nearest(word, names)}", f"{key}[{i}]")
            if word in value[:i]:
                raise self.error(f"'{word}' is listed twice", f"{key}[{i}]")
        return tuple(value)

    def table(self, key: str, required: bool = False) -> TomlTable:
        """Return a table inside this one; empty if absent, unless it is required."""
        value = self._get(key) if required else self._get(key, {})
        if not isinstance(value, Mapping):
            raise self.error(f"expected a table, found {_described(value)}", key)
        return replace(self, data=value, prefix=f"{self.prefix}{key}.")

    def section(self, key: str) -> TomlTable:
        """Return a top-level table `[key]`; empty if absent."""
        return replace(self.table(key), place=f"[{key}]", prefix="")

    def sections(self, key: str, header: str, owner: str = "") -> list[TomlTable]:
        """Return an array of tables `[[header]]`, each placed by its name."""
        value = self._get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, Mapping) for v in value):
            raise self.error(f"expected tables [[{header}]], found {_described(value)}", key)
        names = [v.get("name") for v in value]
        labels = (f"'{name}'" if isinstance(name, str) and len(name) <= 60 else f"number {i + 1}"
                  for i, name in enumerate(names))
        return [replace(self, data=v, place=f"[[{header}]] {label}{owner}", prefix="")
                for v, label in zip(value, labels)]

    def sources(self) -> dict[str, str]:
        """Return where the numbers of the table come from, by `sources` for single ones or `source` for all.

        Numbers neither key speaks of are left out.
        """
        names = [*(key for key in self.data if key not in WORDS), *self.table("values").data]
        single = self.table("sources")
        single.check_keys(names)
        found = {name: single.choice(name, SOURCES) for name in single.data}
        return dict.fromkeys(names, self.choice("source", SOURCES)) | found if "source" in self else found
