"""The search for explanations: accept the best, undo it, repeat; then leave each out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from gough.core.arrays import TINY
from gough.core.blas import one_blas_thread
from gough.core.progress import portion
from gough.verdict.acceptance import MATERIAL_EFFORT_CHANGE, TESTS_PER_FAULT
from gough.verdict.blocks import block_labels, expected_squares
from gough.verdict.continuous_trials import (
    first_order,
    guessed_to_first_order,
    on_whole_logs,
    refined,
)
from gough.verdict.discrete_faults import DiscreteFault, discrete_faults
from gough.verdict.discrete_trials import (
    MIN_DISCRETE_ERROR,
    discrete_explanations,
    on_all_samples,
)
from gough.verdict.effort_factors import (
    better_factors,
    factors_of_any_size,
    factors_to_first_order,
)
from gough.verdict.equivalents import best_group
from gough.verdict.evidence import Evidence
from gough.verdict.explanation import Explanation
from gough.verdict.faults import EFFORT_SCALE, Fault, all_faults
from gough.verdict.geometry_faults import geometry_faults
from gough.verdict.odd_logs import logs_tried_alone
from gough.verdict.period_changes import changes_between_periods
from gough.verdict.screen import Screen, count_trials
from gough.verdict.segments import lost_counts, payload_segments, segment_trials
from gough.verdict.stage import Stage

MAX_EXPLANATIONS = 4  # accepted one after the other
# Of the error that an explanation takes away, what it has to take away
# with less noise of the positions. At half the cut-off, the error by
# noise of velocities falls to 0.35, of accelerations to 0.18.
SAME_EXPLAINED_FRACTION = 0.5
MAX_REFINED = 6  # candidates whose size is refined by undoing them
# Of the gain of the best accepted explanation, from which others are
# compared with it.
ALTERNATIVE_GAIN = 0.5

# explanations that predict alike; the first one is undone
Group = tuple[Explanation, ...]


class Search:
    """Explanations of some evidence, one after the other.

    Args:
        evidence: The identified model and its logs.
        faults: Continuous faults to try; all registered ones by
            default.
        with_discrete: Also try signs, channels, units and gravity.
        thorough: Try every fault, also if the error is within the
            noise.
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
        self.first = Stage(evidence, self.labels, (), evidence)  # the logs as they are
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
        self.single_logs = logs_tried_alone(self.first)
        self.noise = evidence.least_noise_power()

    @cached_property
    def geometry(self) -> list[Fault]:
        """Errors of the geometry."""
        return geometry_faults(self.evidence)

    @cached_property
    def jumps(self) -> list[Fault]:
        """Counts that were lost where a position jumps."""
        return lost_counts(self.evidence)

    @property
    def scopes(self) -> list[tuple[int, ...]]:
        """Sets of logs that a fault of the recording may be in."""
        every = tuple(range(len(self.evidence.logs)))
        return [every, *((k,) for k in self.single_logs)]

    @one_blas_thread
    def run(self) -> tuple[list[Group], Stage]:
        """Return groups of explanations that predict alike, and the stage after them.

        The best accepted explanation is undone, and the next one is
        looked for on the logs without it. In the end each is left out
        once, to see whether it is still needed.
        """
        stage = self.first
        groups: list[Group] = []
        if self.with_discrete:
            self.from_periods = tuple(changes_between_periods(self.evidence))
            groups += [(each,) for each in self.from_periods]
            stage = stage.with_others(self.from_periods) or stage
        while len(groups) < MAX_EXPLANATIONS:
            # how many explanations there will be is not known; most
            # logs have none or one
            with portion(1 - 0.5 ** len(groups), 1 - 0.5 ** (len(groups) + 1)):
                group = self.best_explanations(stage)
            following = stage.followed_by(group[0]) if group else None
            if following is None:
                break
            groups.append(group)
            stage = following
        return self._still_needed(groups, stage)

    def best_explanations(self, stage: Stage) -> Group:
        """Return the best explanation that the rule accepts at a stage and those that do as well.

        Empty if it accepts none.
        """
        explanations = beyond_first_order(self.explanations_at(stage), stage.accepted)
        if not _any_accepted(explanations):
            return ()
        smooth = None if self.first_with_less_noise is None else self._with_less_noise(stage)
        if smooth is not None:
            explanations = self._better_with_less_noise(explanations, smooth)
        if not _any_accepted(explanations):
            return ()
        return best_group(explanations, stage, smooth)

    @cached_property
    def first_with_less_noise(self) -> Stage | None:
        """The logs with less noise of the positions; None if none of them can have less."""
        smoother = [log.with_less_position_noise() for log in self.evidence.logs]
        if all(smooth is None for smooth in smoother):
            return None
        logs = []
        for log, smooth in zip(self.evidence.logs, smoother):
            logs.append(log if smooth is None else smooth)
        evidence = replace(self.evidence, logs=tuple(logs)).refitted()
        return Stage(evidence, block_labels(evidence.logs), (), evidence)

    def _with_less_noise(self, stage: Stage) -> Stage | None:
        """Return a stage with less noise of the positions; None if loops do not close."""
        first = self.first_with_less_noise
        return None if first is None else first.with_others(stage.accepted)

    def _better_with_less_noise(
        self, explanations: Sequence[Explanation], smooth: Stage
    ) -> list[Explanation]:
        """Return the explanations that also predict better where positions have less noise.

        Noise of positions enters the efforts that the model predicts. A
        wrong geometry that lowers the coupling between joints also
        lowers this error, and predicts better without being true. What
        is true predicts better at any cut-off, and takes away about the
        same error.
        """
        kept = []
        for each in explanations:
            if each.discrete:
                kept.append(each)
                continue
            same_error = SAME_EXPLAINED_FRACTION * each.gain.explained
            least = min(MATERIAL_EFFORT_CHANGE, same_error)
            gain = smooth.gain_of(each, self._tests_of(each.fault), least)
            if gain is not None and gain.better_on_average:
                kept.append(replace(each, gain_with_less_noise=gain))
        return kept

    def _still_needed(self, groups: list[Group], stage: Stage) -> tuple[list[Group], Stage]:
        """Leave each explanation out once; keep those that are still accepted."""
        if len(groups) < 2:
            return groups, stage
        kept = list(groups)
        for group in groups:
            if group[0] in self.from_periods:
                continue
            without = self.first.with_others([each[0] for each in kept if each is not group])
            if without is None or len(kept) < 2:
                continue
            if not self._is_needed(without, group):
                kept.remove(group)
        if len(kept) < len(groups):
            shorter = self.first.with_others([each[0] for each in kept])
            if shorter is not None:
                return kept, shorter
        return kept, stage

    def _is_needed(self, without: Stage, group: Group) -> bool:
        """Return whether the rule still accepts one of a group beside the other explanations."""
        for member in group:
            gain = without.gain_of(member, self._tests_of(member.fault))
            if gain is None:
                continue
            by_size = member.gain.size_t > member.gain.size_threshold
            if gain.significant or (gain.better and by_size):
                return True
        return False

    def explanations_at(self, stage: Stage) -> list[Explanation]:
        """Return the explanations that the rule accepts at a stage, and those that do as well.

        What predicts as well as an accepted one, but less evenly over
        the blocks, may be the cause as well.
        """
        unexplained = self._unexplained_at(stage)
        within_noise = unexplained <= MATERIAL_EFFORT_CHANGE
        if within_noise and not self.thorough and not self._shows_recording_fault(stage):
            return []
        screens = self._all_screens(stage)
        if unexplained > MIN_DISCRETE_ERROR:
            factors = factors_of_any_size(stage, self.faults, self.scopes)
            explanations = better_factors(stage, factors, self._n_tests)
            discrete = discrete_explanations(stage, self.discrete, self.scopes, self.trials)
            explanations += on_all_samples(stage, discrete, self.trials)
        else:
            factors = factors_to_first_order(screens[0])
            explanations = better_factors(stage, factors, self._n_tests)
        candidates = [self._to_first_order(screen) for screen in screens]
        accepted = [each for each in explanations if each.gain.significant]
        for of_screen in candidates:
            accepted += [each for each in of_screen if each.gain.significant]
        if not accepted:
            return self._large_faults(screens[0])
        least = ALTERNATIVE_GAIN * max(each.gain.total for each in accepted)
        alternatives = []
        for screen, of_screen in zip(screens, candidates):
            alternatives += self._alternatives(screen, of_screen, least)
        return explanations + self._with_refined_sizes(stage, alternatives)

    def _shows_recording_fault(self, stage: Stage) -> bool:
        """Return whether a fault of the recording is accepted: within the noise, others wait."""
        likely = [each for each in self.faults if each.undo or each.unnoticed]
        self.screen = Screen(stage, likely, self.single_logs, self.screen)
        self.trials = self.screen.trials
        factors = factors_to_first_order(self.screen)
        return _any_accepted(self._to_first_order(self.screen)) or _any_accepted(
            better_factors(stage, factors, self._n_tests)
        )

    def _all_screens(self, stage: Stage) -> list[Screen]:
        """Return the screens of all continuous faults, and count everything that is tried."""
        self.screen = Screen(stage, self.faults, self.single_logs, self.screen)
        screens = [self.screen]
        self.trials = self.screen.trials + len(self.discrete) * len(self.scopes)
        if self.with_discrete:
            more = [*self.geometry, *self.jumps, *payload_segments(stage)]
            self.more_screen = Screen(stage, more, (), self.more_screen)
            screens.append(self.more_screen)
            self.trials += self.more_screen.trials
        return screens

    @cached_property
    def trials_of_all_faults(self) -> int:
        """Everything that is tried where the error is above the noise."""
        if not self.with_discrete:
            return count_trials(self.faults, self.evidence, self.single_logs)
        continuous = count_trials([*self.faults, *self.geometry], self.evidence, self.single_logs)
        discrete = len(self.discrete) * len(self.scopes)
        return continuous + discrete + segment_trials(self.evidence)

    @property
    def _n_tests(self) -> int:
        """Tests of all continuous faults: each is tested by its gain and by its size."""
        return TESTS_PER_FAULT * self.trials

    def _tests_of(self, fault: Fault | DiscreteFault) -> int:
        """Return how many tests a fault is the best of: of its gain, and of its size if it has one.

        What the signals themselves show was not searched for in the
        residual.
        """
        if not isinstance(fault, Fault):
            return self.trials
        if fault.near_size is not None:
            return TESTS_PER_FAULT * sum(len(log.jumps) for log in self.evidence.logs)
        return self._n_tests

    def _unexplained_at(self, stage: Stage) -> float:
        """Return the largest rms error of a row above noise, over the effort, of a stage."""
        validation = stage.baseline.validation()
        n_valid = np.maximum(validation.n_valid.sum(axis=0), 1)
        error = validation.squares.sum(axis=0) / n_valid
        noise = expected_squares(stage.baseline.sums, self.noise) / n_valid
        systematic = np.maximum(error - noise, 0.0)
        relative = systematic / np.maximum(stage.baseline.sums.effort_power, TINY)
        return float(np.sqrt(np.max(relative)))

    def _to_first_order(self, screen: Screen) -> list[Explanation]:
        """Return continuous faults by which blocks are predicted better, sizes to first order.

        Whole logs are compared for those whose gain is beyond chance.
        """
        stage = screen.stage
        candidates = [each for each in screen.ranked if each.fault.name != EFFORT_SCALE]
        explanations = []
        for candidate, sums in screen.sums(candidates):
            n_tests = self._tests_of(candidate.fault)
            explanation = first_order(stage, candidate, sums, n_tests)
            if explanation is None:
                continue
            if explanation.gain.beyond_chance:
                gain = stage.baseline.with_whole_logs(explanation.gain, sums)
                explanation = replace(explanation, gain=gain)
            explanations.append(explanation)
        return explanations

    def _alternatives(
        self, screen: Screen, explanations: Sequence[Explanation], least: float
    ) -> list[Explanation]:
        """Return the accepted explanations of a screen and better ones of at least some gain."""
        alternatives = []
        for each in explanations:
            if each.gain.beyond_chance:
                if each.gain.significant or (each.gain.better and each.gain.total > least):
                    alternatives.append(each)
            elif each.gain.total > least:
                better = on_whole_logs(screen.stage, screen, each)
                if better is not None:
                    alternatives.append(better)
        return alternatives

    def _with_refined_sizes(
        self, stage: Stage, explanations: Sequence[Explanation]
    ) -> list[Explanation]:
        """Return explanations with the sizes of the best ones refined, the best first."""
        kept = []
        n_refined = 0
        for each in sorted(explanations, key=lambda each: -each.gain.total):
            if not each.can_be_undone:
                kept.append(each)
            elif n_refined < MAX_REFINED:
                n_refined += 1
                better = refined(stage, each, self._tests_of(each.fault))
                if better is not None:
                    kept.append(better)
        return kept

    def _large_faults(self, screen: Screen) -> list[Explanation]:
        """Return the faults that the rule accepts only with their sizes refined.

        The derivative by the size does not describe a large fault: at
        the size to first order it may predict worse than none. The
        candidates that lower the squared error most are tried.
        """
        undone = [each for each in screen.ranked if each.fault.undo is not None]
        candidates = [each for each in undone if each.fault.name != EFFORT_SCALE][:MAX_REFINED]
        explanations = []
        for candidate, sums in screen.sums(candidates):
            guess = guessed_to_first_order(screen.stage, candidate, sums)
            better = refined(screen.stage, guess, self._tests_of(candidate.fault))
            if better is not None:
                explanations.append(better)
        return explanations


def beyond_first_order(
    explanations: Sequence[Explanation], accepted: Sequence[Explanation]
) -> list[Explanation]:
    """Return the explanations that explain more than accepted sizes of first order may leave.

    A wrong point whose size is 10 % off leaves 10 % of its error, which
    other faults resemble.

    Args:
        explanations: Of what remains.
        accepted: Explanations before them.
    """
    remaining = 0.0
    for each in accepted:
        if isinstance(each.fault, Fault):
            remaining = max(remaining, each.fault.first_order_error * each.gain.explained)
    return [each for each in explanations if each.gain.explained > remaining]


def _any_accepted(explanations: Sequence[Explanation]) -> bool:
    """Return whether the rule accepts one of some explanations."""
    return any(each.gain.significant for each in explanations)
