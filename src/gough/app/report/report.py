"""Write the identified parameters, the validation and all notices into one HTML page."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gough import __version__
from gough.app.report import figures, tables
from gough.app.report.numbers import number, percent, unit, with_std
from gough.app.report.scene import path_scene, robot_scene
from gough.core.arrays import FloatArray, check_type
from gough.core.display import POORLY_KNOWN_RATIO, SIGNIFICANT_T
from gough.core.errors import InvalidInput
from gough.core.files import write_text
from gough.core.names import words
from gough.engine import Model, Robot, as_model
from gough.fitting.estimate import Enclosure, Estimate
from gough.identification import Identification
from gough.identification.compare import Comparison

# What standard errors were computed from, by `Estimate.uncertainty`.
UNCERTAINTY_SOURCES = {
    "period": "the scatter of repetitions",
    "hac": "autocorrelated residuals",
    "white": "white noise",
    "blocks": "a block jackknife",
    "logs": "a jackknife of the logs",
}
# Headline and colour of the prediction, by `Validation.predicts`.
PREDICTION_HEADLINES = {
    "good": "Good prediction",
    "fair": "Fair prediction",
    "poor": "Poor prediction",
    "not tested": "Not validated",
}
LIBRARIES_SHOWN = (
    "numpy",
    "scipy",
    "casadi",
    "llvmlite",
)  # on which numbers may depend
UNBROKEN_NAME = 32  # characters of a name that does not wrap


def write_report(
    model: Robot,
    identification: Identification,
    path: str | os.PathLike[str],
    *,
    date: str | None = None,
) -> None:
    """Write a self-contained HTML report.

    It needs no network and prints as vectors. The same input and date
    give the same bytes. A failure leaves no partial file.

    Args:
        model: The robot, its name or its file.
        identification: The result.
        path: File to write.
        date: Date of the report; today by default.
    """
    write_text(path, render(as_model(model), identification, date=date))


def render(model: Model, identification: Identification, *, date: str | None = None) -> str:
    """Return the report as HTML; see `write_report`."""
    check_type(
        identification,
        Identification,
        "identification",
        "what gough.identify or load_identification returned",
    )
    _check_same_robot(model, identification)
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES_SHOWN)
    return page(
        "report.html",
        **_content(identification.fitted(model), identification),
        date=date or datetime.now().astimezone().date().isoformat(),
        versions=f"Gough {__version__} with Python {platform.python_version()}, {libraries}",
    )


def _check_same_robot(model: Model, identification: Identification) -> None:
    """Raise `InvalidInput` if the result has parameters or coordinates that the model has not."""
    mechanism = model.mechanism
    known = {*mechanism.standard.names, *mechanism.ties}
    of_robot = [name for name in identification.base.standard if name.payload is None]
    same_parameters = known.issuperset(of_robot)
    widths = {fit.q.shape[1] for fit in identification.fits}
    if not same_parameters or not widths <= {len(mechanism.coordinates)}:
        raise InvalidInput(
            f"the result is of '{identification.robot}', the model of '{mechanism.name}'; "
            "give the robot file the result was made with"
        )


def page(template: str, **content: Any) -> str:
    """Return a page from a template of this package, with the style sheet and the script in it."""
    environment = Environment(
        loader=PackageLoader("gough", "app/report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "unit": unit,
        "number": number,
        "dotted": dotted,
        "with_std": with_std,
        "joined": lambda text: text.replace(" %", "\u00a0%"),
        "sentence": lambda text: text[:1].upper() + text[1:],
        "box_title": tables.box_title,
        "file_name": lambda path: Path(path).name,
    }
    folder = resources.files("gough.app.report")
    script = folder.joinpath("report.js").read_text(encoding="utf-8")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        content,
        style=Markup(style),
        script=Markup(script),
        digest=digest,
        version=__version__,
    )


def dotted(name: str) -> Markup:
    """Return a dotted name, its last word strong; a long one may wrap after its dots."""
    *heads, last = words(name)
    dot = Markup(".<wbr>") if len(name) > UNBROKEN_NAME else "."
    html = Markup("")
    for head in heads:
        html += Markup("{}{}").format(head, dot)
    return html + Markup("<b>{}</b>").format(last)


def _content(model: Model, result: Identification) -> dict[str, Any]:
    """Return what the template uses more than once; it asks for other tables and figures itself."""
    estimate = result.estimate
    parameters = tables.parameter_rows(model, result)
    of_robot = [row for row in parameters if row["name"].payload is None]
    answers: dict[str, Estimate | Enclosure] = {
        **result.estimates,
        **result.enclosures,
    }
    settings = {**result.logs, **result.settings, **result.processing.to_dict()}
    scenes = {}
    if result.fits and len(result.fits[0].time):
        scenes = {
            "robot": robot_scene(model, result.fits[0]),
            "paths": path_scene(model, result.fits),
        }
    return {
        "model": model,
        "result": result,
        "verdict": _verdict(result),
        "figures": figures,
        "tables": tables,
        "parameters": [row for row in of_robot if not row["name"].is_gain],
        "payload": [row for row in parameters if row["name"].payload is not None],
        "fits": _fits(model, result),
        "answers": answers,
        "comparison": tables.comparison_table(answers) if len(answers) > 1 else None,
        "uncertainty": UNCERTAINTY_SOURCES.get(estimate.uncertainty, estimate.uncertainty),
        "settings": tables.setting_rows(settings),
        "scenes": scenes,
        "data": {  # for the script of the page
            "scenes": scenes,
            "correlation": {
                "names": list(estimate.parameters),
                "rows": _lower_triangle(estimate.correlation),
            },
        },
    }


def _fits(model: Model, result: Identification) -> list[tuple[Any, list[Markup]]]:
    """Return the logs with their effort charts, held-out ones first."""
    panels = len(result.fits) * len(model.rows)
    shown = [fit for fit in result.fits if len(fit.time)]
    rows = []
    for fit in sorted(shown, key=lambda fit: not fit.held_out):
        rows.append(
            (
                fit,
                figures.effort_charts(fit, model.rows, model.row_units, panels),
            )
        )
    return rows


def _lower_triangle(correlation: FloatArray) -> list[list[int]]:
    """Return correlations in thousandths, the lower triangle row by row."""
    thousandths = np.rint(1000 * correlation).astype(int)
    return [row[: i + 1].tolist() for i, row in enumerate(thousandths)]


def _verdict(result: Identification) -> dict[str, Any]:
    """Return the texts and colours of the two boxes below the headline."""
    validation = result.validation
    estimate = result.estimate
    worst = int(np.argmax(validation.relative))
    good = "good" if result.level == "ok" else "open"  # nothing is green beside a warning
    colours = {"good": good, "fair": "warn", "poor": "bad"}
    return {
        "prediction": PREDICTION_HEADLINES[validation.predicts],
        "prediction_colour": colours.get(validation.predicts, "open"),
        "overall": percent(float(np.sqrt(np.mean(validation.relative**2)))),
        "worst": percent(float(validation.relative[worst])),
        "worst_row": validation.rows[worst],
        "tested": validation.predicts != "not tested",
        "numerics": "Well conditioned" if validation.numerics else "Poorly conditioned",
        "numerics_colour": good if validation.numerics else "bad",
        "condition": number(estimate.condition_number, 3),
        "parameter_warnings": _parameter_warnings(estimate),
    }


def _parameter_warnings(estimate: Estimate) -> list[str]:
    """Return how many parameters are poorly known, may be zero or are hardly distinguishable."""
    is_poor = estimate.relative_std > POORLY_KNOWN_RATIO
    may_be_zero = np.abs(estimate.values) < SIGNIFICANT_T * estimate.std
    n_poor = int((is_poor & ~may_be_zero).sum())
    n_near_zero = int((is_poor & may_be_zero).sum())
    n_pairs = int(np.triu(estimate.hardly_distinguishable).sum())
    total = len(estimate)
    warnings = []
    if n_poor:
        warnings.append(f"{n_poor} of {total} parameters poorly known")
    if n_near_zero:
        warnings.append(f"{n_near_zero} of {total} not significantly different from zero")
    if n_pairs:
        warnings.append(f"{n_pairs} {'pair' if n_pairs == 1 else 'pairs'} hardly distinguishable")
    return warnings


def comparison_page(
    results: Sequence[Identification], comparison: Comparison, *, date: str | None = None
) -> str:
    """Return results beside each other as HTML: differences, a picture of all values, errors.

    Args:
        results: The results, in the order in which they were compared.
        comparison: Their comparison.
        date: Date of the page; today by default.
    """
    first = results[0].estimate
    answers = {label: result.estimate for label, result in zip(comparison.labels, results)}
    drawn = {comparison.labels[0]: first}
    common = list(first.parameters)
    for label, result in zip(comparison.labels[1:], results[1:]):
        drawn[label] = _in_parameters_of(first, label, result, comparison)
        common = [name for name in common if name in drawn[label].parameters]
    return page(
        "comparison.html",
        robot=results[0].robot,
        comparison=comparison,
        answers=answers,
        charts=figures.comparison_charts(first.select(common), drawn),
        logs=list(next(iter(comparison.errors.values()), {})),
        date=date or datetime.now().astimezone().date().isoformat(),
    )


def _in_parameters_of(
    first: Estimate, label: str, result: Identification, comparison: Comparison
) -> Estimate:
    """Return what a result gives for the parameters of the first one, as far as compared."""
    names = []
    values = []
    variances = []
    for difference in comparison.differences:
        if difference.result == label and difference.name in first.parameters:
            names.append(difference.name)
            values.append(difference.value)
            variances.append(difference.std**2 + difference.mismatch**2)
    return replace(
        first.select(names),
        values=np.array(values),
        covariance=np.diag(variances),
        degrees_of_freedom=result.estimate.degrees_of_freedom.min(),
        method=result.estimate.method,
        sources=(),
    )
