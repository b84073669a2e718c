"""The tables of the report as rows of plain text; the template sets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gough.app.report.numbers import number, percent, unit, with_std
from gough.core.display import POORLY_KNOWN_RATIO, SIGNIFICANT_T, join_names
from gough.core.names import Parameter
from gough.engine import Model
from gough.fitting.estimate import Enclosure, Estimate
from gough.fitting.noise_information import OBSERVED
from gough.fitting.selection import compare
from gough.identification import Identification

ALIKE = 0.95  # correlation beyond which two parameters are hard to tell apart
ROUNDING = 1e-12  # of its terms, below which a difference is zero
COUNTS = (
    "decimation",
    "periods",
    "samples",
)  # figures of data quality without unit; others say theirs or are lengths
SHOWN = 12  # digits of a fingerprint
PAIRS = 12  # strongest correlations listed


def parameter_rows(model: Model, identification: Identification) -> list[dict[str, Any]]:
    """Return every parameter of the result, drive gains and payload parameters among them.

    `known` is the relative standard deviation `share` in words, near zero the distance from zero;
    `prior` what the robot file implies, `notices` why it is doubtful, `formula` what it stands for
    if that is more than one parameter.
    """
    estimate, boxes = identification.estimate, identification.enclosures
    prior, interval = _prior(model, identification), estimate.interval()
    close = np.abs(estimate.correlation) > ALIKE
    rows, formulas = [], dict(regroupings(identification))
    for i, name in enumerate(estimate.parameters):
        value, std, share = (
            float(estimate.values[i]),
            float(estimate.std[i]),
            float(estimate.relative_std[i]),
        )
        zero = abs(value) < SIGNIFICANT_T * std
        low, high = (number(edge, 2) for edge in interval[i])
        word = "not significantly different from zero" if zero else "poorly known"
        notices = [f"{word}, 95\u00a0%: {low} to {high}"] if share > POORLY_KNOWN_RATIO else []
        known = np.nan if estimate.information is None else float(estimate.information[i])
        if known < OBSERVED:
            notices.insert(0, "not observed: position noise alone would show as much")
        alike = [estimate.parameters[j] for j in np.flatnonzero(close[i]) if j != i]
        if alike:
            notices.append(f"hardly distinguishable from {join_names(alike, 3)}")
        notices += [
            f"outside the bounds of {label}"
            for label, box in boxes.items()
            if name in box.parameters and not box[name][0] <= value <= box[name][1]
        ]
        rows.append(
            {
                "name": name,
                "value": with_std(value, std),
                "share": share,
                "unit": unit(estimate.units[i]),
                "known": f"{number(abs(value) / std, 2)}\u00a0σ from 0" if zero else percent(share),
                "bounds": tuple(_answer(box, name) for box in boxes.values()),
                "prior": prior.get(name, ""),
                "notices": notices,
                "formula": formulas.get(name, ""),
                "information": number(known, 2) if np.isfinite(known) else "",
            }
        )
    return rows


def _prior(model: Model, identification: Identification) -> dict[str, str]:
    """Return the values of the robot file in the base parameters; nothing where the file says
    nothing.
    """
    base, estimate = identification.base, identification.estimate
    standard = model.values(base.standard)
    values, sizes = base.values(standard), np.abs(base.matrix) @ np.abs(standard)
    found: dict[str, str] = {
        name: number(float(v) if abs(v) > ROUNDING * size else 0.0)
        for name, v, size in zip(base.names, values, sizes)
        if size > 0
    }
    gains = {
        name: model.mechanism.joint(name.owner).gain for name in estimate.parameters if name.is_gain
    }
    return found | {name: "" if gain is None else number(gain) for name, gain in gains.items()}


def box_title(label: str) -> str:
    """Return the heading of an enclosure's bounds."""
    words = label.replace("_", " ")
    return words.capitalize() if words.startswith("bounds") else f"Bounds, {words}"


def certificates(identification: Identification) -> list[tuple[str, str]]:
    """Return what each enclosure's guarantee rests on."""

    def fact(value: Any) -> str:
        if isinstance(value, list | tuple):
            return join_names(list(dict.fromkeys(map(fact, value))), 6)
        if isinstance(value, float):
            return number(value, 3)
        return "yes" if value is True else str(value)

    found = []
    for label, box in identification.enclosures.items():
        facts = [
            f"{key.replace('_', ' ')} {fact(value)}"
            for key, value in box.certificate.items()
            if value not in ([], None, "", False) and not isinstance(value, dict)
        ]
        found.append((box_title(label), "; ".join([box.method, *facts, *map(str, box.notices)])))
    return found


def gain_rows(model: Model, identification: Identification) -> list[dict[str, str]]:
    """Return drive gains: identified ones with their deviation, or those taken from the robot
    file.
    """
    gains = {joint: {"value": value} for joint, value in identification.nominal_gains.items()}
    gains |= identification.drive_gains
    rows = []
    for joint in (
        model.mechanism.joint(name) for name in model.mechanism.actuated if name in gains
    ):
        own, deviation = gains[joint.name]["value"], gains[joint.name].get("std")
        value, std = with_std(own, deviation or 0.0)
        rows.append(
            {
                "name": joint.name,
                "value": value,
                "std": "as given" if deviation is None else std,
                "share": percent(deviation / abs(own)) if deviation else "",
                "prior": "" if joint.gain is None else number(joint.gain),
                "change": ""
                if joint.gain is None or deviation is None
                else percent(own / joint.gain - 1),
                "unit": f"{joint.effort_unit} per unit of current",
            }
        )
    return rows


def strongest_pairs(estimate: Estimate) -> list[dict[str, Any]]:
    """Return the most correlated pairs, strongest first, down to 0.8."""
    size = np.triu(np.abs(estimate.correlation), 1)
    pairs = [divmod(int(k), len(estimate)) for k in np.argsort(-size, axis=None)[:PAIRS]]
    return [
        {
            "names": (estimate.parameters[i], estimate.parameters[j]),
            "doubtful": size[i, j] > ALIKE,
            "value": f"{estimate.correlation[i, j]:+.3f}".replace("-", "−"),
        }
        for i, j in pairs
        if i < j and size[i, j] >= 0.8
    ]


def quality_table(identification: Identification) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return recordings and, for each figure of data quality, its values."""

    def figure(value: float | None) -> str:
        if value is None:
            return "–"
        return (
            f"{value:.0f}"
            if value == round(value) and abs(value) < 1e9
            else number(float(value), 3)
        )

    quality, recordings = identification.quality, list(identification.quality)
    names = dict.fromkeys(
        name for figures in quality.values() for name in figures if not name.startswith("share of")
    )  # they stand beside the residuals
    digests = [
        ("SHA-256, begins with", [identification.digests.get(r, "–")[:SHOWN] for r in recordings])
    ]
    figures = [
        (
            name if name in COUNTS or "[" in name else f"{name} [m or rad]",
            [figure(quality[r].get(name)) for r in recordings],
        )
        for name in names
    ]
    return recordings, [*(digests if identification.digests else []), *figures]


def comparison_table(results: Mapping[str, Estimate | Enclosure]) -> dict[str, Any]:
    """Return all answers side by side and where they contradict each other."""
    found = compare(results)
    doubtful = dict.fromkeys(d.parameter for d in found)
    marked = {(d.parameter, label) for d in found for label in (d.first, d.second)}
    rows = [
        {
            "name": name,
            "doubtful": name in doubtful,
            "cells": [
                {"text": _answer(result, name), "doubtful": (name, label) in marked}
                for label, result in results.items()
            ],
        }
        for name in dict.fromkeys(name for result in results.values() for name in result.parameters)
    ]
    return {
        "methods": {label: result.method for label, result in results.items()},
        "rows": rows,
        "disagreements": [
            f"{name}: "
            + "; ".join(
                f"{d.first} and {d.second} disagree, {d.reason}"
                for d in found
                if d.parameter == name
            )
            for name in doubtful
        ],
    }


def _answer(result: Estimate | Enclosure, name: str) -> str:
    if name not in result.parameters:
        return "–"
    if isinstance(result, Enclosure):
        return " …\u00a0".join(number(edge) for edge in result[name])
    i = result.parameters.index(name)
    return " ±\u00a0".join(with_std(float(result.values[i]), float(result.std[i])))


def known_payload(identification: Identification) -> str:
    """Return what was known of the payload, from which drive gains were found; empty if there was
    none.
    """
    known = {Parameter(name): value for name, value in identification.known.items()}
    return ", ".join(f"{p.kind} = {number(float(v))} {unit(p.unit)}" for p, v in known.items())


def regroupings(identification: Identification) -> list[tuple[str, str]]:
    """Return the base parameters that stand for more than one standard parameter, with their
    formulas.
    """
    base, kept = identification.base, identification.estimate.parameters
    heads: dict[str, str] = {
        name: base.standard[i] for name, i in zip(base.names, base.independent)
    }
    return [
        (name, formula)
        for name, formula in base.regrouping().items()
        if name in kept and formula != heads[name]
    ]


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

    return [
        (key.replace("_", " "), said(value))
        for key, value in settings.items()
        if value not in ("", None, {}, (), [])
    ]
