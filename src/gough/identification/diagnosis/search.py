"""The search behind a diagnosis: which usual mistakes explain what a model leaves, one after the other.

Each step first asks the hypotheses (a sign, a channel, a unit), then scores all directions at the logs as corrected so
far. The one that explains most beyond chance is undone on the logs, the loops are closed again, and its size is found
by Gauss-Newton steps; terms and loads that the model lacks become columns of it. The search ends when nothing stands
out any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray
from gough.estimators.selection.scores import LEAST_SEEN, PROBABLE, Fitted, Scores
from gough.identification.diagnosis.directions import Suspicion, stack_directions
from gough.identification.diagnosis.evidence import Evidence, View, counted, score_problem
from gough.identification.diagnosis.hypotheses import Hypothesis, best_hypothesis, distance_to_file
from gough.identification.diagnosis.rows import fit_rows
from gough.identification.diagnosis.track import Source, Track
from gough.identification.prior import prior_of

CLOSE = 9.0  # difference in the squares left, in units of noise, below which two suspicions cannot be told apart
NEAR = 0.3  # of what the best explains: others this near before refinement may be better after it
NEIGHBOURS = 3  # of them tried
NEARLY = 0.02  # distances to the robot file that differ by less are the same
SMALL = 0.1  # sigmas: a Gauss-Newton step below this ends the refinement
ROUNDS = 6  # of it
WORSE = 1.2  # times the error of held-out data: a hypothesis or a further mistake whose correction predicts
# so much worse is none
LARGEST = 0.5  # of a relative mistake that a derivative can speak of; beyond it is a unit, and there are hypotheses


@dataclass(frozen=True, kw_only=True, eq=False)
class Undone:
    """A mistake taken out of the logs: a hypothesis, or a suspicion with its size."""

    hypothesis: Hypothesis | None = None
    suspicion: Suspicion | None = None
    size: FloatArray | None = None

    def undo(self, track: Track, view: View) -> Track:
        """Return a log's track without the mistake."""
        if self.hypothesis is not None:
            return self.hypothesis.undo(track)
        assert self.suspicion is not None
        assert self.size is not None
        undo = self.suspicion.direction.undo
        return track if undo is None else undo(track, view, self.suspicion.place, self.size)


def corrected(evidence: Evidence, undone: Sequence[Undone]) -> Evidence | None:
    """Return the evidence with mistakes taken out of all logs and the parameters fitted again."""
    groups: list[tuple[Source, ...]] = []
    for views in (evidence.views, evidence.held_out_views):
        sources = []
        for view in views:
            track = view.track
            for each in undone:
                track = each.undo(track, view)
            now = view.rebuilt(track)
            if now is None:
                return None
            sources.append(now.source)
        groups.append(tuple(sources))
    fresh = replace(evidence, logs=groups[0], held_out=groups[1])
    return replace(fresh, values=fit_rows(*fresh.stacked)[0])


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
        found = [(s, f) for s, f in fits if self.chance(s, f) < PROBABLE and f.gain > 0
                 and not (s.direction.positive and f.size[0] <= 0)
                 and float(np.max(np.abs(f.size) / np.maximum(f.sigma, 1e-300))) > 3]
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
        evidence, values = self.evidence, self._fitted[0]
        square, size = np.zeros(len(self.noise)), np.zeros(len(self.noise))
        for view in evidence.held_out_views:
            regressor, effort = counted(view.source.part.select(evidence.base.names))
            own = np.concatenate([regressor, self._added(view)], axis=2)
            square += ((effort - own @ values) ** 2).sum(axis=0)
            size += (effort**2).sum(axis=0)
        return float(np.sqrt(np.mean(square / np.maximum(size, 1e-300))))

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
            assert part.replicates is not None
            k = len(part.replicates)
            each = ((part.replicates - part.replicates.mean(axis=0)) ** 2).sum(axis=0) / (k * (k - 1))
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
        standing: Where the search stands after it.
    """

    undone: Undone
    fitted: Fitted | None
    before: float
    after: float
    alike: tuple[Suspicion, ...]
    standing: Standing


def search(evidence: Evidence, *, most: int = 4, hypotheses: bool = True) -> tuple[Standing, list[Step]]:
    """Return where the logs stand as they are, and the mistakes found one after the other.

    Args:
        evidence: The model and its logs.
        most: Steps at most.
        hypotheses: Also try signs, channels and units.
    """
    first = now = Standing(evidence)
    undone: list[Undone] = []
    added: list[Suspicion] = []
    steps: list[Step] = []
    if hypotheses:
        _, best = best_hypothesis(evidence)
        if best.hypothesis is not None:
            trial = Undone(hypothesis=best.hypothesis)
            fresh = corrected(evidence, [trial])
            after = None if fresh is None else Standing(fresh)
            if after is not None and after.error <= WORSE * now.error:
                steps.append(Step(undone=trial, fitted=None, before=now.error, after=after.error, alike=(),
                                  standing=after))
                undone, now = [trial], after
    while len(steps) < most:
        step = _next(evidence, now, undone, added)
        if step is None or (steps and step.after > WORSE * step.before):
            break
        steps.append(step)
        assert step.undone.suspicion is not None
        if step.undone.suspicion.direction.undo is None:
            added.append(step.undone.suspicion)
        else:
            undone.append(step.undone)
        found, undone, steps = _polished(evidence, step.standing.evidence, undone, added, now.noise, steps)
        now = Standing(found, added, now.noise)
    return first, steps


def _polished(evidence: Evidence, now: Evidence, undone: list[Undone], added: list[Suspicion], noise: FloatArray,
              steps: list[Step]) -> tuple[Evidence, list[Undone], list[Step]]:
    """Find the sizes of all mistakes again, together: what was taken for the first may belong to the second.

    Returns:
        The logs with all of them undone, the mistakes undone and the steps, with their sizes.
    """
    mine = [k for k, each in enumerate(undone) if each.suspicion is not None]
    if len(mine) < 2:
        return now, undone, steps
    least = np.inf
    for _ in range(ROUNDS):
        own = [undone[k].suspicion for k in mine]
        standing = Standing(now, added, noise, [*added, *(s for s in own if s is not None)])
        if standing.power >= least:
            break
        least, best, columns = standing.power, (now, list(undone)), []
        for suspicion in own:
            assert suspicion is not None
            columns.append(next(s.columns for s in standing.suspicions if s.same(suspicion)))
        fitted = standing.scores.fit([c for group in columns for c in group], standing.given)
        sizes, sigmas, trial, start = fitted.size, fitted.sigma, list(undone), 0
        for k, group in zip(mine, columns):
            old = undone[k].size
            assert old is not None
            here = slice(start, start + len(group))
            step = np.where(sigmas[here] > 0, sizes[here], 0.0)
            spread = np.diag(sigmas[here] ** 2)
            steps = [replace(s, undone=undone[k], fitted=replace(s.fitted, size=old, covariance=spread))
                     if s.undone.suspicion is undone[k].suspicion and s.fitted is not None else s for s in steps]
            trial[k] = replace(undone[k], size=old + step)
            start += len(group)
        fresh = corrected(evidence, trial)
        if fresh is None:
            break
        now, undone = fresh, trial
    return best[0], best[1], steps


def _next(evidence: Evidence, now: Standing, undone: list[Undone], added: list[Suspicion]) -> Step | None:
    """Return the suspicion that explains most of what is left, undone or added; None if nothing stands out.

    Several may explain as much: then the one that leaves the robot nearest to its file, then the more usual one.
    """
    ranked = now.ranked([u.suspicion for u in undone if u.suspicion is not None])
    if not ranked:
        return None
    best = ranked[0][1]
    near = [pair for pair in ranked[1:]
            if (best.share - pair[1].share) * now.power < NEAR * max(CLOSE * best.inflation, best.share * now.power)]
    tried = [(pair[0], found) for pair in (ranked[0], *near[:NEIGHBOURS])
             if (found := _take(evidence, now, undone, added, *pair)) is not None]
    if not tried:
        return None
    least = min(found.standing.power for _, found in tried)
    tried = [(s, found) for s, found in tried if found.standing.power - least < CLOSE * best.inflation]
    nearest = min(found.standing.distance for _, found in tried)
    order = {s.columns: k for k, s in enumerate(now.suspicions)}  # the more usual ones stand first
    tried.sort(key=lambda item: (item[1].standing.distance > nearest + NEARLY, order[item[0].columns]))
    return replace(tried[0][1], alike=tuple(s for s, _ in tried[1:]))


def _take(evidence: Evidence, now: Standing, undone: list[Undone], added: list[Suspicion], suspicion: Suspicion,
          fitted: Fitted) -> Step | None:
    """Undo a suspicion by Gauss-Newton steps, or add it to the model; None if that does not lower what is left."""
    columns = now.seen(suspicion)
    if suspicion.direction.undo is None:
        model = [*added, suspicion]
        after = Standing(now.evidence, model, now.noise, model)
        return Step(undone=Undone(suspicion=suspicion, size=_whole(suspicion, columns, fitted.size)), fitted=fitted,
                    before=now.error, after=after.error, alike=(), standing=after)
    size, step, best = np.zeros(len(columns)), fitted.size, None
    least = now.power
    for _ in range(ROUNDS):
        trial = Undone(suspicion=suspicion, size=_whole(suspicion, columns, size + step))
        fresh = corrected(evidence, [*undone, trial])
        standing = None if fresh is None else Standing(fresh, added, now.noise, [*added, suspicion])
        if standing is None or standing.power > least:  # too far: the loops do not close there, or it gets worse
            step = step / 2
            continue
        if suspicion.direction.unit == "1" and np.abs(size + step).max() > LARGEST:
            return None
        least, size = standing.power, size + step
        own = [c for s in standing.suspicions if s.same(suspicion)
               for c in s.columns]
        further = standing.scores.fit([own[suspicion.columns.index(c)] for c in columns], standing.given)
        best = Step(undone=trial, fitted=replace(fitted, size=size, covariance=further.covariance), before=now.error,
                    after=standing.error, alike=(), standing=standing)
        step = further.size
        if np.all(np.abs(step) < SMALL * further.sigma):
            break
    return best


def _whole(suspicion: Suspicion, columns: Sequence[int], size: FloatArray) -> FloatArray:
    """Return sizes of all columns of a suspicion, zero where a column cannot be seen."""
    whole = np.zeros(len(suspicion.columns))
    whole[[suspicion.columns.index(c) for c in columns]] = size
    return whole
