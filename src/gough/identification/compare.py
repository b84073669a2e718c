"""Compare the parameters of results: before and after a repair, two robots, two payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import join_names, rounded, text_table
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.notices import Notice, ResultLevel, level_of, notice_lines, ordered
from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.record import Columns, Record
from gough.core.statistics import f_tail, holm, student_tail
from gough.engine import Robot, as_model
from gough.identification.combinations import CommonParameters, common_parameters
from gough.identification.result import Identification
from gough.identification.validation import validate_result
from gough.logs.readers import Log, as_recordings

# rows of the printed table; JSON and page have all
MAX_PRINTED_DIFFERENCES = 40
THRESHOLD_RULE = "beyond threshold"  # of notices on `change` and `error`
# relative: values without standard errors that differ less are equal
EXACT_DIFFERENCE = 1e-12
DIFFERENCE_COLUMNS = (
    "name",
    "result",
    "first",
    "first_std",
    "value",
    "std",
    "mismatch",
    "p_corrected",
    "differs",
    "unit",
    "formula",
)


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Settings):
    """When results differ, and when that is a failure."""

    false_alarms: float = option(
        0.05, "Probability of naming any parameter although none differs.", above=0
    )
    change: float | None = option(
        None,
        "Fail where a parameter differs significantly and by more than this fraction of its value.",
        least=0,
    )
    error: float | None = option(
        None,
        "Fail where a model predicts a log worse than this fraction of the effort.",
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
    # standard deviation of what differs between the combinations of the
    # two; see `combinations`
    mismatch: float = 0.0
    # by the parameters of the result that has no such combination; else
    # empty
    formula: str = ""
    p: float  # p-value of no difference, for this parameter alone
    # the same for all parameters tested together (Holm)
    p_corrected: float = 1.0
    differs: bool = False  # `p_corrected` is below `false_alarms`

    @property
    def change(self) -> float:
        """Relative difference. [1]

        It is relative to the first value, or to twice its standard
        error where that is larger, as the value may then be zero.
        """
        scale = max(abs(self.first), 2 * self.first_std)
        if not scale:
            return np.inf
        return abs(self.value - self.first) / scale

    @property
    def sigmas(self) -> float:
        """Difference over its standard error. [1]"""
        std = float(np.linalg.norm([self.std, self.first_std, self.mismatch]))
        if not std:
            return np.inf
        return (self.value - self.first) / std

    def cells(self) -> list[str]:
        """Return its row of the printed table."""
        mark = " *" if self.differs else ""
        return [
            self.name,
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
    # p-value of no difference in any parameter; None with too few
    # degrees of freedom
    together: Mapping[str, float | None]
    # of prediction, worst row, by label and log [1]
    errors: Mapping[str, Mapping[str, float]]
    # parameters that the other of two results does not express
    n_not_compared: int
    notices: tuple[Notice, ...]  # in their order
    # probability of naming any parameter although none differs
    false_alarms: float

    def table(self) -> Columns:
        """Return the differences by parameter."""
        columns = {}
        for name in DIFFERENCE_COLUMNS:
            columns[name] = [getattr(difference, name) for difference in self.differences]
        return columns

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices; `ok` if there is only info."""
        return level_of(self.notices)

    @property
    def failures(self) -> tuple[str, ...]:
        """Exceeded thresholds, in words."""
        return tuple(notice.text for notice in self.notices if notice.rule == THRESHOLD_RULE)

    @property
    def passed(self) -> bool:
        """No threshold is exceeded."""
        return not self.failures

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        count = len(self.differences)
        n_different = sum(difference.differs for difference in self.differences)
        answer = f"no parameter differs significantly ({count} compared"
        if n_different:
            answer = f"{n_different} parameters differ significantly ({count} compared"
        if self.n_not_compared:
            answer += f", {self.n_not_compared} not comparable"
        answer += ")"
        if self._differ_together and not n_different:
            answer += ", but all together they do"
        return f"{answer}: {' / '.join(self.labels)}"

    @property
    def _differ_together(self) -> bool:
        """Return whether all parameters of any result together differ beyond chance."""
        threshold = self.false_alarms / max(len(self.together), 1)
        return any(p is not None and p < threshold for p in self.together.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "results": list(self.labels),
            "level": self.level,
            "headline": self.headline,
            "passed": self.passed,
            "failures": list(self.failures),
            "notices": [notice.to_dict() for notice in self.notices],
            "together": dict(self.together),
            "differences": [asdict(d) for d in self.differences],
            "errors": {label: dict(by_log) for label, by_log in self.errors.items()},
        }

    def summary(self) -> str:
        """Return the comparison as plain text, the answer first."""
        lines = [self.headline]
        for label, p in self.together.items():
            lines += ["", *self._difference_table(label)]
            text = "too few degrees of freedom to tell" if p is None else f"p = {p:.2g}"
            lines.append(f"{label}, all parameters together: {text}")
        if any(self.errors.values()):
            lines += [
                "",
                "Prediction error on the worst joint, relative to the effort",
                self._error_table(),
            ]
        if self.notices:
            lines += ["", *notice_lines(self.notices)]
        return "\n".join(lines)

    def _difference_table(self, label: str) -> list[str]:
        """Return the table of one result beside the first, as lines."""
        differences = [difference for difference in self.differences if difference.result == label]
        header = [
            "parameter",
            self.labels[0],
            "std. error",
            label,
            "std. error",
            "change",
            "t",
            "p (Holm)",
            "unit",
        ]
        rows = [difference.cells() for difference in differences[:MAX_PRINTED_DIFFERENCES]]
        lines = [text_table(header, rows)]
        n_hidden = len(differences) - len(rows)
        if n_hidden:
            lines.append(f"and {n_hidden} more that differ less")
        for difference in differences[:MAX_PRINTED_DIFFERENCES]:
            if difference.formula:
                lines.append(f"  {difference.name} is compared with {difference.formula}")
        return lines

    def _error_table(self) -> str:
        """Return the prediction errors by result and log as a table."""
        logs = list(next(iter(self.errors.values())))
        rows = []
        for label, by_log in self.errors.items():
            rows.append([label, *(f"{100 * by_log[log]:.1f} %" for log in logs)])
        return text_table(["result", *logs], rows)


@with_settings(CompareSettings)
def compare(
    results: Sequence[tuple[Robot, Identification]],
    recordings: Log | Sequence[Log] = (),
    settings: CompareSettings | None = None,
    *,
    labels: Sequence[str] | None = None,
    **options: Any,
) -> Comparison:
    """Test which parameters of results differ, and predict each log with each model.

    Every result is compared with the first. Parameters are matched by
    the combination of standard parameters that they are, not by name;
    where two results have different combinations, one is expressed by
    the other (`gough.identification.combinations`), with what cannot be
    expressed in the standard error m. With values a and b,

        t = (b - a) / sqrt(s_a^2 + s_b^2 + m^2)

    is Student's with the degrees of freedom of Welch and Satterthwaite.
    With Holm's correction the probability of naming any parameter when
    none differs is at most `false_alarms`, whatever their correlation.
    All differences d of a result together are Hotelling's d^T (C_a +
    C_b + C_m)^-1 d.

    Args:
        results: Robot (also by name or path) and identification of
            each, of robots with the same structure.
        recordings: Logs that each model is to predict, processed as its
            own were.
        settings: Thresholds; single options may be given by name
            instead.
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
    compared = [(as_model(robot), result) for robot, result in results]
    held_out = as_recordings(recordings)
    first_model, first = compared[0]
    notices = []
    for label, (_, result) in zip(labels, results):
        notices += _level_notices(label, result)
    differences: list[Difference] = []
    together = {}
    n_not_compared = 0
    for label, (model, other) in zip(labels[1:], compared[1:]):
        common = common_parameters(first_model, first, model, other)
        if not common.names:
            raise InvalidInput(
                f"'{labels[0]}' ({first.robot}) and '{label}' ({other.robot}) have no parameter in "
                "common; compare results of robots with the same structure"
            )
        notices += _pair_notices(labels[0], first, label, other, common)
        n_not_compared += len(common.first_only) + len(common.other_only)
        together[label] = _joint_p_value(common)
        differences += _differences(label, common)
    corrected = holm(np.array([difference.p for difference in differences])).tolist()
    for k, p in enumerate(corrected):
        differences[k] = replace(differences[k], p_corrected=p, differs=p < settings.false_alarms)
    errors: dict[str, dict[str, float]] = {}
    for label, (model, result) in zip(labels, compared):
        errors[label] = {}
        for log in held_out:
            validation = validate_result(model, result, [log])
            errors[label][log.source] = float(validation.relative.max())
    notices += _difference_notices(differences, together, settings.false_alarms)
    notices += _threshold_notices(differences, errors, settings)
    return Comparison(
        labels=tuple(labels),
        differences=tuple(sorted(differences, key=lambda d: (d.p, -abs(d.sigmas)))),
        together=together,
        errors=errors,
        n_not_compared=n_not_compared,
        notices=ordered(notices),
        false_alarms=settings.false_alarms,
    )


def _level_notices(label: str, result: Identification) -> list[Notice]:
    """Report that a result has warnings or errors of its own."""
    for notice in result.notices:
        if notice.level != "info" and notice.rule != "not validated":
            text = f"its own level is {result.level}; differences may come from a fault in its logs"
            return [Notice(rule="level", level="info", where=label, text=text)]
    return []


def _pair_notices(
    first_label: str,
    first: Identification,
    label: str,
    other: Identification,
    common: CommonParameters,
) -> list[Notice]:
    """Report parameters that are not compared, and a log that both results were found from."""
    notices = []
    for owner, names, without in (
        (first_label, common.first_only, label),
        (label, common.other_only, first_label),
    ):
        if names:
            text = (
                f"{len(names)} parameters cannot be expressed by those of {without} and are not "
                f"compared: {join_names(names)}"
            )
            notices.append(Notice(rule="not compared", level="info", where=owner, text=text))
    first_logs = set(first.logs.get("identification", ()))
    shared = first_logs & set(other.logs.get("identification", ()))
    if shared:
        text = f"the log {min(shared)} is behind both results; the test takes them as independent"
        notices.append(Notice(rule="same log", level="info", where=label, text=text))
    return notices


def _difference_notices(
    differences: Sequence[Difference], together: Mapping[str, float | None], false_alarms: float
) -> list[Notice]:
    """Warn of each result whose parameters differ from the first's, one by one or together."""
    notices = []
    for label, p in together.items():
        names = [each.name for each in differences if each.differs and each.result == label]
        numbers = {"count": float(len(names))}
        if p is not None:
            numbers["p_together"] = p
        if names:
            text = f"{len(names)} parameters differ significantly: {join_names(names)}"
        elif p is not None and p < false_alarms / len(together):
            text = f"all parameters together differ significantly (p = {p:.2g}), no single one does"
        else:
            continue
        notice = Notice(
            rule="parameters differ",
            level="warning",
            where=label,
            text=text,
            numbers=numbers,
        )
        notices.append(notice)
    return notices


def _differences(label: str, common: CommonParameters) -> list[Difference]:
    """Return the differences between two results."""
    p_values = _p_values(common)
    mismatch = np.sqrt(np.diag(common.mismatch))
    differences = []
    for k, name in enumerate(common.names):
        difference = Difference(
            name=name,
            unit=name.unit,
            result=label,
            first=float(common.first.values[k]),
            first_std=float(common.first.std[k]),
            value=float(common.other.values[k]),
            std=float(common.other.std[k]),
            mismatch=float(mismatch[k]),
            formula=common.formulas[k],
            p=float(p_values[k]),
        )
        differences.append(difference)
    return differences


def _p_values(common: CommonParameters) -> FloatArray:
    """Return the p-value of each difference, (p,); 1 where both are known exactly and equal."""
    first = common.first
    other = common.other
    difference = np.abs(other.values - first.values)
    variances = np.stack([first.std**2, other.std**2, np.diag(common.mismatch)])
    total = variances.sum(axis=0)
    exact = total <= 0
    divisor = np.where(exact, 1.0, total)
    unlimited = np.full(len(total), np.inf)  # the mismatch is not estimated
    freedoms = np.stack([first.degrees_of_freedom, other.degrees_of_freedom, unlimited])
    inverse_freedom = ((variances / divisor) ** 2 / freedoms).sum(axis=0)
    freedom = np.full(len(total), np.inf)
    np.divide(1.0, inverse_freedom, out=freedom, where=inverse_freedom > 0)
    p_values = 2 * student_tail(difference / np.sqrt(divisor), freedom)
    equal = difference <= EXACT_DIFFERENCE * np.abs(first.values)
    return np.where(exact, equal, p_values)


def _joint_p_value(common: CommonParameters) -> float | None:
    """Return the p-value of all differences together; None with too few degrees of freedom."""
    first = common.first
    other = common.other
    count = len(common.names)
    freedom = float(min(first.degrees_of_freedom.min(), other.degrees_of_freedom.min()))
    covariance = first.covariance + other.covariance + common.mismatch
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


def _threshold_notices(
    differences: Sequence[Difference],
    errors: Mapping[str, Mapping[str, float]],
    settings: CompareSettings,
) -> list[Notice]:
    """Report the thresholds that are exceeded."""
    texts = []
    if settings.change is not None:
        for difference in differences:
            if difference.differs and difference.change > settings.change:
                texts.append(
                    f"{difference.name} of {difference.result} differs by "
                    f"{100 * difference.change:.1f} % (p = {difference.p_corrected:.2g}), allowed "
                    f"are {100 * settings.change:g} %"
                )
    if settings.error is not None:
        for label, by_log in errors.items():
            for log, error in by_log.items():
                if not error <= settings.error:
                    texts.append(
                        f"{label} predicts {log} to {100 * error:.1f} %, allowed are "
                        f"{100 * settings.error:g} %"
                    )
    return [Notice(rule=THRESHOLD_RULE, level="error", text=text) for text in texts]
