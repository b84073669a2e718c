"""The tables of the report as rows of plain text; the template sets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gough.core.names import Parameter
from gough.core.text import NEAR_ZERO, UNSURE
from gough.engine import Model
from gough.estimators.estimate import Enclosure, Estimate
from gough.estimators.noise_information import OBSERVED
from gough.estimators.selection.selection import compare
from gough.identification import Identification
from gough.report.figures import change_bar
from gough.report.numbers import number, percent, unit, with_std

ALIKE = 0.95  # correlation beyond which two parameters are hard to tell apart
ROUNDING = 1e-12  # of its terms, below which a difference is zero
COUNTS = ("decimation", "periods", "samples")  # figures of data quality without unit; others say theirs or are lengths
SHOWN = 12  # digits of a fingerprint
PAIRS = 12  # strongest correlations listed


def parameter_rows(model: Model, identification: Identification) -> list[dict[str, Any]]:
    """Return every parameter of the result, drive gains and payload parameters among them.

    `known` is the relative standard deviation `share` in words, near zero the distance from zero; `prior` what the
    robot file implies, `remarks` why it is doubtful, `formula` what it stands for if that is more than one parameter.
    """
    estimate = identification.estimate
    prior = _prior(model, identification)
    interval = estimate.interval()
    alike: dict[int, list[str]] = {}
    for i, j in zip(*np.nonzero(np.triu(np.abs(estimate.correlation), 1) > ALIKE)):
        alike.setdefault(int(i), []).append(estimate.parameters[j])
        alike.setdefault(int(j), []).append(estimate.parameters[i])
    rows, formulas = [], dict(regroupings(identification))
    for i, name in enumerate(estimate.parameters):
        value, std, share = float(estimate.values[i]), float(estimate.std[i]), float(estimate.relative_std[i])
        zero = abs(value) < NEAR_ZERO * std
        low, high = (number(edge, 2) for edge in interval[i])
        word = "not told from zero" if zero else "poorly known"
        remarks = [f"{word}, 95\u00a0%: {low} to {high}"] if share > UNSURE else []
        known = np.nan if estimate.information is None else float(estimate.information[i])
        if known < OBSERVED:
            remarks.insert(0, "not observed: position noise alone would show as much")
        if i in alike:
            others = " and others" if len(alike[i]) > 3 else ""
            remarks.append(f"hard to tell from {', '.join(alike[i][:3])}{others}")
        remarks += [f"outside the bounds of {label}" for label, box in identification.enclosures.items()
                    if name in box.parameters and not box[name][0] <= value <= box[name][1]]
        texts = with_std(value, std)
        rows.append({"name": name, "value": texts[0], "std": texts[1], "share": share, "unit": unit(estimate.units[i]),
                     "known": f"{number(abs(value) / std, 2)}\u00a0σ from 0" if zero else percent(share),
                     "bounds": tuple(_bounds(box, name) for box in identification.enclosures.values()),
                     "prior": prior.get(name, ""), "remarks": remarks, "formula": formulas.get(name, ""),
                     "information": number(known, 2) if np.isfinite(known) else ""})
    return rows


def _bounds(box: Enclosure, name: str) -> str:
    if name not in box.parameters:
        return "–"
    low, high = box[name]
    return f"{number(low)} …\u00a0{number(high)}"


def _prior(model: Model, identification: Identification) -> dict[str, str]:
    """Return the values of the robot file in the base parameters; nothing where the file says nothing."""
    base, estimate = identification.base, identification.estimate
    standard = model.values(base.standard)
    values, sizes = base.values(standard), np.abs(base.matrix) @ np.abs(standard)
    found: dict[str, str] = {name: number(float(v) if abs(v) > ROUNDING * size else 0.0)
             for name, v, size in zip(base.names, values, sizes) if size > 0}
    for name in estimate.parameters:
        if name.is_gain:
            gain = model.mechanism.joint(name.owner).gain
            found[name] = "" if gain is None else number(gain)
    return found


def box_title(label: str) -> str:
    """Return the heading of an enclosure's bounds."""
    words = label.replace("_", " ")
    return words.capitalize() if words.startswith("bounds") else f"Bounds, {words}"


def certificates(identification: Identification) -> list[tuple[str, str]]:
    """Return what each enclosure's guarantee rests on."""
    found = []
    for label, box in identification.enclosures.items():
        facts = [f"{key.replace('_', ' ')} {_fact(value)}" for key, value in box.certificate.items()
                 if value not in ([], None, "", False) and not isinstance(value, dict)]
        found.append((box_title(label), "; ".join([box.method, *facts, *box.notes])))
    return found


def _fact(value: Any) -> str:
    if isinstance(value, list | tuple):
        different = list(dict.fromkeys(_fact(v) for v in value))
        return ", ".join(different[:6]) + (f" and {len(different) - 6} more" if len(different) > 6 else "")
    if isinstance(value, float):
        return number(value, 3)
    return "yes" if value is True else str(value)


def gain_rows(model: Model, identification: Identification) -> list[dict[str, str]]:
    """Return drive gains: identified ones with their deviation, or those taken from the robot file."""
    gains = {joint: {"value": value} for joint, value in identification.nominal_gains.items()}
    gains |= identification.drive_gains
    rows = []
    for joint in (name for name in model.mechanism.actuated if name in gains):
        figures, nominal = gains[joint], model.mechanism.joint(joint).gain
        value, std = with_std(figures["value"], figures.get("std", 0.0))
        rows.append({
            "name": joint, "value": value, "std": std if "std" in figures else "as given",
            "share": percent(figures["std"] / abs(figures["value"])) if figures.get("std") else "",
            "prior": "" if nominal is None else number(nominal),
            "change": "" if nominal is None or "std" not in figures else percent(figures["value"] / nominal - 1),
            "unit": f"{model.mechanism.joint(joint).effort_unit} per unit of current"})
    return rows


def residual_rows(identification: Identification) -> list[dict[str, Any]]:
    """Return the residual of each row on the identification data and on held-out data."""
    e, v = identification.estimate, identification.validation
    tested = v.predicts != "not tested"
    rows = []
    for j, row in enumerate(e.rows):
        entry: dict[str, Any] = {
            "name": row, "unit": unit(e.row_units[j]), "rms": number(float(e.residual_rms[j]), 3),
            "relative": percent(float(e.residual_relative[j])), "unseen": "", "unseen_relative": "", "white": ""}
        if tested and row in v.rows:
            k = v.rows.index(row)
            entry |= {"unseen": number(float(v.rms[k]), 3), "unseen_relative": percent(float(v.relative[k])),
                      "white": "< 10⁻⁶" if v.whiteness[k] < 1e-6 else number(float(v.whiteness[k]), 2)}
        rows.append(entry)
    return rows


def diagnosis(identification: Identification) -> dict[str, Any]:
    """Return the mistakes that explain the residual and what the logs would show; empty without a diagnosis."""
    found = identification.diagnosis
    if found is None:
        return {}
    mistakes = [{"name": m.name, "text": m.text, "advice": m.advice, "alike": m.alike, "judged_on": m.judged_on,
                 "bar": change_bar(m.before, m.after), "share": percent(m.share), "before": percent(m.before),
                 "after": percent(m.after)} for m in found.mistakes]
    limits = [{"name": x.name, "place": x.place, "unit": unit(x.unit),
               "size": number(x.size, 2) if np.isfinite(x.size) else "cannot be seen"} for x in found.limits]
    return {"mistakes": mistakes, "limits": limits, "notes": list(found.notes)}


def shares(estimate: Estimate) -> dict[str, str]:
    """Return for each row the share of its samples that count; empty if all do."""
    part = estimate.counts / max(estimate.samples, 1)
    return {} if (part == 1).all() else {row: percent(float(share)) for row, share in zip(estimate.rows, part)}


def candidates(identification: Identification) -> dict[str, tuple[list[tuple[float, float]], float | None]]:
    """Return the numbers of the processing that were tried, each with its prediction error, and the one taken.

    By `cutoff` [Hz] and `window` [ms].
    """
    choice = identification.choice
    if choice is None:
        return {}
    window, used = choice.processing.window, choice.processing.cutoff
    return {"cutoff": ([(c.cutoff, c.error) for c in choice.cutoffs if c.cutoff is not None], used),
            "window": ([(1e3 * c.window, c.error) for c in choice.windows], None if window is None else 1e3 * window)}


def strongest_pairs(estimate: Estimate) -> list[dict[str, str]]:
    """Return the most correlated pairs, strongest first, down to 0.8."""
    size = np.triu(np.abs(estimate.correlation), 1)
    order = np.argsort(-size, axis=None)[:PAIRS]
    pairs = [divmod(int(k), len(estimate)) for k in order]
    return [{"first": estimate.parameters[i], "second": estimate.parameters[j],
             "value": f"{estimate.correlation[i, j]:+.3f}".replace("-", "−"),
             "doubtful": "yes" if size[i, j] > ALIKE else ""}
            for i, j in pairs if i < j and size[i, j] >= 0.8]


def quality_table(identification: Identification) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return recordings and, for each figure of data quality, its values."""
    def figure(value: float | None) -> str:
        if value is None:
            return "–"
        return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else number(float(value), 3)

    quality, recordings = identification.quality, list(identification.quality)
    names = dict.fromkeys(name for figures in quality.values() for name in figures
                          if not name.startswith("share of"))  # they stand beside the residuals
    digests = [("SHA-256, begins with", [identification.digests.get(r, "–")[:SHOWN] for r in recordings])]
    figures = [(name if name in COUNTS or "[" in name else f"{name} [m or rad]",
                [figure(quality[r].get(name)) for r in recordings]) for name in names]
    return recordings, [*(digests if identification.digests else []), *figures]


def comparison_table(results: Mapping[str, Estimate | Enclosure]) -> dict[str, Any]:
    """Return all answers side by side and where they contradict each other."""
    found = compare(results)
    marked = {(d.parameter, label) for d in found for label in (d.first, d.second)}
    rows = [{"name": name, "doubtful": any(d.parameter == name for d in found),
             "cells": [{"text": _answer(result, name), "doubtful": (name, label) in marked}
                       for label, result in results.items()]}
            for name in dict.fromkeys(name for result in results.values() for name in result.parameters)]
    return {"labels": [{"name": label, "method": result.method} for label, result in results.items()], "rows": rows,
            "disagreements": [
                f"{name}: " + "; ".join(f"{d.first} and {d.second} disagree, {d.reason}"
                                        for d in found if d.parameter == name)
                for name in dict.fromkeys(d.parameter for d in found)]}


def _answer(result: Estimate | Enclosure, name: str) -> str:
    if name not in result.parameters:
        return "–"
    if isinstance(result, Enclosure):
        return _bounds(result, name)
    i = result.parameters.index(name)
    return " ±\u00a0".join(with_std(float(result.values[i]), float(result.std[i])))


def known_payload(identification: Identification) -> str:
    """Return what was known of the payload, from which drive gains were found; empty if there was none."""
    known = {Parameter(name): value for name, value in identification.known.items()}
    return ", ".join(f"{p.kind} = {number(float(v))} {unit(p.unit)}" for p, v in known.items())


def regroupings(identification: Identification) -> list[tuple[str, str]]:
    """Return the base parameters that stand for more than one standard parameter, with their formulas."""
    base, kept = identification.base, identification.estimate.parameters
    heads: dict[str, str] = {name: base.standard[i] for name, i in zip(base.names, base.independent)}
    return [(name, formula) for name, formula in base.regrouping().items()
            if name in kept and formula != heads[name]]


def setting_rows(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return how the result was made, one line for each setting that says something."""
    def said(value: Any) -> str:
        if isinstance(value, Mapping):
            return ", ".join(f"{k} = {said(v)}" for k, v in value.items())
        if isinstance(value, list | tuple):
            return ", ".join(map(said, value))
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return [(key.replace("_", " "), said(value)) for key, value in settings.items()
            if value not in ("", None, {}, (), [])]
