"""Results of estimators: an `Estimate` with its covariance, or an `Enclosure` with bounds.

Drive gains and payload parameters are ordinary named parameters here
(`leg1.slider.gain`, `payload.m`), so one type serves every estimator.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from textwrap import shorten
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_finite,
    check_shape,
    check_shapes,
    frozen,
)
from gough.core.display import (
    POORLY_KNOWN_RATIO,
    SIGNIFICANT_T,
    relative,
    rounded,
    stacked_axes,
    text_table,
)
from gough.core.documents import content_digest, plain, read_json
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named
from gough.core.notices import Notice, notice_lines, ordered
from gough.core.record import Columns, Record, StoredRecord
from gough.core.statistics import student_quantile
from gough.fitting.noise_information import not_observed
from gough.fitting.regression import Regression

if TYPE_CHECKING:
    from gough.fitting.problem import Problem

STRONG_CORRELATION = 0.95  # of two estimates, above which a notice names them
# over noise; beyond, noise changes no estimate by 0.1 %
PLENTIFUL_INFORMATION = 1000.0
# Keys of a certificate that do not explain themselves, as they are
# printed.
CERTIFICATE_WORDS = {
    "guarantee": "follows from",
    "equations": "equations used",
    "outliers": "equations that may violate the error bound",
    "proofs": "sums of equations that prove it",
    "smallest_fitting": "smallest error bound that fits, over the given one",
    "error_bound": "error bound",
    "gap": "largest difference between proven and attained bounds",
    "relative_gap": "the same over the width of the interval",
    "removed": "equations left out",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class UncertaintyComponent(Record):
    """Standard errors of the parameters from one source of uncertainty.

    The kinds are 'white' (white noise), 'period' (scatter between
    repetitions), 'hac' (autocorrelated noise), 'blocks' (block
    jackknife over the motion) and 'logs' (jackknife over whole logs).
    """

    kind: str
    std: FloatArray  # standard error of each parameter, (p,)
    degrees_of_freedom: FloatArray  # of each standard error, (p,)
    # number of repetitions, blocks or logs; 0 for the other kinds
    count: int = 0

    def __post_init__(self) -> None:
        freedom = np.asarray(self.degrees_of_freedom, dtype=float)
        freedom = np.broadcast_to(freedom, np.shape(self.std))
        object.__setattr__(self, "degrees_of_freedom", freedom)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimateCovariance:
    """Covariance of the estimation error, and the source of uncertainty it comes from."""

    covariance: FloatArray  # (p, p)
    degrees_of_freedom: FloatArray  # of each variance, (p,)
    kind: str  # as in `UncertaintyComponent`
    count: int = 0  # blocks, logs or repetitions it comes from; 0 if none
    notices: tuple[Notice, ...] = ()  # on how it was found
    sources: tuple[UncertaintyComponent, ...] = ()  # all that were evaluated

    @property
    def source(self) -> UncertaintyComponent:
        """Standard errors of the single parameters."""
        return UncertaintyComponent(
            kind=self.kind,
            std=np.sqrt(np.diag(self.covariance)),
            count=self.count,
            degrees_of_freedom=self.degrees_of_freedom,
        )

    def widened(self, addition: FloatArray) -> EstimateCovariance:
        """Return the same with something added to the covariance of every source, (p, p)."""
        sources = _widened_sources(self.sources, addition)
        return replace(self, covariance=self.covariance + addition, sources=sources)


def _widened_sources(
    sources: Sequence[UncertaintyComponent], addition: FloatArray
) -> tuple[UncertaintyComponent, ...]:
    """Return sources of uncertainty with an addition to the covariance, (p, p)."""
    variance = np.diag(addition)
    widened = []
    for source in sources:
        widened.append(replace(source, std=np.sqrt(source.std**2 + variance)))
    return tuple(widened)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate(StoredRecord):
    """Parameter values with their covariance, and the residual of the fit."""

    stored_as: ClassVar[str] = "estimate"  # kind of the stored file
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    values: FloatArray  # (p,)
    # of the estimation error, (p, p) [product of the units]
    covariance: FloatArray
    rows: tuple[str, ...]  # names of the joint equations
    row_units: tuple[str, ...]
    residual_rms: FloatArray  # (r,) [row unit]
    residual_relative: FloatArray  # rms residual / rms effort, (r,) [1]
    # Mean of the residual; not a number if the statistics do not hold
    # it, (r,) [row unit]
    residual_mean: FloatArray = field(default_factory=lambda: np.empty(0))
    samples: int  # used by the estimate
    # Valid equations of each row; all samples by default, (r,)
    n_valid: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    # of each standard error, (p,) or one number; for `interval`
    degrees_of_freedom: FloatArray
    # of the whitened regressor with columns of unit length [1]
    condition_number: float
    method: str  # name of the estimator, e.g. 'weighted least squares'
    # source of the covariance, e.g. 'period'; see
    # `UncertaintyComponent`
    uncertainty: str
    # all sources that were evaluated
    sources: tuple[UncertaintyComponent, ...] = ()
    # of the rows, (r, r) [product of the row units]
    noise_covariance: FloatArray | None = None
    # of the estimator; see also `parameter_notices`
    notices: tuple[Notice, ...] = ()
    # Signal-to-noise ratio of the regressor columns under position
    # noise, or None if it was not computed; not a number for drive
    # gains, (p,) [1]
    information: FloatArray | None = None
    # parameters that stated equations express by the others
    dependent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._fill_defaults()
        super().__post_init__()
        object.__setattr__(self, "parameters", unique(self.parameters, self.units))
        p = len(self.parameters)
        r = len(self.rows)
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
                "degrees of freedom must be positive",
                degrees_of_freedom=self.degrees_of_freedom,
            )

    def _fill_defaults(self) -> None:
        """Set the fields whose default depends on the number of parameters or rows."""
        freedom = np.asarray(self.degrees_of_freedom, dtype=float)
        freedom = np.broadcast_to(freedom, (len(self.parameters),))
        object.__setattr__(self, "degrees_of_freedom", freedom)
        if not len(self.residual_mean):
            object.__setattr__(self, "residual_mean", np.full(len(self.rows), np.nan))
        if not len(self.n_valid):
            object.__setattr__(self, "n_valid", np.full(len(self.rows), self.samples))

    def __len__(self) -> int:
        return len(self.parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.parameters)

    def __getitem__(self, name: str) -> float:
        return float(self.values[index_of(self.parameters, name)])

    @property
    def params(self) -> dict[str, float]:
        """The values by name, as statsmodels calls them."""
        return dict(zip(self.parameters, self.values.tolist()))

    @property
    def bse(self) -> dict[str, float]:
        """The standard errors by name, as statsmodels calls them."""
        return dict(zip(self.parameters, self.std.tolist()))

    def conf_int(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return the confidence intervals by name; see `interval`.

        Args:
            level: Probability that an interval covers the value.
                (statsmodels asks for alpha, the probability that it
                does not.)
        """
        intervals: dict[str, tuple[float, float]] = {}
        for name, (low, high) in zip(self.parameters, self.interval(level).tolist()):
            intervals[name] = (low, high)
        return intervals

    @cached_property
    def std(self) -> FloatArray:
        """Standard errors, (p,)."""
        return frozen(np.sqrt(np.diag(self.covariance)))

    @property
    def white_std(self) -> FloatArray | None:
        """Standard errors under white noise, for comparison, (p,), or None."""
        for source in self.sources:
            if source.kind == "white":
                return source.std
        return None

    @property
    def noise_std(self) -> FloatArray:
        """Standard errors that noise alone gives, without errors of the model, (p,)."""
        noise_std = self.std
        for source in self.sources:
            if source.kind not in ("blocks", "logs"):
                noise_std = source.std
        return noise_std

    @cached_property
    def relative_std(self) -> FloatArray:
        """std / |value|, (p,); infinite where the value is exactly zero. [1]"""
        return self._relative(self.std)

    @cached_property
    def relative_noise_std(self) -> FloatArray:
        """noise_std / |value|, (p,): BG13 select parameters by this ratio. [1]"""
        return self._relative(self.noise_std)

    def _relative(self, std: FloatArray) -> FloatArray:
        magnitude = np.abs(self.values)
        ratio = np.full_like(magnitude, np.inf)
        np.divide(std, magnitude, out=ratio, where=magnitude > 0)
        return frozen(ratio)

    @cached_property
    def correlation(self) -> FloatArray:
        """Correlation of the estimation errors, AH09 (11), (p, p)."""
        scale = np.where(self.std > 0, self.std, 1.0)
        matrix = self.covariance / np.outer(scale, scale)
        np.fill_diagonal(matrix, 1.0)
        return frozen(matrix)

    @cached_property
    def hardly_distinguishable(self) -> BoolArray:
        """Pairs of strongly correlated parameters; dependent ones are in none, (p, p)."""
        pairs = np.abs(self.correlation) > STRONG_CORRELATION
        np.fill_diagonal(pairs, False)
        return pairs & np.outer(self._is_independent, self._is_independent)

    @property
    def _is_independent(self) -> BoolArray:
        """False for parameters that stated equations express by the others, (p,)."""
        return np.array([name not in self.dependent for name in self.parameters], bool)

    @cached_property
    def correlation_condition(self) -> float:
        """Condition number of the correlation matrix, AH09's measure of a supported structure."""
        if not self._is_independent.any():
            return 1.0
        independent = self._is_independent
        return float(np.linalg.cond(self.correlation[np.ix_(independent, independent)]))

    @cached_property
    def parameter_notices(self) -> tuple[Notice, ...]:
        """Notices on parameters not observed, near zero, poorly known or strongly correlated."""
        notices: list[Notice] = []
        if self.information is not None:
            notices += not_observed(self.parameters, self.information)
        near_zero: list[str] = []
        poorly_known: list[str] = []
        for name, value, std, ratio in zip(
            self.parameters, self.values, self.std, self.relative_std
        ):
            if abs(value) < SIGNIFICANT_T * std:
                near_zero.append(name)
            elif ratio > POORLY_KNOWN_RATIO:
                poorly_known.append(f"{name} ({100 * ratio:.0f} %)")
        if near_zero:
            text = f"not significantly different from zero (|t| < {SIGNIFICANT_T:g})"
            where = ", ".join(near_zero)
            notices.append(Notice(rule="near zero", level="info", where=where, text=text))
        if poorly_known:
            text = f"relative standard error over {100 * POORLY_KNOWN_RATIO:.0f} %"
            where = ", ".join(poorly_known)
            notices.append(Notice(rule="poorly known", level="info", where=where, text=text))
        return (*notices, *self._correlation_notices())

    def _correlation_notices(self) -> list[Notice]:
        """Return a notice for each group of parameters that strong correlations connect."""
        connected = self.hardly_distinguishable
        while True:
            wider = connected | (connected @ connected)
            if (wider == connected).all():
                break
            connected = wider
        notices = []
        magnitude = np.abs(self.correlation)
        for first in np.flatnonzero(connected.any(axis=1)):
            group = np.flatnonzero(connected[first])
            if group[0] != first:
                continue  # listed with its first member
            pairs = np.triu(self.hardly_distinguishable)[np.ix_(group, group)]
            largest = float(magnitude[np.ix_(group, group)][pairs].max())
            names = [self.parameters[k] for k in group]
            together = ", ".join(names[:-1]) + f" and {names[-1]}"
            bound = "" if len(names) == 2 else "up to "
            text = (
                f"{together} are hardly distinguishable: correlation of the estimates "
                f"{bound}{largest:.3f}"
            )
            numbers = {"correlation": largest}
            notices.append(Notice(rule="correlation", level="info", text=text, numbers=numbers))
        return notices

    def interval(self, level: float = 0.95) -> FloatArray:
        """Return confidence intervals [lower, upper] by Student's t, (p, 2)."""
        if not 0 < level < 1:
            raise InvalidInput(
                f"confidence level is {level}, expected between 0 and 1, e.g. 0.95",
                level=level,
            )
        half_width = student_quantile(0.5 + level / 2, self.degrees_of_freedom) * self.std
        return np.stack([self.values - half_width, self.values + half_width], axis=1)

    def select(self, parameters: Sequence[str]) -> Estimate:
        """Return the estimate of some parameters, in the given order; others are marginalised."""
        keep = [index_of(self.parameters, name) for name in parameters]
        sources = []
        for source in self.sources:
            freedom = source.degrees_of_freedom[keep]
            sources.append(replace(source, std=source.std[keep], degrees_of_freedom=freedom))
        information = self.information
        if information is not None:
            information = information[keep]
        return replace(
            self,
            parameters=tuple(self.parameters[i] for i in keep),
            values=self.values[keep],
            units=tuple(self.units[i] for i in keep),
            covariance=self.covariance[np.ix_(keep, keep)],
            degrees_of_freedom=self.degrees_of_freedom[keep],
            sources=tuple(sources),
            information=information,
            dependent=tuple(name for name in self.dependent if name in parameters),
        )

    def widened(self, addition: FloatArray) -> Estimate:
        """Return the estimate with something added to the covariance of every source, (p, p)."""
        sources = _widened_sources(self.sources, addition)
        return replace(self, covariance=self.covariance + addition, sources=sources)

    def predict(self, regression: Regression) -> FloatArray:
        """Return the predicted effort, (t, r). [row unit]

        Parameters of the regression that the estimate lacks are zero
        (they were eliminated); drive gains do not enter an effort.
        """
        keep = [i for i, name in enumerate(self.parameters) if not name.is_gain]
        columns = [index_of(regression.parameters, self.parameters[i]) for i in keep]
        return np.asarray(regression.regressor[:, :, columns] @ self.values[keep])

    def summary(self, *, notices: bool = True) -> str:
        """Return the result as plain text: parameters, residual per joint, condition number.

        Args:
            notices: List the notices too.
        """
        freedom = _range_text(self.degrees_of_freedom)
        lines = [
            f"{self.method}: {len(self)} parameters from {self.samples} samples of "
            f"{len(self.rows)} joint equations",
            f"standard errors: {self.uncertainty}, {freedom} degrees of freedom",
            f"condition number {self.condition_number:.4g}, of the correlation matrix "
            f"{self.correlation_condition:.4g}",
            "",
            self._parameter_table(),
            "",
            self._residual_table(),
        ]
        if notices:
            lines += _notice_section((*self.notices, *self.parameter_notices))
        return "\n".join(lines)

    def _parameter_table(self) -> str:
        """Return values and standard errors as a text table."""
        header = ["parameter", "value", "std. error", "relative", "unit"]
        lines = []
        for name, value, std, unit in zip(self.parameters, self.values, self.std, self.units):
            lines.append([name, *rounded(value, std), relative(value, std), unit])
        for source in self.sources:
            if source.kind != self.uncertainty:
                header.append(f"({source.kind})")
                for line, std in zip(lines, source.std):
                    line.append(f"{std:.3g}")
        if self.information is not None and self.information.min() < PLENTIFUL_INFORMATION:
            header.append("signal/noise")
            for line, ratio in zip(lines, self.information):
                line.append(f"{ratio:.2g}")
        return text_table(header, lines)

    def _residual_table(self) -> str:
        """Return the residual of each joint equation as a text table."""
        lines = []
        for j, row in enumerate(self.rows):
            valid_fraction = self.n_valid[j] / max(self.samples, 1)
            lines.append(
                [
                    row,
                    f"{self.residual_rms[j]:.4g}",
                    f"{100 * self.residual_relative[j]:.3g} %",
                    f"{self.residual_mean[j]:.3g}",
                    self.row_units[j],
                    f"{self.n_valid[j]}",
                    f"{100 * valid_fraction:.0f} %",
                ]
            )
        header = [
            "joint",
            "rms residual",
            "of effort",
            "mean",
            "unit",
            "samples",
            "valid",
        ]
        return text_table(header, lines)

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
        """Draw each value over its standard error, with two of them to both sides.

        Returns:
            The axes of matplotlib.
        """
        axes = stacked_axes(
            ["parameters over their standard error"],
            0.25 * len(self) + 0.6,
            along="value / standard error",
        )[0]
        t_ratio = self.values / np.where(self.std > 0, self.std, 1.0)
        axes.errorbar(t_ratio, range(len(self)), xerr=SIGNIFICANT_T, fmt="o")
        axes.axvline(0.0, color="k", linewidth=0.8)
        axes.set_xscale("symlog", linthresh=10.0)
        axes.set_yticks(range(len(self)), self.parameters)
        axes.invert_yaxis()
        return axes


def build_estimate(
    problem: Problem,
    values: FloatArray,
    uncertainty: EstimateCovariance,
    *,
    method: str,
    condition_number: float,
    noise_covariance: FloatArray | None = None,
    notices: Iterable[Notice] = (),
) -> Estimate:
    """Return the estimate of a problem from values (p,) and their covariance."""
    residual = problem.residual_statistics(values)
    return Estimate(
        parameters=problem.parameters,
        units=problem.units,
        values=values,
        covariance=uncertainty.covariance,
        rows=problem.rows,
        row_units=problem.row_units,
        residual_rms=residual.rms,
        residual_relative=residual.relative,
        residual_mean=residual.mean,
        samples=residual.samples,
        n_valid=residual.n_valid,
        degrees_of_freedom=uncertainty.degrees_of_freedom,
        condition_number=condition_number,
        method=method,
        uncertainty=uncertainty.kind,
        sources=uncertainty.sources,
        noise_covariance=noise_covariance,
        notices=(*notices, *uncertainty.notices),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Enclosure(StoredRecord):
    """A box that contains every parameter vector consistent with the stated error bounds."""

    stored_as: ClassVar[str] = "enclosure"  # kind of the stored file
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    lower: FloatArray  # may be infinite, (p,)
    upper: FloatArray  # may be infinite, (p,)
    method: str  # e.g. 'interval Gauss-Seidel'
    # Assumptions of the guarantee (error bound, dual gap, ...): plain
    # numbers, strings and lists
    certificate: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()  # e.g. that the guarantee is conditional
    # enough to repeat the computation
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, and a digest of them."""
        content = super().to_dict()
        return {**content, "digest": content_digest(content)}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; raises `InvalidInput` if the file was changed since."""
        content = read_json(path, cls.stored_as)
        if content.pop("digest", None) != content_digest(content):
            raise InvalidInput(
                f"'{path}' was changed after it was written: its content has another digest than "
                "it states; compute the box again",
                path=path,
            )
        return super().load(path)

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
        """Return whether a parameter vector, (p,) in this order or by name, lies in the box."""
        return bool(self.inside(values).all())

    def inside(
        self, values: ArrayLike | Mapping[str, float]
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each parameter whether its value lies within its bounds, (p,)."""
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
        bounds = []
        for i, name in enumerate(self.parameters):
            lower = f"{self.lower[i]:.6g}"
            upper = f"{self.upper[i]:.6g}"
            bounds.append([name, lower, upper, f"{self.width[i]:.3g}", self.units[i]])
        certificate = [f"  {name}: {fact}" for name, fact in self.guarantee()]
        lines = [
            f"{self.method}: box of {len(self)} parameters",
            "",
            text_table(["parameter", "lower", "upper", "width", "unit"], bounds),
        ]
        if certificate:
            lines += ["", "Guarantee", *certificate]
        lines += _notice_section(self.notices)
        return "\n".join(lines)

    def guarantee(self) -> list[tuple[str, str]]:
        """Return what the guarantee of the box rests on: names and facts, in words."""
        facts = []
        for key, fact in self.certificate.items():
            if fact not in ([], None, "", False) and not isinstance(fact, dict):
                name = CERTIFICATE_WORDS.get(key, key.replace("_", " "))
                facts.append((name, shorten(_fact_text(fact), 100)))
        return facts


def _fact_text(fact: Any) -> str:
    """Return a fact of a certificate as text, with numbers rounded."""
    if isinstance(fact, list):
        texts = [_fact_text(entry) for entry in fact]
        return ", ".join(dict.fromkeys(texts))
    if isinstance(fact, float):
        return f"{fact:.3g}"
    return "yes" if fact is True else str(fact)


def _range_text(values: FloatArray) -> str:
    """Return '12' or '3.2 to 12'."""
    lowest = f"{values.min(initial=np.inf):.4g}"
    highest = f"{values.max(initial=0.0):.4g}"
    if lowest == highest:
        return lowest
    return f"{lowest} to {highest}"


def _notice_section(notices: Sequence[Notice]) -> list[str]:
    """Return the lines of a summary that list notices; none without any."""
    if not notices:
        return []
    return ["", "Notices", *notice_lines(ordered(notices))]


def unique(names: Sequence[str], units: Sequence[str]) -> tuple[Parameter, ...]:
    """Return names with units as parameters, none of them twice."""
    if len(set(names)) != len(names):
        raise InvalidInput("parameter names repeat")
    return named(names, units)
