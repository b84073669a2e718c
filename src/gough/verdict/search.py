"""The search for explanations: accept the best, undo it, repeat; then leave each out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.core.statistics import robust_scale
from gough.verdict.acceptance import (
    MATERIAL_EFFORT_CHANGE,
    MIN_DISCRETE_BLOCKS,
    Baseline,
    Gain,
    is_material,
    jackknife_error,
    tied,
)
from gough.verdict.blocks import (
    ERROR_FLOOR,
    BlockSums,
    block_labels,
    block_sums,
    cross_validate,
    row_weights,
    solve_normal_equations,
)
from gough.verdict.discrete_faults import DiscreteFault, discrete_faults, within_limits
from gough.verdict.faults import (
    EFFORT_SCALE,
    MAX_RELATIVE_SIZE,
    PAYLOAD_FAULT,
    Fault,
    all_faults,
)
from gough.verdict.fitted_log import Evidence, FittedLog
from gough.verdict.geometry_faults import geometry_faults
from gough.verdict.motor_signals import MotorSignals
from gough.verdict.noise import NoisePower, mean_noise_power

MAX_EXPLANATIONS = 4  # accepted one after the other
MAX_LOGS_BY_ONE = 4  # logs up to which a fault is tried in every single one
MIN_LOGS_TO_COMPARE = 3  # below it no log can be called odd
ODD_LOG_RATIO = 2.0  # error over that of the median log
ODD_LOG_DEVIATIONS = 6.0  # robust standard deviations above the median
MAX_SCREENED = 80  # candidates that are cross-validated; the others explain less
MIN_SCREENED_Z = 4.0  # standard errors of a size, as if noise were white, to be cross-validated
MAX_REFINED = 4  # candidates whose size is refined by undoing them, of those accepted
GAUSS_NEWTON_STEPS = 8
GAUSS_NEWTON_TOLERANCE = 0.1  # standard errors of the size
MIN_SIZE_T = 3.0  # size over its standard error
# Error above noise, over the effort, from which signs, channels and units are tried.
MIN_DISCRETE_ERROR = 0.02
DISCRETE_SAMPLES = 1200  # of all logs together on which discrete faults are tried
# An effort scale is searched between these factors, of either sign.
FACTOR_RANGE = (1e-4, 1e4)
FACTOR_GRID = 33
SCALE_CHANGE = 0.02  # relative: smaller effort scales are not searched


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """A fault with its size, and how much better the data are predicted with it."""

    fault: Fault | DiscreteFault
    place: str
    logs: tuple[int, ...]  # numbers of the logs it is in
    size: FloatArray  # (k,); empty for a discrete fault without a factor
    std: FloatArray  # standard errors of the size, (k,)
    gain: Gain

    @property
    def name(self) -> str:
        """Name of the fault."""
        return self.fault.name

    @property
    def discrete(self) -> bool:
        """Whether it is there or not, without a size to be estimated."""
        return isinstance(self.fault, DiscreteFault)

    @property
    def n_sizes(self) -> int:
        """Numbers that were fitted."""
        return 0 if self.discrete else len(self.size)

    def same_as(self, other: Explanation) -> bool:
        """Return whether it is the same fault at the same place."""
        return self.name == other.name and self.place == other.place and self.logs == other.logs

    def undone(self, number: int, log: FittedLog, signals: MotorSignals) -> MotorSignals:
        """Return the signals of a log without the fault."""
        if number not in self.logs:
            return signals
        if isinstance(self.fault, DiscreteFault):
            return self.fault.undo(signals)
        if self.fault.undo is None:
            return signals
        return self.fault.undo(log, signals, self.place, self.size)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A continuous fault at a place, in some logs, before its size is known."""

    fault: Fault
    place: str
    logs: tuple[int, ...]
    columns: tuple[int, ...]  # in the stacked columns of its stage

    def is_one_of(self, explanations: Sequence[Explanation]) -> bool:
        """Return whether the fault was accepted at this place already."""
        places = [(each.name, each.place) for each in explanations]
        return (self.fault.name, self.place) in places


def corrected(evidence: Evidence, explanations: Sequence[Explanation]) -> Evidence | None:
    """Return the logs with faults undone, fitted again; None if loops do not close."""
    if not any(each.discrete or _undo_of(each) for each in explanations):
        return evidence
    logs = []
    for number, log in enumerate(evidence.logs):
        signals = log.signals
        for each in explanations:
            signals = each.undone(number, log, signals)
        changed = log
        if signals is not log.signals:
            new = log.with_signals(signals)
            if new is None:
                return None
            changed = new
        logs.append(changed)
    return replace(evidence, logs=tuple(logs)).refitted()


def _undo_of(explanation: Explanation) -> bool:
    fault = explanation.fault
    return isinstance(fault, Fault) and fault.undo is not None


def effort_scale(evidence: Evidence, explanation: Explanation, block_log: IntArray) -> FloatArray:
    """Return the factor from the corrected to the recorded effort by block and row, (b, r).

    One where the rows are not motors.
    """
    scale = np.ones((len(block_log), len(evidence.model.rows)))
    if evidence.model.loops.redundant:
        return scale
    number = explanation.logs[0]
    log = evidence.logs[number]
    signals = replace(log.signals, deviations=log.signals.deviations[:0])
    zeros = replace(signals, effort=np.zeros(log.effort.shape))
    ones = replace(signals, effort=np.ones(log.effort.shape))
    zero = explanation.undone(number, log, zeros).effort
    one = explanation.undone(number, log, ones).effort
    change = np.abs(one - zero).mean(axis=0)
    scale[np.isin(block_log, explanation.logs)] = 1 / np.maximum(change, TINY)
    return scale


class Stage:
    """Logs as corrected so far, with the sums that candidates are compared on.

    Attributes:
        original: The logs as they were.
        accepted: Explanations accepted so far.
        evidence: The logs with these undone.
    """

    def __init__(
        self,
        original: Evidence,
        labels: Sequence[IntArray],
        accepted: Sequence[Explanation] = (),
        evidence: Evidence | None = None,
    ) -> None:
        self.original = original
        self.labels = list(labels)
        self.accepted = tuple(accepted)
        if evidence is None:
            evidence = corrected(original, accepted)
            assert evidence is not None
        self.evidence = evidence

    @property
    def added(self) -> tuple[Explanation, ...]:
        """Accepted explanations that are columns of the model."""
        added = []
        for each in self.accepted:
            if isinstance(each.fault, Fault) and each.fault.undo is None:
                added.append(each)
        return tuple(added)

    @cached_property
    def block_log(self) -> IntArray:
        """Log of each block, (b,)."""
        numbers = np.zeros(max(int(label.max()) for label in self.labels) + 1, np.int64)
        for k, label in enumerate(self.labels):
            numbers[label] = k
        return numbers

    def scope(self, logs: Sequence[int]) -> BoolArray:
        """Return the blocks of some logs, (b,)."""
        return np.isin(self.block_log, logs)

    def added_columns(self, log: FittedLog, number: int) -> FloatArray:
        """Return the columns of accepted explanations at the samples of a regression."""
        columns = [np.zeros((len(log.regression), len(log.model.rows), 0))]
        for each in self.added:
            assert isinstance(each.fault, Fault)
            shape = log.resampled(each.fault.sensitivity(log, each.place))
            columns.append(shape * (number in each.logs))
        return np.concatenate(columns, axis=2)

    def columns(self, faults: Sequence[tuple[Fault, str]]) -> list[FloatArray]:
        """Return accepted columns, then those of some faults, (t, r, k) of each log."""
        stacked = []
        for number, log in enumerate(self.evidence.logs):
            columns = [self.added_columns(log, number)]
            for fault, place in faults:
                columns.append(log.resampled(fault.sensitivity(log, place)))
            stacked.append(np.concatenate(columns, axis=2))
        return stacked

    @property
    def n_added(self) -> int:
        """Columns of accepted explanations."""
        return sum(len(each.size) for each in self.added)

    @cached_property
    def baseline(self) -> Baseline:
        """The model with what was accepted so far."""
        sums = block_sums(self.evidence.logs, self.labels, self.columns([]))
        return Baseline(sums, range(sums.n_columns))


class Screen:
    """All continuous candidates of a stage, ranked by how much they lower the squared error."""

    def __init__(self, stage: Stage, faults: Sequence[Fault], single_logs: Sequence[int]) -> None:
        self.stage = stage
        self.single_logs = tuple(single_logs)
        self.candidates: list[Candidate] = []
        self.trials = 0
        logs = stage.evidence.logs
        stacked = [[stage.added_columns(log, k)] for k, log in enumerate(logs)]
        first = stage.n_added
        for fault in faults:
            columns: tuple[int, ...] = ()
            for place in fault.places(stage.evidence):
                if (
                    not columns or fault.name != PAYLOAD_FAULT
                ):  # that of a payload is the same in all
                    for own, log in zip(stacked, logs):
                        own.append(log.resampled(fault.sensitivity(log, place)))
                    columns = tuple(range(first, first + stacked[0][-1].shape[2]))
                    first += len(columns)
                self._add(fault, place, columns)
        self.stacked = [np.concatenate(own, axis=2) for own in stacked]
        self.ranked = self._rank()

    def _add(self, fault: Fault, place: str, columns: tuple[int, ...]) -> None:
        """Add a fault at a place in all its scopes."""
        evidence = self.stage.evidence
        n_logs = len(evidence.logs)
        names = [log.name for log in evidence.logs]
        scopes = []
        if "all logs" in fault.scopes or n_logs == 1:
            scopes.append(tuple(range(n_logs)))
        if "one log" in fault.scopes:
            for k in self.single_logs:
                if place not in names or names[k] == place:
                    scopes.append((k,))
        for scope in scopes:
            candidate = Candidate(fault=fault, place=place, logs=scope, columns=columns)
            self.trials += fault.searched(evidence, place)
            if not candidate.is_one_of(self.stage.accepted):
                self.candidates.append(candidate)

    def _rank(self) -> list[Candidate]:
        """Return the candidates worth a cross-validation, the best first."""
        baseline = self.stage.baseline
        weights = baseline.validation().weights
        n_columns = self.stacked[0].shape[2]
        n_model = baseline.sums.n_columns
        first_candidate = baseline.sums.n_parameters
        grams = []
        for log, columns in zip(self.stage.evidence.logs, self.stacked):
            regression = log.regression.select(log.fitted.base.names)
            effort = regression.effort[:, :, None]
            stacked = np.concatenate([regression.regressor, columns, effort], axis=2)
            stacked = stacked * (regression.valid * np.sqrt(weights))[:, :, None]
            flat = stacked.reshape(-1, stacked.shape[2])
            grams.append(flat.T @ flat)
        total = np.sum(grams, axis=0)
        model = list(range(n_model))
        values = solve_normal_equations(total[np.ix_([*model, -1], [*model, -1])])
        vector = np.zeros(len(total))
        vector[model] = -values
        vector[-1] = 1.0
        scale = np.sqrt(np.maximum(np.diag(total)[model], TINY))
        unit = total[np.ix_(model, model)] / np.outer(scale, scale) + 1e-9 * np.eye(len(model))
        inverse = np.linalg.inv(unit)
        assert n_columns >= self.stage.n_added
        z = []
        for candidate in self.candidates:
            own = [first_candidate + k for k in candidate.columns]
            inside = np.sum([grams[k] for k in candidate.logs], axis=0)
            score = inside[own] @ vector
            cross = inside[np.ix_(own, model)] / scale
            free = inside[np.ix_(own, own)] - cross @ inverse @ cross.T
            z.append(_screen_statistic(score, free, np.diag(inside)[own]))
        order = np.argsort(z)[::-1]
        kept = [int(k) for k in order[:MAX_SCREENED] if z[k] > MIN_SCREENED_Z]
        return [self.candidates[k] for k in kept]

    def sums(self, candidates: Sequence[Candidate]) -> dict[Candidate, BlockSums]:
        """Return the sums of the model with each candidate, zero outside its scope."""
        stage = self.stage
        needed = sorted({k for candidate in candidates for k in candidate.columns})
        chosen = [*range(stage.n_added), *needed]
        columns = [each[:, :, chosen] for each in self.stacked]
        sums = block_sums(stage.evidence.logs, stage.labels, columns)
        first = sums.n_parameters + stage.n_added
        restricted = {}
        for candidate in candidates:
            place = [first + needed.index(k) for k in candidate.columns]
            model = [*range(first), *place, sums.n_columns]
            grams = sums.grams[:, :, model][:, :, :, model]
            outside = ~stage.scope(candidate.logs)
            own = np.arange(first, first + len(place))
            for k in own:
                grams[outside, :, k, :] = 0.0
                grams[outside, :, :, k] = 0.0
            restricted[candidate] = replace(sums, grams=grams)
        return restricted


def _screen_statistic(score: FloatArray, free: FloatArray, power: FloatArray) -> float:
    """Return the root of the fall of the squared error, in units of the noise.

    Args:
        score: Products of the columns with the residual, (k,).
        free: Gram matrix of what the model does not absorb of the columns, (k, k).
        power: Squares of the columns, (k,).
    """
    seen = np.diag(free) > 1e-8 * np.maximum(power, TINY)
    if not seen.any():
        return 0.0
    scale = np.sqrt(np.diag(free)[seen])
    unit = free[np.ix_(seen, seen)] / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(unit)
    large = values > 1e-8
    projected = vectors[:, large].T @ (score[seen] / scale)
    return float(np.sqrt(np.sum(projected**2 / values[large])))


def log_errors(evidence: Evidence, labels: Sequence[IntArray]) -> FloatArray:
    """Return the mean over rows of log(error / effort) of each log, left out of the fit, (l,)."""
    stage = Stage(evidence, labels)
    validation = stage.baseline.validation(stage.block_log)
    n_valid = np.maximum(validation.n_valid, 1)
    relative = validation.squares / n_valid / np.maximum(stage.baseline.sums.effort_power, TINY)
    return np.asarray(0.5 * np.log(relative + ERROR_FLOOR**2).mean(axis=1))


def odd_logs(errors: FloatArray) -> list[int]:
    """Return the logs that are predicted much worse than the others, worst first.

    More than twice as badly as the median log, and by six robust standard deviations.
    """
    if len(errors) < MIN_LOGS_TO_COMPARE:
        return []
    above = errors - np.median(errors)
    scatter = max(float(robust_scale(above)), TINY)
    odd = np.flatnonzero((above > np.log(ODD_LOG_RATIO)) & (above > ODD_LOG_DEVIATIONS * scatter))
    return [int(k) for k in odd[np.argsort(-above[odd])]]


def logs_tried_alone(evidence: Evidence, labels: Sequence[IntArray]) -> tuple[int, ...]:
    """Return the logs in which a fault is tried alone: every one of a few, else the odd ones."""
    n_logs = len(evidence.logs)
    if n_logs < 2:
        return ()
    if n_logs <= MAX_LOGS_BY_ONE:
        return tuple(range(n_logs))
    return tuple(odd_logs(log_errors(evidence, labels))[:MAX_LOGS_BY_ONE])


def evidence_noise(evidence: Evidence) -> NoisePower | None:
    """Return the noise power of the rows of all logs; None if it is not known."""
    regressions = []
    predicted = []
    for log in evidence.logs:
        regression = log.regression.select(evidence.base.names)
        regressions.append(regression)
        predicted.append(regression.regressor @ evidence.fitted.values)
    return mean_noise_power(regressions, predicted)


def least_noise(evidence: Evidence) -> FloatArray:
    """Return the least noise power that the rows of all logs can have, zero if unknown, (r,)."""
    power = evidence_noise(evidence)
    if power is None:
        return np.zeros(len(evidence.model.rows))
    return power.least


class Search:
    """Explanations of some evidence, one after the other.

    Args:
        evidence: The identified model and its logs.
        faults: Continuous faults to try; all registered ones by default.
        with_discrete: Also try signs, channels, units and gravity.
    """

    def __init__(
        self,
        evidence: Evidence,
        faults: Sequence[Fault] | None = None,
        *,
        with_discrete: bool = True,
    ) -> None:
        self.evidence = evidence
        self.labels = block_labels(evidence.logs)
        self.faults = all_faults(evidence) if faults is None else list(faults)
        self.with_discrete = with_discrete
        self.discrete: list[DiscreteFault] = []
        if with_discrete:
            self.discrete = discrete_faults(evidence.model.mechanism)
        self.trials = 1
        self.screen: Screen | None = None  # of the last stage
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
        while len(groups) < MAX_EXPLANATIONS:
            accepted = self.accepted_at(stage)
            if not accepted:
                break
            group = self.best_group(accepted, stage)
            groups.append(group)
            following = self._stage_with([each[0] for each in groups])
            if following is None:
                groups.pop()
                break
            stage = following
        return self._still_needed(groups, stage)

    def _scopes(self) -> list[tuple[int, ...]]:
        """Return the sets of logs that a fault of the recording may be in."""
        every = tuple(range(len(self.evidence.logs)))
        return [every, *((k,) for k in self.single_logs)]

    def _stage_with(self, explanations: Sequence[Explanation]) -> Stage | None:
        evidence = corrected(self.evidence, explanations)
        if evidence is None:
            return None
        return Stage(self.evidence, self.labels, explanations, evidence)

    def _still_needed(
        self, groups: list[tuple[Explanation, ...]], stage: Stage
    ) -> tuple[list[tuple[Explanation, ...]], Stage]:
        """Leave each explanation out once; keep those that are still accepted."""
        if len(groups) < 2:
            return groups, stage
        kept = list(groups)
        for group in groups:
            others = [each[0] for each in kept if each is not group]
            without = self._stage_with(others)
            if without is None or len(kept) < 2:
                continue
            gain = self._gain_over(without, [*others, group[0]], group[0])
            if gain is None or not gain.significant:
                kept.remove(group)
        if len(kept) < len(groups):
            shorter = self._stage_with([each[0] for each in kept])
            if shorter is not None:
                return kept, shorter
        return kept, stage

    def accepted_at(self, stage: Stage) -> list[Explanation]:
        """Return all explanations that the rule accepts at a stage."""
        screen = Screen(stage, self.faults, self.single_logs)
        self.screen = screen
        self.trials = screen.trials + len(self.discrete) * (1 + len(self.single_logs))
        unexplained = self._unexplained_at(stage)
        above_noise = unexplained > MATERIAL_EFFORT_CHANGE
        shapes = []
        if above_noise and self.with_discrete:
            shapes = self.geometry
            self.trials += len(shapes)
        explanations = self._continuous(stage, screen)
        if shapes:
            explanations += self._continuous(stage, Screen(stage, shapes, ()))
        if above_noise:
            explanations += self._effort_factors(stage)
        if unexplained > MIN_DISCRETE_ERROR:
            explanations += self._discrete(stage)
        return explanations

    def _unexplained_at(self, stage: Stage) -> float:
        """Return the rms over rows of the error above noise, over the effort, of a stage."""
        validation = stage.baseline.validation()
        n_valid = np.maximum(validation.n_valid.sum(axis=0), 1)
        error = validation.squares.sum(axis=0) / n_valid
        systematic = np.maximum(error - self.noise, 0.0)
        return float(
            np.sqrt(np.max(systematic / np.maximum(stage.baseline.sums.effort_power, TINY)))
        )

    def best_group(
        self, explanations: Sequence[Explanation], stage: Stage
    ) -> tuple[Explanation, ...]:
        """Return the best explanation and those that predict alike, the simplest first."""
        ranked = sorted(explanations, key=lambda each: -each.gain.total)
        best = ranked[0]
        group = []
        for each in ranked:
            if tied(best.gain, each.gain, stage.block_log):
                group.append(each)
        group.sort(key=lambda each: each.n_sizes + 0.5 * (len(each.logs) < len(self.labels)))
        return tuple(group)

    # -- continuous faults

    def _continuous(self, stage: Stage, screen: Screen) -> list[Explanation]:
        """Return accepted continuous faults, with refined sizes."""
        linear = []
        candidates = [each for each in screen.ranked if each.fault.name != EFFORT_SCALE]
        for candidate, sums in screen.sums(candidates).items():
            explanation = self._linear(stage, candidate, sums)
            if explanation is not None:
                linear.append(explanation)
        linear.sort(key=lambda each: -each.gain.total)
        explanations = []
        refined = 0
        for each in linear:
            if not _undo_of(each):
                explanations.append(each)
                continue
            if refined == MAX_REFINED:
                continue
            refined += 1
            better = self.refined(stage, each)
            if better is not None:
                explanations.append(better)
        return explanations

    def _linear(self, stage: Stage, candidate: Candidate, sums: BlockSums) -> Explanation | None:
        """Return a candidate with its size to first order, if the rule accepts it."""
        columns = range(sums.n_columns)
        scope = stage.scope(candidate.logs)
        gain = stage.baseline.gain(sums, columns, scope, self.trials)
        if not gain.significant:
            return None
        validation = cross_validate(sums, columns)
        k = len(candidate.columns)
        size = validation.whole[-k:]
        std = jackknife_error(validation.coefficients[scope][:, -k:])
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
            matters = _changes_an_effort(stage.baseline, sums, validation.whole)
        else:
            matters = _changes_enough(stage.baseline, sums, validation.whole)
        return explanation if matters else None

    def _possible(self, stage: Stage, explanation: Explanation) -> bool:
        """Return whether a robot can have such a size, and the data determine it."""
        fault = explanation.fault
        assert isinstance(fault, Fault)
        size = explanation.size
        if fault.positive and size[0] <= 0:
            return False
        if fault.name == PAYLOAD_FAULT and size[0] <= MIN_SIZE_T * explanation.std[0]:
            return False
        if fault.max_size is not None and np.abs(size).max() > fault.max_size:
            return False
        if fault.min_samples:
            step = stage.evidence.logs[0].signals.step
            if abs(size[0]) < fault.min_samples * step:
                return False
        return bool((np.abs(size) > MIN_SIZE_T * explanation.std).any())

    def refined(self, stage: Stage, explanation: Explanation) -> Explanation | None:
        """Find the size of a fault by undoing it on the logs until nothing of it remains.

        None if the rule does not accept it at that size.
        """
        fault = explanation.fault
        assert isinstance(fault, Fault)
        current = explanation
        step = explanation.size
        previous = np.zeros_like(step)
        last: Explanation | None = None
        smallest = np.inf  # of what is found of it on the corrected logs
        for _ in range(GAUSS_NEWTON_STEPS):
            size = _composed(fault, previous, step)
            too_large = fault.relative and np.abs(size).max() > MAX_RELATIVE_SIZE
            if too_large and fault.name != EFFORT_SCALE:
                return None
            trial = replace(current, size=size)
            tried = self._undone(stage, trial)
            # the gain is no measure of a step: the model has the column of what remains
            if tried is None or np.linalg.norm(tried.size) > smallest:
                step = step / 2
                if (np.abs(step) < GAUSS_NEWTON_TOLERANCE * current.std).all():
                    break
                continue
            remaining = tried.size
            smallest = float(np.linalg.norm(remaining))
            last = replace(tried, size=size)
            if fault.relative:  # the remainder is relative to the corrected signal
                last = replace(last, std=tried.std * np.abs(1 + size))
            current = last
            previous = size
            step = remaining
            if (np.abs(remaining) <= GAUSS_NEWTON_TOLERANCE * tried.std).all():
                break
        if last is None or not last.gain.significant or not self._possible(stage, last):
            return None
        return last

    def _undone(self, stage: Stage, trial: Explanation) -> Explanation | None:
        """Undo a fault of some size; return what remains of it, and the gain."""
        explanations = [*stage.accepted, trial]
        following = self._stage_with(explanations)
        if following is None:
            return None
        assert isinstance(trial.fault, Fault)
        columns = following.columns([(trial.fault, trial.place)])
        for number, each in enumerate(columns):
            if number not in trial.logs:
                each[:, :, following.n_added :] = 0.0
        sums = block_sums(following.evidence.logs, self.labels, columns)
        scope = stage.scope(trial.logs)
        gain = stage.baseline.gain(
            sums,
            range(sums.n_columns),
            scope,
            self.trials,
            effort_scale=effort_scale(stage.evidence, trial, stage.block_log),
        )
        validation = cross_validate(sums, range(sums.n_columns))
        k = columns[0].shape[2] - following.n_added
        return replace(
            trial,
            size=validation.whole[-k:],
            std=jackknife_error(validation.coefficients[scope][:, -k:]),
            gain=gain,
        )

    def _gain_over(
        self, without: Stage, explanations: Sequence[Explanation], last: Explanation
    ) -> Gain | None:
        """Return the gain of one explanation over a stage that lacks only it."""
        following = self._stage_with(explanations)
        if following is None:
            return None
        sums = following.baseline.sums
        return without.baseline.gain(
            sums,
            range(sums.n_columns),
            without.scope(last.logs),
            self.trials,
            effort_scale=effort_scale(without.evidence, last, without.block_log),
        )

    # -- efforts of one motor that are scaled by any factor

    def _effort_factors(self, stage: Stage) -> list[Explanation]:
        """Return accepted factors, also negative ones, of the effort of single motors."""
        faults = [fault for fault in self.faults if fault.name == EFFORT_SCALE]
        if not faults:
            return []
        fault = faults[0]
        scopes = self._scopes()
        explanations = []
        for row, place in enumerate(fault.places(stage.evidence)):
            for scope in scopes:
                factor = effort_factor(stage.baseline.sums, row, stage.scope(scope))
                if abs(factor - 1) < SCALE_CHANGE:
                    continue
                guess = Explanation(
                    fault=fault,
                    place=place,
                    logs=scope,
                    size=np.array([factor - 1]),
                    std=np.array([0.0]),
                    gain=no_gain(stage),
                )
                if any(each.same_as(guess) for each in stage.accepted):
                    continue
                better = self.refined(stage, guess)
                if better is not None:
                    explanations.append(better)
        return explanations

    # -- discrete faults

    def _discrete(self, stage: Stage) -> list[Explanation]:
        """Return accepted discrete faults, tried on a thinned copy of the logs."""
        if not self.discrete or len(stage.block_log) < MIN_DISCRETE_BLOCKS:
            return []
        thin, labels = thinned(stage.evidence, self.labels)
        scopes = self._scopes()
        base = Stage(thin, labels, evidence=thin)
        explanations = []
        for fault in self.discrete:
            if any(each.fault is fault for each in stage.accepted):
                continue
            for scope in scopes:
                explanation = self._discrete_gain(base, fault, scope)
                if explanation is not None:
                    explanations.append(explanation)
        return explanations

    def _discrete_gain(
        self, base: Stage, fault: DiscreteFault, scope: tuple[int, ...]
    ) -> Explanation | None:
        """Return a discrete fault if the rule accepts it."""
        logs = []
        for number, log in enumerate(base.evidence.logs):
            if number not in scope:
                logs.append(log)
                continue
            signals = fault.undo(log.signals)
            if not within_limits(log.model, signals.position, log.signals.position):
                return None
            changed = log.with_signals(signals)
            if changed is None:
                return None
            logs.append(changed.away_from_reversals_of(log))
        evidence = replace(base.evidence, logs=tuple(logs))
        sums = block_sums(evidence.logs, base.labels)
        masked = []
        for log, changed in zip(base.evidence.logs, evidence.logs):
            regression = replace(log.regression, mask=changed.regression.mask)
            masked.append(replace(log, regression=regression))
        before = block_sums(masked, base.labels)
        if fitted_error(sums) >= fitted_error(before):
            return None
        gain = Baseline(before, range(before.n_columns)).gain(
            sums, range(sums.n_columns), base.scope(scope), self.trials
        )
        if not gain.significant or np.isfinite(gain.blocks[gain.scope]).sum() < MIN_DISCRETE_BLOCKS:
            return None
        size = np.zeros(0) if fault.size is None else np.array([fault.size])
        return Explanation(
            fault=fault, place=fault.place, logs=scope, size=size, std=0 * size, gain=gain
        )


def _composed(fault: Fault, size: FloatArray, step: FloatArray) -> FloatArray:
    """Return the size of a fault of which a part was undone and a further step was found."""
    if fault.relative:
        return np.asarray((1 + size) * (1 + step) - 1)
    return np.asarray(size + step)


def fitted_error(sums: BlockSums) -> float:
    """Return the geometric mean over rows of residual over effort, fitted to all blocks."""
    weights, _ = row_weights(sums, range(sums.n_columns))
    has_effort = sums.effort_power > 0
    relative = 1 / np.maximum(weights * sums.effort_power, TINY)
    return float(np.exp(0.5 * np.mean(np.log(relative[has_effort]))))


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
    )


def _changes_an_effort(baseline: Baseline, sums: BlockSums, whole: FloatArray) -> bool:
    """Return whether what a robot file lacks changes some effort enough to matter."""
    power = _changed_power(baseline, sums, whole)[0]
    effort = np.sqrt(power / np.maximum(sums.effort_power, TINY))
    return bool(effort.max(initial=0.0) >= MATERIAL_EFFORT_CHANGE)


def _changed_power(
    baseline: Baseline, sums: BlockSums, whole: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean square change of each row's prediction, and change of the coefficients."""
    before = baseline.validation()
    change = np.zeros(sums.n_columns + 1)
    change[: len(whole)] = whole
    change[: len(before.whole)] -= before.whole
    n_valid = np.maximum(sums.n_valid.sum(axis=0), 1)
    return np.einsum("i,rij,j->r", change, sums.total, change) / n_valid, change


def _changes_enough(baseline: Baseline, sums: BlockSums, whole: FloatArray) -> bool:
    """Return whether an explanation changes efforts or parameters enough to matter."""
    before = baseline.validation()
    power, change = _changed_power(baseline, sums, whole)
    p = sums.n_parameters
    return is_material(
        power,
        sums.effort_power,
        change[:p],
        before.whole[:p],
        jackknife_error(before.coefficients[:, :p]),
    )


def effort_factor(sums: BlockSums, row: int, scope: BoolArray) -> float:
    """Return the factor on the effort of one row with which all rows agree best.

    The squared errors of the recorded efforts, each row relative to its own power, with the
    prediction of that row multiplied by the factor inside the scope. Searched on a
    logarithmic grid of both signs, then refined.
    """
    chosen = [*range(sums.n_columns), sums.n_columns]
    grams = sums.grams[:, :, chosen][:, :, :, chosen]
    has_effort = sums.effort_power > 0
    weights = has_effort / np.where(has_effort, sums.effort_power, 1.0)
    fixed = np.tensordot(weights, grams.sum(axis=0), axes=1)
    scaled = weights[row] * grams[scope, row].sum(axis=0)
    fixed = fixed - scaled
    n = len(chosen) - 1

    def squared_error(factor: float) -> float:
        column_scale = np.full(n + 1, factor)
        column_scale[-1] = 1.0
        normal = fixed + scaled * np.outer(column_scale, column_scale)
        vector = np.append(-solve_normal_equations(normal), 1.0)
        return float(vector @ normal @ vector)

    grid = np.geomspace(*FACTOR_RANGE, FACTOR_GRID)
    factors = np.concatenate([-grid, grid])
    errors = [squared_error(factor) for factor in factors]
    best = int(np.argmin(errors))
    ratio = grid[1] / grid[0]
    low = abs(factors[best]) / ratio
    high = abs(factors[best]) * ratio
    sign = np.sign(factors[best])
    for _ in range(40):  # golden section on the logarithm
        inner = low * (high / low) ** 0.382
        outer = low * (high / low) ** 0.618
        if squared_error(sign * inner) < squared_error(sign * outer):
            high = outer
        else:
            low = inner
    return float(sign * np.sqrt(low * high))


def thinned(evidence: Evidence, labels: Sequence[IntArray]) -> tuple[Evidence, list[IntArray]]:
    """Return about a thousand samples of the logs, with efforts as recorded, and their blocks."""
    per_log = max(DISCRETE_SAMPLES // len(evidence.logs), 100)
    logs = []
    thin_labels = []
    for log, label in zip(evidence.logs, labels):
        n = len(log.regression)
        index = np.unique(np.linspace(0, n - 1, min(per_log, n)).astype(int))
        logs.append(log.thinned(index))
        thin_labels.append(label[index])
    return replace(evidence, logs=tuple(logs)), thin_labels
