"""The search behind a diagnosis: which usual mistakes explain what a model leaves, one after the
other.

Each round scores all directions at the logs as corrected so far. The one that explains most
beyond chance is undone on the logs, the loops are closed again, and its size is found by
Gauss-Newton steps; terms and loads that the model lacks become columns of it. The search
ends when nothing stands out any more, or when what does predicts data it has not seen no
better: then it is something else that looks alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.linalg import block_diag

from gough.core.arrays import FloatArray
from gough.core.statistics import student_quantile
from gough.fitting.regression import Regression
from gough.fitting.scores import (
    LEAST_SEEN,
    PROBABLE,
    Fitted,
    ScoreProblem,
    Scores,
    cut_stretches,
)
from gough.verdict.diagnosis.directions import (
    DIRECTIONS,
    Suspicion,
    stack_directions,
)
from gough.verdict.diagnosis.evidence import Evidence, View, corrected, fit_rows
from gough.verdict.diagnosis.hypotheses import BETTER, distance_to_file
from gough.verdict.diagnosis.track import Track
from gough.verdict.robot_file import prior_of

# difference in the squares left, in units of noise, below which two suspicions cannot be told apart
CLOSE = 9.0
NEAR = 0.3  # of what the best explains: others this near before refinement may be better after it
NEIGHBOURS = 3  # of them tried
NEARLY = 0.02  # distances to the robot file that differ by less are the same
SMALL = 0.1  # sigmas: a Gauss-Newton step below this ends the refinement
ROUNDS = 10  # of it
# times the error of held-out data: a hypothesis that leaves as much of the logs may not leave more
# there
WORSE = 1.2
# chance that a correction which does not help seems to lower the error on data it has not seen
LUCK = 0.05
# ratio of two steps: below it the rest of their series is taken at once, jumps of friction make
# them so
SLOW = 0.9
# of a relative mistake that a derivative can speak of; beyond it is a unit, and there are
# hypotheses
LARGEST = 0.5


def score_problem(
    views: Sequence[View], columns: Sequence[FloatArray], noise: FloatArray
) -> ScoreProblem:
    """Return the equations that count, over the rows' noise (r,), with columns of each log (t, r,
    k).
    """
    names = views[0].evidence.base.names
    rows, deviations = [], []
    for view, own, label in zip(
        views, columns, cut_stretches([len(view.source.part) for view in views])
    ):
        part = view.source.part
        counts = part.valid
        rows.append(
            (
                (part.select(names).regressor / noise[:, None])[counts],
                (view.source.shaped(own) / noise[:, None])[counts],
                (part.effort / noise)[counts],
                np.broadcast_to(label[:, None], counts.shape)[counts],
            )
        )
        deviations.append((deviations_of(part) / noise)[:, counts])
    known = min(len(each) for each in deviations) > 1
    regressor, shaped, target, stretch = (np.concatenate(each) for each in zip(*rows))
    return ScoreProblem(
        regressor=regressor,
        columns=shaped,
        target=target,
        stretch=stretch,
        deviations=block_diag(*deviations) if known else None,
    )


def deviations_of(part: Regression) -> FloatArray:
    """Return deviations of k repetitions over sqrt(k (k - 1)): their squares are the mean's
    variance.
    """
    if part.replicates is None or len(part.replicates) < 2:
        return np.zeros((0, *part.effort.shape))
    k = len(part.replicates)
    return np.asarray((part.replicates - part.replicates.mean(axis=0)) / np.sqrt(k * (k - 1)))


def possible(suspicion: Suspicion, fitted: Fitted) -> bool:
    """Tell whether a size is beyond three sigmas and a robot can have it."""
    return (
        not (suspicion.direction.positive and fitted.size[0] <= 0)
        and float(np.max(np.abs(fitted.size) / np.maximum(fitted.sigma, 1e-300))) > 3
    )


def fit_together(
    scores: Scores, suspicions: Sequence[Suspicion], given: Sequence[int] = ()
) -> Fitted:
    """Fit suspicions side by side; the size of what the regressor mimics is zero."""
    columns = np.array([c for s in suspicions for c in s.columns])
    seen = np.flatnonzero(scores.seen[columns] > LEAST_SEEN)
    found = scores.fit(columns[seen].tolist(), given)
    size, covariance = np.zeros(len(columns)), np.zeros((len(columns),) * 2)
    size[seen], covariance[np.ix_(seen, seen)] = found.size, found.covariance
    return replace(found, size=size, covariance=covariance)


class Standing:
    """Where a search stands: logs as corrected so far, and every direction scored on them.

    Args:
        added: Suspicions that have become columns of the model.
        noise: Standard deviation of the rows, (r,); from the logs by default.
        only: Score these instead of all.
    """

    def __init__(
        self,
        evidence: Evidence,
        added: Sequence[Suspicion] = (),
        noise: FloatArray | None = None,
        only: Sequence[Suspicion] | None = None,
    ) -> None:
        self.evidence = evidence
        self.suspicions, self.columns = stack_directions(evidence, evidence.views, only)
        self.added = [s for s in self.suspicions if any(s.same(other) for other in added)]
        self.noise = noise_of_rows(evidence) if noise is None else noise
        self.scores = Scores(score_problem(evidence.views, self.columns, self.noise))
        self.given = [c for s in self.added for c in self.seen(s)]  # columns of the model
        self.trials = sum(
            1 for s in self.suspicions if self.seen(s)
        )  # the chance of a false name grows with it

    def seen(self, suspicion: Suspicion) -> list[int]:
        """Return the columns that the regressor cannot mimic."""
        return [c for c in suspicion.columns if self.scores.seen[c] > LEAST_SEEN]

    def chance(self, suspicion: Suspicion, fitted: Fitted) -> float:
        """Return the chance that noise alone makes any suspicion look like this."""
        tried = suspicion.direction.tried(self.evidence.views[0], suspicion.place)
        return min(1.0, fitted.probability * self.trials * tried)

    def ranked(self, without: Sequence[Suspicion] = ()) -> list[tuple[Suspicion, Fitted]]:
        """Return suspicions beyond chance, those that help most on left-out stretches first."""
        fits = [
            (s, fit_together(self.scores, [s], self.given))
            for s in self.suspicions
            if self.seen(s) and not any(s.same(done) for done in (*self.added, *without))
        ]
        found = [
            (s, f)
            for s, f in fits
            if self.chance(s, f) < PROBABLE and f.gain > LEAST_SEEN and possible(s, f)
        ]
        return sorted(found, key=lambda pair: -pair[1].gain)

    def effect(self, columns: Sequence[int], size: FloatArray) -> float:
        """Return the largest change of a row's effort by sizes of columns, rms over rms."""
        change = [
            view.source.shaped(stack[:, :, list(columns)]) @ size
            for view, stack in zip(self.evidence.views, self.columns)
        ]
        efforts = [view.source.part.effort for view in self.evidence.views]
        top, bottom = (np.sqrt((np.concatenate(x) ** 2).mean(axis=0)) for x in (change, efforts))
        return float(np.max(top / np.maximum(bottom, 1e-300)))

    @cached_property
    def power(self) -> float:
        """Squares of what the model leaves, in units of noise."""
        return self.scores.power(self.given)

    @property
    def error(self) -> float:
        """Relative error of predicting held-out logs, or stretches left out. [1]"""
        if not self.evidence.held_out:
            return self.scores.left_out_error(self.given)
        square, size = ((np.concatenate(each) ** 2).sum(axis=0) for each in zip(*self._held_out))
        return float(np.sqrt(np.mean(square / np.maximum(size, 1e-300))))

    @cached_property
    def _held_out(self) -> list[tuple[FloatArray, FloatArray]]:
        """What prediction leaves of each held-out log, and its effort, (s, r)."""
        found = [self._model(view) for view in self.evidence.held_out_views]
        return [(y - W @ self._fitted[0], y) for W, y in found]

    @property
    def unseen(self) -> FloatArray:
        """Squares of predicting each stretch it has not seen, in units of noise, (g,)."""
        if not self.evidence.held_out:
            return self.scores.left_out_squares(self.given)
        left = [((each / self.noise) ** 2).sum(axis=1) for each, _ in self._held_out]
        labels = cut_stretches([len(each) for each in left])
        return np.asarray(
            np.bincount(np.concatenate(labels), np.concatenate(left)),
            dtype=float,
        )

    @cached_property
    def _fitted(self) -> tuple[FloatArray, FloatArray, float]:
        W, y = zip(*(self._model(view) for view in self.evidence.views))
        return fit_rows(np.concatenate(W), np.concatenate(y))

    def _model(self, view: View) -> tuple[FloatArray, FloatArray]:
        """Return regressor with added columns and effort of a log, zero where not counting."""
        part = view.source.part
        columns = [part.select(self.evidence.base.names).regressor]
        if self.added:
            columns.append(
                view.source.shaped(stack_directions(self.evidence, [view], self.added)[1][0])
            )
        return np.concatenate(columns, axis=2) * part.valid[:, :, None], part.effort * part.valid

    @property
    def left(self) -> float:
        return self._fitted[2]

    @cached_property
    def distance(self) -> float:
        values, sigma, _ = self._fitted
        b = len(self.evidence.base)
        return distance_to_file(
            values[:b],
            sigma[:b],
            prior_of(self.evidence.model, self.evidence.base),
        )


def noise_of_rows(evidence: Evidence) -> FloatArray:
    """Return the noise of the rows' means as repetitions show it, or what the fit leaves, (r,)."""
    parts = [source.part for source in evidence.logs]
    known = all(part.replicates is not None and len(part.replicates) > 1 for part in parts)
    squares = sum(
        ((deviations_of(part) ** 2).sum(axis=0) * part.valid).sum(axis=0)
        if known
        else (part.select(evidence.base.names).residual(evidence.values) ** 2).sum(axis=0)
        for part in parts
    )
    size = np.sqrt(squares / np.maximum(sum(part.n_valid for part in parts), 1))
    return np.asarray(np.maximum(size, 1e-9 * max(float(size.max()), 1e-300)))


def explains(before: Standing, after: Standing) -> bool:
    """Tell whether much less is left of unseen data, or as much of both."""
    own, unseen = (
        getattr(after, name) / max(getattr(before, name), 1e-300) for name in ("left", "error")
    )
    return bool(unseen <= BETTER or (own > BETTER and unseen <= WORSE))


def helps(before: Standing, after: Standing) -> bool:
    """Tell whether a correction lowers the error on unseen data: by much, or by a test over
    stretches.

    What shows in a few stretches only (friction at low speed) has few stretches for the
    test.
    """
    if after.unseen.sum() <= BETTER**2 * before.unseen.sum():
        return True
    fall = before.unseen - after.unseen
    spread = float(fall.std(ddof=1)) / np.sqrt(len(fall))
    return bool(fall.mean() > student_quantile(1 - LUCK, len(fall) - 1) * spread)


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One mistake found on the way."""

    suspicion: Suspicion
    fitted: Fitted  # its size and what it explains, at the corrected logs
    before: float  # error of the prediction, and with it corrected
    after: float
    standing: Standing  # of the search after it
    alike: tuple[Suspicion, ...] = ()  # others that explain as much: they cannot be told apart
    rivals: tuple[Step, ...] = ()  # what was tried instead and explained nearly as much

    @property
    def column(self) -> bool:
        """It became a column of the model; else it was undone on the logs."""
        return self.suspicion.direction.undo is None

    @property
    def resolved(self) -> bool:
        """The samples can tell it from other mistakes."""
        step = self.standing.evidence.views[0].track.step
        return bool(np.abs(self.fitted.size).max() >= self.suspicion.direction.samples * step)


Steps = tuple[Step, ...]


def search(start: Standing, *, most: int = 4) -> tuple[Steps, Step | None]:
    """Return mistakes one after the other, and one that explains more but predicts no better."""
    now, steps = start, Steps()
    while len(steps) < most:
        ranked = now.ranked([s.suspicion for s in steps])
        if not ranked:
            break
        best = ranked[0][1]
        reach = NEAR * max(CLOSE * best.inflation, best.share * now.power)
        near = [pair for pair in ranked[1:] if (best.share - pair[1].share) * now.power < reach]
        tried = [
            (step,)
            for pair in (ranked[0], *near[:NEIGHBOURS])
            if (step := _taken(start, now, steps, *pair)) is not None
        ]
        if not tried:
            break
        (step,) = _best(tried, 0)
        if not helps(now, step.standing):
            return steps, step
        steps = _polished(start, (*steps, step))
        now = Standing(steps[-1].standing.evidence, _added(steps), steps[-1].standing.noise)
    return steps, None


def _added(steps: Steps) -> list[Suspicion]:
    return [s.suspicion for s in steps if s.column]


def _taken(
    start: Standing,
    now: Standing,
    steps: Steps,
    suspicion: Suspicion,
    fitted: Fitted,
) -> Step | None:
    """Undo a suspicion, or add it to the model; None if that leaves as much."""
    step = Step(
        suspicion=suspicion,
        fitted=fitted,
        before=now.error,
        after=now.error,
        standing=now,
    )
    if step.column:
        model = [*_added(steps), suspicion]
        after = Standing(now.evidence, model, now.noise, model)
        return replace(step, after=after.error, standing=after)
    unsized = replace(step, fitted=replace(fitted, size=np.zeros_like(fitted.size)))
    found = _refined(start, (*steps, unsized), [len(steps)], fitted.size, now.power)
    if found is None:
        return None
    sure = (
        np.abs(found[-1].fitted.size) > 3 * found[-1].fitted.sigma
    ).any()  # with the derivative at its own size
    return found[-1] if sure else None


def _best(tried: Sequence[Steps], k: int) -> Steps:
    """Return the steps that leave least, or as much with a more plausible k-th.

    That leaves the robot nearest to its file, or is more usual.
    """
    tried = [steps for steps in tried if steps[k].resolved] or tried
    least = min(tried, key=lambda steps: steps[-1].standing.power)
    reach = least[-1].standing.power + CLOSE * least[k].fitted.inflation
    same = [steps for steps in tried if steps[-1].standing.power < reach]
    nearest = min(steps[-1].standing.distance for steps in same)
    usual = [*DIRECTIONS]  # the more usual ones stand first

    def implausible(steps: Steps) -> tuple[bool, int]:
        name = steps[k].suspicion.direction.name
        return steps[-1].standing.distance > nearest + NEARLY, usual.index(
            name
        ) if name in usual else len(usual)

    first, *others = sorted(same, key=implausible)
    chosen = replace(
        first[k],
        alike=tuple(steps[k].suspicion for steps in others),
        rivals=tuple(replace(steps[k], rivals=()) for steps in tried if steps is not first),
    )
    return (*first[:k], chosen, *first[k + 1 :])


def _polished(start: Standing, steps: Steps) -> Steps:
    """Find all sizes again, together: what was taken for the first may belong to the second.

    The rivals of earlier steps are tried once more: with the second corrected it may be one
    of them.
    """
    free = [k for k, s in enumerate(steps) if not s.column]
    if not free or len(steps) < 2:
        return steps
    for k in free[: None if steps[-1].column else -1]:
        tried = []
        for rival in (steps[k], *steps[k].rivals):
            trial = (
                *steps[:k],
                replace(rival, before=steps[k].before),
                *steps[k + 1 :],
            )
            still = np.zeros(sum(len(trial[i].fitted.size) for i in free))
            found = None if rival.column else _refined(start, trial, free, still, np.inf)
            if found is not None:
                tried.append(found)
        if tried:
            steps = _best(tried, k)
            steps = (
                *steps[: k + 1],
                replace(steps[k + 1], before=steps[k].after),
                *steps[k + 2 :],
            )
    return steps


def _refined(
    start: Standing,
    steps: Steps,
    free: Sequence[int],
    change: FloatArray,
    least: float,
) -> Steps | None:
    """Find sizes by Gauss-Newton steps; None if no step lowers what is left.

    Args:
        free: Which of the mistakes to find.
        change: The first step, sizes of the free ones side by side.
        least: What is left before it.
    """
    added, own, found = _added(steps), [steps[k].suspicion for k in free], None
    edges = np.cumsum([len(s.columns) for s in own])[:-1]
    for _ in range(ROUNDS):
        sizes = [s.fitted.size for s in steps]
        for k, part in zip(free, np.split(change, edges)):
            sizes[k] = sizes[k] + part
        undone = [partial(s.suspicion.undo, size=size) for s, size in zip(steps, sizes)]
        fresh = corrected(start.evidence, *undone)
        standing = (
            None
            if fresh is None
            else Standing(
                fresh,
                added,
                start.noise * noisier(start.evidence, undone),
                [*added, *own],
            )
        )
        if (
            standing is None or standing.power > least
        ):  # too far: the loops do not close there, or it gets worse
            change = change / 2
            continue
        if any(
            steps[k].suspicion.direction.unit == "1" and np.abs(sizes[k]).max() > LARGEST
            for k in free
        ):
            return None
        least = standing.power
        mine = [next(s for s in standing.suspicions if s.same(each)) for each in own]
        fitted, last = (
            fit_together(standing.scores, mine, standing.given),
            change,
        )
        slow = np.divide(fitted.size, last, out=np.zeros(len(last)), where=last != 0)
        change = np.where(
            (slow > 0) & (slow < SLOW),
            fitted.size / (1 - np.minimum(slow, SLOW)),
            fitted.size,
        )  # Aitken
        updated = list(steps)
        for k, at in zip(free, np.split(np.arange(len(change)), edges)):
            updated[k] = replace(
                steps[k],
                fitted=replace(
                    steps[k].fitted,
                    size=sizes[k],
                    covariance=fitted.covariance[np.ix_(at, at)],
                ),
            )
        updated[-1] = replace(updated[-1], after=standing.error, standing=standing)
        found = steps = tuple(updated)
        if np.all(np.abs(fitted.size) <= SMALL * fitted.sigma):
            break
    return found


def noisier(evidence: Evidence, undone: Sequence[partial[Track]]) -> FloatArray:
    """Return by how much the rows' noise grows as mistakes are undone, (r,)."""
    grown = np.ones(len(evidence.model.rows))
    view = evidence.views[0]
    for undo in () if evidence.model.loops.redundant else undone:
        zero, one = (
            undo(
                replace(view.track, effort=np.full_like(view.track.effort, x)),
                view,
            ).effort
            for x in (0.0, 1.0)
        )
        grown = grown * np.abs(one - zero).mean(axis=0)
    return grown
