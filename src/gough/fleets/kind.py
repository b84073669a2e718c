"""The kind of robot as a whole: verdict on its model, and errors that all robots share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import GoughError, StorageFault
from gough.core.names import Parameter
from gough.core.notices import Notice
from gough.fitting.estimate import Estimate
from gough.fleets.history import RobotHistory, spread_logs
from gough.identification.fit import FittedLogs, fit_logs
from gough.identification.many_logs import read_beginning
from gough.identification.position_noise import attenuation_bias
from gough.identification.settings import IdentifySettings
from gough.processing.many_logs import Job, divide_logs, robot_of
from gough.verdict.judge import judge

# logs of a robot on which the model of the kind is judged; the last is
# held out
KIND_LOGS = 4


class KindVerdict(NamedTuple):
    """What the logs of a typical robot show about the model of its kind."""

    notices: tuple[Notice, ...]
    # of the parameters by position noise, the same for all robots, (p,)
    attenuation: FloatArray


def judge_kind(job: Job, typical: RobotHistory) -> KindVerdict:
    """Judge the model of a kind on a few logs of one robot, as `identify` does.

    Args:
        job: How logs were processed.
        typical: A robot without anything unusual, with the median
            residual.
    """
    model = robot_of(job)[0]
    parameters = typical.estimate.parameters
    logs = spread_logs(typical, KIND_LOGS)
    settings = IdentifySettings(
        estimator="wls",
        tie_legs=job.tie_legs,
        gains=parse_json(job.gains),
        processing=job.settings,
    )
    try:
        recordings = [read_beginning(log) for log in logs]
        n_fitted = max(len(recordings) - 1, 1)
        fitted_logs = divide_logs(recordings[:n_fitted], job.carrying)
        held_out = divide_logs(recordings[n_fitted:], job.carrying)
        fitted = fit_logs(model, fitted_logs, settings, held_out=held_out or None)
        rules, _ = judge(fitted)
    except StorageFault:
        raise
    except GoughError as error:
        notice = Notice(
            rule="kind",
            level="warning",
            where=typical.robot,
            text=f"the model of the kind could not be judged on its logs: {error}",
        )
        return KindVerdict((notice,), np.zeros(len(parameters)))
    notices = _summary(fitted, typical.robot, len(recordings))
    for notice in (*rules, *fitted.identification.notices):
        if notice.level != "info":
            where = ": ".join(filter(None, (typical.robot, notice.where)))
            notices.append(replace(notice, where=where))
    return KindVerdict(tuple(notices), _attenuation(fitted, parameters))


def _summary(fitted: FittedLogs, robot: str, n_logs: int) -> list[Notice]:
    """State on what the kind was judged, with the error on the held-out log."""
    text = f"the model of the kind was judged on {n_logs} logs of this robot, a typical one"
    if fitted.held_out is not None:
        error = float(np.mean(fitted.identification.validation.relative))
        text += f"; error on a held-out log {100 * error:.3g} % of the effort"
    return [Notice(rule="kind", level="info", where=robot, text=text)]


def _attenuation(fitted: FittedLogs, parameters: Sequence[Parameter]) -> FloatArray:
    """Return the attenuation by position noise of some parameters, (p,)."""
    estimate = fitted.identification.estimate
    bias = dict(zip(estimate.parameters, attenuation_bias(fitted.experiment, estimate)))
    return np.array([bias.get(name, 0.0) for name in parameters])


class ErrorParts(NamedTuple):
    """Covariances of the robots' estimates, apart by whether robots share the error."""

    independent: FloatArray  # of each robot, (n, p, p)
    # variance of the error that all robots have alike, (p,)
    shared: FloatArray


def error_parts(estimates: Sequence[Estimate]) -> ErrorParts:
    """Divide the errors of n estimates into those of each robot and those that all share.

    Noise differs from robot to robot. Errors of the model (friction
    that depends on temperature, filters, position noise) are alike in
    robots of one kind that do the same work: they do not average out in
    the mean of the kind. How much of a robot's error is of the model is
    the variance beyond that of noise, which blocks and logs left out
    show; the median over robots is taken as shared, and what a robot
    has beyond it as its own.

    Position noise, which no block shows, is not in them.

    Args:
        estimates: One of each robot, with the same parameters.
    """
    covariances = np.array([estimate.covariance for estimate in estimates])
    variance = np.array([estimate.std**2 for estimate in estimates])
    noise = np.array([estimate.noise_std**2 for estimate in estimates])
    surplus = np.maximum(np.median(variance - noise, axis=0), 0.0)
    own_variance = np.maximum(variance - surplus, np.minimum(noise, variance))
    ratio = np.ones_like(variance)
    np.divide(own_variance, variance, out=ratio, where=variance > 0)
    scale = np.sqrt(ratio)
    independent = covariances * scale[:, :, None] * scale[:, None, :]
    return ErrorParts(independent, surplus)
