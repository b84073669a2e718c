"""The main verb: fit and validate a model, then judge it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from gough.core.errors import (
    InvalidInput,
    InvalidRecording,
    LoopNotClosed,
    SingularConfiguration,
)
from gough.core.notices import Notice
from gough.core.options import merge_settings, with_settings
from gough.core.progress import portion, report, reporting
from gough.engine import Model, Robot
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.gain_problem import GainProblem
from gough.fitting.log_statistics import LogStatistics
from gough.fitting.problem import PeriodicProblem, needed_problem
from gough.fitting.robust import Robust
from gough.identification.diagnosis import Diagnosis
from gough.identification.estimators import ESTIMATORS
from gough.identification.fit import FittedLogs, fit_logs
from gough.identification.many_logs import FactorSettings, frozen_job, sample_of
from gough.identification.result import Identification
from gough.identification.settings import AUTO_TERMS, IdentifySettings
from gough.logs.readers import Log
from gough.logs.recording import Recording
from gough.mechanism import load_robot
from gough.processing.many_logs import collect, name_of
from gough.verdict.diagnose import (
    NO_FAULT_RULES,
    DiagnoseSettings,
    explain_unusable_logs,
    with_time_unit,
)
from gough.verdict.judge import judge


@with_settings(IdentifySettings)
def identify(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: IdentifySettings | None = None,
    *,
    loaded: Log | Sequence[Log] | None = None,
    held_out: Log | Sequence[Log] | None = None,
    whole: BlockStatistics | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Identification:
    """Identify the dynamic parameters of a robot from its logs, validate them and judge the result.

    Args:
        model: The robot, also by name or path.
        recordings: Logs without payload (or, without `loaded`, all
            logs, each with the payload it names); one or several, read
            or as paths or DataFrames.
        settings: How; single options may be given by name instead.
        loaded: Logs with a known payload; if they hold currents, drive
            gains can be identified.
        held_out: Logs to validate on.
        whole: Sufficient statistics of all logs where `recordings` are
            only a sample of them: the estimate is that of all, verdict
            and figures are of the sample. See `identify_logs`.
        progress: Called with the fraction done.
    """
    chosen = merge_settings(IdentifySettings, settings, options)
    with reporting(progress) if progress is not None else nullcontext():
        try:
            with portion(0.0, 0.5):
                fitted = fit_logs(
                    model, recordings, chosen, loaded=loaded, held_out=held_out, whole=whole
                )
        except (InvalidRecording, LoopNotClosed, SingularConfiguration) as error:
            how = DiagnoseSettings(tie_legs=chosen.tie_legs, processing=chosen.processing)
            raise explain_unusable_logs(error, model, recordings, held_out, how) from error
        with portion(0.5, 1.0):
            notices, diagnosis = judge(fitted)
            notices, diagnosis = _with_time_unit(notices, diagnosis, fitted, chosen)
    result = fitted.identification
    return replace(result, notices=(*notices, *result.notices), diagnosis=diagnosis)


def _with_time_unit(
    notices: list[Notice],
    diagnosis: Diagnosis | None,
    fitted: FittedLogs,
    settings: IdentifySettings,
) -> tuple[list[Notice], Diagnosis | None]:
    """Return a verdict with a wrong unit of the times, if that explains an unexplained error."""
    if diagnosis is None or diagnosis.faults:
        return notices, diagnosis
    experiment = fitted.experiment
    with_unit = with_time_unit(
        diagnosis,
        experiment.model,
        experiment.recordings,
        () if fitted.held_out is None else fitted.held_out.recordings,
        DiagnoseSettings(tie_legs=settings.tie_legs, gains=experiment.gains or None),
        experiment.processing,
    )
    if not with_unit.faults:
        return notices, diagnosis
    faults = [fault.notice() for fault in with_unit.faults]
    others = [notice for notice in notices if notice.rule not in NO_FAULT_RULES]
    return [*faults, *others], with_unit


@with_settings(IdentifySettings)
def identify_logs(
    robot: str,
    logs: Sequence[str],
    settings: IdentifySettings | None = None,
    *,
    work: FactorSettings | None = None,
    held_out: Sequence[Recording] = (),
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Identification:
    """Identify a robot from any number of log files, on several processes or a cluster.

    The processing is chosen on a sample of the logs and then frozen.
    Every log is reduced to sufficient statistics, which are merged in
    the order of the logs' paths: the result is the same to the last bit
    whatever the number of workers. Duplicates count once.

    Args:
        robot: Name or path of the robot file.
        logs: Paths, `log.csv@its.toml` with a description of its own.
        settings: How to identify; single options may be given by name
            instead.
        work: Where, and what to do about logs that cannot be used.
        progress: Called with the fraction done, over all workers.
    """
    chosen = merge_settings(IdentifySettings, settings, options)
    _check_reducible(chosen)
    where = work or FactorSettings()
    with reporting(progress) if progress is not None else nullcontext():
        return _identify_by_statistics(robot, logs, chosen, where, held_out)


def _identify_by_statistics(
    robot: str,
    logs: Sequence[str],
    chosen: IdentifySettings,
    where: FactorSettings,
    held_out: Sequence[Recording],
) -> Identification:
    """Identify a robot from the sufficient statistics of logs; see `identify_logs`."""
    model = Model(load_robot(robot))
    sample = sample_of(model, logs)
    job = frozen_job(
        robot,
        model,
        sample,
        chosen.processing,
        gains=chosen.gains,
        tie_legs=chosen.tie_legs,
        joint=True,
    )
    report(0.05)
    collected = collect(
        job,
        logs,
        where.folder,
        where.work.executor,
        bad=where.bad,
        progress=lambda fraction: report(0.05 + 0.85 * fraction),
    )
    # the statistics are on this machine, not on the cluster
    executor = None if where.work.cluster is not None else where.work.executor
    merged = collected.merged(executor)
    with portion(0.9, 1.0):
        result = identify(
            model,
            sample,
            replace(chosen, processing=job.settings),
            held_out=held_out,
            whole=merged.statistics,
        )
    used = Notice(
        rule="many logs",
        level="info",
        text=f"{len(collected.keys)} logs by sufficient statistics; the verdict, the figures "
        f"and the signal-to-noise ratios are from {len(sample)} of them",
    )
    notices = (used, _whiteness_notice(merged, result), *collected.notices, *result.notices)
    names = tuple(name_of(key) for key in collected.keys)
    return replace(
        result,
        notices=notices,
        settings=chosen.to_dict(),
        logs={**result.logs, "identification": names},
    )


def _check_reducible(settings: IdentifySettings) -> None:
    """Raise if an identification needs more of the logs than their sufficient statistics."""
    estimator: Any = settings.estimator
    if isinstance(estimator, str):
        estimator = ESTIMATORS.get(estimator)
    needs_samples = needed_problem(estimator) in (GainProblem, PeriodicProblem)
    if needs_samples or isinstance(estimator, Robust):
        raise InvalidInput(
            f"'{settings.estimator}' needs the samples of all logs at once, which sufficient "
            "statistics no longer have; use gm, wls, ls or feasible, or identify a few logs in "
            "memory"
        )
    if settings.terms == AUTO_TERMS:
        raise InvalidInput(
            "joint terms are chosen on logs in memory; identify some of the logs with "
            "terms='auto', then all of them with the robot file that is written beside the result"
        )
    if settings.carrying is not None:
        raise InvalidInput(
            "logs are divided by a signal in memory, not into sufficient statistics; identify a "
            "few of them, or give logs with and without the payload"
        )


def _whiteness_notice(merged: LogStatistics, result: Identification) -> Notice:
    """Return the correlation of neighbouring residuals of all logs, by joint equation."""
    values = result.estimate.select(merged.statistics.parameters).values
    correlation, p_value = merged.whiteness(values)
    words = []
    for row, r, p in zip(merged.statistics.rows, correlation, p_value):
        words.append(f"{row} {r:+.2f} (p = {p:.2g})")
    return Notice(
        rule="whiteness",
        level="info",
        text=f"correlation of neighbouring residuals: {', '.join(words)}",
    )
