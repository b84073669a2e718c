"""Sufficient statistics of many log files: one task a log, on any machine, kept in a folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.documents import parse_json
from gough.core.errors import (
    GoughError,
    InvalidInput,
    InvalidRecording,
    MissingLibrary,
    StorageFault,
)
from gough.core.executors import Executor, WorkerFault, WorkersLost, other_code
from gough.core.notices import Notice
from gough.core.options import merge_settings
from gough.core.parameters import BaseParameters
from gough.core.source_hash import source_hash
from gough.core.storage import StoredFile, is_address, place_of
from gough.engine import Model, base_parameters
from gough.fitting.log_statistics import (
    LogStatistics,
    key_of,
    load_log_statistics,
    merge_all,
)
from gough.fitting.regression import Regression, block_statistics
from gough.kernels.kernel import numerical_libraries
from gough.logs.carrying import divide_by_signal
from gough.logs.readers import log_and_description, read_recording
from gough.logs.recording import Recording
from gough.logs.recording_sources import RecordingSource, open_recording
from gough.mechanism import load_robot, robot_text
from gough.processing.log_index import LogIndex
from gough.processing.pipeline import regression_blocks
from gough.processing.settings import PERIODIC, Processing

# Logs of at most so many bytes are read whole, checked and put on an
# even clock.
MAX_WHOLE_BYTES = 2**25
# statistics files that a worker merges at a time; a power of two
FILES_PER_MERGE = 64
# Errors that say nothing about the log of a task.
NOT_THE_LOG = (WorkerFault, WorkersLost, StorageFault, MissingLibrary)
HASHED_BYTES = 2**20  # of a file read at once
Bad = Literal["refuse", "skip"]


class Carrying(NamedTuple):
    """A payload that is carried in parts of logs, as a recorded signal says."""

    channel: str  # extra channel of the logs
    payload: str  # name in the robot file
    off: float  # value of the signal below which the payload is not carried
    on: float  # value above which it is


@dataclass(frozen=True, kw_only=True)
class Job:
    """How statistics of logs are computed: plain text, which any process understands."""

    # name or path of the robot file, which must be the same file
    # everywhere
    robot: str
    robot_hash: str  # of its text
    processing: str  # complete settings, as JSON
    # parameters that the robot file ties are the same on all legs
    tie_legs: bool = False
    payloads: tuple[str, ...] = ()  # that logs may carry
    # drive gains by joint, as JSON; `null` for the robot file's
    gains: str = "null"
    joint: bool = False  # keep the rows side by side
    # a payload that is carried in parts of logs
    carrying: Carrying | None = None
    # hash of the source of Gough
    code: str = field(default_factory=source_hash)
    # versions of the libraries that compute: with others the last
    # digits may differ
    libraries: str = field(default_factory=numerical_libraries)
    # a log that every worker reads before it works; none if empty
    probe: str = ""
    # of its content, as it is read where the work is given out
    probe_hash: str = ""

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
        carrying: Carrying | None = None,
    ) -> Job:
        """Return the job of a robot file and a complete processing."""
        if not processing.complete:
            raise InvalidInput(
                "statistics of many logs need a complete processing: choose it first, on a sample "
                "of the logs"
            )
        path = robot
        if Path(robot).is_file():
            path = str(Path(robot).resolve())
        text, _ = robot_text(path)
        given_gains = None if gains is None else dict(gains)
        return cls(
            robot=path,
            robot_hash=_hash(text),
            processing=_text(processing.to_dict()),
            tie_legs=tie_legs,
            payloads=tuple(payloads),
            joint=joint,
            carrying=carrying,
            gains=_text(given_gains),
        )

    @property
    def settings(self) -> Processing:
        """Settings of the processing."""
        return merge_settings(Processing, None, parse_json(self.processing))

    @property
    def made_from(self) -> dict[str, str]:
        """Hashes that the statistics of this job have in common."""
        parameters = [
            self.tie_legs,
            self.payloads,
            self.gains,
            self.joint,
            self.carrying,
        ]
        return {
            "robot": self.robot_hash,
            "processing": _hash(self.processing),
            "code": self.code,
            "parameters": _hash(_text(parameters)),
        }


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4)
def robot_of(job: Job) -> tuple[Model, BaseParameters]:
    """Return the compiled robot of a job and its base parameters, once for each process.

    Raises:
        WorkerFault: This process has other code or another robot file,
            or cannot read the log that it should.
    """
    check_worker(job)
    model = Model(load_robot(job.robot))
    base = base_parameters(model, tie_legs=job.tie_legs, payloads=job.payloads)
    return model, base


def check_worker(job: Job) -> None:
    """Prove that this process has the code and the robot of a job, and reads a log as it is."""
    if job.code != source_hash():
        raise other_code(source_hash(), job.code)
    if job.libraries != numerical_libraries():
        raise WorkerFault(
            f"it has {numerical_libraries()}, expected {job.libraries}, with which the last digits "
            "may differ; install the same versions everywhere"
        )
    try:
        text = robot_text(job.robot)[0]
    except (OSError, GoughError) as error:
        raise WorkerFault(f"it cannot read the robot file: {error}") from None
    if _hash(text) != job.robot_hash:
        raise WorkerFault(
            f"its robot file '{job.robot}' is not the one the work is for; give all workers the "
            "same file"
        )
    if job.probe:
        try:
            digest = log_hash(job.probe)
        except OSError as error:
            raise _not_visible(job.probe, error) from None
        if digest != job.probe_hash:
            raise _other_content(job.probe)


def _not_visible(log: str, error: OSError) -> WorkerFault:
    return WorkerFault(
        f"it cannot read '{log}' ({error.strerror or error}), which can be read where the work is "
        "given out; workers must see the logs under the same paths"
    )


def _other_content(log: str) -> WorkerFault:
    return WorkerFault(
        f"under '{log}' it sees another file than the one where the work is given out; workers "
        "must see the same logs under the same paths"
    )


def log_hash(log: str) -> str:
    """Return the hash of the content of a log, a file or a folder, and of its description.

    The description may be named beside the log: `log.csv@its.toml`.
    """
    digest = hashlib.sha256()
    for name, file in _files_of_log(log):
        if isinstance(file, StoredFile):
            digest.update(file.identity().encode())
            continue
        digest.update(f"{name}\n".encode("utf-8", "surrogateescape"))
        with open(file, "rb") as stream:
            while block := stream.read(HASHED_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _files_of_log(log: str) -> Iterator[tuple[str, Path | StoredFile]]:
    """Yield the files of a log and its description, with their names inside of a folder."""
    for name in log_and_description(log):
        if not name:
            continue
        path = place_of(name)
        if isinstance(path, StoredFile) or not path.is_dir():
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
    path = place_of(file)
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

    def restart(self) -> None:
        """Begin a log, whose first block follows none."""
        self._last = None

    def add(self, block: Regression) -> None:
        """Add a block that follows the last one."""
        data = block.stacked()
        valid = block.valid
        if self._last is not None:
            last_data, last_valid = self._last
            data = np.concatenate([last_data, data])
            valid = np.concatenate([last_valid, valid])
        self._last = data[-1:], valid[-1:]
        before = data[:-1]
        after = data[1:]
        self.products += np.einsum("tri,trj->rij", before, after, optimize=True)
        self.pairs += (valid[:-1] & valid[1:]).sum(axis=0)


class LogTask(NamedTuple):
    """A log to reduce."""

    log: str  # its path, absolute
    n_bytes: int  # of its files, as seen where the work is given out


def log_task(log: str) -> LogTask:
    """Return the task of a log.

    Raises:
        OSError: It cannot be read.
    """
    path = absolute_log(log)
    n_bytes = 0
    for _, file in _files_of_log(path):
        if isinstance(file, StoredFile):
            n_bytes += file.stat().st_size
            continue
        with open(file, "rb"):
            n_bytes += os.stat(file).st_size
    return LogTask(path, n_bytes)


def absolute_log(log: str) -> str:
    """Return a log with absolute paths, of its description too."""
    file, description = log_and_description(log)
    path = _absolute(file)
    return f"{path}@{_absolute(description)}" if description else path


def _absolute(path: str) -> str:
    """Return an absolute path; an address is one."""
    return path if is_address(path) else os.path.abspath(path)


def _sources_of_log(job: Job, log: str) -> Sequence[Recording | RecordingSource]:
    """Open a log; one with a payload in parts of it is read whole and divided."""
    averaged = job.settings.method in PERIODIC
    source = open_log(log, averaged=averaged or job.carrying is not None)
    if source.payload not in (None, *job.payloads):
        raise InvalidRecording(
            f"{source.source}: carries '{source.payload}', which is not among the payloads of this "
            f"job ({', '.join(job.payloads) or 'none'})",
            source=source.source,
        )
    if isinstance(source, Recording):
        return divide_logs([source], job.carrying)
    return [source]


def divide_logs(recordings: Sequence[Recording], carrying: Carrying | None) -> list[Recording]:
    """Return the segments of logs by whether the payload is carried; those with it name it.

    The segments of a log are in the order of time. Without `carrying`
    logs remain whole.
    """
    if carrying is None:
        return list(recordings)
    levels = (carrying.off, carrying.on)
    segments = []
    for recording in recordings:
        unloaded, loaded = divide_by_signal([recording], carrying.channel, levels)
        named = [replace(segment, payload=carrying.payload) for segment in loaded]
        segments += sorted([*unloaded, *named], key=lambda segment: float(segment.time[0]))
    return segments


@one_blas_thread
def statistics_of_log(job: Job, task: LogTask) -> bytes:
    """Compute the sufficient statistics of one log; returns the content of their file.

    Raises:
        WorkerFault: This process is not fit for the job, or the store
            of the log failed; says nothing about the log.
    """
    try:
        return _reduced(job, task)
    except (StorageFault, MissingLibrary) as error:
        raise WorkerFault(str(error)) from None
    except MemoryError:
        raise WorkerFault(
            f"it has too little memory for '{task.log}'; finished logs are kept"
        ) from None
    except (GoughError, OSError) as error:
        failure = _system_failure(error)
        if failure is None:
            raise
        raise _not_visible(task.log, failure) from None


def _system_failure(error: BaseException | None) -> OSError | None:
    """Return the failure of the operating system behind an error; None if there is none.

    Damaged files lead to `OSError` too: without a number, or for a
    place before their beginning.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            return error
        error = error.__cause__
    return None


def _reduced(job: Job, task: LogTask) -> bytes:
    """Return the content of the statistics file of a log."""
    model, base = robot_of(job)
    log = task.log
    try:
        if log_task(log).n_bytes != task.n_bytes:
            raise _other_content(log)
        digest = log_hash(log)
    except OSError as error:
        raise _not_visible(log, error) from None
    sources = _sources_of_log(job, log)
    lags = _LagSums(len(model.rows), len(base) + 1)

    def blocks() -> Iterator[Regression]:
        gains = parse_json(job.gains)
        for source in sources:
            lags.restart()
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
    # names of the files by path of the log, sorted; without copies
    keys: Mapping[str, str]
    # why logs cannot be used, by path
    bad: Mapping[str, str] = field(default_factory=dict)
    # the log that a log is a copy of
    copies: Mapping[str, str] = field(default_factory=dict)
    skipped: int = 0  # logs whose statistics were there already
    # why workers were not used, by address
    faults: Mapping[str, str] = field(default_factory=dict)

    def merged(self, executor: Executor | None = None) -> LogStatistics:
        """Return the statistics of all logs, merged in the order of their paths.

        Args:
            executor: Merges branches of the tree in processes that see
                the folder; the bits are the same.
        """
        files = [statistics_file(self.folder, key) for key in self.keys.values()]
        if executor is None or len(files) <= FILES_PER_MERGE:
            return merge_all([partial(load_log_statistics, file) for file in files])
        groups = []
        for start in range(0, len(files), FILES_PER_MERGE):
            group = files[start : start + FILES_PER_MERGE]
            groups.append(tuple(str(file) for file in group))
        branches: dict[int, bytes] = {}
        for number, outcome in executor.run(merged_files, groups):
            if not isinstance(outcome, bytes):
                raise outcome
            branches[number] = outcome
        in_order = [branches[number] for number in range(len(groups))]
        return merge_all([partial(load_log_statistics, branch) for branch in in_order])

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Return a notice for each log that is not used."""
        notices = []
        for log, reason in self.bad.items():
            notices.append(_info("left out", log, f"left out: {reason}"))
        for log, first in self.copies.items():
            notices.append(_info("copy", log, f"a copy of {first}, used once"))
        for worker, reason in self.faults.items():
            notices.append(_info("worker", worker, f"this worker was not used: {reason}"))
        return tuple(notices)


def _info(rule: str, where: str, text: str) -> Notice:
    """Return a notice on a log or worker that was not used."""
    return Notice(rule=rule, level="info", where=where, text=text)


@one_blas_thread
def merged_files(files: tuple[str, ...]) -> bytes:
    """Return the content of one file of statistics for several, merged in their order."""
    statistics = merge_all([partial(load_log_statistics, file) for file in files])
    return statistics.to_bytes()


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

    A log whose path, size and time of change are those of an earlier
    run is taken as the same.

    Args:
        logs: Paths, `log.csv@its.toml` with a description of its own.
        bad: What to do about logs that cannot be used, once all others
            are done: raise, or leave them out.
        progress: Called with the fraction done, over all workers.

    Raises:
        InvalidRecording: Some logs are no logs of this robot, all are
            named; or none remains.
        WorkerFault: No worker is fit for a log that can be read here.
        OutputError: The folder cannot be written; files written before
            are kept for the next run.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    paths = sorted(set(logs))
    with LogIndex(place) as index:
        hashes = _known_hashes(job, place, paths, index)
        n_known = len(hashes)
        unusable: dict[str, str] = {}
        new_paths = [path for path in paths if path not in hashes]
        todo, tasks = _tasks(new_paths, unusable)
        work = partial(statistics_of_log, _with_probe(job, tasks))
        done = n_known + len(unusable)
        for number, outcome in executor.run(work, tasks):
            path = todo[number]
            is_error = isinstance(outcome, GoughError | OSError)
            if isinstance(outcome, bytes):
                statistics = load_log_statistics(outcome, path)
                statistics.save(place)
                digest = statistics.logs[0]
                hashes[path] = digest
                index.add(tasks[number].log, _stamp(tasks[number].log), digest)
            elif is_error and not isinstance(outcome, NOT_THE_LOG):
                unusable[path] = str(outcome)
            else:
                raise outcome
            done += 1
            if progress is not None:
                progress(done / len(paths))
    unusable = dict(sorted(unusable.items()))
    if unusable and (bad == "refuse" or not hashes):
        raise _unusable_logs(unusable, len(paths))
    originals: dict[str, str] = {}  # first path of each content
    copies: dict[str, str] = {}
    for path, digest in sorted(hashes.items()):
        original = originals.setdefault(digest, path)
        if original != path:
            copies[path] = original
    keys = {}
    for digest, path in originals.items():
        keys[path] = key_of(job.made_from, [digest])
    return Collected(
        folder=place,
        keys=keys,
        bad=unusable,
        copies=copies,
        skipped=n_known,
        faults=dict(getattr(executor, "faults", {})),
    )


def _tasks(paths: Sequence[str], unusable: dict[str, str]) -> tuple[list[str], list[LogTask]]:
    """Return logs that can be read here and their tasks; puts the others among the unusable."""
    readable = []
    tasks = []
    for path in paths:
        try:
            tasks.append(log_task(path))
            readable.append(path)
        except OSError as error:
            unusable[path] = str(error)
    return readable, tasks


def _with_probe(job: Job, tasks: Sequence[LogTask]) -> Job:
    """Return the job with the smallest log, which every worker has to read before it works."""
    if not tasks:
        return job
    smallest = min(tasks, key=lambda task: (task.n_bytes, task.log))
    return replace(job, probe=smallest.log, probe_hash=log_hash(smallest.log))


def statistics_file(folder: Path, key: str) -> Path:
    """Return the file that keeps the statistics of a key."""
    return folder / f"{key}.npz"


def _known_hashes(job: Job, folder: Path, paths: Sequence[str], index: LogIndex) -> dict[str, str]:
    """Return the hashes of logs, by path, that did not change and whose statistics are there."""
    made_from = job.made_from
    hashes = {}
    for path in paths:
        stamp, digest = index.get(absolute_log(path))
        if not stamp or stamp != _stamp(path):
            continue
        if statistics_file(folder, key_of(made_from, [digest])).is_file():
            hashes[path] = digest
    return hashes


def _unusable_logs(reasons: Mapping[str, str], n_logs: int) -> InvalidRecording:
    """Return the error that names all logs that cannot be used."""
    reasons_by_line = [f"{path}: {reason}" for path, reason in reasons.items()]
    lines = "\n  ".join(reasons_by_line)
    return InvalidRecording(
        f"{len(reasons)} of {n_logs} logs cannot be used:\n  {lines}\nremove them, or leave out "
        "what cannot be used with `bad='skip'`; the others are done and kept",
        logs=list(reasons),
    )


def _stamp(log: str) -> str:
    """Return sizes and times of change of a log and its description.

    Empty for a folder, and if there is no such file.
    """
    stamps = []
    for name in log_and_description(log):
        if name and is_address(name):
            try:
                stamps.append(StoredFile(name).stamp())
            except FileNotFoundError:
                return ""
        elif name:
            if not Path(name).is_file():
                return ""
            status = os.stat(name)
            stamps.append(f"{status.st_size} {status.st_mtime_ns}")
    return " ".join(stamps)
