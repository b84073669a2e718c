"""Tables of a robot file: checked against their declaration, numbers read in SI units.

Errors name the file, the table and the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gough.core.errors import GoughError, InvalidMechanism, nearest
from gough.core.units import conversion, quantity
from gough.mechanism.schema import NAME_PATTERN, SOURCE_KEYS, Key

TOP_LEVEL = "top level"
# SI; squares of larger numbers would overflow in the assembly of loops
LARGEST_NUMBER = 1e12
_LONGEST_SHOWN_VALUE = 40  # characters of a value in errors
_LONGEST_SHOWN_NAME = 60
# Python type of a JSON Schema type, and its name in errors.
_SCHEMA_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "text"),
    "boolean": (bool, "true or false"),
    "object": (Mapping, "a table"),
    "array": (list, "a list of texts"),
}


def unit_factors(length: float = 1.0, angle: float = 1.0, mass: float = 1.0) -> dict[str, float]:
    """Return the factor to SI for plain numbers of each dimension; dimensions not listed are SI.

    Derived quantities follow: velocity in length/s, first moment in
    mass x length, inertia in mass x length^2.
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
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    if len(text) > _LONGEST_SHOWN_VALUE:
        return text[:_LONGEST_SHOWN_VALUE] + "..."
    return text


def _matching(value: object, declared: Key) -> Key:
    """Return the alternative of a declaration that has the type of a value, else the first."""
    alternatives: list[Key] = declared.get("anyOf", [declared])
    for alternative in alternatives:
        kind = alternative.get("type")
        if kind in _SCHEMA_TYPES and isinstance(value, _SCHEMA_TYPES[kind][0]):
            return alternative
    return alternatives[0]


@dataclass(frozen=True)
class TomlTable:
    """One TOML table and its place in the file."""

    data: Mapping[str, Any]  # content of the table
    place: str  # in errors: `[[leg.joint]] 'alpha' of leg1`
    file: str
    # factor to SI of a plain number, by dimension
    factors: Mapping[str, float] = field(default_factory=unit_factors)
    prefix: str = ""  # of keys in errors, for tables inside tables
    header: str = ""  # of the array it is in: `leg.joint`
    # in errors about arrays inside it: ` of leg 'leg'`, ` of leg1`
    owner: str = ""

    def error(self, message: str, key: str | None = None) -> InvalidMechanism:
        """Return an error about this table, or about one of its keys."""
        where = self.place
        full_key = None
        if key is not None:
            full_key = self.prefix + key
            where += f", key '{full_key}'"
        return InvalidMechanism(
            f"{self.file}: {where}: {message}",
            file=self.file,
            table=self.place,
            key=full_key,
        )

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key as written."""
        return self.data.get(key, default)

    @property
    def name(self) -> str:
        """The value of the key `name`."""
        return str(self.data["name"])

    def check(self, declared: Key) -> None:
        """Raise unless all keys are known and of their type, and required ones exist.

        Numbers are checked where they are read.
        """
        known = declared.get("properties", {})
        others = declared.get("additionalProperties", {})
        for key, value in self.data.items():
            if key not in known and others is False:
                raise self.error(f"unknown key{nearest(key, known)}", key)
            self._check_value(key, value, known.get(key, others))
        for key in declared.get("required", ()):
            self.require(key, known[key].get("enum", ()))
        if "sources" in known:
            described = {*self.data, *self.get("values", {})} - {
                *SOURCE_KEYS,
                "values",
            }
            self.table("sources").only(described)

    def require(self, key: str, choices: Sequence[str] = ()) -> None:
        """Raise unless a key exists."""
        if key not in self.data:
            hint = f"; write one of {', '.join(choices)}" if choices else ""
            raise self.error(f"is required but missing{hint}", key)

    def _check_value(self, key: str, value: Any, declared: Key) -> None:
        """Raise unless a value is of its declared type; tables are checked inside, too."""
        declared = _matching(value, declared)
        items = declared.get("items", {})
        if "$ref" in declared or "$ref" in items or items.get("type") in ("number", "array"):
            return  # numbers
        kind, expected = _SCHEMA_TYPES.get(declared.get("type", ""), (object, ""))
        has_tables = items.get("type") == "object"
        if has_tables:
            expected = f"tables [[{self._header_of(key)}]]"
        members = value if items and isinstance(value, list) else []
        member_type = Mapping if has_tables else str
        members_fit = all(isinstance(member, member_type) for member in members)
        if not isinstance(value, kind) or not members_fit:
            raise self.error(f"expected {expected}, found {_described(value)}", key)
        choices = declared.get("enum")
        if choices and value not in choices:
            raise self.error(f"{_described(value)} is not one of {', '.join(choices)}", key)
        self._check_name(key, value, declared)
        if kind is Mapping:
            self.table(key).check(declared)
        elif has_tables:
            for table in self.tables(key):
                table.check(items)
        else:
            self._check_words(key, members, items)

    def _check_words(self, key: str, words: list[str], declared: Key) -> None:
        """Raise unless the texts of a list are valid and different."""
        for i, word in enumerate(words):
            place = f"{key}[{i}]"
            if word not in declared.get("enum", words):
                raise self.error(
                    f"unknown name '{word}'{nearest(word, declared['enum'])}",
                    place,
                )
            if word in words[:i]:
                raise self.error(f"'{word}' is listed twice", place)
            self._check_name(place, word, declared)

    def _check_name(self, key: str, value: Any, declared: Key) -> None:
        is_name = declared.get("pattern") == NAME_PATTERN
        if is_name and not re.fullmatch(NAME_PATTERN[1:-1], value):
            raise self.error(
                f"{_described(value)} is not a name; use letters, digits, _ and -, starting with a "
                "letter",
                key,
            )

    def only(self, names: Iterable[str]) -> None:
        """Raise for the first key that is none of these, and none about sources."""
        valid = [*names]
        if not self.prefix:
            valid += SOURCE_KEYS
        for key in self.data:
            if key not in valid:
                raise self.error(f"unknown key{nearest(key, valid)}", key)

    def number(self, key: str, dimension: str = "none", default: float | None = None) -> Any:
        """Return a number in SI; a text such as '10 deg' has its own unit."""
        if key not in self.data:
            return default
        return self._si(self.data[key], dimension, key)

    def positive(self, key: str, dimension: str = "none", default: float | None = None) -> Any:
        """Return a number above zero in SI."""
        number = self.number(key, dimension, default)
        if number is not None and number <= 0:
            raise self.error(
                f"expected a number above zero, found {_described(self.data[key])}",
                key,
            )
        return number

    def numbers(
        self, key: str, dimensions: Sequence[str], shortest: int | None = None
    ) -> tuple[float, ...]:
        """Return a list of numbers in SI, one for each dimension; zeros if absent.

        The last ones may be missing, down to a length of `shortest`.
        """
        longest = len(dimensions)
        if shortest is None:
            shortest = longest
        numbers = self.data.get(key, [0.0] * longest)
        if not isinstance(numbers, list) or not shortest <= len(numbers) <= longest:
            count = longest if shortest == longest else f"{shortest} to {longest}"
            raise self.error(
                f"expected a list of {count} numbers, found {_described(numbers)}",
                key,
            )
        pairs = enumerate(zip(numbers, dimensions))
        return tuple(self._si(number, dimension, f"{key}[{i}]") for i, (number, dimension) in pairs)

    def matrix(self, key: str, order: int) -> list[tuple[float, ...]]:
        """Return a square matrix of plain numbers by rows."""
        rows = self.data[key]
        if not isinstance(rows, list) or len(rows) != order:
            raise self.error(
                f"expected {order} rows of {order} numbers, found {_described(rows)}",
                key,
            )
        table = replace(self, data={f"{key}[{i}]": row for i, row in enumerate(rows)})
        return [table.numbers(row, ("none",) * order) for row in table.data]

    def _si(self, value: object, dimension: str, key: str) -> float:
        """Return a finite number in SI."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise self.error(
                f"expected a number ({dimension}), found {_described(value)}",
                key,
            )
        try:
            if isinstance(value, str):
                amount, unit = quantity(value)
                number = amount * conversion(unit, dimension)
            else:
                number = float(value) * self.factors.get(dimension, 1.0)
        except GoughError as error:
            raise self.error(f"expected a number ({dimension}): {error}", key) from None
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(f"expected a finite number, found {_described(value)}", key)
        if abs(number) > LARGEST_NUMBER:
            raise self.error(
                f"{_described(value)} is too large for a robot (at most {LARGEST_NUMBER:g} in SI)",
                key,
            )
        return number

    def table(self, key: str) -> TomlTable:
        """Return a table inside this one; empty if absent."""
        data = self.data.get(key, {})
        if self.place == TOP_LEVEL:
            return replace(self, data=data, place=f"[{key}]")
        return replace(self, data=data, prefix=f"{self.prefix}{key}.")

    def tables(self, key: str) -> list[TomlTable]:
        """Return an array of tables; errors call each by its name or number."""
        header = self._header_of(key)
        tables = []
        for i, data in enumerate(self.data.get(key, [])):
            name = data.get("name")
            label = f"number {i + 1}"
            if isinstance(name, str) and len(name) <= _LONGEST_SHOWN_NAME:
                label = f"'{name}'"
            table = replace(
                self,
                data=data,
                place=f"[[{header}]] {label}{self.owner}",
                prefix="",
                header=header,
                owner=f" of {header} {label}",
            )
            tables.append(table)
        return tables

    def _header_of(self, key: str) -> str:
        """Return the TOML header of an array of tables inside this table."""
        return f"{self.header}.{key}" if self.header else key
