"""Compare the parameters of results: before and after a repair, two robots, two payloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import join_names, rounded, text_table
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.notices import Notice, notice_lines, ordered
from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.record import Columns, Record
from gough.core.statistics import f_tail, holm, student_tail
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.identification.result import Identification
from gough.identification.validation import validate_result
from gough.logs.recording import Recording

MAX_PRINTED_DIFFERENCES = 40  # rows of the printed table; JSON and page have all
EXACT_DIFFERENCE = 1e-12  # relative: values without standard errors that differ less are equal
DIFFERENCE_COLUMNS = (
    "name",
    "result",
    "first",
    "first_std",
    "value",
    "std",
    "p_corrected",
    "differs",
    "unit",
)
PRINTED_COLUMNS = (
    "sigma",
    "other",
    "sigma",
    "change",
    "sigmas",
    "p, all",
    "unit",
)


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Settings):
    """When results differ, and when that is a failure."""

    level: float = option(0.05, "Chance of naming any parameter although none differs.", above=0)
    change: float | None = option(
        None,
        "Fail where a parameter differs, beyond chance, by more than this part of the first value.",
        least=0,
    )
    error: float | None = option(
        None,
        "Fail where a model predicts a log worse than this part of the effort.",
        above=0,
    )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One parameter of another result beside that of the first."""

    name: Parameter
    unit: str  # of the parameter
    result: str  # label of the other result
    first: float  # value of the first result
    first_std: float  # its standard error
    value: float  # value of the other result
    std: float  # its standard error
    p: float  # p-value of no difference, for this parameter alone
    p_corrected: float = 1.0  # the same for all parameters tested together (Holm)
    differs: bool = False  # `p_corrected` is below the level

    @property
    def change(self) -> float:
        """Relative difference. [1]

        It is relative to the first value, or to twice its standard error where that is
        larger, as the value may then be zero.
        """
        scale = max(abs(self.first), 2 * self.first_std)
        if not scale:
            return np.inf
        return abs(self.value - self.first) / scale

    @property
    def sigmas(self) -> float:
        """Difference over its standard error. [1]"""
        std = float(np.hypot(self.std, self.first_std))
        if not std:
            return np.inf
        return (self.value - self.first) / std

    def cells(self) -> list[str]:
        """Return its row of the printed table."""
        mark = " *" if self.differs else ""
        return [
            self.name,
            self.result,
            *rounded(self.first, self.first_std),
            *rounded(self.value, self.std),
            f"{100 * self.change:.1f} %",
            f"{self.sigmas:+.1f}",
            f"{self.p_corrected:.2g}{mark}",
            self.unit,
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Record):
    """Parameters and prediction errors of results, compared with the first of them."""

    labels: tuple[str, ...]  # of the results
    differences: tuple[Difference, ...]  # lowest p-value first
    # p-value of no difference in any parameter; None with too few degrees of freedom
    together: Mapping[str, float | None]
    errors: Mapping[str, Mapping[str, float]]  # of prediction, worst row, by label and log [1]
    failures: tuple[str, ...]  # exceeded thresholds, in words
    notices: tuple[Notice, ...]  # in their order
    level: float  # false-alarm probability

    def table(self) -> Columns:
        """Return the differences by parameter."""
        columns = {}
        for name in DIFFERENCE_COLUMNS:
            columns[name] = [getattr(difference, name) for difference in self.differences]
        return columns

    @property
    def passed(self) -> bool:
        """No threshold is exceeded."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "results": list(self.labels),
            "passed": self.passed,
            "failures": list(self.failures),
            "notices": [notice.to_dict() for notice in self.notices],
            "together": dict(self.together),
            "differences": [asdict(d) for d in self.differences],
            "errors": {label: dict(by_log) for label, by_log in self.errors.items()},
        }

    def summary(self) -> str:
        """Return the comparison as plain text, the answer first."""
        count = len(self.differences)
        n_different = sum(difference.differs for difference in self.differences)
        answer = f"no parameter differs beyond chance ({count} compared)"
        if n_different:
            answer = f"{n_different} of {count} parameters differ beyond chance"
        header = ["parameter", "result", self.labels[0], *PRINTED_COLUMNS]
        rows = [difference.cells() for difference in self.differences[:MAX_PRINTED_DIFFERENCES]]
        lines = [
            f"{answer}: {' / '.join(self.labels)}",
            "",
            text_table(header, rows),
        ]
        if count > MAX_PRINTED_DIFFERENCES:
            lines.append(f"and {count - MAX_PRINTED_DIFFERENCES} more that differ less")
        lines.append("")
        for label, p in self.together.items():
            text = "too few degrees of freedom to tell" if p is None else f"p = {p:.2g}"
            lines.append(f"{label}, all parameters together: {text}")
        if any(self.errors.values()):
            lines += [
                "",
                "Prediction error on the worst row",
                self._error_table(),
            ]
        if self.notices:
            lines += ["", *notice_lines(self.notices)]
        lines += [f"failed: {text}" for text in self.failures]
        return "\n".join(lines)

    def _error_table(self) -> str:
        """Return the prediction errors by result and log as a table."""
        logs = list(next(iter(self.errors.values())))
        rows = []
        for label, by_log in self.errors.items():
            rows.append([label, *(f"{100 * by_log[log]:.1f} %" for log in logs)])
        return text_table(["result", *logs], rows)


@with_settings(CompareSettings)
def compare(
    results: Sequence[tuple[Model, Identification]],
    recordings: Sequence[Recording] = (),
    settings: CompareSettings | None = None,
    *,
    labels: Sequence[str] | None = None,
    **options: Any,
) -> Comparison:
    """Test which parameters of results differ, and predict each log with each model.

    Every result is compared with the first. For a parameter that both have, with the same
    regrouping,

        t = (b - a) / sqrt(s_a^2 + s_b^2)

    is Student's with the degrees of freedom of Welch and Satterthwaite. With Holm's
    correction the probability of naming any parameter when none differs is at most `level`,
    whatever their correlation. All differences d of a result together are Hotelling's d^T
    (C_a + C_b)^-1 d.

    Args:
        results: Robot and identification of each, of robots with the same structure.
        recordings: Logs that each model is to predict, processed as its own were.
        settings: Thresholds; single options may be given by name instead.
        labels: Of the results; their numbers by default.
        options: Settings by name.
    """
    settings = merge_settings(CompareSettings, settings, options)
    if labels is None:
        labels = [f"result {k + 1}" for k in range(len(results))]
    if len(results) < 2 or len(set(labels)) != len(results):
        raise InvalidInput(
            f"{len(results)} results with labels {', '.join(labels)}: expected two or more, each "
            "with a label of its own"
        )
    _, first = results[0]
    notices = []
    for label, (_, result) in zip(labels, results):
        notices += _level_notices(label, result)
    differences: list[Difference] = []
    together = {}
    for label, (_, other) in zip(labels[1:], results[1:]):
        common = _common_parameters(first, other)
        if not common:
            raise InvalidInput(
                f"'{labels[0]}' ({first.robot}) and '{label}' ({other.robot}) have no parameter in "
                "common; compare results of robots with the same structure"
            )
        notices += _pair_notices(labels[0], first, label, other, common)
        first_estimate = first.estimate.select(common)
        other_estimate = other.estimate.select(common)
        together[label] = _joint_p_value(first_estimate, other_estimate)
        differences += _differences(label, first_estimate, other_estimate)
    corrected = holm(np.array([difference.p for difference in differences])).tolist()
    for k, p in enumerate(corrected):
        differences[k] = replace(differences[k], p_corrected=p, differs=p < settings.level)
    errors: dict[str, dict[str, float]] = {}
    for label, (model, result) in zip(labels, results):
        errors[label] = {}
        for log in recordings:
            validation = validate_result(model, result, [log])
            errors[label][log.source] = float(validation.relative.max())
    return Comparison(
        labels=tuple(labels),
        differences=tuple(sorted(differences, key=lambda d: (d.p, -abs(d.sigmas)))),
        together=together,
        errors=errors,
        failures=tuple(_failures(differences, errors, settings)),
        notices=ordered(notices),
        level=settings.level,
    )


def _level_notices(label: str, result: Identification) -> list[Notice]:
    """Report that a result has warnings or errors of its own."""
    for notice in result.notices:
        if notice.level != "info" and notice.rule != "not validated":
            text = f"its own level is {result.level}; differences may come from a fault in its logs"
            return [Notice(rule="level", level="info", where=label, text=text)]
    return []


def _common_parameters(first: Identification, other: Identification) -> list[Parameter]:
    """Return parameters that both results have, with the same regrouping."""
    first_formula = first.base.regrouping()
    other_formula = other.base.regrouping()
    common = []
    for name in other.estimate.parameters:
        same_formula = first_formula.get(name) == other_formula.get(name)
        if name in first.estimate.parameters and same_formula:
            common.append(name)
    return common


def _pair_notices(
    first_label: str,
    first: Identification,
    label: str,
    other: Identification,
    common: Sequence[Parameter],
) -> list[Notice]:
    """Report parameters that are not compared, and a log that both results were found from."""
    notices = []
    omitted = [name for name in other.estimate.parameters if name not in common]
    if omitted:
        text = (
            f"{len(omitted)} parameters have no equal in {first_label} and are not compared: "
            f"{join_names(omitted)}"
        )
        notices.append(Notice(rule="not compared", level="info", where=label, text=text))
    first_logs = set(first.logs.get("identification", ()))
    shared = first_logs & set(other.logs.get("identification", ()))
    if shared:
        text = f"the log {min(shared)} is behind both results; the test takes them as independent"
        notices.append(Notice(rule="same log", level="info", where=label, text=text))
    return notices


def _differences(label: str, first: Estimate, other: Estimate) -> list[Difference]:
    """Return the differences of two estimates of the same parameters."""
    p_values = _p_values(first, other)
    differences = []
    for k, name in enumerate(first.parameters):
        difference = Difference(
            name=name,
            unit=first.units[k],
            result=label,
            first=float(first.values[k]),
            first_std=float(first.std[k]),
            value=float(other.values[k]),
            std=float(other.std[k]),
            p=float(p_values[k]),
        )
        differences.append(difference)
    return differences


def _p_values(first: Estimate, other: Estimate) -> FloatArray:
    """Return the p-value of each difference, (p,); 1 where both are known exactly and equal."""
    difference = np.abs(other.values - first.values)
    variances = np.stack([first.std, other.std]) ** 2
    total = variances.sum(axis=0)
    exact = total <= 0
    divisor = np.where(exact, 1.0, total)
    freedoms = np.stack([first.degrees_of_freedom, other.degrees_of_freedom])
    inverse_freedom = ((variances / divisor) ** 2 / freedoms).sum(axis=0)
    freedom = np.full(len(total), np.inf)
    np.divide(1.0, inverse_freedom, out=freedom, where=inverse_freedom > 0)
    p_values = 2 * student_tail(difference / np.sqrt(divisor), freedom)
    equal = difference <= EXACT_DIFFERENCE * np.abs(first.values)
    return np.where(exact, equal, p_values)


def _joint_p_value(first: Estimate, other: Estimate) -> float | None:
    """Return the p-value of all differences together; None with too few degrees of freedom."""
    count = len(first)
    freedom = float(min(first.degrees_of_freedom.min(), other.degrees_of_freedom.min()))
    covariance = first.covariance + other.covariance
    std = np.sqrt(np.diag(covariance))
    if freedom <= count or not (std > 0).all():
        return None
    difference = (other.values - first.values) / std
    precision = np.linalg.pinv(covariance / np.outer(std, std), hermitian=True)
    square = float(difference @ precision @ difference)
    if not np.isfinite(freedom):
        return f_tail(square / count, count, np.inf)
    remaining = freedom - count + 1
    return f_tail(square * remaining / (count * freedom), count, remaining)


def _failures(
    differences: Sequence[Difference],
    errors: Mapping[str, Mapping[str, float]],
    settings: CompareSettings,
) -> Iterator[str]:
    """Yield the thresholds that are exceeded, in words."""
    if settings.change is not None:
        for difference in differences:
            if difference.differs and difference.change > settings.change:
                yield (
                    f"{difference.name} of {difference.result} differs by "
                    f"{100 * difference.change:.1f} % (p = {difference.p_corrected:.2g}), allowed "
                    f"are {100 * settings.change:g} %"
                )
    if settings.error is not None:
        for label, by_log in errors.items():
            for log, error in by_log.items():
                if not error <= settings.error:
                    yield (
                        f"{label} predicts {log} to {100 * error:.1f} %, allowed are "
                        f"{100 * settings.error:g} %"
                    )
