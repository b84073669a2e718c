"""Joint terms that a robot file lacks: forward selection by blocked cross-validation.

Every term that Gough knows is a candidate at every motor that lacks it,
with a few values of its constants, and at all motors of one kind
together. All candidates are compared on block statistics, so that
hundreds of them take seconds. The rows are weighted by the residual of
the model without candidates. The recorded effort is predicted, not the
low-passed one of the fit, as when the processing is chosen: a low-pass
removes most of the effect of friction at reversals.

Whole logs are left out in turn where there are several, blocks of the
log where there is one. A term is proposed if its gain passes the
acceptance test of `gough.fitting.acceptance`, if it lowers the error of
its motors in every log, if it makes no other joint materially worse in
any, and if its coefficients are the same in all logs, or parts of one,
within a factor of two: see `_TermComparison.same_in_every_fold`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.display import text_table
from gough.core.statistics import student_quantile
from gough.engine.base import standard_from_base
from gough.fitting.acceptance import GainTest, gain_test
from gough.fitting.cross_validation import (
    solve_normal_equations,
    weighted_fit,
)
from gough.fitting.regression import Regression, statistics_by_label
from gough.identification.experiment import Experiment
from gough.identification.term_candidates import (
    Candidate,
    Placement,
    candidate_terms,
    placements,
    with_candidates,
)

# parts of a log that are left out in turn, where there is one log only
N_TERM_FOLDS = 5
# at the borders of a fold: the filters reach that far, so they are
# unused
FOLD_BORDER_SAMPLES = 3
MAX_TERM_BLOCKS = 40  # that the folds are divided into
MIN_TERM_BLOCK_SAMPLES = 8  # of the shortest block
# A term must lower the squared error of recorded efforts by what would
# take 1 % from the error of low-passed ones: of the recorded efforts
# much is noise on some robots.
REQUIRED_ERROR_RATIO = 0.99
# A joint that a term is not meant for may be predicted worse by this
# fraction of its rms effort.
IMMATERIAL_EFFORT_FRACTION = 0.005
MAX_PROPOSED_TERMS = 12
# Best multiple of what other logs predict of a term. The error becomes larger below one half, by
# |e - a c|^2 - |e|^2; above two, what this log would predict makes the error of others larger.
COEFFICIENT_RATIOS = (0.5, 2.0)
RATIO_CHANCE = 0.05  # of rejecting a ratio at one of its limits
# Squared distance of a column from combinations of others, over its square:
# below it the logs do not distinguish them.
MIN_COLUMN_DISTANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class TermStep:
    """One term that predicts better."""

    label: str  # name of the term in tables
    terms: tuple[str, ...]  # names in robot files
    joints: tuple[str, ...]  # motors that get it
    constants: Mapping[str, Mapping[str, float]]  # by motor and name, SI
    # range of what the terms depend on in the logs, by motor and
    # quantity, SI
    validity: Mapping[str, Mapping[str, tuple[float, float]]]
    # relative error of recorded efforts that were left out, rows
    # weighted
    before: float
    after: float  # the same with the term

    def row(self) -> list[str]:
        """Return the cells of a table."""
        constants = set()
        for by_name in self.constants.values():
            texts = [f"{name} {constant:.4g}" for name, constant in by_name.items()]
            constants.add(", ".join(texts))
        shown = "; ".join(sorted(constants)[:3])
        if len(constants) > 3:
            shown += " ..."
        joints = ", ".join(self.joints)
        before = f"{100 * self.before:.3g} %"
        after = f"{100 * self.after:.3g} %"
        return [self.label, joints, shown, before, after]


@dataclass(frozen=True, kw_only=True)
class TermChoice:
    """The smallest set of terms that predicts best, and the gain of each term alone."""

    steps: tuple[TermStep, ...] = ()  # in the order in which they were taken
    # best placement of each term by itself, also if it is worse
    alone: tuple[TermStep, ...] = ()
    folds: str = "blocks"  # what was left out in turn; or `logs`
    # relative errors of held-out logs by row, without and with the
    # proposed terms
    held_out: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def summary(self) -> str:
        """Return the tables as plain text."""
        header = ["term", "motors", "constants (SI)", "error without", "with"]
        proposed = "  none: the robot file has all terms that the data show"
        if self.steps:
            proposed = text_table(header, [step.row() for step in self.steps])
        lines = [
            f"Terms that predict better, {self.folds} left out in turn",
            proposed,
            "",
            "Gain of each term alone, at its best place",
            text_table(header, [step.row() for step in self.alone]),
        ]
        if self.held_out and self.steps:
            rows = []
            for row, (without, with_terms) in self.held_out.items():
                rows.append([row, f"{100 * without:.3g} %", f"{100 * with_terms:.3g} %"])
            lines += [
                "",
                "Held-out logs, error without and with the proposed terms",
                text_table(["joint", "without", "with"], rows),
            ]
        return "\n".join(lines)


class _Trial(NamedTuple):
    """A placement of terms and its cross-validated squared errors."""

    step: TermStep
    columns: list[int]
    squares: FloatArray  # by block and row, (b, r)


def choose_terms(experiment: Experiment, held_out: Experiment | None = None) -> TermChoice:
    """Propose joint terms that a robot file lacks.

    Held-out logs show what the proposed terms are worth; they do not
    decide.
    """
    problem = experiment.problem
    blocks = term_blocks(problem)
    statistics = statistics_by_label(problem, blocks.label, blocks.n_blocks)
    weights = weighted_fit(statistics).weights
    # Fixed weights: directions that the logs hardly determine stay
    # small, so that the transmitted effort of load-dependent friction
    # holds on other logs, too.
    first_values = solve_normal_equations(statistics.weighted(weights).grams.sum(axis=(0, 1)))
    standard = standard_from_base(experiment.model, experiment.base, first_values)[0]
    model = experiment.model.with_transmitted_effort(standard)
    experiment = replace(experiment, model=model)
    candidates = list(candidate_terms(experiment, problem.residual(first_values)))
    if not candidates:
        return TermChoice(folds=blocks.kind)
    comparison = _TermComparison(
        *with_candidates(experiment, candidates),
        blocks=blocks,
        weights=weights,
    )
    robot_columns = list(range(len(problem.parameters)))
    every_placement = list(placements(comparison.distinguishable(robot_columns, candidates)))
    columns = robot_columns
    squares = comparison.squares(columns)
    steps: list[TermStep] = []
    alone: dict[str, TermStep] = {}
    while len(steps) < MAX_PROPOSED_TERMS:
        trials = []
        for place in every_placement:
            if comparison.independent(columns, place.columns) == place.columns:
                trials.append(comparison.trial(columns, squares, place))
        if not steps:
            alone = _best_of_each(trials)
        best = _best_trial(comparison, columns, squares, trials)
        if best is None:
            break
        steps.append(best.step)
        columns = [*columns, *best.columns]
        squares = best.squares
    errors_by_row = {}
    if held_out is not None and steps:
        _, recorded = with_candidates(replace(held_out, model=model), candidates)
        without = recorded.residual_statistics(comparison.values(robot_columns)).relative
        with_terms = recorded.residual_statistics(comparison.values(columns)).relative
        errors_by_row = dict(zip(recorded.rows, zip(without.tolist(), with_terms.tolist())))
    return TermChoice(
        steps=tuple(steps),
        alone=tuple(sorted(alone.values(), key=lambda step: step.after)),
        folds=blocks.kind,
        held_out=errors_by_row,
    )


def _best_of_each(trials: Sequence[_Trial]) -> dict[str, TermStep]:
    """Return the best placement of each term."""
    best: dict[str, TermStep] = {}
    for trial in trials:
        label = trial.step.label
        if label not in best or trial.step.after < best[label].after:
            best[label] = trial.step
    return best


def _best_trial(
    comparison: _TermComparison,
    columns: Sequence[int],
    squares: FloatArray,
    trials: Sequence[_Trial],
) -> _Trial | None:
    """Return the accepted trial with the fewest coefficients among the best; None if none is.

    The test is corrected for the trials of this step: that suffices
    where hypotheses are rejected one after the other (Holm).
    """
    required = (1 - REQUIRED_ERROR_RATIO**2) * comparison.fitted_error(columns)
    total = squares.sum()
    accepted = []
    for trial in trials:
        if total - trial.squares.sum() <= required:
            continue
        if not comparison.wins_on_every_log(squares, trial):
            continue
        if not comparison.gain_test(squares, trial, len(trials)).accepted:
            continue
        if comparison.same_in_every_fold(columns, trial):
            accepted.append(trial)
    if not accepted:
        return None
    least = min(trial.squares.sum() for trial in accepted)
    near_best = [trial for trial in accepted if trial.squares.sum() <= least + required]
    return min(near_best, key=lambda trial: (len(trial.columns), trial.step.after))


class TermBlocks(NamedTuple):
    """Blocks of the samples, and the folds they make up."""

    label: IntArray  # block of each sample, -1 at the borders of folds, (t,)
    folds: list[list[int]]  # blocks of each fold
    kind: str  # "logs", or "blocks" where there is one log

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return sum(len(fold) for fold in self.folds)


def term_blocks(problem: Regression) -> TermBlocks:
    """Return blocks numbered fold by fold; a fold is a log, or a part of the only one."""
    log = np.zeros(len(problem), np.int64)
    if problem.recording is not None:
        log = np.asarray(problem.recording)
    logs = np.unique(log)
    inside_logs = len(logs) < 2
    n_folds = N_TERM_FOLDS if inside_logs else len(logs)
    shortest_fold = min(np.sum(log == number) for number in logs)
    if inside_logs:
        shortest_fold = shortest_fold // N_TERM_FOLDS - 2 * FOLD_BORDER_SAMPLES
    blocks_per_fold = min(-(-MAX_TERM_BLOCKS // n_folds), shortest_fold // MIN_TERM_BLOCK_SAMPLES)
    blocks_per_fold = max(int(blocks_per_fold), 1)
    label = np.full(len(problem), -1)
    for k, number in enumerate(logs):
        samples = np.flatnonzero(log == number)
        if inside_logs:
            for fold, part_of_log in enumerate(np.array_split(samples, N_TERM_FOLDS)):
                stop = len(part_of_log) - FOLD_BORDER_SAMPLES
                inner = part_of_log[FOLD_BORDER_SAMPLES:stop]
                _label_blocks(label, inner, fold, blocks_per_fold)
        else:
            _label_blocks(label, samples, k, blocks_per_fold)
    folds = []
    for fold in range(n_folds):
        first_block = fold * blocks_per_fold
        folds.append(list(range(first_block, first_block + blocks_per_fold)))
    return TermBlocks(label, folds, "blocks" if inside_logs else "logs")


def _label_blocks(label: IntArray, samples: IntArray, fold: int, blocks_per_fold: int) -> None:
    """Divide the samples of a fold into blocks."""
    for k, block in enumerate(np.array_split(samples, blocks_per_fold)):
        label[block] = fold * blocks_per_fold + k


class _TermComparison:
    """Cross-validated errors of sets of columns, from Gram matrices of all candidates."""

    def __init__(
        self,
        fitted: Regression,
        recorded: Regression,
        *,
        blocks: TermBlocks,
        weights: FloatArray,
    ) -> None:
        self._folds = blocks.folds
        self._logs = blocks.folds
        if blocks.kind == "blocks":
            self._logs = [list(range(blocks.n_blocks))]
        self._rows = fitted.rows
        self._weights = weights
        self._parameters = fitted.parameters
        statistics = statistics_by_label(fitted, blocks.label, blocks.n_blocks)
        fitted_grams = statistics.weighted(weights).grams[:, 0]
        self._fold_grams = [fitted_grams[fold].sum(axis=0) for fold in blocks.folds]
        self._total_gram = np.sum(self._fold_grams, axis=0)
        recorded_statistics = statistics_by_label(recorded, blocks.label, blocks.n_blocks)
        # Blocks and rows last, so that some columns are copied in long
        # pieces.
        grams_by_entry = np.moveaxis(recorded_statistics.grams, (0, 1), (2, 3))
        self._recorded_grams = np.ascontiguousarray(grams_by_entry)  # (p + 1, p + 1, b, r)
        self._effort_squares = self._recorded_grams[-1, -1] * weights

    def _values(self, gram: FloatArray, columns: Sequence[int]) -> FloatArray:
        """Return the coefficients of some columns, (k,)."""
        kept = np.array([*columns, len(self._parameters)])
        return solve_normal_equations(gram[kept[:, None], kept])

    def independent(self, columns: Sequence[int], new_columns: Sequence[int]) -> list[int]:
        """Return the new columns that no combination of others and of earlier new ones equals."""
        kept = list(columns)
        independent = []
        for column in new_columns:
            chosen = np.array([*kept, column])
            gram = self._total_gram[chosen[:, None], chosen]
            extended = np.append(-solve_normal_equations(gram), 1.0)
            if extended @ gram @ extended > MIN_COLUMN_DISTANCE * gram[-1, -1]:
                kept.append(column)
                independent.append(column)
        return independent

    def distinguishable(
        self, columns: Sequence[int], candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return the candidates with those of their terms that differ from given columns.

        Friction that differs by direction adds one coefficient to a
        joint that has viscous friction, not two.
        """
        different = []
        for candidate in candidates:
            kept = self.independent(columns, candidate.columns)
            pairs = zip(candidate.terms, candidate.columns)
            terms = tuple(term for term, column in pairs if column in kept)
            if terms:
                different.append(candidate._replace(terms=terms, columns=tuple(kept)))
        return different

    def squares(self, columns: Sequence[int]) -> FloatArray:
        """Return weighted squared errors of recorded efforts by block and row, (b, r)."""
        kept = np.array([*columns, len(self._parameters)])
        grams = self._recorded_grams[kept[:, None], kept]
        squares = np.zeros(grams.shape[2:])
        for fold, fold_gram in zip(self._folds, self._fold_grams):
            values = self._values(self._total_gram - fold_gram, columns)
            extended = np.append(-values, 1.0)
            blocks = slice(fold[0], fold[-1] + 1)
            products = np.tensordot(extended, grams[:, :, blocks], axes=1)
            squares[blocks] = np.tensordot(extended, products, axes=1)
        return np.asarray(np.maximum(squares, 0.0) * self._weights)

    def fitted_error(self, columns: Sequence[int]) -> float:
        """Return the weighted squared error of the efforts that are fitted."""
        kept = np.array([*columns, len(self._parameters)])
        error = 0.0
        for fold_gram in self._fold_grams:
            values = self._values(self._total_gram - fold_gram, columns)
            extended = np.append(-values, 1.0)
            error += max(float(extended @ fold_gram[kept[:, None], kept] @ extended), 0.0)
        return error

    def wins_on_every_log(self, squares: FloatArray, trial: _Trial) -> bool:
        """Return whether a trial lowers the errors of its motors in every log, and raises none.

        Args:
            squares: Squared errors without the terms of the trial by
                block and row, (b, r).
            trial: The trial.
        """
        scope = self._scope(trial)
        for blocks in self._logs:
            before = np.sqrt(squares[blocks].sum(axis=0))
            after = np.sqrt(trial.squares[blocks].sum(axis=0))
            effort = np.sqrt(self._effort_squares[blocks].sum(axis=0))
            tolerated = np.where(scope, 0.0, IMMATERIAL_EFFORT_FRACTION * effort)
            if (after > before + tolerated).any():
                return False
        return True

    def same_in_every_fold(self, columns: Sequence[int], trial: _Trial) -> bool:
        """Return whether the coefficients of a trial are the same in all logs, or parts of one.

        The other folds predict the change c of the efforts of a motor
        by the new terms. The multiple a of it that fits the errors e of
        this fold best is one if the terms are true,

            a = e^T c / c^T c,

        with a standard error from the scatter between blocks. If it is
        beyond its limits by more than chance, the terms stand for
        something else that depends on the motion, and the next motion
        may be predicted worse with them although all these were not.

        Args:
            columns: Those of the model without the terms.
            trial: The trial.
        """
        scope = self._scope(trial)
        all_columns = [*columns, *trial.columns]
        kept = np.array([*all_columns, len(self._parameters)])
        grams = self._recorded_grams[kept[:, None], kept][..., scope]
        for fold, fold_gram in zip(self._folds, self._fold_grams):
            n_blocks = len(fold)
            if n_blocks < 2:
                continue
            others = self._total_gram - fold_gram
            without = np.zeros(len(kept))
            without[: len(columns)] = self._values(others, columns)
            change = np.zeros(len(kept))
            change[:-1] = self._values(others, all_columns) - without[:-1]
            error = -without
            error[-1] = 1.0
            blocks = grams[:, :, fold[0] : fold[-1] + 1]
            by_change = np.tensordot(change, blocks, axes=1)
            products = np.tensordot(error, by_change, axes=1)  # e^T c, (b, r)
            powers = np.tensordot(change, by_change, axes=1)  # c^T c
            total = np.maximum(powers.sum(axis=0), TINY)
            ratio = products.sum(axis=0) / total
            deviation = products - ratio * powers
            scatter = (deviation**2).sum(axis=0) * n_blocks / (n_blocks - 1)
            margin = student_quantile(1 - RATIO_CHANCE, n_blocks - 1) * np.sqrt(scatter) / total
            lowest, highest = COEFFICIENT_RATIOS
            if (ratio + margin < lowest).any() or (ratio - margin > highest).any():
                return False
        return True

    def gain_test(self, squares: FloatArray, trial: _Trial, n_tried: int) -> GainTest:
        """Test the gain of a trial at its motors; arguments as of `wins_on_every_log`."""
        scope = self._scope(trial)
        return gain_test(squares[:, scope], trial.squares[:, scope], n_tried)

    def _scope(self, trial: _Trial) -> BoolArray:
        """Return the rows of the motors of a trial, all where these are no rows, (r,)."""
        scope = np.array([row in trial.step.joints for row in self._rows])
        return scope if scope.any() else np.ones(len(scope), bool)

    def trial(self, columns: Sequence[int], squares: FloatArray, placement: Placement) -> _Trial:
        """Return the errors with the terms of a placement beside some columns."""
        new_columns = placement.columns
        new_squares = self.squares([*columns, *new_columns])
        first = placement.candidates[0]
        constants = {one.joint.name: one.constants for one in placement.candidates}
        validity = {}
        for one in placement.candidates:
            ranges: dict[str, tuple[float, float]] = {}
            for term in one.terms:
                ranges |= term.validity
            validity[one.joint.name] = ranges
        step = TermStep(
            label=first.label,
            terms=tuple(term.name for term in first.terms),
            joints=tuple(one.joint.name for one in placement.candidates),
            constants=constants,
            validity=validity,
            before=self._relative(squares),
            after=self._relative(new_squares),
        )
        return _Trial(step, new_columns, new_squares)

    def _relative(self, squares: FloatArray) -> float:
        return float(np.sqrt(squares.sum() / self._effort_squares.sum()))

    def values(self, columns: Sequence[int]) -> FloatArray:
        """Return the coefficients of all columns, zero where they are not among some, (p,)."""
        values = np.zeros(len(self._parameters))
        values[columns] = self._values(self._total_gram, columns)
        return values
