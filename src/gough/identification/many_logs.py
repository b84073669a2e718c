"""Logs that do not fit in memory: processing chosen on a sample of them, and the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gough.core.errors import GoughError, InvalidInput, InvalidRecording
from gough.core.executors import WorkSettings
from gough.core.options import Settings, nested, option
from gough.engine import Model, base_parameters
from gough.kernels.cache import cache_directory
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing import Processing, choose_processing, in_robot_order
from gough.processing.many_logs import Bad, Job, open_log

SAMPLE = 8  # logs that processing is chosen from, spread over all by name
SHOWN = 100_000  # samples of a long log that are looked at


@dataclass(frozen=True, kw_only=True)
class FactorSettings(Settings):
    """How many logs are condensed, and where."""

    factors: str | None = option(
        None,
        "Folder that keeps the factors of logs for the next start; in the user's cache by default.",
        file=True,
    )
    bad: Bad = option(
        "refuse", "What to do about logs that cannot be used, all of which are named."
    )
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
    source = open_log(log)
    return next(source.blocks(SHOWN)) if isinstance(source, RecordingSource) else source


def sample_of(model: Model, logs: Sequence[str], count: int = SAMPLE) -> list[Recording]:
    """Return logs of the robot spread over all by name, the beginning of long ones; others are
    passed by.
    """
    paths, found, problem = sorted(set(logs)), dict[int, Recording](), ""
    first = np.unique(np.round(np.linspace(0, len(paths) - 1, count)).astype(int)).tolist()
    for k in dict.fromkeys([*first, *range(len(paths))]):
        try:
            log = looked_at(paths[k])
            in_robot_order(log, model)
            found[k] = log
        except (GoughError, OSError) as error:
            problem = problem or str(error)
        if len(found) == min(count, len(paths)):
            break
    if not found:
        raise InvalidRecording(f"none of {len(paths)} logs can be used; the first: {problem}")
    return [found[k] for k in sorted(found)]


def frozen_job(
    robot: str,
    model: Model,
    sample: Sequence[Recording],
    processing: Processing,
    *,
    gains: Mapping[str, float] | None = None,
    tie_legs: bool = False,
    joint: bool = False,
) -> Job:
    """Return how all logs are statistics: with the processing chosen on a sample, then the same for
    every log.
    """
    payloads = tuple(dict.fromkeys(log.payload for log in sample if log.payload is not None))
    base = base_parameters(model, tie_legs=tie_legs, payloads=payloads)
    choice = choose_processing(model, sample, base, processing, gains=gains)
    return Job.of(
        robot, choice.processing, gains=gains, tie_legs=tie_legs, payloads=payloads, joint=joint
    )
