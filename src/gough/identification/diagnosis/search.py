"""The search behind a diagnosis: which usual mistakes explain what a model leaves, one after the other.

Each step first asks the hypotheses (a sign, a channel, a unit), then scores all directions at the logs as corrected so
far. The one that explains most beyond chance is undone on the logs, the loops are closed again, and its size is found
by Gauss-Newton steps; terms and loads that the model lacks become columns of it. The search ends when nothing stands
out any more, or when what does predicts data it has not seen no better: then it is something else that looks alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import stats

from gough.core.arrays import FloatArray
from gough.estimators.selection.scores import LEAST_SEEN, PROBABLE, Fitted, Scores, cut_stretches
from gough.identification.diagnosis.directions import DIRECTIONS, Suspicion, stack_directions
from gough.identification.diagnosis.evidence import Evidence, View, corrected, counted, deviations_of, score_problem
from gough.identification.diagnosis.hypotheses import BETTER, Hypothesis, best_hypothesis, distance_to_file
from gough.identification.diagnosis.rows import fit_rows
from gough.identification.diagnosis.track import Track
from gough.identification.prior import prior_of

CLOSE = 9.0  # difference in the squares left, in units of noise, below which two suspicions cannot be told apart
NEAR = 0.3  # of what the best explains: others this near before refinement may be better after it
NEIGHBOURS = 3  # of them tried
NEARLY = 0.02  # distances to the robot file that differ by less are the same
SMALL = 0.1  # sigmas: a Gauss-Newton step below this ends the refinement
ROUNDS = 10  # of it
WORSE = 1.2  # times the error of held-out data: a hypothesis that leaves as much of the logs may not leave more there
LUCK = 0.05  # chance that a correction which does not help seems to lower the error on data it has not seen
SLOW = 0.9  # ratio of two steps: below it the rest of their series is taken at once, jumps of friction make them so
LARGEST = 0.5  # of a relative mistake that a derivative can speak of; beyond it is a unit, and there are hypotheses


@dataclass(frozen=True, kw_only=True, eq=False)
class Undone:
    """A mistake taken out of the logs: a hypothesis, or a suspicion with its size."""

    hypothesis: Hypothesis | None = None
    suspicion: Suspicion | None = None
    size: FloatArray = field(default_factory=lambda: np.zeros(0))

    def undo(self, track: Track, view: View) -> Track:
        """Return a log's track without the mistake."""
        if self.hypothesis is not None:
            return self.hypothesis.undo(track)
        assert self.suspicion is not None
        undo = self.suspicion.direction.undo
        return track if undo is None else undo(track, view, self.suspicion.place, self.size)

    def noise(self, view: View) -> FloatArray:
        """Return by how much the noise of each motor's effort grows when it is undone, (a,)."""
        level = [self.undo(replace(view.track, effort=np.full_like(view.track.effort, x)), view).effort
                 for x in (0.0, 1.0)]
        return np.asarray(np.abs(level[1] - level[0]).mean(axis=0))


def possible(suspicion: Suspicion, fitted: Fitted) -> bool:
    """Tell whether a size is beyond three sigmas and one that a physical robot can have."""
    return (not (suspicion.direction.positive and fitted.size[0] <= 0)
            and float(np.max(np.abs(fitted.size) / np.maximum(fitted.sigma, 1e-300))) > 3)


class Standing:
    """Where a search stands: logs as corrected so far, and every direction scored on them.

    Args:
        evidence: With the corrections made.
        added: Suspicions that have become columns of the model.
        noise: Standard deviation of the rows, (r,); from the logs by default.
        only: Score these (the added ones among them) instead of all.
    """

    def __init__(self, evidence: Evidence, added: Sequence[Suspicion] = (), noise: FloatArray | None = None,
                 only: Sequence[Suspicion] | None = None) -> None:
        self.evidence = evidence
        self.suspicions, self.columns = stack_directions(evidence, evidence.views, only)
        names = {(s.direction, s.place) for s in added}
        self.added = [s for s in self.suspicions if (s.direction, s.place) in names]
        self.noise = noise_of_rows(evidence) if noise is None else noise
        self.scores = Scores(score_problem(evidence.views, self.columns, self.noise))

    def seen(self, suspicion: Suspicion) -> list[int]:
        """Return the columns of a suspicion that the regressor cannot mimic."""
        return [c for c in suspicion.columns if self.scores.seen[c] > LEAST_SEEN]

    def whole(self, suspicion: Suspicion, sizes: FloatArray) -> FloatArray:
        """Return sizes of all columns of a suspicion from those that can be seen, zero for the others."""
        found = np.zeros(len(suspicion.columns))
        found[[suspicion.columns.index(c) for c in self.seen(suspicion)]] = sizes
        return found

    @cached_property
    def given(self) -> list[int]:
        """Columns that are part of the model."""
        return [c for s in self.added for c in self.seen(s)]

    @cached_property
    def trials(self) -> int:
        """How many tests are made: the chance of a false name grows with it."""
        return sum(1 for s in self.suspicions if self.seen(s))

    def chance(self, suspicion: Suspicion, fitted: Fitted) -> float:
        """Return the chance that any suspicion looks like this one by noise alone."""
        tried = suspicion.direction.tried(self.evidence.views[0], suspicion.place)
        return min(1.0, fitted.probability * self.trials * tried)

    def ranked(self, without: Sequence[Suspicion] = ()) -> list[tuple[Suspicion, Fitted]]:
        """Return suspicions beyond chance and three sigmas, those that help most on left-out stretches first.

        Args:
            without: Suspicions that have been dealt with.
        """
        done = {(s.direction, s.place) for s in (*self.added, *without)}
        fits = [(s, self.scores.fit(self.seen(s), self.given)) for s in self.suspicions
                if self.seen(s) and (s.direction, s.place) not in done]
        found = [(s, f) for s, f in fits if self.chance(s, f) < PROBABLE and f.gain > LEAST_SEEN and possible(s, f)]
        return sorted(found, key=lambda pair: -pair[1].gain)

    def effect(self, columns: Sequence[int], size: FloatArray) -> float:
        """Return the largest change of a row's effort by sizes of some columns, rms over rms effort. [1]"""
        change = [view.source.shaped(stack[:, :, list(columns)]) @ size
                  for view, stack in zip(self.evidence.views, self.columns)]
        efforts = [view.source.part.effort for view in self.evidence.views]
        top, bottom = (np.sqrt((np.concatenate(x) ** 2).mean(axis=0)) for x in (change, efforts))
        return float(np.max(top / np.maximum(bottom, 1e-300)))

    @property
    def power(self) -> float:
        """Squares of what the model leaves, in units of the rows' noise."""
        return self.scores.power(self.given)

    @property
    def error(self) -> float:
        """Relative error of predicting held-out logs, or stretches left out where there are none. [1]"""
        if self.evidence.held_out:
            return self.held_out_error()
        return self.scores.left_out_error(self.given)

    def held_out_error(self) -> float:
        """Return the rms over rows of prediction error over effort on the held-out logs. [1]"""
        left, effort = (np.concatenate(each) for each in zip(*self._held_out))
        square, size = ((x**2).sum(axis=0) for x in (left, effort))
        return float(np.sqrt(np.mean(square / np.maximum(size, 1e-300))))

    @cached_property
    def _held_out(self) -> list[tuple[FloatArray, FloatArray]]:
        """What prediction leaves of each held-out log, and its effort, (s, r), zero where equations do not count."""
        evidence, values = self.evidence, self._fitted[0]
        found = []
        for view in evidence.held_out_views:
            regressor, effort = counted(view.source.part.select(evidence.base.names))
            found.append((effort - np.concatenate([regressor, self._added(view)], axis=2) @ values, effort))
        return found

    @property
    def unseen(self) -> FloatArray:
        """Squares of predicting each stretch of held-out logs, or those left out, in units of the rows' noise, (g,)."""
        if not self.evidence.held_out:
            return self.scores.left_out_squares(self.given)
        left = [((each / self.noise) ** 2).sum(axis=1) for each, _ in self._held_out]
        labels = cut_stretches([len(each) for each in left])
        return np.asarray(np.bincount(np.concatenate(labels), np.concatenate(left)), dtype=float)

    @cached_property
    def _fitted(self) -> tuple[FloatArray, FloatArray, float]:
        """Base parameters and sizes of the added columns with their sigmas, and the error (see `fit_rows`)."""
        W, y = self.evidence.stacked
        return fit_rows(np.concatenate([W, np.concatenate([self._added(v) for v in self.evidence.views])], axis=2), y)

    def _added(self, view: View) -> FloatArray:
        """Return the columns that have become part of the model, zero where equations do not count, (s, r, k)."""
        part = view.source.part
        if not self.added:
            return np.zeros((*part.effort.shape, 0))
        own = view.source.shaped(stack_directions(self.evidence, [view], self.added)[1][0])
        return own if part.mask is None else own * part.mask[:, :, None]

    @property
    def left(self) -> float:
        """Relative error of the fit to the logs themselves (see `fit_rows`). [1]"""
        return self._fitted[2]

    @property
    def distance(self) -> float:
        """How far the fitted values are from the robot file's, added columns in the model (see `distance_to_file`)."""
        values, sigma, _ = self._fitted
        b = len(self.evidence.base)
        return distance_to_file(values[:b], sigma[:b], prior_of(self.evidence.model, self.evidence.base))


def noise_of_rows(evidence: Evidence) -> FloatArray:
    """Return the standard deviation of each row: of the mean of repetitions, or of what the fit leaves, (r,)."""
    squares, counted = np.zeros(len(evidence.model.rows)), np.zeros(len(evidence.model.rows))
    known = all(s.part.replicates is not None and len(s.part.replicates) > 1 for s in evidence.logs)
    for source in evidence.logs:
        part = source.part
        use = part.counting
        if known:
            each = (deviations_of(part) ** 2).sum(axis=0)
        else:
            each = (part.effort - part.select(evidence.base.names).regressor @ evidence.values) ** 2
        squares += (each * use).sum(axis=0)
        counted += use.sum(axis=0)
    size = np.sqrt(squares / np.maximum(counted, 1))
    return np.asarray(np.maximum(size, 1e-9 * max(float(size.max()), 1e-300)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One mistake found on the way.

    Args:
        undone: What was taken out, with its size; or a suspicion that became a column of the model.
        fitted: Its size and what it explains, at the corrected logs; None for a hypothesis.
        before, after: Error of the prediction. [1]
        alike: Others that explain as much: they cannot be told apart.
        rivals: What was tried instead and explained nearly as much.
        standing: Where the search stands after it.
    """

    undone: Undone
    fitted: Fitted | None = None
    before: float
    after: float
    alike: tuple[Suspicion, ...] = ()
    rivals: tuple[Step, ...] = ()
    standing: Standing

    @property
    def column(self) -> bool:
        """The mistake became a column of the model; else it was undone on the logs."""
        return self.undone.suspicion is not None and self.undone.suspicion.direction.undo is None

    @property
    def resolved(self) -> bool:
        """Its size is one that the samples can tell from other mistakes."""
        suspicion, step = self.undone.suspicion, self.standing.evidence.views[0].track.step
        return suspicion is None or bool(np.abs(self.undone.size).max() >= suspicion.direction.samples * step)


def explains(before: Standing, after: Standing) -> bool:
    """Tell whether a hypothesis explains unseen data as it does the logs: much less is left, or the same of both."""
    own, unseen = (getattr(after, name) / max(getattr(before, name), 1e-300) for name in ("left", "error"))
    return bool(unseen <= BETTER or (own > BETTER and unseen <= WORSE))


def helps(before: Standing, after: Standing) -> bool:
    """Tell whether a correction lowers the error on data it has not seen: by much, or by Student's test over stretches.

    What shows in a few stretches only (friction at low speed) lowers it by much and has few stretches for the test.
    Errors count in units of the rows' noise: one row is not hidden by another that has less effort.
    """
    if after.unseen.sum() <= BETTER**2 * before.unseen.sum():
        return True
    fall = before.unseen - after.unseen
    spread = float(fall.std(ddof=1)) / np.sqrt(len(fall))
    return bool(fall.mean() > stats.t.isf(LUCK, len(fall) - 1) * spread)


def search(evidence: Evidence, *, most: int = 4,
           hypotheses: bool = True) -> tuple[Standing, tuple[Step, ...], Step | None]:
    """Look for mistakes one after the other.

    Returns:
        Where the logs stand as they are, the mistakes, and what would explain more but predicts no better.

    Args:
        most: Steps at most.
        hypotheses: Also try signs, channels and units.
    """
    first = now = Standing(evidence)
    steps: tuple[Step, ...] = ()
    best = best_hypothesis(evidence) if hypotheses else None
    if best is not None:
        trial = Undone(hypothesis=best)
        fresh = corrected(evidence, trial.undo, guard=True)
        after = None if fresh is None else Standing(fresh)
        if after is not None and explains(now, after):
            steps, now = (Step(undone=trial, before=now.error, after=after.error, standing=after),), after
    noise = now.noise
    while len(steps) < most:
        step = _next(evidence, now, steps, noise)
        if step is None:
            break
        if not helps(now, step.standing):
            return first, steps, step
        steps = _polished(evidence, (*steps, step), noise)
        now = Standing(steps[-1].standing.evidence, _added(steps), steps[-1].standing.noise)
    return first, steps, None


def _added(steps: Sequence[Step]) -> list[Suspicion]:
    return [s.undone.suspicion for s in steps if s.column and s.undone.suspicion is not None]


def _next(evidence: Evidence, now: Standing, steps: Sequence[Step], noise: FloatArray) -> Step | None:
    """Return the suspicion that explains most of what is left, undone or added; None if nothing stands out.

    Several may explain as much: then the one that leaves the robot nearest to its file, then the more usual one.
    """
    ranked = now.ranked([s.undone.suspicion for s in steps if s.undone.suspicion is not None])
    if not ranked:
        return None
    best = ranked[0][1]
    near = [pair for pair in ranked[1:]
            if (best.share - pair[1].share) * now.power < NEAR * max(CLOSE * best.inflation, best.share * now.power)]
    tried = [found for pair in (ranked[0], *near[:NEIGHBOURS])
             if (found := _take(evidence, now, steps, noise, *pair)) is not None]
    return _best(tried, lambda step: step.standing) if tried else None


def _best(tried: Sequence[Step], where: Callable[[Step], Standing]) -> Step:
    """Return the step that leaves least, with the others beside it; of those that leave as much the most plausible.

    Args:
        tried: Steps that may stand for each other.
        where: Where the search stands with a step.
    """
    tried = [step for step in tried if step.resolved] or tried
    power = {id(step): where(step).power for step in tried}
    least = min(tried, key=lambda step: power[id(step)])
    assert least.fitted is not None
    same = [s for s in tried if power[id(s)] - power[id(least)] < CLOSE * least.fitted.inflation]
    nearest = min(where(step).distance for step in same)
    usual = {name: k for k, name in enumerate(DIRECTIONS)}  # the more usual ones stand first
    named = [(step, s) for step in same if (s := step.undone.suspicion) is not None]
    named.sort(key=lambda pair: (where(pair[0]).distance > nearest + NEARLY,
                                 usual.get(pair[1].direction.name, len(usual))))
    first = named[0][0]
    return replace(first, alike=tuple(s for _, s in named[1:]),
                   rivals=tuple(replace(s, rivals=()) for s in tried if s is not first))


def _take(evidence: Evidence, now: Standing, steps: Sequence[Step], noise: FloatArray, suspicion: Suspicion,
          fitted: Fitted) -> Step | None:
    """Undo a suspicion, or add it to the model; None if that does not lower what is left."""
    size = now.whole(suspicion, fitted.size)
    step = Step(undone=Undone(suspicion=suspicion, size=size), fitted=fitted, before=now.error, after=now.error,
                standing=now)
    if step.column:
        model = [*_added(steps), suspicion]
        after = Standing(now.evidence, model, now.noise, model)
        return replace(step, after=after.error, standing=after)
    start = replace(step, undone=replace(step.undone, size=np.zeros(len(size))))
    found = _refined(evidence, (*steps, start), [len(steps)], noise, size, now.power)
    last = None if found is None else found[-1].fitted
    sure = last is not None and bool((np.abs(last.size) > 3 * last.sigma).any())  # with the derivative at its own size
    return found[-1] if found is not None and sure else None


def _polished(evidence: Evidence, steps: tuple[Step, ...], noise: FloatArray) -> tuple[Step, ...]:
    """Find the sizes of all mistakes again, together: what was taken for the first may belong to the second.

    The rivals of earlier steps are tried once more: with the second corrected it may be one of them.
    """
    free = [k for k, s in enumerate(steps) if s.undone.suspicion is not None and not s.column]
    if not free or len(steps) < 2:
        return steps
    for k in free[:None if steps[-1].column else -1]:
        variants = {}
        for rival in (steps[k], *steps[k].rivals):
            trial = (*steps[:k], replace(rival, before=steps[k].before), *steps[k + 1:])
            still = np.zeros(sum(len(trial[i].undone.size) for i in free))
            found = None if rival.column else _refined(evidence, trial, free, noise, still, np.inf)
            if found is not None:
                variants[found[k]] = found
        if variants:
            best = _best(list(variants), lambda step, known=variants: known[step][-1].standing)  # type: ignore[misc]
            whole = next(found for step, found in variants.items() if step.undone is best.undone)
            steps = (*whole[:k], best, replace(whole[k + 1], before=best.after), *whole[k + 2:])
    return steps


def _refined(evidence: Evidence, steps: tuple[Step, ...], free: Sequence[int], noise: FloatArray, step: FloatArray,
             least: float) -> tuple[Step, ...] | None:
    """Find the sizes of some mistakes together by Gauss-Newton steps; None if no step lowers what is left.

    Args:
        steps: All mistakes, with the sizes to start from.
        free: Which of them to find.
        noise: Of the rows without any of the mistakes, (r,).
        step: The first step, sizes of the free ones side by side.
        least: What is left before it.
    """
    added, found = _added(steps), None
    own = [s for k in free if (s := steps[k].undone.suspicion) is not None]
    edges = np.cumsum([len(s.columns) for s in own])[:-1]
    for _ in range(ROUNDS):
        trial = {k: replace(steps[k].undone, size=steps[k].undone.size + part)
                 for k, part in zip(free, np.split(step, edges))}
        undone = [trial.get(k, s.undone) for k, s in enumerate(steps) if not s.column]
        fresh = corrected(evidence, *(each.undo for each in undone))
        standing = None if fresh is None else Standing(
            fresh, added, noise * _noisier(evidence, undone), [*added, *own])
        if standing is None or standing.power > least:  # too far: the loops do not close there, or it gets worse
            step = step / 2
            continue
        if any(s.direction.unit == "1" and np.abs(trial[k].size).max() > LARGEST for k, s in zip(free, own)):
            return None
        least = standing.power
        mine = [next(s for s in standing.suspicions if s.same(each)) for each in own]
        fitted = standing.scores.fit([c for s in mine for c in standing.seen(s)], standing.given)
        parts = np.split(np.arange(len(fitted.size)), np.cumsum([len(standing.seen(s)) for s in mine])[:-1])
        updated, last = list(steps), step
        step = np.concatenate([standing.whole(s, fitted.size[i]) for s, i in zip(mine, parts)])
        slow = np.divide(step, last, out=np.zeros(len(step)), where=last != 0)
        step = np.where((slow > 0) & (slow < SLOW), step / (1 - np.minimum(slow, SLOW)), step)  # Aitken
        for k, s, i in zip(free, mine, parts):
            old = steps[k].fitted
            assert old is not None
            spread = np.diag(standing.whole(s, fitted.sigma[i]) ** 2)
            updated[k] = replace(steps[k], undone=trial[k], fitted=replace(old, size=trial[k].size, covariance=spread))
        updated[-1] = replace(updated[-1], after=standing.error, standing=standing)
        found = steps = tuple(updated)
        if np.all(np.abs(fitted.size) < SMALL * fitted.sigma):
            break
    return found


def _noisier(evidence: Evidence, undone: Sequence[Undone]) -> FloatArray:
    """Return by how much the noise of the rows grows when mistakes are undone, (r,); 1 where motors are no rows."""
    grown = np.ones(len(evidence.model.rows))
    if not evidence.model.loops.redundant:
        for each in undone:
            if each.hypothesis is None:
                grown = grown * each.noise(evidence.views[0])
    return grown
