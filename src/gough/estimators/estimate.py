"""What estimators return: an `Estimate` with its covariance, or an `Enclosure`, which is a box and not a Gaussian.

Drive gains and payload parameters are ordinary named parameters here (`leg1.slider.gain`, `payload.m`), so one type
serves every estimator.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from textwrap import shorten
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput, nearest
from gough.core.names import Parameter
from gough.core.names import parameters as named
from gough.core.parameters import ParameterTable
from gough.core.regression import Regression
from gough.estimators.storage import plain, read_json, write_json

FORMAT = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Parameter values with their covariance and the residual they leave.

    Args:
        parameters: Names, (p,).
        units: Their units, (p,).
        values: (p,).
        covariance: Of the estimation error, (p, p). [product of the units]
        rows: Names of the equation rows, (r,).
        row_units: Their units, (r,).
        residual_rms: Per row, (r,). [row unit]
        residual_relative: rms residual / rms effort per row, (r,). [1]
        residual_mean: Per row, (r,), or None when the samples were condensed away. [row unit]
        samples: Samples behind the estimate.
        degrees_of_freedom: Behind each standard deviation, (p,) or one number for all; sets the quantile of `interval`.
            Infinite means Gaussian.
        condition_number: Of the whitened regressor with columns of unit length. [1]
        method: Which estimator, e.g. 'weighted least squares'.
        uncertainty: Where the covariance comes from: 'white', 'period', 'hac', 'bootstrap', 'sandwich', ...
        white_std: Standard deviations under white noise, for comparison, (p,), or None.
        noise_covariance: Of the rows, (r, r), or None. [product of the row units]
        notes: Remarks of the estimator.
    """

    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    residual_rms: FloatArray
    residual_relative: FloatArray
    residual_mean: FloatArray | None = None
    samples: int
    degrees_of_freedom: FloatArray
    condition_number: float
    method: str
    uncertainty: str
    white_std: FloatArray | None = None
    noise_covariance: FloatArray | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "degrees_of_freedom", np.broadcast_to(
            np.asarray(self.degrees_of_freedom, dtype=float), (len(tuple(self.parameters)),)).copy())
        _settle(self, ("parameters", "units", "rows", "row_units", "notes"),
                ("degrees_of_freedom", "values", "covariance", "residual_rms", "residual_relative", "residual_mean",
                 "white_std", "noise_covariance"))
        p, r = len(self.parameters), len(self.rows)
        for name, shape in (("values", (p,)), ("covariance", (p, p)), ("residual_rms", (r,)),
                            ("residual_relative", (r,)), ("residual_mean", (r,)), ("white_std", (p,)),
                            ("noise_covariance", (r, r))):
            array = getattr(self, name)
            if array is not None:
                check_shape(array, shape, name)
        check_finite(self.values, "estimated values")
        check_finite(self.covariance, "covariance of the estimate")
        if (np.diag(self.covariance) < 0).any():
            raise InvalidInput("covariance of the estimate has a negative variance")
        if not (self.degrees_of_freedom > 0).all():
            raise InvalidInput("degrees of freedom must be positive", degrees_of_freedom=self.degrees_of_freedom)

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, name: str) -> float:
        return float(self.values[_index(self.parameters, name)])

    @cached_property
    def std(self) -> FloatArray:
        """Standard deviations, (p,)."""
        return frozen(np.sqrt(np.diag(self.covariance)))

    @cached_property
    def relative_std(self) -> FloatArray:
        """std / |value|, (p,); infinite where the value is exactly zero. [1]"""
        size = np.abs(self.values)
        return frozen(np.divide(self.std, size, out=np.full_like(size, np.inf), where=size > 0))

    @cached_property
    def correlation(self) -> FloatArray:
        """Correlation of the estimation errors, AH09 (11), (p, p)."""
        scale = np.where(self.std > 0, self.std, 1.0)
        matrix = self.covariance / np.outer(scale, scale)
        np.fill_diagonal(matrix, 1.0)
        return frozen(matrix)

    @cached_property
    def correlation_condition(self) -> float:
        """Condition number of the correlation matrix: AH09's measure of how far the data support the structure."""
        return float(np.linalg.cond(self.correlation)) if len(self) else 1.0

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """What deserves doubt: relative standard deviation over 30 %, correlation over 0.95."""
        found = []
        poor = [(name, f"{100 * std:.0f} %") for name, std in zip(self.parameters, self.relative_std) if std > 0.3]
        if len(poor) == 1:
            found.append(f"{poor[0][0]} is poorly known: relative standard deviation {poor[0][1]}")
        elif poor:
            found.append("poorly known, relative standard deviation over 30 %: "
                         + ", ".join(f"{name} {share}" for name, share in poor))
        for i, j in zip(*np.nonzero(np.triu(np.abs(self.correlation), 1) > 0.95)):
            found.append(f"{self.parameters[i]} and {self.parameters[j]} are hard to tell apart: "
                         f"correlation {self.correlation[i, j]:.3f}")
        return tuple(found)

    def table(self) -> ParameterTable:
        """Return values, units and standard deviations as a table."""
        return ParameterTable(names=self.parameters, values=self.values, units=self.units, std=self.std)

    def interval(self, level: float = 0.95) -> FloatArray:
        """Return confidence intervals [lower, upper], (p, 2), from Student's t with `degrees_of_freedom`."""
        if not 0 < level < 1:
            raise InvalidInput(f"confidence level is {level}, expected between 0 and 1, e.g. 0.95", level=level)
        reach = stats.t.ppf(0.5 + level / 2, self.degrees_of_freedom) * self.std
        return np.stack([self.values - reach, self.values + reach], axis=1)

    def select(self, parameters: Sequence[str]) -> Estimate:
        """Return the estimate of some parameters, in the given order; the others stay marginalised."""
        keep = [_index(self.parameters, name) for name in parameters]
        return replace(self, parameters=tuple(self.parameters[i] for i in keep),
                       units=tuple(self.units[i] for i in keep),
                       degrees_of_freedom=self.degrees_of_freedom[keep],
                       values=self.values[keep], covariance=self.covariance[np.ix_(keep, keep)],
                       white_std=None if self.white_std is None else self.white_std[keep])

    def predict(self, regression: Regression) -> FloatArray:
        """Return the effort the estimate predicts, (t, r). [row unit]

        Parameters the regression has and the estimate lacks count as zero (they were eliminated); drive gains do not
        enter an effort.

        Raises:
            InvalidInput: A parameter of the estimate is not in the regression.
        """
        keep = [i for i, name in enumerate(self.parameters) if not name.is_gain]
        columns = [_index(regression.parameters, self.parameters[i]) for i in keep]
        return np.asarray(regression.regressor[:, :, columns] @ self.values[keep])

    def summary(self) -> str:
        """Return the result as plain text: parameters, residual per row, condition number, notes."""
        white = self.white_std if self.uncertainty != "white" else None
        header = ["parameter", "value", "std", "std/|value|", "unit"] + (["white std"] if white is not None else [])
        lines = [[name, f"{value:.6g}", f"{std:.3g}", f"{100 * ratio:.3g} %", unit]
                 for name, value, std, ratio, unit in
                 zip(self.parameters, self.values, self.std, self.relative_std, self.units)]
        if white is not None:
            lines = [[*line, f"{w:.3g}"] for line, w in zip(lines, white)]
        mean = self.residual_mean
        residual = [[row, f"{rms:.4g}", f"{100 * ratio:.3g} %", "-" if mean is None else f"{mean[j]:.3g}", unit]
                    for j, (row, rms, ratio, unit) in
                    enumerate(zip(self.rows, self.residual_rms, self.residual_relative, self.row_units))]
        text = [
            f"{self.method}: {len(self)} parameters from {self.samples} samples of {len(self.rows)} rows",
            f"standard deviations: {self.uncertainty}, {_range(self.degrees_of_freedom)} degrees of freedom",
            f"condition number {self.condition_number:.4g}, of the correlation matrix {self.correlation_condition:.4g}",
            "", text_table(header, lines),
            "", text_table(["row", "rms residual", "of effort", "mean", "unit"], residual),
        ]
        return "\n".join([*text, *_notes((*self.notes, *self.doubts))])

    def to_dataframe(self) -> Any:
        """Return value, std, relative std and unit as a pandas DataFrame indexed by parameter (needs pandas)."""
        import pandas as pd

        return pd.DataFrame({"value": self.values, "std": self.std, "relative_std": self.relative_std,
                             "unit": list(self.units)}, index=list(self.parameters))

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; nothing is rounded."""
        return _to_dict(self, "estimate")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Estimate:
        """Undo `to_dict`."""
        return cls(**_from_dict(cls, content, "estimate"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON, whole or not at all."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Estimate:
        """Read what `save` wrote."""
        return cls.from_dict(read_json(path, "estimate"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Enclosure:
    """A box that contains every parameter vector consistent with the stated error bounds.

    Args:
        parameters: Names, (p,).
        units: Their units, (p,).
        lower: (p,), may be -inf.
        upper: (p,), may be +inf.
        method: How it was found, e.g. 'interval Gauss-Seidel'.
        certificate: What the guarantee rests on, as plain numbers, strings and lists (error bound, dual gap, rows
            removed, ...).
        notes: Remarks, e.g. that the guarantee is conditional.
    """

    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    method: str
    certificate: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _settle(self, ("parameters", "units", "notes"), ("lower", "upper"))
        object.__setattr__(self, "certificate", MappingProxyType(plain(self.certificate)))
        for name in ("lower", "upper"):
            check_shape(getattr(self, name), (len(self.parameters),), f"{name} bounds")
        if not (self.lower <= self.upper).all():  # also catches NaN
            bad = int(np.argmin(self.lower <= self.upper))
            raise InvalidInput(f"bounds of '{self.parameters[bad]}' are [{self.lower[bad]}, {self.upper[bad]}]: "
                               "an empty set is not an enclosure", name=self.parameters[bad])

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, name: str) -> tuple[float, float]:
        i = _index(self.parameters, name)
        return float(self.lower[i]), float(self.upper[i])

    @cached_property
    def width(self) -> FloatArray:
        """upper - lower, (p,)."""
        return frozen(self.upper - self.lower)

    def contains(self, values: ArrayLike | Mapping[str, float]) -> bool:
        """Say whether a parameter vector, (p,) in the order here or by name, lies in the box."""
        return bool(self.inside(values).all())

    def inside(self, values: ArrayLike | Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Say for each parameter whether its value lies within its bounds, (p,)."""
        if isinstance(values, Mapping):
            values = [values[name] for name in self.parameters]
        point = np.asarray(values, dtype=float)
        check_shape(point, (len(self),), "parameter values")
        return np.asarray((self.lower <= point) & (point <= self.upper))

    def summary(self) -> str:
        """Return the box as plain text with its certificate and notes."""
        lines = [[name, f"{low:.6g}", f"{high:.6g}", f"{width:.3g}", unit]
                 for name, low, high, width, unit in
                 zip(self.parameters, self.lower, self.upper, self.width, self.units)]
        certificate = [f"  {key.replace('_', ' ')}: {shorten(_short(value), 100)}"
                       for key, value in self.certificate.items() if value not in ([], None, "")]
        return "\n".join([f"{self.method}: box of {len(self)} parameters", "",
                          text_table(["parameter", "lower", "upper", "width", "unit"], lines),
                          *(["", "Certificate", *certificate] if certificate else []), *_notes(self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; nothing is rounded."""
        return _to_dict(self, "enclosure")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Enclosure:
        """Undo `to_dict`."""
        return cls(**_from_dict(cls, content, "enclosure"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON, whole or not at all."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Enclosure:
        """Read what `save` wrote."""
        return cls.from_dict(read_json(path, "enclosure"))


def _short(value: Any) -> str:
    """Return a fact of a certificate in words; numbers of the JSON are not rounded, these are."""
    if isinstance(value, list):
        return ", ".join(dict.fromkeys(_short(item) for item in value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def text_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return aligned columns as plain text: the first to the left, the others to the right."""
    every = [list(header), *(list(line) for line in lines)]
    widths = [max(len(line[c]) for line in every) for c in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(line, widths))).rstrip()
        for line in every
    )


def _range(values: FloatArray) -> str:
    """Return '12' or '3.2 to 12'."""
    low, high = (f"{edge:.4g}" for edge in (values.min(initial=np.inf), values.max(initial=0.0)))
    return low if low == high else f"{low} to {high}"


def _notes(notes: Sequence[str]) -> list[str]:
    return ["", "Notes", *(f"  {note}" for note in notes)] if notes else []


def _index(names: Sequence[str], name: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise InvalidInput(f"no parameter '{name}'{nearest(name, names)}", name=name) from None


def _settle(result: Estimate | Enclosure, tuples: Iterable[str], arrays: Iterable[str]) -> None:
    for name in tuples:
        object.__setattr__(result, name, tuple(getattr(result, name)))
    object.__setattr__(result, "parameters", named(result.parameters, result.units))
    if len(set(result.parameters)) != len(result.parameters):
        raise InvalidInput("parameter names repeat")
    for name in arrays:
        if getattr(result, name) is not None:
            object.__setattr__(result, name, frozen(getattr(result, name)))


def _to_dict(result: Estimate | Enclosure, kind: str) -> dict[str, Any]:
    content = {f.name: plain(getattr(result, f.name)) for f in fields(result)}
    return {"kind": kind, "format": FORMAT, **content}


def _from_dict(cls: type, content: Mapping[str, Any], kind: str) -> dict[str, Any]:
    if content.get("kind") != kind or content.get("format") != FORMAT:
        raise InvalidInput(f"content is {content.get('kind')!r} in format {content.get('format')!r}, expected {kind!r} "
                           f"in format {FORMAT}")
    known = {f.name for f in fields(cls)}
    missing = known - set(content)
    if missing:
        raise InvalidInput(f"stored {kind} lacks {', '.join(sorted(missing))}", missing=sorted(missing))
    values = {key: value for key, value in content.items() if key in known}
    if "condition_number" in values:
        values["condition_number"] = float(values["condition_number"])  # 'inf' is stored as text
    for name in ("degrees_of_freedom", "lower", "upper", "residual_rms", "residual_relative", "residual_mean",
                 "white_std", "noise_covariance"):
        if values.get(name) is not None:
            values[name] = np.array(values[name], dtype=object).astype(float)
    return values
