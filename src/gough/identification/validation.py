"""Validate an estimate: conditioning, and prediction of held-out logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.display import POORLY_KNOWN_RATIO, join_names, text_table
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.notices import (
    Level,
    Notice,
    ResultLevel,
    level_of,
    notice_lines,
    ordered,
)
from gough.core.record import Columns, Record
from gough.core.statistics import f_quantile, ljung_box, squared_memory
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.experiment import (
    Experiment,
    prepare_with_settings,
    process_with,
    rebuilt_with,
)
from gough.identification.validity import beyond_validity
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.processing.choice import CUTOFF_RATIO

if TYPE_CHECKING:
    from gough.identification.result import Identification

# Relative prediction error of the worst joint below which a prediction
# is good, and fair.
GOOD_ERROR = 0.10
FAIR_ERROR = 0.25
# A held-out error above so many times the error on the identification
# data is not due to noise.
HELD_OUT_ERROR_RATIO = 1.5
# Errors and faults below this fraction of the effort do not matter to a
# prediction.
VISIBLE_FRACTION = 0.01
MIN_EFFORT_DIVISOR = 1e-300  # where a joint has no effort
# Chance that noise alone has more power in the held-out logs of one
# joint than is allowed for it. Ten joints have together that of one
# rule, `gough.verdict.rules.FALSE_ALARM_CHANCE`.
JOINT_NOISE_CHANCE = 0.001
# of notices on an error above that of the fit
HIGHER_ERROR_RULE = "held-out error"
WEAK_CONDITION = 1e4  # condition number above which digits are in doubt


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation(Record):
    """Prediction errors of logs that were not used for identification, by row, (r,)."""

    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    rms: FloatArray  # of the prediction error [row unit]
    relative: FloatArray  # rms error over rms effort of the valid equations
    # p-value of the Ljung-Box test that the residual is white
    whiteness: FloatArray
    numerics: bool  # the estimate is well conditioned
    # held-out data: 'good', 'fair', 'poor', or 'not tested' without any
    predicts: str
    notices: tuple[Notice, ...]  # about the prediction, in their order
    source: str  # names of the held-out logs
    relative_all: FloatArray  # the same of all equations, near reversals too
    share: FloatArray  # fraction of the equations that is valid
    n_logs: int = 0  # held-out logs

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices; `ok` if there is only info."""
        return level_of(self.notices)

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
        rows = {}
        for k, row in enumerate(self.rows):
            rows[row] = {
                "rms": _number_or_none(self.rms[k]),
                "relative": _number_or_none(self.relative[k]),
                "relative_all": _number_or_none(self.relative_all[k]),
                "share": _number_or_none(self.share[k]),
                "whiteness": _number_or_none(self.whiteness[k]),
                "unit": self.row_units[k],
            }
        return {
            "rows": rows,
            "level": self.level,
            "numerics": self.numerics,
            "predicts": self.predicts,
            "notices": [notice.to_dict() for notice in self.notices],
            "headline": self.headline,
            "source": self.source,
        }

    def summary(self, *, notices: bool = True) -> str:
        """Return the validation as plain text, with its notices if wanted."""
        header = [
            "joint",
            "rms error",
            "of effort",
            "of all samples",
            "valid",
            "white?",
            "unit",
        ]
        cells = []
        for k, row in enumerate(self.rows):
            line = [
                row,
                f"{self.rms[k]:.4g}",
                f"{100 * self.relative[k]:.2f} %",
                f"{100 * self.relative_all[k]:.2f} %",
                f"{100 * self.share[k]:.0f} %",
                f"{self.whiteness[k]:.2g}",
                self.row_units[k],
            ]
            cells.append(line)
        lines = [self.headline, "", text_table(header, cells)]
        if notices and self.notices:
            lines += ["", *notice_lines(self.notices)]
        return "\n".join(lines)


def _number_or_none(figure: float) -> float | None:
    """Return a number for JSON, None for NaN."""
    return None if np.isnan(figure) else float(figure)


def _effort_word(units: Sequence[str]) -> str:
    """Return what efforts of these units are called."""
    if set(units) == {"N m"}:
        return "torque"
    if set(units) == {"N"}:
        return "force"
    return "force or torque"


def is_well_conditioned(estimate: Estimate) -> bool:
    """Return whether an estimate is well conditioned, or its standard errors show where not.

    sqrt((R^-1)_jj), R the correlation of the estimate, is the factor by
    which the other parameters raise the standard error of parameter j;
    the largest is at least the condition number over p. Above 1e4 a
    parameter depends on 1e-4 of the effort and cannot be trusted,
    unless its standard error of over 30 % shows that it is not known.
    """
    condition = estimate.condition_number
    if condition < WEAK_CONDITION:
        return True
    if not np.isfinite(condition):
        return False
    power, axes = np.linalg.eigh(estimate.correlation)
    power = np.maximum(power, np.finfo(float).eps)
    inflation = np.sqrt((axes**2 / power).sum(axis=1))
    weak = inflation >= min(condition / len(estimate), WEAK_CONDITION)
    return bool(weak.any() and (estimate.relative_std[weak] > POORLY_KNOWN_RATIO).all())


def noise_variance(block: Regression) -> FloatArray:
    """Return the known noise variance of each row, zero if unknown, (r,). [row unit squared]"""
    if block.covariance is None:
        return np.zeros(len(block.rows))
    diagonal = np.diagonal(block.covariance, axis1=-2, axis2=-1)
    if diagonal.ndim > 1:  # one covariance for each sample
        diagonal = diagonal.mean(axis=0)
    return np.asarray(diagonal)


def noise_excess(blocks: Sequence[Regression]) -> FloatArray:
    """Return the ratio of residual power to noise power that noise alone rarely exceeds, (r,).

    The scatter of k repetitions of n samples gives the noise of their
    mean with n (k - 1) degrees of freedom, and the residual of the mean
    has n of them: the ratio is distributed by F. Autocorrelated samples
    count as fewer, see `squared_memory`.

    Args:
        blocks: Regressions of the logs. Without repetitions the ratio
            is 1.
    """
    n_rows = len(blocks[0].rows)
    dof = np.zeros(n_rows)
    noise_dof = np.zeros(n_rows)
    for block in blocks:
        replicates = block.replicates
        if replicates is None or len(replicates) < 2:
            return np.ones(n_rows)
        deviation = np.where(block.valid, replicates - replicates.mean(axis=0), 0.0)
        for row in range(n_rows):
            samples = block.n_valid[row] / squared_memory(deviation[:, :, row])
            dof[row] += samples
            noise_dof[row] += samples * (len(replicates) - 1)
    quantiles = []
    for numerator, denominator in zip(dof, noise_dof):
        quantiles.append(
            f_quantile(1 - JOINT_NOISE_CHANCE, max(numerator, 1.0), max(denominator, 1.0))
        )
    return np.array(quantiles)


def validate(
    estimate: Estimate, held_out: Sequence[Regression] = (), *, source: str = ""
) -> Validation:
    """Validate an estimate: its conditioning, and its prediction of held-out logs.

    Args:
        estimate: The estimate.
        held_out: Regressions of other logs, with the estimate's
            parameters among theirs.
        source: Their names, for the report.
    """
    if not held_out:
        return _not_validated(estimate)
    rows = held_out[0].rows
    if any(block.rows != rows for block in held_out):
        raise InvalidInput("the held-out recordings are of different robots: their rows differ")
    if not all(len(block) for block in held_out):
        raise InvalidInput(
            "a held-out recording has no valid samples; is the exclusion window around reversals "
            "too wide?"
        )
    residuals = [block.effort - estimate.predict(block) for block in held_out]
    residual = np.concatenate(residuals)
    effort = np.concatenate([block.effort for block in held_out])
    valid = np.concatenate([block.valid for block in held_out])
    rms = _valid_rms(residual, valid)
    relative = rms / np.maximum(_valid_rms(effort, valid), MIN_EFFORT_DIVISOR)
    whiteness = []
    for block, block_residual in zip(held_out, residuals):
        whiteness.append(ljung_box(block_residual, block.mask))
    # Held-out data averaged over fewer periods are noisier: that noise
    # is no error of the model.
    noise = np.mean([noise_variance(block) for block in held_out], axis=0)
    noise *= noise_excess(held_out)
    higher = rows_with_higher_error(estimate, rows, rms, relative, noise)
    notices = [higher_error_notice(row, ratio, "info") for row, ratio in higher.items()]
    return Validation(
        rows=rows,
        row_units=held_out[0].row_units,
        rms=rms,
        relative=relative,
        whiteness=np.min(whiteness, axis=0),
        numerics=is_well_conditioned(estimate),
        predicts=_grade(relative.max()),
        n_logs=len(held_out),
        notices=ordered(notices),
        source=source,
        relative_all=error_of_all_samples(estimate, held_out),
        share=valid.mean(axis=0),
    )


def _not_validated(estimate: Estimate) -> Validation:
    """Return the validation without held-out logs, with the errors on the identification data."""
    n_rows = len(estimate.rows)
    return Validation(
        rows=estimate.rows,
        row_units=estimate.row_units,
        rms=estimate.residual_rms,
        relative=estimate.residual_relative,
        relative_all=estimate.residual_relative,
        share=np.ones(n_rows),
        whiteness=np.full(n_rows, np.nan),
        numerics=is_well_conditioned(estimate),
        predicts="not tested",
        notices=(),
        source="identification data",
    )


def error_of_all_samples(estimate: Estimate, blocks: Sequence[Regression]) -> FloatArray:
    """Return rms error over rms effort of all equations of some logs, valid or not, (r,)."""
    residual_squares = np.zeros(len(blocks[0].rows))
    effort_squares = np.full(len(blocks[0].rows), MIN_EFFORT_DIVISOR)
    for block in blocks:
        residual_squares += ((block.effort - estimate.predict(block)) ** 2).sum(axis=0)
        effort_squares += (block.effort**2).sum(axis=0)
    return np.asarray(np.sqrt(residual_squares / effort_squares))


def _valid_rms(values: FloatArray, valid: BoolArray) -> FloatArray:
    """Return the rms over the valid equations of each row, (r,)."""
    n_valid = np.maximum(valid.sum(axis=0), 1)
    return np.asarray(np.sqrt((valid * values**2).sum(axis=0) / n_valid))


def _grade(error: float) -> str:
    """Return the grade of a relative prediction error."""
    if error < GOOD_ERROR:
        return "good"
    if error < FAIR_ERROR:
        return "fair"
    return "poor"


def higher_error_notice(joint: str, ratio: float, level: Level) -> Notice:
    """Return the notice on a held-out error that exceeds the error on the identification data."""
    return Notice(
        rule=HIGHER_ERROR_RULE,
        level=level,
        where=joint,
        text=f"the held-out error is {ratio:.1f} times that on the identification logs: the model "
        "lacks something that their motion does not show, or the robot differs between the logs",
        advice="add this motion to the identification logs and validate on a third one",
        numbers={"ratio": ratio},
    )


def rows_with_higher_error(
    estimate: Estimate,
    rows: Sequence[str],
    rms: FloatArray,
    relative: FloatArray,
    noise: FloatArray,
) -> dict[str, float]:
    """Return the ratio of held-out error to fit error where it is too high, by row.

    Rows predicted to better than `VISIBLE_FRACTION` are omitted: a fit
    of few samples, another filter or reversals between two samples
    cause such ratios there.

    Args:
        estimate: The estimate, with the error of its fit.
        rows: Rows of the held-out logs, r.
        rms: Held-out error, (r,). [row unit]
        relative: The same over the rms effort, (r,).
        noise: Noise variance of the held-out logs, which is subtracted,
            (r,). [row unit squared]
    """
    fit_rms = dict(zip(estimate.rows, estimate.residual_rms))
    ratios = {}
    for k, row in enumerate(rows):
        if row not in fit_rms or relative[k] < VISIBLE_FRACTION:
            continue
        if rms[k] ** 2 - noise[k] > (HELD_OUT_ERROR_RATIO * fit_rms[row]) ** 2:
            ratios[row] = float(rms[k] / fit_rms[row])
    return ratios


def validate_on(held_out: Experiment, estimate: Estimate, fitted_with: Processing) -> Validation:
    """Validate an estimate on processed held-out logs.

    A notice reports a cut-off that is at least an octave, the step of
    its search, above that of the identification logs; less may be due
    to noise.

    Args:
        held_out: The held-out logs.
        estimate: The estimate.
        fitted_with: Processing of the identification logs.
    """
    source = ", ".join(log.source for log in held_out.processed)
    validation = validate(estimate, held_out.regressions, source=source)
    beyond = beyond_validity(held_out.model, held_out.processed)
    if beyond:
        validation = replace(validation, notices=ordered((*validation.notices, *beyond)))
    cutoff = held_out.processing.cutoff
    if cutoff is None or fitted_with.cutoff is None or cutoff < CUTOFF_RATIO * fitted_with.cutoff:
        return validation
    notice = Notice(
        rule="cut-off",
        level="info",
        text=f"the held-out logs move faster than the cut-off of the identification logs, "
        f"{fitted_with.cutoff:.3g} Hz, passes: they are predicted with {cutoff:.3g} Hz",
        numbers={"cutoff": cutoff},
    )
    return replace(validation, notices=ordered((*validation.notices, notice)))


def validate_result(
    model: Model, result: Identification, recordings: Sequence[Recording]
) -> Validation:
    """Validate an identification on held-out logs, processed by `prepare_for_result`.

    Notices warn where the model predicts a joint to more than 10 % of
    its effort, and are errors from 25 % on; they warn where the error
    is much higher than that of the fit.
    """
    held_out = prepare_for_result(result, model, recordings)
    estimate = result.estimate
    if held_out.processing.cutoff != result.processing.cutoff:
        # The residual of the identification logs at this cut-off is not
        # known.
        estimate = replace(estimate, residual_rms=np.full(len(estimate.rows), np.nan))
    validation = validate_on(held_out, estimate, result.processing)
    notices = [*_prediction_notices(validation), *_reused_log_notices(result, recordings)]
    for notice in validation.notices:
        level: Level = "warning" if notice.rule == HIGHER_ERROR_RULE else notice.level
        notices.append(replace(notice, level=level))
    return replace(validation, notices=ordered(notices))


def _prediction_notices(validation: Validation) -> list[Notice]:
    """Warn of each joint whose prediction error is not small beside its effort."""
    notices = []
    for row, relative in zip(validation.rows, validation.relative):
        if relative < GOOD_ERROR:
            continue
        notice = Notice(
            rule="prediction",
            level="error" if relative >= FAIR_ERROR else "warning",
            where=row,
            text=f"the prediction error is {100 * relative:.1f} % of the effort, noise included; "
            f"a good model is below {100 * GOOD_ERROR:.0f} %",
            advice="`gough diagnose` looks for the cause",
            numbers={"relative": float(relative)},
        )
        notices.append(notice)
    return notices


def _reused_log_notices(result: Identification, recordings: Sequence[Recording]) -> list[Notice]:
    """Report an error if a log is one of those that the result was identified from."""
    names = [*result.logs.get("identification", ()), *result.logs.get("loaded", ())]
    identified = {result.digests.get(name) for name in names}
    reused = [log.source for log in recordings if log.fingerprint in identified]
    if not reused:
        return []
    notice = Notice(
        rule="same log",
        level="error",
        where=join_names(reused),
        text="the result was identified from this log, so nothing was predicted",
        advice="give another recording",
    )
    return [notice]


def prepare_for_result(
    result: Identification, model: Model, recordings: Sequence[Recording]
) -> Experiment:
    """Process logs that a stored model is to predict; the cut-off is raised unless it was given."""
    values = None
    if result.settings.get("cutoff") is None:
        values = {Parameter(name): known for name, known in result.known.items()}
        values |= dict(zip(result.estimate.parameters, result.estimate.values.tolist()))
    return prepare_with_settings(
        result.fitted(model),
        recordings,
        result.base,
        result.processing,
        values,
        result.gains,
        result.known,
    )


def with_same_filter(experiment: Experiment, held_out: Experiment, estimate: Estimate) -> Estimate:
    """Return the estimate with the residual of its own logs at the filter of the held-out logs."""
    if held_out.processing.cutoff == experiment.processing.cutoff:
        return estimate
    processed = process_with(experiment.model, experiment.matched, held_out.processing)
    refiltered = rebuilt_with(experiment, processed=processed)
    residual = [block.effort - estimate.predict(block) for block in refiltered.regressions]
    valid = [block.valid for block in refiltered.regressions]
    rms = _valid_rms(np.concatenate(residual), np.concatenate(valid))
    return replace(estimate, residual_rms=rms)
