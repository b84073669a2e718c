"""Does the model predict recordings it has not seen?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gough.core.arrays import FloatArray, Value
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.regression import Regression
from gough.core.showing import Columns, Shown
from gough.core.statistics import ljung_box
from gough.core.text import UNSURE, text_table
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.identification.experiment import Experiment, processed_as
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.processing.choice import RATIO

if TYPE_CHECKING:
    from gough.identification.result import Identification

GOOD, FAIR = 0.10, 0.25  # relative prediction error of the worst row that counts as good and as fair
WORSE = 1.5  # times the error on the identification data: a held-out error beyond does not come from noise of a fit
VISIBLE = 0.01  # of the effort: what an error or a mistake has to be to matter to a prediction
WEAK_CONDITION = 1e4  # condition number beyond which digits are in doubt


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation(Shown, Value):
    """Prediction of recordings not used for identification.

    Args:
        rows: Names of the equation rows, (r,).
        row_units: Their units.
        rms: rms prediction error, (r,). [row unit]
        relative: rms prediction error over rms effort of the equations that count, (r,). [1]
        relative_all: The same of all equations, near reversals too, (r,). [1]
        share: Part of each row that counts, (r,). [1]
        whiteness: p-value of the Ljung-Box test that the residual is white, (r,); small means structure is left.
        numerics: The estimate is numerically sound.
        predicts: It predicts the held-out data: 'good', 'fair', 'poor', or 'not tested' without any.
        doubts: What deserves doubt, in words.
        source: Which recordings.
    """

    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    rms: FloatArray
    relative: FloatArray
    whiteness: FloatArray
    numerics: bool
    predicts: str
    doubts: tuple[str, ...]
    source: str
    relative_all: FloatArray = field(default_factory=lambda: np.empty(0))
    share: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.relative_all):
            object.__setattr__(self, "relative_all", self.relative)
        if not len(self.share):
            object.__setattr__(self, "share", np.ones(len(self.rows)))
        super().__post_init__()

    @property
    def verdict(self) -> str:
        """Return the verdict in one sentence: numerics and prediction apart."""
        numerics = "numerics fine" if self.numerics else "numerics doubtful"
        if self.predicts == "not tested":
            return f"{numerics}; not tested on held-out data"
        worst = int(np.argmax(self.relative))
        return (f"{numerics}; {self.predicts} prediction of held-out data: error {100 * self.relative.max():.1f} % "
                f"of the effort on the worst row ({self.rows[worst]}), "
                f"{100 * float(np.sqrt(np.mean(self.relative**2))):.1f} % overall")

    def table(self) -> Columns:
        """Return the prediction error by row."""
        return {"row": self.rows, "rms": self.rms, "relative": self.relative, "relative_all": self.relative_all,
                "share": self.share, "whiteness": self.whiteness, "unit": self.row_units}

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "rows": {row: {"rms": float(self.rms[j]), "relative": float(self.relative[j]),
                           "relative_all": float(self.relative_all[j]), "share": float(self.share[j]),
                           "whiteness": None if np.isnan(self.whiteness[j]) else float(self.whiteness[j]),
                           "unit": self.row_units[j]} for j, row in enumerate(self.rows)},
            "numerics": self.numerics, "predicts": self.predicts, "doubts": list(self.doubts),
            "verdict": self.verdict, "source": self.source}

    def summary(self) -> str:
        """Return the validation as plain text."""
        lines = [[row, f"{self.rms[j]:.4g}", f"{100 * self.relative[j]:.2f} %", f"{100 * self.relative_all[j]:.2f} %",
                  f"{100 * self.share[j]:.0f} %", f"{self.whiteness[j]:.2g}", self.row_units[j]]
                 for j, row in enumerate(self.rows)]
        table = text_table(["row", "rms error", "of effort", "of all samples", "counts", "white?", "unit"], lines)
        return "\n".join([self.verdict, "", table, *([""] if self.doubts else []), *self.doubts])


def numerics_of(estimate: Estimate) -> bool:
    """Tell whether the digits suffice: a small condition number, or a large one that shows in the sigmas.

    sqrt((R^-1)_jj), R the correlation of the estimate, is how many times the others raise the sigma of parameter j; the
    largest is at least the condition number over p. Beyond 1e4 a parameter rests on one part in 1e4 of the effort:
    nothing to trust, unless its sigma of over 30 % says that nothing is known of it.
    """
    found = estimate.condition_number
    if found < WEAK_CONDITION or not np.isfinite(found):
        return bool(found < WEAK_CONDITION)
    power, axes = np.linalg.eigh(estimate.correlation)
    raised = np.sqrt((axes**2 / np.maximum(power, np.finfo(float).eps)).sum(axis=1))
    weak = raised >= min(found / len(estimate), WEAK_CONDITION)
    return bool(weak.any() and (estimate.relative_std[weak] > UNSURE).all())


def noise_variance(part: Regression) -> FloatArray:
    """Return the known noise variance of each row, zero if unknown, (r,). [row unit squared]"""
    if part.covariance is None:
        return np.zeros(len(part.rows))
    diagonal = np.diagonal(part.covariance, axis1=-2, axis2=-1)
    return np.asarray(diagonal if diagonal.ndim == 1 else diagonal.mean(axis=0))


def validate(estimate: Estimate, held_out: Sequence[Regression] = (), *, source: str = "") -> Validation:
    """Judge an estimate: numerics from itself, prediction from recordings it has not seen.

    Args:
        held_out: Regressions of other recordings, with the estimate's parameters among theirs.
        source: Their names, for the report.
    """
    numerics = numerics_of(estimate)
    doubts = list(estimate.doubts)
    if not held_out:
        return Validation(
            rows=estimate.rows, row_units=estimate.row_units, rms=estimate.residual_rms,
            relative=estimate.residual_relative, whiteness=np.full(len(estimate.rows), np.nan), numerics=numerics,
            predicts="not tested", doubts=tuple(doubts), source="identification data")
    rows = held_out[0].rows
    if any(part.rows != rows for part in held_out):
        raise InvalidInput("the held-out recordings are of different robots: their rows differ")
    if not all(len(part) for part in held_out):
        raise InvalidInput("a held-out recording has no samples left to judge by; is the window about reversals too "
                           "wide?")
    residuals = [part.effort - estimate.predict(part) for part in held_out]
    efforts = np.concatenate([part.effort for part in held_out])
    together = np.concatenate(residuals)
    counts = np.concatenate([part.counting for part in held_out])
    many = np.maximum(counts.sum(axis=0), 1)
    rms = np.sqrt((counts * together**2).sum(axis=0) / many)
    relative = rms / np.maximum(np.sqrt((counts * efforts**2).sum(axis=0) / many), 1e-300)
    every = np.sqrt((together**2).sum(axis=0) / np.maximum((efforts**2).sum(axis=0), 1e-300))
    white = np.min([ljung_box(left, part.mask) for left, part in zip(residuals, held_out)], axis=0)
    worst = float(relative.max())
    predicts = "good" if worst < GOOD else "fair" if worst < FAIR else "poor"
    own = dict(zip(estimate.rows, estimate.residual_rms))
    noise = np.mean([noise_variance(part) for part in held_out], axis=0)
    for row, value, part, known in zip(rows, rms, relative, noise):
        # Held-out data averaged over fewer periods are noisier: what their noise explains is not held against them.
        if row in own and part >= VISIBLE and value**2 - known > (WORSE * own[row]) ** 2:
            doubts.append(f"{row}: the held-out error is {value / own[row]:.1f} times that on the identification data; "
                          "the model may be overfitted or the machine has changed")
    return Validation(rows=rows, row_units=held_out[0].row_units, rms=rms, relative=relative, whiteness=white,
                      numerics=numerics, predicts=predicts, doubts=tuple(doubts), source=source, relative_all=every,
                      share=counts.mean(axis=0))


def validate_result(model: Model, result: Identification, recordings: Sequence[Recording]) -> Validation:
    """Judge an identification on recordings it has not seen; see `unseen_by` for how they are processed."""
    unseen = unseen_by(result, model, recordings)
    parts = [without_known(part, result.known) for part in unseen.parts]
    estimate = result.estimate
    if unseen.processing.cutoff != result.processing.cutoff:  # what it leaves of its own logs there is not known
        estimate = replace(estimate, residual_rms=np.full(len(estimate.rows), np.nan))
    found = validate(estimate, parts, source=", ".join(log.source for log in recordings))
    return told_faster(found, result.processing, unseen.processing)


def unseen_by(result: Identification, model: Model, recordings: Sequence[Recording]) -> Experiment:
    """Make logs ready that a stored model is to predict; a cut-off that was not given may be higher, as they need."""
    values = {Parameter(name): value for name, value in result.known.items()}
    values |= dict(zip(result.estimate.parameters, result.estimate.values.tolist()))
    return processed_as(result.fitted(model), recordings, result.base, result.processing,
                        None if result.settings.get("cutoff") is not None else values, result.gains)


def told_faster(validation: Validation, own: Processing, used: Processing) -> Validation:
    """Return a validation that says so if its logs have a cut-off well above that of those identified from.

    Less than an octave, the step of the search, may be a matter of noise.
    """
    if used.cutoff is None or own.cutoff is None or used.cutoff < RATIO * own.cutoff:
        return validation
    said = (f"the held-out logs move faster than the cut-off of {own.cutoff:.3g} Hz passes, which the others chose: "
            f"they are predicted with {used.cutoff:.3g} Hz")
    return replace(validation, doubts=(*validation.doubts, said))


def processed_alike(model: Model, recordings: Sequence[Recording], experiment: Experiment, unseen: Experiment | None,
                    estimate: Estimate, known: Mapping[str, float]) -> Estimate:
    """Return the estimate with what it leaves of its own logs if they are processed as those to be predicted."""
    if unseen is None or unseen.processing.cutoff == experiment.processing.cutoff:
        return estimate
    again = processed_as(model, recordings, experiment.base, unseen.processing, None, experiment.gains or None)
    left = [(part.counting, part.effort - estimate.predict(part))
            for part in (without_known(part, known) for part in again.parts)]
    squares, counts = (np.sum([x.sum(axis=0) for x in each], axis=0)
                       for each in ([c * r**2 for c, r in left], [c for c, _ in left]))
    return replace(estimate, residual_rms=np.sqrt(squares / np.maximum(counts, 1)))


def without_known(part: Regression, known: Mapping[str, float]) -> Regression:
    """Return a regression without the efforts of payload parameters that are known."""
    return replace(part, effort=part.effort - known_effort(part, known)) if known else part


def known_effort(part: Regression, known: Mapping[str, float]) -> FloatArray:
    """Return the effort of known payload parameters, (t, r). [row unit]"""
    total = np.zeros(part.effort.shape)
    for name, value in known.items():
        if name in part.parameters:
            total += part.regressor[:, :, part.parameters.index(name)] * value
    return total
