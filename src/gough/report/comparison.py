"""Write a comparison of results into one page."""

from __future__ import annotations

from collections.abc import Sequence

from gough.identification import Identification
from gough.identification.compare import Comparison
from gough.report import figures
from gough.report.numbers import number, with_std
from gough.report.report import page


def comparison_page(results: Sequence[Identification], comparison: Comparison) -> str:
    """Return results beside each other as HTML: what differs, all values in a picture, who predicts what."""
    first, labels = results[0].estimate, comparison.labels
    common = {d.name for d in comparison.differences}
    answers = {label: result.estimate for label, result in zip(labels, results)}
    rows = [{"name": d.name, "result": d.result, "first": with_std(d.first, d.first_std),
             "other": with_std(d.value, d.std), "change": d.change, "sigmas": number(d.sigmas, 2),
             "p": number(d.p_corrected, 2), "unit": d.unit, "differs": d.differs} for d in comparison.differences]
    return page(
        "comparison.html", robot=results[0].robot, comparison=comparison, rows=rows, labels=labels,
        methods=[result.estimate.method for result in results], notes=comparison.notes,
        charts=figures.comparison_charts(first.select([n for n in first.parameters if n in common]), answers),
        together=[(label, None if p is None else number(p, 2)) for label, p in comparison.together.items()],
        logs=list(next(iter(comparison.errors.values()), {})))
