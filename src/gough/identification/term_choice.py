"""Joint terms that a robot file lacks: forward selection by blocked cross-validation.

Every term that Gough knows is a candidate at every motor that lacks it, with a few values
of its constants, and at all motors of one kind together, with a common coefficient or one
each. All candidates are compared on block statistics, so that hundreds of them take
seconds. The rows are weighted by the residual of the model without candidates. The recorded
effort is predicted, not the low-passed one of the fit, as when the processing is chosen: a
low-pass removes most of the effect of friction at reversals. A term is proposed if it
lowers the error, on most blocks, and if its coefficient hardly changes when any block is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.display import text_table
from gough.engine.base import standard_from_base
from gough.fitting.block_builder import statistics_by_label
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.cross_validation import (
    cross_validate,
    values_without,
    weighted_fit,
)
from gough.fitting.problem import tie_parameters
from gough.fitting.regression import Regression
from gough.identification.experiment import Experiment
from gough.identification.term_candidates import (
    Placement,
    candidate_terms,
    placements,
    with_candidates,
)

N_TERM_FOLDS = 5  # blocks left out in turn, where there are fewer than three logs
FOLD_BORDER_SAMPLES = 3  # at the borders of a fold: the filters reach that far, so they are unused
MIN_TERM_BLOCKS = 20  # that the folds are divided into
# A term must lower the squared error of recorded efforts by what would take 1 % from the error of
# low-passed ones: of the recorded efforts much is noise on some robots.
REQUIRED_ERROR_RATIO = 0.99
# Mean gain of the blocks over its standard error.
MIN_GAIN_T = 2.0
# Coefficients over their jackknife standard error: Student's 0.1 %, for one candidate of a hundred.
# Tuned on a pendulum, tried on five-bars and deltas that lack nothing: the largest among 16
# experiments was 3.6.
MIN_COEFFICIENT_T = 4.0
MAX_PROPOSED_TERMS = 12

Groups = Sequence[Sequence[int]]  # of columns; those of a group share their coefficient


@dataclass(frozen=True, kw_only=True)
class TermStep:
    """One term that predicts better."""

    label: str  # name of the term in tables
    terms: tuple[str, ...]  # names in robot files
    joints: tuple[str, ...]  # motors that get it
    tied: bool  # one coefficient for all motors
    constants: Mapping[str, Mapping[str, float]]  # by motor and name, SI
    before: float  # relative error of recorded efforts that were left out, rows weighted
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
        if self.tied:
            joints += " (one coefficient)"
        before = f"{100 * self.before:.3g} %"
        after = f"{100 * self.after:.3g} %"
        return [self.label, joints, shown, before, after]


@dataclass(frozen=True, kw_only=True)
class TermChoice:
    """The smallest set of terms that predicts best, and the gain of each term alone."""

    steps: tuple[TermStep, ...] = ()  # in the order in which they were taken
    alone: tuple[TermStep, ...] = ()  # best placement of each term by itself, also if it is worse
    folds: str = "blocks"  # what was left out in turn; or `logs`
    # relative errors of held-out logs by row, without and with the proposed terms
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
    groups: list[list[int]]
    errors: FloatArray  # by block, (b,)


def choose_terms(experiment: Experiment, held_out: Experiment | None = None) -> TermChoice:
    """Propose joint terms that a robot file lacks.

    Held-out logs show what the proposed terms are worth; they do not decide.
    """
    problem = experiment.problem
    blocks = _term_blocks(problem)
    statistics = statistics_by_label(problem, blocks.label, blocks.n_blocks)
    weights = weighted_fit(statistics).weights
    # Fixed weights: directions that the logs hardly determine stay small, so that the
    # transmitted effort of load-dependent friction holds on other logs, too.
    first = weighted_fit(statistics, weights)
    standard = standard_from_base(experiment.model, experiment.base, first.values)[0]
    model = experiment.model.with_transmitted_effort(standard)
    experiment = replace(experiment, model=model)
    candidates = list(candidate_terms(experiment, problem.residual(first.values)))
    if not candidates:
        return TermChoice(folds=blocks.kind)
    comparison = _TermComparison(
        *with_candidates(experiment, candidates),
        blocks=blocks,
        weights=first.weights,
    )
    every_placement = list(placements(candidates))
    robot_columns: list[list[int]] = [[k] for k in range(len(problem.parameters))]
    groups = robot_columns
    errors = comparison.errors(groups)
    steps: list[TermStep] = []
    alone: dict[str, TermStep] = {}
    while len(steps) < MAX_PROPOSED_TERMS:
        trials = [comparison.trial(groups, errors, place) for place in every_placement]
        if not steps:
            alone = _best_of_each(trials)
        best = _best_trial(comparison, groups, errors, trials)
        if best is None:
            break
        steps.append(best.step)
        groups = [*groups, *best.groups]
        errors = best.errors
    errors_by_row = {}
    if held_out is not None and steps:
        _, recorded = with_candidates(replace(held_out, model=model), candidates)
        without = _relative_errors(recorded, comparison.values(robot_columns))
        with_terms = _relative_errors(recorded, comparison.values(groups))
        errors_by_row = dict(zip(recorded.rows, zip(without, with_terms)))
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
    groups: Groups,
    errors: FloatArray,
    trials: Sequence[_Trial],
) -> _Trial | None:
    """Return the accepted trial with the fewest coefficients among the best; None if none is."""
    required = (1 - REQUIRED_ERROR_RATIO**2) * comparison.fitted_errors(groups).sum()
    accepted = []
    for trial in trials:
        gain = errors - trial.errors
        standard_error = gain.std(ddof=1) / np.sqrt(len(gain))
        if gain.sum() <= required or gain.mean() <= MIN_GAIN_T * standard_error:
            continue
        if comparison.coefficient_t(groups, trial.groups) > MIN_COEFFICIENT_T:
            accepted.append(trial)
    if not accepted:
        return None
    least = min(trial.errors.sum() for trial in accepted)
    near_best = [trial for trial in accepted if trial.errors.sum() <= least + required]
    return min(near_best, key=lambda trial: (len(trial.groups), trial.step.after))


def _relative_errors(recorded: Regression, values: FloatArray) -> list[float]:
    """Return rms error over rms effort of each row."""
    effort_squares = (recorded.effort**2 * recorded.valid).sum(axis=0)
    error_squares = (recorded.residual(values) ** 2 * recorded.valid).sum(axis=0)
    ratio = error_squares / np.maximum(effort_squares, TINY)
    relative: list[float] = np.sqrt(ratio).tolist()
    return relative


class _TermBlocks(NamedTuple):
    """Blocks of the samples, and the folds they make up."""

    label: IntArray  # block of each sample, -1 at the borders of folds, (t,)
    folds: list[list[int]]  # blocks of each fold
    kind: str  # "logs", or "blocks" where there are fewer than three logs

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return sum(len(fold) for fold in self.folds)


def _term_blocks(problem: Regression) -> _TermBlocks:
    """Return blocks numbered fold by fold; a fold is a log, or a part of each of one or two."""
    log = np.zeros(len(problem), np.int64)
    if problem.recording is not None:
        log = np.asarray(problem.recording)
    logs = np.unique(log)
    inside_logs = len(logs) < 3
    n_folds = N_TERM_FOLDS if inside_logs else len(logs)
    blocks_per_fold = -(-MIN_TERM_BLOCKS // n_folds)
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
    return _TermBlocks(label, folds, "blocks" if inside_logs else "logs")


def _label_blocks(label: IntArray, samples: IntArray, fold: int, blocks_per_fold: int) -> None:
    """Divide the samples of a fold into blocks."""
    for k, block in enumerate(np.array_split(samples, blocks_per_fold)):
        label[block] = fold * blocks_per_fold + k


class _TermComparison:
    """Cross-validated errors of sets of columns, from block statistics of all candidates."""

    def __init__(
        self,
        fitted: Regression,
        recorded: Regression,
        *,
        blocks: _TermBlocks,
        weights: FloatArray,
    ) -> None:
        self._folds = blocks.folds
        self._n_blocks = blocks.n_blocks
        self._fitted = _weighted_statistics(fitted, blocks, weights)
        self._recorded = _weighted_statistics(recorded, blocks, weights)
        self._effort_squares = float(self._recorded.grams[:, 0, -1, -1].sum())

    def _select(self, statistics: BlockStatistics, groups: Groups) -> BlockStatistics:
        """Keep some columns; those of a group share their coefficient."""
        names = statistics.parameters
        columns = [names[column] for group in groups for column in group]
        selected = statistics.select(columns)
        tied: dict[str, list[str]] = {}
        for group in groups:
            if len(group) > 1:
                tied[names[group[0]]] = [str(names[column]) for column in group]
        return tie_parameters(selected, tied) if tied else selected

    def errors(self, groups: Groups) -> FloatArray:
        """Return weighted squared errors of recorded efforts by block, (b,)."""
        fitted = self._select(self._fitted, groups)
        recorded = self._select(self._recorded, groups)
        return cross_validate(fitted, self._folds, scored=recorded, weights=np.ones(1))[:, 0]

    def fitted_errors(self, groups: Groups) -> FloatArray:
        """Return weighted squared errors of the efforts that are fitted by block, (b,)."""
        fitted = self._select(self._fitted, groups)
        return cross_validate(fitted, self._folds, weights=np.ones(1))[:, 0]

    def trial(self, groups: Groups, errors: FloatArray, placement: Placement) -> _Trial:
        """Return the errors with the terms of a placement beside the groups."""
        new_groups = placement.groups
        new_errors = self.errors([*groups, *new_groups])
        first = placement.candidates[0]
        constants = {one.joint.name: one.constants for one in placement.candidates}
        step = TermStep(
            label=first.label,
            terms=tuple(term.name for term in first.terms),
            joints=tuple(one.joint.name for one in placement.candidates),
            tied=placement.tied,
            constants=constants,
            before=self._relative(errors),
            after=self._relative(new_errors),
        )
        return _Trial(step, new_groups, new_errors)

    def _relative(self, errors: FloatArray) -> float:
        return float(np.sqrt(errors.sum() / self._effort_squares))

    def coefficient_t(self, groups: Groups, new_groups: Groups) -> float:
        """Return the rms of new coefficients over their jackknife standard errors."""
        fitted = self._select(self._fitted, [*groups, *new_groups])
        single_blocks = [[block] for block in range(self._n_blocks)]
        values = values_without(fitted, single_blocks, weights=np.ones(1))
        coefficients = values[:, 0, -len(new_groups) :]
        variance = (self._n_blocks - 1) * coefficients.var(axis=0)
        t = coefficients.mean(axis=0) / np.sqrt(np.maximum(variance, TINY))
        return float(np.sqrt(np.mean(t**2)))

    def values(self, groups: Groups) -> FloatArray:
        """Return the coefficients of all columns, zero where no group has them, (p,)."""
        fit = weighted_fit(self._select(self._fitted, groups), np.ones(1))
        values = np.zeros(len(self._fitted.parameters))
        for coefficient, group in zip(fit.values, groups):
            values[list(group)] = coefficient
        return values


def _weighted_statistics(
    regression: Regression, blocks: _TermBlocks, weights: FloatArray
) -> BlockStatistics:
    """Return the statistics of all rows as one, each weighted."""
    return statistics_by_label(regression, blocks.label, blocks.n_blocks).weighted(weights)
