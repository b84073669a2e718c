"""Tables of a robot file: checked against their declaration, read in SI units; errors name file,
table and key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gough.core.errors import GoughError, InvalidMechanism, nearest
from gough.core.units import conversion, quantity
from gough.mechanism.schema import NAME, SOURCE, Key

TOP_LEVEL = "top level"
LARGEST_NUMBER = 1e12  # SI; the square of a larger one has no place in the arithmetic of assembly
_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "text"),
    "boolean": (bool, "true or false"),
    "object": (Mapping, "a table"),
    "array": (list, "a list of texts"),
}


def unit_factors(length: float = 1.0, angle: float = 1.0, mass: float = 1.0) -> dict[str, float]:
    """Return what a plain number of each dimension is multiplied by; dimensions not listed are SI.

    Derived quantities follow: velocity in length/s, first moment in mass x length, inertia in mass
    x length^2.
    """
    return {
        "length": length,
        "velocity": length,
        "acceleration": length,
        "angle": angle,
        "angular velocity": angle,
        "angular acceleration": angle,
        "mass": mass,
        "first moment": mass * length,
        "inertia": mass * length**2,
    }


def _described(value: object) -> str:
    """Return a short description of a TOML value for error messages."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return (
        ("true" if value else "false")
        if isinstance(value, bool)
        else text[:40] + ("..." if len(text) > 40 else "")
    )


@dataclass(frozen=True)
class TomlTable:
    """One TOML table and its place in the file."""

    data: Mapping[str, Any]
    place: str  # in errors: `[[leg.joint]] 'alpha' of leg1`
    file: str
    factors: Mapping[str, float] = field(
        default_factory=unit_factors
    )  # to SI, of a plain number by dimension
    prefix: str = ""  # of keys in errors, for tables inside tables
    header: str = ""  # of the array it is in: `leg.joint`
    owner: str = ""  # in errors about arrays inside it: ` of leg 'leg'`, ` of leg1`

    def error(self, message: str, key: str | None = None) -> InvalidMechanism:
        """Return an error about this table, or about one of its keys."""
        full = None if key is None else self.prefix + key
        where = self.place + ("" if full is None else f", key '{full}'")
        return InvalidMechanism(
            f"{self.file}: {where}: {message}", file=self.file, table=self.place, key=full
        )

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def get(self, key: str, default: Any = None) -> Any:
        return self.data.get(key, default)

    @property
    def name(self) -> str:
        return str(self.data["name"])

    def check(self, declared: Key) -> None:
        """Raise unless all keys are known, of their type, and there; numbers are checked where they
        are read.
        """
        known, others = declared.get("properties", {}), declared.get("additionalProperties", {})
        for key, value in self.data.items():
            if key not in known and others is False:
                raise self.error(f"unknown key{nearest(key, known)}", key)
            self._check_value(key, value, known.get(key, others))
        for key in declared.get("required", ()):
            if key not in self.data:
                words = known[key].get("enum")
                raise self.error(
                    "is required but missing"
                    + (f"; write one of {', '.join(words)}" if words else ""),
                    key,
                )
        if "sources" in known:
            self.table("sources").only({*self.data, *self.get("values", {})} - {*SOURCE, "values"})

    def _check_value(self, key: str, value: Any, declared: Key) -> None:
        choices = declared.get("anyOf", [declared])
        own = next(
            (c for c in choices if isinstance(value, _TYPES.get(c.get("type"), (tuple, ""))[0])),
            choices[0],
        )
        items, (kind, wanted) = own.get("items", {}), _TYPES.get(own.get("type"), (object, ""))
        if "$ref" in own or "$ref" in items or items.get("type") in ("number", "array"):
            return  # numbers
        of_tables, words = (
            items.get("type") == "object",
            value if items and isinstance(value, list) else [],
        )
        fits = isinstance(value, kind) and all(
            isinstance(word, Mapping if of_tables else str) for word in words
        )
        if not fits:
            wanted = f"tables [[{self._inside(key)}]]" if of_tables else wanted
            raise self.error(f"expected {wanted}, found {_described(value)}", key)
        if "enum" in own and value not in own["enum"]:
            raise self.error(f"{_described(value)} is not one of {', '.join(own['enum'])}", key)
        self._check_name(key, value, own)
        if kind is Mapping:
            self.table(key).check(own)
        if of_tables:
            for table in self.tables(key):
                table.check(items)
            return
        for i, word in enumerate(words):
            if word not in items.get("enum", words):
                raise self.error(
                    f"unknown name '{word}'{nearest(word, items['enum'])}", f"{key}[{i}]"
                )
            if word in words[:i]:
                raise self.error(f"'{word}' is listed twice", f"{key}[{i}]")
            self._check_name(f"{key}[{i}]", word, items)

    def _check_name(self, key: str, value: Any, declared: Key) -> None:
        if declared.get("pattern") == NAME and not re.fullmatch(NAME[1:-1], value):
            raise self.error(
                f"{_described(value)} is not a name; use letters, digits, _ and -, starting with a "
                f"letter",
                key,
            )

    def only(self, names: Iterable[str]) -> None:
        """Raise for the first key that is none of these, or speaks of sources, offering the
        nearest.
        """
        valid = (*names, *(() if self.prefix else SOURCE))
        for key in self.data:
            if key not in valid:
                raise self.error(f"unknown key{nearest(key, valid)}", key)

    def number(self, key: str, dimension: str = "none", default: float | None = None) -> Any:
        """Return a number in SI: a plain one is in the file's units, text such as '10 deg' names
        its own.
        """
        return self._si(self.data[key], dimension, key) if key in self.data else default

    def positive(self, key: str, dimension: str = "none", default: float | None = None) -> Any:
        """Return a number above zero."""
        value = self.number(key, dimension, default)
        if value is not None and value <= 0:
            raise self.error(
                f"expected a number above zero, found {_described(self.data[key])}", key
            )
        return value

    def numbers(
        self, key: str, dimensions: Sequence[str], shortest: int | None = None
    ) -> tuple[float, ...]:
        """Return a list of numbers in SI, one for each dimension; the last ones may be left out,
        down to `shortest`.

        Zeros if absent.
        """
        value = self.data.get(key, [0.0] * len(dimensions))
        least = len(dimensions) if shortest is None else shortest
        if not isinstance(value, list) or not least <= len(value) <= len(dimensions):
            count = str(least) if least == len(dimensions) else f"{least} to {len(dimensions)}"
            raise self.error(f"expected a list of {count} numbers, found {_described(value)}", key)
        return tuple(
            self._si(v, d, f"{key}[{i}]") for i, (v, d) in enumerate(zip(value, dimensions))
        )

    def matrix(self, key: str, size: int) -> list[tuple[float, ...]]:
        """Return a square matrix of plain numbers by rows."""
        value = self.data[key]
        if not isinstance(value, list) or len(value) != size:
            raise self.error(
                f"expected {size} rows of {size} numbers, found {_described(value)}", key
            )
        rows = replace(self, data={f"{key}[{i}]": row for i, row in enumerate(value)})
        return [rows.numbers(row, ("none",) * size) for row in rows.data]

    def _si(self, value: object, dimension: str, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise self.error(f"expected a number ({dimension}), found {_described(value)}", key)
        try:
            amount, unit = quantity(value) if isinstance(value, str) else (float(value), None)
            factor = (
                self.factors.get(dimension, 1.0) if unit is None else conversion(unit, dimension)
            )
        except GoughError as error:
            raise self.error(f"expected a number ({dimension}), found {error}", key) from None
        except OverflowError:
            amount, factor = math.inf, 1.0
        if not math.isfinite(amount * factor):
            raise self.error(f"expected a finite number, found {_described(value)}", key)
        if abs(amount * factor) > LARGEST_NUMBER:
            raise self.error(
                f"{_described(value)} is too large for a robot (at most {LARGEST_NUMBER:g} in SI)",
                key,
            )
        return amount * factor

    def table(self, key: str) -> TomlTable:
        """Return a table inside this one; empty if absent."""
        data = self.data.get(key, {})
        if self.place == TOP_LEVEL:
            return replace(self, data=data, place=f"[{key}]")
        return replace(self, data=data, prefix=f"{self.prefix}{key}.")

    def tables(self, key: str) -> list[TomlTable]:
        """Return an array of tables, each placed by its name."""
        header, found = self._inside(key), []
        for i, data in enumerate(self.data.get(key, [])):
            name = data.get("name")
            label = f"'{name}'" if isinstance(name, str) and len(name) <= 60 else f"number {i + 1}"
            found.append(
                replace(
                    self,
                    data=data,
                    place=f"[[{header}]] {label}{self.owner}",
                    prefix="",
                    header=header,
                    owner=f" of {header} {label}",
                )
            )
        return found

    def _inside(self, key: str) -> str:
        return f"{self.header}.{key}" if self.header else key
