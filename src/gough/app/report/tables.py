"""The tables of the report as rows of plain text; the template sets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gough.app.report.numbers import number, percent, unit, with_std
from gough.core.display import POORLY_KNOWN_RATIO, SIGNIFICANT_T, join_names
from gough.core.names import Parameter
from gough.engine import Model
from gough.fitting.estimate import Enclosure, Estimate
from gough.fitting.noise_information import MIN_OBSERVED_RATIO
from gough.fitting.selection import compare
from gough.identification import Identification
from gough.identification.result import VALID_FRACTION
from gough.mechanism.types import Joint

LISTED_CORRELATION = 0.8  # smallest correlation in the list of pairs
LISTED_PAIRS = 12  # most pairs in that list
# of the sum of its terms, below which a prior value is zero
PRIOR_ROUNDING = 1e-12
DIGEST_CHARACTERS = 12  # of a fingerprint of a log
# Figures of data quality without unit; the others say theirs or are
# lengths.
QUALITY_WITHOUT_UNIT = ("decimation", "periods", "samples")


def parameter_rows(model: Model, identification: Identification) -> list[dict[str, Any]]:
    """Return every parameter of the result, drive gains and payload parameters among them.

    The entries are texts: `known` is the relative standard error
    `share`, or |t| for values that may be zero; `prior` is the value of
    the robot file, `notices` say why a value is doubtful and `formula`
    is empty for base parameters that are one standard parameter.
    """
    estimate = identification.estimate
    prior = _prior(model, identification)
    formulas = dict(regroupings(identification))
    rows = []
    for i, name in enumerate(estimate.parameters):
        value = float(estimate.values[i])
        std = float(estimate.std[i])
        share = float(estimate.relative_std[i])
        known = percent(share)
        if abs(value) < SIGNIFICANT_T * std:
            known = f"|t| = {number(abs(value) / std, 2)}"
        information = _information(estimate, i)
        boxes = identification.enclosures.values()
        rows.append(
            {
                "name": name,
                "value": with_std(value, std),
                "share": share,
                "unit": unit(estimate.units[i]),
                "known": known,
                "bounds": tuple(_answer(box, name) for box in boxes),
                "prior": prior.get(name, ""),
                "notices": _parameter_notices(identification, i),
                "formula": formulas.get(name, ""),
                "information": number(information, 2) if np.isfinite(information) else "",
            }
        )
    return rows


def _information(estimate: Estimate, i: int) -> float:
    """Return the signal-to-noise ratio of the column of a parameter; NaN if not known."""
    return np.nan if estimate.information is None else float(estimate.information[i])


def _parameter_notices(identification: Identification, i: int) -> list[str]:
    """Return why the estimate of parameter i, its position in the estimate, is doubtful."""
    estimate = identification.estimate
    name = estimate.parameters[i]
    value = float(estimate.values[i])
    notices = []
    if _information(estimate, i) < MIN_OBSERVED_RATIO:
        notices.append("not observed: position noise alone has the same effect")
    if estimate.relative_std[i] > POORLY_KNOWN_RATIO:
        low, high = estimate.interval()[i]
        may_be_zero = abs(value) < SIGNIFICANT_T * float(estimate.std[i])
        words = "not significantly different from zero" if may_be_zero else "poorly known"
        notices.append(f"{words}, 95\u00a0%: {number(low, 2)} to {number(high, 2)}")
    correlated = np.flatnonzero(estimate.hardly_distinguishable[i])
    others = [estimate.parameters[j] for j in correlated]
    if others:
        notices.append(f"hardly distinguishable from {join_names(others, 3)}")
    for label, box in identification.enclosures.items():
        if name in box.parameters:
            lower, upper = box[name]
            if not lower <= value <= upper:
                notices.append(f"outside the bounds of {label}")
    return notices


def _prior(model: Model, identification: Identification) -> dict[str, str]:
    """Return the base parameters that follow from the robot file; none where it has no values."""
    base = identification.base
    standard = model.values(base.standard)
    values = base.values(standard)
    terms = np.abs(base.matrix) @ np.abs(standard)
    prior: dict[str, str] = {}
    for name, value, term in zip(base.names, values, terms):
        if term > 0:
            is_zero = abs(value) <= PRIOR_ROUNDING * term
            prior[name] = number(0.0 if is_zero else float(value))
    for name in identification.estimate.parameters:
        if name.is_gain:
            gain = model.mechanism.joint(name.owner).gain
            prior[name] = "" if gain is None else number(gain)
    return prior


def box_title(label: str) -> str:
    """Return the heading of an enclosure's bounds."""
    words = label.replace("_", " ")
    return words.capitalize() if words.startswith("bounds") else f"Bounds, {words}"


def certificates(identification: Identification) -> list[tuple[str, str]]:
    """Return the heading of each enclosure and what its guarantee rests on."""
    rows = []
    for label, box in identification.enclosures.items():
        facts = [box.method]
        facts += [f"{name} {fact}" for name, fact in box.guarantee()]
        facts += map(str, box.notices)
        rows.append((box_title(label), "; ".join(facts)))
    return rows


def gain_rows(model: Model, identification: Identification) -> list[dict[str, str]]:
    """Return drive gains: identified ones with their standard error, or those of the robot file."""
    gains = identification.drive_gains
    rows = []
    for name in model.mechanism.actuated:
        if name in gains:
            joint = model.mechanism.joint(name)
            unit_of_gain = identification.gain_units.get(name, f"{joint.effort_unit} per unit")
            rows.append(_gain_row(joint, gains[name], unit(unit_of_gain)))
    return rows


def _gain_row(joint: Joint, estimated: Mapping[str, float], gain_unit: str) -> dict[str, str]:
    gain = estimated["value"]
    error = estimated.get("std")
    value, std = with_std(gain, error or 0.0)
    change = ""
    if joint.gain is not None and error is not None:
        change = percent(gain / joint.gain - 1)
    return {
        "name": joint.name,
        "value": value,
        "std": "as given" if error is None else std,
        "share": percent(error / abs(gain)) if error else "",
        "prior": "" if joint.gain is None else number(joint.gain),
        "change": change,
        "unit": gain_unit,
    }


def strongest_pairs(estimate: Estimate) -> list[dict[str, Any]]:
    """Return the most correlated pairs of parameters, strongest first."""
    magnitude = np.triu(np.abs(estimate.correlation), 1)
    rows = []
    for flat_index in np.argsort(-magnitude, axis=None)[:LISTED_PAIRS]:
        i, j = divmod(int(flat_index), len(estimate))
        if i < j and magnitude[i, j] >= LISTED_CORRELATION:
            rows.append(
                {
                    "names": (estimate.parameters[i], estimate.parameters[j]),
                    "doubtful": bool(estimate.hardly_distinguishable[i, j]),
                    "value": f"{estimate.correlation[i, j]:+.3f}".replace("-", "−"),
                }
            )
    return rows


def quality_table(
    identification: Identification,
) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the logs and, for each figure of data quality, its values."""
    quality = identification.quality
    logs = list(quality)
    rows = []
    if identification.digests:
        digests = [identification.digests.get(log, "–")[:DIGEST_CHARACTERS] for log in logs]
        rows.append(("SHA-256, begins with", digests))
    for name in _quality_figures(quality.values()):
        has_unit = name in QUALITY_WITHOUT_UNIT or "[" in name
        heading = name if has_unit else f"{name} [m or rad]"
        rows.append((heading, [_quality_figure(quality[log].get(name)) for log in logs]))
    return logs, rows


def _quality_figures(quality: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names of all figures; fractions of valid samples are beside the residuals."""
    names: dict[str, None] = {}
    for figures in quality:
        names |= dict.fromkeys(figures)
    return [name for name in names if not name.startswith(VALID_FRACTION)]


def _quality_figure(figure: float | None) -> str:
    if figure is None:
        return "–"
    is_whole = figure == round(figure) and abs(figure) < 1e9
    return f"{figure:.0f}" if is_whole else number(float(figure), 3)


def comparison_table(
    results: Mapping[str, Estimate | Enclosure],
) -> dict[str, Any]:
    """Return all results side by side and where they contradict each other."""
    disagreements: dict[str, list[str]] = {}
    marked = set()
    for pair in compare(results):
        words = f"{pair.first} and {pair.second} disagree, {pair.reason}"
        disagreements.setdefault(pair.parameter, []).append(words)
        marked |= {(pair.parameter, pair.first), (pair.parameter, pair.second)}
    names: dict[str, None] = {}
    for result in results.values():
        names |= dict.fromkeys(result.parameters)
    rows = []
    for name in names:
        cells = []
        for label, result in results.items():
            cells.append(
                {
                    "text": _answer(result, name),
                    "doubtful": (name, label) in marked,
                }
            )
        rows.append({"name": name, "doubtful": name in disagreements, "cells": cells})
    return {
        "methods": {label: result.method for label, result in results.items()},
        "rows": rows,
        "disagreements": [f"{name}: {'; '.join(texts)}" for name, texts in disagreements.items()],
    }


def _answer(estimate: Estimate | Enclosure, name: str) -> str:
    """Return a value with its standard error, or the bounds of an enclosure."""
    if name not in estimate.parameters:
        return "–"
    if isinstance(estimate, Enclosure):
        return " …\u00a0".join(number(bound) for bound in estimate[name])
    i = estimate.parameters.index(name)
    return " ±\u00a0".join(with_std(float(estimate.values[i]), float(estimate.std[i])))


def known_payload(identification: Identification) -> str:
    """Return the known payload parameters from which drive gains were identified, if any."""
    texts = []
    for name, known in identification.known.items():
        parameter = Parameter(name)
        texts.append(f"{parameter.kind} = {number(float(known))} {unit(parameter.unit)}")
    return ", ".join(texts)


def regroupings(identification: Identification) -> list[tuple[str, str]]:
    """Return the base parameters into which others were regrouped, with their formulas."""
    base = identification.base
    formulas = base.regrouping()
    rows = []
    for name, i in zip(base.names, base.independent):
        if name in identification.estimate.parameters and formulas[name] != base.standard[i]:
            rows.append((str(name), formulas[name]))
    return rows


def setting_rows(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return one line for each setting that is not empty."""
    rows = []
    for key, setting in settings.items():
        if setting not in ("", None, {}, (), []):
            rows.append((key.replace("_", " "), _setting(setting)))
    return rows


def _setting(setting: Any) -> str:
    """Return a setting as text."""
    if isinstance(setting, Mapping):
        return ", ".join(f"{name} = {_setting(entry)}" for name, entry in setting.items())
    if isinstance(setting, list | tuple):
        return ", ".join(map(_setting, setting))
    if isinstance(setting, bool):
        return "yes" if setting else "no"
    return f"{setting:.4g}" if isinstance(setting, float) else str(setting)
