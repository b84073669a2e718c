"""Choose the processing of many logs, too many for memory, on a sample of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gough.core.errors import GoughError, InvalidInput, InvalidRecording, StorageFault
from gough.core.executors import WorkSettings
from gough.core.options import Settings, nested, option
from gough.engine import Model, base_parameters
from gough.kernels.cache import cache_directory
from gough.logs.carrying import switching_levels
from gough.logs.recording import Recording
from gough.logs.recording_sources import RecordingSource
from gough.processing import Processing, choose_processing, in_robot_order
from gough.processing.many_logs import Bad, Carrying, Job, divide_logs, open_log

# logs that processing is chosen on, evenly spaced by name
PROCESSING_SAMPLE_LOGS = 8
MAX_SAMPLED_LENGTH = 100_000  # samples of a long log that are read for that


@dataclass(frozen=True, kw_only=True)
class FactorSettings(Settings):
    """How sufficient statistics of many logs are computed, and where they are stored."""

    heading = "Many logs, several processors"

    factors: str | None = option(
        None,
        "Folder that keeps the sufficient statistics of logs for the next start; in the user's "
        "cache by default.",
        file=True,
    )
    bad: Bad = option(
        "refuse",
        "What to do about logs that cannot be used, all of which are named.",
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


def read_beginning(log: str) -> Recording:
    """Read a log, or the beginning of one that is long."""
    source = open_log(log)
    if isinstance(source, RecordingSource):
        return next(source.blocks(MAX_SAMPLED_LENGTH))
    return source


def sample_of(
    model: Model, logs: Sequence[str], count: int = PROCESSING_SAMPLE_LOGS
) -> list[Recording]:
    """Return some logs of the robot, evenly spaced by name; only the beginning of long ones.

    Logs that cannot be used are replaced by others.
    """
    paths = sorted(set(logs))
    spaced = np.round(np.linspace(0, len(paths) - 1, count)).astype(int)
    order = dict.fromkeys([*np.unique(spaced).tolist(), *range(len(paths))])
    sample: dict[int, Recording] = {}
    first_error = ""
    for k in order:
        try:
            log = read_beginning(paths[k])
            in_robot_order(log, model)
            sample[k] = log
        except StorageFault:
            raise
        except (GoughError, OSError) as error:
            first_error = first_error or str(error)
        if len(sample) == min(count, len(paths)):
            break
    if not sample:
        raise InvalidRecording(f"none of {len(paths)} logs can be used; the first: {first_error}")
    return [sample[k] for k in sorted(sample)]


def carrying_of(model: Model, sample: Sequence[Recording], channel: str | None) -> Carrying | None:
    """Return what logs carry in parts of them: the payload of the robot file.

    Args:
        model: The robot.
        sample: Some logs, from which the levels of the signal are
            taken.
        channel: Extra channel that says when the payload is carried;
            None if there is none.
    """
    if channel is None:
        return None
    names = [payload.name for payload in model.mechanism.payloads]
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise InvalidInput(
            f"the robot file declares {len(names)} payloads ({listed}), expected one [[payload]]: "
            f"that which the channel '{channel}' shows"
        )
    off, on = switching_levels(sample, channel)
    return Carrying(channel, names[0], off, on)


def frozen_job(
    robot: str,
    model: Model,
    sample: Sequence[Recording],
    processing: Processing,
    *,
    gains: Mapping[str, float] | None = None,
    tie_legs: bool = False,
    joint: bool = False,
    carrying: Carrying | None = None,
) -> Job:
    """Choose the processing on a sample of logs, and return the job that uses it for every log."""
    sample = divide_logs(sample, carrying)
    payloads = tuple(dict.fromkeys(log.payload for log in sample if log.payload is not None))
    base = base_parameters(model, tie_legs=tie_legs, payloads=payloads)
    choice = choose_processing(model, sample, base, processing, gains=gains)
    return Job.of(
        robot,
        choice.processing,
        gains=gains,
        tie_legs=tie_legs,
        payloads=payloads,
        joint=joint,
        carrying=carrying,
    )
