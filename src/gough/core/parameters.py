"""Named parameters, and the base parameters that data can determine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shapes
from gough.core.display import combination_text
from gough.core.errors import InvalidInput
from gough.core.names import (
    INERTIAL as INERTIAL,
    Parameter,
    index_of,
    parameters,
)
from gough.core.record import Columns, Record

# The order in which base parameters of a body are chosen (BG13 (23)),
# first ones kept; the joint's terms follow.
BASE_ORDER = ("Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz", "mx", "my", "mz", "m")
# relative to the largest of a formula; smaller ones are rounding errors
COEFFICIENT_ZERO = 1e-9
# relative to the largest: smaller ones are rounding errors
SINGULAR_VALUE_ROUNDING = 1e-15
# of a regrouped parameter in a summary; JSON and report have all of it
MAX_FORMULA_CHARS = 100
FORMULA_DIGITS = ".5g"  # of the coefficients of a formula
# relative difference below which coefficients share a bracket
COEFFICIENT_TIE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class ParameterTable(Record):
    """Parameters by name, with values, units and optionally standard errors."""

    names: tuple[Parameter, ...]  # (p,)
    values: FloatArray  # (p,)
    units: tuple[str, ...] = ()  # (p,); if empty, those the names carry
    std: FloatArray | None = None  # standard errors, (p,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", parameters(self.names, self.units or None))
        object.__setattr__(self, "units", tuple(name.unit for name in self.names))
        check_shapes(self, values=(len(self.names),), std=(len(self.names),))
        for name in self.names:
            if not name.unit:
                raise InvalidInput(
                    f"the unit of parameter '{name}' is not known; give units",
                    name=name,
                )
        if len(set(self.names)) != len(self.names):
            raise InvalidInput("parameter names repeat")

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.index(name)])

    def index(self, name: str) -> int:
        """Return the position of a parameter; raises `InvalidInput` if there is none."""
        if name in self._positions:
            return self._positions[name]
        return index_of(self.names, name)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def table(self) -> Columns:
        """Return the parameters with values, standard errors where there are any, and units."""
        columns: dict[str, Iterable[Any]] = {"parameter": self.names, "value": self.values}
        if self.std is not None:
            columns["std"] = self.std
        return columns | {"unit": self.units}

    def as_dict(self) -> dict[str, float]:
        """Return the values by name."""
        return {name: float(number) for name, number in zip(self.names, self.values)}


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseParameters(Record):
    """The combinations of standard parameters that motion and effort can determine.

    base = matrix @ standard; the regressor of the base parameters is
    the `independent` columns of the standard one. Each base parameter
    keeps the name of its independent standard parameter, with an `R` if
    others were regrouped into it.
    """

    names: tuple[Parameter, ...]  # of the base parameters, (b,)
    units: tuple[str, ...]  # of the base parameters, (b,)
    standard: tuple[Parameter, ...]  # standard (or tied) parameters, (p,)
    matrix: FloatArray  # regrouping, (b, p)
    independent: tuple[int, ...]  # indices of the kept standard columns, (b,)
    singular_values: FloatArray  # of the sampled regressor, descending, (p,)
    tolerance: float  # relative threshold that separated kept from dropped
    # at a finer cut that numbers with the digits of the robot file do
    # not support; None without one
    finer_count: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", parameters(self.names, self.units))
        object.__setattr__(self, "standard", parameters(self.standard))
        check_shapes(self, matrix=(len(self.names), len(self.standard)))
        check_finite(self.matrix, "regrouping matrix")

    def __len__(self) -> int:
        return len(self.names)

    def table(self) -> Columns:
        """Return the formula of each base parameter."""
        return {
            "parameter": self.names,
            "unit": self.units,
            "formula": self.regrouping().values(),
        }

    @property
    def gap(self) -> float:
        """Ratio of the last kept to the first dropped singular value; large for a clear rank."""
        kept = len(self)
        if kept >= len(self.singular_values) or self.singular_values[kept] == 0:
            return np.inf
        return float(self.singular_values[kept - 1] / self.singular_values[kept])

    @property
    def clear_count(self) -> int:
        """Number of singular values before the widest gap between them."""
        largest = float(self.singular_values[0])
        known = np.maximum(self.singular_values, SINGULAR_VALUE_ROUNDING * largest)
        known = np.append(known, SINGULAR_VALUE_ROUNDING * largest)
        return int(np.argmax(known[:-1] / known[1:])) + 1

    def values(self, standard: ArrayLike) -> FloatArray:
        """Return base values of standard values, (p,) -> (b,)."""
        return np.asarray(self.matrix @ np.asarray(standard, dtype=float))

    def select(self, names: Iterable[str]) -> BaseParameters:
        """Keep some base parameters; the others are taken as zero."""
        rows = [index_of(self.names, name, "base parameter") for name in names]
        return replace(
            self,
            names=tuple(self.names[i] for i in rows),
            units=tuple(self.units[i] for i in rows),
            matrix=self.matrix[rows],
            independent=tuple(self.independent[i] for i in rows),
        )

    def every_standard(self) -> BaseParameters:
        """Return the standard parameters as if each could be determined, in their order."""
        return replace(
            self,
            names=self.standard,
            units=tuple(name.unit for name in self.standard),
            matrix=np.eye(len(self.standard)),
            independent=tuple(range(len(self.standard))),
        )

    def regrouping(self) -> dict[str, str]:
        """Return each base parameter's formula as a person would write it.

        Terms with the same coefficient share a bracket: `m6R = m6 + 3.2258 (leg1.rod.mx +
        ...) + ...`.
        """
        formulas: dict[str, str] = {}
        for name, head, coefficients in zip(self.names, self.independent, self.matrix):
            factors = [1.0]
            terms = [str(self.standard[head])]
            for coefficient, members in self._equal_coefficients(head, coefficients):
                if len(members) > 1 and f"{abs(coefficient):{FORMULA_DIGITS}}" != "1":
                    members = [f"({' + '.join(members)})"]
                factors += [coefficient] * len(members)
                terms += members
            formulas[name] = combination_text(factors, terms, FORMULA_DIGITS)
        return formulas

    def _equal_coefficients(
        self, head: int, coefficients: FloatArray
    ) -> list[tuple[float, list[str]]]:
        """Return the coefficients of a formula, each with the standard parameters that have it."""
        groups: list[tuple[float, list[str]]] = []
        negligible = COEFFICIENT_ZERO * np.abs(coefficients).max(initial=1.0)
        for j in np.flatnonzero(np.abs(coefficients) > negligible):
            if j == head:
                continue
            for coefficient, members in groups:
                if abs(coefficient - coefficients[j]) < COEFFICIENT_TIE * abs(coefficient):
                    members.append(self.standard[j])
                    break
            else:
                groups.append((float(coefficients[j]), [self.standard[j]]))
        return groups
