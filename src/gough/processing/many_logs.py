"""Sufficient statistics of many log files: one task a log, on any machine, kept in a folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import numpy as np

from gough import __version__
from gough.core.arrays import BoolArray, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.documents import parse_json
from gough.core.errors import GoughError, InvalidInput, InvalidRecording
from gough.core.executors import Executor
from gough.core.files import write_text
from gough.core.notices import Notice
from gough.core.options import merge_settings
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.fitting.log_statistics import (
    LogStatistics,
    key_of,
    load_log_statistics,
    merge_all,
)
from gough.fitting.regression import Regression, block_statistics
from gough.logs.readers import (
    RecordingSource,
    log_and_description,
    open_recording,
    read_recording,
)
from gough.logs.recording import Recording
from gough.mechanism import load_robot, robot_text
from gough.processing.pipeline import regression_blocks
from gough.processing.settings import PERIODIC, Processing

# Logs of at most so many bytes are read whole, checked and put on an even clock.
MAX_WHOLE_BYTES = 2**25
# File that keeps, by path of a log: its size and time of change, and the hash of its content.
INDEX_FILE = "index.json"
LOGS_PER_INDEX = 200  # the index is written after so many logs
HASHED_BYTES = 2**20  # of a file read at once
Bad = Literal["refuse", "skip"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """How statistics of logs are computed: plain text, which any process understands."""

    robot: str  # name or path of the robot file, which must be the same file everywhere
    robot_hash: str  # of its text
    processing: str  # complete settings, as JSON
    tie_legs: bool = False  # parameters that the robot file ties are the same on all legs
    payloads: tuple[str, ...] = ()  # that logs may carry
    gains: str = "null"  # drive gains by joint, as JSON; `null` for the robot file's
    joint: bool = False  # keep the rows side by side
    version: str = __version__  # of Gough

    @classmethod
    def of(
        cls,
        robot: str,
        processing: Processing,
        *,
        gains: Mapping[str, float] | None = None,
        tie_legs: bool = False,
        payloads: Sequence[str] = (),
        joint: bool = False,
    ) -> Job:
        """Return the job of a robot file and a complete processing."""
        if not processing.complete:
            raise InvalidInput(
                "statistics of many logs need a complete processing: choose it first, on a sample "
                "of the logs"
            )
        path = str(Path(robot).resolve()) if Path(robot).is_file() else robot
        return cls(
            robot=path,
            robot_hash=_hash(robot_text(path)[0]),
            processing=_text(processing.to_dict()),
            tie_legs=tie_legs,
            payloads=tuple(payloads),
            joint=joint,
            gains=_text(None if gains is None else dict(gains)),
        )

    @property
    def settings(self) -> Processing:
        """Settings of the processing."""
        return merge_settings(Processing, None, parse_json(self.processing))

    @property
    def made_from(self) -> dict[str, str]:
        """Hashes that the statistics of this job have in common."""
        return {
            "robot": self.robot_hash,
            "processing": _hash(self.processing),
            "version": self.version,
            "parameters": _hash(_text([self.tie_legs, self.payloads, self.gains, self.joint])),
        }


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4)
def robot_of(job: Job) -> tuple[Model, BaseParameters]:
    """Return the compiled robot of a job and its base parameters, once for each process."""
    if job.version != __version__:
        raise InvalidInput(
            f"this worker has version {__version__} of Gough, the work is for {job.version}; "
            "install the same version everywhere"
        )
    if _hash(robot_text(job.robot)[0]) != job.robot_hash:
        raise InvalidInput(
            f"the robot file '{job.robot}' of this worker is not the one the work is for; give all "
            "workers the same file"
        )
    model = Model(load_robot(job.robot))
    return model, base_parameters(model, tie_legs=job.tie_legs, payloads=job.payloads)


def log_hash(log: str) -> str:
    """Return the hash of the content of a log, a file or a folder, and of its description.

    The description may be named beside the log: `log.csv@its.toml`.
    """
    digest = hashlib.sha256()
    for name, file in _files_of_log(log):
        digest.update(f"{name}\n".encode("utf-8", "surrogateescape"))
        with open(file, "rb") as stream:
            while block := stream.read(HASHED_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _files_of_log(log: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a log and its description, with their names inside of a folder."""
    for name in log_and_description(log):
        if not name:
            continue
        path = Path(name)
        if not path.is_dir():
            yield "", path
            continue
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield str(file.relative_to(path)), file


def name_of(log: str) -> str:
    """Return the name of a log's file, without folder and description."""
    return Path(log_and_description(log)[0]).name


def open_log(log: str, *, averaged: bool = False) -> Recording | RecordingSource:
    """Open a log; the samples of a large file stay there if they may be read in blocks.

    Args:
        averaged: Periods are averaged, for which the log is read whole.
    """
    file, description = log_and_description(log)
    path = Path(file)
    if not averaged and path.is_file() and path.stat().st_size > MAX_WHOLE_BYTES:
        try:
            return open_recording(file, description)
        except InvalidRecording:
            pass  # needs resampling: read whole, or refused there
    return read_recording(file, description)


class _LagSums:
    """Sums of products of neighbouring equations, from which autocorrelation is estimated."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.products = np.zeros((n_rows, n_columns, n_columns))
        self.pairs = np.zeros(n_rows, np.int64)
        self._last: tuple[FloatArray, BoolArray] | None = None

    def add(self, block: Regression) -> None:
        """Add a block that follows the last one."""
        data = block.stacked()
        valid = block.valid
        if self._last is not None:
            last_data, last_valid = self._last
            data = np.concatenate([last_data, data])
            valid = np.concatenate([last_valid, valid])
        self._last = data[-1:], valid[-1:]
        self.products += np.einsum("tri,trj->rij", data[:-1], data[1:], optimize=True)
        self.pairs += (valid[:-1] & valid[1:]).sum(axis=0)


@one_blas_thread
def statistics_of_log(work: tuple[Job, str]) -> bytes:
    """Compute the sufficient statistics of one log; returns the content of their file."""
    job, log = work
    model, base = robot_of(job)
    digest = log_hash(log)
    source = open_log(log, averaged=job.settings.method in PERIODIC)
    if source.payload not in (None, *job.payloads):
        raise InvalidRecording(
            f"{source.source}: carries '{source.payload}', which is not among the payloads of this "
            f"job ({', '.join(job.payloads) or 'none'})",
            source=source.source,
        )
    lags = _LagSums(len(model.rows), len(base) + 1)

    def blocks() -> Iterator[Regression]:
        gains = parse_json(job.gains)
        for block in regression_blocks(model, source, base, job.settings, gains=gains):
            lags.add(block)
            yield block

    statistics = block_statistics(blocks(), joint=job.joint)
    return LogStatistics(
        made_from=job.made_from,
        logs=(digest,),
        sources=(name_of(log),),
        statistics=statistics,
        lagged=lags.products,
        pairs=lags.pairs,
    ).to_bytes()


@dataclass(frozen=True, kw_only=True)
class Collected:
    """Statistics of many logs in a folder, and the logs that have none."""

    folder: Path  # of the files with statistics
    keys: Mapping[str, str]  # names of the files by path of the log, sorted; without copies
    bad: Mapping[str, str] = field(default_factory=dict)  # why logs cannot be used, by path
    copies: Mapping[str, str] = field(default_factory=dict)  # the log that a log is a copy of
    skipped: int = 0  # logs whose statistics were there already

    def merged(self) -> LogStatistics:
        """Return the statistics of all logs, merged in the order of their paths."""
        files = [statistics_file(self.folder, key) for key in self.keys.values()]
        return merge_all([partial(load_log_statistics, file) for file in files])

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Return a notice for each log that is not used."""
        notices = []
        for log, reason in self.bad.items():
            text = f"left out: {reason}"
            notices.append(Notice(rule="left out", level="info", where=log, text=text))
        for log, first in self.copies.items():
            text = f"a copy of {first}, used once"
            notices.append(Notice(rule="copy", level="info", where=log, text=text))
        return tuple(notices)


def collect(
    job: Job,
    logs: Sequence[str],
    folder: str | os.PathLike[str],
    executor: Executor,
    *,
    bad: Bad = "refuse",
    progress: Callable[[float], None] | None = None,
) -> Collected:
    """Compute the statistics of logs into files of a folder, unless they are there already.

    A log whose path, size and time of change are those of an earlier run is taken as the
    same.

    Args:
        logs: Paths, `log.csv@its.toml` with a description of its own.
        bad: What to do about logs that cannot be used, once all others are done: raise, or
            leave them out.
        progress: Called with the fraction done, over all workers.

    Raises:
        InvalidRecording: Some logs are no logs of this robot, all are named; or none
            remains.
        OutputError: The folder cannot be written; files written before are kept for the
            next run.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    paths = sorted(set(logs))
    index = _read_index(place)
    hashes = _known_hashes(job, place, paths, index)
    n_known = len(hashes)
    unusable: dict[str, str] = {}
    todo = [path for path in paths if path not in hashes]
    work = [(job, path) for path in todo]
    try:
        for k, (number, outcome) in enumerate(executor.run(statistics_of_log, work)):
            path = todo[number]
            if isinstance(outcome, bytes):
                statistics = load_log_statistics(outcome, path)
                statistics.save(place)
                hashes[path] = statistics.logs[0]
                index[path] = (_stamp(path), statistics.logs[0])
            elif isinstance(outcome, GoughError | OSError):
                unusable[path] = str(outcome)
            else:
                raise outcome
            if (k + 1) % LOGS_PER_INDEX == 0:
                _write_index(place, index)
            if progress is not None:
                progress((n_known + k + 1) / len(paths))
    finally:
        _write_index(place, index)
    unusable = dict(sorted(unusable.items()))
    if unusable and (bad == "refuse" or not hashes):
        raise _unusable_logs(unusable, len(paths))
    originals: dict[str, str] = {}  # first path of each content
    copies: dict[str, str] = {}
    for path, digest in sorted(hashes.items()):
        original = originals.setdefault(digest, path)
        if original != path:
            copies[path] = original
    made_from = job.made_from
    return Collected(
        folder=place,
        keys={path: key_of(made_from, [digest]) for digest, path in originals.items()},
        bad=unusable,
        copies=copies,
        skipped=n_known,
    )


def statistics_file(folder: Path, key: str) -> Path:
    """Return the file that keeps the statistics of a key."""
    return folder / f"{key}.npz"


def _known_hashes(
    job: Job,
    folder: Path,
    paths: Sequence[str],
    index: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    """Return the hashes of logs, by path, that did not change and whose statistics are there."""
    made_from = job.made_from
    hashes = {}
    for path in paths:
        stamp, digest = index.get(path, ("", ""))
        if not stamp or stamp != _stamp(path):
            continue
        if statistics_file(folder, key_of(made_from, [digest])).is_file():
            hashes[path] = digest
    return hashes


def _unusable_logs(reasons: Mapping[str, str], n_logs: int) -> InvalidRecording:
    """Return the error that names all logs that cannot be used."""
    lines = "\n  ".join(f"{path}: {reason}" for path, reason in reasons.items())
    return InvalidRecording(
        f"{len(reasons)} of {n_logs} logs cannot be used:\n  {lines}\nremove them, or leave out "
        "what cannot be used with `bad='skip'`; the others are done and kept",
        logs=list(reasons),
    )


def _stamp(log: str) -> str:
    """Return sizes and times of change of a log and its description; empty for a folder."""
    stamps = []
    for name in log_and_description(log):
        if name:
            if not Path(name).is_file():
                return ""
            status = os.stat(name)
            stamps.append(f"{status.st_size} {status.st_mtime_ns}")
    return " ".join(stamps)


def _write_index(folder: Path, index: Mapping[str, tuple[str, str]]) -> None:
    write_text(folder / INDEX_FILE, _text(index))


def _read_index(folder: Path) -> dict[str, tuple[str, str]]:
    """Return stamp and hash of known logs by path; empty if the file cannot be read.

    The statistics are then computed again.
    """
    try:
        content = parse_json((folder / INDEX_FILE).read_text(encoding="utf-8"))
        index = {}
        for path, (stamp, digest) in content.items():
            index[str(path)] = (str(stamp), str(digest))
        return index
    except (OSError, GoughError, ValueError, TypeError, AttributeError):
        return {}
