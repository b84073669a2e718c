"""All continuous faults on a stage of the search, ranked by what they explain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.progress import tracked
from gough.verdict.blocks import BlockSums, block_sums, select_columns
from gough.verdict.evidence import Evidence
from gough.verdict.explanation import Candidate, Explanation
from gough.verdict.faults import PAYLOAD_FAULT, Fault
from gough.verdict.stage import Stage

# candidates that are cross-validated; the others explain less
MAX_SCREENED = 80
RESAMPLED_TOGETHER = 32  # sensitivities that are low-passed in one go
# standard errors of a size, as if noise were white, to be
# cross-validated
MIN_SCREENED_Z = 4.0


def _side_by_side(sensitivities: Sequence[FloatArray]) -> FloatArray:
    """Return sensitivities (t, r, k) as one array with all their columns.

    The samples of each column are neighbours in memory, as they are in
    most sensitivities.
    """
    columns = np.concatenate([each.transpose(1, 2, 0) for each in sensitivities], axis=1)
    return columns.transpose(2, 0, 1)


def scopes_of(
    fault: Fault, place: str, evidence: Evidence, single_logs: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return the sets of logs in which a fault at a place is tried.

    Args:
        fault: The fault.
        place: One of its places.
        evidence: The logs.
        single_logs: Numbers of the logs that are tried alone.
    """
    n_logs = len(evidence.logs)
    names = [log.name for log in evidence.logs]
    scopes: list[tuple[int, ...]] = []
    if fault.segment is not None:
        scopes.append((fault.segment[0],))
    elif "all logs" in fault.scopes or n_logs == 1:
        scopes.append(tuple(range(n_logs)))
    if "one log" in fault.scopes and fault.segment is None:
        for k in single_logs:
            if place not in names or names[k] == place:
                scopes.append((k,))
    return scopes


def count_trials(faults: Sequence[Fault], evidence: Evidence, single_logs: Sequence[int]) -> int:
    """Return how many trials some faults are, at all their places and in all their scopes."""
    trials = 0
    for fault in faults:
        for place in fault.places(evidence):
            n_scopes = len(scopes_of(fault, place, evidence, single_logs))
            trials += n_scopes * fault.searched(evidence, place)
    return trials


class Screen:
    """All continuous candidates of a stage, ranked by how much they lower the squared error.

    Args:
        stage: The logs as corrected so far.
        faults: That are tried.
        single_logs: Numbers of the logs that are tried alone.
        before: Of an earlier stage; if the logs are the same, its
            columns of faults are used.
    """

    def __init__(
        self,
        stage: Stage,
        faults: Sequence[Fault],
        single_logs: Sequence[int],
        before: Screen | None = None,
    ) -> None:
        self.stage = stage
        self.faults = tuple(faults)
        self.single_logs = tuple(single_logs)
        self.candidates: list[Candidate] = []
        self.trials = 0
        places = {fault: tuple(fault.places(stage.evidence)) for fault in faults}
        shapes: list[tuple[Fault, str]] = []  # places with columns of their own
        for fault, its_places in places.items():
            # the columns of a payload are the same in all logs
            n_own = 1 if fault.name == PAYLOAD_FAULT else len(its_places)
            shapes += [(fault, place) for place in its_places[:n_own]]
        # columns of faults at the samples of the regressions, (t, r, c)
        # of each log
        self.stacked: list[FloatArray] = []
        self.columns: dict[tuple[Fault, str], tuple[int, ...]] = {}  # numbers of these columns
        if before is not None and before.stage.evidence is stage.evidence:
            self.stacked = before.stacked
            self.columns = dict(before.columns)
        self._stack([shape for shape in shapes if shape not in self.columns])
        for fault, its_places in places.items():
            for place in its_places:
                shape = (fault, place)
                if shape not in self.columns:
                    shape = (fault, its_places[0])
                self._add(fault, place, self.columns[shape])
        self.ranked = self._rank()

    def _stack(self, shapes: Sequence[tuple[Fault, str]]) -> None:
        """Add the columns of some faults at their places, zero in logs that they cannot be in."""
        of_logs: list[dict[tuple[Fault, str], FloatArray]] = []
        for number, log in enumerate(tracked(self.stage.evidence.logs)):
            of_log: dict[tuple[Fault, str], FloatArray] = {}
            here = [shape for shape in shapes if shape[0].can_be_in(number)]
            for start in range(0, len(here), RESAMPLED_TOGETHER):
                some = here[start : start + RESAMPLED_TOGETHER]
                sensitivities = [fault.sensitivity(log, place) for fault, place in some]
                resampled = log.resampled(_side_by_side(sensitivities))
                ends = np.cumsum([each.shape[2] for each in sensitivities])
                of_log.update(zip(some, np.split(resampled, ends[:-1], axis=2)))
            of_logs.append(of_log)
        first = self.stacked[0].shape[2] if self.stacked else 0
        for shape in shapes:
            width = next(of_log[shape].shape[2] for of_log in of_logs if shape in of_log)
            self.columns[shape] = tuple(range(first, first + width))
            first += width
        stacked = []
        for number, log in enumerate(self.stage.evidence.logs):
            columns = np.zeros((len(log.regression), len(log.model.rows), first))
            if self.stacked:
                columns[:, :, : self.stacked[number].shape[2]] = self.stacked[number]
            for shape, of_shape in of_logs[number].items():
                columns[:, :, self.columns[shape]] = of_shape
            stacked.append(columns)
        self.stacked = stacked

    def _add(self, fault: Fault, place: str, columns: tuple[int, ...]) -> None:
        """Add a fault at a place in all its scopes."""
        evidence = self.stage.evidence
        for scope in scopes_of(fault, place, evidence, self.single_logs):
            candidate = Candidate(fault=fault, place=place, logs=scope, columns=columns)
            self.trials += fault.searched(evidence, place)
            if not candidate.is_one_of(self.stage.accepted):
                self.candidates.append(candidate)

    def _rank(self) -> list[Candidate]:
        """Return the candidates worth a cross-validation, the best first."""
        stage = self.stage
        grams = []
        for number, columns in enumerate(self.stacked):
            stacked = stage.weighted_equations(number, columns)
            flat = stacked.reshape(-1, stacked.shape[2])
            grams.append(flat.T @ flat)
        every_log = tuple(range(len(grams)))
        of_scope = {every_log: np.sum(grams, axis=0)}
        n_model = stage.baseline.sums.n_columns
        by_size: dict[int, list[int]] = {}  # candidates by their number of columns
        for k, candidate in enumerate(self.candidates):
            by_size.setdefault(len(candidate.columns), []).append(k)
        z = np.zeros(len(self.candidates))
        for size, numbers in by_size.items():
            rows = np.zeros((len(numbers), size, n_model + size + 1))
            for row, k in zip(rows, numbers):
                candidate = self.candidates[k]
                if candidate.logs not in of_scope:
                    of_scope[candidate.logs] = np.sum([grams[i] for i in candidate.logs], axis=0)
                columns_here = [n_model + column for column in candidate.columns]
                products = of_scope[candidate.logs][columns_here]
                row[:, :n_model] = products[:, :n_model]
                row[:, n_model:-1] = products[:, columns_here]
                row[:, -1] = products[:, -1]
            z[numbers] = explained_squares(stage, rows)
        order = np.argsort(z)[::-1]
        kept = [int(k) for k in order[:MAX_SCREENED] if z[k] > MIN_SCREENED_Z]
        return [self.candidates[k] for k in kept]

    def candidate_of(self, explanation: Explanation) -> Candidate:
        """Return the candidate that an explanation is an estimate of."""
        for candidate in self.candidates:
            same_place = (candidate.place, candidate.logs) == (explanation.place, explanation.logs)
            if same_place and candidate.fault is explanation.fault:
                return candidate
        raise ValueError(f"{explanation.name} of {explanation.place} was not screened")

    def sums(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, BlockSums]]:
        """Yield the sums of the model with each candidate, zero outside its scope.

        One after the other: those of all together take hundreds of
        megabytes, and most of the time would be spent on getting this
        memory.
        """
        stage = self.stage
        all_columns: set[int] = set()
        for candidate in candidates:
            all_columns.update(candidate.columns)
        needed = sorted(all_columns)
        columns = []
        for accepted, of_faults in zip(stage.accepted_columns, self.stacked):
            columns.append(np.concatenate([accepted, of_faults[:, :, needed]], axis=2))
        sums = block_sums(stage.evidence.logs, stage.labels, columns)
        first = sums.n_parameters + stage.n_added
        for candidate in candidates:
            place = [first + needed.index(k) for k in candidate.columns]
            model = [*range(first), *place, sums.n_columns]
            grams = select_columns(sums.grams, model)
            outside = ~stage.scope(candidate.logs)
            for k in range(first, first + len(place)):
                grams[outside, :, k, :] = 0.0
                grams[outside, :, :, k] = 0.0
            yield candidate, replace(sums, grams=grams)


def explained_squares(stage: Stage, rows: FloatArray) -> FloatArray:
    """Return roots of the fall of the squared error by columns, in units of the noise, (m,).

    Args:
        stage: With the fit of the model to all blocks.
        rows: Products of k columns with [model, columns, effort] inside
            the scope of the columns, of m alternatives, (m, k, c).
    """
    fit = stage.whole_fit
    n_model = len(fit.scale)
    by_model = rows[:, :, :n_model]
    gram = rows[:, :, n_model:-1]
    score = by_model @ fit.residual[:-1] + rows[:, :, -1]
    cross = by_model / fit.scale
    free = gram - cross @ fit.inverse @ cross.transpose(0, 2, 1)
    power = np.diagonal(gram, axis1=1, axis2=2)
    free_power = np.diagonal(free, axis1=1, axis2=2)
    seen = free_power > 1e-8 * np.maximum(power, TINY)
    scale = np.where(seen, np.sqrt(np.where(seen, free_power, 1.0)), np.inf)
    unit = free / (scale[:, :, None] * scale[:, None, :])
    values, vectors = np.linalg.eigh(unit)
    large = values > 1e-8
    projected = (vectors.transpose(0, 2, 1) @ (score / scale)[:, :, None])[:, :, 0]
    squares = np.where(large, projected**2 / np.where(large, values, 1.0), 0.0)
    return np.asarray(np.sqrt(squares.sum(axis=1)))
