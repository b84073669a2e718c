"""The search for explanations: accept the best, undo it, repeat; then leave each out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.progress import portion
from gough.verdict.acceptance import (
    MATERIAL_EFFORT_CHANGE,
    MIN_DISCRETE_BLOCKS,
    TESTS_PER_FAULT,
    Gain,
    changes_an_effort,
    changes_enough,
    jackknife_error,
    size_errors,
    tied,
    with_size_test,
)
from gough.verdict.blocks import (
    BlockSums,
    CrossValidation,
    block_labels,
    block_sums,
    cross_validate,
    expected_squares,
    row_weights,
)
from gough.verdict.discrete_faults import DiscreteFault, discrete_faults
from gough.verdict.discrete_trials import DiscreteTrials, thinned
from gough.verdict.effort_factors import effort_factor
from gough.verdict.explanation import Candidate, Explanation, corrected, effort_scale
from gough.verdict.faults import (
    EFFORT_SCALE,
    MAX_RELATIVE_SIZE,
    PAYLOAD_FAULT,
    PRINTED_FAULTS,
    Fault,
    all_faults,
)
from gough.verdict.fitted_log import Evidence
from gough.verdict.geometry_faults import geometry_faults
from gough.verdict.noise import NOISE_BANDS, NoisePower, mean_noise_power
from gough.verdict.odd_logs import logs_tried_alone
from gough.verdict.period_changes import changes_between_periods
from gough.verdict.robot_file import prior_of
from gough.verdict.segments import segment_faults
from gough.verdict.stage import Screen, Stage

MAX_EXPLANATIONS = 4  # accepted one after the other
MAX_REFINED = 6  # candidates whose size is refined by undoing them
# Of the gain of the best accepted explanation, from which others are compared with it.
ALTERNATIVE_GAIN = 0.5
GAUSS_NEWTON_STEPS = 8
GAUSS_NEWTON_TOLERANCE = 0.1  # standard errors of the size
MIN_SIZE_T = 3.0  # size over its standard error
# Error above noise, over the effort, from which signs, channels and units are tried.
MIN_DISCRETE_ERROR = 0.02
SCALE_CHANGE = 0.02  # relative: smaller effort scales are not searched


def evidence_noise(evidence: Evidence, bands: int = NOISE_BANDS) -> NoisePower | None:
    """Return the noise power of the rows of all logs; None if it is not known.

    Args:
        evidence: The logs.
        bands: As of `noise_power`.
    """
    regressions = []
    predicted = []
    for log in evidence.logs:
        regression = log.regression.select(evidence.base.names)
        regressions.append(regression)
        predicted.append(regression.regressor @ evidence.fitted.values)
    return mean_noise_power(regressions, predicted, bands=bands)


def least_noise(evidence: Evidence) -> FloatArray:
    """Return the least noise power that the rows of all logs can have, zero if unknown, (r,).

    Of decimated logs that hold nothing above the motion, it is that of the residual before
    decimation.
    """
    power = evidence_noise(evidence)
    if power is not None:
        return power.least
    powers = []
    for log in evidence.logs:
        least = log.least_decimated_noise
        if least is None:
            return np.zeros(len(evidence.model.rows))
        powers.append(least)
    return np.asarray(np.mean(powers, axis=0))


class _Undone(NamedTuple):
    """Logs with a fault of some size undone, and what remains of it."""

    trial: Explanation  # the fault with its size
    sums: BlockSums  # of the logs without it, with its columns last
    validation: CrossValidation  # of these sums over single blocks
    remaining: FloatArray  # size of what remains of it, (k,)
    std: FloatArray  # standard errors of that, (k,)

    @property
    def std_of_size(self) -> FloatArray:
        """Standard errors of the size; what remains of a fraction is relative to the rest."""
        if isinstance(self.trial.fault, Fault) and self.trial.fault.relative:
            return np.asarray(self.std * np.abs(1 + self.trial.size))
        return self.std


class Search:
    """Explanations of some evidence, one after the other.

    Args:
        evidence: The identified model and its logs.
        faults: Continuous faults to try; all registered ones by default.
        with_discrete: Also try signs, channels, units and gravity.
        thorough: Try every fault, also if the error is within the noise.
    """

    def __init__(
        self,
        evidence: Evidence,
        faults: Sequence[Fault] | None = None,
        *,
        with_discrete: bool = True,
        thorough: bool = False,
    ) -> None:
        self.evidence = evidence
        self.thorough = thorough
        self.labels = block_labels(evidence.logs)
        self.faults = all_faults(evidence) if faults is None else list(faults)
        self.with_discrete = with_discrete
        self.discrete: list[DiscreteFault] = []
        if with_discrete:
            self.discrete = discrete_faults(evidence.model.mechanism)
        self.trials = 1
        # accepted by what differs between averaged periods
        self.from_periods: tuple[Explanation, ...] = ()
        self.screen: Screen | None = None  # of the last stage
        self.more_screen: Screen | None = None  # the same for geometry and parts of logs
        self.single_logs = logs_tried_alone(evidence, self.labels)
        self.noise = least_noise(evidence)

    @cached_property
    def geometry(self) -> list[Fault]:
        """Errors of the geometry."""
        return geometry_faults(self.evidence)

    @one_blas_thread
    def run(self) -> tuple[list[tuple[Explanation, ...]], Stage]:
        """Return groups of explanations that predict alike, and the stage after them.

        The first of a group is the one that was undone.
        """
        stage = Stage(self.evidence, self.labels)
        groups: list[tuple[Explanation, ...]] = []
        if self.with_discrete:
            self.from_periods = tuple(changes_between_periods(self.evidence))
            groups += [(each,) for each in self.from_periods]
            stage = self._stage_with(self.from_periods) or stage
        while len(groups) < MAX_EXPLANATIONS:
            # how many explanations there will be is not known; most logs have none or one
            with portion(1 - 0.5 ** len(groups), 1 - 0.5 ** (len(groups) + 1)):
                explanations = self.explanations_at(stage)
            if not any(each.gain.significant for each in explanations):
                break
            explanations = self._without_effects_of_noise(explanations, stage)
            if not any(each.gain.significant for each in explanations):
                break
            group = self.best_group(explanations, stage)
            groups.append(group)
            following = self._stage_with([each[0] for each in groups], stage)
            if following is None:
                groups.pop()
                break
            stage = following
        return self._still_needed(groups, stage)

    def _scopes(self) -> list[tuple[int, ...]]:
        """Return the sets of logs that a fault of the recording may be in."""
        every = tuple(range(len(self.evidence.logs)))
        return [every, *((k,) for k in self.single_logs)]

    def _stage_with(
        self, explanations: Sequence[Explanation], before: Stage | None = None
    ) -> Stage | None:
        """Return the stage with some explanations; `before` is that without the last of them."""
        known = None if before is None else before.evidence
        evidence = corrected(self.evidence, explanations, known)
        if evidence is None:
            return None
        return Stage(self.evidence, self.labels, explanations, evidence)

    @cached_property
    def with_less_noise(self) -> Search | None:
        """The same search on logs whose positions have less noise; None if none can have less."""
        smoother = [log.with_less_position_noise() for log in self.evidence.logs]
        if all(smooth is None for smooth in smoother):
            return None
        logs = []
        for log, smooth in zip(self.evidence.logs, smoother):
            logs.append(log if smooth is None else smooth)
        evidence = replace(self.evidence, logs=tuple(logs)).refitted()
        return Search(evidence, [], with_discrete=False)

    def _without_effects_of_noise(
        self, explanations: Sequence[Explanation], stage: Stage
    ) -> list[Explanation]:
        """Return the explanations that also predict better where positions have less noise.

        Noise of positions enters the efforts that the model predicts. A wrong geometry that lowers
        the coupling between joints also lowers this error, and predicts better without being
        true. What is true predicts better at any cut-off.
        """
        smoother = self.with_less_noise
        if smoother is None:
            return list(explanations)
        smoother.trials = self.trials
        without = smoother._stage_with(stage.accepted)
        if without is None:
            return list(explanations)
        kept = []
        for each in explanations:
            if each.discrete:
                kept.append(each)
                continue
            gain = smoother._gain_over(without, [*stage.accepted, each], each)
            if gain is not None and gain.better_on_average:
                kept.append(replace(each, gain_with_less_noise=gain))
        return kept

    def _still_needed(
        self, groups: list[tuple[Explanation, ...]], stage: Stage
    ) -> tuple[list[tuple[Explanation, ...]], Stage]:
        """Leave each explanation out once; keep those that are still accepted."""
        if len(groups) < 2:
            return groups, stage
        kept = list(groups)
        for group in groups:
            if group[0] in self.from_periods:
                continue
            others = [each[0] for each in kept if each is not group]
            without = self._stage_with(others)
            if without is None or len(kept) < 2:
                continue
            if not self._is_needed(without, others, group):
                kept.remove(group)
        if len(kept) < len(groups):
            shorter = self._stage_with([each[0] for each in kept])
            if shorter is not None:
                return kept, shorter
        return kept, stage

    def _is_needed(
        self, without: Stage, others: Sequence[Explanation], group: Sequence[Explanation]
    ) -> bool:
        """Return whether the rule still accepts one of a group beside the other explanations."""
        for member in group:
            gain = self._gain_over(without, [*others, member], member)
            if gain is None:
                continue
            by_size = member.gain.size_t > member.gain.size_threshold
            if gain.significant or (gain.better and by_size):
                return True
        return False

    def explanations_at(self, stage: Stage) -> list[Explanation]:
        """Return the explanations that the rule accepts at a stage, and those that do as well.

        What predicts as well as an accepted one, but less evenly over the blocks, may be the
        cause as well.
        """
        unexplained = self._unexplained_at(stage)
        if unexplained <= MATERIAL_EFFORT_CHANGE and not self.thorough:
            # within the noise only faults of the recording are tried, and all if one is seen
            likely = [each for each in self.faults if each.undo or each.name in PRINTED_FAULTS]
            self.screen = Screen(stage, likely, self.single_logs, self.screen)
            self.trials = self.screen.trials
            seen = self._continuous(stage, self.screen)
            seen += self._effort_factors(stage, self.screen, unexplained)
            if not any(each.gain.significant for each in seen):
                return []
        screens = self._all_screens(stage)
        explanations = self._effort_factors(stage, screens[0], unexplained)
        if unexplained > MIN_DISCRETE_ERROR:
            explanations += self._on_all_samples(stage, self.discrete_explanations(stage))
        linear = []
        for screen in screens:
            linear += self._continuous(stage, screen)
        accepted = [each for each in (*explanations, *linear) if each.gain.significant]
        if not accepted:
            return self._large_faults(stage, screens[0])
        least = ALTERNATIVE_GAIN * max(each.gain.total for each in accepted)
        alternatives = [each for each in linear if each.gain.significant or each.gain.total > least]
        return explanations + self._with_refined_sizes(stage, alternatives)

    def _large_faults(self, stage: Stage, screen: Screen) -> list[Explanation]:
        """Return the faults that the rule accepts only with their sizes refined.

        The derivative by the size does not describe a large fault: at the size to first order it
        may predict worse than none. The candidates that lower the squared error most are tried.
        """
        undone = [each for each in screen.ranked if each.fault.undo is not None]
        candidates = [each for each in undone if each.fault.name != EFFORT_SCALE][:MAX_REFINED]
        explanations = []
        for candidate, sums in screen.sums(candidates):
            n_sizes = len(candidate.columns)
            size = row_weights(sums, range(sums.n_columns))[1][-n_sizes:]
            guess = _guessed(stage, candidate.fault, candidate.place, candidate.logs, size)
            refined = self.refined(stage, guess)
            if refined is not None:
                explanations.append(refined)
        return explanations

    def _all_screens(self, stage: Stage) -> list[Screen]:
        """Return the screens of all continuous faults, and count everything that is tried."""
        self.screen = Screen(stage, self.faults, self.single_logs, self.screen)
        screens = [self.screen]
        self.trials = self.screen.trials + len(self.discrete) * (1 + len(self.single_logs))
        if self.with_discrete:
            more = [*self.geometry, *segment_faults(stage)]
            self.more_screen = Screen(stage, more, (), self.more_screen)
            screens.append(self.more_screen)
            self.trials += self.more_screen.trials
        return screens

    def _trials_of(self, fault: Fault | DiscreteFault) -> int:
        """Return how many tests a fault is the best of: of its gain, and of its size if it has one.

        What the signals themselves show was not searched for in the residual.
        """
        if not isinstance(fault, Fault):
            return self.trials
        if fault.near_size is not None:
            return TESTS_PER_FAULT * sum(len(log.jumps) for log in self.evidence.logs)
        return TESTS_PER_FAULT * self.trials

    def _unexplained_at(self, stage: Stage) -> float:
        """Return the rms over rows of the error above noise, over the effort, of a stage."""
        validation = stage.baseline.validation()
        n_valid = np.maximum(validation.n_valid.sum(axis=0), 1)
        error = validation.squares.sum(axis=0) / n_valid
        noise = expected_squares(stage.baseline.sums, self.noise) / n_valid
        systematic = np.maximum(error - noise, 0.0)
        return float(
            np.sqrt(np.max(systematic / np.maximum(stage.baseline.sums.effort_power, TINY)))
        )

    def best_group(
        self, explanations: Sequence[Explanation], stage: Stage
    ) -> tuple[Explanation, ...]:
        """Return the best accepted explanation and those that predict alike or better.

        The simplest comes first.
        """
        ranked = sorted(explanations, key=lambda each: -each.gain.total)
        best = next(each for each in ranked if each.gain.significant)
        group = []
        for each in ranked:
            better = each.gain.total > best.gain.total
            if better or self._predict_alike(best, each, stage):
                group.append(each)
        group.sort(key=lambda each: each.n_sizes + 0.5 * (len(each.logs) < len(self.labels)))
        return tuple(self._physical(group, stage))

    def _predict_alike(self, best: Explanation, other: Explanation, stage: Stage) -> bool:
        """Return whether two explanations predict alike, also with less noise of positions."""
        if tied(best.gain, other.gain, stage.block_log):
            return True
        if best.gain_with_less_noise is None or other.gain_with_less_noise is None:
            return False
        smoother = self.with_less_noise
        assert smoother is not None
        block_log = Stage(smoother.evidence, smoother.labels).block_log
        return tied(best.gain_with_less_noise, other.gain_with_less_noise, block_log)

    def _physical(self, group: Sequence[Explanation], stage: Stage) -> list[Explanation]:
        """Return those of a group with which no mass, inertia or friction is negative, or all.

        Flipping the effort of one motor or those of all others predicts alike; with one of
        them the robot has negative masses.
        """
        if len(group) < 2 or not any(each.turns_efforts for each in group):
            return list(group)
        possible = []
        for each in group:
            following = self._stage_with([*stage.accepted, each], stage)
            if following is not None and not self._has_negative_values(following):
                possible.append(each)
        significant = any(each.gain.significant for each in possible)
        return possible if significant else list(group)

    def _has_negative_values(self, stage: Stage) -> bool:
        """Return whether a parameter is below its least physical value by three standard errors."""
        validation = stage.baseline.validation()
        p = stage.baseline.sums.n_parameters
        values = validation.whole[:p]
        errors = jackknife_error(validation.coefficients[:, :p])
        lowest = prior_of(self.evidence.model, self.evidence.base).lowest
        return bool((values < lowest - MIN_SIZE_T * errors).any())

    # -- continuous faults

    def _continuous(self, stage: Stage, screen: Screen) -> list[Explanation]:
        """Return continuous faults that predict better, with their sizes to first order."""
        candidates = [each for each in screen.ranked if each.fault.name != EFFORT_SCALE]
        explanations = []
        for candidate, sums in screen.sums(candidates):
            explanation = self._linear(stage, candidate, sums)
            if explanation is not None:
                explanations.append(explanation)
        return explanations

    def _with_refined_sizes(
        self, stage: Stage, explanations: Sequence[Explanation]
    ) -> list[Explanation]:
        """Return explanations with the sizes of the best ones refined, the best first."""
        refined = []
        n_refined = 0
        for each in sorted(explanations, key=lambda each: -each.gain.total):
            if not each.can_be_undone:
                refined.append(each)
            elif n_refined < MAX_REFINED:
                n_refined += 1
                better = self.refined(stage, each)
                if better is not None:
                    refined.append(better)
        return refined

    def _linear(self, stage: Stage, candidate: Candidate, sums: BlockSums) -> Explanation | None:
        """Return a candidate with its size to first order, if it predicts better."""
        columns = range(sums.n_columns)
        scope = stage.scope(candidate.logs, candidate.fault.segment)
        validation = cross_validate(sums, columns)
        trials = self._trials_of(candidate.fault)
        gain = stage.baseline.gain(sums, columns, scope, trials, validation=validation)
        if not gain.better:
            return None
        k = len(candidate.columns)
        size = validation.whole[-k:]
        std = size_errors(sums, validation, k)
        n_decisive = candidate.fault.n_decisive or k
        gain = with_size_test(gain, sums, validation, size, std, n_decisive, trials)
        std = np.hypot(std, candidate.fault.first_order_error * size)
        explanation = Explanation(
            fault=candidate.fault,
            place=candidate.place,
            logs=candidate.logs,
            size=size,
            std=std,
            gain=gain,
        )
        if not self._possible(stage, explanation):
            return None
        if candidate.fault.in_robot_file:
            matters = changes_an_effort(stage.baseline, sums, validation.whole)
        else:
            matters = changes_enough(stage.baseline, sums, validation.whole)
        return explanation if matters else None

    def _possible(self, stage: Stage, explanation: Explanation) -> bool:
        """Return whether a robot can have such a size, and the data determine it."""
        fault = explanation.fault
        assert isinstance(fault, Fault)
        size = explanation.size
        if fault.positive and size[0] <= 0:
            return False
        if fault.name == PAYLOAD_FAULT and size[0] <= 0:
            return False
        if fault.near_size is not None and not 0.5 < size[0] / fault.near_size < 2:
            return False
        if np.abs(size).max() < fault.least_size:
            return False
        if fault.max_size is not None and np.abs(size).max() > fault.max_size:
            return False
        if fault.min_samples:
            step = stage.evidence.logs[0].signals.step
            if abs(size[0]) < fault.min_samples * step:
                return False
        determined = np.abs(size) > MIN_SIZE_T * explanation.std
        return bool(determined[: fault.n_decisive].any())

    def refined(self, stage: Stage, explanation: Explanation) -> Explanation | None:
        """Find the size of a fault by undoing it on the logs until nothing of it remains.

        None if it does not predict better at that size.
        """
        fault = explanation.fault
        assert isinstance(fault, Fault)
        std = explanation.std
        step = explanation.size
        previous = np.zeros_like(step)
        last: _Undone | None = None
        smallest = np.inf  # of what is found of it on the corrected logs
        for _ in range(GAUSS_NEWTON_STEPS):
            size = _composed(fault, previous, step)
            too_large = fault.relative and np.abs(size).max() > MAX_RELATIVE_SIZE
            if too_large and fault.name != EFFORT_SCALE:
                return None
            tried = self._undone(stage, replace(explanation, size=size))
            # the gain is no measure of a step: the model has the column of what remains
            if tried is None or np.linalg.norm(tried.remaining) > smallest:
                step = step / 2
                if (np.abs(step) < GAUSS_NEWTON_TOLERANCE * std).all():
                    break
                continue
            last = tried
            std = tried.std_of_size
            smallest = float(np.linalg.norm(tried.remaining))
            previous = size
            step = tried.remaining
            if (np.abs(tried.remaining) <= GAUSS_NEWTON_TOLERANCE * tried.std).all():
                break
        if last is None:
            return None
        refined = self._explanation_of(stage, last)
        return refined if refined.gain.better and self._possible(stage, refined) else None

    def _undone(self, stage: Stage, trial: Explanation) -> _Undone | None:
        """Undo a fault of some size; return the logs without it and what remains of it.

        None if the loops do not close then.
        """
        following = self._stage_with([*stage.accepted, trial], stage)
        if following is None:
            return None
        columns = following.columns_with(trial)
        sums = block_sums(following.evidence.logs, self.labels, columns)
        validation = cross_validate(sums, range(sums.n_columns))
        n_sizes = columns[0].shape[2] - following.n_added
        return _Undone(
            trial=trial,
            sums=sums,
            validation=validation,
            remaining=validation.whole[-n_sizes:],
            std=size_errors(sums, validation, n_sizes),
        )

    def _explanation_of(self, stage: Stage, undone: _Undone) -> Explanation:
        """Return the explanation by a fault that was undone, with its gain and standard errors."""
        trial = undone.trial
        fault = trial.fault
        assert isinstance(fault, Fault)
        sums = undone.sums
        trials = self._trials_of(fault)
        gain = stage.baseline.gain(
            sums,
            range(sums.n_columns),
            stage.scope(trial.logs, trial.segment),
            trials,
            effort_scale=effort_scale(stage.evidence, trial, stage.block_log),
            validation=undone.validation,
        )
        n_decisive = fault.n_decisive or len(trial.size)
        gain = with_size_test(
            gain, sums, undone.validation, trial.size, undone.std_of_size, n_decisive, trials
        )
        return replace(trial, std=undone.std_of_size, gain=gain)

    def _gain_over(
        self, without: Stage, explanations: Sequence[Explanation], last: Explanation
    ) -> Gain | None:
        """Return the gain of one explanation over a stage that lacks only it."""
        following = self._stage_with(explanations, without)
        if following is None:
            return None
        sums = following.baseline.sums
        return without.baseline.gain(
            sums,
            range(sums.n_columns),
            without.scope(last.logs, last.segment),
            self._trials_of(last.fault),
            effort_scale=effort_scale(without.evidence, last, without.block_log),
        )

    # -- efforts of one motor that are scaled by any factor

    def _effort_factors(
        self, stage: Stage, screen: Screen, unexplained: float
    ) -> list[Explanation]:
        """Return better factors, also negative ones, of the effort of single motors."""
        guesses = self._small_factors(stage, screen)
        if unexplained > MIN_DISCRETE_ERROR:
            guesses = self._any_factors(stage)
        explanations = []
        for guess in guesses:
            if abs(guess.size[0]) < SCALE_CHANGE:
                continue
            if any(each.same_as(guess) for each in stage.accepted):
                continue
            if not self._predicts_better(stage, guess):
                continue
            better = self.refined(stage, guess)
            if better is not None:
                explanations.append(better)
        return explanations

    def _predicts_better(self, stage: Stage, guess: Explanation) -> bool:
        """Return whether an effort divided by the guessed factor predicts better.

        The sums tell, without undoing it on the logs: refining the size costs a hundred times as
        much, and of guesses that do not predict better none did with a refined size.
        """
        row = stage.evidence.model.rows.index(guess.place)
        factor = float(1 + guess.size[0])
        scope = stage.scope(guess.logs)
        scale = np.ones((len(scope), len(stage.evidence.model.rows)))
        scale[scope, row] = abs(factor)
        sums = stage.baseline.sums.with_scaled_effort(row, scope, 1 / factor)
        columns = range(sums.n_columns)
        return stage.baseline.gain(sums, columns, scope, self.trials, effort_scale=scale).better

    def _small_factors(self, stage: Stage, screen: Screen) -> list[Explanation]:
        """Return factors of efforts by first order, where they lower the squared error."""
        candidates = [each for each in screen.ranked if each.fault.name == EFFORT_SCALE]
        guesses = []
        for candidate, sums in screen.sums(candidates):
            size = row_weights(sums, range(sums.n_columns))[1][-1:]
            guesses.append(_guessed(stage, candidate.fault, candidate.place, candidate.logs, size))
        return guesses

    def _any_factors(self, stage: Stage) -> list[Explanation]:
        """Return the factor of every motor's effort with which all motors agree best."""
        faults = [fault for fault in self.faults if fault.name == EFFORT_SCALE]
        guesses = []
        for fault in faults:
            for row, place in enumerate(fault.places(stage.evidence)):
                for scope in self._scopes():
                    factor = effort_factor(stage.baseline.sums, row, stage.scope(scope))
                    size = np.array([factor - 1])
                    guesses.append(_guessed(stage, fault, place, scope, size))
        return guesses

    # -- discrete faults

    def discrete_explanations(self, stage: Stage) -> list[Explanation]:
        """Return discrete faults that predict better, tried on a thinned copy of the logs."""
        if not self.discrete or len(stage.block_log) < MIN_DISCRETE_BLOCKS:
            return []
        thin, labels = thinned(stage.evidence, self.labels)
        trials = DiscreteTrials(Stage(thin, labels, stage.added, evidence=thin), self.trials)
        explanations = []
        for fault in self.discrete:
            if any(each.fault is fault for each in stage.accepted):
                continue
            for scope in self._scopes():
                explanation = trials.explanation(fault, scope)
                if explanation is not None:
                    explanations.append(explanation)
        return explanations

    def _on_all_samples(
        self, stage: Stage, explanations: Sequence[Explanation]
    ) -> list[Explanation]:
        """Return discrete explanations with gains of all samples where these can be compared.

        A thinned log is not averaged, so its noise is higher and gains are lower than those of
        continuous faults. Faults of positions change which equations are valid: their gains
        are not compared, but they have to lower the error of all samples too.
        """
        compared: list[Explanation] = []
        for each in sorted(explanations, key=lambda each: -each.gain.total):
            assert isinstance(each.fault, DiscreteFault)
            if len(compared) >= MAX_REFINED:
                compared.append(each)
                continue
            gain = self._gain_over(stage, [*stage.accepted, each], each)
            if gain is None or gain.after >= gain.before:
                continue
            comparable = gain.better and not each.fault.changes_positions
            compared.append(replace(each, gain=gain) if comparable else each)
        return compared


def _guessed(
    stage: Stage, fault: Fault, place: str, logs: tuple[int, ...], size: FloatArray
) -> Explanation:
    """Return an explanation whose size is a guess."""
    return Explanation(
        fault=fault, place=place, logs=logs, size=size, std=0 * size, gain=no_gain(stage)
    )


def _composed(fault: Fault, size: FloatArray, step: FloatArray) -> FloatArray:
    """Return the size of a fault of which a part was undone and a further step was found."""
    if fault.relative:
        return np.asarray((1 + size) * (1 + step) - 1)
    return np.asarray(size + step)


def no_gain(stage: Stage) -> Gain:
    """Return the gain of nothing."""
    blocks = np.zeros(len(stage.block_log))
    return Gain(
        blocks=blocks,
        scope=np.ones(len(blocks), bool),
        mean=0.0,
        t=0.0,
        threshold=np.inf,
        logs=np.zeros(1),
        outside=0.0,
        before=np.nan,
        after=np.nan,
        explained=0.0,
    )
