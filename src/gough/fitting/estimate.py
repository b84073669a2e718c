"""What estimators return: an `Estimate` with its covariance, or an `Enclosure`, which is a box and
not a Gaussian.

Drive gains and payload parameters are ordinary named parameters here (`leg1.slider.gain`,
`payload.m`), so one type serves every estimator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from textwrap import shorten
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, IntArray, check_finite, check_shape, check_shapes, frozen
from gough.core.display import (
    POORLY_KNOWN_RATIO,
    SIGNIFICANT_T,
    relative,
    rounded,
    stacked_axes,
    text_table,
)
from gough.core.documents import plain
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named
from gough.core.notices import Notice, notice_lines, ordered
from gough.core.record import Columns, Record, StoredRecord
from gough.core.statistics import student_quantile
from gough.fitting.noise_information import not_observed
from gough.fitting.regression import Regression

if TYPE_CHECKING:
    from gough.fitting.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class UncertaintyComponent(Record):
    """What one source of uncertainty says.

    Args:
        kind: 'white' (noise without memory), 'period' (scatter of repetitions), 'hac' (noise with
            memory), 'blocks' (leaving stretches of the motion out), 'logs' (leaving whole
            recordings out), ...
        std, degrees_of_freedom: Of each parameter, (p,).
        count: How many repetitions, stretches or recordings; 0 where that means nothing.
    """

    kind: str
    std: FloatArray
    degrees_of_freedom: FloatArray
    count: int = 0

    def __post_init__(self) -> None:
        freedom = np.broadcast_to(
            np.asarray(self.degrees_of_freedom, dtype=float), np.shape(self.std)
        )
        object.__setattr__(self, "degrees_of_freedom", freedom)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimateCovariance:
    """Covariance of the estimation error, (p, p), degrees of freedom behind each variance, (p,),
    and where from.
    """

    covariance: FloatArray
    degrees_of_freedom: FloatArray
    kind: str
    count: int = 0
    notices: tuple[Notice, ...] = ()
    sources: tuple[UncertaintyComponent, ...] = ()  # all that were asked

    @property
    def source(self) -> UncertaintyComponent:
        """What is said of each parameter alone."""
        return UncertaintyComponent(
            kind=self.kind,
            std=np.sqrt(np.diag(self.covariance)),
            count=self.count,
            degrees_of_freedom=self.degrees_of_freedom,
        )

    def grown(self, factor: FloatArray) -> EstimateCovariance:
        """Return the same with the variances of the parameters times a factor, (p,)."""
        root = np.sqrt(factor)
        return replace(
            self,
            covariance=self.covariance * np.outer(root, root),
            sources=tuple(replace(source, std=source.std * root) for source in self.sources),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate(StoredRecord):
    """Parameter values with their covariance and the residual they leave.

    Args:
        parameters, units, values: (p,).
        covariance: Of the estimation error, (p, p). [product of the units]
        rows, row_units: Names and units of the equation rows, (r,).
        residual_rms, residual_mean: Per row, (r,); a mean that was condensed away is not a number.
            [row unit]
        residual_relative: rms residual / rms effort per row, (r,). [1]
        samples: Samples behind the estimate.
        n_valid: Number of valid equations of each row, (r,); all by default.
        degrees_of_freedom: Behind each standard deviation, (p,) or one number; sets the quantile of
            `interval`.
        condition_number: Of the whitened regressor with columns of unit length. [1]
        method: Which estimator, e.g. 'weighted least squares'.
        uncertainty: Which source decides the covariance, e.g. 'period'.
        sources: What each source says, the one that decides among them.
        noise_covariance: Of the rows, (r, r), or None. [product of the row units]
        notices: What the estimator reports; those about single parameters are in
            `parameter_notices`.
        information: On each parameter over that of position noise alone, (p,), or None where it was
            not looked at; not a number for drive gains. [1]
    """

    stored_as: ClassVar[str] = "estimate"
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    residual_rms: FloatArray
    residual_relative: FloatArray
    residual_mean: FloatArray = field(default_factory=lambda: np.empty(0))
    samples: int
    n_valid: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    degrees_of_freedom: FloatArray
    condition_number: float
    method: str
    uncertainty: str
    sources: tuple[UncertaintyComponent, ...] = ()
    noise_covariance: FloatArray | None = None
    notices: tuple[Notice, ...] = ()
    information: FloatArray | None = None

    def __post_init__(self) -> None:
        p, r = len(self.parameters), len(self.rows)
        freedom = np.broadcast_to(np.asarray(self.degrees_of_freedom, dtype=float), (p,))
        means = self.residual_mean if len(self.residual_mean) else np.full(r, np.nan)
        n_valid = self.n_valid if len(self.n_valid) else np.full(r, self.samples)
        for name, array in (
            ("degrees_of_freedom", freedom),
            ("residual_mean", means),
            ("n_valid", n_valid),
        ):
            object.__setattr__(self, name, array)
        super().__post_init__()
        object.__setattr__(self, "parameters", unique(self.parameters, self.units))
        check_shapes(
            self,
            values=(p,),
            covariance=(p, p),
            residual_rms=(r,),
            residual_relative=(r,),
            residual_mean=(r,),
            n_valid=(r,),
            noise_covariance=(r, r),
            information=(p,),
        )
        check_finite(self.values, "estimated values")
        check_finite(self.covariance, "covariance of the estimate")
        if (np.diag(self.covariance) < 0).any():
            raise InvalidInput("covariance of the estimate has a negative variance")
        if not (self.degrees_of_freedom > 0).all():
            raise InvalidInput(
                "degrees of freedom must be positive", degrees_of_freedom=self.degrees_of_freedom
            )

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, name: str) -> float:
        return float(self.values[index_of(self.parameters, name)])

    @cached_property
    def std(self) -> FloatArray:
        """Standard deviations, (p,)."""
        return frozen(np.sqrt(np.diag(self.covariance)))

    @property
    def white_std(self) -> FloatArray | None:
        """Standard deviations under noise without memory, for comparison, (p,), or None."""
        return next((source.std for source in self.sources if source.kind == "white"), None)

    @property
    def noise_std(self) -> FloatArray:
        """Standard deviations that noise alone gives, errors of the model left aside, (p,)."""
        noise = [source.std for source in self.sources if source.kind not in ("blocks", "logs")]
        return noise[-1] if noise else self.std

    @cached_property
    def relative_std(self) -> FloatArray:
        """std / |value|, (p,); infinite where the value is exactly zero. [1]"""
        return self._relative(self.std)

    @cached_property
    def relative_noise_std(self) -> FloatArray:
        """noise_std / |value|, (p,): by this BG13 choose what a model needs. [1]"""
        return self._relative(self.noise_std)

    def _relative(self, std: FloatArray) -> FloatArray:
        size = np.abs(self.values)
        return frozen(np.divide(std, size, out=np.full_like(size, np.inf), where=size > 0))

    @cached_property
    def correlation(self) -> FloatArray:
        """Correlation of the estimation errors, AH09 (11), (p, p)."""
        scale = np.where(self.std > 0, self.std, 1.0)
        matrix = self.covariance / np.outer(scale, scale)
        np.fill_diagonal(matrix, 1.0)
        return frozen(matrix)

    @cached_property
    def correlation_condition(self) -> float:
        """Condition number of the correlation matrix: AH09's measure of how far the data support
        the structure.
        """
        return float(np.linalg.cond(self.correlation)) if len(self) else 1.0

    @cached_property
    def parameter_notices(self) -> tuple[Notice, ...]:
        """On parameters not observed, near zero, known to over 30 %, or correlated over 0.95."""
        notices: list[Notice] = []
        if self.information is not None:
            notices += not_observed(self.parameters, self.information)
        near_zero = np.abs(self.values) < SIGNIFICANT_T * self.std
        if near_zero.any():
            names = [name for name, near in zip(self.parameters, near_zero) if near]
            notices.append(
                Notice(
                    rule="near zero",
                    level="info",
                    where=", ".join(names),
                    text=f"not significantly different from zero (|t| < {SIGNIFICANT_T:g})",
                )
            )
        poor = [
            f"{name} ({100 * std:.0f} %)"
            for name, std, near in zip(self.parameters, self.relative_std, near_zero)
            if std > POORLY_KNOWN_RATIO and not near
        ]
        if poor:
            notices.append(
                Notice(
                    rule="poorly known",
                    level="info",
                    where=", ".join(poor),
                    text=f"relative standard error over {100 * POORLY_KNOWN_RATIO:.0f} %",
                )
            )
        for i, j in zip(*np.nonzero(np.triu(np.abs(self.correlation), 1) > 0.95)):
            notices.append(
                Notice(
                    rule="correlation",
                    level="info",
                    where=f"{self.parameters[i]} and {self.parameters[j]}",
                    text="hardly distinguishable: correlation of the estimates "
                    f"{self.correlation[i, j]:.3f}",
                    numbers={"correlation": float(self.correlation[i, j])},
                )
            )
        return tuple(notices)

    def interval(self, level: float = 0.95) -> FloatArray:
        """Return confidence intervals [lower, upper], (p, 2), from Student's t with
        `degrees_of_freedom`.
        """
        if not 0 < level < 1:
            raise InvalidInput(
                f"confidence level is {level}, expected between 0 and 1, e.g. 0.95", level=level
            )
        reach = student_quantile(0.5 + level / 2, self.degrees_of_freedom) * self.std
        return np.stack([self.values - reach, self.values + reach], axis=1)

    def select(self, parameters: Sequence[str]) -> Estimate:
        """Return the estimate of some parameters, in the given order; the others stay
        marginalised.
        """
        keep = [index_of(self.parameters, name) for name in parameters]
        sources = (
            replace(
                source, std=source.std[keep], degrees_of_freedom=source.degrees_of_freedom[keep]
            )
            for source in self.sources
        )
        return replace(
            self,
            parameters=tuple(self.parameters[i] for i in keep),
            values=self.values[keep],
            units=tuple(self.units[i] for i in keep),
            covariance=self.covariance[np.ix_(keep, keep)],
            degrees_of_freedom=self.degrees_of_freedom[keep],
            sources=tuple(sources),
            information=None if self.information is None else self.information[keep],
        )

    def predict(self, regression: Regression) -> FloatArray:
        """Return the effort the estimate predicts, (t, r). [row unit]

        Parameters the regression has and the estimate lacks count as zero (they were eliminated);
        drive gains do not enter an effort.
        """
        keep = [i for i, name in enumerate(self.parameters) if not name.is_gain]
        columns = [index_of(regression.parameters, self.parameters[i]) for i in keep]
        return np.asarray(regression.regressor[:, :, columns] @ self.values[keep])

    def summary(self, *, notices: bool = True) -> str:
        """Return the result as plain text: parameters, residual per joint, condition number.

        Args:
            notices: List the notices too.
        """
        extra = [
            (f"{source.kind} std", [f"{std:.3g}" for std in source.std])
            for source in self.sources
            if source.kind != self.uncertainty
        ]
        if self.information is not None:
            extra.append(("over noise", [f"{ratio:.2g}" for ratio in self.information]))
        header = [
            "parameter",
            "value",
            "std",
            "std/|value|",
            "unit",
            *(title for title, _ in extra),
        ]
        lines = [
            [
                name,
                *rounded(value, std),
                relative(value, std),
                unit,
                *(cells[k] for _, cells in extra),
            ]
            for k, (name, value, std, unit) in enumerate(
                zip(self.parameters, self.values, self.std, self.units)
            )
        ]
        residual = [
            [
                row,
                f"{rms:.4g}",
                f"{100 * ratio:.3g} %",
                f"{mean:.3g}",
                unit,
                f"{count}",
                f"{100 * count / max(self.samples, 1):.0f} %",
            ]
            for row, rms, ratio, mean, unit, count in zip(
                self.rows,
                self.residual_rms,
                self.residual_relative,
                self.residual_mean,
                self.row_units,
                self.n_valid,
            )
        ]
        text = [
            f"{self.method}: {len(self)} parameters from {self.samples} samples of "
            f"{len(self.rows)} rows",
            f"standard deviations: {self.uncertainty}, {_range(self.degrees_of_freedom)} degrees "
            f"of freedom",
            f"condition number {self.condition_number:.4g}, of the correlation matrix "
            f"{self.correlation_condition:.4g}",
            "",
            text_table(header, lines),
            "",
            text_table(
                ["row", "rms residual", "of effort", "mean", "unit", "samples", "counts"], residual
            ),
        ]
        if notices:
            text += _notice_section((*self.notices, *self.parameter_notices))
        return "\n".join(text)

    def table(self) -> Columns:
        """Return value, std, relative std and unit by parameter."""
        return {
            "parameter": self.parameters,
            "value": self.values,
            "std": self.std,
            "relative_std": self.relative_std,
            "unit": self.units,
        }

    def plot(self) -> Any:
        """Draw each value over its standard deviation, with two of them to both sides; returns the
        axes.
        """
        axes = stacked_axes(
            ["parameters over their standard deviation"],
            0.25 * len(self) + 0.6,
            along="value / sigma",
        )[0]
        size = self.values / np.where(self.std > 0, self.std, 1.0)
        axes.errorbar(size, range(len(self)), xerr=SIGNIFICANT_T, fmt="o")
        axes.axvline(0.0, color="k", linewidth=0.8)
        axes.set_xscale("symlog", linthresh=10.0)
        axes.set_yticks(range(len(self)), self.parameters)
        axes.invert_yaxis()
        return axes


def build_estimate(
    problem: Problem,
    values: FloatArray,
    spread: EstimateCovariance,
    *,
    method: str,
    condition_number: float,
    noise_covariance: FloatArray | None = None,
    notices: Iterable[Notice] = (),
) -> Estimate:
    """Return the estimate of a problem: the one way results come together."""
    left = problem.residual_statistics(values)
    return Estimate(
        parameters=problem.parameters,
        units=problem.units,
        values=values,
        covariance=spread.covariance,
        rows=problem.rows,
        row_units=problem.row_units,
        residual_rms=left.rms,
        residual_relative=left.relative,
        residual_mean=left.mean,
        samples=left.samples,
        n_valid=left.n_valid,
        degrees_of_freedom=spread.degrees_of_freedom,
        condition_number=condition_number,
        method=method,
        uncertainty=spread.kind,
        sources=spread.sources,
        noise_covariance=noise_covariance,
        notices=(*notices, *spread.notices),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Enclosure(StoredRecord):
    """A box that contains every parameter vector consistent with the stated error bounds.

    Args:
        parameters, units, lower, upper: (p,); bounds may be infinite.
        method: E.g. 'interval Gauss-Seidel'.
        certificate: What the guarantee rests on, as plain numbers, strings and lists (error bound,
            dual gap, ...).
        notices: E.g. that the guarantee is conditional.
        settings: How it was found, enough to find it again.
    """

    stored_as: ClassVar[str] = "enclosure"
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    method: str
    certificate: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "certificate", plain(self.certificate))
        super().__post_init__()
        object.__setattr__(self, "parameters", unique(self.parameters, self.units))
        check_shapes(self, lower=(len(self.parameters),), upper=(len(self.parameters),))
        if not (self.lower <= self.upper).all():  # also catches NaN
            bad = int(np.argmin(self.lower <= self.upper))
            raise InvalidInput(
                f"bounds of '{self.parameters[bad]}' are [{self.lower[bad]}, {self.upper[bad]}]: "
                "an empty set is not an enclosure",
                name=self.parameters[bad],
            )

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, name: str) -> tuple[float, float]:
        i = index_of(self.parameters, name)
        return float(self.lower[i]), float(self.upper[i])

    @cached_property
    def width(self) -> FloatArray:
        """upper - lower, (p,)."""
        return frozen(self.upper - self.lower)

    def contains(self, values: ArrayLike | Mapping[str, float]) -> bool:
        """Say whether a parameter vector, (p,) in the order here or by name, lies in the box."""
        return bool(self.inside(values).all())

    def inside(
        self, values: ArrayLike | Mapping[str, float]
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Say for each parameter whether its value lies within its bounds, (p,)."""
        if isinstance(values, Mapping):
            values = [values[name] for name in self.parameters]
        point = np.asarray(values, dtype=float)
        check_shape(point, (len(self),), "parameter values")
        return np.asarray((self.lower <= point) & (point <= self.upper))

    def table(self) -> Columns:
        """Return lower and upper bound and unit by parameter."""
        return {
            "parameter": self.parameters,
            "lower": self.lower,
            "upper": self.upper,
            "unit": self.units,
        }

    def summary(self) -> str:
        """Return the box as plain text with its certificate and notices."""
        lines = [
            [name, f"{low:.6g}", f"{high:.6g}", f"{width:.3g}", unit]
            for name, low, high, width, unit in zip(
                self.parameters, self.lower, self.upper, self.width, self.units
            )
        ]
        certificate = [
            f"  {key.replace('_', ' ')}: {shorten(_short(value), 100)}"
            for key, value in self.certificate.items()
            if value not in ([], None, "") and not isinstance(value, dict)
        ]
        return "\n".join(
            [
                f"{self.method}: box of {len(self)} parameters",
                "",
                text_table(["parameter", "lower", "upper", "width", "unit"], lines),
                *(["", "Certificate", *certificate] if certificate else []),
                *_notice_section(self.notices),
            ]
        )


def _short(value: Any) -> str:
    """Return a fact of a certificate in words; numbers of the JSON are not rounded, these are."""
    if isinstance(value, list):
        return ", ".join(dict.fromkeys(_short(item) for item in value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _range(values: FloatArray) -> str:
    """Return '12' or '3.2 to 12'."""
    low, high = (f"{edge:.4g}" for edge in (values.min(initial=np.inf), values.max(initial=0.0)))
    return low if low == high else f"{low} to {high}"


def _notice_section(notices: Sequence[Notice]) -> list[str]:
    """Return the lines of a summary that list notices; none without any."""
    return ["", "Notices", *notice_lines(ordered(notices))] if notices else []


def unique(names: Sequence[str], units: Sequence[str]) -> tuple[Parameter, ...]:
    """Return names with units as parameters, none of them twice."""
    if len(set(names)) != len(names):
        raise InvalidInput("parameter names repeat")
    return named(names, units)
