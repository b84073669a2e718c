"""Write what was identified, how well it predicts and what deserves doubt into one page."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Sequence
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
from gough.core.display import POORLY_KNOWN_RATIO, check_type
from gough.core.errors import InvalidInput
from gough.core.files import write_text
from gough.core.names import words
from gough.engine import Model, Robot, as_model
from gough.fitting.estimate import Enclosure, Estimate
from gough.identification import Identification
from gough.identification.compare import Comparison

SPREAD = {
    "period": "the scatter of repetitions",
    "hac": "autocorrelated residuals",
    "white": "white noise",
    "stretches": "leaving stretches out",
    "recordings": "leaving logs out",
}
MADE_WITH = ("numpy", "scipy", "casadi", "llvmlite")  # what numbers may depend on
LONG = 32  # characters of a name that does not wrap


def write_report(
    model: Robot,
    identification: Identification,
    path: str | os.PathLike[str],
    *,
    date: str | None = None,
) -> None:
    """Write a self-contained HTML report: no network, vectors in print; the same input and date
    give the same bytes.

    Args:
        path: File to write, whole or not at all.
        date: What it says it was written on; today by default.
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
    known = {*model.mechanism.standard.names, *model.mechanism.ties}
    strange = [
        name for name in identification.base.standard if name not in known and name.payload is None
    ]
    if strange or any(
        fit.q.shape[1] != len(model.mechanism.coordinates) for fit in identification.fits
    ):
        raise InvalidInput(
            f"the result is of '{identification.robot}', the model of '{model.mechanism.name}'; "
            f"give "
            "the robot file the result was made with"
        )
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in MADE_WITH)
    return page(
        "report.html",
        **_content(identification.fitted(model), identification),
        date=date or datetime.now().astimezone().date().isoformat(),
        versions=f"Gough {__version__} with Python {platform.python_version()}, {libraries}",
    )


def page(template: str, **content: Any) -> str:
    """Return a page of the room's templates, with the style and the script in it."""
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
        "box_title": tables.box_title,
        "file_name": lambda path: Path(path).name,
    }
    script, style = (
        resources.files("gough.app.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("report.js", "report.css")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        content, style=Markup(style), script=Markup(script), digest=digest, version=__version__
    )


def dotted(name: str) -> Markup:
    """Return a dotted name, its last word strong; a long one may wrap after its dots."""
    *heads, last = words(name)
    dot = Markup(".<wbr>") if len(name) > LONG else "."
    return Markup("").join(Markup("{}{}").format(head, dot) for head in heads) + Markup(
        "<b>{}</b>"
    ).format(last)


def _content(model: Model, result: Identification) -> dict[str, Any]:
    """Return what the template needs more than once; tables and figures it asks for where they
    stand.
    """
    estimate, fits = result.estimate, result.fits
    parameters = tables.parameter_rows(model, result)
    answers: dict[str, Estimate | Enclosure] = {**result.estimates, **result.enclosures}
    scenes = {}
    if fits and len(fits[0].time):
        scenes = {"robot": robot_scene(model, fits[0]), "paths": path_scene(model, fits)}
    shown = sorted(
        (fit for fit in fits if len(fit.time)), key=lambda fit: not fit.held_out
    )  # first, for the verdict
    return {
        "model": model,
        "result": result,
        "verdict": _verdict(result),
        "figures": figures,
        "tables": tables,
        "parameters": [
            row for row in parameters if row["name"].payload is None and not row["name"].is_gain
        ],
        "payload": [row for row in parameters if row["name"].payload is not None],
        "fits": [
            (
                fit,
                figures.effort_charts(
                    fit, model.rows, model.row_units, len(fits) * len(model.rows)
                ),
            )
            for fit in shown
        ],
        "answers": answers,
        "comparison": tables.comparison_table(answers) if len(answers) > 1 else None,
        "spread": SPREAD.get(estimate.uncertainty, estimate.uncertainty),
        "settings": tables.setting_rows(
            {**result.logs, **result.settings, **result.processing.to_dict()}
        ),
        # for the pointer: correlations in thousandths, lower triangle row by row
        "scenes": scenes,
        "data": {
            "scenes": scenes,
            "correlation": {
                "names": list(estimate.parameters),
                "rows": [
                    np.rint(1000 * row[: i + 1]).astype(int).tolist()
                    for i, row in enumerate(estimate.correlation)
                ],
            },
        },
    }


def _verdict(result: Identification) -> dict[str, Any]:
    v, e = result.validation, result.estimate
    fine = "good" if result.level == "ok" else "open"  # nothing is green beside a warning
    worst = int(np.argmax(v.relative))
    return {
        "prediction": {
            "good": "Good prediction",
            "fair": "Fair prediction",
            "poor": "Poor prediction",
        }.get(v.predicts, "Not validated"),
        "prediction_colour": {"good": fine, "fair": "warn", "poor": "bad"}.get(v.predicts, "open"),
        "overall": percent(float(np.sqrt(np.mean(v.relative**2)))),
        "worst": percent(float(v.relative[worst])),
        "worst_row": v.rows[worst],
        "tested": v.predicts != "not tested",
        "numerics": "Well conditioned" if v.numerics else "Poorly conditioned",
        "numerics_colour": fine if v.numerics else "bad",
        "condition": number(e.condition_number, 3),
        "poor": int((e.relative_std > POORLY_KNOWN_RATIO).sum()),
        "pairs": int((np.triu(np.abs(e.correlation), 1) > tables.ALIKE).sum()),
    }


def comparison_page(results: Sequence[Identification], comparison: Comparison) -> str:
    """Return results beside each other as HTML: what differs, all values in a picture, who predicts
    what.
    """
    first, labels = results[0].estimate, comparison.labels
    common = {d.name for d in comparison.differences}
    answers = {label: result.estimate for label, result in zip(labels, results)}
    return page(
        "comparison.html",
        robot=results[0].robot,
        comparison=comparison,
        answers=answers,
        charts=figures.comparison_charts(
            first.select([n for n in first.parameters if n in common]), answers
        ),
        logs=list(next(iter(comparison.errors.values()), {})),
    )
