"""Logs that are unlike the others."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.statistics import robust_scale
from gough.verdict.blocks import ERROR_FLOOR
from gough.verdict.stage import Stage

MAX_LOGS_BY_ONE = 4  # logs up to which a fault is tried in every single one
MIN_LOGS_TO_COMPARE = 3  # below it no log can be called odd
ODD_LOG_RATIO = 2.0  # error over that of the median log
ODD_LOG_DEVIATIONS = 6.0  # robust standard deviations above the median


def log_errors(stage: Stage) -> FloatArray:
    """Return the mean over rows of log(error / effort) of each log, left out of the fit, (l,).

    NaN of a log without which some parameters are not determined: its
    error then says nothing.
    """
    validation = stage.baseline.validation(stage.block_log)
    n_valid = np.maximum(validation.n_valid, 1)
    relative = validation.squares / n_valid / np.maximum(stage.baseline.sums.effort_power, TINY)
    errors = np.asarray(0.5 * np.log(relative + ERROR_FLOOR**2).mean(axis=1))
    payloads = [log.payload for log in stage.evidence.logs]
    estimated = {name.payload for name in stage.evidence.base.names} - {None}
    errors[needed_logs(payloads, estimated)] = np.nan
    return errors


def needed_logs(payloads: Sequence[str | None], estimated: Set[str | None]) -> list[int]:
    """Return the logs without which the payloads of the others are not determined.

    The only log with a payload that is estimated determines this
    payload. The only log without one separates the platform from the
    payloads, if those of all other logs are estimated.

    Args:
        payloads: Payload of each log.
        estimated: Payloads some of whose parameters are estimated.
    """
    needed = []
    for k, payload in enumerate(payloads):
        others = {*payloads[:k], *payloads[k + 1 :]}
        if payload in others or not estimated:
            continue
        if payload in estimated or (payload is None and others <= estimated):
            needed.append(k)
    return needed


def odd_logs(errors: FloatArray) -> list[int]:
    """Return the logs that are predicted much worse than the others, worst first.

    More than twice as badly as the median log, and by six robust
    standard deviations. Logs without a known error are not compared.
    """
    known = errors[np.isfinite(errors)]
    if len(known) < MIN_LOGS_TO_COMPARE:
        return []
    above = np.nan_to_num(errors - np.median(known), nan=0.0)
    scatter = max(float(robust_scale(known - np.median(known))), TINY)
    odd = np.flatnonzero((above > np.log(ODD_LOG_RATIO)) & (above > ODD_LOG_DEVIATIONS * scatter))
    return [int(k) for k in odd[np.argsort(-above[odd])]]


def logs_tried_alone(stage: Stage) -> tuple[int, ...]:
    """Return the logs in which a fault is tried alone: every one of a few, else the odd ones."""
    n_logs = len(stage.labels)
    if n_logs < 2:
        return ()
    if n_logs <= MAX_LOGS_BY_ONE:
        return tuple(range(n_logs))
    return tuple(odd_logs(log_errors(stage))[:MAX_LOGS_BY_ONE])
