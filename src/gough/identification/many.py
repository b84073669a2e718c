"""Identification from more logs than fit in memory: a sample chooses, factors of all logs decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.errors import GoughError, InvalidInput, InvalidRecording
from gough.core.executors import WorkSettings
from gough.core.options import Settings, nested, option, settle, takes
from gough.engine import Model, base_parameters
from gough.estimators.linear.robust import Robust
from gough.identification.identify import IdentifySettings, identify
from gough.identification.methods import ESTIMATORS, wants
from gough.identification.result import Identification
from gough.kernels.cache import cache_directory
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.mechanism import load_robot
from gough.processing import Processing, choose_processing
from gough.processing.factors import Bad, Job, collect, name_of, opened
from gough.processing.ready import matched

SAMPLE = 8  # logs that processing is chosen from, spread over all by name
SHOWN = 100_000  # samples of a long log that are looked at


@dataclass(frozen=True, kw_only=True)
class FactorSettings(Settings):
    """How many logs are condensed, and where."""

    factors: str | None = option(
        None, "Folder that keeps the factors of logs for the next start; in the user's cache by default.", file=True)
    bad: Bad = option("refuse", "What to do about logs that cannot be used, all of which are named.")
    work: WorkSettings = nested(WorkSettings)

    @property
    def folder(self) -> Path:
        """Where factors are kept."""
        if self.factors is not None:
            return Path(self.factors)
        cache = cache_directory()
        if cache is None:
            raise InvalidInput("there is no cache to keep factors in; name a folder with `factors`")
        return cache / "factors"


def looked_at(log: str) -> Recording:
    """Return a log, or the beginning of one that is long."""
    source = opened(log)
    return next(source.blocks(SHOWN)) if isinstance(source, RecordingSource) else source


def sample_of(model: Model, logs: Sequence[str], count: int = SAMPLE) -> list[Recording]:
    """Return logs of the robot spread over all by name, the beginning of long ones; others are passed by."""
    paths, found, problem = sorted(set(logs)), dict[int, Recording](), ""
    first = np.unique(np.round(np.linspace(0, len(paths) - 1, count)).astype(int)).tolist()
    for k in dict.fromkeys([*first, *range(len(paths))]):
        try:
            log = looked_at(paths[k])
            matched(log, model)
            found[k] = log
        except (GoughError, OSError) as error:
            problem = problem or str(error)
        if len(found) == min(count, len(paths)):
            break
    if not found:
        raise InvalidRecording(f"none of {len(paths)} logs can be used; the first: {problem}")
    return [found[k] for k in sorted(found)]


def frozen_job(robot: str, model: Model, sample: Sequence[Recording], processing: Processing, *,
               gains: Mapping[str, float] | None = None, tie_legs: bool = False, joint: bool = False) -> Job:
    """Return how all logs are condensed: with the processing chosen on a sample, then the same for every log."""
    payloads = tuple(dict.fromkeys(log.payload for log in sample if log.payload is not None))
    base = base_parameters(model, tie_legs=tie_legs, payloads=payloads)
    choice = choose_processing(model, sample, base, processing, gains=gains)
    return Job.of(robot, choice.processing, gains=gains, tie_legs=tie_legs, payloads=payloads, joint=joint)


@takes(IdentifySettings)
def identify_logs(robot: str, logs: Sequence[str], settings: IdentifySettings | None = None, *,
                  work: FactorSettings | None = None, held_out: Sequence[Recording] = (),
                  progress: Callable[[float], None] | None = None, **options: Any) -> Identification:
    """Identify a robot from any number of log files, condensed one by one, on several processes or a cluster.

    The processing is chosen on a sample of the logs and then frozen. Every log becomes a factor, the factors are merged
    in the order of the logs' paths: the result is the same to the last bit whatever the number of workers. Duplicates
    count once.

    Args:
        robot: Name or path of the robot file.
        logs: Paths, `log.csv@its.toml` with a description of its own.
        settings: How to identify; single options may be given by name instead.
        work: Where, and what to do about logs that cannot be used.
        progress: Called with the fraction done, over all workers.
    """
    chosen, where = settle(IdentifySettings, settings, options), work or FactorSettings()
    estimator = ESTIMATORS.get(chosen.estimator) if isinstance(chosen.estimator, str) else chosen.estimator
    if isinstance(estimator, Robust) or wants(estimator) in ("gains", "period"):
        raise InvalidInput(f"'{chosen.estimator}' needs the samples of all logs at once, which factors no longer have; "
                           "use gm, wls, ls or feasible, or identify a few logs in memory")
    tell = progress or (lambda fraction: None)
    model = Model(load_robot(robot))
    sample = sample_of(model, logs)
    job = frozen_job(robot, model, sample, chosen.processing, gains=chosen.gains, tie_legs=chosen.tie_legs, joint=True)
    tell(0.05)
    collected = collect(job, logs, where.folder, where.work.executor, bad=where.bad,
                        progress=lambda fraction: tell(0.05 + 0.85 * fraction))
    factor = collected.merged()
    result = identify(model, sample, replace(chosen, processing=job.settings), held_out=held_out,
                      whole=factor.condensed)
    rho, chance = factor.whiteness(result.estimate.select(factor.condensed.parameters).values)
    words = ", ".join(f"{row} {r:+.2f} (p = {p:.2g})" for row, r, p in zip(factor.condensed.rows, rho, chance))
    notes = (f"{len(collected.keys)} logs through factors; verdict, pictures and information over noise are those of "
             f"{len(sample)} of them", f"correlation of neighbouring residuals: {words}", *collected.notes)
    return replace(result, notes=(*notes, *result.notes), settings=chosen.to_dict(),
                   logs={**result.logs, "identification": tuple(map(name_of, collected.keys))})
