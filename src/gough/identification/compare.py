"""Which parameters differ between results: a machine before and after repair, two robots of a kind,
two payloads.
"""

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

MOST_ROWS = 40  # of the printed table; JSON and page have all


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
        None, "Fail where a model predicts a log worse than this part of the effort.", above=0
    )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One parameter of another result, by its label, beside that of the first.

    `p` is the chance of a difference this large if there is none, for this parameter alone;
    `p_corrected` that of the largest of all the differences tested together (Holm).
    """

    name: Parameter
    unit: str
    result: str
    first: float
    first_std: float
    value: float
    std: float
    p: float
    p_corrected: float = 1.0
    differs: bool = False

    @property
    def change(self) -> float:
        """Difference over the first value, or over twice its sigma where that is larger: it may as
        well be zero. [1]
        """
        size = max(abs(self.first), 2 * self.first_std)
        return abs(self.value - self.first) / size if size else np.inf

    @property
    def sigmas(self) -> float:
        """Difference over its standard deviation. [1]"""
        spread = float(np.hypot(self.std, self.first_std))
        return (self.value - self.first) / spread if spread else np.inf


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Record):
    """Results beside the first of them."""

    labels: tuple[str, ...]
    differences: tuple[Difference, ...]  # those least likely by chance first
    together: Mapping[
        str, float | None
    ]  # chance of all of a result; None with too few degrees of freedom to tell
    errors: Mapping[str, Mapping[str, float]]  # of prediction, worst row, by label and log [1]
    failures: tuple[str, ...]  # what is beyond the thresholds, in words
    notices: tuple[Notice, ...]  # in their order
    level: float

    def table(self) -> Columns:
        """Return the differences by parameter."""
        names = (
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
        return {name: [getattr(d, name) for d in self.differences] for name in names}

    @property
    def passed(self) -> bool:
        """Nothing is beyond the thresholds."""
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
            "errors": {label: dict(found) for label, found in self.errors.items()},
        }

    def summary(self) -> str:
        """Return the comparison as plain text, the answer first."""
        named = [d for d in self.differences if d.differs]
        answer = (
            f"{len(named)} of {len(self.differences)} parameters differ beyond chance"
            if named
            else f"no parameter differs beyond chance ({len(self.differences)} compared)"
        )
        lines = [f"{answer}: {' / '.join(self.labels)}", ""]
        lines.append(
            text_table(
                [
                    "parameter",
                    "result",
                    self.labels[0],
                    "sigma",
                    "other",
                    "sigma",
                    "change",
                    "sigmas",
                    "p, all",
                    "unit",
                ],
                [
                    [
                        d.name,
                        d.result,
                        *rounded(d.first, d.first_std),
                        *rounded(d.value, d.std),
                        f"{100 * d.change:.1f} %",
                        f"{d.sigmas:+.1f}",
                        f"{d.p_corrected:.2g}{' *' if d.differs else ''}",
                        d.unit,
                    ]
                    for d in self.differences[:MOST_ROWS]
                ],
            )
        )
        if len(self.differences) > MOST_ROWS:
            lines.append(f"and {len(self.differences) - MOST_ROWS} more that differ less")
        lines += [
            "",
            *(
                f"{label}, all parameters together: "
                + ("too few degrees of freedom to tell" if p is None else f"p = {p:.2g}")
                for label, p in self.together.items()
            ),
        ]
        if any(self.errors.values()):
            logs = list(next(iter(self.errors.values())))
            lines += [
                "",
                "Prediction error on the worst row",
                text_table(
                    ["result", *logs],
                    [
                        [label, *(f"{100 * found[log]:.1f} %" for log in logs)]
                        for label, found in self.errors.items()
                    ],
                ),
            ]
        lines += ["", *notice_lines(self.notices)] if self.notices else []
        return "\n".join([*lines, *(f"failed: {words}" for words in self.failures)])


@with_settings(CompareSettings)
def compare(
    results: Sequence[tuple[Model, Identification]],
    recordings: Sequence[Recording] = (),
    settings: CompareSettings | None = None,
    *,
    labels: Sequence[str] | None = None,
    **options: Any,
) -> Comparison:
    """Tell which parameters of results differ, and how each model predicts each log.

    Every result is compared with the first. For a parameter that both have, with the same
    regrouping,

        t = (b - a) / sqrt(s_a^2 + s_b^2)

    is Student's with the degrees of freedom of Welch and Satterthwaite. Holm's correction holds the
    chance that any is named at `level` when none differs, whatever their correlation. All
    differences d of a result together are Hotelling's d^T (C_a + C_b)^-1 d.

    Args:
        results: Robot and identification of each, of robots with the same structure.
        recordings: Logs that each model is to predict, processed as its own were.
        labels: Of the results; their numbers by default.
    """
    settings = merge_settings(CompareSettings, settings, options)
    words = (
        tuple(labels)
        if labels is not None
        else tuple(f"result {k + 1}" for k in range(len(results)))
    )
    if len(results) < 2 or len(set(words)) != len(results):
        raise InvalidInput(
            f"{len(results)} results with labels {', '.join(words)}: expected two or more, each "
            f"with a "
            "label of its own"
        )
    _, first = results[0]
    differences, together = list[Difference](), {}
    notices = []
    for label, (_, result) in zip(words, results):
        if any(n.level != "info" and n.rule != "not validated" for n in result.notices):
            text = f"its own level is {result.level}; differences may come from a fault in its logs"
            notices.append(Notice(rule="level", level="info", where=label, text=text))
    for label, (_, other) in zip(words[1:], results[1:]):
        formulas = [result.base.regrouping() for result in (first, other)]
        common = [
            name
            for name in other.estimate.parameters
            if name in first.estimate.parameters and formulas[0].get(name) == formulas[1].get(name)
        ]
        strange = [name for name in other.estimate.parameters if name not in common]
        if not common:
            raise InvalidInput(
                f"'{words[0]}' ({first.robot}) and '{label}' ({other.robot}) have no parameter in "
                "common; compare results of robots with the same structure"
            )
        if strange:
            text = (
                f"{len(strange)} parameters have no equal in {words[0]} and are not compared: "
                f"{join_names(strange)}"
            )
            notices.append(Notice(rule="not compared", level="info", where=label, text=text))
        shared = set(first.logs.get("identification", ())) & set(
            other.logs.get("identification", ())
        )
        if shared:
            text = (
                f"the log {min(shared)} is behind both results; the test takes them as independent"
            )
            notices.append(Notice(rule="same log", level="info", where=label, text=text))
        a, b = (result.estimate.select(common) for result in (first, other))
        together[label] = _together(a, b)
        chances = _chances(a, b)
        differences += [
            Difference(
                name=name,
                unit=a.units[k],
                result=label,
                first=float(a.values[k]),
                first_std=float(a.std[k]),
                value=float(b.values[k]),
                std=float(b.std[k]),
                p=float(chances[k]),
            )
            for k, name in enumerate(common)
        ]
    corrected = holm(np.array([d.p for d in differences])).tolist()
    differences = [
        replace(d, p_corrected=p, differs=p < settings.level)
        for d, p in zip(differences, corrected)
    ]
    errors = {
        label: {
            log.source: float(validate_result(model, result, [log]).relative.max())
            for log in recordings
        }
        for label, (model, result) in zip(words, results)
    }
    return Comparison(
        labels=words,
        differences=tuple(sorted(differences, key=lambda d: (d.p, -abs(d.sigmas)))),
        together=together,
        errors=errors,
        failures=tuple(_failures(differences, errors, settings)),
        notices=ordered(notices),
        level=settings.level,
    )


def _chances(first: Estimate, other: Estimate) -> FloatArray:
    """Return the chance of each difference this large, (p,); 1 where both are known exactly and
    equal.
    """
    gap, variances = np.abs(other.values - first.values), np.stack([first.std, other.std]) ** 2
    total = variances.sum(axis=0)
    parts = variances / np.where(total > 0, total, 1.0)
    lost = (parts**2 / np.stack([first.degrees_of_freedom, other.degrees_of_freedom])).sum(axis=0)
    freedom = np.divide(1.0, lost, out=np.full(len(lost), np.inf), where=lost > 0)
    tail = 2 * student_tail(gap / np.sqrt(np.where(total > 0, total, 1.0)), freedom)
    return np.where(total > 0, tail, gap <= 1e-12 * np.abs(first.values))


def _together(first: Estimate, other: Estimate) -> float | None:
    """Return the chance of all differences together, or None where the covariances have too few
    degrees of freedom.
    """
    count, freedom = (
        len(first),
        float(min(first.degrees_of_freedom.min(), other.degrees_of_freedom.min())),
    )
    spread = first.covariance + other.covariance
    scale = np.sqrt(np.diag(spread))
    if freedom <= count or not (scale > 0).all():
        return None
    gap = (other.values - first.values) / scale
    square = float(gap @ np.linalg.pinv(spread / np.outer(scale, scale), hermitian=True) @ gap)
    if not np.isfinite(freedom):
        return f_tail(square / count, count, np.inf)
    return f_tail(square * (freedom - count + 1) / (count * freedom), count, freedom - count + 1)


def _failures(
    differences: Sequence[Difference],
    errors: Mapping[str, Mapping[str, float]],
    settings: CompareSettings,
) -> Iterator[str]:
    for d in differences:
        if settings.change is not None and d.differs and d.change > settings.change:
            yield (
                f"{d.name} of {d.result} differs by {100 * d.change:.1f} % (p = "
                f"{d.p_corrected:.2g}), allowed are "
                f"{100 * settings.change:g} %"
            )
    for label, each in errors.items():
        for log, error in each.items():
            if settings.error is not None and not error <= settings.error:
                yield (
                    f"{label} predicts {log} to {100 * error:.1f} %, allowed are "
                    f"{100 * settings.error:g} %"
                )
