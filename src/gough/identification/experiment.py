"""Recordings made ready for estimation: one regression of all, samples near reversals left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, InvalidRecording, NotIdentifiable, nearest
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression, concatenate
from gough.engine import Model
from gough.estimators.linear.least_squares import WeightedLeastSquares
from gough.logs.recording import Recording
from gough.processing import Processed, Processing, process, regression
from gough.processing.reversals import away_from_reversals, reversal_window


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Recordings made ready: one regression of all, and each part for pictures.

    Args:
        base: The base parameters of the experiment.
        processed: Each recording.
        whole: Each recording's regression.
        parts: The same, samples near reversals left out.
        problem: All parts together.
        window: Half width of what was left out about reversals. [s]
        gains: Drive gains used, by joint; empty where efforts were recorded.
    """

    base: BaseParameters
    processed: tuple[Processed, ...]
    whole: tuple[Regression, ...]
    parts: tuple[Regression, ...]
    problem: Regression
    window: float
    gains: Mapping[str, float]


@one_blas_thread
def prepare(model: Model, recordings: Sequence[Recording], base: BaseParameters, *,
            processing: Processing | None = None, gains: Mapping[str, float] | None = None,
            window: float | None = None, strict: bool = False) -> Experiment:
    """Process recordings and build their joint regression; a first fit finds the reversal window unless given.

    Args:
        model: The robot.
        recordings: Logs of it.
        base: Base parameters (with payload columns where payloads were carried).
        processing: How to process; from the data by default.
        gains: Drive gains by joint for logs with currents; the robot file's by default.
        window: Half width of what is left out about velocity reversals; 0 keeps all. [s]
        strict: Refuse a window that leaves too few samples of a recording, instead of keeping all of it.
    """
    if not recordings:
        raise InvalidInput("there is no recording to identify from")
    return assemble(model, [process(model, recording, processing) for recording in recordings], base, gains=gains,
                    window=window, strict=strict)


def assemble(model: Model, processed: Sequence[Processed], base: BaseParameters, *,
             gains: Mapping[str, float] | None = None, window: float | None = None, strict: bool = False) -> Experiment:
    """Build the joint regression of processed recordings; arguments as in `prepare`."""
    done, factors = in_efforts(model, processed, gains)
    full = [regression(model, p, base) for p in done]
    if window is None:
        window = 0.0 if all(p.parallel for p in done) else _first_window(model, done, full)
    parts = tuple(kept_samples(model, p, part, window, strict) for p, part in zip(done, full))
    problem = parts[0] if len(parts) == 1 else concatenate(parts)
    return Experiment(base=base, processed=done, whole=tuple(full), parts=parts, problem=problem, window=window,
                      gains=factors)


def in_efforts(model: Model, processed: Sequence[Processed],
               gains: Mapping[str, float] | None = None) -> tuple[tuple[Processed, ...], dict[str, float]]:
    """Return recordings with currents turned into efforts, and the drive gains used; none where there are no currents.

    Args:
        model: The robot.
        processed: Its recordings.
        gains: Drive gains by joint; the robot file's by default.
    """
    factors = drive_gains(model, gains) if any(log.current for log in processed) else {}
    vector = np.array([factors.get(name, 1.0) for name in model.mechanism.actuated])
    return tuple(log.with_gains(vector) for log in processed), factors


def drive_gains(model: Model, gains: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return a drive gain for every motor: given ones, else the robot file's.

    Raises:
        InvalidInput: A gain is missing, not positive, or of no motor.
    """
    for name in gains or {}:
        if name not in model.mechanism.actuated:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, model.mechanism.actuated)}")
    found = {}
    for name in model.mechanism.actuated:
        value = (gains or {}).get(name, model.mechanism.joint(name).gain)
        if value is None:
            raise InvalidRecording(
                f"the log holds currents but the drive gain of '{name}' is not known; give 'gain' in the robot file, "
                "or identify the gains from an unloaded log and one with a weighed payload")
        if not value > 0:
            raise InvalidInput(f"the drive gain of '{name}' is {value}, expected a positive number")
        found[name] = float(value)
    return found


def _first_window(model: Model, processed: Sequence[Processed], parts: Sequence[Regression]) -> float:
    """Fit once with all samples and see how long residuals stay large after reversals."""
    try:
        problem = concatenate([replace(p, group=None, replicates=None) for p in parts])
        # Columns of payloads that none of these logs carries are zero; the rest is fitted without them.
        used = np.asarray(problem.regressor.any(axis=(0, 1)))
        problem = problem.select([name for name, there in zip(problem.parameters, used) if there])
        first = WeightedLeastSquares(uncertainty="white").fit(problem)
    except NotIdentifiable:
        return 0.0
    return max(reversal_window(model, p.motion, part, part.effort - first.predict(part))
               for p, part in zip(processed, parts))


def kept_samples(model: Model, processed: Processed, part: Regression, window: float, strict: bool) -> Regression:
    """Return a regression without the samples near reversals; all of it where too few would remain.

    Raises:
        InvalidInput: A negative window, or with `strict` one that leaves too little.
    """
    assert part.time is not None
    if not window >= 0:
        raise InvalidInput(f"the window about reversals is {window} s; it must not be negative", window=window)
    if window == 0:
        return part
    keep = away_from_reversals(model, processed.motion, part.time, window, processed.dead_band)
    if keep.sum() < 3 * len(part.parameters) / len(part.rows):
        if strict:
            raise InvalidInput(f"{processed.source}: a window of {window} s about reversals leaves {keep.sum()} of "
                               f"{len(part)} samples; give a shorter one, or 0 to keep all", window=window)
        return part
    return part.take(np.flatnonzero(keep))
