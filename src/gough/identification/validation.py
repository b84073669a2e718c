"""Does the model predict recordings it has not seen?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import POORLY_KNOWN_RATIO, text_table
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.notices import Level, Notice, notice_lines, ordered
from gough.core.record import Columns, Record
from gough.core.statistics import ljung_box
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.experiment import (
    Experiment,
    build_experiment,
    matched_logs,
    prepare_with_settings,
    process_with,
)
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.processing.choice import CUTOFF_RATIO

if TYPE_CHECKING:
    from gough.identification.result import Identification

GOOD_ERROR, FAIR_ERROR = (
    0.10,
    0.25,
)  # relative prediction error of the worst row that counts as good and as fair
# times the error on the identification data: a held-out error beyond does not come from noise of a
# fit
HELD_OUT_ERROR_RATIO = 1.5
VISIBLE_FRACTION = (
    0.01  # of the effort: what an error or a mistake has to be to matter to a prediction
)
WEAK_CONDITION = 1e4  # condition number beyond which digits are in doubt


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation(Record):
    """Prediction of recordings not used for identification, by row, (r,)."""

    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    rms: FloatArray  # of the prediction error [row unit]
    relative: FloatArray  # to the rms effort of the equations that count
    # p-value of the Ljung-Box test that the residual is white; small means structure is left
    whiteness: FloatArray
    numerics: bool  # the estimate is numerically sound
    predicts: str  # held-out data: 'good', 'fair', 'poor', or 'not tested' without any
    notices: tuple[Notice, ...]  # about the prediction, in their order
    source: str  # which recordings
    relative_all: FloatArray  # to the effort of all equations, near reversals too
    share: FloatArray  # of each row that counts
    n_logs: int = 0  # held-out logs

    @property
    def headline(self) -> str:
        """How well held-out logs are predicted, and the conditioning, in one sentence."""
        conditioning = "well conditioned" if self.numerics else "poorly conditioned"
        if self.predicts == "not tested":
            return f"not validated ({conditioning}; no held-out log was given)"
        worst = int(np.argmax(self.relative))
        overall = float(np.sqrt(np.mean(self.relative**2)))
        logs = "logs" if self.n_logs > 1 else "log"
        named = f" {self.source}" if self.source else ""
        sentence = (
            f"predicts the held-out {logs}{named} to {100 * overall:.1f} % of the "
            f"{_effort_word(self.row_units)} (worst joint {self.rows[worst]}, "
            f"{100 * self.relative[worst]:.1f} %)"
        )
        return sentence if self.numerics else f"{sentence}; {conditioning}"

    def table(self) -> Columns:
        """Return the prediction error by row."""
        return {
            "row": self.rows,
            "rms": self.rms,
            "relative": self.relative,
            "relative_all": self.relative_all,
            "share": self.share,
            "whiteness": self.whiteness,
            "unit": self.row_units,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        lines = [dict(zip(self.table(), line)) for line in zip(*self.table().values())]
        rows = {
            line.pop("row"): {
                name: None if value != value else value if name == "unit" else float(value)
                for name, value in line.items()
            }
            for line in lines
        }
        return {
            "rows": rows,
            "numerics": self.numerics,
            "predicts": self.predicts,
            "notices": [notice.to_dict() for notice in self.notices],
            "headline": self.headline,
            "source": self.source,
        }

    def summary(self, *, notices: bool = True) -> str:
        """Return the validation as plain text, with its notices if wanted."""
        lines = [
            [
                row,
                f"{rms:.4g}",
                f"{100 * relative:.2f} %",
                f"{100 * every:.2f} %",
                f"{100 * share:.0f} %",
                f"{white:.2g}",
                unit,
            ]
            for row, rms, relative, every, share, white, unit in zip(*self.table().values())
        ]
        table = text_table(
            ["row", "rms error", "of effort", "of all samples", "counts", "white?", "unit"], lines
        )
        lines_of_notices = notice_lines(self.notices) if notices else []
        return "\n".join(
            [self.headline, "", table, *([""] if lines_of_notices else []), *lines_of_notices]
        )


def _effort_word(units: Sequence[str]) -> str:
    """Return what efforts of these units are called."""
    if set(units) == {"N m"}:
        return "torque"
    if set(units) == {"N"}:
        return "force"
    return "force or torque"


def is_well_conditioned(estimate: Estimate) -> bool:
    """Tell whether the digits suffice: a small condition number, or a large one that shows in the
    sigmas.

    sqrt((R^-1)_jj), R the correlation of the estimate, is how many times the others raise the sigma
    of parameter j; the largest is at least the condition number over p. Beyond 1e4 a parameter
    rests on one part in 1e4 of the effort: nothing to trust, unless its sigma of over 30 % says
    that nothing is known of it.
    """
    found = estimate.condition_number
    if found < WEAK_CONDITION or not np.isfinite(found):
        return bool(found < WEAK_CONDITION)
    power, axes = np.linalg.eigh(estimate.correlation)
    raised = np.sqrt((axes**2 / np.maximum(power, np.finfo(float).eps)).sum(axis=1))
    weak = raised >= min(found / len(estimate), WEAK_CONDITION)
    return bool(weak.any() and (estimate.relative_std[weak] > POORLY_KNOWN_RATIO).all())


def noise_variance(part: Regression) -> FloatArray:
    """Return the known noise variance of each row, zero if unknown, (r,). [row unit squared]"""
    if part.covariance is None:
        return np.zeros(len(part.rows))
    diagonal = np.diagonal(part.covariance, axis1=-2, axis2=-1)
    return np.asarray(diagonal if diagonal.ndim == 1 else diagonal.mean(axis=0))


def validate(
    estimate: Estimate, held_out: Sequence[Regression] = (), *, source: str = ""
) -> Validation:
    """Judge an estimate: numerics from itself, prediction from recordings it has not seen.

    Args:
        held_out: Regressions of other recordings, with the estimate's parameters among theirs.
        source: Their names, for the report.
    """
    numerics = is_well_conditioned(estimate)
    if not held_out:
        some, own = np.ones(len(estimate.rows)), estimate.residual_relative
        return Validation(
            rows=estimate.rows,
            row_units=estimate.row_units,
            rms=estimate.residual_rms,
            relative=own,
            relative_all=own,
            share=some,
            whiteness=np.nan * some,
            numerics=numerics,
            predicts="not tested",
            notices=(),
            source="identification data",
        )
    rows = held_out[0].rows
    if any(part.rows != rows for part in held_out):
        raise InvalidInput("the held-out recordings are of different robots: their rows differ")
    if not all(len(part) for part in held_out):
        raise InvalidInput(
            "a held-out recording has no samples left to judge by; is the window about reversals "
            "too "
            "wide?"
        )
    each = [part.effort - estimate.predict(part) for part in held_out]
    left, effort = np.concatenate(each), np.concatenate([part.effort for part in held_out])
    counts = np.concatenate([part.valid for part in held_out])
    rms, size = (
        np.sqrt((counts * x**2).sum(axis=0) / np.maximum(counts.sum(axis=0), 1))
        for x in (left, effort)
    )
    relative = rms / np.maximum(size, 1e-300)
    every = np.sqrt((left**2).sum(axis=0) / np.maximum((effort**2).sum(axis=0), 1e-300))
    white = np.min([ljung_box(own, part.mask) for own, part in zip(each, held_out)], axis=0)
    # Held-out data averaged over fewer periods are noisier: what their noise explains is not held
    # against them.
    noise = np.mean([noise_variance(part) for part in held_out], axis=0)
    worst = relative.max()
    notices = [
        higher_error_notice(row, ratio, "info")
        for row, ratio in rows_with_higher_error(estimate, rows, rms, relative, noise).items()
    ]
    return Validation(
        rows=rows,
        row_units=held_out[0].row_units,
        rms=rms,
        relative=relative,
        whiteness=white,
        numerics=numerics,
        predicts="good" if worst < GOOD_ERROR else "fair" if worst < FAIR_ERROR else "poor",
        n_logs=len(held_out),
        notices=ordered(notices),
        source=source,
        relative_all=every,
        share=counts.mean(axis=0),
    )


def higher_error_notice(joint: str, ratio: float, level: Level) -> Notice:
    """Return the notice on a held-out error that exceeds the error on the identification data."""
    return Notice(
        rule="held-out error",
        level=level,
        where=joint,
        text=f"the held-out error is {ratio:.1f} times that on the identification data",
        advice="the model is overfitted, or the machine has changed",
        numbers={"ratio": ratio},
    )


def rows_with_higher_error(
    estimate: Estimate,
    rows: Sequence[str],
    rms: FloatArray,
    relative: FloatArray,
    noise: FloatArray,
) -> dict[str, float]:
    """Return the ratio of held-out to fit error of the rows where it is too high, by row.

    A row that is predicted to 1 % is not held against model or machine: there a fit of few samples,
    another band or reversals between two samples make such ratios.
    """
    own = dict(zip(estimate.rows, estimate.residual_rms))
    return {
        row: float(error / own[row])
        for row, error, part, known in zip(rows, rms, relative, noise)
        if row in own
        and part >= VISIBLE_FRACTION
        and error**2 - known > (HELD_OUT_ERROR_RATIO * own[row]) ** 2
    }


def validate_on(unseen: Experiment, estimate: Estimate, own: Processing) -> Validation:
    """Judge an estimate on logs made ready; says so if their cut-off is well above that of those
    identified from.

    Less than an octave, the step of the search, may be a matter of noise.
    """
    found = validate(
        estimate, unseen.regressions, source=", ".join(log.source for log in unseen.recordings)
    )
    used = unseen.processing.cutoff
    if used is None or own.cutoff is None or used < CUTOFF_RATIO * own.cutoff:
        return found
    notice = Notice(
        rule="cut-off",
        level="info",
        text=f"the held-out logs move faster than the cut-off of the identification logs, "
        f"{own.cutoff:.3g} Hz, passes: they are predicted with {used:.3g} Hz",
        numbers={"cutoff": used},
    )
    return replace(found, notices=ordered((*found.notices, notice)))


def validate_result(
    model: Model, result: Identification, recordings: Sequence[Recording]
) -> Validation:
    """Validate an identification on held-out logs, processed by `prepare_for_result`."""
    unseen, estimate = prepare_for_result(result, model, recordings), result.estimate
    if (
        unseen.processing.cutoff != result.processing.cutoff
    ):  # what it leaves of its own logs there is not known
        estimate = replace(estimate, residual_rms=np.full(len(estimate.rows), np.nan))
    return validate_on(unseen, estimate, result.processing)


def prepare_for_result(
    result: Identification, model: Model, recordings: Sequence[Recording]
) -> Experiment:
    """Make logs ready that a stored model is to predict; a cut-off that was not given may be
    higher, as they need.
    """
    values = {Parameter(name): value for name, value in result.known.items()}
    values |= dict(zip(result.estimate.parameters, result.estimate.values.tolist()))
    return prepare_with_settings(
        result.fitted(model),
        recordings,
        result.base,
        result.processing,
        None if result.settings.get("cutoff") is not None else values,
        result.gains,
        result.known,
    )


def with_same_filter(experiment: Experiment, unseen: Experiment, estimate: Estimate) -> Estimate:
    """Return the estimate with what it leaves of its own logs if they are processed as those to be
    predicted.
    """
    if unseen.processing.cutoff == experiment.processing.cutoff:
        return estimate
    processed = process_with(experiment.model, matched_logs(experiment), unseen.processing)
    again = build_experiment(
        experiment.model,
        experiment.recordings,
        processed,
        experiment.base,
        experiment.choice,
        gains=experiment.gains or None,
        known=experiment.known,
    )
    squares, counts = np.zeros(len(estimate.rows)), np.zeros(len(estimate.rows))
    for part in again.regressions:
        squares += (part.valid * (part.effort - estimate.predict(part)) ** 2).sum(axis=0)
        counts += part.n_valid
    return replace(estimate, residual_rms=np.sqrt(squares / np.maximum(counts, 1)))
