"""A cut-off that suits further logs as well, which may be faster than those it was chosen on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY
from gough.core.blas import one_blas_thread
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.logs.recording import Recording
from gough.processing.choice import (
    CUTOFF_RATIO,
    CUTOFF_TIE_RATIO,
    lowest_cutoff,
    samples_of_logs,
)
from gough.processing.cross_validation import CrossValidation
from gough.processing.filters import FILTER_EDGE_PERIODS
from gough.processing.matching import MatchedLog, match_robot
from gough.processing.processed_log import (
    NON_PERIODIC_CUTOFF_RATIO,
    ProcessedLog,
    equations_of_samples,
)
from gough.processing.settings import MAX_CUTOFF_RATIO, Processing, decimation_of
from gough.processing.valid_equations import dead_bands


@one_blas_thread
def raised_cutoff(
    model: Model,
    logs: Sequence[Recording | MatchedLog],
    parameters: BaseParameters | Sequence[Parameter],
    settings: Processing,
    values: Mapping[Parameter, float],
    *,
    free: Sequence[Parameter] = (),
    gains: Mapping[str, float] | None = None,
) -> Processing:
    """Return complete settings with a cut-off that suits other logs as well, which may be faster.

    The cut-off is doubled as long as the known values predict the
    recorded, unfiltered effort better by more than `CUTOFF_TIE_RATIO`.
    Of repeated motions all harmonics up to their own highest are kept.

    Args:
        parameters: Those that the regressions of the other logs will
            have.
        values: Of the parameters; zero where they are not named.
        free: Parameters of a load on all of them, which are not known
            but fitted at each cut-off.
    """
    chosen_cutoff = settings.cutoff
    if chosen_cutoff is None:
        return settings
    matched = [match_robot(model, log, settings.repeats) for log in logs]
    if settings.method == "explicit":
        periodic = [log for log in matched if log.average is not None]
        if periodic:
            cutoffs = [log.pose_cutoff for log in periodic]
            return replace(settings, cutoff=max([chosen_cutoff, *cutoffs]))
        # without periods: as such logs are filtered, and higher if they
        # move faster
        chosen_cutoff = NON_PERIODIC_CUTOFF_RATIO * chosen_cutoff
        settings = replace(
            settings,
            method="time",
            cutoff=chosen_cutoff,
            decimation=None,
        )
    if settings.method != "time":
        return settings
    samples = samples_of_logs(model, matched, settings)
    validation = CrossValidation(model, samples, parameters, gains)
    highest = MAX_CUTOFF_RATIO * validation.rate
    start = max(chosen_cutoff, lowest_cutoff(validation))
    start = min(start, highest)
    if settings.decimation is None or start > chosen_cutoff:
        decimation = decimation_of(start, validation.rate)
        settings = replace(settings, cutoff=start, decimation=decimation)
    noise_bands = dead_bands(model, validation.process(settings))
    settings = settings.with_wider_bands(noise_bands)
    margin = FILTER_EDGE_PERIODS / start

    def error(cutoff: float) -> float:
        tried = replace(settings, cutoff=cutoff, decimation=None)
        processed = validation.process(tried)
        return _error_of_values(validation, processed, settings, values, free, margin)

    cutoff = start
    best = error(cutoff)
    while CUTOFF_RATIO * cutoff <= highest:
        next_error = error(CUTOFF_RATIO * cutoff)
        if next_error * CUTOFF_TIE_RATIO >= best:
            break
        cutoff *= CUTOFF_RATIO
        best = next_error
    if cutoff == settings.cutoff:
        return settings
    decimation = decimation_of(cutoff, validation.rate)
    settings = replace(settings, cutoff=cutoff, decimation=decimation)
    # velocities are noisier behind a higher cut-off
    noise_bands = dead_bands(model, validation.process(settings))
    return settings.with_wider_bands(noise_bands)


def _error_of_values(
    validation: CrossValidation,
    logs: Sequence[ProcessedLog],
    settings: Processing,
    values: Mapping[Parameter, float],
    free: Sequence[Parameter],
    margin: float,
) -> float:
    """Return the geometric mean of the rows' relative errors with known values.

    Args:
        margin: Excluded at both ends of a log. [s]
    """
    equations = []
    for log in logs:
        if free:
            log = replace(log, payload=free[0].payload)
        log = log.with_bands(settings)
        time = log.motion.time
        recorded = validation.recorded(log)
        begin = recorded.begin + margin
        end = recorded.end - margin
        inside = (time >= begin) & (time <= end)
        here = recorded.is_predicted & inside
        block = equations_of_samples(
            validation.model, log, validation.parameters, here, recorded.effort
        )
        equations.append(block)
    names = equations[0].parameters
    known = np.array([values.get(name, 0.0) for name in names])
    residual = np.concatenate([block.residual(known) for block in equations])
    effort_squares = sum((block.effort**2).sum(axis=0) for block in equations)
    norm = np.sqrt(effort_squares + TINY)
    if free:
        load_columns = [block.select(free).regressor for block in equations]
        regressor = np.concatenate(load_columns)
        scaled = regressor / norm[:, None]
        flat = scaled.reshape(-1, len(free))
        target = (residual / norm).ravel()
        fitted = np.linalg.lstsq(flat, target, rcond=None)[0]
        residual = residual - norm * (scaled @ fitted)
    squares = (residual**2).sum(axis=0) / norm**2 + TINY
    return float(np.exp(0.5 * np.mean(np.log(squares))))
