"""Named parameters, and the base parameters that data can determine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shapes
from gough.core.errors import InvalidInput
from gough.core.names import INERTIAL as INERTIAL, Parameter, index_of, parameters
from gough.core.record import Columns, Record

# The order in which base parameters of a body are sought (BG13 (23)), first ones kept; the joint's
# terms follow.
BASE_ORDER = ("Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz", "mx", "my", "mz", "m")


@dataclass(frozen=True, kw_only=True, eq=False)
class ParameterTable(Record):
    """Parameters by name: values, units (those the names know if not given), optionally standard
    deviations.
    """

    names: tuple[Parameter, ...]
    values: FloatArray
    units: tuple[str, ...] = ()
    std: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", parameters(self.names, self.units or None))
        object.__setattr__(self, "units", tuple(name.unit for name in self.names))
        check_shapes(self, values=(len(self.names),), std=(len(self.names),))
        for name in self.names:
            if not name.unit:
                raise InvalidInput(
                    f"the unit of parameter '{name}' is not known; give units", name=name
                )
        if len(set(self.names)) != len(self.names):
            raise InvalidInput("parameter names repeat")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.index(name)])

    def index(self, name: str) -> int:
        return self._positions[name] if name in self._positions else index_of(self.names, name)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def as_dict(self) -> dict[str, float]:
        return {name: float(v) for name, v in zip(self.names, self.values)}


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseParameters(Record):
    """The combinations of standard parameters that motion and effort can determine.

    base = matrix @ standard; the regressor of the base parameters is the `independent` columns of
    the standard one. Each base parameter keeps the name of its independent standard parameter, with
    an `R` if others were regrouped into it.
    """

    names: tuple[Parameter, ...]  # of the base parameters, (b,)
    units: tuple[str, ...]
    standard: tuple[Parameter, ...]  # standard (or tied) parameters, (p,)
    matrix: FloatArray  # regrouping, (b, p)
    independent: tuple[int, ...]  # indices of the kept standard columns, (b,)
    singular_values: FloatArray  # of the sampled regressor, descending, (p,)
    tolerance: float  # relative threshold that separated kept from dropped

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", parameters(self.names, self.units))
        object.__setattr__(self, "standard", parameters(self.standard))
        check_shapes(self, matrix=(len(self.names), len(self.standard)))
        check_finite(self.matrix, "regrouping matrix")

    def __len__(self) -> int:
        return len(self.names)

    def table(self) -> Columns:
        """Return what each base parameter stands for."""
        return {
            "parameter": self.names,
            "unit": self.units,
            "stands for": self.regrouping().values(),
        }

    @property
    def gap(self) -> float:
        """Ratio of the last kept to the first dropped singular value; large means the rank is
        beyond doubt.
        """
        kept = len(self)
        dropped = self.singular_values[kept] if kept < len(self.singular_values) else 0.0
        return float(self.singular_values[kept - 1] / dropped) if dropped else np.inf

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

    def regrouping(self) -> dict[str, str]:
        """Return each base parameter's formula as a person would write it.

        Terms with the same coefficient share a bracket: `m6R = m6 + 3.2258 (leg1.rod.mx + ...) +
        ...`.
        """
        formulas: dict[str, str] = {}
        for name, head, row in zip(self.names, self.independent, self.matrix):
            groups: dict[float, list[str]] = {}
            for j in np.flatnonzero(np.abs(row) > 1e-9 * np.abs(row).max(initial=1.0)):
                if j != head:
                    known = next(
                        (c for c in groups if abs(c - row[j]) < 1e-6 * abs(c)), float(row[j])
                    )
                    groups.setdefault(known, []).append(self.standard[j])
            formulas[name] = str(self.standard[head])
            for coefficient, members in groups.items():
                sign, size = " + " if coefficient > 0 else " - ", f"{abs(coefficient):.5g}"
                formulas[name] += sign + (
                    sign.join(members)
                    if size == "1"
                    else (
                        f"{size} {members[0]}"
                        if len(members) == 1
                        else f"{size} ({' + '.join(members)})"
                    )
                )
        return formulas
